"""Retention: records that are too old, or beyond the size limit, are deleted, the oldest first.

Each call does limited work, so that no writer waits for long.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from service.log.store import TABLE

if TYPE_CHECKING:
    from sqlalchemy import Connection

MAX_DELETED: Final = 1000
"""The maximum number of records that one call deletes."""
MAX_RELEASED_PAGES: Final = 4096
"""The maximum number of free pages of SQLite's file that one call releases."""
SAMPLE: Final = 200
"""The number of newest records from which the size of a record is estimated."""


def trim(connection: Connection, oldest: str | None, size: int | None) -> int:
    """Delete the oldest records of a log larger than ``size`` bytes, or those with an id below ``oldest``.

    Returns the number of deleted records, fewer than ``MAX_DELETED`` if there is nothing left to do.
    """
    if size is not None and size_of(connection) > size:
        deleted = _delete(connection, None)
    else:
        deleted = 0 if oldest is None else _delete(connection, oldest)
    if deleted and connection.dialect.name == "postgresql":
        # Otherwise the next call would see old statistics, and delete too many.
        connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
    connection.commit()
    if deleted and connection.dialect.name == "sqlite":
        _release_pages(connection)
    return deleted


def _release_pages(connection: Connection) -> None:
    """Shorten SQLite's file by some of its free pages."""
    statement = f"PRAGMA incremental_vacuum({MAX_RELEASED_PAGES})"
    try:
        # It releases one page per step, and ``execute`` runs only one step.
        connection.connection.driver_connection.executescript(statement)  # type: ignore[union-attr]  # there is one
    except sqlite3.Error as error:  # not converted, as SQLAlchemy did not run the statement
        raise DBAPIError(statement, None, error) from error


def _delete(connection: Connection, below: str | None) -> int:
    """Delete the oldest records; while there are none, no lock is taken, for which a writer might have to wait."""
    oldest = select(TABLE.c.decision_id).order_by(TABLE.c.decision_id).limit(MAX_DELETED)
    if below is not None:
        oldest = oldest.where(TABLE.c.decision_id < below)
    if connection.execute(oldest.limit(1)).first() is None:
        return 0
    return connection.execute(TABLE.delete().where(TABLE.c.decision_id.in_(oldest))).rowcount


def size_of(connection: Connection) -> int:
    """The approximate size of the records in bytes.

    For PostgreSQL it is the server's own count of live rows times the average size of the newest: counting would read
    all rows, and its files do not shrink when rows are deleted. After a crash the server counts again from zero, and
    rows are deleted later.
    """
    if connection.dialect.name == "sqlite":
        pages, free, page = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * page)
    newest = f"SELECT * FROM {TABLE.name} ORDER BY decision_id DESC LIMIT {SAMPLE}"  # noqa: S608  # our own names
    one = f"SELECT coalesce(avg(pg_column_size(d.*)), 0) FROM ({newest}) d"  # noqa: S608  # our own names
    live = f"SELECT n_live_tup FROM pg_stat_user_tables WHERE relid = '{TABLE.name}'::regclass"  # noqa: S608  # our own names
    return int(connection.exec_driver_sql(f"SELECT ({live}) * ({one})").scalar_one() or 0)
