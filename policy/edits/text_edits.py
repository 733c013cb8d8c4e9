"""The spans of a text that an operation changes."""

from __future__ import annotations

from itertools import pairwise

from policy.edits.additions import addition_edits
from policy.edits.decoded import decoded
from policy.edits.operations import Operation, Removal, Splice, TextEdit
from policy.edits.removals import removal_edits


def text_edits(text: str, operation: Operation) -> list[TextEdit] | None:
    """The spans of the text that an operation changes; None if it cannot be written with certainty."""
    if isinstance(operation, Splice):
        return _splice(text, operation)
    found = removal_edits(text, operation) if isinstance(operation, Removal) else addition_edits(text, operation)
    if found is None or any(after.start < before.end for before, after in pairwise(sorted(found))):
        return None
    return found


def _splice(text: str, splice: Splice) -> list[TextEdit] | None:
    value = decoded(text, splice.node)
    if value is None:
        return None
    new = value.written(splice.text)
    return None if new is None else [TextEdit(*value.span(splice.start, splice.end), new)]
