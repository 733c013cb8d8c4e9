"""Markdown for a pull request: user input as code that it cannot end, folded parts, and the length of a comment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.escaping import escape_line
from policy.messages import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_MARKDOWN: Final = 60_000
"""Characters of Markdown; a comment of GitHub may have 65,536."""
MAX_WHY: Final = 300
"""The maximum number of characters of a text that is shown as code."""


def code_span(text: str) -> str:
    """A text as a code span, on one line.

    Its fence has more backticks than any run of them in the text (CommonMark 6.1).
    """
    text = escape_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    # Markdown strips a space at both ends, and a backtick at an end would become part of the fence
    pad = " " if not text or text[0] in " `" or text[-1] in " `" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def code_cell(json_text: str) -> str:
    """JSON text as a code span in a table cell, which an unescaped pipe would end even inside code.

    In JSON text backslashes before a pipe come in pairs, so the one added here escapes the pipe.
    """
    return code_span(json_text).replace("|", "\\|")


def cell(value: str) -> str:
    """A text as code in a cell of a table, which a pipe would end even inside code."""
    return code_text(value).replace("\\", "\\\\").replace("|", "\\|") if value else ""


def code_text(value: str) -> str:
    """A text as code, cut if it is long."""
    shown = value if len(value) <= MAX_WHY else f"{value[:MAX_WHY]}…"
    return code_span(shown)


def bounded(head: str, parts: list[str], end: list[str]) -> str:
    """The Markdown with as many whole lines of its other parts as fit; those that are left out are counted."""
    found, size = [head], len(head)
    is_cut, is_open, left = False, False, 0
    for line in parts:
        closes = line == "</details>"
        if (is_cut or size + len(line) > MAX_MARKDOWN) and not (closes and is_open):
            is_cut = True
            left += bool(line) and not line.startswith(("<details>", "</details>"))
            continue
        is_open = not closes if line.startswith(("<details>", "</details>")) else is_open
        if closes and is_cut:
            found.append("")
        found.append(line)
        size += len(line) + 1
    if is_cut:
        end = [*end, f"{counted(left, 'more line is', 'more lines are')} left out: a comment has a maximum length."]
    return "\n".join([*found, *end])


def details(title: str, lines: Iterable[str]) -> list[str]:
    """Lines of Markdown, folded below a title."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]
