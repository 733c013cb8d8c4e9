"""Explain a decision: why each rule fired or did not, and which facts were assumed.

Owns the evaluation of single conditions. It only explains what the engine decided; a property test checks that the two
agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.decision.decision import Alternative, Assumption, FailedCondition, RuleTrace
from policy.facts.facts import shown
from policy.facts.vocabulary import FACTS, INDEX, VOCABULARY, FactKind, ancestors
from policy.rules.conditions import And, Condition, Leaf, Or, holds, shares
from policy.rules.effects import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import date

    from policy.decision.ruling import RuleCombiner, Ruling
    from policy.facts.facts import Facts
    from policy.facts.vocabulary import Fact
    from policy.rules.effects import Runner
    from policy.rules.release_rule import ReleaseRule

PRESENT: Final = "present"
ANOTHER: Final = "another"
EMPTY: Final = "empty"
NOT_EMPTY: Final = "not empty"


def trace(
    rules: Sequence[ReleaseRule],
    combiner: RuleCombiner,
    ruling: Ruling,
    row: Sequence[Any],
    final: Ruling,
    final_row: Sequence[Any],
    problem_row: Sequence[Any],
    today: date,
    *,
    upstream_only: bool,
) -> list[RuleTrace]:
    """Each rule of the release and whether it fired; refusals are evaluated with the variable as it will be set.

    ``problem_row`` has the facts with which the known problems were evaluated.
    A rule that has ended did not fire, whatever the facts; its failed condition is ``until``.
    """
    found = []
    for n, item in enumerate(rules):
        rule = item.rule
        if upstream_only and rule.layer is not Layer.UPSTREAM:
            continue
        if rule.has_ended(today):
            ended = FailedCondition("until", str(rule.until), str(today))
            found.append(RuleTrace(rule.id, str(rule.layer), rule.effect.name, fired=False, failed=[ended]))
            continue
        by, facts = (
            (final, final_row) if rule.effect.refuses else (ruling, problem_row if rule.effect.is_problem else row)
        )
        fired = n in by.refusals if rule.effect.refuses else n in {*ruling.standing, *ruling.advice, *ruling.problems}
        failed = [] if fired else failures(item.when, facts) if item.when else []
        if not fired and not failed:
            reason = combiner.not_applied(by, n)
            failed = [FailedCondition(reason.field, reason.expected, reason.actual)]
        found.append(RuleTrace(rule.id, str(rule.layer), rule.effect.name, fired, failed))
    return found


def failures(condition: Condition, row: Sequence[Any]) -> list[FailedCondition]:
    """The first failed leaf of a condition, or of each of its alternatives; ``[]`` if the condition holds."""
    match condition:
        case And(parts):
            return next((failed for part in parts if (failed := failures(part, row))), [])
        case Or(parts):
            each = [failures(part, row) for part in parts]
            return [failed for found in each for failed in found] if all(each) else []
        case Leaf():
            for name in ancestors(condition.fact):
                if not row[INDEX[name]]:
                    return [FailedCondition(name, PRESENT, "absent")]
            value = row[condition.index]
            return (
                []
                if holds(condition, value)
                else [FailedCondition(condition.fact, condition.expected, _actual(condition, value))]
            )
        case _:
            raise AssertionError(condition)  # INVARIANT: the catalogue has resolved every named condition


def _actual(leaf: Leaf, value: Any) -> Any:
    if FACTS[leaf.fact].kind is FactKind.PRESENCE:
        return PRESENT if value else "absent"
    return shown(value)


def assumptions(
    rules: Sequence[ReleaseRule],
    facts: Facts,
    answer: tuple[Runner | None, bool],
    evaluate_with: Callable[[int, Any], tuple[Runner | None, bool]],
) -> list[Assumption]:
    """The facts that the release reads and the request does not state, with the values that would change the answer.

    ``answer`` is (runner, starts); ``evaluate_with`` returns the same with one fact changed. Fields of absent objects
    are left out, because they cannot have another value.
    """
    read: dict[str, list[Leaf]] = {}
    for item in rules:
        for leaf in item.leaves:
            read.setdefault(leaf.fact, []).append(leaf)
            for name in ancestors(leaf.fact):
                read.setdefault(name, [])
    found = []
    row = facts.row
    for index, fact in enumerate(VOCABULARY):
        if fact.name not in read or index in facts.stated or not all(row[INDEX[name]] for name in ancestors(fact.name)):
            continue
        change = {}
        for label, value in _others(fact, row[index], read[fact.name]):
            other = evaluate_with(index, value)
            if other != answer:
                change[label] = Alternative(*other)
        found.append(Assumption(fact.name, shown(row[index]), "not stated", change))
    return found


def _others(fact: Fact, value: Any, read_by: Iterable[Leaf]) -> list[tuple[str, Any]]:
    """Other values of a fact by their labels in an answer, one for each group of values that the rules distinguish."""
    others: dict[str, Any] = {}
    operands = [leaf.operand for leaf in read_by if leaf.operand is not None]
    texts = dict.fromkeys(
        text for operand in operands for text in (operand if isinstance(operand, tuple) else (operand,))
    )
    match fact.kind:
        case FactKind.BOOLEAN:
            others = {"true": True, "false": False}
        case FactKind.PRESENCE:
            others = {PRESENT: True}
        case FactKind.VARIABLE:
            others = {"1": True, "0": False}
        case FactKind.CHOICE:
            others = {choice: choice for choice in fact.choices}
        case FactKind.INTEGER:
            others = {
                str(number): number for operand in operands for number in (operand - 1, operand) if number >= fact.least
            }
        case FactKind.SHARE:
            others = {"null" if share is None else str(share): share for share in shares(operands)}
        case FactKind.TEXT:
            others = {**{text: text for text in texts}, ANOTHER: ANOTHER}
        case FactKind.TEXTS:
            others = (
                {text: (text,) for text in texts}
                | {f"{text}, …": (text, ANOTHER) for text in texts}
                | {ANOTHER if texts else NOT_EMPTY: (ANOTHER,), EMPTY: ()}
            )
        case FactKind.LIST:
            others = {NOT_EMPTY: (ANOTHER,), EMPTY: ()}
    if fact.nullable:
        others["null"] = None
    return [(label, other) for label, other in others.items() if type(other) is not type(value) or other != value]
