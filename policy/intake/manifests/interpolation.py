"""Interpolate variables as Compose does: ``$NAME``, ``${NAME}``, ``${NAME:-default}`` and the other forms.

Follows ``template`` of compose-go v2 (read in July 2026), including where a default ends. The variables come from the
shell that starts Compose or from its ``.env`` file, which are not known. A variable is assumed to be unset if its
reference has a value for that case, and is unknown otherwise.
"""

from __future__ import annotations

import re
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.masking import HIDDEN
from policy.secret_names import is_secret
from policy.secret_places import secret_places

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NESTED: Final = 8
NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*+"
REFERENCE: Final = re.compile(
    rf"\$(?:(?P<escaped>\$)|(?P<bare>{NAME})|\{{(?P<name>{NAME})(?:\}}|(?P<operator>:?[-+?]))|(?P<invalid>\{{))"
)
BRACE: Final = re.compile(r"\{.?|\}")
"""Matches a brace as compose-go does to find the end of a reference: it skips the character after an opening brace."""

QUOTES: Final = frozenset("'\"")
VALUE_ENDS: Final = frozenset({"", *" \t\n'\";&|"})
"""What may follow a reference that is a whole value."""

DEFAULT_ASSUMPTION: Final = "is assumed to be its default; the shell or `.env` that starts Compose may set another"
UNSET_ASSUMPTION: Final = "is assumed not to be set; the shell or `.env` that starts Compose may set it"
UNKNOWN_ASSUMPTION: Final = "is set by the shell or `.env` that starts Compose; its value is not known"


class InterpolationError(ValueError):
    """Compose rejects the text, or its defaults are nested too deeply."""


class Interpolation(Struct, frozen=True):
    """A text after interpolation.

    A reference with an unknown value becomes ``${NAME!}``, which a shell in the container cannot expand, even if it has
    a variable of that name. ``unknown`` has the positions of these references in ``text``. ``assumptions`` has each
    variable with the assumption about it; a name that may be a part of a secret after a `$` is `…`. ``secrets`` has
    such names if they have no braces, and the defaults of variables whose names are those of secrets.
    """

    text: str
    unknown: tuple[int, ...] = ()
    assumptions: tuple[tuple[str, str], ...] = ()
    secrets: frozenset[str] = frozenset()


def interpolate(text: str, secret_from: int | None = None) -> Interpolation:
    """Substitute the variables in a text as Compose does.

    All of the text is a secret from the position ``secret_from``, unless that is None.

    Raises:
        InterpolationError: Compose rejects the text, or its defaults are nested too deeply.
    """
    if "$" not in text:
        return Interpolation(text)
    interpolator = _Interpolator()
    start = 0
    for number, line in enumerate(text.split("\n")):  # a reference does not extend over lines
        interpolator.add("\n" if number else "")
        interpolator.start = start
        interpolator.substitute(line, 0, len(line), 0)
        start += len(line) + 1
    assumptions = tuple(interpolator.assumptions(text, secret_from))  # which adds secrets
    return Interpolation(
        "".join(interpolator.parts),
        tuple(interpolator.unknown),
        assumptions,
        frozenset(interpolator.secrets),
    )


def substitute(text: str) -> str:
    """A text with its variables substituted, without notes; as written if Compose rejects it."""
    try:
        return interpolate(text).text
    except InterpolationError:
        return text


class _Reference(Struct, frozen=True):
    """A variable with the assumption about it, where its reference begins, and the index of the outermost around it.

    ``start`` is None for an outermost reference itself. One without braces is bare: `$NAME`.
    """

    name: str
    assumption: str
    outermost: int
    start: int | None
    is_bare: bool


class _Interpolator:
    """The text so far, the positions of unknown values in it, and the references to variables."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.unknown: list[int] = []
        self.references: dict[_Reference, None] = {}
        self.outermost: list[tuple[int, int]] = []
        """The positions in the text of the references that are in no other one."""
        self.start = 0
        """Where the line begins in the text."""
        self.secrets: set[str] = set()

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    def substitute(self, line: str, start: int, end: int, depth: int) -> None:
        """Append a part of a line with its references replaced."""
        if depth > MAX_NESTED:
            raise InterpolationError(f"defaults are nested more than {MAX_NESTED} deep")
        last = line.rfind("}", start, end)
        at = start
        while (found := REFERENCE.search(line, at, end)) is not None:
            self.add(line[at : found.start()])
            at = found.end()
            if found["escaped"]:
                self.add("$")
            elif found["invalid"] or (found["operator"] and last < at):
                raise InterpolationError(f"the reference at character {self.size + 1} is invalid")
            else:
                closing = _closing_brace(line, found.start(), last) if found["operator"] else at - 1
                if not depth:
                    self.outermost.append((self.start + found.start(), self.start + closing + 1))
                self.replace(line, found, closing, depth)
                at = closing + 1
        self.add(line[at:end])

    def replace(self, line: str, found: re.Match[str], end: int, depth: int) -> None:
        """Append the value of a reference, which ends at ``end`` if it has an operator."""
        name, operator = found["name"] or found["bare"], found["operator"]
        if not operator or operator.endswith("?"):  # with `?` Compose refuses to start if it is not set
            self.assume(found, name, UNKNOWN_ASSUMPTION, depth)
            self.unknown.append(self.size)
            self.add(f"${{{name}!}}")
        elif operator.endswith("-"):
            self.assume(found, name, DEFAULT_ASSUMPTION, depth)
            before = len(self.parts)
            self.substitute(line, found.end(), end, depth + 1)
            if is_secret(name):
                self.secrets.add("".join(self.parts[before:]))
        else:
            self.assume(found, name, UNSET_ASSUMPTION, depth)

    def assume(self, found: re.Match[str], name: str, assumption: str, depth: int) -> None:
        start = self.start + found.start() if depth else None
        self.references[_Reference(name, assumption, len(self.outermost) - 1, start, bool(found["bare"]))] = None

    def assumptions(self, text: str, secret_from: int | None) -> Iterator[tuple[str, str]]:
        """Each variable with the assumption about it, without the names that may be parts of secrets."""
        whole = [] if secret_from is None else [(secret_from, len(text))]
        places = sorted([*whole, *secret_places(_without(text, self.outermost))])
        uses = list(_uses(self.outermost, places, text)) if places else []
        nested = sorted(each.start for each in self.references if each.start is not None)
        hidden = set(_inside(nested, sorted(secret_places(text)))) if nested else ()
        for each in self.references:
            use = uses[each.outermost] if uses else Use.NONE
            is_shown = use is Use.NONE or (use is Use.WHOLE and each.start is None)
            if is_shown and each.start not in hidden:
                yield each.name, each.assumption
            else:
                self.secrets |= {each.name} if each.is_bare else set()
                yield HIDDEN, each.assumption


class Use(StrEnum):
    """How much of a secret's value a reference is."""

    NONE = auto()
    PART = auto()
    WHOLE = auto()
    """The whole value, in braces, so that it is certainly meant as a reference."""


def _without(text: str, references: list[tuple[int, int]]) -> str:
    """A text of the same length with letters in place of the references."""
    parts: list[str] = []
    last = 0
    for start, end in references:
        parts += (text[last:start], "X" * (end - start))
        last = end
    return "".join([*parts, text[last:]])


def _uses(references: list[tuple[int, int]], places: list[tuple[int, int]], text: str) -> Iterator[Use]:
    """How much of a secret's place each reference is; both are sorted."""
    index = end = 0
    starts: set[int] = set()
    for first, last in references:
        while index < len(places) and places[index][0] < last:
            start, stop = places[index]
            starts |= {start, start + (text[start : start + 1] in QUOTES)}
            end, index = max(end, stop), index + 1
        if end <= first:
            yield Use.NONE
        else:
            is_whole = text[first + 1] == "{" and first in starts and text[last : last + 1] in VALUE_ENDS
            yield Use.WHOLE if is_whole else Use.PART


def _inside(positions: list[int], places: list[tuple[int, int]]) -> Iterator[int]:
    """The positions that are in one of the places; both are sorted."""
    index = end = 0
    for position in positions:
        while index < len(places) and places[index][0] <= position:
            end, index = max(end, places[index][1]), index + 1
        if position < end:
            yield position


def _closing_brace(line: str, start: int, last: int) -> int:
    """The position of the brace that closes the reference at ``start``; ``last`` if braces are unbalanced."""
    depth = 0
    for brace in BRACE.finditer(line, start, last + 1):
        depth += 1 if brace.group().startswith("{") else -1
        if not depth:
            return brace.start()
    return last
