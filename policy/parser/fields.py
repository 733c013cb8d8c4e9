"""Reading a rule file's tree: which fields there are, which must be there, and every fault at once.

Owns the collecting of faults with their places, and the small values that every kind of rule file has
(texts, lists of texts, ranges of releases). What a field means is its reader's business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from policy.errors import MAX_FAULTS, Fault, RulesInvalid
from policy.messages import listed, nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from policy.parser.yamltree import YamlNode

NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_SPAN: Final = 64
MORE: Final = f"more than {MAX_FAULTS} faults; what follows was not read"

T = TypeVar("T")


def note(faults: list[Fault], fault: Fault) -> None:
    """Add a fault to those that were found, and stop reading at the one that is too many.

    Raises:
        RulesInvalid: there are ``MAX_FAULTS`` already.
    """
    if len(faults) >= MAX_FAULTS:
        raise RulesInvalid((*faults, replace(fault, message=MORE)))
    faults.append(fault)


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """A half-open range of releases; ``upper`` is ``None`` where the end is open."""

    text: str
    lower: Version
    upper: Version | None

    def holds(self, release: Version) -> bool:
        """Whether the release lies in the range."""
        return self.lower <= release and (self.upper is None or release < self.upper)


class FieldReader:
    """What is wrong with one file; every method appends to ``faults`` instead of stopping, up to ``MAX_FAULTS``.

    Raises:
        RulesInvalid: from any method that finds one more.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self._shared: dict[tuple[int, Callable[..., Any]], Any] = {}

    def fault(self, node: YamlNode, message: str, *, key: bool = False) -> None:
        """Note a fault at a value, or at its key."""
        line, column = node.key if key and node.key != (0, 0) else (node.line, node.column)
        note(self.faults, Fault(self.path, line, column, message))

    def once(self, node: YamlNode, read: Callable[[YamlNode, FieldReader], T]) -> T:
        """What ``read`` returns for a node that several ranges share; it is called for the first one only."""
        key = id(node), read
        if key not in self._shared:
            self._shared[key] = read(node, self)
        found: T = self._shared[key]
        return found

    def fields(
        self, node: YamlNode, what: str, required: Collection[str], optional: Collection[str] = ()
    ) -> dict[str, YamlNode]:
        """The known fields of a map; unknown and missing ones are faults."""
        if not isinstance(node.value, dict):
            self.fault(node, f"{quoted(node.plain())} is no {what}; write a map with {listed(required)}")
            return {}
        known = [*required, *optional]
        for name, child in node.value.items():
            if name not in known:
                self.fault(
                    child,
                    f"unknown field {quoted(name)} in the {what}; legal: {listed(known)}{nearest(name, known)}",
                    key=True,
                )
        for name in required:
            if name not in node.value:
                self.fault(node, f"the {what} has no `{name}`; add it")
        return {name: child for name, child in node.value.items() if name in known}

    def items(self, node: YamlNode | None, what: str, most: int | None = None) -> list[YamlNode]:
        """The items of a list; an absent node has none, and one with more than ``most`` is a fault."""
        if node is None:
            return []
        if not isinstance(node.value, list) or not node.value:
            self.fault(node, f"{quoted(node.plain())} is no list of {what}")
            return []
        if most is not None and len(node.value) > most:
            self.fault(node, f"{len(node.value)} {what} are more than the {most} that are read")
            return []
        return node.value

    def text(self, node: YamlNode | None) -> str | None:
        """A text that is not empty, on one line, its outer blanks removed; ``None`` where there is none."""
        if node is None:
            return None
        if not isinstance(node.value, str) or not node.value.strip():
            self.fault(node, f"{quoted(node.plain())} is no text; put it in quotes")
            return None
        return node.value

    def texts(self, node: YamlNode | None, what: str, legal: Collection[str] = ()) -> tuple[str, ...]:
        """A text or a list of texts; with ``legal`` only those."""
        if node is None:
            return ()
        nodes = self.items(node, what) if isinstance(node.value, list) else [node]
        found = []
        for item in nodes:
            text = self.text(item)
            if text is not None and legal and text not in legal:
                self.fault(item, f"{quoted(text)} is none of {listed(legal)}{nearest(text, legal)}")
            elif text is not None:
                found.append(text)
        return tuple(found)

    def span(self, node: YamlNode | None) -> ReleaseRange | None:
        """A range of releases such as ``>=0.22,<0.24``; ``None`` after a fault."""
        advice = 'write a range as `">=0.22,<0.24"`, or `">=0.22"` for an open end'
        if node is None:
            return None
        if not isinstance(node.value, str):
            self.fault(
                node, f"{quoted(node.plain())} is no range of releases, and a bare number loses its zeros; {advice}"
            )
            return None
        try:
            parts = list(SpecifierSet(node.value)) if len(node.value) <= MAX_SPAN else []
        except InvalidSpecifier:
            parts = []
        bounds = {part.operator: Version(part.version) for part in parts if part.operator in {">=", "<"}}
        lower, upper = bounds.get(">="), bounds.get("<")
        if len(parts) != len(bounds) or lower is None or (upper is not None and upper <= lower):
            self.fault(node, f"{quoted(node.value)} is no range of releases; {advice}")
            return None
        return ReleaseRange(node.value, lower, upper)
