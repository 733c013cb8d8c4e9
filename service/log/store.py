"""The store of the decision log: one table, in SQLite or PostgreSQL.

Owns the connection, the schema's being up to date, and every statement. It blocks; ``log`` calls it from a
thread of its own, and the calls that read from others.
"""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Boolean, Column, MetaData, String, Table, Text, Uuid, create_engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from policy.errors import PolicyError
from service.log.record import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import URL, Connection, Engine, Select

HEAD: Final = "0001"
"""The newest migration; a store that has it needs no look at the others."""
CHUNK: Final = 200
"""Rows a statement: its parameters stay below SQLite's 32,766, and the interpreter is let go once for all of them."""
LOCK: Final = 7_083_227_170
"""The PostgreSQL advisory lock under which the schema is changed; any number that others do not take."""

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


class NoStore(PolicyError):
    """The URL names no store that there is."""


def read_url(text: str) -> URL:
    """The URL of a store: ``sqlite:///relative.db``, ``sqlite:////absolute.db`` or ``postgresql://user:password@host/database``.

    Raises:
        NoStore: it is none; a password in it is not repeated.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise NoStore("no URL of a decision log; write `sqlite:////var/lib/log.db`, `postgresql://user:password@host/database` or `off`") from error
    kind = url.get_backend_name()
    if kind == "sqlite":
        if not url.database or url.database == ":memory:":
            raise NoStore("a decision log in SQLite is a file; write `sqlite:////var/lib/log.db`")
        return url.set(drivername="sqlite+pysqlite")
    if kind in {"postgresql", "postgres"}:
        return url.set(drivername="postgresql+psycopg")
    raise NoStore(f"`{kind}` is no kind of decision log; `sqlite` and `postgresql` are")


class Store:
    """A store; its engine is made here, and nothing is asked of it before ``open`` or the first question."""

    def __init__(self, url: URL, seconds: float, *, durable: bool = False, many: bool = False) -> None:
        """``seconds`` is the patience with it; ``durable`` syncs each commit of SQLite to the disk; ``many`` keeps connections for several threads."""
        self.url = url
        self.is_file = url.get_backend_name() == "sqlite"
        self._seconds = seconds
        self._durable = durable
        self._engine = self._made(many=many)
        self._current: Any = None
        self._lock = threading.Lock()
        mark = "%s" if not self.is_file else "?"
        one = f"({', '.join([mark] * len(TABLE.columns))})"
        self._insert = {
            number: f"INSERT INTO {TABLE.name} ({', '.join(TABLE.columns.keys())}) VALUES {', '.join([one] * number)} ON CONFLICT DO NOTHING"  # noqa: S608  # our own names
            for number in (1, CHUNK)
        }

    def _made(self, *, many: bool) -> Engine:
        pool: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 2, "max_overflow": 2, "pool_timeout": self._seconds} if many else {"poolclass": NullPool}
        if self.is_file:
            engine = create_engine(self.url, connect_args={"timeout": self._seconds, "check_same_thread": False}, **pool)
            event.listen(engine, "connect", self._prepare)
            return engine
        patience = max(2, round(self._seconds))
        connect = {
            "connect_timeout": patience,
            "tcp_user_timeout": patience * 1000,
            "keepalives_idle": patience,
            "keepalives_interval": 2,
            "keepalives_count": 2,
            "application_name": "runner-policy",
            "options": f"-c statement_timeout={patience * 1000} -c lock_timeout={patience * 1000}",
        }
        return create_engine(self.url, connect_args=connect, **pool)

    def _prepare(self, connection: Any, _: Any) -> None:
        for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", f"synchronous={'FULL' if self._durable else 'NORMAL'}", "journal_size_limit=67108864"):
            connection.execute(f"PRAGMA {pragma}")

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, OSError) as error:
            raise StoreFailed(_said(error)) from error

    @contextmanager
    def kept(self) -> Iterator[Connection]:
        """A connection for as long as the block lasts, for ``write``; ``cut`` ends what it waits for.

        Raises:
            StoreFailed: there is none, or it failed in the block.
        """
        if self.is_file and self.url.database:
            with suppress(OSError):
                Path(self.url.database).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with self._connection() as connection:
                self._migrate(connection)
                with self._lock:
                    self._current = connection.connection.driver_connection
                yield connection
        finally:
            with self._lock:
                self._current = None

    def cut(self) -> None:
        """Whatever the kept connection waits for ends, from any thread: a server that hangs is hung up on."""
        with self._lock:
            if self._current is None:
                return
            if self.is_file:
                self._current.interrupt()
                return
            with suppress(Exception), socket.socket(fileno=socket.dup(self._current.fileno())) as line:  # a connection that is gone needs no cut
                line.shutdown(socket.SHUT_RDWR)

    def _migrate(self, connection: Connection) -> None:
        """Bring the schema up to date; of several that come at once, one does it and the others wait."""
        if _version(connection) == HEAD:
            return
        from alembic import command  # noqa: PLC0415  # a third of a second, for a store that is new or old
        from alembic.config import Config  # noqa: PLC0415  # as above

        connection.rollback()
        if self.is_file:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
        if _version(connection) != HEAD:
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        connection.commit()

    def write(self, connection: Connection, rows: Sequence[Row]) -> None:
        """All of the rows are in the store, those that were there before once.

        Raises:
            sqlalchemy.exc.SQLAlchemyError, OSError: and none of them is, for all that is known.
        """
        names = TABLE.columns.keys()
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            if len(part) == CHUNK:
                connection.exec_driver_sql(self._insert[CHUNK], tuple(self._values(part, names)))
            else:
                connection.exec_driver_sql(self._insert[1], [tuple(self._values([row], names)) for row in part])
        connection.commit()

    def _values(self, rows: Sequence[Row], names: Sequence[str]) -> Iterator[Any]:
        for row in rows:
            yield row.decision_id.replace("-", "") if self.is_file else row.decision_id
            for name in names[1:]:
                yield getattr(row, name)

    def trim(self, connection: Connection, oldest: str | None, size: int | None) -> int:
        """Delete records with an id below ``oldest``, and the oldest ones while the log is larger than ``size`` bytes; how many went.

        A call deletes a bounded part; what it returns is 0 when there is nothing left to do.
        """
        bound = None
        if oldest is not None:
            bound = connection.execute(
                select(TABLE.c.decision_id).where(TABLE.c.decision_id < oldest).order_by(TABLE.c.decision_id).offset(PART).limit(1)
            ).scalar()
            bound = bound or oldest
            gone = connection.execute(TABLE.delete().where(TABLE.c.decision_id < bound)).rowcount
            connection.commit()
            if gone:
                self._shrink(connection)
                return gone
        if size is not None and self.size(connection) > size:
            bound = connection.execute(select(TABLE.c.decision_id).order_by(TABLE.c.decision_id).offset(PART).limit(1)).scalar()
            if bound is not None:
                gone = connection.execute(TABLE.delete().where(TABLE.c.decision_id < bound)).rowcount
                connection.commit()
                self._shrink(connection)
                return gone
        return 0

    def _shrink(self, connection: Connection) -> None:
        if self.is_file:
            connection.exec_driver_sql("PRAGMA incremental_vacuum(4096)")
            connection.commit()

    def size(self, connection: Connection) -> int:
        """How many bytes the records take, about."""
        if self.is_file:
            pages, free, page = (connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("page_count", "freelist_count", "page_size"))
            return int((pages - free) * page)
        newest = "SELECT * FROM decisions ORDER BY decision_id DESC LIMIT 500"
        one = f"SELECT coalesce(avg(pg_column_size(d.*)), 0) FROM ({newest}) d"  # noqa: S608  # our own names
        return int(connection.exec_driver_sql(f"SELECT count(*) * ({one}) FROM decisions").scalar_one())  # noqa: S608  # our own names

    def rows(self, query: Select[Any]) -> list[Row]:
        """The rows that a query finds.

        Raises:
            StoreFailed: the store cannot be asked.
        """
        with self._connection() as connection:
            return [_row(found) for found in connection.execute(query)]

    def stream(self, query: Select[Any], size: int) -> Iterator[list[Row]]:
        """The same in parts of ``size``, in constant memory.

        Raises:
            StoreFailed: the store cannot be asked.
        """
        with self._connection() as connection:
            for part in connection.execution_options(yield_per=size).execute(query).partitions():
                yield [_row(found) for found in part]

    def scalar(self, query: Select[Any]) -> Any:
        """The one value that a query finds, or ``None``.

        Raises:
            StoreFailed: the store cannot be asked.
        """
        with self._connection() as connection:
            return connection.execute(query).scalar()

    def close(self) -> None:
        """Let all connections go."""
        self._engine.dispose()


PART: Final = 2000
"""How many records one deletion takes at most, so that writers never wait for long."""


def _row(found: Any) -> Row:
    return Row(*found)


def _version(connection: Connection) -> str | None:
    try:
        version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    except SQLAlchemyError:
        connection.rollback()
        return None
    return version


def _said(error: Exception) -> str:
    """What a database says, without the statement and its values."""
    original = getattr(error, "orig", None) or error
    return str(original).strip().partition("\n")[0]
