"""The edits of a text: a piece of a scalar replaced, children removed, a child added.

Owns what each does to the tree, so that the new text can be compared with the document that is expected. How each is
written: `text_edits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from policy.errors import RulesInvalid
from policy.parser.yamltree import YamlNode, read_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.edits.nodes import Child, Node


class TextEdit(Struct, frozen=True, order=True):
    """A span of a text and what replaces it."""

    start: int
    end: int
    text: str


class Splice(Struct, frozen=True):
    """The characters from ``start`` to ``end`` of a scalar's value, replaced by ``text``."""

    node: Node
    start: int
    end: int
    text: str


class ChildRemoval(Struct, frozen=True):
    """Children removed from a list or map."""

    parent: Node
    children: tuple[Child, ...]


class Addition(Struct, frozen=True):
    """A child added at the end of a list, or of a map under ``key``. Its value is a text, or an object of texts."""

    parent: Node
    key: str | None
    value: str | bool | dict[str, str] | Sequence[dict[str, str] | str]


Operation: TypeAlias = Splice | ChildRemoval | Addition


def edited(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with edits that do not overlap."""
    parts, at = [], 0
    for edit in sorted(edits):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*parts, text[at:]))


def apply(operations: Sequence[Operation]) -> bool:
    """Apply the operations to the tree; return false if they cannot be applied together."""
    splices: dict[int, list[Splice]] = {}
    for operation in operations:
        if isinstance(operation, Splice):
            splices.setdefault(id(operation.node), []).append(operation)
        elif isinstance(operation, ChildRemoval):
            if not _remove(operation.parent, operation.children):
                return False
        else:
            _add(operation)
    done = [_splice_value(each) for each in splices.values()]
    return all(done)


def _splice_value(splices: list[Splice]) -> bool:
    node = splices[0].node
    value = node.value if isinstance(node.value, str) else node.written
    if value is None:
        return False
    value = edited(value, [TextEdit(each.start, each.end, each.text) for each in splices])
    if node.written is not None:
        try:
            node.value = read_yaml(value, "").value
        except RulesInvalid:
            return False
        node.written = value
    else:
        node.value = value
    return True


def _remove(parent: Node, children: Sequence[Child]) -> bool:
    """Remove children from a list or map; return false if it does not have all of them."""
    gone = {id(child) for child in children}
    places = {n for n, each in enumerate(parent.children) if id(each) in gone}
    if len(places) < len(gone):
        return False
    if isinstance(parent.value, list):
        parent.value[:] = [each for n, each in enumerate(parent.value) if n not in places]
    elif isinstance(parent.value, dict):
        for child in children:
            parent.value.pop(child.key or "", None)
    parent.children[:] = [each for n, each in enumerate(parent.children) if n not in places]
    return True


def _add(operation: Addition) -> None:
    value = operation.parent.value
    new = _as_node(operation.value)
    if isinstance(value, list):
        value.append(new)
    elif isinstance(value, dict):
        value[operation.key or ""] = new


def _as_node(value: Any) -> YamlNode:
    if isinstance(value, dict):
        return YamlNode({key: YamlNode(text, 0, 0) for key, text in value.items()}, 0, 0)
    return YamlNode([_as_node(each) for each in value] if isinstance(value, list) else value, 0, 0)
