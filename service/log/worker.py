"""The log worker: writes rows to the store, or else to the local disk.

If the store fails, is slow or hangs, rows are spilled and replayed later; if that fails too, they are lost and counted.
One thread decides and counts; another, which may hang, uses the store (``store_thread``). Not here: the process
around it (``__main__``), and what the other thread does while no rows wait (``maintenance``).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from service.log.maintenance import Maintenance
from service.log.messages import MAINTENANCE_INTERVAL, Ack, Counts, LogConfig
from service.log.spill import Spill, SpillFailed
from service.log.store import StoreFailed, error_text, read_url
from service.log.store_thread import StoreThread, TaskResult
from service.log.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from service.log.file import Loss
    from service.log.record import StoredRow

BATCH: Final = 1000
"""The maximum number of rows written together."""
BACKLOG: Final = 6000
"""Rows that may wait for a slow store; if there are so many, they are spilled. A request has at most 5000 waiting."""
RETRY: Final = 1.0
"""Seconds between two attempts to use a failed store."""
NOT_RECORDED: Final = "neither the store nor the local disk accepted it"


class _RowBatch(Struct):
    """Rows written together, with the numbers of their batches."""

    numbers: list[int]
    rows: list[StoredRow]


@dataclass(slots=True)
class _PendingTask:
    """The running task of the store: a batch, unless it was spilled meanwhile, or maintenance."""

    future: Future[TaskResult]
    batch: _RowBatch | None
    since: float
    is_aborted: bool = False


class LogWorker:
    """Writes batches of rows; ``send_ack`` is called for each batch."""

    def __init__(self, config: LogConfig, send_ack: Callable[[Ack], None]) -> None:
        self.counts = Counts()
        self._send_ack = send_ack
        self._writer = Writer(read_url(config.url), config.timeout, durable=config.durable)
        self._spill = Spill(Path(config.spill), config.spill_size, durable=config.durable)
        self._maintenance = Maintenance(config, self._writer, self._spill)
        self._config = config
        self._queue: deque[_RowBatch] = deque()
        self._wake = threading.Event()
        self._ending = False
        self._spill_reason = "the store is slow"
        """The reason why rows are spilled."""
        self._pending: _PendingTask | None = None
        self._next_try = self._next_maintenance = 0.0
        self._store = StoreThread()

    def enqueue(self, number: int, rows: list[StoredRow]) -> None:
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
            if not self.counts.store_up or (self._pending is not None and self._waiting() >= BACKLOG):
                self._spill_waiting()
            if self._pending is None:
                self._start_next()
            if ending and not self._queue and (self._pending is None or self._pending.batch is None):
                break
        self._spill.hand_over()
        if self._pending is None:
            self._writer.close()

    def _pause(self) -> float:
        """Seconds until the next timeout or maintenance."""
        due = self._maintenance_due() if self._pending is None else self._pending.since + self._config.timeout
        return max(0.0, due - time.monotonic())

    def _maintenance_due(self) -> float:
        return self._next_maintenance if self.counts.store_up else self._next_try

    def _waiting(self) -> int:
        return sum(len(batch.rows) for batch in self._queue)

    def _batch(self) -> _RowBatch:
        """Take the next rows to write together from the queue."""
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
            self._start_task(None, self._maintenance.run)

    def _start_task(self, batch: _RowBatch | None, task: Callable[..., TaskResult], *arguments: Any) -> None:
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
            if time.monotonic() >= pending.since + self._config.timeout:
                pending.since, pending.is_aborted = time.monotonic(), True
                self._writer.abort()
                self._fail(pending, f"the store did not answer within {self._config.timeout:g} s")
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

    def _succeed(self, pending: _PendingTask, done: TaskResult) -> None:
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
        self._acknowledge(pending.batch.numbers, NOT_RECORDED if done.refused else None)

    def _fail(self, pending: _PendingTask, reason: str) -> None:
        if self.counts.store_up or not pending.is_aborted:  # the error of an aborted task is not new
            self.counts.last_error = self._spill_reason = reason
        self.counts.store_up = False
        self._next_try = time.monotonic() + RETRY
        batch, pending.batch = pending.batch, None
        if batch is None:
            self.counts.can_record = self._spill.can_write()
            self._acknowledge([], None)
        else:
            self._spill_batch(batch)

    def _spill_waiting(self) -> None:
        """Spill the rows that wait now, as others may arrive as fast as they are spilled.

        If the disk does not accept them and the store works, they wait on.
        """
        left = self._waiting()
        while left > 0:
            batch = self._batch()
            left -= len(batch.rows)
            if not self._spill_batch(batch, may_wait=self.counts.store_up):
                self._queue.appendleft(batch)
                return

    def _spill_batch(self, batch: _RowBatch, *, may_wait: bool = False) -> bool:
        """Spill a batch. If the disk does not accept it, it is lost, or the result is false if it ``may_wait``."""
        try:
            self._spill.write(batch.rows)
        except SpillFailed as error:
            if may_wait:
                return False
            self.counts.lost += len(batch.rows)
            self.counts.last_error = f"{self._spill_reason}; {error}"
            self.counts.can_record = False
            self._acknowledge(batch.numbers, NOT_RECORDED)
        else:
            self._next_maintenance = 0.0
            self.counts.can_record = True
            self.counts.spilled += len(batch.rows)
            self._acknowledge(batch.numbers, None)
        return True

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

    def _write(self, rows: list[StoredRow]) -> TaskResult:
        """Write rows to the store, in its thread."""
        return TaskResult(refused=self._writer.write(rows))
