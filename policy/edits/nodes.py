"""The values in a text, each with the span of the text that it occupies.

Owns the types of the tree, which JSON and YAML share. ``yaml_nodes`` and ``json_nodes`` read texts into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from policy.parser.yamltree import YamlNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FLOW, BLOCK = "flow", "block"
PLAIN, SINGLE, DOUBLE, LITERAL, FOLDED = "", "'", '"', "|", ">"
WHOLE_TEXT = "whole"
"""The style of a scalar that is the whole of a text, such as a script."""


@dataclass(slots=True)
class Node(YamlNode):
    """A value with its span: ``start`` and ``end`` are offsets of characters in the text.

    ``style`` is that of a scalar, or ``flow`` or ``block`` for a map or list. ``children`` has the items of a list or
    the fields of a map that are written in it, without those of a merge key.
    """

    start: int = 0
    end: int = 0
    style: str = PLAIN
    children: list[Child] = field(default_factory=list)
    is_json: bool = False


@dataclass(slots=True)
class Child:
    """An item or field as it is written: ``start`` is the key's, or the item's; ``alias_end`` is set for an alias."""

    node: Node
    start: int
    key: str | None = None
    value_start: int = 0
    alias_end: int | None = None

    @property
    def end(self) -> int:
        """Where the value ends, as written here."""
        return self.node.end if self.alias_end is None else self.alias_end


Steps: TypeAlias = tuple["str | int", ...]


def node_at(root: Node, steps: Steps) -> Node | None:
    """The node at keys and indexes; None if there is none."""
    node: YamlNode = root
    for step in steps:
        value = node.value
        if isinstance(value, dict) and str(step) in value:
            node = value[str(step)]
        elif isinstance(value, list) and str(step).isdecimal() and len(str(step)) < 9 and int(step) < len(value):  # noqa: PLR2004  # digits
            node = value[int(step)]
        else:
            return None
    assert isinstance(node, Node)
    return node


def is_named(node: Node, parent: Node | None, names: Iterable[str]) -> bool:
    """Whether a node is written in its parent under one of the names.

    The parent's fields are searched only if its value has the node under the name, which may also be by a merge key.
    """
    if parent is None or not isinstance(parent.value, dict):
        return False
    found = [name for name in names if parent.value.get(name) is node]
    return bool(found) and any(child.node is node and child.key in found for child in parent.children)


def subtree(root: Node, limit: int) -> Iterator[tuple[Node | None, Node]]:
    """Each node at and below one, in the order of the text, with its parent; at most ``limit``."""
    pending: list[tuple[Node | None, Node]] = [(None, root)]
    seen: set[int] = set()
    while pending and limit:
        parent, node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        limit -= 1
        yield parent, node
        value = node.value
        below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        pending.extend((node, each) for each in reversed([*below]) if isinstance(each, Node))
