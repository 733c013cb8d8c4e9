"""Find the end of a shell expansion: `$(…)`, `${…}`, `$((…))` or backticks, with nested quotes.

If the end depends on more than quotes and brackets, as with the patterns of `case`, the text is rejected.
"""

from __future__ import annotations

import re
from typing import Final

from policy.intake.command.expansion import ShellSyntaxError

COMMAND_MARK: Final = re.compile(
    r"""\\.|\$'(?:[^'\\]|\\[^'])*'|\$'|'[^']*'|`(?:[^`\\]|\\.)*`|\$[({]|["()]|(?<![^\s;&|()])(?:#|case(?=\s))|<<""",
    re.DOTALL,
)
"""Matches quoted text, an opening or closing mark, or a mark that makes the end uncertain, within `$(…)`."""
QUOTED_MARK: Final = re.compile(r"""\\.|`(?:[^`\\]|\\.)*`|\$[({]|["'}]""", re.DOTALL)
"""Like `COMMAND_MARK`, but within double quotes or `${…}`, where a single quote may be literal."""
EMPTY_BACKTICKS: Final = re.compile(r"(?:``)++")
"""Matches empty expansions in a row: one by one, each would cost as much as one with a command."""
BACKTICKS: Final = re.compile(r"`(?:[^`\\]|\\.)*`", re.DOTALL)
SPECIAL_CHARACTER: Final = re.compile(r"""[}"\\$`]""")
CLOSING_MARKS: Final = {"$(": ")", "(": ")", "${": "}", '"': '"'}
MAX_OPEN: Final = 64


def bracket_end(text: str, start: int) -> int:
    """The end of the expansion that begins at ``start`` with `$(` or `${`.

    Raises:
        ShellSyntaxError: it is not closed, or its end is not certain.
    """
    at = start + 2
    is_arithmetic = text.startswith("$((", start)
    opened = [text[start:at]]
    while opened:
        inner = opened[-1]
        found = (COMMAND_MARK if inner in {"$(", "("} else QUOTED_MARK).search(text, at)
        if found is None:
            raise ShellSyntaxError(f"the bracket `{text[start + 1]}` at character {start + 2} is not closed; close it")
        mark, at = found.group(), found.end()
        if mark == CLOSING_MARKS[inner]:
            opened.pop()
        elif mark in {"$(", "${", '"'} or (mark == "(" and inner in {"$(", "("}):
            opened.append(mark)
        elif mark == "'" and inner == "${" and _is_plain(text, at):
            at = text.index("'", at) + 1
        elif (mark == "'" and inner == "${") or mark in {"#", "case", "$'"} or (mark == "<<" and not is_arithmetic):
            raise ShellSyntaxError(
                f"the end of the expansion at character {start + 1} is not certain because of `{mark}`; "
                "write the command without it"
            )
        if len(opened) > MAX_OPEN:
            raise ShellSyntaxError(f"the expansion at character {start + 1} has more than {MAX_OPEN} open brackets")
    return at


def _is_plain(text: str, at: int) -> bool:
    """Whether the text up to the next single quote contains no mark, so that it does not matter if it is quoted."""
    end = text.find("'", at)
    return end >= 0 and SPECIAL_CHARACTER.search(text, at, end) is None


def backtick_end(text: str, start: int) -> int:
    """The end of the backtick expansion that begins at ``start``, or of several empty ones in a row.

    Raises:
        ShellSyntaxError: it is not closed.
    """
    found = EMPTY_BACKTICKS.match(text, start) or BACKTICKS.match(text, start)
    if found is None:
        raise ShellSyntaxError(f"the backtick at character {start + 1} is not closed; close it")
    return found.end()
