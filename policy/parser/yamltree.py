"""YAML text → a tree with the position of each value.

Owns the safe reading of YAML for rule files, request bodies and manifests: bounded in size, depth and number of nodes,
without duplicate keys, custom tags, dates or numbers that JSON cannot represent. A rule file is one document without
aliases or merge keys. A body or manifest may have several documents and aliases, each counted as the nodes that it
refers to. PyYAML's events are processed one by one, because its own composer recurses in C and crashes the process on
deep input.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import yaml

from policy.errors import Fault, LimitExceeded, RulesInvalid
from policy.masking import HIDDEN, MIN_VALUE
from policy.messages import quoted
from policy.parser.scalars import NumberTooLong, scalar_value
from policy.parser.yaml_advice import explain, explain_template
from policy.secret_values import SecretValues
from policy.stated_secrets import secrets_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
MAX_NODES: Final = 20_000
MAX_DIRECTIVES: Final = 100
MERGE: Final = "<<"
HIDDEN_BREAK: Final = re.compile(r"[\x85\u2028\u2029]|\r(?!\n)")
"""Matches a character that is a line break in YAML 1.1 and not in Git."""
EMPTY: Final = "empty; expected a document"

Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

T = TypeVar("T")

Content: TypeAlias = "str | int | float | bool | list[YamlNode] | dict[str, YamlNode] | None"


class YamlTooLarge(RulesInvalid, LimitExceeded):
    """The text may be YAML, but has more characters, levels, values or digits than are read."""


@dataclass(slots=True)
class YamlNode:
    """A value and the position where it begins.

    ``key`` is the position of its key, if it has one. ``written`` is the text of a scalar without quotes, which other
    YAML parsers may resolve to another value.
    """

    value: Content
    line: int
    column: int
    key: tuple[int, int] = (0, 0)
    written: str | None = None

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def read_yaml(text: str, path: str, max_bytes: int = MAX_BYTES, *, quotes_line: bool = False) -> YamlNode:
    """The one document in ``text``; with ``quotes_line``, the message for invalid YAML may contain a line of it.

    Raises:
        RulesInvalid: with one fault, at the first position that cannot be read.
    """
    return compose_bounded(text, path, max_bytes, lambda: _Composer(text, path).document(), quotes_line=quotes_line)


def read_rule_file(text: str, path: str) -> YamlNode:
    """The one document of a file of rules or cases; the message for invalid YAML may contain a line of it.

    A character that is a line break in YAML and not in Git is refused, as it hides a key in what looks like a comment.

    Raises:
        RulesInvalid: with one fault, at the first position that cannot be read.
    """

    def compose() -> YamlNode:
        found = HIDDEN_BREAK.search(text)
        if found is not None:
            before = text[: found.start()]
            message = f"U+{ord(found[0]):04X} begins a new line in YAML, but not in Git and in most editors"
            advice = f"remove the character, or write it as `\\u{ord(found[0]):04x}` in double quotes"
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            raise refusal_at(path, line, column, f"{message}; {advice}")
        return _Composer(text, path).document()

    return compose_bounded(text, path, MAX_BYTES, compose, quotes_line=True)


def read_documents(
    text: str,
    path: str,
    max_bytes: int = MAX_BYTES,
    max_nodes: int = MAX_NODES,
    resolve: Callable[[YamlNode], None] | None = None,
) -> list[Any]:
    """The documents in ``text`` that are not empty, with aliases and merge keys resolved.

    ``resolve`` may change the values of a document while it still has positions and written texts.

    Raises:
        RulesInvalid: with one fault, at the first position that cannot be read. It shows no secret of the text.
    """

    def plain(document: YamlNode) -> Any:
        if resolve is not None:
            resolve(document)
        return document.plain()

    try:
        found = compose_bounded(
            text,
            path,
            max_bytes,
            lambda: [plain(document) for document in DocumentStream(text, path, max_nodes).documents()],
        )
    except RulesInvalid as error:
        (fault,) = error.faults
        if fault.message == too_many(max_nodes) or len(text) > max_bytes:
            raise
        template = explain_template(text)
        if template is not None:
            raise refusal_at(path, template.line, template.column, template.message) from error
        message = SecretValues(secrets_of_text(text)).hidden(fault.message)
        raise type(error)([Fault(path, fault.line, fault.column, message)]) from error
    if not found:
        raise refusal_at(path, 1, 1, EMPTY)
    return found


def too_many(limit: int) -> str:
    """The message for a text with more than ``limit`` values."""
    return f"more than {limit} values"


def compose_bounded(text: str, path: str, max_bytes: int, compose: Callable[[], T], *, quotes_line: bool = False) -> T:
    """The result of ``compose`` for a text of at most ``max_bytes`` characters; PyYAML's errors become faults.

    Raises:
        RulesInvalid: with one fault, at the first position that cannot be read.
    """
    if len(text) > max_bytes:
        raise YamlTooLarge([Fault(path, 1, 1, f"expected at most {max_bytes} characters, got {len(text)}")])
    # The scanner compares each directive with all earlier ones; tags are not supported anyway.
    if text.count("%TAG") > MAX_DIRECTIVES:
        raise YamlTooLarge([Fault(path, 1, 1, f"more than {MAX_DIRECTIVES} `%TAG` directives; remove them")])
    try:
        return compose()
    except yaml.MarkedYAMLError as error:
        found = explain(text, error, Loader, quotes_line=quotes_line)
        raise refusal_at(path, found.line, found.column, f"not YAML: {found.message}") from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position].decode(errors="ignore")  # libyaml counts bytes
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise refusal_at(path, line, column, f"not YAML: {error.reason}; remove the character") from error
    except UnicodeEncodeError as error:
        raise refusal_at(path, 1, 1, "not YAML: a lone surrogate") from error


def refusal_at(path: str, line: int, column: int, message: str) -> RulesInvalid:
    """The error for one fault, at a position."""
    return RulesInvalid([Fault(path, line, column, message)])


def position_of(event: yaml.Event) -> tuple[int, int]:
    """The line and column where an event begins, counted from 1."""
    mark = event.start_mark
    assert mark is not None  # INVARIANT: an event scanned from a text has a position
    return mark.line + 1, mark.column + 1


YAML_TAG: Final = re.compile(r"tag:yaml\.org,2002:[a-z/:._]{0,64}")
"""Matches a tag of YAML's own types, or of a Python object."""


def shown_tag(tag: str) -> str:
    """A tag in a message: one of YAML's own, or its beginning, since a password may begin as a tag does."""
    return quoted(tag) if YAML_TAG.fullmatch(tag) is not None else _shown(tag)


def _shown(name: str) -> str:
    """The name of a tag or an alias, or its beginning if it is as long as a password."""
    return quoted(name if len(name) <= MIN_VALUE else name[:1] + HIDDEN)


class _Composer:
    """Composes a document in one pass over the events; a stack holds the open nodes."""

    def __init__(self, text: str, path: str, max_nodes: int = MAX_NODES) -> None:
        self.events = yaml.parse(text, Loader=Loader)
        self.path = path
        self.nodes = 0
        self.document_count = 0
        self.max_nodes = max_nodes

    def document(self) -> YamlNode:
        roots = list(self.roots())
        if not roots:
            raise refusal_at(self.path, 1, 1, EMPTY)
        return roots[0]

    def roots(self) -> Iterator[YamlNode]:
        """The documents, one after the other."""
        open_nodes: list[YamlNode] = []
        keys: list[YamlNode | None] = []
        for event in self.events:
            match event:
                case yaml.DocumentStartEvent():
                    self.begin(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    ended = open_nodes.pop()
                    keys.pop()
                    self.end(ended, event)
                    if not open_nodes:
                        yield ended
                case yaml.AliasEvent() | yaml.NodeEvent():
                    is_alias = isinstance(event, yaml.AliasEvent)
                    node = self.alias(event, open_nodes) if is_alias else self.node(event)
                    if open_nodes:
                        self.place(open_nodes[-1], keys, node, event)
                    if isinstance(node.value, dict | list) and not is_alias:
                        if len(open_nodes) == MAX_DEPTH:
                            raise self.too_large(event, f"nested more than {MAX_DEPTH} deep")
                        open_nodes.append(node)
                        keys.append(None)
                    elif not open_nodes:
                        yield node

    def begin(self, event: yaml.Event) -> None:
        """Start a document; only one is allowed."""
        self.document_count += 1
        if self.document_count > 1:
            raise self.refusal(event, "a second document; write one document per file, and remove the `---`")

    def count(self, event: yaml.NodeEvent, nodes: int) -> None:
        """Add to the number of values, which is limited."""
        self.nodes += nodes
        if self.nodes > self.max_nodes:
            raise self.too_large(event, too_many(self.max_nodes))

    def anchor(self, event: yaml.NodeEvent) -> None:
        """Handle an anchor: refused in a single document."""
        raise self.refusal(
            event,
            f"anchors such as `&{event.anchor}` are not supported; repeat the value, or put a text that begins with "
            "`&` in quotes",
        )

    def alias(self, event: yaml.NodeEvent, open_nodes: list[YamlNode]) -> YamlNode:  # noqa: ARG002  # used by DocumentStream
        """The node of an alias: refused in a single document."""
        raise self.refusal(
            event,
            f"aliases such as `*{event.anchor}` are not supported; repeat the value, or put a text that begins with "
            "`*` in quotes",
        )

    def end(self, node: YamlNode, event: yaml.Event) -> None:  # noqa: ARG002  # used by DocumentStream
        """Finish a map or list; merge keys are refused in a single document."""
        if isinstance(node.value, dict) and MERGE in node.value:
            position = node.value[MERGE].key
            raise refusal_at(self.path, *position, f"merge keys (`{MERGE}`) are not supported; repeat the fields")

    def place(self, parent: YamlNode, keys: list[YamlNode | None], node: YamlNode, event: yaml.NodeEvent) -> None:
        """Add a node to its parent, as an item, a key or a value."""
        if isinstance(parent.value, list):
            parent.value.append(node)
            return
        assert isinstance(parent.value, dict)
        key = keys[-1]
        if key is None:
            if not isinstance(node.value, str):
                found = quoted(node.plain() if node.written is None else node.written)
                raise self.refusal(event, f"expected a string as key, got {found}; put it in quotes")
            if node.value in parent.value:
                raise self.refusal(event, f"duplicate key {quoted(node.value)}; keep one, or merge the two")
            keys[-1] = node
            return
        assert isinstance(key.value, str)
        node.key = (key.line, key.column)
        parent.value[key.value] = node
        keys[-1] = None

    def node(self, event: yaml.NodeEvent) -> YamlNode:
        self.count(event, 1)
        if event.anchor is not None:
            self.anchor(event)
        match event:
            case yaml.SequenceStartEvent():
                value: Content = []
            case yaml.MappingStartEvent():
                value = {}
            case _:
                assert isinstance(event, yaml.ScalarEvent)
                written = str(event.value) if event.implicit[0] and event.tag is None else None
                return self.created(event, self.scalar(event), written)
        if event.tag not in {None, "!"}:
            raise self.tagged(event, event.tag)
        return self.created(event, value, None)

    def created(self, event: yaml.NodeEvent, value: Content, written: str | None) -> YamlNode:
        """The node of a value; a subclass may keep more of its event."""
        return YamlNode(value, *position_of(event), written=written)

    def tagged(self, event: yaml.Event, tag: str) -> RulesInvalid:
        advice = "remove it, or put a text that begins with `!` in quotes"
        return self.refusal(event, f"the tag {shown_tag(tag)} is not supported; {advice}")

    def scalar(self, event: yaml.ScalarEvent) -> str | int | float | bool | None:
        if event.tag is not None and event.tag != "!":
            raise self.tagged(event, event.tag)
        if not event.implicit[0]:
            return str(event.value)
        try:
            value = scalar_value(event.value)
        except NumberTooLong as error:
            raise self.too_large(event, f"invalid number {quoted(event.value)}; put it in quotes") from error
        if isinstance(value, float) and not math.isfinite(value):
            raise self.refusal(event, f"expected a finite number, got {quoted(event.value)}; put it in quotes")
        return value

    def refusal(self, event: yaml.Event, message: str) -> RulesInvalid:
        return refusal_at(self.path, *position_of(event), message)

    def too_large(self, event: yaml.Event, message: str) -> YamlTooLarge:
        return YamlTooLarge([Fault(self.path, *position_of(event), message)])


class DocumentStream(_Composer):
    """Composes documents with aliases.

    An alias shares the node that it refers to and counts as all nodes in it, so the expanded document is bounded too.
    ``sizes`` maps the identity of a map's or list's content to its numbers of nodes and levels.
    """

    def __init__(self, text: str, path: str, max_nodes: int) -> None:
        super().__init__(text, path, max_nodes)
        self.pending_anchor: str | None = None
        self.anchored: dict[str | None, YamlNode] = {}
        self.sizes: dict[int, tuple[int, int]] = {}

    def documents(self) -> Iterator[YamlNode]:
        """The documents that are not empty."""
        for root in self.roots():
            if root.value is not None:
                yield root
            self.anchored.clear()
            self.sizes.clear()

    def begin(self, event: yaml.Event) -> None:
        """Start a document; several are allowed."""

    def anchor(self, event: yaml.NodeEvent) -> None:
        """Remember the anchor for its node."""
        self.pending_anchor = event.anchor

    def node(self, event: yaml.NodeEvent) -> YamlNode:
        """The node of an event, kept under its anchor."""
        node = super().node(event)
        if self.pending_anchor is not None:
            self.anchored[self.pending_anchor] = node
            self.pending_anchor = None
        return node

    def alias(self, event: yaml.NodeEvent, open_nodes: list[YamlNode]) -> YamlNode:
        """The node of an alias, which counts as all nodes in it."""
        node = self.anchored.get(event.anchor)
        if node is None:
            raise self.refusal(event, f"the alias {_shown(f'*{event.anchor}')} has no anchor before it")
        if any(node is each for each in open_nodes):
            raise self.refusal(event, f"the alias `*{event.anchor}` refers to a value that contains it")
        size, levels = self.size(node)
        self.count(event, size)
        if len(open_nodes) + levels > MAX_DEPTH:
            raise self.too_large(event, f"nested more than {MAX_DEPTH} deep")
        return YamlNode(node.value, *position_of(event), written=node.written)

    def size(self, node: YamlNode) -> tuple[int, int]:
        """The numbers of nodes and levels in a complete node."""
        return self.sizes[id(node.value)] if isinstance(node.value, dict | list) else (1, 0)

    def end(self, node: YamlNode, event: yaml.Event) -> None:
        """Finish a map or list: resolve its merge keys, and keep its size."""
        assert isinstance(node.value, dict | list)
        if isinstance(node.value, dict) and MERGE in node.value:
            self.merge(node.value, event)
        children = node.value.values() if isinstance(node.value, dict) else node.value
        sizes = [self.size(child) for child in children]
        keys = len(sizes) if isinstance(node.value, dict) else 0
        self.sizes[id(node.value)] = (
            1 + keys + sum(size for size, _ in sizes),
            1 + max((levels for _, levels in sizes), default=0),
        )

    def merge(self, content: dict[str, YamlNode], event: yaml.Event) -> None:
        """Add the keys of the maps under ``<<`` that the map itself does not have."""
        merged = content.pop(MERGE)
        for source in merged.value if isinstance(merged.value, list) else [merged]:
            if not isinstance(source.value, dict):
                raise self.refusal(
                    event, f"expected a map or a list of maps under `{MERGE}`, got {quoted(source.plain())}"
                )
            for key, child in source.value.items():
                content.setdefault(key, child)
