"""The connection through which a log worker writes to the store.

Owns every statement that writes. A record is only acknowledged if the store has it: a SQLite file that was deleted,
replaced or damaged is abandoned for a new one. Only ``abort`` may be called from other threads; the rest may block.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import create_engine, event, select
from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from service.log import retention
from service.log.damage import DamageCheck, is_damage
from service.log.file import DatabaseFile, Loss
from service.log.schema import VERSIONS, migrate
from service.log.store import TABLE, StoreFailed, abort, connect_args, error_text, is_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import URL, Connection, Engine

    from service.log.record import StoredRow

CHUNK: Final = 200
"""Rows per statement: below SQLite's 32,766 parameters, and the interpreter lock is released only once."""
NAMES: Final = TABLE.columns.keys()
ATTEMPTS: Final = 3
"""How many files in a row may be lost before a record is spilled."""
T = TypeVar("T")
INSERT: Final = f"INSERT INTO {TABLE.name} ({', '.join(NAMES)})"


class _FilesReplaced(Exception):
    """The open files are not those at the path; nothing was written."""


class Writer:
    """Writes to a store, and connects to it, creates it and migrates it when needed.

    ``losses`` has the lost files; any thread may consume them.
    """

    def __init__(self, url: URL, seconds: float, *, durable: bool = False) -> None:
        """``seconds`` is the timeout; with ``durable`` each commit is synced to disk."""
        self._is_file = is_file(url)
        self._files = DatabaseFile(Path(url.database or ""), seconds) if self._is_file else None
        self._check = DamageCheck(self._files) if self._files is not None else None
        self.losses: deque[Loss] = deque()
        self._engine = (_file if self._is_file else _server)(url, seconds, durable=durable)
        self._connection: Connection | None = None
        self._driver: Any = None
        self._lock = threading.Lock()
        self._one = f"({', '.join(['?' if self._is_file else '%s'] * len(NAMES))})"
        self._written = 0
        """Records that this process wrote to the current store."""
        self._last: str | None = None
        """The id of the last of these records."""
        self._fault: str | None = None
        """Why these records may be lost; ``None`` if they are not."""

    def open(self) -> None:
        """Check that the store can be written.

        Raises:
            StoreFailed: it cannot.
        """
        self._run(lambda _: None)

    def write(self, rows: Sequence[StoredRow]) -> int:
        """Write rows, skipping those already there; return the number that the store refuses permanently.

        It refuses invalid values, and a trigger or rule of the database may leave rows out.

        Raises:
            StoreFailed: as far as is known, none was written.
        """
        refused = self._run(lambda connection: self._insert(connection, rows))
        self._written += len(rows) - refused
        if rows and not refused:
            self._last = rows[-1].decision_id
        return refused

    def has(self, decision_id: str) -> bool:
        """Whether the store has a record.

        Raises:
            StoreFailed: it cannot be queried.
        """
        return self._run(lambda connection: _has(connection, decision_id))

    def trim(self, oldest: str | None, size: int | None) -> int:
        """Delete some records older than the id ``oldest``, or beyond ``size`` bytes; return their number.

        Raises:
            StoreFailed: as far as is known, none was deleted.
        """
        return self._run(lambda connection: retention.trim(connection, oldest, size))

    def check_for_damage(self) -> None:
        """Start a damage check of a SQLite file, if it is due; the next task sees its result."""
        if self._check is not None:
            self._check.start_when_due()

    def abort(self) -> None:
        """Abort what the connection waits for; may be called from any thread."""
        with self._lock:
            if self._driver is not None:
                abort(self._driver)

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        if self._files is not None:
            self._files.mark_closed()

    def _disconnect(self) -> None:
        with self._lock:
            self._driver = None  # first, so that a connection opened meanwhile is not aborted
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError, OSError):  # a failed connection may fail again when closed
                connection.close()

    def _run(self, task: Callable[[Connection], T]) -> T:
        """Run a task; if the files were lost meanwhile, run it again with new ones.

        Raises:
            StoreFailed: the store failed; the connection is closed.
        """
        try:
            return self._run_with_retries(task)
        except (StoreFailed, SQLAlchemyError, OSError) as error:
            self.close()
            raise StoreFailed(error_text(error)) from error

    def _run_with_retries(self, task: Callable[[Connection], T]) -> T:
        for _ in range(ATTEMPTS):
            try:
                found = task(self._open_connection())
            except _FilesReplaced:
                continue
            except DBAPIError as error:
                if not self._is_file_error(error):
                    raise
            else:
                if self._is_in_place():
                    return found
        raise StoreFailed("the files of the log keep being deleted, replaced or damaged")

    def _is_in_place(self) -> bool:
        return self._files is None or self._files.fault() is None

    def _is_file_error(self, error: DBAPIError) -> bool:
        """Whether an error is caused by lost or damaged files, so that a retry uses new ones."""
        files = self._files
        if files is None or files.identity is None:
            return False
        if files.fault() is None and self._connection is not None and is_damage(error.orig):
            files.report_damage(files.identity, f"{files.path} is damaged ({error_text(error)})")
        return files.fault() is not None

    def _open_connection(self) -> Connection:
        """The connection, reopened if its files were lost."""
        files = self._files
        if self._connection is not None and self._is_in_place():
            return self._connection
        if files is None:
            connection = self._connect()
            is_new = self._prepare(connection)
        else:
            with files.locked():
                self._abandon(files)
                is_new = self._open_files(files)
        assert self._connection is not None
        self._find_loss(self._connection, is_new=is_new)
        return self._connection

    def _connect(self) -> Connection:
        self._connection = self._engine.connect()
        with self._lock:
            self._driver = self._connection.connection.driver_connection
        return self._connection

    def _prepare(self, connection: Connection) -> bool:
        """Migrate the schema, and check that the store can be written; return whether the table was created."""
        is_new = migrate(connection)
        if self._is_file:
            connection.exec_driver_sql(f"UPDATE {VERSIONS} SET version_num = version_num")  # noqa: S608  # our own name
            connection.commit()
        else:
            connection.exec_driver_sql(f"{INSERT} SELECT {', '.join(NAMES)} FROM {TABLE.name} WHERE false")  # noqa: S608  # our own names
            connection.rollback()
        return is_new

    def _open_files(self, files: DatabaseFile) -> bool:
        """Open the files at the path, creating missing ones; return whether the table was created."""
        before, known = files.create(), files.identity
        try:
            is_new = self._prepare(self._connect())
        except DBAPIError as error:
            # A file that is not a database is only set aside if it was one before: the setting may name any file.
            if is_damage(error.orig, also_foreign=before == known):
                files.mark_opened()
                files.report_damage(files.identity, f"{files.path} is damaged ({error_text(error)})")
            raise
        files.mark_opened()
        if files.identity != before:
            raise StoreFailed(f"{files.path} was replaced while it was opened")
        return is_new

    def _abandon(self, files: DatabaseFile) -> None:
        """Abandon lost files, and set aside the rest, so that it does not become part of the next database."""
        fault = files.fault()
        if fault is None:
            return
        if self._check is not None:
            self._check.stop()
        if files.damage() is not None:
            self._disconnect()
            if files.is_in_place():
                fault += f"; it was renamed to {files.set_aside('damaged').name}"
        elif not files.is_in_place():
            self._complete(files)
            self._disconnect()
            files.set_aside("lost")
        elif files.is_replaced("-wal") or files.is_replaced("-shm"):
            self._disconnect()  # another connection has new ones, which the old index does not cover
        else:
            is_complete = self._complete(files)
            self._disconnect()
            if not is_complete:
                files.set_aside("lost", "-wal", "-shm")
        self._fault = fault

    def _complete(self, files: DatabaseFile) -> bool:
        """Copy committed data from the write-ahead log into the database; return whether it is complete."""
        try:
            if self._connection is None or files.damage() is not None:
                return False
            self._connection.rollback()
            return bool(self._connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar_one() == 0)
        except SQLAlchemyError:
            return False

    def _find_loss(self, connection: Connection, *, is_new: bool) -> None:
        """Check that the store still has this process's last record, unless the retention deleted it."""
        what = self._fault or (f"the table `{TABLE.name}` was dropped" if is_new and self._written else None)
        is_lost = False
        if self._last is not None and not _has(connection, self._last):
            oldest = connection.execute(select(TABLE.c.decision_id).order_by(TABLE.c.decision_id).limit(1)).scalar()
            is_lost = what is not None or (oldest is not None and str(oldest) < self._last)
        connection.rollback()
        if is_lost or what is not None:
            self.losses.append(
                Loss(what or "the store does not have the last records any more", self._written if is_lost else 0)
            )
        if is_lost:
            self._written, self._last = 0, None
        self._fault = None

    def _insert(self, connection: Connection, rows: Sequence[StoredRow]) -> int:
        """Insert rows; return the number that the store refuses."""
        try:
            return self._insert_all(connection, rows)
        except DataError:
            connection.rollback()
            return sum(self._insert_one(connection, row) for row in rows)

    def _insert_all(self, connection: Connection, rows: Sequence[StoredRow]) -> int:
        """Insert rows; return the number that was left out without an error."""
        missing = 0
        if self._is_file:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            if not self._is_in_place():  # other processes may have new files that share the index with these
                connection.rollback()
                raise _FilesReplaced
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            values = tuple(value for row in part for value in self._values(row))
            done = connection.exec_driver_sql(
                f"{INSERT} VALUES {', '.join([self._one] * len(part))} ON CONFLICT DO NOTHING", values
            )
            if done.rowcount != len(part):  # some were stored before, or were left out
                missing += _missing(connection, part)
        connection.commit()
        return missing

    def _insert_one(self, connection: Connection, row: StoredRow) -> int:
        try:
            return self._insert_all(connection, [row])
        except DataError:
            connection.rollback()
            return 1

    def _values(self, row: StoredRow) -> tuple[Any, ...]:
        decision_id, *others = (getattr(row, name) for name in NAMES)
        return (decision_id.replace("-", "") if self._is_file else decision_id, *others)


def _missing(connection: Connection, rows: Sequence[StoredRow]) -> int:
    """How many of the rows are not in the store."""
    wanted = {row.decision_id for row in rows}
    found = connection.execute(select(TABLE.c.decision_id).where(TABLE.c.decision_id.in_(wanted))).scalars()
    return len(wanted.difference(found))


def _has(connection: Connection, decision_id: str) -> bool:
    found = connection.execute(select(TABLE.c.decision_id).where(TABLE.c.decision_id == decision_id)).first()
    connection.rollback()
    return found is not None


def _file(url: URL, seconds: float, *, durable: bool) -> Engine:
    """An engine for SQLite whose readers never wait and whose deleted records free their space."""
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": seconds, "check_same_thread": False})

    def prepare(connection: Any, _: Any) -> None:
        for pragma in (
            "auto_vacuum=INCREMENTAL",
            "journal_mode=WAL",
            f"synchronous={'FULL' if durable else 'NORMAL'}",
            "journal_size_limit=67108864",
        ):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)
    return engine


def _server(url: URL, seconds: float, *, durable: bool) -> Engine:
    """An engine for PostgreSQL with the server's durability, or at least synced to its disk with ``durable``."""
    options = {"synchronous_commit": "on"} if durable else {}
    return create_engine(url, poolclass=NullPool, connect_args=connect_args(url, seconds, **options))
