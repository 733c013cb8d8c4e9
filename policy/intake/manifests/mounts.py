"""The paths of a container that volumes are mounted at: which files they hide, and which vLLM they may replace.

A volume over the image's programs or Python packages may contain another vLLM, as may a program below any volume and
the working folder, which ``python -m`` searches first. Links in the image are not visible here.
"""

from __future__ import annotations

import re
from collections import Counter
from posixpath import dirname, isabs, join, normpath
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.programs import PYTHON
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.intake.command.vllm_command import ServerCommand

MAX_DEPTH: Final = 64
"""In how many folders a path may be; one in more is taken for one below a mount."""
FOLDERS: Final = (
    *("/bin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin", "/opt/venv", "/opt/vllm", "/root/.local"),
    *("/vllm-workspace/vllm", "/etc/ld.so.preload", "/usr/lib/python3", "/usr/local/lib/python3"),
)
"""Where images have the programs and libraries that start vLLM. A mount at, below or above one of these hides them."""
PACKAGES: Final = re.compile(r"/(?:(?:site|dist)-packages|lib(?:64)?/python3[0-9.]*)(?:/|$)")
"""Matches a path at or below a folder of Python's libraries."""


def absolute(path: str) -> str:
    """A path of a mount as the container has it; Kubernetes takes a relative one from the root."""
    return normpath("/" + path.lstrip("/"))


class Mounts:
    """The paths of a container's mounts."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._count = Counter(map(absolute, paths))

    def __or__(self, other: Mounts) -> Mounts:
        """The mounts of both, of which one that both have is the same."""
        joined = Mounts()
        joined._count = self._count | other._count  # its own class
        return joined

    def hide(self, file: str, mount: str) -> bool:
        """Whether a mount other than that at ``mount`` is at a file of it or between them.

        Of two mounts at one path, any may hide the other.
        """
        own = absolute(mount)
        return self._count[own] > 1 or any(
            path is None or (len(path) > len(own) and path in self._count) for path in _ancestry(absolute(file))
        )

    def other_vllm(self, server: ServerCommand | None, folder: str) -> Installation | None:
        """The vLLM that a volume may make run, if any; ``folder`` is the working folder, empty if it is the image's."""
        replaced = next(filter(_has_programs, self._count), None)
        if replaced is not None:
            return Installation(None, f"the mount at {quoted(replaced)} may make another vLLM run")
        if server is None or not self._count:
            return None
        folders = [found for found in (folder, *server.folders) if found]
        if any(PYTHON.fullmatch(program.rpartition("/")[2]) for program in server.programs):
            for found in folders:
                if self._contain(join(found, "vllm")):
                    return Installation(None, f"the working folder {quoted(found)} may have another vLLM")
        for program in server.programs:
            starts = [join(found, program) for found in folders] or [program]
            if "/" in program and any(map(self._contain, starts)):
                return Installation(None, f"{quoted(program)} may be a different vLLM from the image's")
        return None

    def _contain(self, path: str) -> bool:
        """Whether a path is at or below a mount, or may be: one that is not known or relative."""
        if not isabs(path):
            return True
        return any(found is None or found in self._count for found in _ancestry(absolute(path)))


def paths_of(mounts: Any, key: str) -> list[str]:
    """The paths of a list of mounts, which have them under ``key``; faults in it are reported where it is read."""
    items = mounts if isinstance(mounts, list) else []
    found = (item.get(key) for item in items if isinstance(item, dict))
    return [path for path in found if isinstance(path, str)]


def _ancestry(path: str) -> Iterator[str | None]:
    """A path and the folders that it is in, up to the root; one None instead if there are too many."""
    if path.count("/") > MAX_DEPTH:
        yield None
        return
    while path != "/":
        yield path
        path = dirname(path)
    yield path


def _has_programs(mount: str) -> bool:
    """Whether a mount hides programs or libraries of an image."""
    below = mount.rstrip("/") + "/"
    if PACKAGES.search(mount) is not None or any(f"{folder}/".startswith(below) for folder in FOLDERS):
        return True
    return mount == "/vllm-workspace" or any(below.startswith(f"{folder}/") for folder in FOLDERS)
