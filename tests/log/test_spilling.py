"""What a log process does with rows that wait for a slow store, with a disk and a store of this test."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from service.log.spill import SpillFailed
from service.log.worker import BACKLOG, BATCH, LogWorker

from .conftest import log_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from service.log.messages import Ack

    from .conftest import LogTarget

ROWS: Any = [None] * BATCH
PATIENCE = 60


class Slow:
    """A log process in a thread, whose store is busy with its first batch while as many rows wait as may."""

    def __init__(self, target: LogTarget, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acknowledged: list[int] = []
        self.release = threading.Event()
        self.worker = LogWorker(log_config(target), self._note)
        self.number = 0
        monkeypatch.setattr(self.worker._writer, "write", self._write)

    def _note(self, ack: Ack) -> None:
        self.acknowledged += ack.batches

    def _write(self, rows: list[Any]) -> int:  # noqa: ARG002  # a writer's argument
        assert self.release.wait(PATIENCE)
        return 0

    def add(self) -> None:
        self.number += 1
        self.worker.enqueue(self.number, ROWS)

    def store_is_done(self) -> None:
        """Wait until the store has written the batch that it is busy with."""
        self.release.set()
        pending = self.worker._pending
        assert pending is not None
        wait([pending.future], PATIENCE)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self.worker.run)
        thread.start()
        try:
            yield
        finally:
            self.release.set()
            self.worker.end()
            thread.join(PATIENCE)
        assert not thread.is_alive()


def test_rows_that_arrive_while_others_are_spilled_do_not_keep_the_store_from_its_work(
    sqlite: LogTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that the disk has accepted some, as many are there again."""
    slow = Slow(sqlite, monkeypatch)
    written_before: list[int] = []

    def spill(rows: list[Any]) -> None:
        slow.store_is_done() if not written_before else None
        written_before.append(len(slow.acknowledged))
        if len(written_before) < 100:
            for _ in range(len(rows) // BATCH):
                slow.add()

    monkeypatch.setattr(slow.worker._spill, "write", spill)
    slow.add()
    with slow.running():
        for _ in range(BACKLOG // BATCH):
            slow.add()
    assert slow.acknowledged.index(1) <= BACKLOG // BATCH
    assert sorted(slow.acknowledged) == [*range(1, slow.number + 1)]
    counts = slow.worker.counts
    assert (counts.lost, counts.written + counts.spilled) == (0, slow.number * BATCH)


def test_rows_wait_for_a_slow_store_if_the_disk_does_not_accept_them(
    sqlite: LogTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(sqlite, monkeypatch)

    def spill(rows: list[Any]) -> None:  # noqa: ARG001  # a spill's argument
        slow.release.set()
        raise SpillFailed("the folder is full")

    monkeypatch.setattr(slow.worker._spill, "write", spill)
    slow.add()
    with slow.running():
        for _ in range(BACKLOG // BATCH):
            slow.add()
    assert slow.acknowledged == [*range(1, slow.number + 1)]
    counts = slow.worker.counts
    assert (counts.written, counts.spilled, counts.lost) == (slow.number * BATCH, 0, 0)
