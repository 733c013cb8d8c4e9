"""Records on the local disk, while the store is away: files of lines, written by one process, taken in by any.

Owns the files. A process holds a lock on the file that it writes, so that a file without one is whoever's who
finds it: what a process that was killed left behind is taken in by another. A line is a row of the store. A file
that was deleted or replaced while it was written is left for a new one before anything is said to be in it.
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
from service.log.record import Row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUFFIX: Final = ".jsonl"
BEGUN: Final = ".new"
FILE_SIZE: Final = 16 << 20
PART: Final = 500
PART_SIZE: Final = 4 << 20
"""Rows, and bytes of them, that are taken in together at most."""
ATTEMPTS: Final = 3
"""How many files in turn may be lost before the records are."""
PROBE: Final = b"\0" * 4096

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(Row).decode


class SpillFailed(PolicyError):
    """The disk did not take the records, or they are more than may lie there."""


@dataclass(slots=True)
class SpillFile:
    """A file that this process began: how many records it wrote to it, and the id of the last one."""

    path: Path
    descriptor: int
    records: int = 0
    last: str = ""

    def fault(self) -> str | None:
        """Why what is written to the open file is not on the disk; ``None`` where it is."""
        opened, found = os.fstat(self.descriptor), identity_of(str(self.path))
        if found == (opened.st_dev, opened.st_ino):
            return None
        return f"{self.path} was {'deleted' if found is None else 'replaced'}"


class Spill:
    """The file of a folder that one process writes.

    ``losses`` has what was found to be lost, and ``left`` the files that others may take in, for any thread to take out.
    """

    def __init__(self, folder: Path, size: int, *, durable: bool = False) -> None:
        """``size`` is how many bytes may lie in the folder; ``durable`` syncs what is written to the disk."""
        self._folder, self._max_size, self._durable = folder, size, durable
        self._file: SpillFile | None = None
        self.losses: deque[Loss] = deque()
        self.handed_over: deque[SpillFile] = deque()

    def size(self) -> int:
        """How many bytes lie in the folder."""
        total = 0
        with suppress(OSError), os.scandir(self._folder) as found:
            for each in found:
                if each.name.endswith(SUFFIX):
                    with suppress(OSError):
                        total += each.stat().st_size
        return total

    def write(self, rows: Sequence[Row]) -> None:
        """All of the rows lie on the disk.

        Raises:
            SpillFailed: and none of them does.
        """
        data = b"".join(encode(row) + b"\n" for row in rows)
        if self.size() + len(data) > self._max_size:
            raise SpillFailed(f"more than the {self._max_size} bytes that may be stored in {self._folder}")
        try:
            for _ in range(ATTEMPTS):
                if self._file is None:
                    self._file = self._create()
                size = self._append(self._file, data)
                fault = self._file.fault()
                if fault is None:
                    self._file.records += len(rows)
                    self._file.last = rows[-1].decision_id
                    if size > FILE_SIZE:
                        self.hand_over()
                    return
                self.losses.append(Loss(fault, self._file.records))
                self._close()
        except OSError as error:
            raise SpillFailed(f"{self._folder}: {error.strerror}") from error
        raise SpillFailed(f"{self._folder}: files in it keep being deleted or replaced")

    def can_write(self) -> bool:
        """Whether the disk takes records just now, found out by a file that is deleted again."""
        if self.size() + len(PROBE) > self._max_size:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._folder / f"{uuid7()}{BEGUN}"
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
        """The file that is written is whoever's who takes it in."""
        if self._file is not None:
            if self._file.records:
                self.handed_over.append(self._file)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file.descriptor)
            self._file = None

    def _create(self) -> SpillFile:
        """A new file; it has its name only once it is locked, so that nobody takes it for one that was left behind."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{uuid7()}{SUFFIX}"
        unlocked = path.with_suffix(BEGUN)
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
        """The data is in the open file; how large that is."""
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
                self.hand_over()  # nothing may be written behind what is torn
            raise
        return before + len(data)


def _sync(folder: Path) -> None:
    """The folder's own list of files is on the disk."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


class SpillReader:
    """The files of a folder that nobody writes any more, to be taken in some rows at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._path = folder
        self._offset = 0
        """How much of the file that is held was taken in."""

    def next_part(self) -> tuple[list[Row], int]:
        """Rows that were not taken in yet, and how many lines among them cannot be read; none of either where nothing is left.

        What a crash tore off is no line: nobody was told that it is safe.
        """
        while self._open_next():
            assert self._file is not None
            self._file.seek(self._offset)
            rows: list[Row] = []
            broken = size = 0
            while len(rows) + broken < PART and size < PART_SIZE and (line := self._file.readline()).endswith(b"\n"):
                size += len(line)
                try:
                    rows.append(decode(line))
                except msgspec.DecodeError:
                    broken += 1
            if rows or broken:
                return rows, broken
            self._remove()
        return [], 0

    def mark_replayed(self) -> None:
        """The part is in the store; the file is gone where that was its last."""
        if self._file is not None:
            self._offset = self._file.tell()
            with suppress(OSError):  # the next part tries it again
                if not self._file.readline().endswith(b"\n"):
                    self._remove()

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._close()

    def _open_next(self) -> bool:
        """Whether a file is held, by this process alone."""
        if self._file is None:
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                with suppress(OSError):
                    self._file = path.open("rb")
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if os.fstat(self._file.fileno()).st_nlink:  # else another took it in between the two
                        self._path, self._offset = path, 0
                        return True
                self._close()
        return self._file is not None

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
