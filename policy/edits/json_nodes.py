"""JSON text → nodes with their spans.

Reads texts that ``policy.parser.jsontext`` has read before, or pieces of text that may be JSON, such as the value of an
option.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, Final

from policy.edits.nodes import DOUBLE, FLOW, PLAIN, Child, Node
from policy.parser.jsontext import MAX_DEPTH, NotJson, read_json

SEPARATORS: Final = re.compile(r"[ \t\r\n,:]*+")
SCALARS: Final = json.JSONDecoder(strict=False)


def json_nodes(text: str) -> Node | None:
    """The document in a text; None if it is not JSON, or if an object has a key twice, as only one would count."""
    try:
        read_json(text.encode())
    except (NotJson, UnicodeEncodeError):
        return None
    try:
        return _JsonScanner(text).document()
    except (ValueError, IndexError):
        return None


def placed_json(text: str) -> Node | None:
    """The document in a text as ``json_nodes`` reads it, each node with its line and column, in characters from 1."""
    root = json_nodes(text)
    if root is None:
        return None
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    pending = [root]
    while pending:
        node = pending.pop()
        node.line = bisect_right(starts, node.start)
        node.column = node.start - starts[node.line - 1] + 1
        pending += [child.node for child in node.children]
    return root


class _JsonScanner:
    """Scans valid JSON; a stack holds the open nodes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Node:
        root: Node | None = None
        stack: list[Node] = []
        key: tuple[str, int] | None = None
        while True:
            start = self.at = SEPARATORS.match(self.text, self.at).end()  # type: ignore[union-attr]  # it may be empty
            if start == len(self.text):
                break
            character = self.text[start]
            if character in "]}":
                self.at += 1
                stack.pop().end = self.at
            elif character == '"' and stack and isinstance(stack[-1].value, dict) and key is None:
                key = self._string(), start
            else:
                node = self._node(character)
                if stack:
                    self._add(stack[-1], node, key)
                    key = None
                root = root or node
                if character in "[{":
                    stack.append(node)
                    if len(stack) > MAX_DEPTH:
                        raise ValueError
        if root is None or stack:
            raise ValueError
        return root

    def _add(self, parent: Node, node: Node, key: tuple[str, int] | None) -> None:
        if isinstance(parent.value, list):
            parent.value.append(node)
            parent.children.append(Child(node, node.start, value_start=node.start))
        elif isinstance(parent.value, dict):
            if key is None or key[0] in parent.value:
                raise ValueError
            parent.value[key[0]] = node
            parent.children.append(Child(node, key[1], key[0], node.start))

    def _node(self, character: str) -> Node:
        start = self.at
        value: Any
        if character in "[{":
            self.at += 1
            value, style = ([] if character == "[" else {}), FLOW
        elif character == '"':
            value, style = self._string(), DOUBLE
        else:
            value, style = self._scalar(), PLAIN
        return Node(value, 0, 0, start=start, end=self.at, style=style, is_json=True)

    def _string(self) -> str:
        return str(self._scalar())

    def _scalar(self) -> Any:
        value, self.at = SCALARS.raw_decode(self.text, self.at)
        return value
