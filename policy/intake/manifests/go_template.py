"""Render the text of a Go template, as far as its values are known.

Covers what configurations of KServe use: fields, `if`, `else`, `and`, `or`, `not`, literals and the caller's functions.
Everything else is a gap in the text. The text is that of a JSON string, in which a new line is an escape, so that trim
markers remove only blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from policy.intake.command.words import Unknown

ACTION_START: Final = "{{"
ACTION_END: Final = "}}"
MAX_ACTIONS: Final = 256
MAX_NESTED: Final = 8
MAX_SIZE: Final = 100_000
TOKEN: Final = re.compile(
    r"(?P<field>\.[A-Za-z0-9_.]*)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>-?[0-9]+)|`(?P<raw>[^`]*)`"
    r"|(?P<open>\()|(?P<close>\))|(?P<blank>[ ]+)"
)
GAP_SEPARATORS: Final = re.compile(r"[^A-Za-z0-9_.]+")
"""Matches the characters of an expression that the name of its gap leaves out."""
MAX_GAP_NAME: Final = 60
JSON_NAMES: Final = {"KVCacheOffloading": "kvCacheOffloading", "LoRA": "lora", "URI": "uri", "CPU": "cpu"}
"""The fields of KServe's API whose names in JSON differ from those in Go by more than the first letter."""
BLOCK_KEYWORDS: Final = frozenset({"range", "with", "define", "block"})

Function: TypeAlias = Callable[[Sequence[Any]], Any]


class UnknownValue:
    """The type of ``UNKNOWN``, a value that is not known."""


UNKNOWN: Final = UnknownValue()


class TemplateError(ValueError):
    """The text is not a template, or it is too long."""


class TemplateContext(Struct, frozen=True):
    """What a template may refer to: the fields by their names in Go, and functions."""

    fields: Mapping[str, Any]
    functions: Mapping[str, Function]


class RenderedText(Struct, frozen=True):
    """A rendered text, an ``Unknown`` if it has a gap, written as ``${NAME!}``.

    ``assumed_conditions`` has the conditions whose value is not known, each with the text that was left out.
    """

    text: str
    assumed_conditions: tuple[tuple[str, str], ...] = ()


class _TemplateBlock(Struct):
    """An open block: whether its text counts, whether a branch was chosen, and whether any branch may be chosen."""

    is_shown: bool
    is_chosen: bool
    is_inside: bool
    condition: str = ""
    """The condition, if its value is not known."""
    left_out: list[str] = []


def render(text: str, context: TemplateContext) -> RenderedText:
    """Render a text.

    Raises:
        TemplateError: an action or a block is not closed, or there are too many.
    """
    output: list[str] = []
    blocks: list[_TemplateBlock] = []
    assumed: list[tuple[str, str]] = []
    at, has_gap, is_trimmed, size = 0, False, False, 0
    for _ in range(MAX_ACTIONS):
        start = text.find(ACTION_START, at)
        literal = text[at : start if start >= 0 else len(text)]
        literal = literal.lstrip(" ") if is_trimmed else literal
        end = text.find(ACTION_END, start) if start >= 0 else -1
        if start >= 0 and end < 0:
            raise TemplateError(f"an action is not closed with `{ACTION_END}`")
        action = text[start + len(ACTION_START) : end] if start >= 0 else ""
        if action.startswith("- "):
            action, literal = action[1:], literal.rstrip(" ")
        is_trimmed = action.endswith(" -")
        action = action.removesuffix(" -").strip(" ")
        is_shown = all(block.is_shown for block in blocks[-1:])
        if is_shown:
            output.append(literal)
        elif blocks:
            blocks[-1].left_out.append(literal)
        if start < 0:
            break
        at = end + len(ACTION_END)
        keyword = action.partition(" ")[0]
        if keyword in {"if", "else", "end"} or keyword in BLOCK_KEYWORDS:
            if keyword in BLOCK_KEYWORDS and is_shown:
                output.append(_gap(action))
                has_gap = True
            _change_blocks(keyword, action, blocks, context, assumed, is_shown=is_shown)
        elif is_shown and not action.startswith("/*") and not (action.startswith("$") and "=" in action):
            value = _written(_value(action, context))
            has_gap = has_gap or value is None
            output.append(_gap(action) if value is None else value)
            size += len(output[-1])
            if size > MAX_SIZE:
                raise TemplateError(f"its values have more than {MAX_SIZE} characters")
    else:
        raise TemplateError(f"there are more than {MAX_ACTIONS} actions")
    if blocks:
        raise TemplateError("a block is not closed with `{{ end }}`")
    rendered = "".join(output)
    return RenderedText(Unknown(rendered) if has_gap else rendered, tuple(assumed))


def _change_blocks(
    keyword: str,
    action: str,
    blocks: list[_TemplateBlock],
    context: TemplateContext,
    assumed: list[tuple[str, str]],
    *,
    is_shown: bool,
) -> None:
    """Open a block, change to its next branch, or close it. A condition that is not known counts as false."""
    if keyword in BLOCK_KEYWORDS:
        blocks.append(_TemplateBlock(is_shown=False, is_chosen=True, is_inside=False))
        return
    if keyword == "if":
        condition = action[len("if") :]
        is_true = _is_true(_value(condition, context)) if is_shown else False
        blocks.append(
            _TemplateBlock(bool(is_true), bool(is_true), is_shown, condition.strip(" ") if is_true is None else "")
        )
        return
    if not blocks:
        raise TemplateError(f"`{keyword}` is outside a block")
    block = blocks[-1]
    if block.condition:
        assumed.append((block.condition, "".join(block.left_out)))
        block.condition, block.left_out = "", []
    if keyword == "end":
        blocks.pop()
        return
    is_next = block.is_inside and not block.is_chosen
    condition = action[len("else") :].strip(" ").removeprefix("if")
    is_true = (_is_true(_value(condition, context)) if condition else True) if is_next else False
    block.is_shown = bool(is_true)
    block.is_chosen = block.is_chosen or block.is_shown
    block.condition = condition.strip(" ") if is_true is None else ""


def _gap(action: str) -> str:
    """What stands for an unknown value; no shell can expand it."""
    return f"${{{GAP_SEPARATORS.sub(' ', action[:MAX_GAP_NAME]).strip(' .').replace(' ', '_') or 'template'}!}}"


def _written(value: Any) -> str | None:
    """A value as the template writes it; None if it is not known."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int) else None


def _is_true(value: Any) -> bool | None:
    """Whether a value counts as true in a condition; None if it is not known."""
    return None if value is UNKNOWN else bool(value)


def _value(expression: str, context: TemplateContext) -> Any:
    """The value of an expression; None for a field that is not set."""
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(expression):
        found = TOKEN.match(expression, at)
        if found is None or found.lastgroup is None:
            return UNKNOWN
        if found.lastgroup != "blank":
            tokens.append((found.lastgroup, found.group(found.lastgroup)))
        at = found.end()
    stack: list[list[Any]] = [[]]
    for kind, text in tokens:
        if kind == "open":
            if len(stack) > MAX_NESTED:
                return UNKNOWN
            stack.append([])
        elif kind == "close":
            if len(stack) == 1:
                return UNKNOWN
            inner = _called(stack.pop())
            stack[-1].append(inner)
        else:
            stack[-1].append(_operand(kind, text, context))
    return _called(stack[0]) if len(stack) == 1 else UNKNOWN


def _operand(kind: str, text: str, context: TemplateContext) -> Any:
    """The value of a field or a literal, or the function of a name."""
    if kind == "field":
        return _field(text, context.fields)
    if kind == "number":
        return int(text) if len(text) < 20 else UNKNOWN  # noqa: PLR2004  # digits of the largest number of Go
    if kind == "raw":
        return text
    constants = {"true": True, "false": False, "nil": None}
    if text in constants:
        return constants[text]
    return BUILTINS.get(text) or context.functions.get(text) or UNKNOWN


def _called(operands: list[Any]) -> Any:
    """The value of a function with its arguments, or of a single operand."""
    if not operands:
        return UNKNOWN
    first, *arguments = operands
    if callable(first):
        return UNKNOWN if any(map(callable, arguments)) else first(arguments)
    return first if not arguments else UNKNOWN


def _field(path: str, fields: Mapping[str, Any]) -> Any:
    """The value of a field; None if it, or an object that has it, is not set."""
    first, *names = path.strip(".").split(".")
    if first not in fields:
        return UNKNOWN
    value: Any = fields[first]
    for name in names:
        if not isinstance(value, dict):
            return value if value is UNKNOWN else None
        key = next((key for key in (name, JSON_NAMES.get(name, name[:1].lower() + name[1:])) if key in value), None)
        value = None if key is None else value[key]
    return value


def _first(arguments: Sequence[Any], *, is_true: bool) -> Any:
    """The first argument that counts as ``is_true``, else the last one."""
    for value in arguments[:-1]:
        if value is UNKNOWN:
            return UNKNOWN
        if bool(value) is is_true:
            return value
    return arguments[-1] if arguments else UNKNOWN


def _negated(arguments: Sequence[Any]) -> Any:
    return not arguments[0] if len(arguments) == 1 and arguments[0] is not UNKNOWN else UNKNOWN


BUILTINS: Final[dict[str, Function]] = {
    "and": lambda arguments: _first(arguments, is_true=False),
    "or": lambda arguments: _first(arguments, is_true=True),
    "not": _negated,
}
