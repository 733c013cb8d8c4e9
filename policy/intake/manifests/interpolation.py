"""Interpolate variables as Compose does: ``$NAME``, ``${NAME}``, ``${NAME:-default}`` and the other forms.

Follows ``template`` of compose-go v2 (read in July 2026), including where a default ends. The variables come from the
shell that starts Compose or from its ``.env`` file, which are not known. A variable is assumed to be unset if its
reference has a value for that case, and is unknown otherwise.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from policy.secret_names import is_secret

MAX_NESTED: Final = 8
NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*+"
REFERENCE: Final = re.compile(
    rf"\$(?:(?P<escaped>\$)|(?P<bare>{NAME})|\{{(?P<name>{NAME})(?:\}}|(?P<operator>:?[-+?]))|(?P<invalid>\{{))"
)
BRACE: Final = re.compile(r"\{.?|\}")
"""Matches a brace as compose-go does to find the end of a reference: it skips the character after an opening brace."""

DEFAULT: Final = "is assumed to be its default; the shell or `.env` that starts Compose may set another"
UNSET: Final = "is assumed not to be set; the shell or `.env` that starts Compose may set it"
UNKNOWN: Final = "is set by the shell or `.env` that starts Compose; its value is not known"


class InterpolationError(ValueError):
    """Compose rejects the text, or its defaults are nested too deeply."""


class Interpolation(Struct, frozen=True):
    """A text after interpolation.

    A reference with an unknown value becomes ``${NAME!}``, which a shell in the container cannot expand, even if it has
    a variable of that name. ``unknown`` has the positions of these in ``text``. ``assumptions`` has each variable with
    the assumption about it. ``secrets`` has the defaults of variables whose names are those of secrets.
    """

    text: str
    unknown: tuple[int, ...] = ()
    assumptions: tuple[tuple[str, str], ...] = ()
    secrets: frozenset[str] = frozenset()


def interpolate(text: str) -> Interpolation:
    """Substitute the variables in a text as Compose does.

    Raises:
        InterpolationError: Compose rejects the text, or its defaults are nested too deeply.
    """
    if "$" not in text:
        return Interpolation(text)
    interpolator = _Interpolator()
    for number, line in enumerate(text.split("\n")):  # a reference does not extend over lines
        interpolator.add("\n" if number else "")
        interpolator.substitute(line, 0, len(line), 0)
    return Interpolation(
        "".join(interpolator.parts),
        tuple(interpolator.unknown),
        tuple(interpolator.assumptions),
        frozenset(interpolator.secrets),
    )


def substitute(text: str) -> str:
    """A text with its variables substituted, without notes; as written if Compose rejects it."""
    try:
        return interpolate(text).text
    except InterpolationError:
        return text


class _Interpolator:
    """The text so far, the positions of unknown values in it, and the assumptions about variables."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.unknown: list[int] = []
        self.assumptions: dict[tuple[str, str], None] = {}
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
            name, operator = found["name"] or found["bare"], found["operator"]
            if found["escaped"]:
                self.add("$")
            elif found["invalid"] or (operator and last < at):
                raise InterpolationError(f"the reference at character {self.size + 1} is invalid")
            elif operator:
                closing = _closing_brace(line, found.start(), last)
                self.replace(line, at, closing, name, operator, depth)
                at = closing + 1
            else:
                self.add_unknown(name)
        self.add(line[at:end])

    def replace(self, line: str, start: int, end: int, name: str, operator: str, depth: int) -> None:
        """Append the value of a reference with an operator; its operand is ``line[start:end]``."""
        if operator.endswith("?"):  # Compose refuses to start if it is not set
            self.add_unknown(name)
        elif operator.endswith("-"):
            self.assumptions[name, DEFAULT] = None
            before = len(self.parts)
            self.substitute(line, start, end, depth + 1)
            if is_secret(name):
                self.secrets.add("".join(self.parts[before:]))
        else:
            self.assumptions[name, UNSET] = None

    def add_unknown(self, name: str) -> None:
        self.assumptions[name, UNKNOWN] = None
        self.unknown.append(self.size)
        self.add(f"${{{name}!}}")


def _closing_brace(line: str, start: int, last: int) -> int:
    """The position of the brace that closes the reference at ``start``; ``last`` if braces are unbalanced."""
    depth = 0
    for brace in BRACE.finditer(line, start, last + 1):
        depth += 1 if brace.group().startswith("{") else -1
        if not depth:
            return brace.start()
    return last
