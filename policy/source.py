"""YAML text → a tree that knows where each thing stands.

Owns the safe reading of YAML, for rule files and for request bodies alike: bounded in size, depth and
number of nodes, without anchors and aliases, duplicate keys, tags of its own, dates or numbers that
JSON cannot hold. The events of PyYAML's scanner are taken one by one, because its own composer
recurses in C and ends the process on deep input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

from policy.errors import Fault, RulesInvalid, quoted

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
MAX_NODES: Final = 20_000
MAX_NUMBER: Final = 64

Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Content: TypeAlias = "str | int | float | bool | list[Node] | dict[str, Node] | None"


@dataclass(slots=True)
class Node:
    """A value and the place where it begins; ``key`` is the place of its key where it has one."""

    value: Content
    line: int
    column: int
    key: tuple[int, int] = (0, 0)

    def plain(self) -> Any:
        """The value without its places."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def read_yaml(text: str, path: str, max_bytes: int = MAX_BYTES) -> Node:
    """The one document in ``text``.

    Raises:
        RulesInvalid: with one fault: where the text stops being what is read here.
    """
    if len(text) > max_bytes:
        raise _refusal(path, 1, 1, f"{len(text)} characters are more than the {max_bytes} that are read")
    try:
        return _Composer(text, path).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise _refusal(path, line, column, f"not YAML: {problem}") from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position].decode(errors="ignore")  # libyaml counts bytes
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise _refusal(path, line, column, f"not YAML: {error.reason}") from error
    except UnicodeEncodeError as error:
        raise _refusal(path, 1, 1, "not YAML: a lone surrogate is no character") from error


def _refusal(path: str, line: int, column: int, message: str) -> RulesInvalid:
    return RulesInvalid([Fault(path, line, column, message)])


def _place(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    assert mark is not None  # INVARIANT: what is scanned from a text has a place
    return mark.line + 1, mark.column + 1


class _Composer:
    """One pass over the scanner's events; the stack holds what is still open."""

    def __init__(self, text: str, path: str) -> None:
        self.events = yaml.parse(text, Loader=Loader)
        self.path = path
        self.nodes = 0
        self.scalars = yaml.SafeLoader("")

    def document(self) -> Node:
        root: Node | None = None
        documents = 0
        open_nodes: list[Node] = []
        keys: list[Node | None] = []
        for event in self.events:
            match event:
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self.refusal(event, "a second document; write one document a file")
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    open_nodes.pop()
                    keys.pop()
                case yaml.AliasEvent():
                    raise self.refusal(event, f"aliases such as `*{event.anchor}` are not read; write the value out")
                case yaml.NodeEvent():
                    node = self.node(event)
                    if open_nodes:
                        self.place(open_nodes[-1], keys, node, event)
                    else:
                        root = node
                    if isinstance(node.value, dict | list):
                        if len(open_nodes) == MAX_DEPTH:
                            raise self.refusal(event, f"nested more than {MAX_DEPTH} deep")
                        open_nodes.append(node)
                        keys.append(None)
        if root is None:
            raise _refusal(self.path, 1, 1, "empty; there is no document")
        return root

    def place(self, parent: Node, keys: list[Node | None], node: Node, event: yaml.NodeEvent) -> None:
        """Put a finished or just opened node where it belongs: an item, a key that waits, or a key's value."""
        if isinstance(parent.value, list):
            parent.value.append(node)
            return
        assert isinstance(parent.value, dict)
        key = keys[-1]
        if key is None:
            if not isinstance(node.value, str):
                raise self.refusal(event, f"the key {quoted(node.plain())} is no text; put it in quotes")
            if node.value in parent.value:
                raise self.refusal(event, f"the key {quoted(node.value)} stands twice in one map; keep one")
            keys[-1] = node
            return
        assert isinstance(key.value, str)
        node.key = (key.line, key.column)
        parent.value[key.value] = node
        keys[-1] = None

    def node(self, event: yaml.NodeEvent) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.refusal(event, f"more than {MAX_NODES} values")
        if event.anchor is not None:
            raise self.refusal(event, f"anchors such as `&{event.anchor}` are not read; write the value out")
        line, column = _place(event)
        match event:
            case yaml.SequenceStartEvent():
                value: Content = []
            case yaml.MappingStartEvent():
                value = {}
            case _:
                assert isinstance(event, yaml.ScalarEvent)
                return Node(self.scalar(event), line, column)
        if event.tag not in {None, "!"}:
            raise self.refusal(event, f"the tag {quoted(event.tag)} is not read; leave it out")
        return Node(value, line, column)

    def scalar(self, event: yaml.ScalarEvent) -> str | int | float | bool | None:
        if event.tag is not None and event.tag != "!":
            raise self.refusal(event, f"the tag {quoted(event.tag)} is not read; leave it out")
        if not event.implicit[0]:
            return str(event.value)
        tag = self.scalars.resolve(yaml.ScalarNode, event.value, (True, False)).rpartition(":")[2]  # type: ignore[no-untyped-call]  # PyYAML types no resolver
        if tag not in {"null", "bool", "int", "float"}:
            return str(event.value)
        if len(event.value) > MAX_NUMBER:
            raise self.refusal(event, f"{quoted(event.value)} is no number that can be read; put it in quotes")
        try:
            value = self.scalars.construct_object(yaml.ScalarNode(f"tag:yaml.org,2002:{tag}", event.value))
        except ValueError as error:
            raise self.refusal(event, f"{quoted(event.value)} is no number that can be read; put it in quotes") from error
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refusal(event, f"{quoted(event.value)} is no finite number; put it in quotes")
        return value  # type: ignore[no-any-return]  # the four tags make exactly these types

    def refusal(self, event: yaml.Event, message: str) -> RulesInvalid:
        return _refusal(self.path, *_place(event), message)
