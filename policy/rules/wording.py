"""Conditions in plain English, with vLLM's own names of facts.

Owns the wording of each operator; nothing here depends on particular rules. ``condition_changes`` describes changes of
conditions. The caller formats names and values, because Markdown and terminals escape them differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from policy.facts.vocabulary import FACTS_WITH_REQUEST, FactKind, ancestors
from policy.rules.conditions import And, Condition, Leaf, Or, Ref
from policy.rules.operators import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MAX_VALUES: Final = 6
"""How many values of a list are shown; the others are counted."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How conditions are formatted: ``show`` formats a name or value; at most ``max_values`` of a list are shown."""

    show: Callable[[str], str]
    max_values: int | None = MAX_VALUES

    def condition(self, condition: Condition | None) -> str:
        """A condition as a clause: ``model_config.is_moe is true and …``, or ``always``."""
        match condition:
            case None:
                return "always"
            case Leaf(fact):
                return f"{self.show(fact)} {self.predicate(condition)}"
            case Ref(name, negated):
                return f"the condition {self.show(name)} {'does not hold' if negated else 'holds'}"
            case And(parts):
                return " and ".join(self._nested(part, Or) for part in without_implied(parts))
            case Or(parts):
                return " or ".join(self._nested(part, And) for part in parts)

    def _nested(self, part: Condition, other: type[And | Or]) -> str:
        return f"({self.condition(part)})" if isinstance(part, other) else self.condition(part)

    def predicate(self, leaf: Leaf) -> str:
        """The predicate of a comparison: ``is true``, ``is at least 2``, ``is none of a, b``."""
        operand, negated = leaf.operand, leaf.negated
        match leaf.test:
            case Comparison.IS if FACTS_WITH_REQUEST[leaf.fact].kind is FactKind.BOOLEAN:
                return "is true" if operand != negated else "is false"
            case Comparison.IS:
                value = str(operand).lower() if isinstance(operand, bool) else self.show(str(operand))
                return f"is not {value}" if negated else f"is {value}"
            case Comparison.IN if negated:
                return f"is {'not' if len(operand) == 1 else 'none of'} {self.values(operand, ', ')}"
            case Comparison.IN:
                return f"is {self.values(operand)}"
            case Comparison.HAS_ANY_OF:
                return f"has none of {self.values(operand, ', ')}" if negated else f"has {self.values(operand)}"
            case Comparison.HAS_OTHER_THAN:
                return f"has {'nothing' if negated else 'something'} other than {self.values(operand)}"
            case Comparison.FIRST_IS_IN:
                return f"{'does not begin' if negated else 'begins'} with {self.values(operand)}"
            case Comparison.NOT_EMPTY:
                return "is empty" if negated else "is not empty"
            case Comparison.AT_LEAST:
                return f"is less than {operand}" if negated else f"is at least {operand}"
            case Comparison.MORE_THAN:
                return f"is not more than {operand}" if negated else f"is more than {operand}"
            case Comparison.LESS_THAN:
                return f"is not less than {operand}" if negated else f"is less than {operand}"
            case Comparison.PRESENT if FACTS_WITH_REQUEST[leaf.fact].kind is FactKind.PRESENCE:
                return "is absent" if negated else "is present"
            case Comparison.PRESENT:
                return "is not set" if negated else "is set"
            case Comparison.MALFORMED:
                return "is an integer or not set" if negated else "is not an integer"

    def values(self, values: Sequence[str], last: str = " or ") -> str:
        """``a, b or c``; if there are more than ``max_values`` values, the first ones and the number of others."""
        shown = list(map(self.show, values))
        if self.is_long(values):
            return f"{', '.join(shown[: self.max_values])} and {len(shown) - len(shown[: self.max_values])} more"
        return last.join([*([", ".join(shown[:-1])] if shown[1:] else []), *shown[-1:]])

    def is_long(self, values: Sequence[str]) -> bool:
        """Whether there are too many values to show all of them."""
        return self.max_values is not None and len(values) > self.max_values


def without_implied(parts: Iterable[Condition]) -> list[Condition]:
    """The parts of an *and* without ``A is present`` where another part on ``A.b`` implies it.

    A negated comparison, or one with ``false``, does not count: it would read as if it also held without ``A``.
    """
    parts = list(parts)
    said = {
        name
        for part in parts
        if isinstance(part, Leaf) and not part.negated and part.operand is not False
        for name in ancestors(part.fact)
    }
    return [part for part in parts if not (isinstance(part, Leaf) and is_presence(part) and part.fact in said)]


def is_presence(leaf: Leaf) -> bool:
    """Whether a comparison requires that an object is present."""
    return (
        leaf.test is Comparison.PRESENT and not leaf.negated and FACTS_WITH_REQUEST[leaf.fact].kind is FactKind.PRESENCE
    )
