"""Fired rules → what follows from them: the runner, the lists, the refusals. Pure, and without facts.

Owns the step from "these conditions hold" to "this is the decision", by the table of ``precedence``
and by what rules say of each other (``needs``, ``yields_to``, ``runner``, ``decided_by``). A ruling
depends on nothing but the fired rules, so that it can be kept for the next deployment that fires them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from policy.precedence import Layer, Runner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from policy.catalogue import ReleaseRule
    from policy.precedence import Effect

UPSTREAM_ONLY: Final = frozenset({Layer.UPSTREAM})
BOTH_LAYERS: Final = frozenset(Layer)


@dataclass(frozen=True, slots=True)
class Aside:
    """Why a rule whose condition holds does not stand: what it asks of the decision, and what was found."""

    asks: str
    expected: str | list[str]
    actual: str | list[str] | None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows; every number is a rule's place in the release's list.

    ``standing`` are the rules that decide or list, in order; ``decisive`` those that made the decision;
    ``refusals`` what stops vLLM at start, ``advice`` what is only said, ``v2_list`` and ``v1_list`` the
    reasons in vLLM's order, ``at_start`` the list of the chosen runner as it is when vLLM would refuse.
    """

    effect: Effect
    decisive: frozenset[int]
    standing: tuple[int, ...]
    refusals: tuple[int, ...]
    advice: tuple[int, ...]
    v2_list: tuple[int, ...]
    v1_list: tuple[int, ...]
    at_start: tuple[int, ...]
    aside: Mapping[int, Aside]

    @property
    def runner(self) -> Runner | None:
        """The chosen runner; ``None`` where the configuration cannot be read."""
        return self.effect.runner

    @property
    def starts(self) -> bool:
        """Whether vLLM starts, as far as the model runner is concerned."""
        return self.effect.runner is not None and not self.refusals


def rule_on(rules: Sequence[ReleaseRule], fired: Iterable[int], layers: AbstractSet[Layer]) -> Ruling:
    """The ruling on a release's rules of which these fired (``~place``: what lifts a rule at start holds).

    INVARIANT: at least one fired rule decides; the catalogue refuses releases in which none might.
    """
    numbers = set(fired)
    holding = [n for n in sorted(numbers) if n >= 0 and rules[n].rule.layer in layers]
    if rules[holding[0]].rule.effect.name == "invalid":
        return _nothing_else(rules, holding)
    aside: dict[int, Aside] = {}
    names = _names(rules, holding)
    candidates = [n for n in holding if rules[n].rule.effect.decides and not _yields(rules[n], n, names, aside)]
    effect = rules[candidates[0]].rule.effect
    decisive = frozenset(n for n in candidates if rules[n].rule.effect is effect)
    for n in candidates:
        if rules[n].rule.effect.last_word and n not in decisive:
            aside[n] = Aside("decided_by", rules[n].rule.effect.name, effect.name)
    lists = {name: tuple(n for n in holding if rules[n].rule.effect.name == name) for name in ("exclude-v2", "exclude-v1")}
    own = lists["exclude-v2"] if effect.runner is Runner.V2 else lists["exclude-v1"]
    at_start = tuple(n for n in own if ~n not in numbers)
    left = names - _names(rules, own) | _names(rules, at_start)
    deciders = _names(rules, decisive)
    refusals, advice = [], []
    for n in holding:
        item = rules[n]
        if item.rule.effect.decides or n in lists["exclude-v1"] or _yields(item, n, names, aside):
            continue
        if item.rule.effect.name == "advise":
            if _fits(item, n, effect, names, deciders, aside):
                advice.append(n)
        elif _fits(item, n, effect, left, deciders, aside):
            refusals.append(n)
    quiet = {*refusals, *advice, *aside}
    return Ruling(
        effect=effect,
        decisive=decisive,
        standing=tuple(n for n in holding if n not in quiet),
        refusals=tuple(refusals),
        advice=tuple(advice),
        v2_list=lists["exclude-v2"],
        v1_list=lists["exclude-v1"],
        at_start=at_start,
        aside=aside,
    )


def _nothing_else(rules: Sequence[ReleaseRule], holding: list[int]) -> Ruling:
    effect = rules[holding[0]].rule.effect
    decisive = tuple(n for n in holding if rules[n].rule.effect is effect)
    aside = {n: Aside("decided_by", rules[n].rule.effect.name, effect.name) for n in holding if n not in decisive}
    return Ruling(effect, frozenset(decisive), decisive, (), (), (), (), (), aside)


def _names(rules: Sequence[ReleaseRule], places: Iterable[int]) -> set[str]:
    """What ``needs`` and ``yields_to`` can call these rules: their ids, and the upstream ones' effects."""
    names = set()
    for n in places:
        rule = rules[n].rule
        names.add(rule.id)
        if rule.layer is Layer.UPSTREAM:
            names.add(rule.effect.name)
    return names


def _yields(item: ReleaseRule, n: int, names: AbstractSet[str], aside: dict[int, Aside]) -> bool:
    found = [name for name in item.range.yields_to if name in names]
    if found:
        aside[n] = Aside("yields_to", list(item.range.yields_to), found)
    return bool(found)


def _fits(item: ReleaseRule, n: int, effect: Effect, names: AbstractSet[str], deciders: AbstractSet[str], aside: dict[int, Aside]) -> bool:
    part = item.range
    if effect.runner is None or part.runner not in {None, effect.runner}:
        aside[n] = Aside("runner", part.runner or list(Runner), effect.runner)
    elif part.decided_by and deciders.isdisjoint(part.decided_by):
        aside[n] = Aside("decided_by", list(part.decided_by), effect.name)
    elif part.needs and names.isdisjoint(part.needs):
        aside[n] = Aside("needs", list(part.needs), [])
    return n not in aside
