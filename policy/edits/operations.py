"""The edits of a text: a piece of a scalar replaced, children removed, a child added.

Owns how each is written in the text, and what it does to the tree, so that the new text can be compared with the
document that is expected.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from policy.edits.decoded import decoded
from policy.edits.nodes import DOUBLE, FLOW, PLAIN, SINGLE, Child, Node
from policy.errors import RulesInvalid
from policy.parser.yamltree import YamlNode, read_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

REST_OF_LINE: Final = re.compile(r"[ \t]*+(?:#[^\r\n]*+)?(?=\r?\n|\Z)")
LINE_BREAK: Final = re.compile(r"\r?\n")
GAP: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
DASH: Final = re.compile(r"-[ \t]*+(?:\r?\n[ \t]*+)?\Z")
"""Matches the dash before an item at the end of a text."""
MAX_DASH: Final = 256


class TextEdit(Struct, frozen=True, order=True):
    """A span of a text and what replaces it."""

    start: int
    end: int
    text: str


class Splice(Struct, frozen=True):
    """The characters from ``start`` to ``end`` of a scalar's value, replaced by ``text``."""

    node: Node
    start: int
    end: int
    text: str


class Removal(Struct, frozen=True):
    """Children removed from a list or map."""

    parent: Node
    children: tuple[Child, ...]


class Addition(Struct, frozen=True):
    """A child added at the end of a list, or of a map under ``key``. Its value is a text, or an object of texts."""

    parent: Node
    key: str | None
    value: str | bool | dict[str, str] | Sequence[dict[str, str] | str]


Operation: TypeAlias = Splice | Removal | Addition


def text_edits(text: str, operation: Operation) -> list[TextEdit] | None:
    """The spans of the text that an operation changes; None if it cannot be written with certainty."""
    if isinstance(operation, Splice):
        return _splice(text, operation)
    found = _removal(text, operation) if isinstance(operation, Removal) else _addition(text, operation)
    if found is None or any(after.start < before.end for before, after in pairwise(sorted(found))):
        return None
    return found


def edited(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with edits that do not overlap."""
    parts, at = [], 0
    for edit in sorted(edits):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*parts, text[at:]))


def apply(operations: Sequence[Operation]) -> bool:
    """Change the tree as the operations say; false if they cannot be applied together."""
    splices: dict[int, list[Splice]] = {}
    for operation in operations:
        if isinstance(operation, Splice):
            splices.setdefault(id(operation.node), []).append(operation)
        elif isinstance(operation, Removal):
            for child in operation.children:
                if not _remove(operation.parent, child):
                    return False
        else:
            _add(operation)
    done = [_splice_value(each) for each in splices.values()]
    return all(done)


def _splice_value(splices: list[Splice]) -> bool:
    node = splices[0].node
    value = node.value if isinstance(node.value, str) else node.written
    if value is None:
        return False
    for each in sorted(splices, key=lambda splice: splice.start, reverse=True):
        value = value[: each.start] + each.text + value[each.end :]
    if node.written is not None:
        try:
            node.value = read_yaml(value, "").value
        except RulesInvalid:
            return False
        node.written = value
    else:
        node.value = value
    return True


def _remove(parent: Node, child: Child) -> bool:
    index = next((n for n, each in enumerate(parent.children) if each is child), None)
    if index is None:
        return False
    del parent.children[index]
    if isinstance(parent.value, list):
        del parent.value[index]
    elif isinstance(parent.value, dict):
        parent.value.pop(child.key or "", None)
    return True


def _add(operation: Addition) -> None:
    value = operation.parent.value
    new = _as_node(operation.value)
    if isinstance(value, list):
        value.append(new)
    elif isinstance(value, dict):
        value[operation.key or ""] = new


def _as_node(value: Any) -> YamlNode:
    if isinstance(value, dict):
        return YamlNode({key: YamlNode(text, 0, 0) for key, text in value.items()}, 0, 0)
    return YamlNode([_as_node(each) for each in value] if isinstance(value, list) else value, 0, 0)


def _splice(text: str, splice: Splice) -> list[TextEdit] | None:
    value = decoded(text, splice.node)
    if value is None:
        return None
    new = value.written(splice.text)
    return None if new is None else [TextEdit(*value.span(splice.start, splice.end), new)]


def _removal(text: str, removal: Removal) -> list[TextEdit] | None:
    parent, children = removal.parent, removal.children
    if parent.style == FLOW:
        return _flow_removal(text, parent, children)
    if len(children) == len(parent.children):
        if len(children) > 1:
            return None
        begin = _begin(text, parent, children[0])
        empty = "[]" if isinstance(parent.value, list) else "{}"
        if begin is None:
            return None
        before = len(text[:begin].rstrip(" \t\r\n"))
        if text[before - 1 : before] == ":":  # on the line of the key, as a list may have its column
            return [TextEdit(before, children[0].end, f" {empty}")]
        return [TextEdit(begin, children[0].end, empty)]
    found = [_line_of(text, parent, child) for child in children]
    return [each for each in found if each is not None] if None not in found else None


def _begin(text: str, parent: Node, child: Child) -> int | None:
    """Where a child of a block begins: its key, or its dash."""
    if isinstance(parent.value, dict):
        return child.start
    dash = DASH.search(text, max(child.start - MAX_DASH, parent.start), child.start)
    return None if dash is None else dash.start()


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _is_blank(text: str) -> bool:
    return not text.strip(" \t")


def _line_of(text: str, parent: Node, child: Child) -> TextEdit | None:
    """The lines of a child of a block, with the comment at its end."""
    begin = _begin(text, parent, child)
    if begin is None:
        return None
    line = _line_start(text, begin)
    rest = REST_OF_LINE.match(text, child.end)
    if rest is None:
        return None
    after = LINE_BREAK.match(text, rest.end())
    if _is_blank(text[line:begin].removeprefix("\ufeff")) and not text.startswith("\ufeff", line):
        return TextEdit(line, rest.end() if after is None else after.end(), "")
    index = next(n for n, each in enumerate(parent.children) if each is child)
    if index + 1 == len(parent.children):
        return None
    following = _begin(text, parent, parent.children[index + 1])
    if following is None or not _is_blank(text[child.end : following].replace("\r", "").replace("\n", "")):
        return None  # a comment is between them
    return TextEdit(begin, following, "")


def _flow_removal(text: str, parent: Node, children: Sequence[Child]) -> list[TextEdit] | None:
    """The children of a list or map in brackets, each with a comma."""
    gone = {id(child) for child in children}
    left = [n for n, child in enumerate(parent.children) if id(child) not in gone]
    if not left:
        return [TextEdit(parent.children[0].start, parent.children[-1].end, "")]
    found = []
    for index, child in enumerate(parent.children):
        if id(child) not in gone:
            continue
        if index > left[-1]:  # without one after it, the comma before it goes
            comma = _comma(text, parent.children[index - 1].end)
            if comma is None:
                return None
            found += _last_in_flow(text, comma, child)
        else:
            comma = _comma(text, child.end)
            if comma is None:
                return None
            found.append(_with_blanks(text, child.start, comma + 1))
    return found


def _comma(text: str, at: int) -> int | None:
    gap = GAP.match(text, at)
    assert gap is not None
    return gap.end() if text.startswith(",", gap.end()) else None


def _with_blanks(text: str, start: int, end: int) -> TextEdit:
    """A span with the rest of its line if nothing else is on it, or else with the blanks after it."""
    line = _line_start(text, start)
    after = end
    while text[after : after + 1] in {" ", "\t"}:
        after += 1
    ending = LINE_BREAK.match(text, after)
    if ending is not None:
        return TextEdit(line, ending.end(), "") if _is_blank(text[line:start]) else TextEdit(start, end, "")
    return TextEdit(start, after, "")


def _last_in_flow(text: str, comma: int, child: Child) -> list[TextEdit]:
    between = text[comma + 1 : child.start]
    if "\n" not in between:
        return [TextEdit(comma, child.end, "")]
    line = _line_start(text, child.start)
    ending = REST_OF_LINE.match(text, child.end)
    if ending is None or "#" in ending[0] or not _is_blank(text[line : child.start]):
        return [TextEdit(comma, comma + 1, ""), TextEdit(child.start, child.end, "")]
    after = LINE_BREAK.match(text, ending.end())
    return [TextEdit(comma, comma + 1, ""), TextEdit(line, ending.end() if after is None else after.end(), "")]


def _quoted(value: str | bool, style: str, *, is_json: bool) -> str:  # noqa: FBT001  # a value of a document
    if isinstance(value, bool):
        return str(value).lower()
    if style == SINGLE and not is_json:
        return f"'{value}'"
    if style == DOUBLE or is_json:
        return f'"{value}"'
    return value


def _addition(text: str, addition: Addition) -> list[TextEdit] | None:
    parent = addition.parent
    is_json = parent.is_json
    if parent.style == FLOW:
        return _flow_addition(text, addition)
    if not parent.children:
        return None
    last = parent.children[-1]
    begin = _begin(text, parent, parent.children[0])
    ending = REST_OF_LINE.match(text, last.end)
    if begin is None or ending is None:
        return None
    indent = " " * (begin - _line_start(text, begin))
    newline = "\r\n" if "\r\n" in text else "\n"
    style = last.node.style if last.node.style in {SINGLE, DOUBLE} else PLAIN
    lines = _lines(addition, style, is_json=is_json)
    return [TextEdit(ending.end(), ending.end(), "".join(f"{newline}{indent}{line}" for line in lines))]


def _lines(addition: Addition, style: str, *, is_json: bool) -> list[str]:
    """The lines of a child in a block."""
    value, key = addition.value, addition.key
    head = "- " if key is None else f"{key}:"
    if not isinstance(value, str | bool | dict):
        return [
            head,
            *(
                line
                for each in value
                for line in (_item_lines(each, "  ") if isinstance(each, dict) else [f"  - {each}"])
            ),
        ]
    if isinstance(value, dict):
        if key is None:
            return _item_lines(value, "")
        return [head, *(f"  {name}: {_quoted(text, DOUBLE, is_json=False)}" for name, text in value.items())]
    if key is None:
        return [head + _quoted(value, style, is_json=is_json)]
    return [f"{head} {_quoted(value, DOUBLE if isinstance(value, str) else PLAIN, is_json=is_json)}"]


def _item_lines(value: dict[str, str], indent: str) -> list[str]:
    """The lines of an object in a list; only its last field needs quotes, as the others are names."""
    pairs = [*value.items()]
    return [
        f"{indent}{'  ' if n else '- '}{key}: {_quoted(text, DOUBLE if n else PLAIN, is_json=False)}"
        for n, (key, text) in enumerate(pairs)
    ]


def _flow_addition(text: str, addition: Addition) -> list[TextEdit] | None:
    parent, is_json = addition.parent, addition.parent.is_json
    last = parent.children[-1] if parent.children else None
    style = DOUBLE if last is None or last.node.style not in {SINGLE, PLAIN} else last.node.style
    new = _inline(addition.value, style if addition.key is None else DOUBLE, is_json=is_json)
    if addition.key is not None:
        new = f"{_quoted(addition.key, PLAIN, is_json=is_json)}: {new}"
    if last is None:
        return [TextEdit(parent.start + 1, parent.start + 1, new)]
    comma = _comma(text, last.end)
    if comma is not None:
        return None
    line = _line_start(text, last.start)
    prefix = text[line : last.start]
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = f"{newline}{prefix}" if _is_blank(prefix) and line else " "
    return [TextEdit(last.end, last.end, f",{gap}{new}")]


def _inline(value: Any, style: str, *, is_json: bool) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_inline(each, style, is_json=is_json) for each in value)}]"
    if isinstance(value, dict):
        pairs = (
            f"{_quoted(key, PLAIN, is_json=is_json)}: {_quoted(text, DOUBLE, is_json=is_json)}"
            for key, text in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    return _quoted(value, style, is_json=is_json)
