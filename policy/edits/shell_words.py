"""The words of a shell text with their places.

Owns only where words begin and end and what is in quotes. What the text means is decided by reading it again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

OPERATORS: Final = ";&|<>()\n"
BLANKS: Final = " \t\r"
ESCAPED_IN_QUOTES: Final = '\\"$`'
HERE_DOCUMENT: Final = re.compile(r"(?<!<)<<(?!<)(-?)[ \t]*+")
"""The operator of a here-document up to its delimiter; its group is the `-` that drops tabs."""
QUOTE: Final = re.compile(r"['\"\\]")


class HereDocument(Struct, frozen=True):
    """The text of a here-document: its span, and the number of its operator among the words.

    ``is_expanded`` is false if its delimiter is quoted: `<<'END'`.
    """

    start: int
    end: int
    operator: int
    is_expanded: bool


class ShellWord(Struct, frozen=True):
    """A word or an operator: its span, and its value with the span of each character.

    The end of a line has the texts of the here-documents that follow it, as they are no words of the script.
    ``is_certain`` is false for a word in which a shell expands something.
    """

    start: int
    end: int
    text: str
    starts: list[int]
    ends: list[int]
    is_operator: bool = False
    is_certain: bool = True
    documents: tuple[HereDocument, ...] = ()


class Delimiter(Struct, frozen=True):
    """The delimiter of a here-document, as the lines are found by it, and what is known of the document."""

    line: tuple[str, str]
    operator: int
    is_expanded: bool


def shell_words(text: str) -> list[ShellWord]:
    """The words and operators of a shell text, in their order."""
    found: list[ShellWord] = []
    delimiters: list[Delimiter] = []
    lines: dict[tuple[str, str], list[int]] = {}
    at = 0
    while at < len(text):
        character = text[at]
        if character in BLANKS:
            at += 1
        elif text.startswith(("\\\n", "\\\r\n"), at):
            at = text.index("\n", at) + 1
        elif character == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif character in OPERATORS:
            end = at + 1
            documents: list[HereDocument] = []
            if (here := HERE_DOCUMENT.match(text, at)) is not None:
                delimiter = _word(text, here.end())
                if delimiter.end > delimiter.start:
                    is_quoted = QUOTE.search(text, delimiter.start, delimiter.end) is not None
                    delimiters.append(Delimiter((here[1], delimiter.text), len(found), not is_quoted))
                    end = here.end(1)
            elif character == "\n" and delimiters:
                lines = lines or _lines(text)
                end, documents = _here_documents(text, end, delimiters, lines)
                delimiters.clear()
            found.append(ShellWord(at, end, character, [at], [end], is_operator=True, documents=tuple(documents)))
            at = end
        else:
            word = _word(text, at)
            found.append(word)
            at = word.end
    return found


def _lines(text: str) -> dict[tuple[str, str], list[int]]:
    """Where each line begins, by its text: as it is with an empty mark, and without its first tabs with a `-`."""
    found: dict[tuple[str, str], list[int]] = {}
    at = 0
    for line in text.split("\n"):
        shown = line.removesuffix("\r")
        found.setdefault(("", shown), []).append(at)
        found.setdefault(("-", shown.lstrip("\t")), []).append(at)
        at += len(line) + 1
    return found


def _here_documents(
    text: str, at: int, delimiters: Iterable[Delimiter], lines: dict[tuple[str, str], list[int]]
) -> tuple[int, list[HereDocument]]:
    """The here-documents that begin at an offset, and their end; one without an end is none, as in `((a << 2))`."""
    found: list[HereDocument] = []
    for delimiter in delimiters:
        starts = lines.get(delimiter.line, [])
        number = bisect_left(starts, at)
        if number < len(starts):
            found.append(HereDocument(at, starts[number], delimiter.operator, delimiter.is_expanded))
            end = text.find("\n", starts[number])
            at = len(text) if end < 0 else end + 1
    return at, found


def _word(text: str, at: int) -> ShellWord:
    start = at
    value: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    is_certain = True
    quote = ""

    def add(begin: int, end: int, character: str) -> None:
        value.append(character)
        starts.append(begin)
        ends.append(end)

    while at < len(text):
        character = text[at]
        if not quote and (character in BLANKS or character in OPERATORS):
            break
        if quote == "'":
            if character == "'":
                quote = ""
            else:
                add(at, at + 1, character)
            at += 1
        elif character == quote:
            quote = ""
            at += 1
        elif not quote and character in "'\"":
            quote = character
            at += 1
        elif character == "\\" and text.startswith(("\\\n", "\\\r\n"), at):
            if not quote:
                break
            at = text.index("\n", at) + 1
        elif character == "\\" and at + 1 < len(text) and (not quote or text[at + 1] in ESCAPED_IN_QUOTES):
            add(at, at + 2, text[at + 1])
            at += 2
        elif character in "$`":
            is_certain = False
            end = _expansion_end(text, at)
            for place in range(at, end):
                add(place, place + 1, text[place])
            at = end
        else:
            add(at, at + 1, character)
            at += 1
    return ShellWord(start, at, "".join(value), starts, ends, is_certain=is_certain and not quote)


def _expansion_end(text: str, at: int) -> int:
    """The end of an expansion: of its brackets or backquotes, otherwise of its first character."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        return len(text) if end < 0 else end + 1
    closing = {"(": ")", "{": "}"}.get(text[at + 1 : at + 2])
    if closing is None:
        return at + 1
    opening, depth = text[at + 1], 0
    for place in range(at + 1, len(text)):
        depth += (text[place] == opening) - (text[place] == closing)
        if not depth:
            return place + 1
    return len(text)
