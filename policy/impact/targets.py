"""The releases that deployments are compared with.

A target is a known release, or ``v1-removed``: the newest one without V1, as `releases.yaml` announces the end of V1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.remedies.advice import in_release
from policy.rules.effects import Runner
from policy.rules.releases import not_checked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.request.request import Request
    from policy.rules.releases import Releases

V1_REMOVED: Final = "v1-removed"
"""The name of the hypothetical release: the newest known one, in which only V2 can be selected."""

BASE: Final = "base"
HEAD: Final = "head"
"""The names of what is before and after an edit, where there are no releases to compare."""


class TargetRelease(Struct, frozen=True):
    """A release by its name; ``release`` is the known one whose rules decide, ``without_v1`` whether V1 is removed.

    ``verified`` is whether the name is exactly the known release.
    """

    name: str
    release: str
    without_v1: bool = False
    verified: bool = True

    @property
    def warning(self) -> str:
        """That the name is not one of a release that was checked; empty if it is."""
        return "" if self.verified else not_checked(self.name, self.release)

    def request(self, request: Request) -> Request:
        """The request for this release, decided as the known one, also if the name was not checked.

        So launch errors, which are then only likely, are part of the answer: a comparison must not hide them.
        """
        request = in_release(request, self.release)
        return request if self.verified else replace(request, vllm_version=self.name)


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
    found = releases.resolve(name, nearest=nearest)
    return TargetRelease(name.removeprefix("v"), found.decided_as, verified=found.verified)
