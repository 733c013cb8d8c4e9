"""The variables of a file that systemd's `EnvironmentFile=` names, which may have quotes, escapes and comments.

Follows `parse_env_file_internal` of `src/basic/env-file.c` (read at version 257, compared with libsystemd 252): no
value has references. Before version 254 a comment that ends with a backslash continues in the next line.
"""

from __future__ import annotations

import re
from typing import Final

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+", re.ASCII)
ESCAPABLE_CHARACTERS: Final = frozenset('"\\`$')
"""The characters that a backslash escapes within double quotes."""
VALUE: Final = re.compile(
    r"""(?P<blank>[ \t]++)|'(?P<single>[^']*+)(?:'|\Z)|"(?P<double>(?:[^"\\]|\\.)*+)\\?(?:"|\Z)"""
    r"""|(?P<plain>(?:[^ \t\n\r'"\\]|\\(?:.|\Z))(?:[^\n\r\\]|\\(?:.|\Z))*+)""",
    re.DOTALL,
)
"""Matches a part of a value: one in quotes, which may have lines, or the rest of the line, in which quotes are text."""
ESCAPE: Final = re.compile(r"\\(.|\Z)", re.DOTALL)
COMMENT: Final = re.compile(r"[#;][^\n\r]*+")
CONTINUED_COMMENT: Final = re.compile(r"[#;](?:[^\n\r\\]|\\(?:.|\Z))*+", re.DOTALL)
"""Matches a comment as systemd before 254 reads it."""
KEY: Final = re.compile(r"[^\n\r][^=\n\r]*+")
"""Matches what precedes an equals sign; systemd takes an equals sign that begins a line as part of the name."""
BLANKS: Final = " \t\n\r"


def variables_of(text: str) -> dict[str, str | None]:
    """The variables of a file; None if releases of systemd differ in the value, or in whether they read the variable.

    Lines that are not assignments are left out, as in systemd.
    """
    found = _variables(text, COMMENT)
    before = _variables(text, CONTINUED_COMMENT) if "\\" in text else found
    return {name: found.get(name) if found.get(name) == before.get(name) else None for name in found | before}


def _variables(text: str, comments: re.Pattern[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        if text[at] in BLANKS:
            at += 1
            continue
        if (comment := comments.match(text, at)) is not None:
            at = comment.end()
            continue
        key = KEY.match(text, at)
        at = at if key is None else key.end()
        if text[at : at + 1] != "=":
            at += 1
            continue
        parts: list[str] = []
        at += 1
        while (part := VALUE.match(text, at)) is not None:
            at = part.end()
            parts.append(_unescaped(part))
        name = "" if key is None else key.group().strip(BLANKS)
        if NAME.fullmatch(name) is not None:
            found[name] = "".join(parts)
        if text[at : at + 1] not in {"\n", "\r"}:
            at += 1
    return found


def _unescaped(part: re.Match[str]) -> str:
    if part["double"] is not None:
        return ESCAPE.sub(lambda found: _in_quotes(found[1]), part["double"])
    if part["plain"] is None:
        return part["single"] or ""
    plain = part["plain"]
    kept = plain.rstrip(" \t")
    if kept.endswith("\\") and (len(kept) - len(kept.rstrip("\\"))) % 2:  # the first blank is escaped
        kept = plain[: len(kept) + 1]
    return ESCAPE.sub(lambda found: "" if found[1] in "\n\r" else found[1], kept)


def _in_quotes(char: str) -> str:
    if char in ESCAPABLE_CHARACTERS:
        return char
    return "" if char == "\n" else f"\\{char}"
