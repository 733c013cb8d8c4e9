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
MAX_SEEN: Final = 200_000
"""The maximum number of ids in memory, about 30 MB. Of more within that age the oldest are forgotten; records as late
as those are not shown."""


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
            for ids in self._pages(newest[0]):
                self._mark_seen(ids)
        self.newest = self._records(newest[:number][::-1])

    def new_records(self) -> Iterator[LogRecord]:
        """The records since the last call, the newest last.

        Raises:
            StoreFailed: the store cannot be queried.
        """
        for ids in self._pages():
            yield from self._records([found for found in ids if found not in self._seen])
            self._mark_seen(ids)

    def _mark_seen(self, ids: list[str]) -> None:
        """Remember ids, the last page in ascending order, and forget those that are too old or too many."""
        self._seen.update(ids)
        since = first_id(made_at(ids[-1]) - MAX_LATENESS)
        if len(self._seen) > MAX_SEEN:
            since = max(since, sorted(self._seen)[-MAX_SEEN])
        if self._since is None or since > self._since:
            self._since = since
            self._seen = {found for found in self._seen if found >= since}

    def _records(self, ids: list[str]) -> Iterator[LogRecord]:
        """The records of ids in ascending order; few of them are in memory at once."""
        start = 0
        while start < len(ids):
            batch = ids[start : start + BATCH]
            query = select(TABLE).where(TABLE.c.decision_id.in_(batch)).order_by(TABLE.c.decision_id)
            rows, has_more = self._store.rows(query, MAX_SIZE)
            yield from map(record, rows)
            start = bisect_right(ids, rows[-1].decision_id) if has_more else start + len(batch)

    def _pages(self, last: str | None = None) -> Iterator[list[str]]:
        """The ids in ascending order from ``_since`` on, up to ``last``, in parts that one query scans."""
        query = select(TABLE.c.decision_id).order_by(TABLE.c.decision_id).limit(MAX_SCANNED)
        if last is not None:
            query = query.where(TABLE.c.decision_id <= last)
        start = query if self._since is None else query.where(TABLE.c.decision_id >= self._since)
        ids = self._store.ids(start)
        while ids:
            yield ids
            ids = self._store.ids(query.where(TABLE.c.decision_id > ids[-1])) if len(ids) == MAX_SCANNED else []
