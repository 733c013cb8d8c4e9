"""Constructs in a script that may run text that is read as data, or make a name run another program."""

from __future__ import annotations

import re
from typing import Final

from policy.intake.command.programs import QUOTES

OTHER_READING: Final = "is read by some shells in another way, so that what is read as data may run"
BASH_TABLES: Final = re.compile(r"(?:CMDS|ALIASES)\b")
"""Matches the arrays in which bash keeps the program that each name runs: `BASH_CMDS`, `BASH_ALIASES`."""
PATH_CHANGE: Final = re.compile(r"(?<![\w$])PATH(?:\+?=(?!\$\{?PATH\b)|(?=[\s;]|$))", re.MULTILINE)
"""Matches an assignment to `PATH` whose value does not begin with the old one, or `PATH` as a word of a command."""
PATH_EXPORT: Final = re.compile(r"\bexport\s+PATH(?=[\s;]|$)", re.MULTILINE)


def hiding_text(text: str) -> str:
    """Why names in a script may run other programs; empty if they do not."""
    is_named = "PATH" in text or "ALIASES" in text or "CMDS" in text
    if not is_named and "'" not in text and '"' not in text and "\\" not in text:
        return ""
    plain = QUOTES.sub("", text)
    if BASH_TABLES.search(plain) is not None:
        return "`BASH_CMDS` or `BASH_ALIASES` may change which program a name runs"
    if "PATH" in plain and PATH_CHANGE.search(PATH_EXPORT.sub("", plain)) is not None:
        return "the script sets `PATH`, so that a name may run another program"
    return ""
