"""YAML text → nodes with their spans.

Owns the spans: the bounds and what is legal are those of ``policy.parser.yamltree``, whose events it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from policy.edits.nodes import BLOCK, FLOW, Child, Node
from policy.parser.yamltree import MERGE, DocumentStream, compose_bounded, position_of

if TYPE_CHECKING:
    from policy.parser.yamltree import Content, YamlNode

MAX_BYTES: Final = 32 << 20
MAX_NODES: Final = 1_000_000
BREAKS: Final = "\r\n \t"


def yaml_nodes(text: str, path: str = "") -> list[Node]:
    """The documents in a YAML text that are not empty.

    Raises:
        RulesInvalid: it cannot be read.
    """
    found = compose_bounded(text, path, MAX_BYTES, lambda: [*_Spans(text, path, MAX_NODES).documents()])
    return [each for each in found if isinstance(each, Node)]


class _Spans(DocumentStream):
    """Composes documents whose nodes have spans; an alias is the node that it refers to."""

    def __init__(self, text: str, path: str, max_nodes: int) -> None:
        super().__init__(text, path, max_nodes)
        self.text = text
        self.shift = int(text.startswith("\ufeff"))  # libyaml does not count a byte order mark
        self.last = 0
        self.key_starts: list[int] = []

    def created(self, event: yaml.NodeEvent, value: Content, written: str | None) -> YamlNode:
        start, end = self._span(event)
        if isinstance(event, yaml.ScalarEvent):
            style = str(event.style or "")
            if style in {"|", ">"}:
                while end > start and self.text[end - 1] in BREAKS:
                    end -= 1
            self.last = end
        else:
            style = FLOW if isinstance(event, yaml.CollectionStartEvent) and event.flow_style else BLOCK
        return Node(value, *position_of(event), written=written, start=start, end=end, style=style)

    def alias(self, event: yaml.NodeEvent, open_nodes: list[YamlNode]) -> YamlNode:
        super().alias(event, open_nodes)
        self.last = self._span(event)[1]
        return self.anchored[event.anchor]

    def place(self, parent: YamlNode, keys: list[YamlNode | None], node: YamlNode, event: yaml.NodeEvent) -> None:
        key = keys[-1]
        is_key = isinstance(parent.value, dict) and key is None
        super().place(parent, keys, node, event)
        assert isinstance(parent, Node)
        assert isinstance(node, Node)
        start, end = self._span(event)
        if is_key:
            self.key_starts.append(start)
            return
        child = Child(node, start, alias_end=end if isinstance(event, yaml.AliasEvent) else None)
        if key is not None:
            # The starts of keys are a stack: a key's value may have keys of its own before its own end.
            child.key, child.start, child.value_start = str(key.value), self.key_starts.pop(), start
        parent.children.append(child)

    def end(self, node: YamlNode, event: yaml.Event) -> None:
        assert isinstance(node, Node)
        # A block's end event is at the next token, after the comments that follow.
        self.last = node.end = self._span(event)[1] if node.style == FLOW else self.last
        node.children = [child for child in node.children if child.key != MERGE]
        super().end(node, event)

    def _span(self, event: yaml.Event) -> tuple[int, int]:
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        return start.index + self.shift, end.index + self.shift
