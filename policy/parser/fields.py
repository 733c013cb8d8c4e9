"""Read the fields of a rule file's tree, and report every fault at once.

Owns the collection of faults with their positions, and the small values that every kind of rule file has (texts, lists
of texts, ranges of releases). What a field means is defined by the module that reads it.
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
MORE: Final = f"more than {MAX_FAULTS} faults; the rest was not read"

T = TypeVar("T")


def note(faults: list[Fault], fault: Fault) -> None:
    """Add a fault, or stop reading if there are too many.

    Raises:
        RulesInvalid: there are ``MAX_FAULTS`` already.
    """
    if len(faults) >= MAX_FAULTS:
        raise RulesInvalid((*faults, replace(fault, message=MORE)))
    faults.append(fault)


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """A half-open range of releases; ``upper`` is ``None`` if the end is open."""

    text: str
    lower: Version
    upper: Version | None

    def holds(self, release: Version) -> bool:
        """Whether the release is in the range."""
        return self.lower <= release and (self.upper is None or release < self.upper)


class FieldReader:
    """Reads one file; every method appends to ``faults`` instead of stopping, up to ``MAX_FAULTS``.

    Raises:
        RulesInvalid: by any method, for one fault more.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self._shared: dict[tuple[int, Callable[..., Any]], Any] = {}

    def fault(self, node: YamlNode, message: str, *, key: bool = False) -> None:
        """Add a fault at a value, or at its key."""
        line, column = node.key if key and node.key != (0, 0) else (node.line, node.column)
        note(self.faults, Fault(self.path, line, column, message))

    def once(self, node: YamlNode, read: Callable[[YamlNode, FieldReader], T]) -> T:
        """The result of ``read`` for a node that several ranges share; ``read`` is called only once for it."""
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
        misplaced: Collection[str] = (),
        home: str = "",
    ) -> dict[str, YamlNode]:
        """The known fields of a map; unknown and missing ones are faults.

        Fields that are ``misplaced`` are legal in ``home`` only.
        """
        if not isinstance(node.value, dict):
            self.fault(
                node, f"expected a map for the {what}, got {quoted(node.plain())}; its fields are {listed(required)}"
            )
            return {}
        known = [*required, *optional]
        for name, child in node.value.items():
            if name in misplaced:
                self.fault(child, f"{quoted(name)} is legal only in {home}; remove it", key=True)
            elif name not in known:
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
        """The items of a list: none for an absent node, and a fault for more than ``most``."""
        if node is None:
            return []
        if not isinstance(node.value, list) or not node.value:
            self.fault(node, f"expected a list of {what}, got {quoted(node.plain())}")
            return []
        if most is not None and len(node.value) > most:
            self.fault(node, f"{len(node.value)} {what} are more than the {most} that are read")
            return []
        return node.value

    def text(self, node: YamlNode | None) -> str | None:
        """A text that is not empty; ``None`` for an absent node or after a fault."""
        if node is None:
            return None
        if not isinstance(node.value, str) or not node.value.strip():
            self.fault(node, f"expected a string, got {quoted(node.plain())}; put it in quotes")
            return None
        return node.value

    def texts(self, node: YamlNode | None, what: str, legal: Collection[str] = ()) -> tuple[str, ...]:
        """The texts of a list, or a single text; with ``legal``, only those are allowed."""
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

    def span(self, node: YamlNode | None) -> ReleaseRange | None:
        """A range of releases such as ``>=0.22,<0.24``; ``None`` after a fault."""
        advice = 'write a range as `">=0.22,<0.24"`, or `">=0.22"` for an open end'
        if node is None:
            return None
        if not isinstance(node.value, str):
            self.fault(
                node,
                f"expected a range of releases as text, got {quoted(node.plain())}, and a bare number loses its "
                f"zeros; {advice}",
            )
            return None
        try:
            parts = list(SpecifierSet(node.value)) if len(node.value) <= MAX_SPAN else []
        except InvalidSpecifier:
            parts = []
        bounds = {part.operator: Version(part.version) for part in parts if part.operator in {">=", "<"}}
        lower, upper = bounds.get(">="), bounds.get("<")
        if len(parts) != len(bounds) or lower is None or (upper is not None and upper <= lower):
            self.fault(node, f"expected a range of releases, got {quoted(node.value)}; {advice}")
            return None
        return ReleaseRange(node.value, lower, upper)
