r"""Escape control characters, so that user input cannot control a terminal or forge a line.

Every character that is not ``str.isprintable`` is escaped: C0 and C1 control characters, bidirectional and zero-width
ones, line and paragraph separators, lone surrogates. Characters below the space become ``\x1b`` (or ``\n``, ``\r``,
``\t``), all others ``\u009b``. JSON strings contain no raw character of the first kind, and ``\u009b`` is an escape of
JSON itself, so escaped JSON is the same document.
"""

from __future__ import annotations


def escape_line(text: str) -> str:
    """Escape a text into one line; line feeds are escaped too."""
    return text if text.isprintable() else "".join(map(_escape, text))


def escape_lines(text: str) -> str:
    """Escape everything but line feeds, which must be our own."""
    return "\n".join(map(escape_line, text.split("\n")))


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    if character < " ":
        return repr(character)[1:-1]
    units = character.encode("utf-16-be", "surrogatepass")  # JSON escapes characters above U+FFFF as two units
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
