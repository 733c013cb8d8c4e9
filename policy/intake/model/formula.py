"""Compute the formulas in the tables, which `policy.vllm.tablegen` generates (`formulas`, `branches`).

Defines their meaning. A formula is JSON: a constant, or a list whose first item is the operation. The cost is bounded
whatever a `config.json` contains: there are limits on the length of lists, on the iterations of all loops of a formula
together, and, where a request must not take long, on those of all its formulas.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from msgspec import Struct

from policy.errors import PolicyError

MAX_ITEMS: Final = 1024
"""No model has more layers; a longer list can only come from an invalid `config.json`."""
MAX_ITERATIONS: Final = 20_000
"""The maximum iterations of all loops of one formula."""
ITEMS_PER_ITERATION: Final = 16
"""The list items that can be searched or copied for the cost of one iteration."""
MAX_COMPILED: Final = 10_000

EMPTY: Final[Mapping[str, Any]] = {}
Lookup = Callable[[str], Any]


class Incomputable(Exception):
    """A formula that tablegen could not translate, or that does not support its inputs."""


class TooManyIterations(PolicyError):
    """The formulas of a request together exceed the iterations that they may take where it is decided."""


class RequestIterations(Struct):
    """How many iterations the formulas of a request may still take together."""

    remaining: int

    def spend(self, iterations: int) -> None:
        """Count iterations. Raises TooManyIterations beyond the limit."""
        self.remaining -= iterations
        if self.remaining < 0:
            raise TooManyIterations


_current: Final[ContextVar[RequestIterations | None]] = ContextVar("request_iterations", default=None)


@contextmanager
def request_iterations(most: int) -> Iterator[RequestIterations]:
    """Within the block, all formulas together may take ``most`` iterations.

    Raises:
        TooManyIterations: they take more.
    """
    found = RequestIterations(most)
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)


class Scope:
    """The inputs of a formula.

    `key` returns an attribute, `stated` is the `config.json` itself, `legacy` maps old names of layer types to new.
    """

    __slots__ = ("iterations", "key", "legacy", "of_request", "stated")

    def __init__(self, stated: Mapping[str, Any], key: Lookup, legacy: Mapping[str, str]) -> None:
        self.stated = stated
        self.key = key
        self.legacy = legacy
        self.iterations = 0
        self.of_request = _current.get()


CompiledFormula = Callable[[Scope, Any], Any]
"""A compiled formula: a function of a scope and the current item of the innermost loop."""


def compute(formula: Any, key: Lookup, stated: Mapping[str, Any] = EMPTY, legacy: Mapping[str, str] = EMPTY) -> Any:
    """The value of a formula, which is compiled once and cached. Raises Incomputable."""
    if not isinstance(formula, list):
        return formula
    known = _compiled.get(id(formula))
    if known is None or known[0] is not formula:
        if len(_compiled) >= MAX_COMPILED:
            _compiled.clear()
        known = _compiled[id(formula)] = (formula, compile_formula(formula))
    return run(known[1], Scope(stated, key, legacy))


OPERATION_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a compiled formula raises for values that an operation does not support."""


def formula_keys(formula: Any) -> frozenset[str]:
    """The names of the fields that a formula reads."""
    if not isinstance(formula, list) or not formula:
        return frozenset()
    named = (
        {formula[1]}
        if formula[0] in {"key", "stated", "given"} and len(formula) > 1 and isinstance(formula[1], str)
        else set()
    )
    return frozenset(named.union(*map(formula_keys, formula[1:])))


def run(formula: CompiledFormula, scope: Scope) -> Any:
    """The value of a compiled formula. Raises Incomputable, even for values that an operation does not support."""
    try:
        return formula(scope, None)
    except OPERATION_ERRORS as error:
        raise Incomputable(str(error)) from error


def compile_formula(formula: Any) -> CompiledFormula:
    """Compile a formula; an invalid one raises Incomputable when it runs."""
    match formula:
        case ["key", str(name)]:
            return lambda scope, _: scope.key(name)
        case ["each"]:
            return lambda _, each: each
        case ["stated", str(name)]:
            return lambda scope, _: name in scope.stated
        case ["given", str(name), default]:
            other = compile_formula(default)
            return lambda scope, each: scope.stated[name] if name in scope.stated else other(scope, each)
        case ["items", *parts]:
            items = [compile_formula(part) for part in parts]
            return lambda scope, each: [item(scope, each) for item in items]
        case ["mapping", *pairs]:
            table = dict(pairs)
            return lambda _, __: table
        case ["if", test, then, otherwise]:
            return _choice(compile_formula(test), compile_formula(then), compile_formula(otherwise))
        case ["and" | "or" as word, *parts]:
            return (_or if word == "or" else _and)([compile_formula(part) for part in parts])
        case ["for each" | "where" as word, items, each_of]:
            return _loop(compile_formula(items), compile_formula(each_of), keep=word == "where")
        case ["remap", items]:
            inner = compile_formula(items)
            return lambda scope, each: [scope.legacy.get(item, item) for item in inner(scope, each)]
        case ["range" | "min" | "max" as word, *parts] if parts:
            return _call(VARIADIC[word], [compile_formula(part) for part in parts])
        case ["get", holder, str(name), default]:
            return _call(
                lambda found, other: found.get(name, other), [compile_formula(holder), compile_formula(default)]
            )
        case ["in" | "not in" as word, item, ["items", *parts]] if not any(isinstance(part, list) for part in parts):
            return _search_constants(compile_formula(item), tuple(parts), found=word == "in")
        case ["in" | "not in" as word, item, items]:
            return _search(compile_formula(item), compile_formula(items), found=word == "in")
        case ["list", items]:
            return _copy(compile_formula(items))
        case [str(word), one, other] if word in BINARY:
            return _binary(BINARY[word], one, other)
        case [str(word), one] if word in UNARY:
            return _unary(UNARY[word], one)
        case list():
            return _invalid
    return lambda _, __: formula


def _invalid(_scope: Scope, _each: Any) -> Any:
    raise Incomputable("invalid formula")


def _choice(test: CompiledFormula, then: CompiledFormula, otherwise: CompiledFormula) -> CompiledFormula:
    return lambda scope, each: then(scope, each) if test(scope, each) else otherwise(scope, each)


def _and(parts: list[CompiledFormula]) -> CompiledFormula:
    def every(scope: Scope, each: Any) -> Any:
        found = None
        for part in parts:
            found = part(scope, each)
            if not found:
                break
        return found

    return every


def _or(parts: list[CompiledFormula]) -> CompiledFormula:
    def some(scope: Scope, each: Any) -> Any:
        found = None
        for part in parts:
            found = part(scope, each)
            if found:
                break
        return found

    return some


def _charge(scope: Scope, iterations: int) -> None:
    """Count iterations. Raises Incomputable beyond the maximum, and TooManyIterations beyond that of the request."""
    scope.iterations += iterations
    if scope.iterations > MAX_ITERATIONS:
        raise Incomputable("too many iterations")
    if scope.of_request is not None:
        scope.of_request.spend(iterations)


def _search(item: CompiledFormula, items: CompiledFormula, *, found: bool) -> CompiledFormula:
    def search(scope: Scope, each: Any) -> bool:
        wanted, known = item(scope, each), items(scope, each)
        _charge(scope, len(known) // ITEMS_PER_ITERATION)
        return (wanted in known) is found

    return search


def _search_constants(item: CompiledFormula, known: tuple[Any, ...], *, found: bool) -> CompiledFormula:
    """A search among constants, which are few in every formula."""
    return lambda scope, each: (item(scope, each) in known) is found


def _copy(items: CompiledFormula) -> CompiledFormula:
    def copy(scope: Scope, each: Any) -> list[Any]:
        found = items(scope, each)
        _charge(scope, len(found) // ITEMS_PER_ITERATION)
        return list(found)

    return copy


def _loop(items: CompiledFormula, each_of: CompiledFormula, *, keep: bool) -> CompiledFormula:
    def loop(scope: Scope, each: Any) -> list[Any]:
        found = items(scope, each)
        _charge(scope, len(found))
        if keep:
            return [item for item in found if each_of(scope, item)]
        return [each_of(scope, item) for item in found]

    return loop


def _binary(work: Callable[[Any, Any], Any], left: Any, right: Any) -> CompiledFormula:
    """A binary operation; usually its left operand is a field, and its right one a constant or another field."""
    one, other = compile_formula(left), compile_formula(right)
    match left, right:
        case ["key", str(name)], ["key", str(second)]:
            return lambda scope, _: work(scope.key(name), scope.key(second))
        case _, list():
            return lambda scope, each: work(one(scope, each), other(scope, each))
        case ["key", str(name)], _:
            return lambda scope, _: work(scope.key(name), right)
    return lambda scope, each: work(one(scope, each), right)


def _unary(work: Callable[[Any], Any], operand: Any) -> CompiledFormula:
    match operand:
        case ["key", str(name)]:
            return lambda scope, _: work(scope.key(name))
    one = compile_formula(operand)
    return lambda scope, each: work(one(scope, each))


def _call(work: Callable[..., Any], parts: list[CompiledFormula]) -> CompiledFormula:
    return lambda scope, each: work(*[part(scope, each) for part in parts])


def _range(*bounds: Any) -> range:
    found = range(*bounds)
    if len(found) > MAX_ITEMS:
        raise Incomputable("list too long")
    return found


def _first(items: Any, count: Any) -> Any:
    return items[:count]


def _number(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operation that rejects strings: Python's `%` and `*` on them can use any amount of memory."""

    def checked(one: Any, other: Any) -> Any:
        if isinstance(one, str) or isinstance(other, str):
            raise TypeError(one)
        return work(one, other)

    return checked


def _product(one: Any, other: Any) -> Any:
    for items, times in ((one, other), (other, one)):
        if isinstance(items, list) and (not isinstance(times, int) or len(items) * times > MAX_ITEMS):
            raise Incomputable("list too long")
    return one * other


BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": _number(_product), "%": _number(operator.mod),
    "//": _number(operator.floordiv),
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "at": operator.getitem, "first": _first,
    "starts": str.startswith, "ends": str.endswith,
}  # fmt: skip
UNARY: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bool": bool, "dict": dict, "int": int, "len": len, "lower": str.lower, "not": operator.not_, "upper": str.upper,
}  # fmt: skip
VARIADIC: Final[Mapping[str, Callable[..., Any]]] = {"range": _range, "min": min, "max": max}

_compiled: dict[int, tuple[Any, CompiledFormula]] = {}
