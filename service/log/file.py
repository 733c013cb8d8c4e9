"""The files of a SQLite database that a connection has open, and whether they are still those at the path.

SQLite keeps writing to a file that was deleted or replaced, and reports no error. Owns the comparison of the open
files with those at the path, the lock under which processes open and set aside files, and the names of what is set
aside. Not here: SQL statements (``writer``).
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
    """A lost file of the log: what happened, and how many records of this process were lost with it."""

    what: str
    records: int


class DatabaseFile:
    """The three files of a database; only ``report_damage`` and ``is_opened`` may be called from other threads."""

    def __init__(self, path: Path, seconds: float) -> None:
        """``seconds`` is the timeout for the lock."""
        self.path = path
        self._seconds = seconds
        self._names = [f"{path}{suffix}" for suffix in SUFFIXES]
        self._opened: list[Identity] = []
        self._damage: tuple[Identity, str] | None = None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes that open or set aside its files; create it if missing.

        Raises:
            OSError: the folder cannot be created, or the lock is not free in time.
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
        """Create an empty file unless there is one; return the identity of the file at the path."""
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return identity_of(self._names[0])

    def mark_opened(self) -> None:
        """Remember the files at the path as the ones that the connection has open."""
        self._opened = [identity_of(name) for name in self._names]
        self._damage = None

    def mark_closed(self) -> None:
        """Remember only the database: closing the last connection deletes the other two files."""
        self._opened = self._opened[:1]

    @property
    def identity(self) -> Identity:
        """The identity of the database opened last."""
        return self._opened[0] if self._opened else None

    def is_in_place(self, suffix: str = "") -> bool:
        """Whether the file with this suffix is the one that was opened."""
        index = SUFFIXES.index(suffix)
        return index < len(self._opened) and identity_of(self._names[index]) == self._opened[index]

    def is_replaced(self, suffix: str) -> bool:
        """Whether another file with this suffix has replaced the opened one."""
        return not self.is_in_place(suffix) and identity_of(self._names[SUFFIXES.index(suffix)]) is not None

    def is_opened(self) -> bool:
        """Whether all three files are the ones that the connection has open."""
        return self._opened == [identity_of(name) for name in self._names]

    def report_damage(self, identity: Identity, what: str) -> None:
        """Report that a database is damaged."""
        self._damage = identity, what

    def damage(self) -> str | None:
        """The damage of the open database, or ``None``."""
        found = self._damage
        return found[1] if found is not None and found[0] == self.identity else None

    def fault(self) -> str | None:
        """Why data written to the open files is lost; ``None`` if it is not."""
        for index, opened in enumerate(self._opened):
            name = self._names[index]
            try:
                found = os.stat(name)  # noqa: PTH116  # called for each batch; a Path would cost more than the rest
            except OSError:
                return f"{name} was deleted"
            if (found.st_dev, found.st_ino) != opened:
                return f"{name} was replaced"
            if not index and not found.st_size:
                self._damage = opened, f"{name} was emptied"
        return self.damage()

    def set_aside(self, reason: str, *suffixes: str) -> Path:
        """Rename the open files that are still at the path, so that they are not used any more; return the new path."""
        new_path = self.path.with_name(f"{self.path.name}.{reason}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        for suffix in suffixes or SUFFIXES:
            if self.is_in_place(suffix):
                with suppress(FileNotFoundError):
                    os.rename(f"{self.path}{suffix}", f"{new_path}{suffix}")  # noqa: PTH104  # the suffix is SQLite's, not a path's
        return new_path


def identity_of(path: str) -> Identity:
    """The identity of the file at a path."""
    try:
        found = os.stat(path)  # noqa: PTH116  # as above
    except OSError:
        return None
    return found.st_dev, found.st_ino
