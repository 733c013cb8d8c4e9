"""Records on the local disk, while the store is away: files of lines, written by one process, taken in by any.

Owns the files. A process holds a lock on the file that it writes, so that a file without one is whoever's who
finds it: what a process that was killed left behind is taken in by another. A line is a row of the store; one
that a crash tore is left out.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from service.log.record import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SUFFIX: Final = ".jsonl"
FILE_SIZE: Final = 16 << 20
PART: Final = 500

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(Row).decode


class SpillFailed(Exception):
    """The disk did not take the records, or they are more than may lie there."""


class Spill:
    """The spilled records of a folder, as one process writes and takes them in; any of its threads may."""

    def __init__(self, folder: Path, size: int, *, durable: bool = False) -> None:
        """``size`` is how many bytes may lie in the folder; ``durable`` syncs what is written to the disk."""
        self._folder, self._bound, self._durable = folder, size, durable
        self._file: int | None = None
        self._path: Path | None = None
        self._lock = threading.Lock()

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
        with self._lock:
            if self.size() + len(data) > self._bound:
                raise SpillFailed(f"more than the {self._bound} bytes that may lie in {self._folder}")
            try:
                self._append(data)
            except OSError as error:
                raise SpillFailed(f"{self._folder}: {error.strerror}") from error

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path = self._folder / f"{uuid4()}{SUFFIX}"
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._durable:
                _sync(self._folder)
        before = os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
            if self._durable:
                os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, before)
            raise
        if before + len(data) > FILE_SIZE:
            self._leave()

    def _leave(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def waiting(self) -> Iterator[Waiting]:
        """The files that nobody writes any more, this process's own among them, each held for as long as it is looked at."""
        with self._lock:
            self._leave()
        with suppress(OSError):
            for path in sorted(self._folder.glob(f"*{SUFFIX}")):
                held = Waiting.held(path)
                if held is not None:
                    try:
                        yield held
                    finally:
                        held.close()

    def close(self) -> None:
        """Leave the file that is written to whoever takes it in."""
        with self._lock:
            self._leave()


def _sync(folder: Path) -> None:
    """The folder's own list of files is on the disk."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


class Waiting:
    """A file of spilled records that this process holds."""

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file = path, file

    @classmethod
    def held(cls, path: Path) -> Waiting | None:
        """The file, where nobody else holds it."""
        try:
            file = path.open("rb")
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return None
        return cls(path, file)

    def parts(self) -> Iterator[list[Row]]:
        """Its rows, some at a time."""
        part: list[Row] = []
        for line in self._file:
            with suppress(msgspec.DecodeError):
                part.append(decode(line))
            if len(part) == PART:
                yield part
                part = []
        if part:
            yield part

    def remove(self) -> None:
        """The file is gone: all of it was taken in."""
        with suppress(OSError):
            self._path.unlink()

    def close(self) -> None:
        """Let the file go."""
        self._file.close()
