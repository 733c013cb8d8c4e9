"""Read the fields of a rule file's tree, and report every fault at once.

Owns the collection of faults with their positions, and the simple values of rule files (texts, lists of texts, links,
days, ranges of releases). The meaning of a field is defined by the module that reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packaging.version import Version

from policy.errors import MAX_FAULTS, Fault, RulesInvalid
from policy.messages import as_written, listed, nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from policy.parser.yamltree import Content, YamlNode

MIN_SIMILARITY: Final = 0.75
"""The minimum similarity of a suggested field; a less similar one is often nonsense."""
RELEASE: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9}){1,3}"
RANGE_PATTERN: Final = rf">= *{RELEASE}( *, *< *{RELEASE})?|< *{RELEASE} *, *>= *{RELEASE}"
"""A range of releases, for Python and for JSON Schema."""
RANGE: Final = re.compile(RANGE_PATTERN)
DATE: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
SINGLE: Final = re.compile(rf"(?:==|~=)? *v?({RELEASE})(?:\.[x*])?")
EXAMPLE_START: Final = "0.22"
NO_START: Final = re.compile(rf"< *({RELEASE})")
START_EXCLUDED: Final = re.compile(rf"> *({RELEASE})")
END_INCLUDED: Final = re.compile(rf"<= *({RELEASE})")
RANGE_ADVICE: Final = 'write a range as `">=0.22,<0.24"`, or `">=0.22"` for an open end'
COMPARATORS: Final = "the comparators of a range are `>=` (from) and `<` (to, not included)"
TYPOGRAPHIC_QUOTES: Final = frozenset("“”„‟‘’‚«»")
BOOLEANS: Final = ("true", "false")
COMMENT: Final = "in quotes if it has a `#`, which begins a comment"
NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
EMPTY_MAP: Final[Mapping[str, str]] = MappingProxyType({})
MAX_SPAN: Final = 64
TOO_MANY_FAULTS: Final = f"more than {MAX_FAULTS} faults; the rest was not read"

T = TypeVar("T")


def described(node: YamlNode) -> str:
    """A value for a message: ``nothing`` if it is missing, and a quoted string with its quotes."""
    value = node.plain()
    if value is None or value == "":
        return "nothing"
    if isinstance(value, bool) and node.written is not None:
        return quoted(node.written)
    return as_written(value) if isinstance(value, str) and node.written is None else quoted(value)


def add_fault(faults: list[Fault], fault: Fault) -> None:
    """Add a fault, unless it is already there, as that of a value which several ranges share is.

    Raises:
        RulesInvalid: there are already ``MAX_FAULTS``.
    """
    if fault in faults:
        return
    if len(faults) >= MAX_FAULTS:
        raise RulesInvalid((*faults, replace(fault, message=TOO_MANY_FAULTS)))
    faults.append(fault)


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """The releases from ``lower`` on and, unless it is ``None``, before ``upper``; ``place`` is the line and column."""

    text: str
    lower: Version
    upper: Version | None
    place: tuple[int, int] = field(default=(1, 1), compare=False)

    def holds(self, release: Version) -> bool:
        """Whether the release is in the range."""
        return self.lower <= release and (self.upper is None or release < self.upper)


class FieldReader:
    """Reads the fields of one file and collects up to ``MAX_FAULTS`` faults.

    Raises:
        RulesInvalid: by any method, for the first fault beyond these.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self._shared: dict[tuple[int, Callable[..., Any]], Any] = {}

    def fault(self, node: YamlNode, message: str, *, key: bool = False) -> None:
        """Add a fault at a value, or at its key."""
        line, column = node.key if key and node.key != (0, 0) else (node.line, node.column)
        add_fault(self.faults, Fault(self.path, line, column, message))

    def read_once(self, node: YamlNode, read: Callable[[YamlNode, FieldReader], T]) -> T:
        """The result of ``read`` for a node that several ranges share; ``read`` is called once for each node."""
        key = id(node), read
        if key not in self._shared:
            self._shared[key] = read(node, self)
        result: T = self._shared[key]
        return result

    def fields(
        self,
        node: YamlNode,
        what: str,
        required: Collection[str],
        optional: Collection[str] = (),
        *,
        synonyms: Mapping[str, str] = EMPTY_MAP,
        elsewhere: Mapping[str, str] = EMPTY_MAP,
        examples: Mapping[str, str] = EMPTY_MAP,
    ) -> dict[str, YamlNode]:
        """The known fields of a map; unknown and missing ones are faults.

        ``synonyms`` maps other words to known fields, ``elsewhere`` a misplaced field to advice about where it belongs,
        and ``examples`` a required field to an example value.
        """
        if not isinstance(node.value, dict):
            self.fault(node, f"expected a map for the {what}, got {described(node)}; its fields are {listed(required)}")
            return {}
        known = [*required, *optional]
        for name, child in node.value.items():
            if name in elsewhere and name not in known:
                self.fault(child, f"{quoted(name)} is not a field of the {what}: {elsewhere[name]}", key=True)
            elif name not in known:
                meant = synonyms.get(name.lower().replace("-", "_"))
                near = f"; did you mean {quoted(meant)}?" if meant in known else nearest(name, known, MIN_SIMILARITY)
                self.fault(child, f"unknown field {quoted(name)} in the {what}; legal: {listed(known)}{near}", key=True)
        for name in required:
            if name not in node.value:
                example = f", such as {quoted(f'{name}: {examples[name]}')}" if name in examples else ""
                self.fault(node, f"the {what} has no `{name}`; add it{example}")
        return {name: child for name, child in node.value.items() if name in known}

    def check_booleans(self, node: YamlNode) -> None:
        """Add a fault for each boolean, such as `yes`, that YAML 1.2 (and so an editor) reads as a text."""
        match node.value:
            case bool() if node.written is not None and node.written.lower() not in BOOLEANS:
                meant = "true" if node.value else "false"
                found = f"{quoted(node.written)} is a boolean for some YAML parsers and a string for others"
                self.fault(node, f"{found}; write `{meant}`, or put it in quotes")
            case dict():
                for child in node.value.values():
                    self.check_booleans(child)
            case list():
                for child in node.value:
                    self.check_booleans(child)

    def items(self, node: YamlNode | None, what: str, limit: int | None = None) -> list[YamlNode]:
        """The items of a list, ``[]`` for an absent node or after a fault; more than ``limit`` are a fault."""
        if node is None:
            return []
        if not isinstance(node.value, list) or not node.value:
            first = next(iter(node.value), "…") if isinstance(node.value, dict) else None
            advice = f"; begin each with a dash: {quoted(f'- {first}: …')}" if first is not None else ""
            self.fault(node, f"expected a list of {what}, got {described(node)}{advice}")
            return []
        if limit is not None and len(node.value) > limit:
            self.fault(node, f"expected at most {limit} {what}, got {len(node.value)}")
            return []
        return node.value

    def text(self, node: YamlNode | None) -> str | None:
        """A text that is not blank; ``None`` for an absent node or after a fault."""
        if node is None:
            return None
        if not isinstance(node.value, str) or not node.value.strip():
            is_blank = isinstance(node.value, str)
            advice = f"write it, {COMMENT}" if node.value is None else "write it" if is_blank else "put it in quotes"
            self.fault(node, f"expected a string, got {described(node)}; {advice}")
            return None
        return node.value

    def texts(self, node: YamlNode | None, what: str, legal: Collection[str] = ()) -> tuple[str, ...]:
        """The texts of a list, or a single text; with ``legal``, all others are faults."""
        if node is None:
            return ()
        nodes = self.items(node, what) if isinstance(node.value, list) else [node]
        texts = []
        for item in nodes:
            text = self.text(item)
            if text is not None and legal and text not in legal:
                self.fault(item, f"expected one of {listed(legal)}, got {quoted(text)}{nearest(text, legal)}")
            elif text is not None:
                texts.append(text)
        return tuple(texts)

    def links(self, node: YamlNode | None) -> tuple[str, ...]:
        """The links of a list, or a single one; each begins with ``https://``."""
        found = self.texts(node, "links")
        for link in found:
            if node is not None and not link.startswith("https://"):
                advice = "write a space after the dash" if link.startswith("-") else "write the whole address"
                self.fault(node, f"expected an `https://` link, got {quoted(link)}; {advice}")
        return found

    def day(self, node: YamlNode | None) -> date | None:
        """A day such as ``2027-01-31``; ``None`` for an absent node or after a fault."""
        if node is None:
            return None
        why = "write it as `2027-01-31`"
        try:
            if isinstance(node.value, str) and DATE.fullmatch(node.value):
                return date.fromisoformat(node.value)
        except ValueError as error:
            why = f"{error}; {why}"
        self.fault(node, f"invalid date {quoted(node.plain())}; {why}")
        return None

    def span(self, node: YamlNode | None) -> ReleaseRange | None:
        """A range of releases such as ``>=0.22,<0.24``; ``None`` after a fault."""
        if node is None:
            return None
        if not isinstance(node.value, str) or len(node.value) > MAX_SPAN or not RANGE.fullmatch(node.value):
            self.fault(node, f"expected a range of releases, got {quoted(node.plain())}; {_range_advice(node.value)}")
            return None
        bounds = {part.lstrip()[0]: Version(part.strip("<>= ")) for part in node.value.split(",")}
        lower, upper = bounds[">"], bounds.get("<")
        if upper is not None and upper <= lower:
            self.fault(
                node,
                f"expected a range of releases, got {quoted(node.value)}, whose end {upper} is not after its start "
                f"{lower}; {RANGE_ADVICE}",
            )
            return None
        return ReleaseRange(node.value, lower, upper, (node.line, node.column))


def _numbers(release: str) -> list[int]:
    return list(map(int, release.split(".")))


def _range_advice(value: Content) -> str:
    """Advice for a value that is not a range of releases."""
    if isinstance(value, float):
        return f"a bare number loses its zeros; {RANGE_ADVICE}"
    if not isinstance(value, str) or len(value) > MAX_SPAN:
        return RANGE_ADVICE
    if set(value) & TYPOGRAPHIC_QUOTES:
        return f"its quotes are typographic; {RANGE_ADVICE}"
    single = SINGLE.fullmatch(value)
    if single:
        alone = f'">={single[1]},<{_after(single[1])}"'
        return f"for this release alone, write {quoted(alone)}; {COMPARATORS}"
    open_start = NO_START.fullmatch(value)
    if open_start:
        start = EXAMPLE_START if _numbers(open_start[1]) > _numbers(EXAMPLE_START) else "FIRST"
        return f"it has no start; write it as {quoted(f'>={start},<{open_start[1]}')}; {COMPARATORS}"
    excluded = START_EXCLUDED.match(value)
    if excluded:
        return f"name the first release that is in it, such as {quoted(f'>={_after(excluded[1])}')}; {COMPARATORS}"
    included = END_INCLUDED.search(value)
    if included:
        return f"name the first release that is not in it, such as {quoted(f'<{_after(included[1])}')}; {COMPARATORS}"
    return f"{RANGE_ADVICE}; {COMPARATORS}"


def _after(release: str) -> str:
    """The release with its last number increased by one."""
    head, dot, last = release.rpartition(".")
    return f"{head}{dot}{int(last) + 1}"
