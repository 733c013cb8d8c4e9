r"""Escape control and invisible characters, so that user input cannot control a terminal, forge a line or hide in it.

Every character that is not ``str.isprintable`` is escaped: C0 and C1 control characters, bidirectional and zero-width
ones, line and paragraph separators, lone surrogates. So are the invisible ``IGNORABLE_CHARACTERS``. Characters below
the space become ``\x1b`` (or ``\n``, ``\r``, ``\t``), all others ``\u009b``. JSON strings contain no raw character of
the first kind, and ``\u009b`` is an escape of JSON itself, so escaped JSON is the same document.
"""

from __future__ import annotations

import re
from typing import Final

PRINTABLE_ASCII: Final = re.compile(r"[ -~]*+")
"""Matches most texts, so that one call is enough for them."""
RANGES: Final = (
    (0x034F, 0x034F),  # the combining grapheme joiner
    (0x115F, 0x1160),  # fillers of Hangul
    (0x17B4, 0x17B5),  # inherent vowels of Khmer
    (0x180B, 0x180F),  # variation selectors of Mongolian
    (0x3164, 0x3164),  # a filler of Hangul
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFFA0, 0xFFA0),  # a filler of Hangul
    (0xE0100, 0xE01EF),  # variation selectors
)
IGNORABLE_CHARACTERS: Final = frozenset(chr(code) for first, last in RANGES for code in range(first, last + 1))
"""The invisible characters of Unicode's ``Default_Ignorable_Code_Point`` that Python treats as printable."""


def escape_line(text: str) -> str:
    """Escape a text into one line; line feeds are escaped too."""
    return text if PRINTABLE_ASCII.fullmatch(text) is not None or is_visible(text) else "".join(map(_escape, text))


def escape_lines(text: str) -> str:
    """Escape everything but line feeds, which must be our own."""
    return "\n".join(map(escape_line, text.split("\n")))


def is_visible(text: str) -> bool:
    """Whether a text has no character that is escaped."""
    return text.isprintable() and (text.isascii() or IGNORABLE_CHARACTERS.isdisjoint(text))


def _escape(character: str) -> str:
    if character.isprintable() and character not in IGNORABLE_CHARACTERS:
        return character
    if character < " ":
        return repr(character)[1:-1]
    units = character.encode("utf-16-be", "surrogatepass")  # JSON escapes characters above U+FFFF as two units
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
