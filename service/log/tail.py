"""New records for ``log tail``.

Several processes write, so a record may arrive after one that was made later. It is shown if it arrives within some
seconds; spilled records that are replayed later are not shown.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from service.log.query import BATCH, MAX_SCANNED, MAX_SIZE
from service.log.record import first_id, made_at, record
from service.log.store import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.record import LogRecord
    from service.log.store import Store

MAX_LATENESS: Final = timedelta(seconds=10)
"""The maximum age of a new record relative to the newest one."""


class LogTail:
    """The newest records of a store, and then new ones."""

    def __init__(self, store: Store, number: int) -> None:
        """Find at most ``number`` records. Iterating over ``newest`` reads them, the newest last.

        Raises:
            StoreFailed: the store cannot be queried.
        """
        self._store = store
        newest = store.ids(select(TABLE.c.decision_id).order_by(TABLE.c.decision_id.desc()).limit(max(1, number)))
        self._since: str | None = None
        self._seen: set[str] = set()
        if newest:
            self._since = first_id(made_at(newest[0]) - MAX_LATENESS)
            self._seen = {found for found in self._ids() if found <= newest[0]}
        self.newest = self._records(newest[:number][::-1])

    def new_records(self) -> Iterator[LogRecord]:
        """The records since the last call, the newest last.

        Raises:
            StoreFailed: the store cannot be queried.
        """
        ids = self._ids()
        new = [found for found in ids if found not in self._seen]
        yield from self._records(new)
        self._seen = set(ids)
        if ids:
            self._since = ids[-1] if len(ids) == MAX_SCANNED else first_id(made_at(ids[-1]) - MAX_LATENESS)

    def _records(self, ids: list[str]) -> Iterator[LogRecord]:
        """The records of ids in ascending order; few of them are in memory at once."""
        start = 0
        while start < len(ids):
            batch = ids[start : start + BATCH]
            query = select(TABLE).where(TABLE.c.decision_id.in_(batch)).order_by(TABLE.c.decision_id)
            rows, has_more = self._store.rows(query, MAX_SIZE)
            yield from map(record, rows)
            start = bisect_right(ids, rows[-1].decision_id) if has_more else start + len(batch)

    def _ids(self) -> list[str]:
        query = select(TABLE.c.decision_id)
        if self._since is not None:
            query = query.where(TABLE.c.decision_id >= self._since)
        return self._store.ids(query.order_by(TABLE.c.decision_id).limit(MAX_SCANNED))
