"""A trace as text: why a rule did not fire, and which rules came closest.

Owns the wording of the fields by which a rule refers to other rules. ``wording`` words the conditions on facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.escaping import escape_line
from policy.facts.vocabulary import FACTS
from policy.rules.conditions import Leaf, negate
from policy.rules.operators import OPERATORS, WORDS, Comparison
from policy.rules.wording import Wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.decision.decision import FailedCondition, RuleTrace
    from policy.rules.conditions import Condition

FIRED, EXCLUDED, OTHER_VALUE, DEFAULT_VALUE, ABSENT = range(5)
"""How close a rule came to firing, the closest first."""
LEGEND: Final = (
    "rules that fired; those whose condition holds but that another rule or the decision excludes; "
    "those that fail on a fact with a value other than its default; all others"
)
WORDING: Final = Wording(escape_line)


def nearness(item: RuleTrace) -> int:
    """How close a rule came to firing, by the condition that failed."""
    if item.fired:
        return FIRED
    return min((_nearness(part) for part in item.failed), default=EXCLUDED)


def _nearness(part: FailedCondition) -> int:
    fact = FACTS.get(part.fact)
    if part.fact == "until":
        return ABSENT  # the trace does not have the conditions of a rule that has ended
    if fact is None:
        return EXCLUDED
    if part.actual == "absent":
        return ABSENT
    return DEFAULT_VALUE if part.actual in (fact.default, None) else OTHER_VALUE


def failed_text(item: RuleTrace) -> str:
    """The conditions that failed, each with the actual value; alternatives failed together."""
    return " and ".join(map(_failed_text, item.failed))


def _failed_text(part: FailedCondition) -> str:
    if part.fact in FACTS:
        condition = _condition(part.fact, part.expected)
        return f"{WORDING.condition(condition)} (it is {_value_text(part.actual)})"
    names, found = _names(part.expected), _names(part.actual)
    match part.fact:
        case "requires_any":
            return f"{' or '.join(names)} applies (none does)" if names[1:] else f"{names[0]} applies (it does not)"
        case "unless":
            return f"{' and '.join(names)} do not apply ({', '.join(found)} does)"
        case "decided_by":
            return f"{' or '.join(names)} decides ({', '.join(found)} does)"
        case "until":
            return f"the rule holds until {part.expected} (it is {part.actual})"
        case _:
            return f"the runner is {' or '.join(names)} (it is {', '.join(found) or 'not chosen'})"


def _names(value: Any) -> list[str]:
    """The names in a field of a rule, which may be a list or a single name."""
    return [] if value is None else [str(name) for name in (value if isinstance(value, list) else [value])]


def _condition(fact: str, expected: Any) -> Condition:
    """The condition that a rule file expresses with this expected value."""
    match expected:
        case {"not": inner}:
            return negate(_condition(fact, inner))
        case dict():
            ((word, operand),) = expected.items()
            operator = OPERATORS[word]
            operand = tuple(operand) if isinstance(operand, list) else operand
            return Leaf(fact, operator.test, operand, operator.negated)
        case str() if expected in WORDS:
            return Leaf(fact, OPERATORS[expected].test, None, OPERATORS[expected].negated)
        case _:
            return Leaf(fact, Comparison.IS, expected, negated=False)


def _value_text(value: Any) -> str:
    """A fact's value in a sentence."""
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case []:
            return "empty"
        case list():
            return _list_text(value)
        case _:
            return escape_line(str(value))


def _list_text(values: Sequence[Any]) -> str:
    return WORDING.values([str(value) for value in values], ", ")
