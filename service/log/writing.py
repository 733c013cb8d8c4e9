"""The decision log as the service writes it: off the request's path, in batches, and never in its way.

Owns the way of a record. Decisions are noted in a queue; one thread makes rows of them and hands these to
another, which writes them to the store. Where the store fails, is slow or hangs, rows are spilled to the local
disk and taken in later; where that fails too they are dropped, and counted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import SQLAlchemyError

from service.log.record import first_id, row
from service.log.spill import SpillFailed
from service.log.store import StoreFailed
from service.problems import LogUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from service.log.record import Entry, Row
    from service.log.spill import Spill
    from service.log.store import Store

BATCH: Final = 1000
LINGER: Final = 0.05
"""Seconds that a decision waits for others to be written with, where nobody waits for it."""
RETRY: Final = 1.0
"""Seconds between two tries of a store that failed."""
TIDY: Final = 600.0
"""Seconds between two looks at what is too old or too much."""
LOOK: Final = 5.0
"""Seconds between two looks for files that others left behind."""


@dataclass(slots=True)
class Counts:
    """What became of the records of this process, and whether the store took the last ones.

    ``overflowed`` are dropped because the queue was full, ``lost`` because neither store nor disk took them.
    """

    written: int = 0
    spilled: int = 0
    taken_in: int = 0
    overflowed: int = 0
    lost: int = 0
    deleted: int = 0
    store_up: bool = True
    last_error: str = ""


@dataclass(slots=True)
class _Batch:
    """Rows that are on their way, and who waits for them."""

    rows: list[Row]
    waiting: list[asyncio.Future[None]]
    since: float = field(default_factory=time.monotonic)
    settled: bool = False


class Log:
    """The decision log of one process."""

    def __init__(
        self, store: Store, spill: Spill, labels: str, *, queue: int, patience: float, keep: tuple[timedelta | None, int | None] = (None, None)
    ) -> None:
        """``queue`` is how many decisions may wait, ``patience`` how many seconds a write may take; ``keep`` are an age and a size in bytes."""
        self.counts = Counts()
        self._store, self._spill, self._labels = store, spill, labels
        self._bound, self._patience, self._keep = queue, patience, keep
        self._queue: deque[tuple[Entry, asyncio.Future[None] | None]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._connection: Connection | None = None
        self._down_until = 0.0
        self._looked = self._tidied = 0.0
        self._writer = ThreadPoolExecutor(1, "log-store")
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many decisions wait to be made rows of."""
        return len(self._queue)

    @property
    def spill_bytes(self) -> int:
        """How many bytes lie on the local disk."""
        return self._spill.size()

    def note(self, entry: Entry) -> None:
        """The decision will be recorded, unless it is dropped, which is counted; never blocks."""
        if len(self._queue) >= self._bound:
            self.counts.overflowed += 1
            return
        self._queue.append((entry, None))

    def recorded(self, entry: Entry) -> asyncio.Future[None]:
        """The decision is recorded, in the store or on the local disk, when the future is done; it raises ``LogUnavailable`` where it is not."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if len(self._queue) >= self._bound:
            self.counts.overflowed += 1
            future.set_exception(LogUnavailable("too many decisions wait to be recorded"))
        else:
            self._queue.append((entry, future))
            self._wake.set()
        return future

    def close(self, seconds: float) -> None:
        """Everything that was noted is in the store, or else on the local disk; it takes about ``seconds`` at most."""
        self._closing = True
        self._wake.set()
        self._thread.join(seconds)
        self._store.close()
        self._spill.close()

    # The thread that makes rows.

    def _run(self) -> None:
        pending: tuple[_Batch, Future[None]] | None = None
        while not (self._closing and not self._queue and pending is None):
            if not self._queue or self._closing is False:
                self._wake.wait(LINGER)
                self._wake.clear()
            pending = self._settled(pending)
            if not self._queue:
                pending = pending or self._idle()
                if self._closing and pending is not None:
                    pending = self._waited(pending)
                continue
            batch = self._batch()
            if time.monotonic() < self._down_until:
                self._spilled(batch)
                continue
            pending = self._waited(pending)
            if pending is not None:
                self._spilled(batch)
                continue
            pending = batch, self._writer.submit(self._write, batch)
            if len(self._queue) >= BATCH:
                self._wake.set()
        self._writer.submit(self._end)
        self._writer.shutdown(wait=True)

    def _batch(self) -> _Batch:
        rows: list[Row] = []
        waiting: list[asyncio.Future[None]] = []
        for _ in range(min(BATCH, len(self._queue))):
            entry, future = self._queue.popleft()
            rows.append(row(entry, self._labels))
            if future is not None:
                waiting.append(future)
        return _Batch(rows, waiting)

    def _settled(self, pending: tuple[_Batch, Future[None]] | None) -> tuple[_Batch, Future[None]] | None:
        """``None`` where nothing is on its way any more; what hangs is cut off and spilled."""
        if pending is None or pending[1].done():
            return None
        batch, _ = pending
        if time.monotonic() - batch.since > self._patience:
            self._store.cut()
            self._failed(batch, f"no answer in {self._patience:g} s")
        return pending

    def _waited(self, pending: tuple[_Batch, Future[None]] | None) -> tuple[_Batch, Future[None]] | None:
        """The same, after a wait for as long as there is room for what arrives meanwhile."""
        while (pending := self._settled(pending)) is not None and len(self._queue) < self._bound // 4 and time.monotonic() >= self._down_until:
            with suppress(TimeoutError):
                pending[1].result(LINGER)
        return pending

    def _idle(self) -> tuple[_Batch, Future[None]] | None:
        """While there is nothing to write: what was spilled is taken in, what is too old is deleted."""
        now = time.monotonic()
        if self._closing or now < self._down_until:
            return None
        if now - self._looked > LOOK or not self.counts.store_up:
            self._looked = now
            return _Batch([], []), self._writer.submit(self._look)
        return None

    # The thread that writes.

    def _write(self, batch: _Batch) -> None:
        try:
            self._store.write(self._connected(), batch.rows)
        except (StoreFailed, SQLAlchemyError, OSError) as error:
            self._failed(batch, str(error).partition("\n")[0])
            self._disconnect()
        else:
            self._up()
            self._settle(batch, written=len(batch.rows))

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
            self._down(str(error).partition("\n")[0])
            self._disconnect()

    def _tidy(self, connection: Connection) -> None:
        now = time.monotonic()
        age, size = self._keep
        if (age is None and size is None) or now - self._tidied < TIDY:
            return
        oldest = None if age is None else first_id(datetime.now(UTC) - age)
        gone = self._store.trim(connection, oldest, size)
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

    def _end(self) -> None:
        self._disconnect()

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
        if not self._claim(batch):
            return
        try:
            self._spill.write(batch.rows)
        except SpillFailed as error:
            with self._lock:
                self.counts.lost += len(batch.rows)
            self._answer(batch, LogUnavailable(f"the decision could not be recorded: {error}"))
        else:
            with self._lock:
                self.counts.spilled += len(batch.rows)
            self._answer(batch, None)

    def _settle(self, batch: _Batch, written: int) -> None:
        if self._claim(batch):
            self.counts.written += written
            self._answer(batch, None)

    def _claim(self, batch: _Batch) -> bool:
        """Whether nobody has settled the batch before: one that was spilled as it hung may be written after all."""
        with self._lock:
            first = not batch.settled
            batch.settled = True
        return first

    def _answer(self, batch: _Batch, error: LogUnavailable | None) -> None:
        if batch.waiting:
            loop: Any = batch.waiting[0].get_loop()
            with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(_told, batch.waiting, error)


def _told(waiting: Sequence[asyncio.Future[None]], error: LogUnavailable | None) -> None:
    for future in waiting:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
