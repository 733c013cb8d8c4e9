"""Proofs about the rules of requests: that each can give a verdict, and which requests two sets check differently.

Owns the claims about these rules and the classes of changed requests. A request may go to an engine with any facts and
either runner, as the answer has both. Not here: rules that decide about deployments (``claims``, ``difference``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import z3

from policy.errors import Fault, RequestFault
from policy.facts.facts import read_row
from policy.facts.vocabulary import FACTS_WITH_REQUEST
from policy.proof.difference import check_replay
from policy.proof.search import SpaceSearch, illegal, solver_of
from policy.proof.space import FALSE, Space, all_of, any_of, holds_in, none_of, unequal
from policy.rules.conditions import leaves
from policy.rules.effects import Runner
from policy.rules.releases import series
from policy.rules.request_rule import Verdict
from policy.sampling.check import runner_check, warning_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policy.rules.request_rule import ReleaseRequestRule
    from policy.sampling.check import RequestChecker

Facts: TypeAlias = dict[str, Any]
Transition: TypeAlias = tuple[Runner, Verdict, Verdict]
RUNNERS = (Runner.V1, Runner.V2)
VERDICTS = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The compared part of an answer: with each runner the verdict, the findings, and the rules that warn."""

    verdicts: tuple[Verdict, ...]
    rules: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """A class of requests that are checked differently.

    ``rule`` is the first of the responsible ``rules``. ``facts`` is the smallest request of the class with the facts of
    its engine, nested as in a case of a rule; ``before`` and ``after`` are its two answers.
    """

    rule: str
    rules: tuple[str, ...]
    facts: Facts
    before: RequestOutcome
    after: RequestOutcome

    @property
    def transitions(self) -> dict[str, tuple[Verdict, Verdict]]:
        """The verdicts before and after, for each runner with which they differ."""
        verdicts = zip(RUNNERS, self.before.verdicts, self.after.verdicts, strict=True)
        return {str(runner): (old, new) for runner, old, new in verdicts if old is not new}


class SymbolicRequests:
    """The rules about requests in one release as formulas: for each runner the rules that fire, and the verdict."""

    def __init__(self, rules: Sequence[ReleaseRequestRule], space: Space, release: tuple[int, int]) -> None:
        self.rules = rules
        self.holds = [space.formula(item.when, release) for item in rules]
        self.fires = {
            runner: [
                when if item.range.runner in {None, runner} else FALSE
                for item, when in zip(rules, self.holds, strict=True)
            ]
            for runner in RUNNERS
        }
        self.verdict = {runner: self._verdicts(fires) for runner, fires in self.fires.items()}

    def _verdicts(self, fires: Sequence[Any]) -> dict[Verdict, Any]:
        """The condition of each verdict: a rule with it fires, and none with a worse one."""
        some = {
            verdict: any_of(when for item, when in zip(self.rules, fires, strict=True) if item.rule.verdict is verdict)
            for verdict in VERDICTS
        }
        worse = {verdict: any_of(some[other] for other in VERDICTS[n + 1 :]) for n, verdict in enumerate(VERDICTS)}
        some[Verdict.FINE] = none_of([])
        return {verdict: all_of([some[verdict], none_of([worse[verdict]])]) for verdict in VERDICTS}

    def answer(self, model: Any) -> RequestOutcome:
        """The answer to the request of a model."""
        verdicts = tuple(
            next(verdict for verdict, when in self.verdict[runner].items() if holds_in(model, when))
            for runner in RUNNERS
        )
        fired = (
            sorted(
                item.rule.id for item, when in zip(self.rules, self.fires[runner], strict=True) if holds_in(model, when)
            )
            for runner in RUNNERS
        )
        return RequestOutcome(verdicts, tuple(map(tuple, fired)))


class RequestReplay:
    """Checks the facts of a request by two policies, each with its release, to check the solver."""

    def __init__(self, before: tuple[RequestChecker, str], after: tuple[RequestChecker, str]) -> None:
        self._sides = before, after

    def __call__(self, facts: Facts) -> tuple[RequestOutcome, RequestOutcome]:
        """The answers of both policies on these facts, nested as in a case of a rule.

        Raises:
            ProofFailed: the facts are not legal.
        """
        before, after = (_checked(checker, release, facts) for checker, release in self._sides)
        return before, after


def _checked(checker: RequestChecker, release: str, facts: Facts) -> RequestOutcome:
    faults: list[RequestFault] = []
    row = read_row(facts, series(release), faults)
    if faults:
        raise illegal(facts)
    fired = checker.ruleset(release).fired(row)
    checks = [runner_check(runner, fired, row) for runner in RUNNERS]
    rules = (
        sorted(
            [*(finding.rule for finding in check.findings), *(item.rule.id for item in warning_rules(fired, runner))]
        )
        for runner, check in zip(RUNNERS, checks, strict=True)
    )
    return RequestOutcome(tuple(Verdict(check.verdict) for check in checks), tuple(map(tuple, rules)))


class RequestClaims:
    """Proves claims about the rules of several releases, over the space of the facts that any of them reads.

    A request that was found for a rule in one release is tried first in the next, where it nearly always serves too.
    """

    def __init__(self, every: Iterable[Sequence[ReleaseRequestRule]]) -> None:
        self._space = Space([item.when for rules in every for item in rules if item.when is not None])
        self._models: dict[str, Any] = {}

    def faults(self, rules: Sequence[ReleaseRequestRule], release: str) -> Iterator[Fault]:
        """The faults of the rules of one release: unreachable or shadowed rules."""
        symbolic = SymbolicRequests(rules, self._space, series(release))
        solver = solver_of(self._space.laws)
        for item, holds, decides in zip(rules, symbolic.holds, _decides(symbolic), strict=True):
            if self._is_possible(solver, item.rule.id, holds if item.rule.is_advice else decides):
                continue
            if item.rule.is_advice or solver.check(holds) != z3.sat:
                message = "unreachable rule: no request meets its condition; correct it, or remove the range"
            else:
                message = (
                    "shadowed rule: wherever it holds, another rule gives the same or a worse verdict; correct its "
                    "condition, or remove the range"
                )
            yield Fault(item.rule.path, *item.rule.place, message)

    def _is_possible(self, solver: Any, rule: str, when: Any) -> bool:
        """Whether a request meets a condition about this rule."""
        known = self._models.get(rule)
        if known is not None and holds_in(known, when):
            return True
        if solver.check(when) != z3.sat:
            return False
        self._models[rule] = solver.model()
        return True


def _decides(symbolic: SymbolicRequests) -> list[Any]:
    """For each rule, the condition under which it alone gives the verdict with a runner."""
    found: list[list[Any]] = [[] for _ in symbolic.rules]
    for fires in symbolic.fires.values():
        before = _accumulated(fires)
        worst_first = [item.rule.verdict.severity for item in symbolic.rules]
        for _, group in groupby(range(len(fires)), key=lambda n: worst_first[n]):
            places = [*group]
            later = _accumulated([fires[n] for n in reversed(places)])
            for n in places:
                found[n].append(all_of([fires[n], none_of([before[n], later[places[-1] - n]])]))
    return [any_of(ways) for ways in found]


def _accumulated(formulas: Sequence[Any]) -> list[Any]:
    """For each formula, whether one of those before it holds."""
    return [*accumulate(formulas[:-1], lambda one, other: any_of([one, other]), initial=FALSE)]


def request_meaning(rules: Sequence[ReleaseRequestRule], release: str) -> tuple[Any, ...]:
    """Everything on which a release's checks of requests can depend: its rules, and the defaults of the facts."""
    read = sorted({leaf.fact for item in rules if item.when is not None for leaf in leaves(item.when)})
    defaults = (FACTS_WITH_REQUEST[name].default_in(series(release)) for name in read)
    return (*((item.rule.id, item.when, item.scope) for item in rules), *defaults)


def request_differences(
    before: Sequence[ReleaseRequestRule],
    after: Sequence[ReleaseRequestRule],
    releases: tuple[str, str],
    replay: RequestReplay,
) -> list[RequestDifference]:
    """Every class of requests that ``after`` checks differently; an empty list proves that there is none.

    A class is a rule and what becomes of the verdict with a runner. A rule that changes no verdict has one class, of
    requests with other findings or texts; other rules have none of requests that get a worse verdict anyway.

    Raises:
        ProofFailed: ``replay`` checks a witness differently from the solver.
    """
    if request_meaning(before, releases[0]) == request_meaning(after, releases[1]):
        return []
    return list(_RequestComparison(before, after, releases).changes(replay))


class _RequestComparison:
    """Compares two sets of rules about requests over the space of the facts that they read.

    An answer depends on the rules that fire alone, so requests for which no rule differs have the same answer.
    """

    def __init__(
        self, before: Sequence[ReleaseRequestRule], after: Sequence[ReleaseRequestRule], releases: tuple[str, str]
    ) -> None:
        self.space = Space([item.when for item in (*before, *after) if item.when is not None])
        self.sides = [
            SymbolicRequests(rules, self.space, series(release))
            for rules, release in zip((before, after), releases, strict=True)
        ]
        self.search = SpaceSearch(self.space)
        self.differs = {
            rule: self.search.named(when)
            for rule, when in self._differing().items()
            if not z3.is_false(z3.simplify(when))
        }
        self.transitions: dict[Transition, Any] = {
            (runner, old, new): self.search.named(
                all_of([self.sides[0].verdict[runner][old], self.sides[1].verdict[runner][new]])
            )
            for runner in RUNNERS
            for old in VERDICTS
            for new in VERDICTS
            if old is not new
        }
        self.found: dict[str, set[Transition]] = {rule: set() for rule in self.differs}

    def _differing(self) -> dict[str, Any]:
        """For each rule the condition under which it fires on one side only, or on both and says something else."""
        places = [{item.rule.id: n for n, item in enumerate(side.rules)} for side in self.sides]
        found = {}
        for rule in dict.fromkeys([*places[0], *places[1]]):
            here = [(side, place.get(rule)) for side, place in zip(self.sides, places, strict=True)]
            holds = [FALSE if n is None else side.holds[n] for side, n in here]
            scopes = [None if n is None else side.rules[n].scope for side, n in here]
            found[rule] = unequal(*holds) if scopes[0] == scopes[1] else any_of(holds)
        return found

    def changes(self, replay: RequestReplay) -> Iterator[RequestDifference]:
        """One difference for each class: first those of single rules, then those of several rules together."""
        for rule, when in self.differs.items():
            alone = [when, *(z3.Not(other) for name, other in self.differs.items() if name != rule)]
            yield from self._classes(alone, replay)
            if not self.found[rule] and (smallest := self.search.smallest(alone, 1)) is not None:
                yield self._change(smallest[0], replay)
        yield from self._classes([self.search.named(any_of(self.differs.values()))], replay)

    def _classes(self, assumed: Sequence[Any], replay: RequestReplay) -> Iterator[RequestDifference]:
        """One difference for each change of a verdict that is not yet found for a responsible rule."""
        least = 1
        while smallest := self.search.smallest([*assumed, self.search.named(self._new_transition())], least):
            model, least = smallest
            change = self._change(model, replay)
            for rule in change.rules:
                self.found[rule] |= {each for each, when in self.transitions.items() if holds_in(model, when)}
            yield change

    def _new_transition(self) -> Any:
        """The condition that the verdict changes in a way that was found for none of the responsible rules."""
        return any_of(
            all_of([when, none_of(self.differs[rule] for rule, found in self.found.items() if each in found)])
            for each, when in self.transitions.items()
        )

    def _change(self, model: Any, replay: RequestReplay) -> RequestDifference:
        facts = self.space.stated(model)
        before, after = replay(facts)
        check_replay(facts, tuple(side.answer(model) for side in self.sides), (before, after))
        rules = tuple(rule for rule, when in self.differs.items() if holds_in(model, when))
        return RequestDifference(rules[0], rules, facts, before, after)
