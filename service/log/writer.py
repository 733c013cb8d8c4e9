"""The one connection by which a keeper's records get into the store.

Owns every statement that writes. All but ``cut`` is for one thread, which it may keep waiting.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DataError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from service.log import retention
from service.log.schema import bring_up_to_date
from service.log.store import TABLE, StoreFailed, connected_to, cut, is_file, said

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import URL, Connection, Engine

    from service.log.record import Row

CHUNK: Final = 200
"""Rows a statement: its parameters stay below SQLite's 32,766, and the interpreter is let go once for all of them."""
NAMES: Final = TABLE.columns.keys()
INSERT: Final = f"INSERT INTO {TABLE.name} ({', '.join(NAMES)})"


class Writer:
    """A store that is written; it is connected to, made and brought up to date where that is needed."""

    def __init__(self, url: URL, seconds: float, *, durable: bool = False) -> None:
        """``seconds`` is the patience with it; with ``durable`` each commit is on the disk of SQLite, or of the server, when it is done."""
        self._is_file = is_file(url)
        self._database = url.database
        self._engine = (_file if self._is_file else _server)(url, seconds, durable=durable)
        self._connection: Connection | None = None
        self._driver: Any = None
        self._lock = threading.Lock()
        self._one = f"({', '.join(['?' if self._is_file else '%s'] * len(NAMES))})"

    def open(self) -> None:
        """The store can be written.

        Raises:
            StoreFailed: it cannot.
        """
        with self._failing():
            self._opened()

    def write(self, rows: Sequence[Row]) -> int:
        """All of the rows are in the store, those that were there before once; how many it refuses for what they are, which no other try would change.

        Raises:
            StoreFailed: and none of them is, for all that is known.
        """
        with self._failing():
            connection = self._opened()
            try:
                self._inserted(connection, rows)
            except DataError:
                connection.rollback()
                return sum(self._refused(connection, row) for row in rows)
            return 0

    def trim(self, oldest: str | None, size: int | None) -> int:
        """Delete some of what is older than the id ``oldest``, or more than ``size`` bytes; how many records went.

        Raises:
            StoreFailed: nothing went, for all that is known.
        """
        with self._failing():
            return retention.trim(self._opened(), oldest, size)

    def cut(self) -> None:
        """Whatever the connection waits for ends, from any thread."""
        with self._lock:
            if self._driver is not None:
                cut(self._driver)

    def close(self) -> None:
        """The connection is let go."""
        with self._lock:
            self._driver = None  # first, so that nothing is cut that another has opened meanwhile
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError, OSError):  # one that failed may fail once more as it is let go
                connection.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What fails in the block closes the connection, and is said."""
        try:
            yield
        except (StoreFailed, SQLAlchemyError, OSError) as error:
            self.close()
            raise StoreFailed(said(error)) from error

    def _opened(self) -> Connection:
        if self._connection is None:
            if self._is_file and self._database:
                Path(self._database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = self._engine.connect()
            with self._lock:
                self._driver = self._connection.connection.driver_connection
            bring_up_to_date(self._connection)
        return self._connection

    def _inserted(self, connection: Connection, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            values = tuple(value for row in part for value in self._values(row))
            connection.exec_driver_sql(f"{INSERT} VALUES {', '.join([self._one] * len(part))} ON CONFLICT DO NOTHING", values)
        connection.commit()

    def _refused(self, connection: Connection, row: Row) -> bool:
        try:
            self._inserted(connection, [row])
        except DataError:
            connection.rollback()
            return True
        return False

    def _values(self, row: Row) -> tuple[Any, ...]:
        decision_id, *others = (getattr(row, name) for name in NAMES)
        return (decision_id.replace("-", "") if self._is_file else decision_id, *others)


def _file(url: URL, seconds: float, *, durable: bool) -> Engine:
    """SQLite: readers never wait, and what is deleted gives its room back."""
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": seconds, "check_same_thread": False})

    def prepare(connection: Any, _: Any) -> None:
        for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", f"synchronous={'FULL' if durable else 'NORMAL'}", "journal_size_limit=67108864"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)
    return engine


def _server(url: URL, seconds: float, *, durable: bool) -> Engine:
    """PostgreSQL, whose commits are as safe as it is set up, or on its disk at least."""
    options = {"synchronous_commit": "on"} if durable else {}
    return create_engine(url, poolclass=NullPool, connect_args=connected_to(url, seconds, **options))
