"""The pins of the deployments of a fleet, decided with and without each, and their counts.

Owns what a process does for ``policy.impact.run``. A deployment without pins is not decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from policy.impact.run import loaded
from policy.pins.decider import PinDecider, PinVerdicts
from policy.pins.verdicts import VERDICTS
from policy.problems import Problem, request_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from policy.errors import Remedies, RequestInvalid
    from policy.impact.targets import TargetRelease
    from policy.intake.model_finder import ModelFinder
    from policy.policy import Policy
    from policy.request.request import Request
    from policy.rules.loader import Sources


class PinResult(Struct, frozen=True, gc=False):
    """The pins of a deployment; a ``problem`` if it cannot be read, so that it may have more."""

    from_: str | None
    pins: list[PinVerdicts]
    problem: Problem | None = None


class PinCounts(Struct):
    """The counts of a fleet: ``deployments`` is the sum of ``unread``, ``unpinned`` and ``pinned``.

    ``pins`` is the sum of a release's verdicts.
    ``now`` counts the verdicts of the release that each deployment comes from, ``releases`` those of each target.
    """

    deployments: int = 0
    unread: int = 0
    unpinned: int = 0
    pinned: int = 0
    pins: int = 0
    now: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, VERDICTS), 0))
    releases: dict[str, dict[str, int]] = {}

    def add(self, result: PinResult, targets: tuple[TargetRelease, ...]) -> None:
        """Count a deployment."""
        self.deployments += 1
        if result.problem is not None:
            self.unread += 1
        elif not result.pins:
            self.unpinned += 1
        else:
            self.pinned += 1
        for pin in result.pins:
            self.pins += 1
            self.now[str(pin.now)] += 1
            for target in targets:
                counts = self.releases.setdefault(target.name, dict.fromkeys(map(str, VERDICTS), 0))
                counts[str(pin.releases[target.name].verdict)] += 1


class PinJob(Struct, frozen=True):
    """What a process needs to decide pins."""

    sources: Sources
    default_release: str | None
    targets: tuple[TargetRelease, ...]
    today: date
    from_own: bool
    remedies: Remedies
    named: Mapping[str, Path]
    folder: Path | None
    hub: bool

    @property
    def decisions(self) -> int:
        """How many decisions a deployment's pin takes: two for each release, with the pin and without it."""
        return 2 * max(1, len(self.targets) + self.from_own)

    @property
    def answers(self) -> int:
        """How many answers a deployment's pin has."""
        return self.decisions

    def start(self) -> PinWorker:
        """A worker with a policy of its own."""
        return self.worker(*loaded(self.sources, self.default_release, self.named, self.folder, hub=self.hub))

    def worker(self, policy: Policy, finder: ModelFinder) -> PinWorker:
        """A worker with this policy, which looks up models with this finder."""
        decider = PinDecider(policy, self.targets, self.today, from_own=self.from_own, remedies=self.remedies)
        return PinWorker(decider, finder)


class PinWorker:
    """Decides the pins of deployments in one process."""

    def __init__(self, decider: PinDecider, finder: ModelFinder) -> None:
        self._decider, self._finder = decider, finder

    def key(self, request: Request) -> bytes:
        """A key that is equal only for deployments with equal pins."""
        return self._decider.impact.key(request)

    def decide_all(self, requests: Sequence[Request]) -> tuple[list[PinResult], list[str]]:
        """Decide the pins of each deployment; return them in their order, and the models that were looked up."""
        return [self._result(request) for request in requests], self._finder.use.names

    def unreadable(self, error: RequestInvalid) -> PinResult:
        """The result of a deployment that cannot be read."""
        return PinResult(None, [], request_problem(error, remedies=self._decider.impact.remedies))

    def _result(self, request: Request) -> PinResult:
        release, pins = self._decider.decide(request)
        return PinResult(release, [verdicts for _, verdicts in pins])
