"""Computes the formulas of configuration classes, which `making.formulas` wrote down.

Owns their meaning. A formula is JSON: a constant, or a list whose first item is the operation.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

LIMIT = 10_000
"""No configuration has more layers; a longer list would come from nonsense in `config.json`."""


class Incomputable(Exception):
    """A formula that could not be written down, or that meets values it was not made for."""


TWO: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "%": operator.mod, "//": operator.floordiv,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda item, items: item in items, "not in": lambda item, items: item not in items,
}  # fmt: skip
ONE: Mapping[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "len": len, "list": list, "not": operator.not_}


def compute(formula: Any, stated: Mapping[str, Any], key: Callable[[str], Any], legacy: Mapping[str, str], each: Any = None) -> Any:
    """The value of a formula: `key` gives an attribute as stated or by default, `stated` is `config.json` itself. Raises Incomputable."""
    if not isinstance(formula, list):
        return formula
    word, *parts = formula

    def of(part: Any) -> Any:
        return compute(part, stated, key, legacy, each)

    try:
        match word:
            case "key":
                return key(parts[0])
            case "each":
                return each
            case "stated":
                return parts[0] in stated
            case "given":
                return stated[parts[0]] if parts[0] in stated else of(parts[1])
            case "if":
                return of(parts[1]) if of(parts[0]) else of(parts[2])
            case "and" | "or":
                found: Any = None
                for part in parts:
                    found = of(part)
                    if bool(found) is (word == "or"):
                        break
                return found
            case "items":
                return [of(part) for part in parts]
            case "first":
                return of(parts[0])[: of(parts[1])]
            case "range":
                return _bounded(range(*(of(part) for part in parts)))
            case "for each":
                return [compute(parts[1], stated, key, legacy, item) for item in _bounded(of(parts[0]))]
            case "remap":
                return [legacy.get(item, item) for item in of(parts[0])]
            case "min" | "max":
                return (min if word == "min" else max)(*(of(part) for part in parts))
            case "*":
                return _product(of(parts[0]), of(parts[1]))
        if word in TWO:
            return TWO[word](of(parts[0]), of(parts[1]))
        if word in ONE:
            return ONE[word](of(parts[0]))
    except (TypeError, ValueError, ZeroDivisionError, IndexError, AttributeError) as error:
        raise Incomputable(word) from error
    raise Incomputable(word)


def _bounded(items: Any) -> Any:
    if len(items) > LIMIT:
        raise Incomputable("too long a list")
    return items


def _product(one: Any, other: Any) -> Any:
    for items, times in ((one, other), (other, one)):
        if isinstance(items, list) and len(items) * times > LIMIT:
            raise Incomputable("too long a list")
    return one * other
