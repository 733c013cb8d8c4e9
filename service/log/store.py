"""Reading the store of the decision log: one table, in SQLite or PostgreSQL.

Owns the table, the URLs, the connections to both databases, and the text of their errors. Not here: writing
(``writer``).
"""

from __future__ import annotations

import socket
import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Column,
    MetaData,
    String,
    Table,
    Text,
    Uuid,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.exc import ArgumentError, DataError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from policy.errors import PolicyError
from service.log.record import InvalidRow, read_row, row_size, time_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Engine, Select

    from service.log.record import StoredRow

FETCH_SIZE: Final = 32
"""Rows fetched from the database at once: one may have some megabytes, and each fetch is a round trip to a server."""
FETCH_OPTIONS: Final = {"yield_per": FETCH_SIZE}

UNDEFINED_TABLE: Final = "42P01"
"""PostgreSQL's error code for a missing table."""
ALTERED_STATES: Final = frozenset({"42703", "42804", "42883"})
"""PostgreSQL's error codes for a missing column, and for a type to which a value cannot be compared."""
ALTERED_TABLE: Final = (
    "the table `decisions` was changed by hand; restore it, or rename it, and the service makes a new one: {error}"
)
"""The message for a table whose columns are not those that were created."""
INVALID_RECORD: Final = (
    "a record was changed by hand{which}; restore it or delete it, or read the others with `since` and `until`: {error}"
)
"""The message for a value that no service wrote."""

TABLE: Final = Table(
    "decisions",
    MetaData(),
    Column("decision_id", Uuid(as_uuid=False), primary_key=True),
    Column("requested_by", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("runner", String(2)),
    Column("outcome", Text),
    Column("starts", Boolean, nullable=False),
    Column("vllm_version", Text, nullable=False),
    Column("revision", Text, nullable=False),
    Column("nanoseconds", BigInteger, nullable=False),
    Column("erased", Boolean, nullable=False),
    Column("labels", Text, nullable=False),
    Column("input", Text, nullable=False),
    Column("result", Text, nullable=False),
)
"""``decision_id`` is a UUID of version 7, so its order is chronological. JSON is stored as text."""


class StoreFailed(PolicyError):
    """The store could not be read or written."""


class StoreNotCreated(StoreFailed):
    """Nothing was ever written to the store: its file or table does not exist."""


class InvalidStoreUrl(PolicyError):
    """The URL does not name a supported store."""


def read_url(text: str) -> URL:
    """Parse the URL of a store.

    It is ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user:password@host/database``.

    Raises:
        InvalidStoreUrl: it is none of these; the message has no part that could belong to a password.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise InvalidStoreUrl(
            "invalid decision log URL; write `sqlite:////var/lib/log.db`, "
            "`postgresql://user:password@host/database` or `off`"
        ) from error
    kind = url.get_backend_name()
    if kind == "sqlite":
        if not url.database or url.database == ":memory:" or url.query:
            raise InvalidStoreUrl(
                "a decision log in SQLite is a file, with nothing after its name; write `sqlite:////var/lib/log.db`"
            )
        return url.set(drivername="sqlite+pysqlite")
    if kind in {"postgresql", "postgres"}:
        if "@" in f"{url.host}{url.database}":
            raise InvalidStoreUrl(
                "the password has a character that is special in a URL; write it percent-encoded, `%2F` for `/`"
            )
        return url.set(drivername="postgresql+psycopg")
    raise InvalidStoreUrl(
        "unsupported kind of decision log; write `sqlite:////var/lib/log.db` "
        "or `postgresql://user:password@host/database`"
    )


def is_file(url: URL) -> bool:
    """Whether the store is a file of SQLite."""
    return url.get_backend_name() == "sqlite"


def connect_args(url: URL, seconds: float, **options: str) -> dict[str, Any]:
    """The arguments of a PostgreSQL connection: ``seconds`` to connect and for each statement, and session options."""
    timeout = max(2, round(seconds))
    settings = {"statement_timeout": f"{timeout}s", "lock_timeout": f"{timeout}s", **options}
    own = {
        "connect_timeout": timeout,
        "tcp_user_timeout": timeout * 1000,
        "keepalives_idle": timeout,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "application_name": "runner-policy",
        "client_encoding": "utf8",
        "prepare_threshold": None,
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }
    return {name: value for name, value in own.items() if name not in url.query}


def abort(driver: Any) -> None:
    """Abort what a driver's connection waits for, from any thread; the connection to a hanging server is closed.

    SQLite's wait for a lock is not aborted; it times out.
    """
    with suppress(Exception):  # the connection may be closed already
        if isinstance(driver, sqlite3.Connection):
            driver.interrupt()
        else:
            with socket.socket(fileno=socket.dup(driver.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)


def error_text(error: BaseException) -> str:
    """A database's message in one line, without the statement and without a value of a record."""
    original = getattr(error, "orig", None) or error
    if isinstance(error, DataError):
        return f"the store refused a record ({type(original).__name__})"
    return str(original).strip().partition("\n")[0] or type(original).__name__


class QueryRows(NamedTuple):
    """Rows of a query, and whether more were left out because of the size."""

    rows: list[StoredRow]
    has_more: bool


class Store:
    """Reads a store, from any thread; connects for each query, and never creates the store."""

    def __init__(self, url: URL, seconds: float) -> None:
        """``seconds`` is the timeout of a query.

        Each query has its own connection: a server may have closed an older one, or hang without an error.
        """
        self.url = url
        self._seconds = seconds
        self._engine = (_file if is_file(url) else _server)(url, seconds)

    def rows(self, query: Select[Any], size: int) -> QueryRows:
        """The first rows of a query that selects the table's columns: up to ``size`` bytes, and at least one row.

        Raises:
            StoreFailed: the store cannot be queried.
        """
        rows: list[StoredRow] = []
        with self._connection() as connection, connection.execute(query, execution_options=FETCH_OPTIONS) as result:
            for found in result:
                row = _read(found)
                size -= row_size(row)
                if rows and size < 0:
                    return QueryRows(rows, has_more=True)
                rows.append(row)
        return QueryRows(rows, has_more=False)

    def ids(self, query: Select[Any]) -> list[str]:
        """The ids of decisions that a query selects.

        Raises:
            StoreFailed: the store cannot be queried.
        """
        found: list[str] = self._values(query)
        for decision_id in found:
            try:
                time_of(decision_id)
            except InvalidRow as error:
                raise StoreFailed(INVALID_RECORD.format(which=f", {decision_id}", error=error)) from error
        return found

    def scalar(self, query: Select[Any]) -> Any:
        """The first value of a query, or ``None``.

        Raises:
            StoreFailed: the store cannot be queried.
        """
        return next(iter(self._values(query)), None)

    def _values(self, query: Select[Any]) -> list[Any]:
        with self._connection() as connection:
            return list(connection.execute(query).scalars())

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A connection for one query, aborted on timeout: a hanging server does not enforce its own."""
        is_there = not is_file(self.url) or Path(self.url.database or "").exists()  # a writer may create it meanwhile
        try:
            with self._engine.connect() as connection:
                timer = Timer(self._seconds, abort, [connection.connection.driver_connection])
                timer.daemon = True
                timer.start()
                try:
                    yield connection
                finally:
                    timer.cancel()
        except (SQLAlchemyError, OSError) as error:
            message = error_text(error)
            if _is_altered(error):
                raise StoreFailed(ALTERED_TABLE.format(error=message)) from error
            is_created = is_there and not self._is_not_created(error)
            raise (StoreFailed if is_created else StoreNotCreated)(message) from error
        except ValueError as error:  # of a column's type, such as a text that is not a UUID
            raise StoreFailed(INVALID_RECORD.format(which="", error=error)) from error

    def _is_not_created(self, error: Exception) -> bool:
        if is_file(self.url):
            return not Path(self.url.database or "").exists() or "no such table" in str(error)
        return getattr(getattr(error, "orig", None), "sqlstate", None) == UNDEFINED_TABLE


def _read(values: Sequence[Any]) -> StoredRow:
    try:
        return read_row(values)
    except InvalidRow as error:
        raise StoreFailed(INVALID_RECORD.format(which=f", {values[0]}", error=error)) from error


def _is_altered(error: Exception) -> bool:
    """Whether a column does not exist, or has a different type than it was created with."""
    original = getattr(error, "orig", None)
    return getattr(original, "sqlstate", None) in ALTERED_STATES or str(original).startswith("no such column")


def _file(url: URL, seconds: float) -> Engine:
    """SQLite, read-only; the file is never created."""
    uri = f"file:{quote(url.database or '')}?mode=rw"
    engine = create_engine(
        url,
        creator=lambda: sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False),
        poolclass=NullPool,
    )
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=ON"))
    return engine


def _server(url: URL, seconds: float) -> Engine:
    """PostgreSQL, in read-only transactions."""
    return create_engine(
        url, connect_args=connect_args(url, seconds, default_transaction_read_only="on"), poolclass=NullPool
    )
