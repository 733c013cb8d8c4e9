"""Texts of users in Markdown for a pull request: as code, which no content of theirs can end."""

from __future__ import annotations

import re

from policy.escaping import escape_line


def code_span(text: str) -> str:
    """A text as a code span, on one line.

    Its fence has more backticks than any run of them in the text (CommonMark 6.1).
    """
    text = escape_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    # a blank at both ends is removed again, and a backtick at an end would belong to the fence
    pad = " " if not text or text[0] in " `" or text[-1] in " `" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def code_cell(json_text: str) -> str:
    """JSON text as a code span in a cell of a table, which an unescaped pipe would end, also in code.

    In JSON text backslashes before a pipe come in pairs, so that the one before it here escapes it.
    """
    return code_span(json_text).replace("|", "\\|")
