"""The counts of an impact, made while its results pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from policy.impact.changes import KINDS, ChangeKind
from policy.impact.counts import ImpactCounts, ReleaseCounts, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.impact.run import ImpactResult
    from policy.impact.summary import Summary
    from policy.impact.targets import TargetRelease

E = TypeVar("E")


class Tally:
    """Counts results while they pass, and notices what the exit code depends on."""

    def __init__(self, targets: Iterable[TargetRelease]) -> None:
        self.counts = ImpactCounts(releases={target.name: ReleaseCounts() for target in targets})
        self.has_undecided = False
        self._columns: dict[tuple[tuple[str, str], ...], int] = {}
        """How many deployments have the same columns, as most have few different ones."""

    def counted(self, results: Iterable[tuple[E, ImpactResult]]) -> Iterator[tuple[E, ImpactResult]]:
        """The results, each counted."""
        for entry, result in results:
            self.add(result.summary)
            yield entry, result
        self.end()

    def end(self) -> ImpactCounts:
        """The counts, complete after the last deployment."""
        self._count_releases()
        return in_order(self.counts)

    def add(self, summary: Summary) -> None:
        """Count a deployment."""
        counts = self.counts
        counts.deployments += 1
        self.has_undecided = self.has_undecided or summary.has_undecided
        if summary.is_undecided:
            counts.undecided += 1
            return
        if summary.change is None:
            counts.unchanged += 1
        else:
            counts.kinds[str(summary.change.kind)] += 1
        columns = tuple(summary.columns.items())
        self._columns[columns] = self._columns.get(columns, 0) + 1

    def worst(self) -> ChangeKind | None:
        """The worst kind of change."""
        return next((kind for kind in KINDS if self.counts.kinds[str(kind)]), None)

    def _count_releases(self) -> None:
        for columns, number in self._columns.items():
            for release, column in columns:
                found = self.counts.releases.setdefault(release, ReleaseCounts())
                setattr(found, column, getattr(found, column) + number)
