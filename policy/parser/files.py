"""One file that a user names, read within a bound: a device or a pipe would be read, or waited for, without end."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class NotAFile(OSError):
    """What is at the path is something else; the message says what."""


def read_at_most(path: Path, size: int, *, pipes: bool = False) -> bytes:
    """The bytes of a file, no more than ``size``; with ``pipes`` a pipe is read as well, as a shell makes one of `<(command)`.

    Raises:
        NotAFile: it is neither.
        OSError: the system does not let it be read.
    """
    waits = pipes and stat.S_ISFIFO(path.stat().st_mode)  # else a pipe without a writer would be waited for
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if waits else os.O_NONBLOCK))
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or (waits and stat.S_ISFIFO(mode))):
            raise NotAFile(f"expected a file, got {kind_of(mode)}")
        return file.read(size)


def kind_of(mode: int) -> str:
    """What a file's mode says it is, with its article."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFLNK: "a symbolic link",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")
