"""The catalogue's conditions in the languages of other engines.

Owns the translation of condition trees, so that the other engines evaluate exactly the same conditions. zen-engine gets
facts under short keys, Cerbos as the nested objects of a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from policy.decision.trace import failures
from policy.facts.facts import defaults
from policy.facts.vocabulary import FACTS, INDEX, FactKind, Malformed, ancestors
from policy.rules.conditions import And, Condition, Leaf, Or, leaves
from policy.rules.operators import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policy.rules.release_rule import ReleaseRule

MALFORMED: Final = "malformed"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The operators for *and* and *or*, and the expression for a single comparison."""

    conjunction: str
    disjunction: str
    leaf: Callable[[Leaf], str]

    def translate(self, condition: Condition) -> str:
        """A condition as an expression."""
        match condition:
            case And(parts):
                return self.conjunction.join(f"({self.translate(part)})" for part in parts)
            case Or(parts):
                return self.disjunction.join(f"({self.translate(part)})" for part in parts)
            case Leaf():
                return self.leaf(condition)
            case _:
                raise AssertionError(condition)  # INVARIANT: the catalogue has resolved every named condition


def conditions(rules: Sequence[ReleaseRule]) -> list[tuple[int, Condition]]:
    """Every condition of a release in its order, with its number in ``Ruleset.fired``."""
    return [
        (number, when)
        for index, item in enumerate(rules)
        for number, when in ((index, item.when), (~index, item.cleared))
        if when is not None
    ]


def facts_read(rules: Sequence[ReleaseRule]) -> list[str]:
    """The facts that a release's conditions read, in the vocabulary's order."""
    found = {
        name
        for _, condition in conditions(rules)
        for leaf in leaves(condition)
        for name in (leaf.fact, *ancestors(leaf.fact))
    }
    return sorted(found, key=INDEX.__getitem__)


def plain(value: Any) -> Any:
    """A fact's value as passed to other engines: a malformed variable becomes a word."""
    return MALFORMED if isinstance(value, Malformed) else value


def zen(keys: Mapping[str, str]) -> Dialect:
    """The expressions of zen-engine, over facts under ``keys``, all of which exist."""

    def leaf(comparison: Leaf) -> str:
        return " and ".join(
            [*(keys[name] for name in ancestors(comparison.fact)), _zen(comparison, keys[comparison.fact])]
        )

    return Dialect(" and ", " or ", leaf)


def _zen(leaf: Leaf, key: str) -> str:
    fact = FACTS[leaf.fact]
    operand = json.encode(leaf.operand).decode()
    not_null = f"{key} != null and " if fact.nullable else ""
    match leaf.test:
        case Comparison.IS if fact.kind is FactKind.BOOLEAN:
            return key if leaf.operand != leaf.negated else f"not {key}"
        case Comparison.PRESENT if fact.kind is FactKind.PRESENCE:
            return f"not {key}" if leaf.negated else key
        case Comparison.IS:
            return f"{key} {'!=' if leaf.negated else '=='} {operand}"
        case Comparison.MALFORMED:
            return f"{key} {'!=' if leaf.negated else '=='} '{MALFORMED}'"
        case Comparison.PRESENT:
            return f"{key} {'==' if leaf.negated else '!='} null"
        case Comparison.AT_LEAST:
            return f"{key} {'<' if leaf.negated else '>='} {operand}"
        case Comparison.IN:
            return f"{key} {'not in' if leaf.negated else 'in'} {operand}"
        case Comparison.HAS_ANY_OF:
            holds = f"{not_null}some({key}, # in {operand})"
        case Comparison.HAS_OTHER_THAN:
            holds = f"{not_null}some({key}, # not in {operand})"
        case Comparison.FIRST_IS_IN:
            holds = f"{not_null}len({key}) > 0 and {key}[0] in {operand}"
        case Comparison.NOT_EMPTY:
            holds = f"{not_null}len({key}) > 0"
        case Comparison.MORE_THAN:
            holds = f"{not_null}{key} > {operand}"
        case Comparison.LESS_THAN:
            holds = f"{not_null}{key} < {operand}"
    return f"not ({holds})" if leaf.negated else f"({holds})"


def cel(series: tuple[int, int]) -> Dialect:
    """The expressions of Cerbos over the attributes of a resource.

    An attribute that is left out has the default of ``series``.
    """

    def leaf(comparison: Leaf) -> str:
        *_, path = ("", *ancestors(comparison.fact))
        exists = _exists(comparison.fact)
        if FACTS[comparison.fact].kind is FactKind.PRESENCE:
            return _guard(path, _missing(comparison.fact) if comparison.negated else " && ".join(exists))
        test = f"({_cel(comparison)})"
        if _holds_by_default(comparison, series):
            return _guard(path, f"({_missing(comparison.fact, path)} || {test})")
        return " && ".join([*exists, test])

    return Dialect(" && ", " || ", leaf)


def _cel(leaf: Leaf) -> str:
    fact = FACTS[leaf.fact]
    operand = json.encode(leaf.operand).decode()
    value = f"R.attr.{leaf.fact}"
    not_null = f"{value} != null && " if fact.nullable else ""
    match leaf.test:
        case Comparison.IS if fact.kind is FactKind.BOOLEAN:
            return value if leaf.operand != leaf.negated else f"!{value}"
        case Comparison.IS:
            return f"{value} {'!=' if leaf.negated else '=='} {operand}"
        case Comparison.MALFORMED:
            return f"{value} {'!=' if leaf.negated else '=='} '{MALFORMED}'"
        case Comparison.PRESENT:
            return f"{value} {'==' if leaf.negated else '!='} null"
        case Comparison.AT_LEAST:
            return f"{value} {'<' if leaf.negated else '>='} {float(operand)}"
        case Comparison.IN:
            return f"!({value} in {operand})" if leaf.negated else f"{value} in {operand}"
        case Comparison.HAS_ANY_OF:
            holds = f"{not_null}{value}.exists(item, item in {operand})"
        case Comparison.HAS_OTHER_THAN:
            holds = f"{not_null}{value}.exists(item, !(item in {operand}))"
        case Comparison.FIRST_IS_IN:
            holds = f"{not_null}size({value}) > 0 && {value}[0] in {operand}"
        case Comparison.NOT_EMPTY:
            holds = f"{not_null}size({value}) > 0"
        case Comparison.MORE_THAN:
            holds = f"{not_null}{value} > {float(operand)}"
        case Comparison.LESS_THAN:
            holds = f"{not_null}{value} < {float(operand)}"
    return f"!({holds})" if leaf.negated else holds


def _exists(path: str, above: str = "") -> list[str]:
    """The expressions that test whether a path exists, given that the path ``above`` it does."""
    steps = list(accumulate(path.split("."), "{}.{}".format))
    return [f"has(R.attr.{step})" for step in steps[len(above.split(".")) if above else 0 :]]


def _missing(path: str, above: str = "") -> str:
    return " || ".join(f"!{step}" for step in _exists(path, above))


def _guard(path: str, test: str) -> str:
    return " && ".join([*_exists(path), test]) if path else test


def _holds_by_default(leaf: Leaf, series: tuple[int, int]) -> bool:
    row = list(defaults(series))
    for name in ancestors(leaf.fact):
        row[INDEX[name]] = True
    return not failures(leaf, row)
