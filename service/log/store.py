"""The store of the decision log: one table, in SQLite or PostgreSQL, as it is read.

Owns the table, the URLs, how the two databases are connected to, and what may be said of their errors. ``writer``
is the side that writes.
"""

from __future__ import annotations

import socket
import sqlite3
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Timer
from typing import TYPE_CHECKING, Any, Final
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
from service.log.record import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine, Select

CONNECTIONS: Final = 4
"""How many questions one process asks at once."""

UNDEFINED_TABLE: Final = "42P01"
"""PostgreSQL's code for it."""

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
"""``decision_id`` is a UUID of version 7, so its order is that of time. What is JSON is kept as the text that it was."""


class StoreFailed(PolicyError):
    """The store could not be asked or written."""


class StoreNotCreated(StoreFailed):
    """Nothing was ever written to the store: its file or its table is not there."""


class InvalidStoreUrl(PolicyError):
    """The URL names no store that there is."""


def read_url(text: str) -> URL:
    """The URL of a store: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user:password@host/database``.

    Raises:
        NoStore: it is none; nothing that could be a part of a password is repeated.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise InvalidStoreUrl(
            "invalid URL of a decision log; write `sqlite:////var/lib/log.db`, `postgresql://user:password@host/database` or `off`"
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
        "unsupported kind of decision log; write `sqlite:////var/lib/log.db` or `postgresql://user:password@host/database`"
    )


def is_file(url: URL) -> bool:
    """Whether the store is a file of SQLite."""
    return url.get_backend_name() == "sqlite"


def connect_args(url: URL, seconds: float, **options: str) -> dict[str, Any]:
    """How PostgreSQL is connected to: it has ``seconds`` to let us in, and for each statement; ``options`` are settings of the session."""
    patience = max(2, round(seconds))
    settings = {"statement_timeout": f"{patience}s", "lock_timeout": f"{patience}s", **options}
    own = {
        "connect_timeout": patience,
        "tcp_user_timeout": patience * 1000,
        "keepalives_idle": patience,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "application_name": "runner-policy",
        "client_encoding": "utf8",
        "prepare_threshold": None,
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }
    return {name: value for name, value in own.items() if name not in url.query}


def cut(driver: Any) -> None:
    """Whatever a driver's connection waits for ends, from any thread; a server that hangs is hung up on.

    SQLite's wait for a lock is not cut, which ends by itself.
    """
    with suppress(Exception):  # a connection that is gone needs no cut
        if isinstance(driver, sqlite3.Connection):
            driver.interrupt()
        else:
            with socket.socket(fileno=socket.dup(driver.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)


def error_text(error: BaseException) -> str:
    """What a database says, in a line, without the statement and without a value of a record."""
    original = getattr(error, "orig", None) or error
    if isinstance(error, DataError):
        return f"a record is refused ({type(original).__name__})"
    return str(original).strip().partition("\n")[0] or type(original).__name__


class Store:
    """A store that is asked; nothing is asked of it before the first question, and nothing is made that is not there. Any thread may ask."""

    def __init__(self, url: URL, seconds: float, *, many: bool = False) -> None:
        """``seconds`` is the patience with each question; with ``many`` several may be asked at once.

        Each has a connection of its own, as a server may have ended any that is kept, or hang before it says so.
        """
        self.url = url
        self._seconds = seconds
        self._turns = BoundedSemaphore(CONNECTIONS if many else 1)
        self._engine = (_file if is_file(url) else _server)(url, seconds)

    def rows(self, query: Select[Any]) -> list[Row]:
        """The rows that a query finds, which selects the table's columns.

        Raises:
            StoreFailed: the store cannot be asked.
        """
        with self._connection() as connection:
            return [Row(*found) for found in connection.execute(query)]

    def values(self, query: Select[Any]) -> list[Any]:
        """The first value of each row that a query finds.

        Raises:
            StoreFailed: the store cannot be asked.
        """
        with self._connection() as connection:
            return list(connection.execute(query).scalars())

    def scalar(self, query: Select[Any]) -> Any:
        """The one value that a query finds, or ``None``.

        Raises:
            StoreFailed: the store cannot be asked.
        """
        return next(iter(self.values(query)), None)

    def close(self) -> None:
        """Let all connections go."""
        self._engine.dispose()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A connection for one question, which is cut off where it takes too long: a server that hangs keeps no time of its own."""
        if not self._turns.acquire(timeout=self._seconds):
            raise StoreFailed("too many queries at once")
        try:
            with self._engine.connect() as connection:
                timer = Timer(self._seconds, cut, [connection.connection.driver_connection])
                timer.daemon = True
                timer.start()
                try:
                    yield connection
                finally:
                    timer.cancel()
        except (SQLAlchemyError, OSError) as error:
            raise (StoreNotCreated if self._is_not_created(error) else StoreFailed)(error_text(error)) from error
        finally:
            self._turns.release()

    def _is_not_created(self, error: Exception) -> bool:
        if is_file(self.url):
            return not Path(self.url.database or "").exists() or "no such table" in str(error)
        return getattr(getattr(error, "orig", None), "sqlstate", None) == UNDEFINED_TABLE


def _file(url: URL, seconds: float) -> Engine:
    """SQLite, without ever making the file."""
    uri = f"file:{quote(url.database or '')}?mode=rw"
    engine = create_engine(
        url,
        creator=lambda: sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False),
        poolclass=NullPool,
    )
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA query_only=ON"))
    return engine


def _server(url: URL, seconds: float) -> Engine:
    """PostgreSQL, in transactions that only read."""
    return create_engine(
        url, connect_args=connect_args(url, seconds, default_transaction_read_only="on"), poolclass=NullPool
    )
