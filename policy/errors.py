"""What can be wrong with what people write, as data: where, what was found, what is legal, what to do.

Owns the errors that cross a module's border. Sentences are lower case and without a full stop, and
what the user wrote stands in backticks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from policy.masking import masked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

QUOTED = 80
SHOWN_DEPTH = 3
MAX_FAULTS = 100
READ_FOR_SECRETS = 1024
MAX_POINTER = 1024
MAX_INDEX_DIGITS = 9


class PolicyError(Exception):
    """The root of every error that this project raises on purpose."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault in a rule file; lines and columns count from 1."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class RulesInvalid(PolicyError):
    """The rules cannot be used; ``faults`` holds every reason, sorted by place."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(map(str, self.faults)))

    def under(self, folder: Path) -> RulesInvalid:
        """The same faults with the files' paths as seen from here, ``folder`` before them."""
        return RulesInvalid(replace(fault, path=str(folder / fault.path)) for fault in self.faults)


@dataclass(frozen=True, slots=True)
class RequestFault:
    """One fault in a request: an RFC 6901 JSON pointer into the body, and what is wrong there."""

    pointer: str
    message: str


class RequestInvalid(PolicyError):
    """A request that cannot be decided; ``problem`` is the name of its kind, ``faults`` the first 100 reasons.

    A pointer of more than 1,024 characters ends at the last step that fits: names come from users, and each fault repeats them.
    """

    def __init__(self, faults: Iterable[RequestFault], problem: str = "invalid-request") -> None:
        self.problem = problem
        self.faults = tuple(map(_with_short_pointer, islice(faults, MAX_FAULTS)))
        super().__init__()

    def __str__(self) -> str:
        return "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in self.faults)

    def end_within(self, pointer: str, document: object) -> None:
        """What points below ``pointer``, where ``document`` stands, ends at what is there."""
        self.faults = tuple(replace(fault, pointer=_there(fault.pointer, pointer, document)) for fault in self.faults)


def _with_short_pointer(fault: RequestFault) -> RequestFault:
    if len(fault.pointer) <= MAX_POINTER:
        return fault
    return replace(fault, pointer=fault.pointer[: max(fault.pointer.rfind("/", 0, MAX_POINTER + 1), 0)])


def _there(pointer: str, below: str, document: object) -> str:
    if not pointer.startswith(f"{below}/"):
        return pointer
    steps = pointer.removeprefix(below).split("/")[1:]
    way = walk_path(document, [step.replace("~1", "/").replace("~0", "~") for step in steps])
    return "/".join([below, *steps[: len(way) - 1]])


class EngineFailed(PolicyError):
    """The rule engine did not finish a run, or refused a definition."""


def at(pointer: str, key: str | int) -> str:
    """The JSON pointer of a member or item (RFC 6901)."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def walk_path(document: Any, steps: Iterable[str]) -> list[Any]:
    """The values from a document down a way of keys and numbers; it ends early where nothing stands."""
    way = [document]
    for step in steps:
        here = way[-1]
        if isinstance(here, list) and len(step) <= MAX_INDEX_DIGITS and step.isdecimal() and int(step) < len(here):
            way.append(here[int(step)])
        elif isinstance(here, dict) and step in here:
            way.append(here[step])
        else:
            break
    return way


def quoted(value: object) -> str:
    """What the user wrote, in backticks as JSON would show it, without what is secret in it, cut after 80 characters."""
    text = masked((value if isinstance(value, str) else _as_json(value))[:READ_FOR_SECRETS])
    text = text[: QUOTED + 1]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return f"`{text[:QUOTED]}…`" if len(text) > QUOTED else f"`{text}`"


def _as_json(value: object, depth: int = 0, room: int = QUOTED + 1) -> str:
    """A value as JSON, or at least its first ``room`` characters: no more is made than is shown."""
    match value:
        case dict():
            return "{…}" if value else "{}"
        case list() if depth == SHOWN_DEPTH:
            return "[…]"
        case list():
            parts = []
            for item in value:
                if room <= 0:
                    break
                parts.append(_as_json(item, depth + 1, room))
                room -= len(parts[-1]) + len(", ")
            return f"[{', '.join(parts)}]"
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case str():
            return json.dumps(value[: QUOTED + 1], ensure_ascii=False)
        case _:
            return repr(value)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``; did you mean `x`?`` for the closest known word, or nothing where none is close."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415  # imported only where a suggestion is made: most requests need none

    newest_first = sorted(
        known, reverse=True
    )  # of several that are as close the first is taken: for a release the newest
    close = process.extractOne(word[:QUOTED], newest_first, scorer=fuzz.ratio, score_cutoff=100 * cutoff)
    return f"; did you mean {quoted(close[0])}?" if close else ""


def listed(words: Iterable[str]) -> str:
    """The legal words as a reader wants them: in backticks, with commas."""
    return ", ".join(f"`{word}`" for word in words)
