"""What the store's thread does while no rows wait: replay spilled rows, find lost files, and delete old records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from service.log.file import Loss
from service.log.record import first_id
from service.log.retention import MAX_DELETED
from service.log.spill import SpillReader
from service.log.store_thread import TaskResult

if TYPE_CHECKING:
    from service.log.messages import LogConfig
    from service.log.spill import Spill
    from service.log.writer import Writer


class Maintenance:
    """The maintenance of one log worker, all of it in the store's thread."""

    def __init__(self, config: LogConfig, writer: Writer, spill: Spill) -> None:
        self._config = config
        self._writer = writer
        self._spill = spill
        self._spill_reader = SpillReader(Path(config.spill))

    def run(self) -> TaskResult:
        """Replay some spilled rows, or else delete some records that exceed the retention limits.

        They are deleted in every run: those of ten minutes, deleted at once, delayed answers for minutes under load.

        Raises:
            StoreFailed: the store cannot be used.
        """
        self._writer.open()
        try:
            rows, broken = self._spill_reader.next_part()
        except OSError:
            rows, broken = [], 0  # an unreadable disk must not stop the retention
        if rows or broken:
            refused = self._writer.write(rows)
            self._spill_reader.mark_replayed()
            return TaskResult(replayed=len(rows) - refused, lost=refused + broken, more=True)
        self._find_lost_spill()
        self._writer.check_for_damage()
        age = self._config.keep_seconds
        oldest = None if age is None else first_id(datetime.now(UTC) - timedelta(seconds=age))
        deleted = self._writer.trim(oldest, self._config.keep_size)
        return TaskResult(deleted=deleted, more=deleted >= MAX_DELETED)

    def _find_lost_spill(self) -> None:
        """Find spill files that disappeared before they were replayed: the store does not have their last record."""
        handed_over = self._spill.handed_over
        for _ in range(len(handed_over)):
            file = handed_over[0]
            if not _is_missing(file.path):
                handed_over.rotate(-1)
                continue
            if not self._writer.has(file.last):
                self._spill.losses.append(Loss(f"{file.path} was deleted", file.records))
            handed_over.popleft()


def _is_missing(path: Path) -> bool:
    """Whether the file does not exist; false if that cannot be told, such as on a volume that is unavailable."""
    try:
        path.stat()
    except OSError as error:
        return isinstance(error, FileNotFoundError | NotADirectoryError)
    return False
