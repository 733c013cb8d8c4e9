r"""Escapes of control characters, so that what users wrote cannot drive a terminal or forge a line.

Every character that ``str.isprintable`` refuses is escaped: control characters, also those of C1, bidirectional and
zero-width ones, line and paragraph separators, lone surrogates. An escape is ``\x1b`` (or ``\n``, ``\r``, ``\t``) for a
character below the space, else ``\u009b``. JSON text has no raw character of the first kind between its quotes, and
``\u009b`` is its own escape, so that escaped JSON is the same document.
"""

from __future__ import annotations


def escape_line(text: str) -> str:
    """A text as one line: line feeds are escaped too."""
    return text if text.isprintable() else "".join(map(_escape, text))


def escape_lines(text: str) -> str:
    """A text whose line feeds are ours, and stay."""
    return "\n".join(map(escape_line, text.split("\n")))


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    if character < " ":
        return repr(character)[1:-1]
    units = character.encode("utf-16-be", "surrogatepass")  # JSON escapes characters above U+FFFF as two units
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
