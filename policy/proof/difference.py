"""Find the deployments that two sets of rules decide differently, and the rules responsible.

Owns the classes of changed deployments, a smallest witness of each, and the check that the policy itself decides the
witness as the solver does. Deployments in no class are proved to be decided the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import z3

from policy.errors import PolicyError
from policy.proof.space import FALSE, Space
from policy.proof.symbolic import Symbolic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policy.rules.catalogue import ReleaseRule
    from policy.rules.effects import Runner

Series = tuple[int, int]
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ProofOutcome:
    """The compared part of a decision; ``reasons`` has the ids and effects of the rules that apply."""

    runner: str | None
    outcome: str | None
    starts: bool
    reasons: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A class of deployments that are decided differently.

    ``rule`` is responsible. ``facts`` is the smallest deployment of the class, nested as in a request, ``before`` and
    ``after`` are its two decisions, and ``rules`` are all rules responsible for the difference.
    """

    rule: str
    rules: tuple[str, ...]
    facts: Facts
    before: ProofOutcome
    after: ProofOutcome


class ProofFailed(PolicyError):
    """The policy decides a deployment differently from the solver: one of the two implementations is wrong."""


def differences(
    before: Sequence[ReleaseRule],
    after: Sequence[ReleaseRule],
    series: tuple[Series, Series],
    replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]],
) -> list[Difference]:
    """Every class of deployments that ``after`` decides differently; none is a proof that there is no difference.

    A class is a rule and a step (runner and start before, runner and start after). ``replay`` decides a deployment's
    facts by both sets.

    Raises:
        ProofFailed: a decision of ``replay`` is not that of the solver.
    """
    if list(map(_meaning, before)) == list(map(_meaning, after)) and series[0] == series[1]:
        return []
    return list(_RuleSetComparison(before, after, series).changes(replay))


def _meaning(item: ReleaseRule) -> tuple[Any, ...]:
    """Everything in a rule that a decision can depend on, except its position among other rules."""
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
    )


def differ(before: Symbolic, after: Symbolic, besides: str | None = None) -> Any:
    """The condition under which two sets of rules differ; reasons of the rule ``besides`` itself are ignored."""
    return z3.Or(list(_differences(before, after, _swapped(before.rules, after.rules), besides)))


def _differences(
    before: Symbolic, after: Symbolic, swapped: Sequence[tuple[str, str]], besides: str | None
) -> Iterator[Any]:
    yield before.starts != after.starts
    for which in before.runner:
        yield before.runner[which] != after.runner[which]
    outcomes, reasons = (before.outcomes(), after.outcomes()), (before.reasons(), after.reasons())
    for outcome in dict.fromkeys([*outcomes[0], *outcomes[1]]):
        yield outcomes[0].get(outcome, FALSE) != outcomes[1].get(outcome, FALSE)
    for key in dict.fromkeys([*reasons[0], *reasons[1]]):
        if key[0] != besides:
            yield reasons[0].get(key, FALSE) != reasons[1].get(key, FALSE)
    for pair in swapped:
        yield _all_apply(pair, reasons[0])


class _RuleSetComparison:
    """Two sets of rules over one space."""

    def __init__(
        self, before: Sequence[ReleaseRule], after: Sequence[ReleaseRule], series: tuple[Series, Series]
    ) -> None:
        conditions = [
            condition for item in (*before, *after) for condition in (item.when, item.cleared) if condition is not None
        ]
        self.space = Space(conditions)
        self.sides = Symbolic(before, self.space, series[0]), Symbolic(after, self.space, series[1])
        self.swapped = _swapped(before, after)
        self.responsible = self._responsible()
        self.differs = differ(*self.sides)
        self.preferences = self.space.preferences()
        self.counted = (
            _at_most(list(self.responsible.values())),
            _at_most([fact.stated for fact in self.space.facts.values()]),
        )
        self.found: list[tuple[str, Any]] = []

    def _responsible(self) -> dict[str, Any]:
        """For each edited rule, the facts for which it is responsible.

        These are the facts for which its reason differs, or for which it holds, if no edited rule's reason differs.
        """
        edited = {rule: when for rule, when in self._edited().items() if not z3.is_false(z3.simplify(when))}
        reasons = [side.reasons() for side in self.sides]
        keys = {**reasons[0], **reasons[1]}
        says = {
            rule: z3.Or(
                [reasons[0].get(key, FALSE) != reasons[1].get(key, FALSE) for key in keys if key[0] == rule]
                + [self._moved(rule, reasons[0])]
            )
            for rule in edited
        }
        silent = z3.Not(z3.Or(list(says.values())))
        return {rule: z3.Or(says[rule], z3.And(silent, holds)) for rule, holds in edited.items()}

    def _moved(self, rule: str, reasons: dict[tuple[Any, ...], Any]) -> Any:
        return z3.Or([_all_apply(pair, reasons) for pair in self.swapped if pair[0] == rule])

    def _edited(self) -> dict[str, Any]:
        """For each rule, the facts for which it holds in only one set, or holds and differs.

        For all other facts the answers are equal.
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
                holds, clears = zip(*(self._of(side, n, variable) for side, n in here), strict=True)
                ways.append(
                    z3.Or(holds[0] != holds[1], z3.And(holds[0], clears[0] != clears[1])) if same else z3.Or(holds)
                )
            found[rule] = z3.Or(ways)
        return found

    def _of(self, side: Symbolic, n: int | None, variable: bool | None) -> tuple[Any, Any]:  # noqa: FBT001  # the variable's value
        if n is None:
            return FALSE, FALSE
        item = side.rules[n]
        return self.space.formula(
            item.when, side.series, variable
        ), FALSE if item.cleared is None else self.space.formula(item.cleared, side.series, variable)

    def changes(self, replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]]) -> Iterator[Difference]:
        """One change for each class: first those of single rules, then those of several rules together."""
        solver = z3.SolverFor("QF_FD")
        solver.add(self.space.laws)
        solver.add(self.differs)
        for rule, when in self.responsible.items():
            others = [z3.Not(other) for name, other in self.responsible.items() if name != rule]
            solver.push()
            yield from self._classes(solver, z3.And([when, *others]), replay)
            solver.pop()
            solver.add(z3.Not(z3.And(when, z3.Or([step for name, step in self.found if name == rule]))))
        yield from self._classes(solver, z3.Or(list(self.responsible.values())), replay)
        solver.add([z3.Not(when) for when in self.responsible.values()])
        if solver.check() != z3.unsat:
            raise ProofFailed("the solver finds different answers for equal rules; report it with both sets of rules")

    def _classes(
        self, solver: Any, when: Any, replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]]
    ) -> Iterator[Difference]:
        """One change for each step that the solver still finds; each is then excluded."""
        solver.add(when)
        while solver.check() == z3.sat:
            model = self._smallest(solver)
            step = self._step(model)
            change = self._change(model, replay)
            yield change
            self.found.append((change.rule, step))
            solver.add(z3.Not(z3.And(self.responsible[change.rule], step)))

    def _step(self, model: Any) -> Any:
        """The runner of a model's deployment and whether it starts, before and after, as a term."""
        terms = [term for side in self.sides for term in (*side.runner.values(), side.starts)]
        return z3.And([term if z3.is_true(model.eval(term, model_completion=True)) else z3.Not(term) for term in terms])

    def _smallest(self, solver: Any) -> Any:
        """The model with the fewest responsible rules, then the fewest facts, then by the order of preferences."""
        solver.push()
        for few in self.counted:
            solver.add(few[_fewest(solver, few)])
        model = simplest_model(solver, self.preferences)
        solver.pop()
        return model

    def _change(self, model: Any, replay: Callable[[Facts], tuple[ProofOutcome, ProofOutcome]]) -> Difference:
        facts = self.space.stated(model)
        expected = tuple(_answer(side, model) for side in self.sides)
        answers = replay(facts)
        if answers != expected:
            raise ProofFailed(
                "the solver and the engine disagree; report it with these facts: "
                f"{json.dumps(facts)}: expected {expected}, got {answers}"
            )
        rules = tuple(
            name for name, when in self.responsible.items() if z3.is_true(model.eval(when, model_completion=True))
        )
        return Difference(rules[0], rules, facts, *answers)


def simplest_model(solver: Any, preferences: Sequence[Any]) -> Any:
    """The model that fulfils every preference that it can, the first ones first; these stay in the solver."""
    solver.check()
    model = solver.model()
    for preference in preferences:
        if z3.is_true(model.eval(preference, model_completion=True)):
            solver.add(preference)
        elif solver.check(preference) == z3.sat:
            model = solver.model()
            solver.add(preference)
    return model


def _at_most(propositions: list[Any]) -> list[Any]:
    """For each number, the constraint that no more of them hold."""
    return [
        z3.PbLe([(proposition, 1) for proposition in propositions], number) for number in range(len(propositions))
    ] + [z3.BoolVal(val=True)]


def _fewest(solver: Any, at_most: list[Any]) -> int:
    """The least number of them that must hold."""
    return next(number for number, few in enumerate(at_most) if solver.check(few) == z3.sat)


def _all_apply(pair: tuple[str, str], reasons: dict[tuple[Any, ...], Any]) -> Any:
    return z3.And([when for key, when in reasons.items() if key[0] in pair])


def _answer(side: Symbolic, model: Any) -> ProofOutcome:
    def true(term: Any) -> bool:
        return bool(z3.is_true(model.eval(term, model_completion=True)))

    runner: Runner | None = next(which for which, when in side.runner.items() if true(when))
    outcome = next(which for which, when in side.outcomes().items() if true(when))
    reasons = sorted((rule, effect) for (rule, _, effect, _), when in side.reasons().items() if true(when))
    return ProofOutcome(runner, outcome, true(side.starts), tuple(reasons))


def _swapped(before: Sequence[ReleaseRule], after: Sequence[ReleaseRule]) -> list[tuple[str, str]]:
    """Pairs of rules of one effect whose order differs between the two sets."""
    places = [{item.rule.id: (item.rule.effect.rank, n) for n, item in enumerate(rules)} for rules in (before, after)]
    common = [rule for rule in places[0] if rule in places[1] and places[0][rule][0] == places[1][rule][0]]
    return [
        (one, other)
        for one, other in combinations(common, 2)
        if places[0][one][0] == places[0][other][0]
        and (places[0][one] < places[0][other]) != (places[1][one] < places[1][other])
    ]
