"""The known vLLM releases, and which of them decides for a given version.

Owns the resolution of any PEP 440 version to a known release, and the text for several releases.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType, field
from packaging.version import InvalidVersion as Unparsable
from packaging.version import Version

from policy.errors import PolicyError
from policy.messages import listed, quoted
from policy.rules.images import NO_IMAGES
from policy.rules.versions import is_variant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from policy.rules.effects import Runner
    from policy.rules.images import ImageTable

MAX_RELEASES: Final = 256
MAX_VERSION: Final = 64
UNTAGGED_VERSIONS: Final = frozenset({(0, 1), (0, 0), (0, 0, 0)})
BUILD_DAY: Final = re.compile(r"(?:^|\.)d([0-9]{4})([0-9]{2})([0-9]{2})(?:\.|$)")
"""The day that setuptools-scm adds to the local version of a build with changed files."""
EMPTY_MAP: Final[Mapping[str, date]] = {}


class Removal(Struct, frozen=True):
    """What vLLM said of the end of a runner: the release that deprecated it and the one named for its removal."""

    runner: str
    deprecated_in: str
    announced_for: str
    why: str
    references: tuple[str, ...]


class UnknownRelease(PolicyError):
    """No known release decides for this version; the message names the known ones."""


class InvalidVersion(PolicyError):
    """The text is not a PEP 440 version."""


class Resolution(Struct, frozen=True, gc=False):
    """The known release that decides.

    ``verified`` is whether it is exactly the requested one, ``defaulted`` whether no version was requested. ``origin``
    names the row of the table of images that gave the version, if one did.
    """

    decided_as: str
    verified: bool
    defaulted: bool
    origin: str | UnsetType = field(default=UNSET, name="from")


def is_final(release: str) -> bool:
    """Whether a text is a final release in vLLM's spelling, such as ``0.23.0``, ``0.10.1.1`` or ``0.6.3.post1``."""
    try:
        version = Version(release)
    except ValueError:  # not a version, or a number with too many digits for ``int``
        return False
    return str(version) == release == str(_segment(version)) and not version.epoch and len(version.release) in {3, 4}


def _segment(version: Version) -> Version:
    """The release that a version is, or comes before: its numbers, with those of a post-release."""
    return Version(version.base_version if version.post is None else f"{version.base_version}.post{version.post}")


@lru_cache(maxsize=256)
def series(release: str | Version) -> tuple[int, int]:
    """The minor series of a version, such as ``(0, 23)``."""
    version = release if isinstance(release, Version) else Version(release)
    return version.major, version.minor


def spans(releases: Collection[str], known: Sequence[str], separator: str = " to ") -> str:
    """Releases as ranges of the known ones, such as ``0.22.0 to 0.24.0, 0.26.0``; empty if there are none."""
    runs: list[list[str]] = []
    for index, release in enumerate(known):
        if release in releases:
            if index and runs and runs[-1][-1] == known[index - 1]:
                runs[-1].append(release)
            else:
                runs.append([release])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}{separator}{run[-1]}" for run in runs)


def is_untagged(version: Version) -> bool:
    """Whether a version was made by setuptools-scm in a checkout without tags, such as ``0.1.dev1+g51f799c1a``.

    Its numbers say nothing about the release: without tags, counting begins at 0.1.
    """
    if version.dev is None or version.pre is not None or version.post is not None or version.epoch:
        return False
    return version.release in UNTAGGED_VERSIONS


def why_presumed(version: str) -> str:
    """Why a version does not show its release, empty if it does; ``version`` is one that was resolved."""
    if not is_untagged(_parse(version)):
        return ""
    return "is the version of a build whose checkout had no tags, so its numbers do not show its release"


def not_checked(version: str, decided_as: str) -> str:
    """The warning about a version that is not exactly the release that decides."""
    return f"vLLM {version} {why_presumed(version) or 'was not checked against these rules'}; decided as {decided_as}"


class Releases:
    """The known releases in ascending order, the default one, and the releases in container images.

    ``published`` has the days on which releases were published, as far as they are known, and ``removals`` what was
    said of the end of runners.
    """

    def __init__(
        self,
        known: tuple[str, ...],
        default: str,
        images: ImageTable = NO_IMAGES,
        published: Mapping[str, date] = EMPTY_MAP,
        removals: tuple[Removal, ...] = (),
    ) -> None:
        self.known = known
        self.default = default
        self.images = images
        self.published = published
        self.removals = removals
        self.versions = tuple(Version(release) for release in known)
        self.resolve = lru_cache(maxsize=256)(self._resolve)

    def with_default(self, version: str) -> Releases:
        """The same releases with another default.

        Raises:
            InvalidVersion, UnknownRelease: ``version`` does not resolve to one of them.
        """
        return Releases(self.known, self.resolve(version).decided_as, self.images, self.published, self.removals)

    def removal_of(self, runner: Runner) -> Removal | None:
        """What vLLM announced about the end of a runner."""
        return next((removal for removal in self.removals if removal.runner == runner), None)

    def _resolve(self, version: str | None, *, nearest: bool = False) -> Resolution:
        """The release that decides for ``version`` (PEP 440, with or without ``v``), or the default for ``None``.

        It depends on the release and the post-release only: it is the newest known patch of the same minor series that
        is not newer than ``version``, else the first of the series. With ``nearest``, versions outside the known series
        resolve to the closest known release. A local version that is not an official variant is a custom build, which
        is not verified. A build without tags is decided as the release published closest to its day, or else as the
        default release.

        Raises:
            InvalidVersion: ``version`` is not a PEP 440 version.
            UnknownRelease: it is outside the known series, and ``nearest`` is false.
        """
        if version is None:
            return Resolution(self.default, verified=True, defaulted=True)
        parsed = _parse(version)
        if is_untagged(parsed):
            return Resolution(self._closest_to(_build_day(parsed)), verified=False, defaulted=False)
        segment = _segment(parsed)
        patches = [known for known in self.versions if series(known) == series(segment)]
        if parsed.epoch or not patches:
            if not nearest or parsed.epoch:
                raise UnknownRelease(self._advice(version))
            below = [known for known in self.versions if known <= segment]
            decided = below[-1] if below else self.versions[0]
        else:
            decided = max((known for known in patches if known <= segment), default=patches[0])
        verified = Version(parsed.public) == decided and (parsed.local is None or is_variant(parsed.local))
        return Resolution(self.known[self.versions.index(decided)], verified, defaulted=False)

    def _closest_to(self, day: date | None) -> str:
        """The release published closest to a day; the default one without a day."""
        if day is None or not self.published:
            return self.default
        return min(self.published, key=lambda release: abs(self.published[release] - day))

    def _advice(self, version: str) -> str:
        return f"unknown release {quoted(version)}; known releases: {self.known[0]} to {self.known[-1]}"


def _build_day(version: Version) -> date | None:
    found = BUILD_DAY.search(version.local or "")
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def _parse(version: str) -> Version:
    if len(version) <= MAX_VERSION:
        try:
            return Version(version)
        except Unparsable:
            pass
    raise InvalidVersion(
        f"invalid version {quoted(version)}; write it as {listed(['0.23.0'])} or {listed(['v0.23.0'])}"
    )
