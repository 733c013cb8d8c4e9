"""The paths at which a container mounts its volumes, and where else the files of a folder may be written.

A volume that is mounted at several paths has the same files at each of them, so a command may write a file by another
path than the one at which vLLM reads it. Without looking at any files: links within a volume are not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.paths import MAX_PATH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_MOUNTS: Final = 64
"""The maximum number of mounts whose paths are compared; with more, all of them may be of one volume."""
USER_HOME: Final = "/root"
"""The home of the user of vLLM's images, if no variable states one."""
HOMES: Final = ("~/", "$HOME/", "${HOME}/")
"""The beginnings of a path in the home of the user who runs a command."""


class VolumeMount(Struct, frozen=True):
    """A folder of a volume that is mounted at an absolute path.

    ``volume`` identifies the volume. ``folder`` is absolute within it; None if it is not known. ``is_written``: whether
    a command may write into the volume by this path.
    """

    path: str
    volume: str
    folder: str | None
    is_written: bool = True


class OtherPath(Struct, frozen=True):
    """Another path by which a command may write files of a folder, with the mount of the volume there.

    ``is_part``: whether it may have any part of the folder, so that each file there counts.
    """

    path: str
    mount: str
    is_part: bool


class VolumePaths:
    """The mounts of the volumes of a container that commands may write."""

    def __init__(self, mounts: Iterable[VolumeMount] = (), home: str = USER_HOME) -> None:
        found = [mount for mount in mounts if len(mount.path) <= MAX_PATH]
        self.are_many = len(found) > MAX_MOUNTS
        """Whether there are more mounts than are compared."""
        self._mounts = [] if self.are_many else found
        self._home = home
        volumes = [mount.volume for mount in self._mounts]
        self._are_shared = len({*volumes}) < len(volumes)

    def __bool__(self) -> bool:
        return bool(self._mounts or self.are_many)

    def keep(self, path: str) -> bool:
        """Whether files of a folder are in a volume, so that they outlive the container."""
        path = self._without_home(path)
        return self.are_many or any(_is_in(path, each.path) or _is_in(each.path, path) for each in self._mounts)

    def others(self, path: str) -> Iterator[OtherPath]:
        """The other paths by which a command may write the files of a folder, or the file, at a path."""
        if not self._are_shared:
            return
        path = self._without_home(path)
        own = max((each.path for each in self._mounts if _is_in(path, each.path)), key=len, default="")
        for each in self._mounts:
            if each.path == own or (each.path != path and _is_in(each.path, path)):
                yield from self._others(each, _below(path, each.path) if each.path == own else "")

    def _others(self, own: VolumeMount, rest: str) -> Iterator[OtherPath]:
        """The other paths of ``rest``, which is below a mount; of all that is mounted, if it is empty."""
        for other in self._mounts:
            if other.volume != own.volume or not other.is_written or other.path == own.path:
                continue
            if own.folder is None or other.folder is None:
                yield OtherPath(other.path, other.path, is_part=True)
                continue
            place = f"{own.folder.rstrip('/')}{rest}" or "/"
            if _is_in(place, other.folder):
                found = f"{other.path.rstrip('/')}{_below(place, other.folder)}"
                yield OtherPath(found, other.path, is_part=not rest)
            elif _is_in(other.folder, place):
                yield OtherPath(other.path, other.path, is_part=True)

    def _without_home(self, path: str) -> str:
        home = next(filter(path.startswith, HOMES), "")
        return f"{self._home}/{path[len(home) :]}" if home else path


NO_VOLUMES: Final = VolumePaths()


def _is_in(path: str, folder: str) -> bool:
    """Whether an absolute path is a folder, or is below it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _below(path: str, folder: str) -> str:
    """The rest of a path in a folder, with its first slash; empty if it is the folder itself."""
    return "" if path == folder else path[len(folder.rstrip("/")) :]
