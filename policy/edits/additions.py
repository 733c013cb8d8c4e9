"""Children added to the text of a list or map, in the style of its other children."""

from __future__ import annotations

from typing import Any

from policy.edits.lines import REST_OF_LINE, begin_of, comma_after, is_blank, line_start
from policy.edits.nodes import DOUBLE, FLOW, PLAIN, SINGLE
from policy.edits.operations import Addition, TextEdit


def _quoted(value: str | bool, style: str, *, is_json: bool) -> str:  # noqa: FBT001  # a value of a document
    if isinstance(value, bool):
        return str(value).lower()
    if style == SINGLE and not is_json:
        return f"'{value}'"
    if style == DOUBLE or is_json:
        return f'"{value}"'
    return value


def addition_edits(text: str, addition: Addition) -> list[TextEdit] | None:
    """Where a child is added and its text; None if it cannot be added with certainty."""
    parent = addition.parent
    is_json = parent.is_json
    if parent.style == FLOW:
        return _flow_addition(text, addition)
    if not parent.children:
        return None
    last = parent.children[-1]
    begin = begin_of(text, parent, parent.children[0])
    ending = REST_OF_LINE.match(text, last.end)
    if begin is None or ending is None:
        return None
    indent = " " * (begin - line_start(text, begin))
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
    comma = comma_after(text, last.end)
    if comma is not None:
        return None
    line = line_start(text, last.start)
    prefix = text[line : last.start]
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = f"{newline}{prefix}" if is_blank(prefix) and line else " "
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
