"""Find the deployments that two sets of rules decide differently, and the rules responsible.

Owns the classes of changed deployments, the smallest witness of each, and the check that the policy itself decides the
witness like the solver. All other deployments are proved to be decided the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import z3

from policy.facts.vocabulary import VOCABULARY
from policy.proof.search import Count, ProofFailed, SpaceSearch
from policy.proof.space import FALSE, Space, all_of, any_of, holds_in, none_of, unequal
from policy.proof.symbolic import SymbolicRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policy.proof.symbolic import SymbolicDecision
    from policy.rules.effects import Runner
    from policy.rules.release_rule import ReleaseRule

Series = tuple[int, int]
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProofOutcome:
    """The compared part of a decision; ``reasons`` has the ids and effects of the rules that apply.

    ``upstream`` is the decision of vLLM alone, if it differs.
    """

    runner: str | None
    outcome: str | None
    starts: bool
    reasons: tuple[tuple[str, str], ...]
    upstream: ProofOutcome | None = None

    @property
    def alone(self) -> ProofOutcome:
        """The decision of vLLM alone."""
        return self.upstream or self

    def beside(self, alone: ProofOutcome) -> ProofOutcome:
        """The same decision where vLLM alone decides as in ``alone``."""
        return self if alone == self else replace(self, upstream=alone)


@dataclass(frozen=True, slots=True)
class Difference:
    """A class of deployments that are decided differently.

    ``rule`` is the first of the responsible ``rules``. ``facts`` is the smallest deployment of the class, nested as in
    a request; ``before`` and ``after`` are its two decisions, with that of vLLM alone if it changes.
    """

    rule: str
    rules: tuple[str, ...]
    facts: Facts
    before: ProofOutcome
    after: ProofOutcome


def differences(
    before: Sequence[ReleaseRule],
    after: Sequence[ReleaseRule],
    series: tuple[Series, Series],
    replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]],
    earlier: tuple[Sequence[ReleaseRule], Sequence[ReleaseRule]] | None = None,
) -> list[Difference]:
    """Every class of deployments that ``after`` decides differently; an empty list proves that there is none.

    A class is a rule and a step: runner and start before and after, and if those of vLLM alone change, these too.
    ``replay`` decides a deployment's facts by both sets of rules. If ``earlier`` has the two sets as they were on an
    earlier day, only deployments count that one of the two decided differently then.

    Raises:
        ProofFailed: ``replay`` decides a witness differently from the solver.
    """
    if meaning(before, series[0]) == meaning(after, series[1]):
        return []
    return list(_RuleSetComparison(before, after, series, earlier).changes(replay))


def meaning(rules: Sequence[ReleaseRule], series: Series) -> tuple[Any, ...]:
    """Everything on which a release's decisions can depend: its rules in order, and the defaults of facts."""
    return (*map(_meaning, rules), *(fact.default_in(series) for fact in VOCABULARY))


def _meaning(item: ReleaseRule) -> tuple[Any, ...]:
    """Everything in a rule on which a decision can depend, except its position among the rules."""
    return (item.rule.id, item.when, item.cleared, *_scope(item))


def _scope(item: ReleaseRule) -> tuple[Any, ...]:
    part = item.range
    return (
        item.rule.layer,
        item.rule.effect,
        part.template.text,
        part.requires_any,
        part.unless,
        part.runner,
        part.decided_by,
        part.known_problem,
    )


def differing_condition(before: SymbolicRules, after: SymbolicRules) -> Callable[[str | None], Any]:
    """The condition under which two sets of rules differ, as a function of a rule whose reasons are ignored."""
    found = list(_differences(before, after, _swapped(before.rules, after.rules)))
    return lambda ignored: any_of(when for rule, when in found if rule is None or rule != ignored)


def _differences(
    before: SymbolicRules, after: SymbolicRules, swapped: Sequence[tuple[str, str]]
) -> Iterator[tuple[str | None, Any]]:
    """The conditions under which they differ, each with the rule whose reason differs, if it is about a reason."""
    for one, other in _decisions(before, after):
        yield None, unequal(one.starts, other.starts)
        for which in one.runner:
            yield None, unequal(one.runner[which], other.runner[which])
        for outcome in dict.fromkeys([*one.outcomes, *other.outcomes]):
            yield None, unequal(one.outcomes.get(outcome, FALSE), other.outcomes.get(outcome, FALSE))
        for key in dict.fromkeys([*one.reasons, *other.reasons]):
            yield key[0], _reason_differs(key, one, other)
        for pair in swapped:
            yield None, _all_apply(pair, one.reasons)


def _decisions(before: SymbolicRules, after: SymbolicRules) -> list[tuple[SymbolicDecision, SymbolicDecision]]:
    """The decisions to compare: those by all rules, and if a side has house rules, those of vLLM alone."""
    has_house_rules = any(side.alone is not side.decision for side in (before, after))
    pairs = [(before.decision, after.decision), (before.alone, after.alone)]
    return pairs if has_house_rules else pairs[:1]


def _reason_differs(key: tuple[Any, ...], one: SymbolicDecision, other: SymbolicDecision) -> Any:
    return unequal(one.reasons.get(key, FALSE), other.reasons.get(key, FALSE))


class _RuleSetComparison:
    """Compares two sets of rules over the space of the facts that they read."""

    def __init__(
        self,
        before: Sequence[ReleaseRule],
        after: Sequence[ReleaseRule],
        series: tuple[Series, Series],
        earlier: tuple[Sequence[ReleaseRule], Sequence[ReleaseRule]] | None,
    ) -> None:
        every = (*before, *after, *(item for rules in earlier or () for item in rules))
        conditions = [condition for item in every for condition in (item.when, item.cleared) if condition is not None]
        self.space = Space(conditions)
        self.sides = SymbolicRules(before, self.space, series[0]), SymbolicRules(after, self.space, series[1])
        self.decisions = _decisions(*self.sides)
        self.swapped = _swapped(before, after)
        self.search = SpaceSearch(self.space)
        self.search.add(differing_condition(*self.sides)(None))
        if earlier is not None:
            self.search.add(
                any_of(
                    differing_condition(SymbolicRules(rules, self.space, side.series), side)(None)
                    for rules, side in zip(earlier, self.sides, strict=True)
                )
            )
        self.responsible = {rule: self.search.named(when) for rule, when in self._responsible().items()}
        self.rules = Count(self.search, list(self.responsible.values()))
        self.step = [self.search.named(term) for term in self._step()]
        """The runner of a deployment and whether it starts, before and after."""

    def _step(self) -> Iterator[Any]:
        (one, other), *alone = self.decisions
        yield from (*one.runner.values(), one.starts, *other.runner.values(), other.starts)
        for one, other in alone:
            steps = [(*each.runner.values(), each.starts) for each in (one, other)]
            changes = any_of(unequal(*terms) for terms in zip(*steps, strict=True))
            yield from (all_of([changes, term]) for step in steps for term in step)

    def _responsible(self) -> dict[str, Any]:
        """For each edited rule, the condition under which it is responsible for a difference.

        A rule is responsible if its reason differs, or, if no edited rule's reason differs, if it holds.
        """
        edited = {rule: when for rule, when in self._edited().items() if not z3.is_false(z3.simplify(when))}
        reason_differs = {rule: any_of(self._differing_reasons(rule)) for rule in edited}
        no_reason_differs = none_of(reason_differs.values())
        return {
            rule: any_of([reason_differs[rule], all_of([no_reason_differs, holds])]) for rule, holds in edited.items()
        }

    def _differing_reasons(self, rule: str) -> Iterator[Any]:
        """The conditions under which a reason of the rule differs, or its place among the reasons."""
        for one, other in self.decisions:
            keys = dict.fromkeys([*one.reasons, *other.reasons])
            yield from (_reason_differs(key, one, other) for key in keys if key[0] == rule)
            yield from (_all_apply(pair, one.reasons) for pair in self.swapped if pair[0] == rule)

    def _edited(self) -> dict[str, Any]:
        """For each rule, the condition under which it holds in only one set, or holds and differs.

        Where no such condition holds, the answers are equal.
        """
        places = [{item.rule.id: n for n, item in enumerate(side.rules)} for side in self.sides]
        swapped = {pair[0] for pair in self.swapped}
        found = {}
        for rule in dict.fromkeys([*places[0], *places[1]]):
            here = [(side, place.get(rule)) for side, place in zip(self.sides, places, strict=True)]
            items = [None if n is None else side.rules[n] for side, n in here]
            same = (
                rule not in swapped
                and items[0] is not None
                and items[1] is not None
                and _scope(items[0]) == _scope(items[1])
            )
            ways = []
            for variable in (None, True, False):
                holds, clears = zip(*(self._formulas(side, n, variable) for side, n in here), strict=True)
                ways.append(any_of([unequal(*holds), all_of([holds[0], unequal(*clears)])]) if same else any_of(holds))
            found[rule] = any_of(ways)
        return found

    def _formulas(self, side: SymbolicRules, n: int | None, variable: bool | None) -> tuple[Any, Any]:  # noqa: FBT001  # the variable's value
        if n is None:
            return FALSE, FALSE
        item = side.rules[n]
        return self.space.formula(
            item.when, side.series, variable
        ), FALSE if item.cleared is None else self.space.formula(item.cleared, side.series, variable)

    def changes(self, replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]]) -> Iterator[Difference]:
        """One difference for each class: first those of single rules, then those of several rules together."""
        least = self.search.facts.fewest([], 0)
        if least is None:
            return
        for rule, when in self.responsible.items():
            others = [z3.Not(other) for name, other in self.responsible.items() if name != rule]
            yield from self._classes([when, *others], least, replay)
        some = self.search.named(any_of(self.responsible.values()))
        number = 2
        while (fewest := self.rules.fewest([some], number)) is not None:
            number = fewest
            yield from self._classes([some, self.rules.at_most(number)], least, replay)
        if self.search.is_possible([z3.Not(when) for when in self.responsible.values()]):
            raise ProofFailed("the solver finds different answers for equal rules; report it with both sets of rules")

    def _classes(
        self, assumed: Sequence[Any], least: int, replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]]
    ) -> Iterator[Difference]:
        """One difference of at least ``least`` facts for each step that is possible; each step is then excluded."""
        while (smallest := self.search.smallest(assumed, least)) is not None:
            model, least = smallest
            change = self._change(model, replay)
            yield change
            another = [z3.Not(term) if holds_in(model, term) else term for term in self.step]
            self.search.add(z3.Or(z3.Not(self.responsible[change.rule]), *another))

    def _change(self, model: Any, replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]]) -> Difference:
        facts = self.space.stated(model)
        expected = tuple(_answer(side, model) for side in self.sides)
        before, after = replay(facts)
        check_replay(facts, expected, (before, after))
        if before.alone == after.alone:
            before, after = replace(before, upstream=None), replace(after, upstream=None)
        rules = tuple(name for name, when in self.responsible.items() if holds_in(model, when))
        return Difference(rules[0], rules, facts, before, after)


def check_replay(facts: Facts, expected: object, found: object) -> None:
    """Compare the decisions that the solver expects for a witness with those of the engine.

    Raises:
        ProofFailed: they differ.
    """
    if found != expected:
        raise ProofFailed(
            "the solver and the engine disagree; report it with these facts: "
            f"{json.dumps(facts)}: expected {expected}, got {found}"
        )


def _all_apply(pair: tuple[str, str], reasons: dict[tuple[Any, ...], Any]) -> Any:
    return all_of(when for key, when in reasons.items() if key[0] in pair)


def _answer(side: SymbolicRules, model: Any) -> ProofOutcome:
    whole = _outcome(side.decision, model)
    return whole if side.alone is side.decision else whole.beside(_outcome(side.alone, model))


def _outcome(decision: SymbolicDecision, model: Any) -> ProofOutcome:
    runner: Runner | None = next(which for which, when in decision.runner.items() if holds_in(model, when))
    outcome = next(which for which, when in decision.outcomes.items() if holds_in(model, when))
    reasons = sorted((rule, effect) for (rule, _, effect, _), when in decision.reasons.items() if holds_in(model, when))
    return ProofOutcome(runner, outcome, holds_in(model, decision.starts), tuple(reasons))


def _swapped(before: Sequence[ReleaseRule], after: Sequence[ReleaseRule]) -> list[tuple[str, str]]:
    """Pairs of rules with the same effect whose order differs between the two sets."""
    places = [{item.rule.id: (item.rule.effect.rank, n) for n, item in enumerate(rules)} for rules in (before, after)]
    common = [rule for rule in places[0] if rule in places[1] and places[0][rule][0] == places[1][rule][0]]
    return [
        (one, other)
        for one, other in combinations(common, 2)
        if places[0][one][0] == places[0][other][0]
        and (places[0][one] < places[0][other]) != (places[1][one] < places[1][other])
    ]
