"""Children removed from the text of a list or map, with their commas, or with their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.edits.lines import LINE_BREAK, REST_OF_LINE, begin_of, comma_after, is_blank, line_start
from policy.edits.nodes import FLOW, Child, Node
from policy.edits.operations import ChildRemoval, TextEdit

if TYPE_CHECKING:
    from collections.abc import Sequence


def removal_edits(text: str, removal: ChildRemoval) -> list[TextEdit] | None:
    """The spans of children that are removed; None if they cannot be removed with certainty."""
    parent, children = removal.parent, removal.children
    if parent.style == FLOW:
        return _flow_removal(text, parent, children)
    if len(children) == len(parent.children):
        if len(children) > 1:
            return None
        begin = begin_of(text, parent, children[0])
        empty = "[]" if isinstance(parent.value, list) else "{}"
        if begin is None:
            return None
        before = len(text[:begin].rstrip(" \t\r\n"))
        if text[before - 1 : before] == ":":  # on the line of the key, as a list may have its column
            return [TextEdit(before, children[0].end, f" {empty}")]
        # after a comment a list may be in the column of its key, and brackets have to be further in
        is_after_comment = isinstance(parent.value, list) and "#" in text[line_start(text, before - 1) : before]
        return [TextEdit(begin, children[0].end, f" {empty}" if is_after_comment else empty)]
    found = [_line_of(text, parent, child) for child in children]
    return [each for each in found if each is not None] if None not in found else None


def _line_of(text: str, parent: Node, child: Child) -> TextEdit | None:
    """The edit that removes the lines of a child of a block, with the comment at its end; ``None`` if uncertain."""
    begin = begin_of(text, parent, child)
    if begin is None:
        return None
    line = line_start(text, begin)
    rest = REST_OF_LINE.match(text, child.end)
    if rest is None:
        return None
    after = LINE_BREAK.match(text, rest.end())
    if is_blank(text[line:begin].removeprefix("\ufeff")) and not text.startswith("\ufeff", line):
        return TextEdit(line, rest.end() if after is None else after.end(), "")
    index = next(n for n, each in enumerate(parent.children) if each is child)
    if index + 1 == len(parent.children):
        return None
    following = begin_of(text, parent, parent.children[index + 1])
    if following is None or not is_blank(text[child.end : following].replace("\r", "").replace("\n", "")):
        return None  # a comment is between them
    return TextEdit(begin, following, "")


def _flow_removal(text: str, parent: Node, children: Sequence[Child]) -> list[TextEdit] | None:
    """The edits that remove children of a list or map in brackets, each with a comma."""
    gone = {id(child) for child in children}
    left = [n for n, child in enumerate(parent.children) if id(child) not in gone]
    if not left:
        return [TextEdit(parent.children[0].start, parent.children[-1].end, "")]
    found = []
    for index, child in enumerate(parent.children):
        if id(child) not in gone:
            continue
        if index > left[-1]:  # without one after it, the comma before it goes
            comma = comma_after(text, parent.children[index - 1].end)
            if comma is None:
                return None
            found += _last_in_flow(text, comma, child)
        else:
            comma = comma_after(text, child.end)
            if comma is None:
                return None
            found.append(_with_blanks(text, child.start, comma + 1))
    return found


def _with_blanks(text: str, start: int, end: int) -> TextEdit:
    """A span with the rest of its line if nothing else is on it, or else with the blanks after it."""
    after = end
    while text[after : after + 1] in {" ", "\t"}:
        after += 1
    ending = LINE_BREAK.match(text, after)
    if ending is None:
        return TextEdit(start, after, "")
    line = line_start(text, start)
    return TextEdit(line, ending.end(), "") if is_blank(text[line:start]) else TextEdit(start, end, "")


def _last_in_flow(text: str, comma: int, child: Child) -> list[TextEdit]:
    between = text[comma + 1 : child.start]
    if "\n" not in between:
        return [TextEdit(comma, child.end, "")]
    line = line_start(text, child.start)
    ending = REST_OF_LINE.match(text, child.end)
    if ending is None or "#" in ending[0] or not is_blank(text[line : child.start]):
        return [TextEdit(comma, comma + 1, ""), TextEdit(child.start, child.end, "")]
    after = LINE_BREAK.match(text, ending.end())
    return [TextEdit(comma, comma + 1, ""), TextEdit(line, ending.end() if after is None else after.end(), "")]
