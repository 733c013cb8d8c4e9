"""Calculate `$((…))` in a script: whole numbers with `+ - * / %`, brackets, and variables that have them as values.

https://www.gnu.org/software/bash/manual/html_node/Shell-Arithmetic.html. Nothing is evaluated as code: any other
operator, an assignment, a value that is not a decimal, octal (`010`) or hexadecimal (`0x8`) number, and a result beyond
64 bits give no value. An expression that a shell certainly refuses, such as `08`, `1a`, `1 +` and `1 / 0`, raises
`CalculationRefused`: the shell ends the script there, or bash the line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_EXPRESSION: Final = 256
DIGITS: Final = r"0[xX][0-9A-Fa-f]{1,16}|0[0-7]{0,22}|[1-9][0-9]{0,18}"
TOKEN: Final = re.compile(
    rf"[ \t\n]*+(?:(?P<number>{DIGITS})(?![0-9A-Za-z_#])|(?P<operator>[-+*/%()])(?![-+*/%=])"
    r"|\$?(?P<name>[A-Za-z_][A-Za-z0-9_]*+)(?![ \t\n]*+(?:=(?!=)|\[|\+\+|--))"
    rf"|\$\{{(?P<braced>[A-Za-z_][A-Za-z0-9_]*+)(?::?-(?P<default>{DIGITS}))?+\}})"
)
"""Matches a number, an operator, or a variable, also with a number as its default: `${A:-0}`."""
NUMBER: Final = re.compile(rf"-?(?:{DIGITS})")
INVALID_NUMBER: Final = re.compile(
    r"(?<![\w#@$.'\"\\])(?!(?:0[xX][0-9A-Fa-f]*|0[0-7]*|[1-9][0-9]*)(?![\w#@]))[0-9][\w@]*+(?!#)"
)
"""Matches a number that a shell refuses: `08`, `1a`; one with a base is not read: `10#08`."""
EXPANSION: Final = re.compile(r"[${`\[\\'\"]")
"""Matches what may hold other text than numbers."""
LIMIT: Final = 2**63
MAX_DEPTH: Final = 16


class CalculationRefused(Exception):
    """A shell certainly refuses the expression."""


def calculate(expression: str, value: Callable[[str, str | None], str | None]) -> str | None:
    """The value of an expression, the text between `$((` and `))`; None if it is not known.

    ``value`` returns the value of a variable by its name and its default, if any; None if it is not known.

    Raises:
        CalculationRefused: a shell refuses it.
    """
    is_plain = len(expression) <= MAX_EXPRESSION and EXPANSION.search(expression) is None
    if is_plain and INVALID_NUMBER.search(expression) is not None:
        raise CalculationRefused
    tokens = _tokens(expression, value)
    if not tokens:
        return None
    found, end = _sum(tokens, 0, 0)
    if found is not None and end != len(tokens):
        raise CalculationRefused
    return None if found is None else str(found)


def _tokens(expression: str, value: Callable[[str, str | None], str | None]) -> list[int | str] | None:
    """The numbers and operators of an expression; None if it contains anything else."""
    if len(expression) > MAX_EXPRESSION:
        return None
    expression = expression.rstrip()
    tokens: list[int | str] = []
    at = 0
    while at < len(expression):
        found = TOKEN.match(expression, at)
        if found is None:
            return None
        at = found.end()
        if found["operator"] is not None:
            tokens.append(found["operator"])
            continue
        name = found["name"] or found["braced"]
        text = found["number"] if name is None else value(name, found["default"])
        if text is not None and name is not None and _is_refused(text):
            raise CalculationRefused
        if text is None or NUMBER.fullmatch(text) is None:
            return None
        number = _within(_number(text))
        if number is None:
            return None
        tokens.append(number)
    return tokens


def _is_refused(value: str) -> bool:
    """Whether a shell refuses the value of a variable as a number."""
    return len(value) <= MAX_EXPRESSION and INVALID_NUMBER.fullmatch(value.removeprefix("-")) is not None


def _number(text: str) -> int:
    """A number as C reads it: octal after a zero, hexadecimal after `0x`."""
    digits = text.removeprefix("-")
    base = 16 if digits[1:2] in {"x", "X"} else 8 if digits.startswith("0") else 10
    return int(text, base)


def _sum(tokens: list[int | str], at: int, depth: int) -> tuple[int | None, int]:
    """The sum that begins at a position, and the position after it."""
    total, at = _product(tokens, at, depth)
    while total is not None and at < len(tokens) and tokens[at] in ("+", "-"):
        sign = 1 if tokens[at] == "+" else -1
        other, at = _product(tokens, at + 1, depth)
        total = _within(None if other is None else total + sign * other)
    return total, at


def _product(tokens: list[int | str], at: int, depth: int) -> tuple[int | None, int]:
    total, at = _operand(tokens, at, depth)
    while total is not None and at < len(tokens) and tokens[at] in ("*", "/", "%"):
        operator = tokens[at]
        other, at = _operand(tokens, at + 1, depth)
        if other == 0 and operator != "*":
            raise CalculationRefused
        if other is None:
            return None, at
        if operator == "*":
            total = _within(total * other)
        else:
            quotient = abs(total) // abs(other) * (1 if (total < 0) == (other < 0) else -1)  # towards zero, as in C
            total = quotient if operator == "/" else total - quotient * other
    return total, at


def _operand(tokens: list[int | str], at: int, depth: int) -> tuple[int | None, int]:
    """A number, or an expression in brackets, also with a sign."""
    sign = 1
    if at < len(tokens) and tokens[at] in ("+", "-"):
        sign, at = (1 if tokens[at] == "+" else -1), at + 1
    if depth > MAX_DEPTH:
        return None, at
    token = tokens[at] if at < len(tokens) else ""
    if isinstance(token, int):
        return sign * token, at + 1
    if token in {"+", "-"}:
        return None, at  # several signs
    if token != "(":  # noqa: S105  # a bracket
        raise CalculationRefused
    found, at = _sum(tokens, at + 1, depth + 1)
    if found is None:
        return None, at
    if at >= len(tokens) or tokens[at] != ")":
        raise CalculationRefused
    return sign * found, at + 1


def _within(number: int | None) -> int | None:
    return number if number is not None and -LIMIT < number < LIMIT else None
