"""YAML text → the value that PyYAML's ``safe_load`` returns, within bounds.

Owns the reading of files that vLLM itself reads with ``yaml.safe_load``: scalars of YAML 1.1 with dates, aliases, merge
keys with their precedence, and the last of duplicate keys. One pass over the events first limits the depth and the
numbers of values and characters, all with aliases expanded, because PyYAML's composer recurses and merge keys copy.
That pass uses libyaml, which is fast but differs in details, such as tabs before comments. Then PyYAML itself
constructs the value. Other YAML is read by ``yamltree``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from policy.messages import quoted
from policy.parser.scalars import MAX_NUMBER
from policy.parser.yamltree import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    Loader,
    compose_bounded,
    position_of,
    refusal_at,
    shown_tag,
    too_many,
)

if TYPE_CHECKING:
    from policy.errors import RulesInvalid

STANDARD: Final = "tag:yaml.org,2002:"
TAGS: Final = frozenset({None, f"{STANDARD}str", f"{STANDARD}map", f"{STANDARD}seq"})
"""The supported tags; the constructors of others raise errors of any type for an invalid value."""
PARSED_TAGS: Final = frozenset({f"{STANDARD}int", f"{STANDARD}float", f"{STANDARD}timestamp"})
"""The tags of plain scalars whose text can still be invalid, such as the date ``2026-02-30``."""


def safe_load(text: str, path: str, max_bytes: int = MAX_BYTES) -> Any:
    """The one document in ``text``, as PyYAML's ``safe_load`` returns it; ``None`` if it is empty.

    Raises:
        RulesInvalid: with one fault, at the first position that cannot be read.
    """

    def load() -> Any:
        _Bounds(text, path, max_bytes).check()
        return yaml.safe_load(text)

    return compose_bounded(text, path, max_bytes, load)


@dataclass(frozen=True, slots=True)
class _Size:
    """The numbers of values, levels and characters in a complete value, with aliases expanded."""

    values: int
    levels: int
    characters: int


@dataclass(slots=True)
class _OpenCollection:
    """A map or list whose end was not read yet; ``values`` and ``characters`` are the totals before it."""

    anchor: str | None
    values: int
    characters: int
    levels: int = 1


class _Bounds:
    """Checks the bounds of a text in one pass over its events."""

    def __init__(self, text: str, path: str, max_characters: int) -> None:
        self.events = yaml.parse(text, Loader=Loader)
        self.path = path
        self.max_characters = max_characters
        self.scalars = yaml.SafeLoader("")
        self.documents = 0
        self.values = 0
        self.characters = 0
        self.open: list[_OpenCollection] = []
        self.anchored: dict[str | None, _Size] = {}

    def check(self) -> None:
        """Raise the fault of the first event that exceeds a bound or cannot be read."""
        for event in self.events:
            match event:
                case yaml.DocumentStartEvent():
                    self.documents += 1
                    if self.documents > 1:
                        raise self.refusal(event, "a second document; write one document per file")
                case yaml.AliasEvent():
                    self.alias(event)
                case yaml.ScalarEvent():
                    self.scalar(event)
                case yaml.CollectionStartEvent():
                    self.begin(event)
                case yaml.CollectionEndEvent():
                    self.end()

    def add(self, event: yaml.NodeEvent, size: _Size) -> None:
        """Count a value, and check the bounds."""
        self.values += size.values
        self.characters += size.characters
        if self.values > MAX_NODES:
            raise self.refusal(event, too_many(MAX_NODES))
        if self.characters > self.max_characters:
            raise self.refusal(event, f"more than {self.max_characters} characters with aliases written out")
        if len(self.open) + size.levels > MAX_DEPTH:
            raise self.refusal(event, f"nested more than {MAX_DEPTH} deep")
        if self.open:
            self.open[-1].levels = max(self.open[-1].levels, 1 + size.levels)

    def alias(self, event: yaml.AliasEvent) -> None:
        if any(each.anchor == event.anchor for each in self.open):
            raise self.refusal(event, f"the alias `*{event.anchor}` refers to a value that contains it")
        if event.anchor in self.anchored:  # PyYAML reports an unknown one
            self.add(event, self.anchored[event.anchor])

    def scalar(self, event: yaml.ScalarEvent) -> None:
        self.check_tag(event)
        size = _Size(1, 0, len(event.value))
        self.add(event, size)
        if event.anchor is not None:
            self.anchored[event.anchor] = size
        if event.tag is None:
            tag = self.scalars.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]  # PyYAML types no resolver
            if tag in PARSED_TAGS:
                self.parse(event, tag)

    def parse(self, event: yaml.ScalarEvent, tag: str) -> None:
        """Check a number or a date; PyYAML's error would have no position."""
        if len(event.value) > MAX_NUMBER:
            raise self.refusal(event, f"invalid number {quoted(event.value)}; put it in quotes")
        try:
            self.scalars.construct_object(yaml.ScalarNode(tag, event.value))
        except (ValueError, OverflowError) as error:
            what = "date" if tag == f"{STANDARD}timestamp" else "number"
            raise self.refusal(event, f"invalid {what} {quoted(event.value)}; put it in quotes") from error

    def begin(self, event: yaml.CollectionStartEvent) -> None:
        self.check_tag(event)
        opened = _OpenCollection(event.anchor, self.values, self.characters)
        self.add(event, _Size(1, 1, 0))
        self.open.append(opened)

    def end(self) -> None:
        ended = self.open.pop()
        size = _Size(self.values - ended.values, ended.levels, self.characters - ended.characters)
        if ended.anchor is not None:
            self.anchored[ended.anchor] = size
        if self.open:
            self.open[-1].levels = max(self.open[-1].levels, 1 + size.levels)

    def check_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag not in TAGS:
            raise self.refusal(event, f"the tag {shown_tag(str(event.tag))} is not supported; remove it")

    def refusal(self, event: yaml.Event, message: str) -> RulesInvalid:
        return refusal_at(self.path, *position_of(event), message)
