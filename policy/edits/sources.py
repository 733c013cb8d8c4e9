"""The texts of the files of a command, and which engine is written where in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from policy.edits.layers import nearest_node
from policy.pointer import steps_of
from policy.request.documents import join_documents

if TYPE_CHECKING:
    from policy.edits.layers import TextLayer
    from policy.edits.nodes import Node
    from policy.errors import RequestInvalid
    from policy.request.request import Request


class EditedEngine(Struct, frozen=True):
    """An engine of a manifest, or the deployment of a request: its file, and the steps to it in the file's documents.

    ``steps`` begin with the index of the document; ``path`` is empty for a request.
    """

    path: str
    file: str
    steps: tuple[str, ...]
    request: Request


class EditedFiles(Protocol):
    """Files that are decided together."""

    texts: dict[str, str]

    def engines(self, texts: dict[str, str]) -> list[EditedEngine | tuple[str, RequestInvalid]]:
        """The engines of the files with these texts; one that cannot be decided is its path with the error.

        Raises:
            PolicyError: the texts cannot be read.
        """

    def document(self, file: str, text: str) -> Any:
        """The documents of one file with this text.

        Raises:
            PolicyError: the text cannot be read.
        """


class PointerSteps:
    """Steps of pointers in the documents of one file. ``is_bare``: whether pointers begin in the manifest itself."""

    def __init__(self, documents: list[Any], *, is_bare: bool) -> None:
        self._is_single = len(documents) == 1
        self._joined = join_documents(documents) if documents else []
        self._is_bare = is_bare
        self._index = {id(each): n for n, each in enumerate(documents)}

    def of(self, pointer: str) -> tuple[str, ...]:
        """The steps of a request's pointer, which begin with the index of the document."""
        steps, document = steps_of(pointer), self._joined
        if self._is_single:
            return ("0", *steps)
        if not self._is_bare and isinstance(document, dict) and steps[:1] == ["manifest"]:
            steps, document = steps[1:], document["manifest"]
        if isinstance(document, list) and steps and steps[0].isdecimal() and int(steps[0]) < len(document):
            document, steps = document[int(steps[0])], steps[1:]
        return (str(self._index.get(id(document), 0)), *steps)


def located(layer: TextLayer, documents: list[Node], engine: EditedEngine) -> tuple[TextLayer, Node, Node]:
    """The text, the document of an engine, and its node, in documents that are read already."""
    document = documents[min(int(engine.steps[0]), len(documents) - 1)]
    return layer, document, nearest_node(document, engine.steps[1:])
