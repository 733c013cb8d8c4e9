"""What becomes of the rows of another process: they are in the store, or else on the local disk.

Owns the way of a row. Where the store fails, is slow or hangs, rows are spilled and taken in later; where that
fails too they are lost, and counted. One thread decides and counts; another one, which may hang, asks the store.
The process around it is ``__main__``'s.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from service.log.file import Loss
from service.log.record import Row, first_id
from service.log.spill import Spill, SpillFailed, SpillReader
from service.log.store import StoreFailed, error_text, read_url
from service.log.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH: Final = 1000
"""Rows that are written together at most."""
BACKLOG: Final = 4000
"""Rows that may wait for a store that is slow, before they are spilled."""
RETRY: Final = 1.0
"""Seconds between two tries of a store that failed."""
MAINTENANCE_INTERVAL: Final = 5.0
"""Seconds between two looks for files that others left behind."""
TIDY: Final = 600.0
"""Seconds between two looks at what is too old or too much."""
UNSAFE: Final = "neither the store nor the local disk took it"


class LogConfig(Struct, frozen=True):
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
    """What became of the rows, and whether the store took the last ones; ``lost`` took neither store nor disk.

    ``lost_files`` were deleted, replaced or damaged after rows were written to them, ``lost_file_records`` of this process;
    ``can_record`` is whether the store or the disk takes rows.
    """

    written: int = 0
    spilled: int = 0
    taken_in: int = 0
    lost: int = 0
    deleted: int = 0
    store_up: bool = True
    last_error: str = ""
    spill_bytes: int = 0
    lost_files: int = 0
    lost_file_records: int = 0
    last_lost_file: str = ""
    can_record: bool = False


class Ack(Struct, frozen=True):
    """What the keeper says: these batches are safe, or why not; none at all where only the counts are news."""

    batches: list[int]
    error: str | None
    counts: Counts


class _RowBatch(Struct):
    """Rows that are written together, by the numbers under which they came."""

    numbers: list[int]
    rows: list[Row]


class _TaskResult(Struct):
    """What came of a task of the store: rows of which it refused some, rows that were taken in, rows deleted; whether there is more to look after."""

    refused: int = 0
    taken_in: int = 0
    lost: int = 0
    deleted: int = 0
    more: bool = False


@dataclass(slots=True)
class _PendingTask:
    """A task that the store is at: a batch, unless it was given up, or a look after things."""

    future: Future[_TaskResult]
    batch: _RowBatch | None
    since: float
    cut: bool = False


class LogWorker:
    """Writes what it is given; ``tell`` hears of each batch."""

    def __init__(self, config: LogConfig, send_ack: Callable[[Ack], None]) -> None:
        self.counts = Counts()
        self._send_ack = send_ack
        self._writer = Writer(read_url(config.url), config.patience, durable=config.durable)
        self._spill = Spill(Path(config.spill), config.spill_size, durable=config.durable)
        self._spill_reader = SpillReader(Path(config.spill))
        self._config = config
        self._queue: deque[_RowBatch] = deque()
        self._wake = threading.Event()
        self._ending = False
        self._spill_reason = "the store is slow"
        """Why rows are spilled."""
        self._pending: _PendingTask | None = None
        self._next_try = self._next_maintenance = self._next_tidying = 0.0
        self._store = _Thread()

    def take(self, number: int, rows: list[Row]) -> None:
        """Write a batch, some time soon; any thread may say so."""
        self._queue.append(_RowBatch([number], rows))
        self._wake.set()

    def end(self) -> None:
        """Nothing more comes; any thread may say so."""
        self._ending = True
        self._wake.set()

    def run(self) -> None:
        """Keep what comes, until the end; then everything that was taken is in the store, or else on the local disk."""
        while True:
            self._wake.wait(self._pause())
            self._wake.clear()
            ending = self._ending  # before the queue is looked at, so that nothing comes after it
            self._finish_task()
            while self._queue and (
                not self.counts.store_up or (self._pending is not None and self._waiting() >= BACKLOG)
            ):
                self._spill_batch(self._batch())
            if self._pending is None:
                self._start_next()
            if ending and not self._queue and (self._pending is None or self._pending.batch is None):
                break
        self._spill.hand_over()
        if self._pending is None:
            self._writer.close()

    def _pause(self) -> float:
        """Seconds until there is something to do that nobody says."""
        due = self._maintenance_due() if self._pending is None else self._pending.since + self._config.patience
        return max(0.0, due - time.monotonic())

    def _maintenance_due(self) -> float:
        return self._next_maintenance if self.counts.store_up else self._next_try

    def _waiting(self) -> int:
        return sum(len(batch.rows) for batch in self._queue)

    def _batch(self) -> _RowBatch:
        """What waits, as far as it is written together."""
        batch = self._queue.popleft()
        while self._queue and len(batch.rows) < BATCH:
            more = self._queue.popleft()
            batch = _RowBatch(batch.numbers + more.numbers, batch.rows + more.rows)
        return batch

    def _start_next(self) -> None:
        """Give the store its next task, where there is one: the rows that wait, or else a look after things."""
        if self._queue:
            batch = self._batch()
            self._start_task(batch, self._write, batch.rows)
        elif not self._ending and time.monotonic() >= self._maintenance_due():
            if self.counts.store_up:
                self._spill.hand_over()
                self._next_maintenance = time.monotonic() + MAINTENANCE_INTERVAL
            self._start_task(None, self._maintain)

    def _start_task(self, batch: _RowBatch | None, task: Callable[..., _TaskResult], *arguments: Any) -> None:
        self._pending = _PendingTask(self._store.submit(task, *arguments), batch, time.monotonic())
        self._pending.future.add_done_callback(lambda _: self._wake.set())

    def _finish_task(self) -> None:
        """What came of the store's task; one that takes too long is cut off, and its rows are spilled though it may write them after all."""
        pending = self._pending
        if pending is None:
            return
        if not pending.future.done():
            if time.monotonic() >= pending.since + self._config.patience:
                pending.since, pending.cut = time.monotonic(), True
                self._writer.cut()
                self._fail(pending, f"the store does not answer in {self._config.patience:g} s")
            return
        self._pending = None
        try:
            done = pending.future.result()
        except StoreFailed as error:
            self._fail(pending, str(error))
        except Exception as error:  # noqa: BLE001  # whatever it is, the rows are to be kept and the next ones too
            self._fail(pending, f"{type(error).__name__}: {error_text(error)}")
        else:
            self._succeed(pending, done)

    def _succeed(self, pending: _PendingTask, done: _TaskResult) -> None:
        counts = self.counts
        counts.can_record = True
        if not counts.store_up:
            counts.store_up, counts.last_error = True, ""
        if done.more:
            self._next_maintenance = 0.0
        counts.taken_in += done.taken_in
        counts.deleted += done.deleted
        counts.lost += done.lost
        if pending.batch is None:
            self._acknowledge([], None)
            return
        counts.written += len(pending.batch.rows) - done.refused
        counts.lost += done.refused
        if done.refused:
            counts.last_error = f"the store did not take {done.refused} records: it refused a value in them, or a trigger or rule of the database left them out"
        self._acknowledge(pending.batch.numbers, UNSAFE if done.refused else None)

    def _fail(self, pending: _PendingTask, reason: str) -> None:
        if self.counts.store_up or not pending.cut:  # what one that was cut off says of it is no news
            self.counts.last_error = self._spill_reason = reason
        self.counts.store_up = False
        self._next_try = time.monotonic() + RETRY
        batch, pending.batch = pending.batch, None
        if batch is None:
            self.counts.can_record = self._spill.can_write()
            self._acknowledge([], None)
        else:
            self._spill_batch(batch)

    def _spill_batch(self, batch: _RowBatch) -> None:
        try:
            self._spill.write(batch.rows)
        except SpillFailed as error:
            self.counts.lost += len(batch.rows)
            self.counts.last_error = f"{self._spill_reason}; {error}"
            self.counts.can_record = False
            self._acknowledge(batch.numbers, UNSAFE)
        else:
            self._next_maintenance = 0.0
            self.counts.can_record = True
            self.counts.spilled += len(batch.rows)
            self._acknowledge(batch.numbers, None)

    def _acknowledge(self, batches: list[int], error: str | None) -> None:
        self.counts.spill_bytes = self._spill.size()
        for losses in (self._writer.losses, self._spill.losses):
            while losses:
                self._count_loss(losses.popleft())
        self._send_ack(Ack(batches, error, replace(self.counts)))

    def _count_loss(self, loss: Loss) -> None:
        self.counts.lost_files += 1
        self.counts.lost_file_records += loss.records
        self.counts.last_lost_file = loss.what

    # What the thread of the store does.

    def _write(self, rows: list[Row]) -> _TaskResult:
        return _TaskResult(refused=self._writer.write(rows))

    def _maintain(self) -> _TaskResult:
        """Take in some of what was spilled, or else delete some of what is too old or too much."""
        self._writer.open()
        try:
            rows, broken = self._spill_reader.next_part()
        except OSError:
            rows, broken = [], 0  # a disk that cannot be read is no reason to leave the store alone
        if rows or broken:
            refused = self._writer.write(rows)
            self._spill_reader.mark_replayed()
            return _TaskResult(taken_in=len(rows) - refused, lost=refused + broken, more=True)
        self._find_lost_spill()
        self._writer.check_for_damage()
        if time.monotonic() < self._next_tidying:
            return _TaskResult()
        age = self._config.keep_seconds
        oldest = None if age is None else first_id(datetime.now(UTC) - timedelta(seconds=age))
        deleted = self._writer.trim(oldest, self._config.keep_size)
        if not deleted:
            self._next_tidying = time.monotonic() + TIDY
        return _TaskResult(deleted=deleted, more=deleted > 0)

    def _find_lost_spill(self) -> None:
        """Find out which files that were left are gone though nobody took them in: the store does not have their last record."""
        handed_over = self._spill.handed_over
        for _ in range(len(handed_over)):
            file = handed_over[0]
            if file.path.exists():
                handed_over.rotate(-1)
                continue
            if not self._writer.has(file.last):
                self._spill.losses.append(Loss(f"{file.path} was deleted", file.records))
            handed_over.popleft()


class _Thread:
    """A thread that does one thing after the other; one that hangs keeps no process from ending."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[_TaskResult], Callable[..., _TaskResult], tuple[Any, ...]]] = (
            SimpleQueue()
        )
        threading.Thread(target=self._run, name="store", daemon=True).start()

    def submit(self, task: Callable[..., _TaskResult], *arguments: Any) -> Future[_TaskResult]:
        """What will come of a task."""
        future: Future[_TaskResult] = Future()
        self._tasks.put((future, task, arguments))
        return future

    def _run(self) -> None:
        while True:
            future, task, arguments = self._tasks.get()
            try:
                future.set_result(task(*arguments))
            except Exception as error:  # noqa: BLE001  # whoever waits has to learn of it
                future.set_exception(error)
