"""A file's text, and the YAML texts inside its strings.

Owns how an edit of a text in a string becomes an edit of the file's own text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.edits.decoded import Decoded, decoded
from policy.edits.json_nodes import json_nodes
from policy.edits.nodes import Node, node_at
from policy.edits.operations import Operation, Splice
from policy.edits.text_edits import all_text_edits
from policy.edits.yaml_nodes import yaml_nodes
from policy.errors import RulesInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.edits.nodes import Steps


MAX_LAYERS: Final = 4
"""The most texts around one in which a place is looked for: a script in a manifest in a ConfigMap has two."""
LINE_END: Final = re.compile("\n")


class TextLayer(Struct, frozen=True):
    """A text that is read as nodes; if it is the value of a string in another text, ``outer`` is that string.

    ``depth`` is the number of texts around it.
    """

    text: str
    outer: tuple[TextLayer, Node] | None = None
    depth: int = 0

    def offset(self, at: int) -> int:
        """The offset in the file of one in this text."""
        if self.outer is None:
            return at
        layer, node = self.outer
        value = decoded(layer.text, node)
        return layer.offset(node.start if value is None else value.span(at, at + 1 if at < len(value.text) else at)[0])

    def operations(self, operations: Sequence[Operation]) -> list[Operation] | None:
        """The operations in the file that have the effect of these in this text; None if one cannot be written."""
        if self.outer is None:
            return [*operations]
        layer, node = self.outer
        edits = all_text_edits(self.text, operations)
        if edits is None:
            return None
        return layer.operations([Splice(node, edit.start, edit.end, edit.text) for edit in edits])

    def value(self, node: Node) -> Decoded | None:
        """The value of a scalar of this text."""
        return decoded(self.text, node)

    def within(self, node: Node) -> tuple[TextLayer, Node] | None:
        """The text in a string, read as one YAML document; None if it is not one that is a map or list.

        A text within ``MAX_LAYERS`` others is not read, as each of them has all of its text.
        """
        if not isinstance(node.value, str) or "\n" not in node.value or self.depth == MAX_LAYERS:
            return None
        try:
            documents = yaml_nodes(node.value)
        except RulesInvalid:
            return None
        if len(documents) != 1 or not isinstance(documents[0].value, dict | list):
            return None
        return TextLayer(node.value, (self, node), self.depth + 1), documents[0]


def documents_of(text: str, name: str) -> list[Node]:
    """The documents in a file's text.

    A script or a unit, by the extension of the file's name, is the only field of an object. Any other text is read as
    JSON, or else as YAML.

    Raises:
        RulesInvalid: it cannot be read.
    """
    for ending, field in SCRIPTS:
        if name.endswith(ending):
            script = Node(text, 1, 1, start=0, end=len(text), style="whole")
            return [Node({field: script}, 1, 1, start=0, end=len(text))]
    document = json_nodes(text)
    return yaml_nodes(text, name) if document is None else [document]


SCRIPTS = ((".sh", "script"), (".service", "unit"), (".container", "unit"))


def position(text: str, offset: int) -> tuple[int, int]:
    """The line and column of an offset, counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class Lines:
    """The lines of a text, for the positions of many offsets."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in LINE_END.finditer(text)]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, counted from 1."""
        line = bisect_left(self._ends, offset)
        return line + 1, offset - (self._ends[line - 1] if line else -1)


def nearest_node(root: Node, steps: Steps) -> Node:
    """The node at steps, or at as many of them as lead to one."""
    found = None
    for count in range(len(steps), -1, -1):
        found = node_at(root, steps[:count])
        if found is not None:
            break
    return found or root
