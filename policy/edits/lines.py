"""The layout of the children of a list or map: dashes, commas, comments, line ends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from policy.edits.nodes import Child, Node

REST_OF_LINE: Final = re.compile(r"[ \t]*+(?:#[^\r\n]*+)?(?=\r?\n|\Z)")
LINE_BREAK: Final = re.compile(r"\r?\n")
GAP: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
DASH: Final = re.compile(r"-[ \t]*+(?:\r?\n[ \t]*+)?\Z")
"""Matches the dash before an item at the end of a text."""
MAX_DASH: Final = 256


def begin_of(text: str, parent: Node, child: Child) -> int | None:
    """Where a child of a block begins: its key, or its dash."""
    if isinstance(parent.value, dict):
        return child.start
    dash = DASH.search(text, max(child.start - MAX_DASH, parent.start), child.start)
    return None if dash is None else dash.start()


def line_start(text: str, at: int) -> int:
    """Where the line of an offset begins."""
    return text.rfind("\n", 0, at) + 1


def is_blank(text: str) -> bool:
    """Whether a text within a line has only blanks."""
    return not text.strip(" \t")


def comma_after(text: str, at: int) -> int | None:
    """The comma after an offset, behind blanks and comments; None if something else is there."""
    gap = GAP.match(text, at)
    assert gap is not None
    return gap.end() if text.startswith(",", gap.end()) else None
