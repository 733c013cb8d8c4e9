"""The spans of a text that an operation changes."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from policy.edits.additions import addition_edits
from policy.edits.decoded import decoded
from policy.edits.nodes import LITERAL, WHOLE_TEXT
from policy.edits.operations import ChildRemoval, Operation, Splice, TextEdit
from policy.edits.removals import removal_edits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.edits.decoded import Decoded

BLANKS: Final = " \t\r\n"
REST_OF_LINE: Final = re.compile(r"[ \t]*+[\r\n]")


def all_text_edits(text: str, operations: Iterable[Operation]) -> list[TextEdit] | None:
    """The spans of the text that operations change; None if one of them cannot be written with certainty.

    The value of a scalar is read once for all changes in it.
    """
    values: dict[int, Decoded | None] = {}
    found: list[TextEdit] = []
    for operation in operations:
        if isinstance(operation, Splice):
            node = operation.node
            if id(node) not in values:
                values[id(node)] = decoded(text, node)
            edits = _splice(text, operation, values[id(node)])
        else:
            edits = text_edits(text, operation)
        if edits is None:
            return None
        found += edits
    return found


def text_edits(text: str, operation: Operation) -> list[TextEdit] | None:
    """The spans of the text that an operation changes; None if it cannot be written with certainty."""
    if isinstance(operation, Splice):
        return _splice(text, operation, decoded(text, operation.node))
    found = removal_edits(text, operation) if isinstance(operation, ChildRemoval) else addition_edits(text, operation)
    if found is None or any(after.start < before.end for before, after in pairwise(sorted(found))):
        return None
    return found


def _splice(text: str, splice: Splice, value: Decoded | None) -> list[TextEdit] | None:
    """The span of a change in a scalar with this value."""
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
