"""A rule's condition on the facts: a tree whose negations are at the leaves.

Owns the tree, and the evaluation of a leaf for one value. Whole conditions are read by ``condition_parser``, compiled
by ``compiler`` for the engine, which evaluates them, and explained by ``trace``.

Below an absent object every leaf is false, even a negated one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.facts.vocabulary import FACTS_WITH_REQUEST, INDEX, FactKind, Malformed
from policy.rules.operators import NEGATIONS, NUMBERS, Comparison

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_WAYS: Final = 16


@dataclass(frozen=True, slots=True)
class Leaf:
    """A comparison of a fact; ``operand`` is a value, a tuple of texts, or ``None`` for words such as ``present``."""

    fact: str
    test: Comparison
    operand: Any
    negated: bool

    @property
    def index(self) -> int:
        """The fact's index in a row."""
        return INDEX[self.fact]

    @property
    def expected(self) -> Any:
        """The expected value, as in a rule file."""
        operand = list(self.operand) if isinstance(self.operand, tuple) else self.operand
        match self.test, self.negated:
            case Comparison.IS, False:
                return operand
            case Comparison.PRESENT, negated:
                return "absent" if negated else "present"
            case ((Comparison.NOT_EMPTY | Comparison.MALFORMED), False):
                return str(self.test)
            case ((Comparison.NOT_EMPTY | Comparison.MALFORMED), True):
                return {"not": str(self.test)}
            case test, False:
                return {str(test): operand}
            case test, True:
                word = NEGATIONS.get(test)
                return {word: operand} if word else {"not": {str(test): operand}}


@dataclass(frozen=True, slots=True)
class And:
    """Every part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a named condition, to be resolved for a release (see ``resolve``)."""

    name: str
    negated: bool
    line: int
    column: int


Condition: TypeAlias = Leaf | And | Or | Ref


def ways(condition: Condition) -> int:
    """The number of combinations of a condition's alternatives; the engine fires a rule once for each that holds."""
    match condition:
        case And(parts):
            return prod(map(ways, parts))
        case Or(parts):
            return sum(map(ways, parts))
        case Leaf() | Ref():
            return 1


def leaves(condition: Condition) -> tuple[Leaf, ...]:
    """The leaves of a tree, in the order in which they were written."""
    match condition:
        case Leaf():
            return (condition,)
        case And(parts) | Or(parts):
            return tuple(leaf for part in parts for leaf in leaves(part))
        case Ref():
            return ()


def uses(condition: Condition) -> tuple[Ref, ...]:
    """The references of a tree to named conditions."""
    match condition:
        case Ref():
            return (condition,)
        case And(parts) | Or(parts):
            return tuple(use for part in parts for use in uses(part))
        case Leaf():
            return ()


def resolve(condition: Condition, named: Mapping[str, Condition]) -> Condition:
    """The tree with each reference replaced by the named condition.

    Raises:
        KeyError: a name is not in ``named``.
    """
    match condition:
        case Ref(name, negated):
            found = named[name]
            return negate(found) if negated else found
        case And(parts):
            return And(tuple(resolve(part, named) for part in parts))
        case Or(parts):
            return Or(tuple(resolve(part, named) for part in parts))
        case Leaf():
            return condition


def negate(condition: Condition) -> Condition:
    """The negation, pushed down to the leaves by De Morgan's laws; leaves stay false below an absent object."""
    match condition:
        case Leaf() | Ref():
            return replace(condition, negated=not condition.negated)
        case And(parts):
            return Or(tuple(negate(part) for part in parts))
        case Or(parts):
            return And(tuple(negate(part) for part in parts))


def assuming(condition: Condition, fact: str, value: Any) -> Condition | bool:
    """What is left to test of a condition if a fact, which is in no object that can be absent, has this value."""
    match condition:
        case Leaf() if condition.fact == fact:
            return holds(condition, value)
        case And(parts):
            return _joined(And, [assuming(part, fact, value) for part in parts], decides=False)
        case Or(parts):
            return _joined(Or, [assuming(part, fact, value) for part in parts], decides=True)
        case _:
            return condition


def _joined(kind: type[And | Or], parts: Sequence[Condition | bool], *, decides: bool) -> Condition | bool:
    """The parts together; a known part either ``decides`` or does not matter."""
    if decides in parts:
        return decides
    left = tuple(part for part in parts if not isinstance(part, bool))
    return kind(left) if len(left) > 1 else left[0] if left else not decides


def shares(operands: Iterable[float | None]) -> list[float | None]:
    """A share for each group that comparisons with these operands distinguish, ascending, and ``None``."""
    bounds = sorted({operand for operand in operands if operand is not None})
    between = [middle(low, high) for low, high in pairwise([0, *bounds, 1]) if low < high]
    return [*sorted(share for share in {*bounds, *between} if share > 0), None]


def middle(low: float, high: float) -> float:
    """A number between two, with few digits if possible; one of the two if there is none between them."""
    exact = (low + high) / 2
    short = round(exact, 6)
    return short if low < short < high else exact


def holds(leaf: Leaf, value: Any) -> bool:
    """Whether a leaf holds for a value, if the objects above the fact are present."""
    match leaf.test:
        case Comparison.IS if FACTS_WITH_REQUEST[leaf.fact].kind in NUMBERS:
            answer = value == leaf.operand
        case Comparison.IS:
            answer = type(value) is type(leaf.operand) and value == leaf.operand
        case Comparison.IN:
            answer = value in leaf.operand
        case Comparison.HAS_ANY_OF:
            answer = any(item in leaf.operand for item in value or ())
        case Comparison.HAS_OTHER_THAN:
            answer = any(item not in leaf.operand for item in value or ())
        case Comparison.FIRST_IS_IN:
            answer = bool(value) and value[0] in leaf.operand
        case Comparison.NOT_EMPTY:
            answer = bool(value)
        case Comparison.AT_LEAST:
            answer = value >= leaf.operand
        case Comparison.MORE_THAN:
            answer = value is not None and value > leaf.operand
        case Comparison.LESS_THAN:
            answer = value is not None and value < leaf.operand
        case Comparison.PRESENT:
            answer = bool(value) if FACTS_WITH_REQUEST[leaf.fact].kind is FactKind.PRESENCE else value is not None
        case Comparison.MALFORMED:
            answer = isinstance(value, Malformed)
    return bool(answer != leaf.negated)
