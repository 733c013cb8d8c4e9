"""A scalar's value with the place of each of its characters in the text.

Owns how quotes, escapes, folded lines and indentation are written. What cannot be aligned gives None, so that nothing
is edited by a guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.edits.nodes import DOUBLE, FOLDED, LITERAL, SINGLE, WHOLE_TEXT, Node

if TYPE_CHECKING:
    from collections.abc import Sequence

BREAK: Final = re.compile(r"[ \t]*+(?:\r\n|\n|\r)(?:[ \t]*+(?:\r\n|\n|\r))*+[ \t]*+")
"""The line breaks of a folded scalar, with the blanks around them."""
LINE_CONTINUATION: Final = re.compile(r"\\(?:\r\n|\n|\r)[ \t]*+")
NEWLINE: Final = re.compile(r"\r\n|\n|\r")
LINE_END: Final = re.compile(r"[^\S\r\n]*+(?:\r\n|\n|\r)")
ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[^\r\n])")
PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
HEADER: Final = re.compile(r"[|>][-+0-9]*+[ \t]*+(?:#[^\r\n]*+)?(?:\r\n|\n|\r)")
ANCHOR: Final = re.compile(r"[&!][^\s]*+\s++")


class Decoded(Struct, frozen=True):
    """A value; the character at ``i`` is written at ``starts[i]`` to ``ends[i]``.

    ``indent`` comes before each line after the first, and ``newline`` ends one. ``style`` says how new text is written.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]
    style: str = WHOLE_TEXT
    newline: str = "\n"
    indent: str = ""
    base: int = 0

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a piece of the value is written."""
        if start == end:
            place = self.ends[start - 1] if start else (self.starts[0] if self.starts else self.base)
            return place, place
        return self.starts[start], self.ends[end - 1]

    def written(self, new: str) -> str | None:
        """How new text is written inside the value; None if this style cannot have it."""
        if "\n" in new:
            if self.style not in {WHOLE_TEXT, LITERAL}:
                return None
            return new.replace("\n", self.newline + self.indent)
        if self.style == SINGLE:
            return new.replace("'", "''")
        if self.style == DOUBLE:
            return new.replace("\\", "\\\\").replace('"', '\\"')
        return new


def whole(text: str) -> Decoded:
    """A text that is its own value."""
    newline = "\r\n" if "\r\n" in text else "\n"
    return Decoded(text, range(len(text)), range(1, len(text) + 1), newline=newline)


def decoded(text: str, node: Node) -> Decoded | None:
    """The value of a scalar, as it is written in the text; None if its characters cannot be placed with certainty."""
    value = node.value if isinstance(node.value, str) else node.written
    if node.style == WHOLE_TEXT:
        return whole(text)
    if value is None:
        value = text[node.start : node.end] if node.is_json else None
    if not isinstance(value, str):
        return None
    start = node.start
    while (anchor := ANCHOR.match(text, start, node.end)) is not None and node.style in {SINGLE, DOUBLE, "", *BLOCKS}:
        start = anchor.end()
    quote = len(node.style) if node.style in {SINGLE, DOUBLE} else 0
    if node.style in BLOCKS:
        return _block(text, start, node.end, node.style, value)
    start, end = start + quote, node.end - quote
    if text[start:end] == value and not (quote and node.style in value):
        return Decoded(value, range(start, end), range(start + 1, end + 1), node.style, base=start)
    return _quoted(text, start, end, node.style, value)


BLOCKS: Final = frozenset({LITERAL, FOLDED})


def _quoted(text: str, at: int, end: int, style: str, value: str) -> Decoded | None:
    """A quoted or plain scalar with escapes or line breaks."""
    starts: list[int] = []
    ends: list[int] = []
    base = at

    def add(length: int, count: int = 1) -> None:
        starts.extend([at] * count)
        ends.extend([at + length] * count)

    while at < end:
        if style == DOUBLE and (found := LINE_CONTINUATION.match(text, at, end)):
            at = found.end()
            continue
        found = BREAK.match(text, at, end)
        if found is not None:
            breaks = len(NEWLINE.findall(found[0]))
            add(len(found[0]), max(breaks - 1, 1))
            at = found.end()
            continue
        if style == DOUBLE and text[at] == "\\":
            found = PAIR.match(text, at, end) or ESCAPE.match(text, at, end)
            if found is None:
                return None
            length = len(found[0])
        else:
            length = 2 if style == SINGLE and text.startswith("''", at) else 1
        add(length)
        at += length
    if len(starts) != len(value):
        return None
    for index, character in enumerate(value):  # what is written as itself has to be itself
        start = starts[index]
        if ends[index] - start == 1 and text[start] != character and not (text[start] in "\r\n" and character in " \n"):
            return None
    return Decoded(value, starts, ends, style, base=base)


def _block(text: str, start: int, end: int, style: str, value: str) -> Decoded | None:
    """A literal or folded scalar, whose lines have an indentation."""
    header = HEADER.match(text, start)
    if header is None:
        return None
    newline = "\r\n" if header[0].endswith("\r\n") else "\n"
    at = header.end()
    while (blank := LINE_END.match(text, at)) is not None and blank.end() <= end:
        at = blank.end()
    first = value.lstrip("\n")
    indent = _blanks(text, at) - (len(first) - len(first.lstrip(" ")))
    if indent < 0:
        return None
    starts: list[int] = []
    ends: list[int] = []
    at = header.end() + min(indent, _blanks(text, header.end()))
    for character in value:
        if at < len(text) and text[at] == character and character not in "\r\n":
            starts.append(at)
            at += 1
            ends.append(at)
            continue
        found = NEWLINE.match(text, at)
        if found is None:
            if at >= len(text) and character == "\n":  # the last line has no break
                starts.append(at)
                ends.append(at)
                continue
            return None
        after = found.end() + min(indent, _blanks(text, found.end()))
        if character == " " and style == FOLDED:
            starts.append(at)
            at = after
            ends.append(at)
        elif character == "\n":
            starts.append(at)
            at = after
            if style == FOLDED and _is_fold(text, at, value, len(starts)):
                again = NEWLINE.match(text, at)
                assert again is not None
                at = again.end() + min(indent, _blanks(text, again.end()))
            ends.append(at)
        else:
            return None
    return Decoded(value, starts, ends, style, newline, " " * indent)


def _is_fold(text: str, at: int, value: str, index: int) -> bool:
    """Whether a line break of a folded scalar is not in its value, because it is within a paragraph."""
    is_break = at < len(text) and text[at] in "\r\n"
    return is_break and index < len(value) and value[index] != "\n"


def _blanks(text: str, at: int) -> int:
    count = 0
    while at + count < len(text) and text[at + count] == " ":
        count += 1
    return count
