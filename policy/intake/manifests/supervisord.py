"""The command of a program in the configuration of supervisord (read at 4.2.5), as words.

No shell is involved. supervisord cuts comments from each line, substitutes ``%(NAME)s`` and splits the rest as Python's
``shlex`` does: quotes group, and a backslash escapes a character, in double quotes only a quote or a backslash.
"""

from __future__ import annotations

from typing import Final

COMMENTS: Final = frozenset(";#")
QUOTES: Final = frozenset("'\"")
QUOTED_ESCAPES: Final = frozenset('"\\')
"""What a backslash escapes in double quotes."""
BLANKS: Final = frozenset(" \t\r\n")
OPEN_QUOTE: Final = "a quote is not closed"
OPEN_ESCAPE: Final = "nothing follows the last backslash"
SUBSTITUTION: Final = "`%` begins a substitution; write `%%` for a percent sign"


def without_comments(command: str) -> str:
    """The command without what supervisord takes as comments: from a `;` or `#` after a blank to the line's end."""
    return "\n".join(_uncommented(line) for line in command.split("\n"))


def _uncommented(line: str) -> str:
    before = " "
    for at, character in enumerate(line):
        if character in COMMENTS and before.isspace():
            return line[:at]
        before = character
    return line


def split(command: str) -> list[str]:
    """The words of a command without comments.

    Raises:
        ValueError: supervisord rejects the command, or substitutes something in it.
    """
    if "%" in command.replace("%%", ""):
        raise ValueError(SUBSTITUTION)
    words: list[str] = []
    parts: list[str] = []
    quote, has_word = "", False
    characters = iter(command.replace("%%", "%"))
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
