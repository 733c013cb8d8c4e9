r"""The settings of a unit's file and the words of their values, as systemd and Podman's Quadlet read them.

Follows `config_parse` and `extract_first_word` of systemd (read at version 257, compared with libsystemd 252) and
`splitString` of `pkg/systemd/parser` of Podman (read at 5.6). They differ in how they treat a backslash that begins no
escape sequence: `ExecStart=` keeps it, `Environment=` ends there, and Quadlet leaves out the setting. In the value of a
`$NAME`, where there are no escape sequences, the backslash is removed.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINES: Final = 100_000
BYTE_ORDER_MARK: Final = "\ufeff"
LINE_END: Final = re.compile(r"\r\n|\n\r|[\r\n\x00]")
"""What ends a line; unlike for Python, a form feed and U+2028 do not."""
BLANKS: Final = " \t\n\r"
BYTE: Final = r"\\(?:x(?!00)[0-9A-Fa-f]{2}|(?!000)[0-3][0-7]{2})"
ESCAPE: Final = re.compile(
    rf"""\\(?P<char>[abfnrtvs\\"'])|(?P<bytes>(?:{BYTE})++)"""
    r"|\\u(?!0000)(?P<short>[0-9A-Fa-f]{4})"
    r"|\\U(?!0{8}|0000[dD][89A-Fa-f])(?P<long>00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})"
)
CHARACTERS: Final = {"n": "\n", "t": "\t", "s": " ", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
PLAIN_TEXT: Final = {
    "": re.compile(r"""[^\\'" \t\n\r]++"""),
    "'": re.compile(r"[^\\']++"),
    '"': re.compile(r'[^\\"]++'),
}
"""Match characters that stand for themselves: outside of quotes, and within each of them."""
OPEN_QUOTE: Final = "a quote is not closed"
SEPARATOR: Final = "\0"
"""Stands for the word `;` between two commands; no word has this character."""


class Setting(NamedTuple):
    """A setting of a unit: ``[section]``, ``key=value``."""

    section: str
    key: str
    value: str


class UnitWords(NamedTuple):
    """The words of a value; ``fault`` says why they end before the value does, and is empty if they do not.

    ``unfinished`` is the beginning of the word with the fault.
    """

    words: list[str]
    fault: str = ""
    unfinished: str = ""


class UnknownEscape(Enum):
    """How a backslash that begins no escape sequence is treated."""

    IS_KEPT = auto()
    IS_FAULT = auto()
    IS_EVERY = auto()
    """There are no escape sequences: the backslash is removed, and the character after it stands for itself."""


def settings_of(text: str) -> list[Setting]:
    """The settings of a unit in order; a line that ends in a backslash continues in the next one."""
    found: list[Setting] = []
    section = ""
    for line in _whole_lines(text):
        if line.startswith("["):
            section = line[1:-1] if line.endswith("]") else section
        elif "=" in line:
            key, _, value = line.partition("=")
            found.append(Setting(section, key.rstrip(BLANKS), value.lstrip(BLANKS)))
    return found


def listed_values(settings: Iterable[tuple[str, str]], name: str) -> list[str]:
    """The values of a setting that is a list, which an empty value clears."""
    found: list[str] = []
    for key, value in settings:
        if key == name and value:
            found.append(value)
        elif key == name:
            found.clear()
    return found


def _whole_lines(text: str) -> Iterator[str]:
    """The lines, joined with those that continue them, without comments; an escaped backslash continues no line.

    The first byte order mark at the beginning of a line is dropped.
    """
    held: list[str] = []
    mark = BYTE_ORDER_MARK
    for line in LINE_END.split(text, MAX_LINES)[:MAX_LINES]:
        start = line.lstrip(BLANKS)
        if start.startswith(("#", ";")):
            continue
        if mark and line.startswith(mark):
            start, mark = line.removeprefix(mark).lstrip(BLANKS), ""
        goes_on = (len(start) - len(start.rstrip("\\"))) % 2 == 1
        held.append(f"{start[:-1]} " if goes_on else start)
        if not goes_on:
            yield "".join(held).strip(BLANKS)
            held = []
    yield "".join(held).strip(BLANKS)


def command_words(text: str) -> UnitWords:
    r"""The words of `ExecStart=`, where `\;` is a semicolon, and `;` a ``SEPARATOR``."""
    return _words(text, UnknownEscape.IS_KEPT)


def assigned_words(text: str) -> list[str]:
    """The words of `Environment=` up to the first fault: systemd ignores the rest."""
    return _words(text, UnknownEscape.IS_FAULT).words


def value_words(text: str) -> list[str]:
    """The words of a variable's value that `ExecStart=` uses as `$NAME`."""
    found = _words(text, UnknownEscape.IS_EVERY)
    return [*found.words, found.unfinished] if found.fault else found.words


def podman_words(text: str) -> UnitWords:
    """The words of a Quadlet setting: they end at an empty one, and a quote need not be closed."""
    found = _words(text, UnknownEscape.IS_FAULT)
    if found.fault == OPEN_QUOTE:
        found = UnitWords([*found.words, found.unfinished])
    return UnitWords([], found.fault) if found.fault else UnitWords(list(takewhile(bool, found.words)))


def _words(text: str, unknown: UnknownEscape) -> UnitWords:
    words: list[str] = []
    part: list[str] = []
    quote, is_word, at, start = "", False, 0, 0
    while at < len(text):
        char = text[at]
        plain = PLAIN_TEXT[quote].match(text, at)
        if not is_word:
            start = at
        if plain is not None:
            part.append(plain.group())
            at = plain.end()
        elif char == "\\":
            escape = None if unknown is UnknownEscape.IS_EVERY else ESCAPE.match(text, at)
            if escape is None and unknown is UnknownEscape.IS_FAULT:
                return UnitWords(words, f"`{text[at : at + 2]}` is no escape sequence", "".join(part))
            is_kept = escape is None and unknown is UnknownEscape.IS_KEPT
            part.append(text[at if is_kept else at + 1 : at + 2] if escape is None else _unescaped(escape))
            at = at + 2 if escape is None else escape.end()
        elif quote or char in "'\"":
            quote = "" if quote else char
            at += 1
        else:
            if is_word:
                words.append(_word(text[start:at], part, unknown))
                part = []
            is_word = False
            at += 1
            continue
        is_word = True
    if quote:
        return UnitWords(words, OPEN_QUOTE, "".join(part))
    return UnitWords([*words, _word(text[start:], part, unknown)] if is_word else words)


def _word(written: str, part: list[str], unknown: UnknownEscape) -> str:
    if unknown is UnknownEscape.IS_KEPT and written in {";", "\\;"}:
        return SEPARATOR if written == ";" else ";"
    return "".join(part)


def _unescaped(escape: re.Match[str]) -> str:
    """The characters of escape sequences."""
    if escape["char"] is not None:
        return CHARACTERS.get(escape["char"], escape["char"])
    code = escape["short"] or escape["long"]
    if code is not None:
        char = chr(int(code, 16))
        return "\ufffd" if "\ud800" <= char <= "\udfff" else char
    codes = escape["bytes"].split("\\")[1:]
    return bytes(int(code[1:], 16) if code[0] == "x" else int(code, 8) for code in codes).decode("utf-8", "replace")
