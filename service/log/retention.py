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
SAMPLE: Final = 256
"""The pages of PostgreSQL's table, of 8 KiB, from which the size of a row is estimated."""
MAX_ROW: Final = 2000
"""Bytes above which PostgreSQL stores a row's long values outside of it, in chunks of at most as many bytes each."""
ROW_HEADER: Final = 28
"""Bytes of a row before its values."""


def trim(connection: Connection, oldest: str | None, size: int | None) -> int:
    """Delete the oldest records of a log larger than ``size`` bytes, or those with an id below ``oldest``.

    Returns the number of deleted records, fewer than ``MAX_DELETED`` if there is nothing left to do.
    """
    if size is not None and is_larger(connection, size):
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


def is_larger(connection: Connection, size: int) -> bool:
    """Whether the records have more than about ``size`` bytes."""
    if connection.dialect.name == "sqlite":
        pages, free, page = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * page) > size
    files = f"SELECT pg_total_relation_size('{TABLE.name}')"  # our own name
    # The files do not shrink when rows are deleted, but while even they are within the limit, nothing is estimated.
    return bool(connection.exec_driver_sql(files).scalar_one() > size and _rows_size(connection) > size)


def _rows_size(connection: Connection) -> int:
    """The approximate size of PostgreSQL's live rows in bytes.

    It is the server's own count of rows times their average size in a sample of the table's pages, and the count of the
    chunks in which it stores long values. Of a row above ``MAX_ROW`` the larger of its two long values is in chunks,
    and if the rest is still above it, the other too: what remains is small, so a few large records do not change the
    average. Counting would read all rows. After a crash the server counts again from zero, and rows are deleted later.
    """
    name = f"'{TABLE.name}'::regclass"
    pages = f"SELECT pg_relation_size({name}) / current_setting('block_size')::bigint"  # our own name
    percent = min(100.0, 100.0 * SAMPLE / max(1, connection.exec_driver_sql(pages).scalar_one()))
    values = " + ".join(f"coalesce(pg_column_size({column.name}), 0)" for column in TABLE.c)
    long = "pg_column_size(input) AS input, pg_column_size(result) AS result"
    sample = f"SELECT {values} AS size, {long} FROM {TABLE.name} TABLESAMPLE SYSTEM ({percent})"  # noqa: S608  # as above
    remains = (
        f"CASE WHEN size <= {MAX_ROW} THEN size "
        f"WHEN size - greatest(input, result) <= {MAX_ROW} THEN size - greatest(input, result) "
        f"ELSE least(size - input - result, {MAX_ROW}) END"
    )
    row = f"SELECT coalesce(avg({remains} + {ROW_HEADER}), 0) FROM ({sample}) sample"  # noqa: S608  # as above
    counts = f"pg_stat_get_live_tuples(oid) * ({row}) + pg_stat_get_live_tuples(reltoastrelid) * {MAX_ROW}"
    return int(connection.exec_driver_sql(f"SELECT {counts} FROM pg_class WHERE oid = {name}").scalar_one())  # noqa: S608  # as above
