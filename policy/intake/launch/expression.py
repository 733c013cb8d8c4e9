"""Translate an expression of a check, such as `args.nnodes > 1`, into a formula of `policy.intake.model.formula`.

An expression has Python's syntax: `and`, `or`, `not`, comparisons with `==`, `!=`, `<`, `in` and so on, `is None`,
arithmetic with `+`, `-`, `*`, `//` and `%`, `int(…)`, `len(…)`, `lower(…)`, `upper(…)`, `min(…)`, `max(…)`,
`starts(text, beginning)`, `ends(text, ending)`, lists, `[x for x in LIST if CONDITION]`, and `A if B else C`. A name
with dots is a value's name. The text is only translated, never run as Python.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from policy.errors import PolicyError

COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "==",
    ast.IsNot: "!=",
}
ARITHMETIC: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
FUNCTIONS: Final = frozenset({"bool", "ends", "int", "len", "lower", "max", "min", "starts", "upper"})


class InvalidExpression(PolicyError):
    """A text that is not an expression of a check."""


def formula_of(text: str) -> Any:
    """The formula of an expression.

    Raises:
        InvalidExpression: it uses anything that is not listed above.
    """
    try:
        return _formula(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        raise InvalidExpression(f"{text!r}: {error.msg}") from error


def _formula(node: ast.expr) -> Any:
    match node:
        case ast.BoolOp(op=op, values=parts):
            return ["and" if isinstance(op, ast.And) else "or", *map(_formula, parts)]
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return ["not", _formula(inner)]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return [COMPARISONS[type(op)], _formula(left), _formula(right)]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            return [ARITHMETIC[type(op)], _formula(left), _formula(right)]
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return ["if", _formula(test), _formula(then), _formula(otherwise)]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return [name, *map(_formula, arguments)]
        case ast.ListComp(
            elt=ast.Name(id=kept),
            generators=[ast.comprehension(target=ast.Name(id=name), iter=items, ifs=[test])],
        ) if kept == name:
            return ["where", _formula(items), _with_item(_formula(test), name)]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return ["items", *map(_formula, items)]
        case ast.Constant(value=None | bool() | int() | float() | str() as constant):
            return constant
        case ast.Name() | ast.Attribute():
            return ["key", _name(node)]
    raise InvalidExpression(f"unsupported: {ast.unparse(node)}")


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise InvalidExpression(f"unsupported: {ast.unparse(node)}")


def _with_item(formula: Any, name: str) -> Any:
    """A formula in which a name is the item of the innermost loop."""
    if formula == ["key", name]:
        return ["each"]
    return [_with_item(part, name) for part in formula] if isinstance(formula, list) else formula
