"""The ruling of ``policy.decision.ruling`` as formulas over all facts at once.

Owns the second implementation of the step from rules that hold to a decision. The first one decides requests, and also
every witness of a difference (``replay``); a test compares the two on generated facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policy.proof.space import FALSE, all_of, any_of, none_of, unequal
from policy.rules.effects import Layer, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.proof.space import Space
    from policy.rules.release_rule import ReleaseRule

Series = tuple[int, int]


@dataclass(frozen=True)
class SymbolicRuling:
    """The conditions of a ruling by one or both layers: by rule index, by runner, and by rank of a deciding effect."""

    holds: list[Any]
    stands: list[Any]
    refuses: list[Any]
    advises: list[Any]
    decides: dict[int, Any]
    runner: dict[Runner | None, Any]
    cleared: list[Any]


@dataclass(frozen=True)
class SymbolicDecision:
    """The conditions of a decision: of each runner and outcome, of a start, and of each reason, by rule and text.

    Reasons are those of an answer with its refusals and warnings.
    """

    runner: dict[Runner | None, Any]
    starts: Any
    outcomes: dict[str | None, Any]
    reasons: dict[tuple[Any, ...], Any]


class SymbolicRules:
    """The rules of a release as formulas: the decision by all rules, and that of vLLM alone (``alone``).

    Without house rules ``alone`` is the same object as ``decision``.
    """

    def __init__(
        self, rules: Sequence[ReleaseRule], space: Space, series: Series, included: Sequence[Any] | None = None
    ) -> None:
        """Build the formulas; with ``included``, a rule counts only where its formula in that list is true."""
        self.rules, self._space, self.series, self._included = rules, space, series, included
        self.upstream = self._ruling(upstream_only=True)
        self.both = (
            self._ruling(upstream_only=False)
            if any(item.rule.layer is Layer.HOUSE for item in rules)
            else self.upstream
        )
        self.decision = self._decision(self.both, self._final_refusals())
        self.alone = (
            self.decision if self.both is self.upstream else self._decision(self.upstream, self.upstream.refuses)
        )

    def _ruling(
        self, *, upstream_only: bool, variable: bool | None = None, with_leaving: bool = True
    ) -> SymbolicRuling:
        """The ruling; ``variable`` overrides the operator's variable.

        Without ``with_leaving`` house rules about a known problem are left out, which need the runner of all others.
        """
        rules = self.rules
        leaving = [item.range.known_problem is not None for item in rules]
        included = [
            (not upstream_only or item.rule.layer is Layer.UPSTREAM) and (with_leaving or not leaves)
            for item, leaves in zip(rules, leaving, strict=True)
        ]
        holds = [
            self._space.formula(item.when, self.series, variable) if is_included else FALSE
            for item, is_included in zip(rules, included, strict=True)
        ]
        if not upstream_only and with_leaving and any(leaving):
            otherwise = self._ruling(upstream_only=False, variable=variable, with_leaving=False).runner
            holds = [
                all_of([when, otherwise[_left(item)]]) if leaves else when
                for item, when, leaves in zip(rules, holds, leaving, strict=True)
            ]
        if self._included is not None:
            holds = [all_of(pair) for pair in zip(holds, self._included, strict=True)]
        cleared = [
            FALSE if item.cleared is None else self._space.formula(item.cleared, self.series, variable)
            for item in rules
        ]
        exclusive = any_of(holds[n] for n, item in enumerate(rules) if item.rule.effect.exclusive)
        stands: list[Any] = [FALSE] * len(rules)
        decides: dict[int, Any] = {}
        decided: list[Any] = []
        for rank, places in _by_rank(rules):
            effect = rules[places[0]].rule.effect
            for n in places:
                if effect.exclusive:
                    stands[n] = all_of([holds[n], none_of(decided)])
                elif effect.decides:
                    yields = self._any(rules[n].range.unless, holds)
                    last = any_of(decided) if effect.last_resort else FALSE
                    stands[n] = all_of([holds[n], none_of([exclusive, yields, last])])
                elif effect.lists is not None:
                    stands[n] = all_of([holds[n], none_of([exclusive])])
            if effect.decides or effect.exclusive:
                some = any_of(stands[n] for n in places)
                decides[rank] = all_of([some, none_of(decided)])
                decided.append(some)
        runner: dict[Runner | None, Any] = {
            which: any_of(when for rank, when in decides.items() if _effect(rules, rank).runner is which)
            for which in (Runner.V1, Runner.V2, None)
        }
        refuses, advises = self._refusals_and_advice(holds, stands, decides, runner, cleared)
        return SymbolicRuling(holds, stands, refuses, advises, decides, runner, cleared)

    def _refusals_and_advice(
        self,
        holds: list[Any],
        stands: list[Any],
        decides: dict[int, Any],
        runner: dict[Runner | None, Any],
        cleared: list[Any],
    ) -> tuple[list[Any], list[Any]]:
        """The conditions under which each rule refuses to start, and under which it advises."""
        rules = self.rules
        decisive = [all_of([stands[n], decides.get(item.rule.effect.rank, FALSE)]) for n, item in enumerate(rules)]
        chosen = [runner.get(item.rule.effect.lists, FALSE) for item in rules]
        left = [
            all_of([holds[n], any_of([none_of([chosen[n]]), all_of([stands[n], none_of([cleared[n]])])])])
            if item.rule.effect.lists
            else holds[n]
            for n, item in enumerate(rules)
        ]
        refuses, advises = [FALSE] * len(rules), [FALSE] * len(rules)
        for n, item in enumerate(rules):
            effect, part = item.rule.effect, item.range
            if effect.decides or effect.exclusive or effect.lists is not None:
                continue
            conditions = [holds[n], none_of([self._any(part.unless, holds)])]
            if part.runner is not None:
                conditions.append(runner[part.runner])
            if part.decided_by:
                conditions.append(self._any(part.decided_by, decisive))
            else:
                conditions.append(none_of([runner[None]]))
            if part.requires_any:
                conditions.append(self._any(part.requires_any, left if effect.refuses else holds))
            (refuses if effect.refuses else advises)[n] = all_of(conditions)
        return refuses, advises

    def _any(self, names: Iterable[str], which: Sequence[Any]) -> Any:
        """The condition that any of the named rules holds in ``which``; upstream rules may be named by effect."""
        wanted = set(names)
        found = [
            when
            for item, when in zip(self.rules, which, strict=True)
            if item.rule.id in wanted or (item.rule.layer is Layer.UPSTREAM and item.rule.effect.name in wanted)
        ]
        return any_of(found)

    def _final_refusals(self) -> list[Any]:
        """The conditions under which each rule refuses to start, with the variable as it will be set."""
        if self.both is self.upstream:
            return self.upstream.refuses
        other = any_of(
            unequal(self.both.runner[which], self.upstream.runner[which]) for which in (Runner.V1, Runner.V2)
        )
        forced = {
            which: self._ruling(upstream_only=True, variable=which is Runner.V2) for which in (Runner.V1, Runner.V2)
        }
        return [
            any_of(
                [
                    all_of([none_of([other]), refusal]),
                    *(all_of([other, self.both.runner[which], ruled.refuses[n]]) for which, ruled in forced.items()),
                ]
            )
            for n, refusal in enumerate(self.upstream.refuses)
        ]

    def _decision(self, ruling: SymbolicRuling, refuses: list[Any]) -> SymbolicDecision:
        """The decision by a ruling, where ``refuses`` has the conditions under which each rule refuses to start."""
        unreadable = [when for rank, when in ruling.decides.items() if not _effect(self.rules, rank).is_readable]
        return SymbolicDecision(
            ruling.runner,
            none_of([*unreadable, *refuses]),
            self._conditions_of_outcomes(ruling),
            self._conditions_of_reasons(ruling, refuses),
        )

    def _conditions_of_reasons(self, ruling: SymbolicRuling, refuses: list[Any]) -> dict[tuple[Any, ...], Any]:
        found: dict[tuple[Any, ...], Any] = {}
        for n, item in enumerate(self.rules):
            effect = item.rule.effect
            when = ruling.stands[n] if effect.decides or effect.exclusive or effect.lists else ruling.advises[n]
            if effect.refuses:
                when = refuses[n]
            found[item.rule.id, effect.layer, effect.name, item.range.template.text] = when
        return found

    def _conditions_of_outcomes(self, ruling: SymbolicRuling) -> dict[str | None, Any]:
        found: dict[str | None, list[Any]] = {}
        for rank, when in ruling.decides.items():
            found.setdefault(_effect(self.rules, rank).outcome, []).append(when)
        return {outcome: any_of(when) for outcome, when in found.items()}


def _left(item: ReleaseRule) -> Runner | None:
    """The runner that a house rule about a known problem leaves."""
    runner = item.rule.effect.runner
    return None if runner is None else runner.other


def _by_rank(rules: Sequence[ReleaseRule]) -> list[tuple[int, list[int]]]:
    groups: dict[int, list[int]] = {}
    for n, item in enumerate(rules):
        groups.setdefault(item.rule.effect.rank, []).append(n)
    return sorted(groups.items())


def _effect(rules: Sequence[ReleaseRule], rank: int) -> Any:
    return next(item.rule.effect for item in rules if item.rule.effect.rank == rank)
