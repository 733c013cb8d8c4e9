"""Group the effects of an edit for readers, by the responsible rule and the change of runner and start.

Owns the order of groups: broken starts first, then changes of the runner, then other changes of the start, then
decisions of vLLM alone that house rules hide, and last decisions where only the reasons change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from policy.proof.difference import Difference, ProofOutcome
    from policy.proof.edit import Edit, EditEffect

RunnerAndStart: TypeAlias = tuple[str | None, bool]
Change: TypeAlias = tuple[RunnerAndStart, RunnerAndStart]


class Consequence(IntEnum):
    """What a change means for a deployment, the worst first."""

    BREAKS_START = 0
    OTHER_RUNNER = 1
    OTHER_START = 2
    OTHER_UPSTREAM = 3
    OTHER_REASONS = 4


@dataclass(frozen=True, slots=True)
class EffectGroup:
    """The effects of one rule with the same change of runner and start; ``releases`` are those of all ``effects``.

    ``upstream`` is the change of vLLM's own runner and start, if nothing but these and the reasons change. ``since`` is
    the first day of the effects, or ``None`` for today.
    """

    rule: str
    before: RunnerAndStart
    after: RunnerAndStart
    upstream: Change | None
    since: date | None
    releases: tuple[str, ...]
    effects: tuple[EditEffect, ...]

    @property
    def example(self) -> EditEffect:
        """The effect in the most releases, and of several such, the one with the smallest deployment."""
        return min(self.effects, key=lambda each: (-len(each.releases), len(json.dumps(each.change.facts))))

    @property
    def consequence(self) -> Consequence:
        """What the change means for the group's deployments."""
        if self.before[1] and not self.after[1]:
            return Consequence.BREAKS_START
        if self.before[0] != self.after[0]:
            return Consequence.OTHER_RUNNER
        if self.before[1] != self.after[1]:
            return Consequence.OTHER_START
        return Consequence.OTHER_REASONS if self.upstream is None else Consequence.OTHER_UPSTREAM


def groups_of(edit: Edit) -> tuple[EffectGroup, ...]:
    """The groups of an edit's effects: the worst first, then by rule, then deployments that started before."""
    found: dict[tuple[str, RunnerAndStart, RunnerAndStart, Change | None, date | None], list[EditEffect]] = {}
    for effect in edit.effects:
        found.setdefault((*_key(effect.change), effect.since), []).append(effect)
    groups = [EffectGroup(*key, _releases(effects, edit.compared), tuple(effects)) for key, effects in found.items()]
    rules = list(dict.fromkeys(group.rule for group in groups))
    return tuple(sorted(groups, key=lambda group: (group.consequence, rules.index(group.rule), not group.before[1])))


def _key(change: Difference) -> tuple[str, RunnerAndStart, RunnerAndStart, Change | None]:
    return change.rule, _runner_and_start(change.before), _runner_and_start(change.after), upstream_change(change)


def upstream_change(change: Difference) -> Change | None:
    """The change of vLLM's own runner and start, if those of the decision by all rules stay the same."""
    if _runner_and_start(change.before) != _runner_and_start(change.after):
        return None
    before, after = _runner_and_start(change.before.alone), _runner_and_start(change.after.alone)
    return None if before == after else (before, after)


def _runner_and_start(outcome: ProofOutcome) -> RunnerAndStart:
    return outcome.runner, outcome.starts


def _releases(effects: Iterable[EditEffect], known: Iterable[str]) -> tuple[str, ...]:
    found = {release for effect in effects for release in effect.releases}
    return tuple(release for release in known if release in found)
