"""The commands in `$(…)` and backticks of a script, which run in a subshell before the command with the expansion.

Not here: parsing them (`subshells`), which of them start vLLM (`command_builder`) or a container (`substitutions`), and
what they change (`script_servers`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.brackets import backtick_end, bracket_end
from policy.intake.command.substitutions import ESCAPED_CHARACTER

if TYPE_CHECKING:
    from collections.abc import Iterator

READING_COMMANDS: Final = (
    *("basename", "cat", "command -v", "date", "dirname", "echo", "head", "hostname", "id", "jobs", "ls", "nproc"),
    *("printenv", "printf", "pwd", "readlink", "realpath", "seq", "tail", "uname", "wc", "which", "whoami"),
)
READING_SUBSTITUTION: Final = re.compile(
    rf"(?:\$\(|`)[ \t]*+(?:{'|'.join(READING_COMMANDS)})(?![\w./-])"
    r"(?:[0-9&]?>/dev/null|2>&1|[^;&|<>$`()\n\\]|\$\{[\w\[\]@*]++\}|\$(?![({']))*+[)`]"
)
"""Matches a substitution of one command that only reads."""
INNER_START: Final = re.compile(r"\\.|\$\((?!\()|`", re.DOTALL)
"""Matches what begins a substitution within another expansion, or a quoted character."""
TWO_WORDS: Final = re.compile(r"\w[ \t]++-{0,2}[A-Za-z/]")
"""Matches what a calculation seldom has and a command often: `$((a b); c)`."""


class ShellExpansion(Struct, frozen=True, gc=False):
    """An expansion as written, with the values that the script has set before it, unless there are too many."""

    text: str
    values: dict[str, str | None]
    is_bash: bool
    is_complete: bool


def scripts(written: str) -> Iterator[str]:
    """The scripts of an expansion: its own, or those of the substitutions in it.

    Raises:
        ShellSyntaxError: a substitution is not closed, or its end is not certain.
    """
    if written.startswith("`"):
        if written.strip("`"):
            yield ESCAPED_CHARACTER.sub(r"\1", written[1:-1])
        return
    if written.startswith("$(") and (not written.startswith("$((") or TWO_WORDS.search(written) is not None):
        yield written[2:-1]
        return
    at = 2
    while (found := INNER_START.search(written, at)) is not None:
        at = found.end()
        if found.group() == "`":
            at = backtick_end(written, found.start())
        elif found.group() == "$(":
            at = bracket_end(written, found.start())
        else:
            continue
        yield from scripts(written[found.start() : at])
