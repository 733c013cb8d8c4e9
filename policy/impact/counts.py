"""How many deployments change, and what each release does with how many.

Owns the counts of an impact. Each deployment counts once: as undecided, as unchanged, or by its worst kind of change.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field
from packaging.version import InvalidVersion, Version

from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import KINDS
from policy.rules.effects import Runner

RUNS: Final = {Runner.V1: "v1", Runner.V2: "v2"}


class ReleaseCounts(Struct):
    """How many deployments a release runs with V1, with V2 and with their own runner, and how many do not start.

    ``undecided`` are those that this release cannot decide; those that no release can decide are not counted here.
    """

    v1: int = 0
    v2: int = 0
    own: int = 0
    no_start: int = 0
    undecided: int = 0


class ImpactCounts(Struct):
    """The counts of an impact: ``deployments`` is the sum of ``undecided``, ``unchanged`` and all ``kinds``.

    ``undecided`` are those that no release can decide. ``kinds`` has every kind of change, the worst first;
    ``releases`` those that at least one deployment was compared with, and all targets, in ascending order.
    """

    deployments: int = 0
    undecided: int = 0
    unchanged: int = 0
    kinds: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, KINDS), 0))
    releases: dict[str, ReleaseCounts] = field(default_factory=dict)


def in_order(counts: ImpactCounts) -> ImpactCounts:
    """The counts with their releases in ascending order, followed by names that are not versions."""
    counts.releases = dict(sorted(counts.releases.items(), key=lambda each: release_order(each[0])))
    return counts


def release_order(name: str) -> tuple[bool, Version, str]:
    """The place of a release by its name: versions in ascending order, then other names such as ``v1-removed``."""
    try:
        return False, Version(name), name
    except InvalidVersion:
        return True, Version("0"), name


def column_of(answer: ReleaseAnswer | Undecided) -> str:
    """The field of ``ReleaseCounts`` that counts an answer."""
    if isinstance(answer, Undecided):
        return "undecided"
    if not answer.starts:
        return "no_start"
    return "own" if answer.runner is None else RUNS[Runner(answer.runner)]
