"""Fired rules → a ruling: the runner, the lists, the refusals. Pure; it does not read facts.

Owns the step from the conditions that hold to the decision, by the table in ``effects`` and the rules' fields that
refer to other rules or the runner (``requires_any``, ``unless``, ``runner``, ``decided_by``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.rules.effects import Effect, Layer, Outcome, Runner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from policy.rules.release_rule import ReleaseRule


NO_RULES: Final[frozenset[int]] = frozenset()


class NotApplied(Struct, frozen=True):
    """Why a rule whose condition holds does not apply.

    ``field`` is the field that excludes the rule; ``expected`` and ``actual`` are the compared values.
    """

    field: str
    expected: Any
    actual: Any


class Ruling(Struct, frozen=True, gc=False):
    """The decision by the fired rules; each number is a rule's index in the release's list.

    ``holding`` are all rules whose conditions hold, in order, and ``cleared`` those cleared at startup. Among them,
    ``standing`` decide or are on a list, ``decisive`` made the decision, ``refusals`` stop vLLM at startup and
    ``advice`` only warns. ``v2_list`` and ``v1_list`` are vLLM's feature lists in its order; ``at_start`` is the chosen
    runner's list when vLLM would refuse to start. ``ended`` are rules that would decide or advise if they had not
    ended. ``problems`` are the known problems of the chosen runner, and ``other_problems`` those of the other one, both
    the worst first.
    """

    effect: Effect
    holding: tuple[int, ...]
    cleared: tuple[int, ...]
    decisive: tuple[int, ...]
    standing: tuple[int, ...]
    refusals: tuple[int, ...]
    advice: tuple[int, ...]
    v2_list: tuple[int, ...]
    v1_list: tuple[int, ...]
    at_start: tuple[int, ...]
    ended: tuple[int, ...] = ()
    problems: tuple[int, ...] = ()
    other_problems: tuple[int, ...] = ()

    @property
    def is_choice_of_problems(self) -> bool:
        """Whether the operator's variable or a house rule chose a runner that has known problems."""
        effect = self.effect
        return (
            bool(self.problems)
            and self.problems != self.other_problems
            and (effect.outcome is Outcome.OVERRIDE or effect.layer is Layer.HOUSE)
        )

    @property
    def runner(self) -> Runner | None:
        """The chosen runner; ``None`` if the configuration cannot be read, or neither of vLLM's runners is used."""
        return self.effect.runner

    @property
    def starts(self) -> bool:
        """Whether vLLM starts, as far as the model runner is concerned."""
        return self.effect.is_readable and not self.refusals


class _CompiledRule:
    """The fields of a rule that rulings use, with sets of names as bit masks."""

    __slots__ = (
        "decided_by",
        "effect",
        "is_problem",
        "is_upstream",
        "leaves",
        "name",
        "part",
        "refuses",
        "requires_any",
        "runner",
        "unless",
    )

    def __init__(self, item: ReleaseRule, bits: Mapping[str, int]) -> None:
        rule, self.part = item.rule, item.range
        self.effect = rule.effect
        self.is_upstream = rule.layer is Layer.UPSTREAM
        self.name = bits[rule.id] | (bits[rule.effect.name] if self.is_upstream else 0)
        self.refuses, self.is_problem = rule.effect.refuses, rule.effect.is_problem
        runner = rule.effect.runner
        # The runner that a house rule leaves because of a known problem.
        self.leaves = runner.other if runner is not None and self.part.known_problem is not None else None
        self.runner = self.part.runner
        self.requires_any, self.unless, self.decided_by = (
            _mask(names, bits) for names in (self.part.requires_any, self.part.unless, self.part.decided_by)
        )


def _mask(names: Iterable[str], bits: Mapping[str, int]) -> int:
    mask = 0
    for name in names:
        mask |= bits.get(name, 0)
    return mask


class RuleCombiner:
    """Combines the fired rules of a release into rulings.

    Fields such as ``requires_any`` refer to a rule by its id, or to upstream rules by their effect.
    """

    def __init__(self, rules: Sequence[ReleaseRule], always: Iterable[int]) -> None:
        """``rules`` are in the release's order; ``always`` are the indexes of those without a condition."""
        named = dict.fromkeys(name for item in rules for name in (item.rule.id, item.rule.effect.name))
        self._bits = {name: 1 << bit for bit, name in enumerate(named)}
        self._rules = tuple(_CompiledRule(item, self._bits) for item in rules)
        self._bit = tuple(rule.name for rule in self._rules)
        self._steps = tuple(
            (rule.effect, rule.effect.decides, rule.effect.lists, rule.effect.last_resort, rule.unless)
            for rule in self._rules
        )
        self._always = tuple(always)
        self._house = frozenset(n for n, rule in enumerate(self._rules) if not rule.is_upstream)
        self._house_always = not self._house.isdisjoint(self._always)
        self._leaving = frozenset(n for n, rule in enumerate(self._rules) if rule.leaves is not None)

    def rulings(self, fired: tuple[int, ...], ended: frozenset[int] = NO_RULES) -> tuple[Ruling, Ruling]:
        """The rulings by upstream alone and by both layers; the same object if no house rule holds.

        ``ended`` are the indexes of house rules that have ended.
        """
        if self._house_always or not self._house.isdisjoint(fired):
            upstream = self._ruling(fired, ended, upstream_only=True)
            return upstream, self._ruling(fired, ended, upstream_only=False, idle=self._idle(fired, ended))
        ruling = self._ruling(fired, ended, upstream_only=False)
        return ruling, ruling

    def _idle(self, fired: tuple[int, ...], ended: frozenset[int]) -> frozenset[int]:
        """The house rules about a known problem of a runner that the other rules do not choose."""
        if not self._leaving or self._leaving.isdisjoint((*fired, *self._always)):
            return NO_RULES
        runner = self._ruling(fired, ended, upstream_only=False, idle=self._leaving).runner
        return frozenset(n for n in self._leaving if self._rules[n].leaves is not runner)

    def _ruling(
        self, fired: tuple[int, ...], ended: frozenset[int], *, upstream_only: bool, idle: frozenset[int] = NO_RULES
    ) -> Ruling:
        """The ruling on the rules that fired, without those in ``idle``.

        In ``fired`` ``~index`` means that the rule's ``cleared_at_startup`` holds.

        INVARIANT: at least one upstream rule decides; the catalogue refuses releases where none might.
        """
        rules, bit, steps = self._rules, self._bit, self._steps
        holding = sorted(fired + self._always)
        cleared: list[int] = []
        if holding[0] < 0:
            cleared, holding = [~n for n in holding if n < 0], [n for n in holding if n >= 0]
        if upstream_only:
            holding = [n for n in holding if rules[n].is_upstream]
        if idle:
            holding = [n for n in holding if n not in idle]
        outdated: list[int] = []
        if not ended.isdisjoint(holding):
            outdated, holding = [n for n in holding if n in ended], [n for n in holding if n not in ended]
        effect = rules[holding[0]].effect
        if effect.exclusive:
            alone = tuple([n for n in holding if rules[n].effect is effect])
            about = self._advice_about(alone, holding)
            return Ruling(effect, tuple(holding), tuple(cleared), alone, alone, (), about, (), (), ())
        names = 0
        for n in holding:
            names |= bit[n]
        decided = False
        later = 0
        decisive, standing, v2_list, v1_list = [], [], [], []
        for n in holding:
            kind, decides, lists, last_resort, unless = steps[n]
            if decides:
                if names & unless or (decided and last_resort):
                    continue
                if not decided:
                    effect, decided = kind, True
                if kind is effect:
                    decisive.append(n)
                standing.append(n)
                if lists is not None:
                    v2_list.append(n)
            elif lists is not None:
                standing.append(n)
                v1_list.append(n)
            else:
                later += 1
        runner = effect.runner
        own = v2_list if runner is Runner.V2 else v1_list
        at_start = [n for n in own if n not in cleared] if cleared else own
        deciders = self._names(decisive)
        left = self._left(holding, at_start, runner) if cleared else names
        refusals, advice, problems, other_problems = self._that_follow(
            holding[len(holding) - later :], runner, deciders, names, left
        )
        if outdated:
            outdated = [
                n for n in outdated if steps[n][1] or not _excluding_field(rules[n], runner, deciders, names, names)
            ]
        return Ruling(
            effect,
            tuple(holding),
            tuple(cleared),
            tuple(decisive),
            tuple(standing),
            tuple(refusals),
            tuple(advice),
            tuple(v2_list),
            tuple(v1_list),
            tuple(at_start),
            tuple(outdated),
            tuple(problems),
            tuple(other_problems),
        )

    def _that_follow(
        self, holding: Iterable[int], runner: Runner | None, deciders: int, names: int, left: int
    ) -> tuple[list[int], list[int], list[int], list[int]]:
        """The rules that do not decide: refusals, advice, the runner's known problems and those of the other runner.

        The problems are the worst first; an engine without a runner has none of them. One loop over the rules takes 2
        of 6 µs of a ruling, and every third decision needs a new ruling.
        """
        refusals: list[int] = []
        advice: list[int] = []
        problems: list[int] = []
        other_problems: list[int] = []
        for n in holding:
            rule = self._rules[n]
            if rule.is_problem:
                if runner is not None and rule.runner in {None, runner}:
                    problems.append(n)
                if runner is not None and rule.runner is not runner:
                    other_problems.append(n)
            elif not _excluding_field(rule, runner, deciders, names, left if rule.refuses else names):
                (refusals if rule.refuses else advice).append(n)
        return refusals, advice, problems, other_problems

    def _advice_about(self, decisive: Iterable[int], holding: Sequence[int]) -> tuple[int, ...]:
        """The advice on a decision by an exclusive effect: the rules that name the effect in ``decided_by``."""
        deciders, names = self._names(decisive), self._names(holding)
        return tuple(
            n
            for n in holding
            if self._rules[n].decided_by and not _excluding_field(self._rules[n], None, deciders, names, names)
        )

    def _names(self, indexes: Iterable[int]) -> int:
        names = 0
        for n in indexes:
            names |= self._rules[n].name
        return names

    def _left(self, holding: Iterable[int], at_start: Collection[int], runner: Runner | None) -> int:
        """The names when vLLM would refuse to start, without rules on the runner's list that are cleared by then."""
        return self._names(n for n in holding if n in at_start or self._rules[n].effect.lists is not runner)

    def not_applied(self, ruling: Ruling, n: int) -> NotApplied:
        """Why the rule at ``n``, whose condition holds, does not apply."""
        rule, names = self._rules[n], self._names(ruling.holding)
        part = rule.part
        if rule.leaves is not None and n not in ruling.holding:
            return NotApplied("known_problem", rule.leaves, ruling.runner and rule.leaves.other)
        if ruling.effect.exclusive or rule.effect.last_resort:
            return NotApplied("decided_by", rule.effect.name, ruling.effect.name)
        left = self._left(ruling.holding, ruling.at_start, ruling.runner) if rule.refuses else names
        match (
            "unless"
            if rule.effect.decides
            else _excluding_field(rule, ruling.runner, self._names(ruling.decisive), names, left)
        ):
            case "runner" as field:
                return NotApplied(field, part.runner or list(Runner), ruling.runner)
            case "unless" as field:
                return NotApplied(
                    field, list(part.unless), [name for name in part.unless if names & self._bits.get(name, 0)]
                )
            case "decided_by" as field:
                return NotApplied(field, list(part.decided_by), ruling.effect.name)
            case field:
                return NotApplied(field, list(part.requires_any), [])


def _excluding_field(rule: _CompiledRule, runner: Runner | None, deciders: int, names: int, left: int) -> str:
    """The field that excludes a rule with a refusal or advice; empty if the rule applies."""
    if (runner is None and not rule.decided_by) or (rule.runner is not None and rule.runner is not runner):
        return "runner"
    if rule.part.decided_by and not deciders & rule.decided_by:
        return "decided_by"
    if names & rule.unless:
        return "unless"
    if rule.part.requires_any and not left & rule.requires_any:
        return "requires_any"
    return ""
