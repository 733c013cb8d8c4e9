"""The command of a program in the configuration of supervisord (read at 4.2.5), as words.

No shell is involved. supervisord cuts comments from each line, substitutes ``%(NAME)s`` and splits the rest as
``python_shlex`` does.
"""

from __future__ import annotations

from typing import Final

from policy.intake.manifests import python_shlex

COMMENTS: Final = frozenset(";#")
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
    return python_shlex.split(command.replace("%%", "%"))
