"""Constructs in the text of a script by which text that is read as data may run, or a name may run another program."""

from __future__ import annotations

import re
from typing import Final

from policy.intake.command.programs import QUOTES

OTHERWISE: Final = "is read by some shells in another way, so that what is read as data may run"
BASH_TABLES: Final = re.compile(r"(?:CMDS|ALIASES)\b")
"""Matches the arrays of bash with which program each name runs: `BASH_CMDS`, `BASH_ALIASES`."""
PATH: Final = re.compile(r"(?<![\w$])PATH(?:\+?=(?!\$\{?PATH\b)|(?=[\s;]|$))", re.MULTILINE)
"""Matches what sets `PATH`, other than with folders after those that it has, or a command that is given its name."""
EXPORTS_PATH: Final = re.compile(r"\bexport\s+PATH(?=[\s;]|$)", re.MULTILINE)


def hiding_text(text: str) -> str:
    """What in a script changes which programs its names run; empty if nothing does."""
    is_named = "PATH" in text or "ALIASES" in text or "CMDS" in text
    if not is_named and "'" not in text and '"' not in text and "\\" not in text:
        return ""
    plain = QUOTES.sub("", text)
    if BASH_TABLES.search(plain) is not None:
        return "`BASH_CMDS` or `BASH_ALIASES` may change which program a name runs"
    if "PATH" in plain and PATH.search(EXPORTS_PATH.sub("", plain)) is not None:
        return "the script sets `PATH`, so that a name may run another program"
    return ""
