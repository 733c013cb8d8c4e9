"""User input as code in the Markdown of a pull request; it cannot end the code span."""

from __future__ import annotations

import re

from policy.escaping import escape_line


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
