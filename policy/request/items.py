"""The answer to a manifest: a decision for each engine in it, or the problem with that engine."""

from __future__ import annotations

from msgspec import Struct

from policy.decision.decision import Decision  # noqa: TC001  # msgspec reads the annotations
from service.problems import Problem  # noqa: TC001  # as above


class ManifestDecision(Struct, frozen=True, omit_defaults=True):
    """An engine of a manifest by its path: its decision, or the problem with it."""

    path: str
    decision: Decision | None = None
    problem: Problem | None = None

    def row(self) -> tuple[str, Decision | str]:
        """The path, with the decision or the problem's detail."""
        return self.path, self.decision if self.problem is None else self.problem.detail  # type: ignore[return-value]  # exactly one of the two is set


class ManifestDecisions(Struct, frozen=True):
    """The answer to a manifest."""

    items: list[ManifestDecision]
