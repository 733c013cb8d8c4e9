"""The releases that deployments are compared with.

A target is a known release, or ``v1-removed``: the newest one without V1, as `releases.yaml` announces the end of V1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.rules.effects import Runner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.rules.releases import Releases

V1_REMOVED: Final = "v1-removed"
"""The name of the hypothetical release: the newest known one, in which only V2 can be selected."""

BASE: Final = "base"
HEAD: Final = "head"
"""The names of what is before and after an edit, where there are no releases to compare."""


class TargetRelease(Struct, frozen=True):
    """A release by its name; ``release`` is the known one whose rules decide, ``without_v1`` whether V1 is removed."""

    name: str
    release: str
    without_v1: bool = False


def targets_of(names: Iterable[str], releases: Releases, *, nearest: bool = False) -> list[TargetRelease]:
    """The targets with these names, in ascending order and each once.

    Raises:
        UnknownRelease, InvalidVersion: a name is neither a known release nor ``v1-removed``.
    """
    found = {target.name: target for target in (target_of(name, releases, nearest=nearest) for name in names)}
    order = {release: place for place, release in enumerate(releases.known)}
    return sorted(found.values(), key=lambda target: (target.without_v1, order[target.release], target.name))


def target_of(name: str, releases: Releases, *, nearest: bool = False) -> TargetRelease:
    """The target with a name such as ``0.33.0`` or ``v1-removed``.

    Raises:
        UnknownRelease, InvalidVersion: it is neither a known release nor ``v1-removed``.
    """
    if name == V1_REMOVED and releases.removal_of(Runner.V1) is not None:
        return TargetRelease(name, releases.known[-1], without_v1=True)
    return TargetRelease(name.removeprefix("v"), releases.resolve(name, nearest=nearest).decided_as)
