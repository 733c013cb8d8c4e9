"""How messages show values: quoted, listed, counted, and with a suggestion for a misspelt word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from policy.escaping import escape_line
from policy.masking import MAX_MASKED, HiddenName, masked

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_QUOTED = 80
MAX_SHOWN_DEPTH = 3


def quoted(value: object, limit: int = MAX_QUOTED) -> str:
    """A user's value in backticks: as JSON, with secrets masked, cut after ``limit`` characters."""
    if type(value) is HiddenName:
        value = value.shown
    text = masked((value if isinstance(value, str) else _as_json(value))[:MAX_MASKED])
    text = escape_line(text[: limit + 1])
    return f"`{text[:limit]}…`" if len(text) > limit else f"`{text}`"


def as_written(value: object) -> str:
    """A user's value in backticks, a text with its quotes: ``"true"`` is not ``true``."""
    return f"the text {quoted(_as_json(value))}" if isinstance(value, str) else quoted(value)


def _as_json(value: object, depth: int = 0, room: int = MAX_QUOTED + 1) -> str:
    """A value as JSON, or at least its first ``room`` characters; the rest, which would be cut off, is not encoded."""
    match value:
        case dict():
            return "{…}" if value else "{}"
        case list() if depth == MAX_SHOWN_DEPTH:
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
            return json.dumps(value[: MAX_QUOTED + 1], ensure_ascii=False)
        case _:
            return repr(value)


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The closest known word, or ``None`` if none is close."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415  # most requests need no suggestion

    newest_first = sorted(known, reverse=True)  # of equally close words the first wins: for releases, the newest
    close = process.extractOne(word[:MAX_QUOTED], newest_first, scorer=fuzz.ratio, score_cutoff=100 * cutoff)
    return close[0] if close else None


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``; did you mean `x`?`` for the closest known word, or an empty string if none is close."""
    close = closest(word, known, cutoff)
    return f"; did you mean {quoted(close)}?" if close is not None else ""


def listed(words: Iterable[str]) -> str:
    """The words in backticks, separated by commas."""
    return ", ".join(f"`{word}`" for word in words)


def enumerated(names: list[str], limit: int = 10) -> str:
    """The first names in backticks, separated by commas, and the number of the others."""
    shown = ", ".join(map(quoted, names[:limit]))
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def counted(number: int, singular: str, plural: str) -> str:
    """A number with its noun: ``1 rule``, ``0 rules``."""
    return f"{number} {singular if number == 1 else plural}"
