"""The differences of a replay, by what makes them, with counts and examples; memory does not grow with the log.

Owns which decisions are one difference: the same kind, the same runners before and after, the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import KINDS, ChangeKind, ReleaseChange
from policy.impact.summary import step_text, summary_of_change

if TYPE_CHECKING:
    from policy.replay.records import Recorded

MAX_GROUPS: Final = 1_000
"""The most differences that are kept apart."""
MAX_EXAMPLES: Final = 3
MAX_UNDECIDED: Final = 50
"""The maximum number of undecidable records that are listed one by one."""


class Example(Struct, frozen=True, gc=False):
    """A decision of a group."""

    decision_id: str
    requested_by: str
    vllm_version: str


class Group(Struct):
    """Decisions that differ in the same way.

    ``rules`` make the difference, ``why`` says it in words, and ``action`` what to set or to drop, both of the first.
    """

    kind: ChangeKind
    step: str
    rules: list[str]
    why: str
    action: str
    decisions: int = 0
    examples: list[Example] = []


class NotDecided(Struct, frozen=True):
    """A record that cannot be decided again, with the reason."""

    decision_id: str
    place: str
    problem: str


class ReplayCounts(Struct):
    """``decisions`` is the sum of ``undecided``, ``unchanged`` and all ``kinds``.

    ``others`` are the decisions of groups that are not kept; ``first`` and ``last`` the ids of the first and the last
    record, which begin with their times.
    """

    decisions: int = 0
    undecided: int = 0
    unchanged: int = 0
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, KINDS), 0))
    others: int = 0
    first: str | None = None
    last: str | None = None


class Replay:
    """The counts and differences that a replay has found so far."""

    def __init__(self) -> None:
        self.counts = ReplayCounts()
        self.undecided: list[NotDecided] = []
        self.reasons: dict[str, int] = {}
        """How many records cannot be decided for the same reason."""
        self._groups: dict[tuple[str, str, str], Group] = {}

    def groups(self) -> list[Group]:
        """The differences, the worst kind first, then by their number of decisions."""
        return sorted(self._groups.values(), key=lambda each: (KINDS.index(each.kind), -each.decisions, each.rules))

    def add(self, recorded: Recorded, after: ReleaseAnswer | Undecided, change: ReleaseChange | None) -> None:
        """Count a record, with what is decided now and what differs."""
        counts = self.counts
        counts.decisions += 1
        counts.first = counts.first or recorded.decision_id
        counts.last = recorded.decision_id
        if isinstance(after, Undecided):
            counts.undecided += 1
            self._cannot(recorded, after.problem.detail)
        elif change is None:
            counts.unchanged += 1
        else:
            counts.kinds[str(change.kind)] += 1
            self._group(recorded, after, change)

    def _cannot(self, recorded: Recorded, problem: str) -> None:
        if problem in self.reasons or len(self.reasons) < MAX_GROUPS:
            self.reasons[problem] = self.reasons.get(problem, 0) + 1
        if len(self.undecided) < MAX_UNDECIDED:
            self.undecided.append(NotDecided(recorded.decision_id, recorded.place, problem))

    def _group(self, recorded: Recorded, after: ReleaseAnswer, change: ReleaseChange) -> None:
        assert recorded.before is not None
        rules = change.rules or [*change.known_problems.new, *change.known_problems.gone]
        key = (str(change.kind), step_text(change), " ".join(rules))
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                self.counts.others += 1
                return
            summary = summary_of_change(change, recorded.before, after)
            group = Group(change.kind, key[1], rules, summary.why, summary.action, 0, [])
            self._groups[key] = group
        group.decisions += 1
        if len(group.examples) < MAX_EXAMPLES:
            group.examples.append(Example(recorded.decision_id, recorded.requested_by, recorded.vllm_version))
