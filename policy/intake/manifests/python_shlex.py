"""Split a command that is one text as Python's ``shlex.split`` does, in linear time.

No shell is involved. Quotes group, and a backslash escapes a character; in double quotes only a quote or a backslash.
"""

from __future__ import annotations

from typing import Final

QUOTES: Final = frozenset("'\"")
QUOTED_ESCAPES: Final = frozenset('"\\')
"""What a backslash escapes in double quotes."""
BLANKS: Final = frozenset(" \t\r\n")
OPEN_QUOTE: Final = "a quote is not closed"
OPEN_ESCAPE: Final = "nothing follows the last backslash"


def split(text: str) -> list[str]:
    """The words of a text.

    Raises:
        ValueError: a quote is not closed, or the text ends with a backslash.
    """
    words: list[str] = []
    parts: list[str] = []
    quote, has_word = "", False
    characters = iter(text)
    for character in characters:
        if not quote and character in BLANKS:
            if has_word:
                words.append("".join(parts))
            parts, has_word = [], False
            continue
        has_word = True
        if character == quote:
            quote = ""
        elif character == "\\" and quote != "'":
            escaped = next(characters, "")
            if not escaped:
                raise ValueError(OPEN_ESCAPE)
            parts.append(f"\\{escaped}" if quote and escaped not in QUOTED_ESCAPES else escaped)
        elif not quote and character in QUOTES:
            quote = character
        else:
            parts.append(character)
    if quote:
        raise ValueError(OPEN_QUOTE)
    return [*words, "".join(parts)] if has_word else words
