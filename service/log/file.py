"""The files of a SQLite database, as one connection has them open: whether they are still those at the path.

SQLite goes on writing a file that was deleted or replaced, and reports no error. Owns the comparison of the open
files with those at the path, the lock under which processes open and set aside files, and the names of what is set
aside. Not here: every statement, which are the writer's.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Identity: TypeAlias = "tuple[int, int] | None"
"""Device and inode of a file; ``None`` where there is no file."""

SUFFIXES: Final = ("", "-wal", "-shm")
"""The database, its write-ahead log, and the index of that log, which the connections of all processes share."""
LOCK_RETRY: Final = 0.01


class Loss(Struct, frozen=True):
    """A file of the log that was lost: what happened, and how many of the records that this process wrote to it are gone."""

    what: str
    records: int


class DatabaseFile:
    """The three files of a database; all but ``report_damage`` and ``is_opened`` is for the thread of the connection."""

    def __init__(self, path: Path, seconds: float) -> None:
        """``seconds`` is how long to wait for other processes that open or set aside the same files."""
        self.path = path
        self._seconds = seconds
        self._names = [f"{path}{suffix}" for suffix in SUFFIXES]
        self._opened: list[Identity] = []
        self._damage: tuple[Identity, str] | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process opens or sets aside files of this folder meanwhile; the folder is made where it is missing.

        Raises:
            OSError: the folder cannot be made, or others hold the lock for too long.
        """
        folder = self.path.parent
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            ends = time.monotonic() + self._seconds
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= ends:
                        raise
                    time.sleep(LOCK_RETRY)
            yield
        finally:
            os.close(descriptor)

    def create(self) -> Identity:
        """Make an empty file unless there is one; which file is at the path."""
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return identity_of(self._names[0])

    def opened(self) -> None:
        """Remember the files at the path as those that the connection has open."""
        self._opened = [identity_of(name) for name in self._names]
        self._damage = None

    def closed(self) -> None:
        """Remember the database alone: the last connection that is closed deletes the other two files."""
        self._opened = self._opened[:1]

    @property
    def identity(self) -> Identity:
        """Which database was opened last."""
        return self._opened[0] if self._opened else None

    def is_in_place(self, suffix: str = "") -> bool:
        """Whether the file with this suffix is the one that was opened."""
        place = SUFFIXES.index(suffix)
        return place < len(self._opened) and identity_of(self._names[place]) == self._opened[place]

    def is_replaced(self, suffix: str) -> bool:
        """Whether there is another file with this suffix than the one that was opened."""
        return not self.is_in_place(suffix) and identity_of(self._names[SUFFIXES.index(suffix)]) is not None

    def is_opened(self) -> bool:
        """Whether all three files are those that the connection has open."""
        return self._opened == [identity_of(name) for name in self._names]

    def report_damage(self, identity: Identity, what: str) -> None:
        """A database was found to be damaged."""
        self._damage = identity, what

    def damage(self) -> str | None:
        """What was found to be damaged in the database that was opened."""
        found = self._damage
        return found[1] if found is not None and found[0] == self.identity else None

    def fault(self) -> str | None:
        """Why what is written to the open files is not in the log; ``None`` where it is."""
        for place, opened in enumerate(self._opened):
            name = self._names[place]
            try:
                found = os.stat(name)  # noqa: PTH116  # done for each batch, where making a path would cost more than all the rest
            except OSError:
                return f"{name} was deleted"
            if (found.st_dev, found.st_ino) != opened:
                return f"{name} was replaced"
            if not place and not found.st_size:
                self._damage = opened, f"{name} was emptied"
        return self.damage()

    def set_aside(self, reason: str, *suffixes: str) -> Path:
        """Rename those of the open files that are still at the path, so that nothing more is read or written there; where to."""
        new_path = self.path.with_name(f"{self.path.name}.{reason}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        for suffix in suffixes or SUFFIXES:
            if self.is_in_place(suffix):
                with suppress(FileNotFoundError):
                    os.rename(f"{self.path}{suffix}", f"{new_path}{suffix}")  # noqa: PTH104  # a suffix of SQLite's is none of a path's
        return new_path


def identity_of(path: str) -> Identity:
    """Which file is at a path."""
    try:
        found = os.stat(path)  # noqa: PTH116  # as above
    except OSError:
        return None
    return found.st_dev, found.st_ino
