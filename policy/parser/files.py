"""Read files named by users, up to a limit and never from a device, because such a read might not end."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class NotAFile(OSError):
    """The path is not a regular file; the message says what it is."""


def read_at_most(path: Path, size: int, *, pipes: bool = False) -> bytes:
    """The first ``size`` bytes of a file; with ``pipes``, also of a pipe, such as a shell's `<(command)`.

    Raises:
        NotAFile: the path is not a file.
        OSError: the file cannot be read.
    """
    waits = pipes and stat.S_ISFIFO(path.stat().st_mode)  # otherwise a pipe without a writer would block
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if waits else os.O_NONBLOCK))
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or (waits and stat.S_ISFIFO(mode))):
        os.close(descriptor)  # before `fdopen`, whose error for a folder has the descriptor's number
        raise NotAFile(f"expected a file, got {kind_of(mode)}")
    with os.fdopen(descriptor, "rb") as file:
        return file.read(size)


def kind_of(mode: int) -> str:
    """The kind of file that a mode describes, with its article."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFLNK: "a symbolic link",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")
