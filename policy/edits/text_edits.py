"""The spans of a text that an operation changes."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from policy.edits.additions import addition_edits
from policy.edits.decoded import decoded
from policy.edits.nodes import LITERAL, WHOLE_TEXT
from policy.edits.operations import ChildRemoval, Operation, Splice, TextEdit
from policy.edits.removals import removal_edits

BLANKS: Final = " \t\r\n"
REST_OF_LINE: Final = re.compile(r"[ \t]*+[\r\n]")


def text_edits(text: str, operation: Operation) -> list[TextEdit] | None:
    """The spans of the text that an operation changes; None if it cannot be written with certainty."""
    if isinstance(operation, Splice):
        return _splice(text, operation)
    found = removal_edits(text, operation) if isinstance(operation, ChildRemoval) else addition_edits(text, operation)
    if found is None or any(after.start < before.end for before, after in pairwise(sorted(found))):
        return None
    return found


def _splice(text: str, splice: Splice) -> list[TextEdit] | None:
    value = decoded(text, splice.node)
    if value is None:
        return None
    new = value.written(splice.text)
    if new is None:
        return None
    start, end = value.span(splice.start, splice.end)
    begin, stop = splice.node.start, splice.node.end
    if value.style not in {WHOLE_TEXT, LITERAL} and (
        (_is_after_break(text, begin, start) and (new or text[end : end + 1])[:1] in BLANKS)
        or (REST_OF_LINE.match(text, end, stop) and (new or text[start - 1 : start])[-1:] in BLANKS)
    ):
        return None  # YAML drops blanks beside a line break that it folds
    return [TextEdit(start, end, new)]


def _is_after_break(text: str, begin: int, at: int) -> bool:
    """Whether only blanks are between the last line break and an offset."""
    while at > begin and text[at - 1] in " \t":
        at -= 1
    return at > begin and text[at - 1] in "\r\n"
