"""A rule's condition on the facts: a small tree whose negations are at the leaves.

Owns the tree, and the evaluation of a leaf for one value. Whole conditions are evaluated by the engine: ``compiler``
makes its definition of them, and ``trace`` explains them. ``condition_parser`` reads them.

Below an absent object every leaf is false, a negated one too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from policy.facts.vocabulary import FACTS, INDEX, FactKind, Malformed
from policy.rules.operators import NEGATIONS, Comparison

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_WAYS: Final = 16


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison of one fact; ``operand`` is a value, a tuple of texts, or ``None`` for a bare word."""

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
        """The expected value, as a rule file would write it."""
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
    """A named condition, still to be looked up for a release (see ``resolve``)."""

    name: str
    negated: bool
    line: int
    column: int


Condition: TypeAlias = Leaf | And | Or | Ref


def ways(condition: Condition) -> int:
    """The number of combinations of alternatives of a condition; the engine fires a rule once for each that holds."""
    match condition:
        case And(parts):
            return prod(map(ways, parts))
        case Or(parts):
            return sum(map(ways, parts))
        case Leaf() | Ref():
            return 1


def leaves(condition: Condition) -> tuple[Leaf, ...]:
    """Every leaf of a tree, in the order in which it was written."""
    match condition:
        case Leaf():
            return (condition,)
        case And(parts) | Or(parts):
            return tuple(leaf for part in parts for leaf in leaves(part))
        case Ref():
            return ()


def uses(condition: Condition) -> tuple[Ref, ...]:
    """Every named condition that a tree refers to."""
    match condition:
        case Ref():
            return (condition,)
        case And(parts) | Or(parts):
            return tuple(use for part in parts for use in uses(part))
        case Leaf():
            return ()


def resolve(condition: Condition, named: Mapping[str, Condition]) -> Condition:
    """The tree with every named condition replaced by its content.

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
    """The negation, by De Morgan down to the leaves; each stays false below an absent object."""
    match condition:
        case Leaf() | Ref():
            return replace(condition, negated=not condition.negated)
        case And(parts):
            return Or(tuple(negate(part) for part in parts))
        case Or(parts):
            return And(tuple(negate(part) for part in parts))


def holds(leaf: Leaf, value: Any) -> bool:
    """Whether a leaf holds for a value, if the objects above the fact are present."""
    match leaf.test:
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
        case Comparison.PRESENT:
            answer = bool(value) if FACTS[leaf.fact].kind is FactKind.PRESENCE else value is not None
        case Comparison.MALFORMED:
            answer = isinstance(value, Malformed)
    return bool(answer != leaf.negated)
