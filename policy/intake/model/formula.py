"""Computes the formulas in the tables, which `policy.vllm.tablegen` wrote (`formulas`, `branches`).

Defines what they mean. A formula is JSON: a constant, or a list whose first item is the operation. Computing ends soon
whatever a `config.json` contains: lists are bounded, and so are the rounds of all loops together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

LONGEST: Final = 1024
"""No configuration has more layers; a longer list can only come from an invalid `config.json`."""
ROUNDS: Final = 20_000
"""The maximum rounds of all loops of one formula."""
PER_ROUND: Final = 16
"""How many items of a list may be searched or copied for the cost of one round."""
MOST_PREPARED: Final = 10_000

EMPTY: Final[Mapping[str, Any]] = {}
Key = Callable[[str], Any]


class Incomputable(Exception):
    """A formula that could not be read from the source, or that meets values it does not support."""


class Scope:
    """The inputs of a formula.

    `key` gives an attribute, `stated` is `config.json` itself, `legacy` has the old names of layer types.
    """

    __slots__ = ("key", "legacy", "rounds", "stated")

    def __init__(self, stated: Mapping[str, Any], key: Key, legacy: Mapping[str, str]) -> None:
        self.stated = stated
        self.key = key
        self.legacy = legacy
        self.rounds = 0


Compiled = Callable[[Scope, Any], Any]
"""A compiled formula, over a scope and the item of the innermost loop."""


def compute(formula: Any, key: Key, stated: Mapping[str, Any] = EMPTY, legacy: Mapping[str, str] = EMPTY) -> Any:
    """The value of a formula of the tables; it is compiled once and cached. Raises Incomputable."""
    if not isinstance(formula, list):
        return formula
    known = _prepared.get(id(formula))
    if known is None or known[0] is not formula:
        if len(_prepared) >= MOST_PREPARED:
            _prepared.clear()
        known = _prepared[id(formula)] = (formula, compiled(formula))
    return run(known[1], Scope(stated, key, legacy))


def formula_keys(formula: Any) -> frozenset[str]:
    """The fields of a document that a formula reads by name: the same fields give the same value."""
    if not isinstance(formula, list) or not formula:
        return frozenset()
    named = (
        {formula[1]}
        if formula[0] in {"key", "stated", "given"} and len(formula) > 1 and isinstance(formula[1], str)
        else set()
    )
    return frozenset(named.union(*map(formula_keys, formula[1:])))


def run(prepared: Compiled, scope: Scope) -> Any:
    """The value of a compiled formula. Raises Incomputable, also for values that an operation does not support."""
    try:
        return prepared(scope, None)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Incomputable(str(error)) from error


def compiled(formula: Any) -> Compiled:
    """The compiled formula; an invalid one raises Incomputable when it is run."""
    match formula:
        case ["key", str(name)]:
            return lambda scope, _: scope.key(name)
        case ["each"]:
            return lambda _, each: each
        case ["stated", str(name)]:
            return lambda scope, _: name in scope.stated
        case ["given", str(name), default]:
            other = compiled(default)
            return lambda scope, each: scope.stated[name] if name in scope.stated else other(scope, each)
        case ["items", *parts]:
            items = [compiled(part) for part in parts]
            return lambda scope, each: [item(scope, each) for item in items]
        case ["mapping", *pairs]:
            table = dict(pairs)
            return lambda _, __: table
        case ["if", test, then, otherwise]:
            return _choice(compiled(test), compiled(then), compiled(otherwise))
        case ["and" | "or" as word, *parts]:
            return _joined([compiled(part) for part in parts], until=word == "or")
        case ["for each" | "where" as word, items, each_of]:
            return _loop(compiled(items), compiled(each_of), keep=word == "where")
        case ["remap", items]:
            inner = compiled(items)
            return lambda scope, each: [scope.legacy.get(item, item) for item in inner(scope, each)]
        case ["range" | "min" | "max" as word, *parts] if parts:
            return _called(MANY[word], [compiled(part) for part in parts])
        case ["get", holder, str(name), default]:
            return _called(lambda found, other: found.get(name, other), [compiled(holder), compiled(default)])
        case ["in" | "not in" as word, item, items]:
            return _search(compiled(item), compiled(items), found=word == "in")
        case ["list", items]:
            return _copy(compiled(items))
        case [str(word), one, other] if word in TWO:
            return _pair(TWO[word], one, other)
        case [str(word), one] if word in ONE:
            return _called(ONE[word], [compiled(one)])
        case list():
            return _refused
    return lambda _, __: formula


def _refused(_scope: Scope, _each: Any) -> Any:
    raise Incomputable("a formula that could not be read")


def _choice(test: Compiled, then: Compiled, otherwise: Compiled) -> Compiled:
    return lambda scope, each: then(scope, each) if test(scope, each) else otherwise(scope, each)


def _joined(parts: list[Compiled], *, until: bool) -> Compiled:
    def joined(scope: Scope, each: Any) -> Any:
        found = None
        for part in parts:
            found = part(scope, each)
            if bool(found) is until:
                break
        return found

    return joined


def _charge(scope: Scope, rounds: int) -> None:
    """Count rounds. Raises Incomputable beyond the maximum."""
    scope.rounds += rounds
    if scope.rounds > ROUNDS:
        raise Incomputable("too many rounds")


def _search(item: Compiled, items: Compiled, *, found: bool) -> Compiled:
    def search(scope: Scope, each: Any) -> bool:
        wanted, known = item(scope, each), items(scope, each)
        _charge(scope, len(known) // PER_ROUND)
        return (wanted in known) is found

    return search


def _copy(items: Compiled) -> Compiled:
    def copy(scope: Scope, each: Any) -> list[Any]:
        found = items(scope, each)
        _charge(scope, len(found) // PER_ROUND)
        return list(found)

    return copy


def _loop(items: Compiled, each_of: Compiled, *, keep: bool) -> Compiled:
    def loop(scope: Scope, each: Any) -> list[Any]:
        found = items(scope, each)
        _charge(scope, len(found))
        if keep:
            return [item for item in found if each_of(scope, item)]
        return [each_of(scope, item) for item in found]

    return loop


def _pair(work: Callable[[Any, Any], Any], left: Any, right: Any) -> Compiled:
    """An operation on two values; most have a constant on the right."""
    one, other = compiled(left), compiled(right)
    if isinstance(right, list):
        return lambda scope, each: work(one(scope, each), other(scope, each))
    return lambda scope, each: work(one(scope, each), right)


def _called(work: Callable[..., Any], parts: list[Compiled]) -> Compiled:
    return lambda scope, each: work(*[part(scope, each) for part in parts])


def _range(*bounds: Any) -> range:
    found = range(*bounds)
    if len(found) > LONGEST:
        raise Incomputable("too long a list")
    return found


def _first(items: Any, count: Any) -> Any:
    return items[:count]


def _number(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operation on numbers only: Python's `%` and `*` on texts can use any amount of memory."""

    def checked(one: Any, other: Any) -> Any:
        if isinstance(one, str) or isinstance(other, str):
            raise TypeError(one)
        return work(one, other)

    return checked


def _product(one: Any, other: Any) -> Any:
    for items, times in ((one, other), (other, one)):
        if isinstance(items, list) and (not isinstance(times, int) or len(items) * times > LONGEST):
            raise Incomputable("too long a list")
    return one * other


TWO: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": _number(_product), "%": _number(operator.mod),
    "//": _number(operator.floordiv),
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "at": operator.getitem, "first": _first,
    "starts": str.startswith, "ends": str.endswith,
}  # fmt: skip
ONE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bool": bool, "dict": dict, "int": int, "len": len, "lower": str.lower, "not": operator.not_,
}  # fmt: skip
MANY: Final[Mapping[str, Callable[..., Any]]] = {"range": _range, "min": min, "max": max}

_prepared: dict[int, tuple[Any, Compiled]] = {}
