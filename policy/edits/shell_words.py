"""The words of a shell text with their places.

Owns only where words begin and end and what is in quotes. What the text means is decided by reading it again.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

OPERATORS: Final = ";&|<>()\n"
BLANKS: Final = " \t\r"
ESCAPED_IN_QUOTES: Final = '\\"$`'


class ShellWord(Struct, frozen=True):
    """A word or an operator: its span, and its value with the span of each character.

    ``is_certain`` is false for a word in which a shell expands something.
    """

    start: int
    end: int
    text: str
    starts: list[int]
    ends: list[int]
    is_operator: bool = False
    is_certain: bool = True


def shell_words(text: str) -> list[ShellWord]:
    """The words and operators of a shell text, in their order."""
    found: list[ShellWord] = []
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
            found.append(ShellWord(at, at + 1, character, [at], [at + 1], is_operator=True))
            at += 1
        else:
            word = _word(text, at)
            found.append(word)
            at = word.end
    return found


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
