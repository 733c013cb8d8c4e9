"""The process that keeps the log of another one: rows come in, and are in the store, or else on the local disk.

Owns the way of a row. Where the store fails, is slow or hangs, rows are spilled and taken in later; where that
fails too they are lost, and counted. It is a process of its own so that none of it takes the time of the one
that answers; it ends when that one does, however it ends, and keeps what it was given before.
``python -m service.log.keeper FD`` is that process.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct
from sqlalchemy.exc import SQLAlchemyError

from service.log.record import Line, Row, encode, first_id, row
from service.log.spill import Spill, SpillFailed
from service.log.store import Store, StoreFailed, read_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

BATCH: Final = 1000
"""Rows that are written together at most."""
BACKLOG: Final = 4000
"""Rows that may wait for a store that is slow, before they are spilled."""
WAIT: Final = 0.05
NICE: Final = 5
"""How much less of a busy processor it asks for than the process that answers."""
RETRY: Final = 1.0
"""Seconds between two tries of a store that failed."""
LOOK: Final = 5.0
"""Seconds between two looks for files that others left behind."""
TIDY: Final = 600.0
"""Seconds between two looks at what is too old or too much."""


class Kept(Struct, frozen=True):
    """How a log is kept: the store's URL, the folder of what it does not take, the bounds of both (seconds, bytes), and each record's labels as JSON."""

    url: str
    spill: str
    spill_size: int
    patience: float
    durable: bool
    keep_seconds: float | None
    keep_size: int | None
    labels: str


class Counts(Struct):
    """What became of the rows, and whether the store took the last ones; ``lost`` took neither store nor disk."""

    written: int = 0
    spilled: int = 0
    taken_in: int = 0
    lost: int = 0
    deleted: int = 0
    store_up: bool = True
    last_error: str = ""
    spill_bytes: int = 0


class Settled(Struct, frozen=True):
    """What the keeper says: these batches are safe, or why not; none at all where only the counts are news."""

    batches: list[int]
    error: str | None
    counts: Counts


@dataclass(slots=True)
class _Batch:
    """Rows that are on their way, by the numbers under which they came."""

    numbers: list[int]
    rows: list[Row]
    since: float = field(default_factory=time.monotonic)
    settled: bool = False


_Pending = tuple[_Batch, "Future[None]"]


class Keeper:
    """Writes what it is given; ``settled`` is told of each batch, from any thread."""

    def __init__(self, kept: Kept, settled: Callable[[Settled], None]) -> None:
        self.counts = Counts()
        self._settled_to = settled
        self._store = Store(read_url(kept.url), kept.patience, durable=kept.durable)
        self._spill = Spill(Path(kept.spill), kept.spill_size, durable=kept.durable)
        self._patience = kept.patience
        self._age = None if kept.keep_seconds is None else timedelta(seconds=kept.keep_seconds)
        self._size = kept.keep_size
        self._queue: deque[tuple[int, list[Row]]] = deque()
        self._waiting = 0
        self._wake = threading.Event()
        self._closing = False
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._connection: Connection | None = None
        self._down_until = self._looked = self._tidied = 0.0
        self._writer = ThreadPoolExecutor(1, "store")
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def take(self, number: int, rows: list[Row]) -> None:
        """Write a batch, some time soon."""
        with self._lock:
            self._waiting += len(rows)
        self._queue.append((number, rows))
        self._wake.set()

    def close(self) -> None:
        """Everything that was taken is in the store, or else on the local disk."""
        self._closing = True
        self._wake.set()
        self._thread.join()
        self._spill.close()

    def _run(self) -> None:
        pending: _Pending | None = None
        while self._queue or pending is not None or not self._closing:
            if not self._queue:
                self._wake.wait(WAIT)
                self._wake.clear()
            pending = self._watched(pending)
            if not self._queue:
                pending = pending or self._idle()
                if self._closing:
                    pending = self._awaited(pending)
                continue
            down = time.monotonic() < self._down_until
            pending = None if down else self._awaited(pending)
            batch = self._batch()
            if down or pending is not None:
                self._spilled(batch)
            else:
                pending = batch, self._writer.submit(self._write, batch)
        self._writer.submit(self._disconnect)
        self._writer.shutdown(wait=False, cancel_futures=False)

    def _batch(self) -> _Batch:
        """What waits, as far as it is written together."""
        batch = _Batch([], [])
        while self._queue and len(batch.rows) < BATCH:
            number, rows = self._queue.popleft()
            batch.numbers.append(number)
            batch.rows += rows
        with self._lock:
            self._waiting -= len(batch.rows)
        return batch

    def _watched(self, pending: _Pending | None) -> _Pending | None:
        """``None`` where nothing is on its way any more; what hangs is cut off and spilled."""
        if pending is None or pending[1].done():
            return None
        if time.monotonic() - pending[0].since > self._patience:
            self._store.cut()
            self._failed(pending[0], f"no answer in {self._patience:g} s")
        return pending

    def _awaited(self, pending: _Pending | None) -> _Pending | None:
        """The same, after a wait for as long as what arrives meanwhile may wait too."""
        while (pending := self._watched(pending)) is not None and self._waiting < BACKLOG and time.monotonic() >= self._down_until:
            with suppress(TimeoutError):
                pending[1].result(WAIT)
        return pending

    def _idle(self) -> _Pending | None:
        """While there is nothing to write: what was spilled is taken in, what is too old is deleted."""
        now = time.monotonic()
        if self._closing or now < self._down_until or (self.counts.store_up and now - self._looked < LOOK):
            return None
        self._looked = now
        return _Batch([], []), self._writer.submit(self._look)

    # What the thread of the store does.

    def _write(self, batch: _Batch) -> None:
        try:
            self._store.write(self._connected(), batch.rows)
        except (StoreFailed, SQLAlchemyError, OSError) as error:
            self._failed(batch, _first_line(error))
            self._disconnect()
        else:
            self._up()
            if self._claimed(batch):
                self.counts.written += len(batch.rows)
                self._tell(batch, None)

    def _look(self) -> None:
        """Take in what was spilled, and delete what is too old or too much, some of both."""
        try:
            connection = self._connected()
            for file in self._spill.waiting():
                for part in file.parts():
                    self._store.write(connection, part)
                    self.counts.taken_in += len(part)
                file.remove()
                if self._queue:
                    break
            self._tidy(connection)
            self._up()
        except (StoreFailed, SQLAlchemyError, OSError) as error:
            self._down(_first_line(error))
            self._disconnect()
        self._tell(_Batch([], []), None)

    def _tidy(self, connection: Connection) -> None:
        now = time.monotonic()
        if now - self._tidied < TIDY and self._tidied:
            return
        gone = self._store.trim(connection, None if self._age is None else first_id(datetime.now(UTC) - self._age), self._size)
        self.counts.deleted += gone
        if not gone:
            self._tidied = now

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._stack.enter_context(self._store.kept())
        return self._connection

    def _disconnect(self) -> None:
        self._connection = None
        with suppress(Exception):  # a connection that failed may fail once more as it is let go
            self._stack.close()

    # What becomes of a batch.

    def _up(self) -> None:
        self.counts.store_up, self.counts.last_error, self._down_until = True, "", 0.0

    def _down(self, said: str) -> None:
        self.counts.store_up, self.counts.last_error = False, said
        self._down_until = time.monotonic() + RETRY

    def _failed(self, batch: _Batch, said: str) -> None:
        self._down(said)
        self._spilled(batch)

    def _spilled(self, batch: _Batch) -> None:
        if not self._claimed(batch):
            return
        try:
            self._spill.write(batch.rows)
        except SpillFailed as error:
            with self._lock:
                self.counts.lost += len(batch.rows)
            self._tell(batch, str(error))
        else:
            with self._lock:
                self.counts.spilled += len(batch.rows)
            self._tell(batch, None)

    def _claimed(self, batch: _Batch) -> bool:
        """Whether nobody has settled the batch before: one that was spilled as it hung may be written after all."""
        with self._lock:
            first = not batch.settled
            batch.settled = True
        return first

    def _tell(self, batch: _Batch, error: str | None) -> None:
        self.counts.spill_bytes = self._spill.size()
        self._settled_to(Settled(batch.numbers, error, self.counts))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def main() -> None:
    """Keep what comes through the socket, a batch a line, until it ends."""
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, signal.SIG_IGN)  # a whole group is told to end: what it still says has to be kept first
    os.nice(NICE)
    with socket.socket(fileno=int(sys.argv[1])) as line, line.makefile("rb") as lines:
        lock = threading.Lock()

        def settled(said: Settled) -> None:
            with lock, suppress(OSError):  # whoever would hear of it may be gone
                line.sendall(encode(said) + b"\n")

        kept = msgspec.json.decode(lines.readline(), type=Kept)
        keeper = Keeper(kept, settled)
        decode = msgspec.json.Decoder(tuple[int, list[Line]]).decode
        with suppress(OSError):
            for data in lines:
                if data.endswith(b"\n"):  # the end of one that did not come whole is nobody's any more
                    number, noted = decode(data)
                    keeper.take(number, [row(each, kept.labels) for each in noted])
        keeper.close()


if __name__ == "__main__":
    main()
