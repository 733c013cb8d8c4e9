"""The spill: records on the local disk while the store is unavailable, written by one process, replayed by any.

Owns the files. A process locks the file that it writes, so any process may replay a file without a lock, such as that
of a killed process. A line is a row of the store. If a file is deleted, replaced or shortened while it is written, a
new one is used before any of its rows is acknowledged.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec
from uuid_utils import uuid7

from policy.errors import PolicyError
from service.log.file import Loss, identity_of
from service.log.record import StoredRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUFFIX: Final = ".jsonl"
UNFINISHED_SUFFIX: Final = ".new"
FILE_SIZE: Final = 16 << 20
REPLAY_ROWS: Final = 500
REPLAY_BYTES: Final = 4 << 20
"""The maximum number of rows, and of their bytes, that are replayed together."""
ATTEMPTS: Final = 3
"""How many files in a row may be lost before the write fails."""
PROBE: Final = b"\0" * 4096

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(StoredRow).decode


class SpillFailed(PolicyError):
    """The records could not be written to the disk, or exceed its limit."""


@dataclass(slots=True)
class SpillFile:
    """A file created by this process: its number of records, the id of the last one, and the bytes written."""

    path: Path
    descriptor: int
    records: int = 0
    last: str = ""
    size: int = 0

    def fault(self) -> str | None:
        """Why data written to the open file is lost; ``None`` if it is not."""
        opened, found = os.fstat(self.descriptor), identity_of(str(self.path))
        if found != (opened.st_dev, opened.st_ino):
            return f"{self.path} was {'deleted' if found is None else 'replaced'}"
        return f"{self.path} was shortened" if opened.st_size < self.size else None

    def kept(self) -> int:
        """How many lines are left in the open file; none if it has no name any more, so that nobody replays it."""
        opened = os.fstat(self.descriptor)
        if identity_of(str(self.path)) != (opened.st_dev, opened.st_ino):
            return 0
        with self.path.open("rb") as file:
            return sum(line.endswith(b"\n") for line in file)


class Spill:
    """The spill file that one process writes in a folder.

    ``losses`` has the lost files, and ``handed_over`` the files that others may replay; any thread may consume them.
    """

    def __init__(self, folder: Path, size: int, *, durable: bool = False) -> None:
        """The folder holds at most ``size`` bytes; ``durable`` syncs each write to the disk."""
        self._folder, self._max_size, self._durable = folder, size, durable
        self._file: SpillFile | None = None
        self.losses: deque[Loss] = deque()
        self.handed_over: deque[SpillFile] = deque()

    def size(self) -> int:
        """The bytes of the spill files in the folder."""
        total = 0
        with suppress(OSError), os.scandir(self._folder) as found:
            for each in found:
                if each.name.endswith(SUFFIX):
                    with suppress(OSError):
                        total += each.stat().st_size
        return total

    def write(self, rows: Sequence[StoredRow]) -> None:
        """Write all of the rows.

        Raises:
            SpillFailed: none of them was written.
        """
        data = b"".join(encode(row) + b"\n" for row in rows)
        if self.size() + len(data) > self._max_size:
            raise SpillFailed(f"more than the {self._max_size} bytes that may be stored in {self._folder}")
        try:
            for _ in range(ATTEMPTS):
                if self._file is None:
                    self._file = self._create()
                fault, written = self._file.fault(), 0
                if fault is None:
                    self._file.size, written = self._append(self._file, data), len(rows)
                    fault = self._file.fault()
                if fault is None:
                    self._file.records += len(rows)
                    self._file.last = rows[-1].decision_id
                    if self._file.size > FILE_SIZE:
                        self.hand_over()
                    return
                self._lose(self._file, fault, written)
        except OSError as error:
            raise SpillFailed(f"{self._folder}: {error.strerror}") from error
        raise SpillFailed(f"{self._folder}: files in it keep being deleted, replaced or shortened")

    def can_write(self) -> bool:
        """Whether records can be written now, checked with a temporary file."""
        if self.size() + len(PROBE) > self._max_size:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._folder / f"{uuid7()}{UNFINISHED_SUFFIX}"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(descriptor, PROBE)
                if self._durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
                path.unlink(missing_ok=True)
        except OSError:
            return False
        return written == len(PROBE)

    def hand_over(self) -> None:
        """Close the current file, so that any process may replay it."""
        if self._file is not None:
            fault = self._file.fault()
            if fault is not None:
                self._lose(self._file, fault)
                return
            if self._file.records:
                self.handed_over.append(self._file)
            self._close()

    def _lose(self, file: SpillFile, fault: str, written: int = 0) -> None:
        """Count the records that are no longer in a file, without the ``written`` ones that follow in another."""
        with suppress(OSError):
            file.records = max(file.records - max(file.kept() - written, 0), 0)
        if file.records:
            self.losses.append(Loss(fault, file.records))
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file.descriptor)
            self._file = None

    def _create(self) -> SpillFile:
        """Create a file; it is renamed once it is locked, so that no process mistakes it for an abandoned one."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{uuid7()}{SUFFIX}"
        unlocked = path.with_suffix(UNFINISHED_SUFFIX)
        file = os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unlocked.rename(path)
            if self._durable:
                for folder in (self._folder, self._folder.parent):
                    _sync(folder)
        except OSError:
            os.close(file)
            for each in (unlocked, path):
                each.unlink(missing_ok=True)
            raise
        return SpillFile(path, file)

    def _append(self, opened: SpillFile, data: bytes) -> int:
        """Append data to the open file; return its size."""
        file = opened.descriptor
        before = os.fstat(file).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(file, data[written:])
            if self._durable:
                os.fsync(file)
        except OSError:
            try:
                os.ftruncate(file, before)
            except OSError:
                self.hand_over()  # nothing may be written after an incomplete line
            raise
        return before + len(data)


def _sync(folder: Path) -> None:
    """Sync a folder's entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SpillReader:
    """Replays the files of a folder that no process writes any more, some rows at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._path = folder
        self._offset = 0
        """The bytes of the open file that were replayed."""

    def next_part(self) -> tuple[list[StoredRow], int]:
        """The next rows to replay, and the number of unreadable lines among them; no rows and 0 at the end.

        An incomplete line after a crash is skipped: it was never acknowledged.
        """
        while self._open_next():
            assert self._file is not None
            self._file.seek(self._offset)
            rows: list[StoredRow] = []
            broken = size = 0
            while (
                len(rows) + broken < REPLAY_ROWS
                and size < REPLAY_BYTES
                and (line := self._file.readline()).endswith(b"\n")
            ):
                size += len(line)
                try:
                    rows.append(decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    broken += 1
            if rows or broken:
                return rows, broken
            self._remove()
        return [], 0

    def mark_replayed(self) -> None:
        """Mark the part as stored; delete the file if that was its last."""
        if self._file is not None:
            self._offset = self._file.tell()
            with suppress(OSError):  # the next part tries again
                if not self._file.readline().endswith(b"\n"):
                    self._remove()

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._close()

    def _open_next(self) -> bool:
        """Lock and open the next file, unless one is open; return whether there is one."""
        if self._file is None:
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                with suppress(OSError):
                    self._file = path.open("r+b")  # on NFS only a file that is open for writing can be locked
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(self._file.fileno()).st_nlink:  # else another process replayed it meanwhile
                        self._path, self._offset = path, 0
                        return True
                self._close()
        return self._file is not None

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
