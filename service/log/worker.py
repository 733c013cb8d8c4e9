"""The log worker: writes rows to the store, or else to the local disk.

If the store fails, is slow or hangs, rows are spilled and replayed later; if that fails too, they are lost and counted.
One thread decides and counts; another, which may hang, uses the store. Not here: the process around it
(``__main__``).
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
"""The most rows written together."""
BACKLOG: Final = 4000
"""Rows that may wait for a slow store before they are spilled."""
RETRY: Final = 1.0
"""Seconds between two attempts to use a failed store."""
MAINTENANCE_INTERVAL: Final = 5.0
"""Seconds between two checks for spilled files."""
TIDY: Final = 600.0
"""Seconds between two runs of the retention."""
UNSAFE: Final = "neither the store nor the local disk took it"


class LogConfig(Struct, frozen=True):
    """The settings of a log: the store's URL, the spill folder, limits (seconds, bytes), and the labels as JSON."""

    url: str
    spill: str
    spill_size: int
    patience: float
    durable: bool
    keep_seconds: float | None
    keep_size: int | None
    labels: str


class Counts(Struct):
    """What happened to the rows, and whether the store accepted the last ones; ``lost`` are in neither store nor disk.

    ``lost_files`` were deleted, replaced or damaged after this process wrote ``lost_file_records`` to them.
    ``can_record`` is whether the store or the disk accepts rows.
    """

    written: int = 0
    spilled: int = 0
    replayed: int = 0
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
    """An acknowledgement: these batches are recorded, or the error; no batches if only the counts changed."""

    batches: list[int]
    error: str | None
    counts: Counts


class _RowBatch(Struct):
    """Rows written together, with the numbers of their batches."""

    numbers: list[int]
    rows: list[Row]


class _TaskResult(Struct):
    """The result of a task of the store: rows refused, replayed, lost and deleted; whether there is more to do."""

    refused: int = 0
    replayed: int = 0
    lost: int = 0
    deleted: int = 0
    more: bool = False


@dataclass(slots=True)
class _PendingTask:
    """The running task of the store: a batch, unless it was spilled meanwhile, or maintenance."""

    future: Future[_TaskResult]
    batch: _RowBatch | None
    since: float
    cut: bool = False


class LogWorker:
    """Writes batches of rows; ``send_ack`` is called for each batch."""

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
        """The reason why rows are spilled."""
        self._pending: _PendingTask | None = None
        self._next_try = self._next_maintenance = self._next_tidying = 0.0
        self._store = _Thread()

    def take(self, number: int, rows: list[Row]) -> None:
        """Queue a batch; may be called from any thread."""
        self._queue.append(_RowBatch([number], rows))
        self._wake.set()

    def end(self) -> None:
        """End after the queued batches; may be called from any thread."""
        self._ending = True
        self._wake.set()

    def run(self) -> None:
        """Write batches until the end; then every batch is in the store, or else on the local disk."""
        while True:
            self._wake.wait(self._pause())
            self._wake.clear()
            ending = self._ending  # read before the queue, so that no batch is missed
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
        """Seconds until the next timeout or maintenance."""
        due = self._maintenance_due() if self._pending is None else self._pending.since + self._config.patience
        return max(0.0, due - time.monotonic())

    def _maintenance_due(self) -> float:
        return self._next_maintenance if self.counts.store_up else self._next_try

    def _waiting(self) -> int:
        return sum(len(batch.rows) for batch in self._queue)

    def _batch(self) -> _RowBatch:
        """The next rows to write together."""
        batch = self._queue.popleft()
        while self._queue and len(batch.rows) < BATCH:
            more = self._queue.popleft()
            batch = _RowBatch(batch.numbers + more.numbers, batch.rows + more.rows)
        return batch

    def _start_next(self) -> None:
        """Start the store's next task, if there is one: waiting rows, or else maintenance."""
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
        """Handle the result of the store's task.

        On timeout it is aborted, and its rows are spilled, even though it may still write them.
        """
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
        except Exception as error:  # noqa: BLE001  # after any error, these rows and the next ones must be recorded
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
        counts.replayed += done.replayed
        counts.deleted += done.deleted
        counts.lost += done.lost
        if pending.batch is None:
            self._acknowledge([], None)
            return
        counts.written += len(pending.batch.rows) - done.refused
        counts.lost += done.refused
        if done.refused:
            counts.last_error = (
                f"records not stored: {done.refused}; the store refused a value in them, "
                "or a trigger or rule of the database left them out"
            )
        self._acknowledge(pending.batch.numbers, UNSAFE if done.refused else None)

    def _fail(self, pending: _PendingTask, reason: str) -> None:
        if self.counts.store_up or not pending.cut:  # the error of an aborted task is not new
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
        """Replay some spilled rows, or else delete some records by the retention."""
        self._writer.open()
        try:
            rows, broken = self._spill_reader.next_part()
        except OSError:
            rows, broken = [], 0  # an unreadable disk must not stop the retention
        if rows or broken:
            refused = self._writer.write(rows)
            self._spill_reader.mark_replayed()
            return _TaskResult(replayed=len(rows) - refused, lost=refused + broken, more=True)
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
        """Find spilled files that are gone though not replayed: the store does not have their last record."""
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
    """A thread that runs one task after the other; it is a daemon, so that a hanging task cannot keep the process."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[_TaskResult], Callable[..., _TaskResult], tuple[Any, ...]]] = (
            SimpleQueue()
        )
        threading.Thread(target=self._run, name="store", daemon=True).start()

    def submit(self, task: Callable[..., _TaskResult], *arguments: Any) -> Future[_TaskResult]:
        """Queue a task; return its future."""
        future: Future[_TaskResult] = Future()
        self._tasks.put((future, task, arguments))
        return future

    def _run(self) -> None:
        while True:
            future, task, arguments = self._tasks.get()
            try:
                future.set_result(task(*arguments))
            except Exception as error:  # noqa: BLE001  # the waiting thread has to get it
                future.set_exception(error)
