"""A fleet's impact for people: the worst deployments, the causes of the changes, and the counts.

Owns what is kept of a fleet of any size for a table, and the words of kinds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from policy.impact.changes import KINDS, ChangeKind
from policy.impact.summary import step_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.impact.counts import ImpactCounts
    from policy.impact.summary import Summary

LABELS: Final = {
    ChangeKind.NO_START: "stops starting",
    ChangeKind.LAUNCH_ERROR: "launch refused",
    ChangeKind.UNDECIDED: "undecided",
    ChangeKind.RUNNER_WITH_PROBLEM: "flips, problem",
    ChangeKind.TO_V2: "V1 to V2",
    ChangeKind.TO_V1: "V2 to V1",
    ChangeKind.OTHER_RUNNER: "other runner",
    ChangeKind.PROBLEM: "new problem",
    ChangeKind.VARIABLE: "variable",
    ChangeKind.START: "starts again",
    ChangeKind.REASONS: "reasons only",
}
"""The kinds of changes in a table."""
PHRASES: Final = {
    ChangeKind.NO_START: ("stops starting", "stop starting"),
    ChangeKind.LAUNCH_ERROR: ("is refused at launch", "are refused at launch"),
    ChangeKind.UNDECIDED: ("is undecided in a release", "are undecided in a release"),
    ChangeKind.RUNNER_WITH_PROBLEM: (
        "changes its runner and gets a known problem",
        "change their runner and get a known problem",
    ),
    ChangeKind.TO_V2: ("flips from V1 to V2", "flip from V1 to V2"),
    ChangeKind.TO_V1: ("flips from V2 to V1", "flip from V2 to V1"),
    ChangeKind.OTHER_RUNNER: ("gets or leaves a runner of its own", "get or leave a runner of their own"),
    ChangeKind.PROBLEM: ("gets a known problem", "get a known problem"),
    ChangeKind.VARIABLE: ("has another variable to set", "have another variable to set"),
    ChangeKind.START: ("starts, and did not before", "start, and did not before"),
    ChangeKind.REASONS: ("changes in its reasons only", "change in their reasons only"),
}
"""The kinds of changes in a sentence, of one deployment and of several."""
PLACE: Final = re.compile(r" \((?:args|command)\[[0-9]{1,6}\]\)")
"""The place of an argument in a message."""
MAX_CAUSES: Final = 1_000
"""The most causes, and remedies, that are counted apart."""
MAX_NAMES: Final = 3
"""The most deployments that are named with a remedy."""


class ListedDeployment(Protocol):
    """A deployment as shown to people: its name, and its title, the name with the place unless that is the name."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def title(self) -> str:
        """The name and the place."""


E = TypeVar("E", bound=ListedDeployment)


class ImpactRow(Struct, Generic[E], frozen=True, gc=False):
    """A deployment with a change, or one that no release can decide."""

    rank: int
    number: int
    entry: E
    summary: Summary

    @property
    def order(self) -> tuple[int, int]:
        """The place among the rows: the worst first, then as in the fleet."""
        return self.rank, self.number

    @property
    def label(self) -> str:
        """The kind of change in a word or two."""
        change = self.summary.change
        return "undecided" if change is None else LABELS[change.kind]

    @property
    def step(self) -> str:
        """What the change is, such as ``V1 → V2``."""
        return "" if self.summary.change is None else step_text(self.summary.change)

    @property
    def at(self) -> str:
        """The release of the change."""
        return "" if self.summary.change is None else self.summary.change.to

    @property
    def cause(self) -> str:
        """The rules or problems that cause the change, or the reason why it is not decided."""
        return self.summary.why if self.summary.change is None else cause_of(self.summary)


class ChangeCause(Struct):
    """A cause of a kind of change, its number of deployments, and the text and the action of the first."""

    kind: ChangeKind
    at: str
    rules: str
    number: int
    why: str
    action: str


class RemedyCount(Struct):
    """A remedy in words, its number of changed deployments, their worst kind, and the names of the first ones."""

    text: str
    rank: int
    number: int
    names: list[str]


class ImpactRows(Generic[E]):
    """The worst rows of a fleet, at most ``limit`` changed and as many undecided deployments, and the causes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.changed: list[ImpactRow[E]] = []
        self.undecided: list[ImpactRow[E]] = []
        self.causes: dict[tuple[str, str, str], ChangeCause] = {}
        self.remedies: dict[str, RemedyCount] = {}
        self.others = 0
        """The changed deployments whose cause is not in ``causes``."""
        self.other_remedies = 0
        """The deployments whose remedy is not in ``remedies``."""
        self._number = 0

    def add(self, entry: E, summary: Summary) -> None:
        """Add a deployment."""
        self._number += 1
        if summary.is_undecided:
            if len(self.undecided) < self.limit:
                self.undecided.append(ImpactRow(-1, self._number, entry, summary))
            return
        if summary.change is None:
            return
        self._count(summary)
        self._count_remedy(entry, summary)
        self.changed.append(ImpactRow(summary.rank, self._number, entry, summary))
        if len(self.changed) > 2 * self.limit:
            self._cut()

    def worst(self) -> list[ImpactRow[E]]:
        """The changed deployments, the worst first."""
        self._cut()
        return self.changed

    def worst_causes(self) -> list[ChangeCause]:
        """The causes, of the worst kind first, then by the number of deployments."""
        return sorted(
            self.causes.values(), key=lambda each: (KINDS.index(each.kind), -each.number, each.at, each.rules)
        )

    def first_remedies(self) -> list[RemedyCount]:
        """The first remedies of changed deployments, for the worst kind first, then by the number of deployments."""
        return sorted(self.remedies.values(), key=lambda each: (each.rank, -each.number, each.text))

    def _cut(self) -> None:
        self.changed.sort(key=lambda row: row.order)
        del self.changed[self.limit :]

    def _count(self, summary: Summary) -> None:
        assert summary.change is not None
        key = (str(summary.change.kind), summary.change.to, _without_place(cause_of(summary)))
        found = self.causes.get(key)
        if found is not None:
            found.number += 1
        elif len(self.causes) < MAX_CAUSES:
            kind = summary.change.kind
            self.causes[key] = ChangeCause(
                kind, summary.change.to, key[2], 1, _without_place(summary.why), summary.action
            )
        else:
            self.others += 1

    def _count_remedy(self, entry: E, summary: Summary) -> None:
        text = summary.remedy
        if not text:
            return
        found = self.remedies.get(text)
        if found is None:
            if len(self.remedies) >= MAX_CAUSES:
                self.other_remedies += 1
                return
            found = self.remedies[text] = RemedyCount(text, summary.rank, 0, [])
        found.number += 1
        found.rank = min(found.rank, summary.rank)
        if len(found.names) < MAX_NAMES:
            found.names.append(entry.name)


def cause_of(summary: Summary) -> str:
    """The rules or known problems that cause a change; if none does, what it is about."""
    change = summary.change
    assert change is not None
    if change.kind in {ChangeKind.RUNNER_WITH_PROBLEM, ChangeKind.PROBLEM}:
        rules = [*change.known_problems.new, *(change.rules if change.runner[0] != change.runner[1] else ())]
    elif change.kind is ChangeKind.LAUNCH_ERROR:
        return summary.why
    else:
        rules = change.rules or [*change.known_problems.new, *change.known_problems.gone]
    return ", ".join(dict.fromkeys(rules)) or summary.why


def _without_place(cause: str) -> str:
    """A cause without the place of an argument, so that the same flag of several deployments is one cause."""
    return PLACE.sub("", cause)


def headline(counts: ImpactCounts) -> str:
    """The counts in one sentence: how many deployments change, and how, the worst first."""
    changed = counts.deployments - counts.undecided - counts.unchanged
    whole = f"{counts.deployments:,} {'deployment' if counts.deployments == 1 else 'deployments'}"
    parts = [*_phrases(counts)]
    text = f"{changed:,} of {whole} {'changes' if changed == 1 else 'change'}"
    text += f": {', '.join(parts)}" if parts else ""
    if counts.undecided:
        text += f"; {counts.undecided:,} {'was' if counts.undecided == 1 else 'were'} not decided"
    return text


def _phrases(counts: ImpactCounts) -> Iterator[str]:
    for kind in KINDS:
        number = counts.kinds[str(kind)]
        if number:
            yield f"{number:,} {PHRASES[kind][number != 1]}"
