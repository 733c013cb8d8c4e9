"""Decides past requests again, each different one once, and compares the answers.

Owns what a process does for ``policy.impact.run``. A request is decided by the rules in force on the day of its record,
so that house rules which ended since do not hide what other rules change.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import ReleaseChange, change_of
from policy.impact.impact import Impact
from policy.impact.run import loaded
from policy.problems import request_problem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from policy.errors import Remedies, RequestInvalid
    from policy.impact.targets import TargetRelease
    from policy.intake.model_finder import ModelFinder
    from policy.policy import Policy
    from policy.replay.records import PastRequest, Recorded
    from policy.rules.loader import Sources

RECORDED: Final = "recorded"
"""The name of what was decided, where impact has a release."""
REPLAYED: Final = "replayed"
"""The name of what is decided now, unless it is that of another release."""


class ReplayJob(Struct, frozen=True):
    """What a process needs: the rules, and the release to decide for, ``None`` for that of each record.

    ``day`` is the day of all decisions, ``None`` for that of each record.
    """

    sources: Sources
    target: TargetRelease | None
    day: date | None
    remedies: Remedies

    @property
    def decisions(self) -> int:
        """How many decisions a record takes: one."""
        return 1

    @property
    def answers(self) -> int:
        """How many answers a record has: one."""
        return 1

    def start(self) -> ReplayWorker:
        """A worker with a policy of its own."""
        return self.worker(*loaded(self.sources, None, {}, None, hub=False))

    def worker(self, policy: Policy, finder: ModelFinder) -> ReplayWorker:
        """A worker with this policy; records have facts, so no model is looked up."""
        return ReplayWorker(self, policy, finder)


class ReplayWorker:
    """Decides past requests in one process."""

    def __init__(self, job: ReplayJob, policy: Policy, finder: ModelFinder) -> None:
        self._job, self._policy, self._finder = job, policy, finder
        self._ends = policy.catalogue.days_after_ends()
        self._impacts: dict[int, Impact] = {}

    def key(self, past: PastRequest) -> bytes:
        """A key that is equal only for requests that are decided alike."""
        number, impact = self._impact(past.day)
        return b"%d %b" % (number, impact.key(past.request))

    def decide_all(self, pasts: Sequence[PastRequest]) -> tuple[list[ReleaseAnswer | Undecided], list[str]]:
        """Decide past requests now; return the answers in their order, and the models that were looked up."""
        answers = [self._impact(past.day)[1].answer(past.request, self._job.target) for past in pasts]
        return answers, self._finder.use.names

    def unreadable(self, error: RequestInvalid) -> Undecided:
        """The result of a record that cannot be read."""
        return Undecided(request_problem(error, remedies=self._job.remedies))

    def _impact(self, day: date) -> tuple[int, Impact]:
        """The ``Impact`` of the rules in force on a day, with its number. Days between two ends of rules share one."""
        day = self._job.day or day
        number = bisect_right(self._ends, day)
        if number not in self._impacts:
            self._impacts[number] = Impact(self._policy, (), day, from_own=True, remedies=self._job.remedies)
        return number, self._impacts[number]


def difference(recorded: Recorded, after: ReleaseAnswer | Undecided, name: str) -> ReleaseChange | None:
    """What is decided differently now; ``None`` if nothing is."""
    assert recorded.before is not None
    return change_of(RECORDED, recorded.before, name, after)
