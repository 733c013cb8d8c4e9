"""The schema of the store, up to date.

Owns when migrations run, and that a store which a newer version made is left alone. The migrations themselves are
in ``migrations/versions``; each one only adds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect

from service.log.store import TABLE, StoreFailed

if TYPE_CHECKING:
    from sqlalchemy import Connection

HEAD: Final = "0001"
"""The newest migration; a store that has it needs no look at the others."""
VERSIONS: Final = "decisions_version"
"""The table of one row that says which; others in the same database may keep theirs in alembic's usual one."""
LOCK: Final = 7_083_227_170
"""The PostgreSQL advisory lock under which the schema is changed; any number that others do not take."""


def migrate(connection: Connection) -> bool:
    """The schema is the newest; of several processes that come at once, one makes it so and the others wait. Whether the table was not there.

    Raises:
        StoreFailed: a newer version of the program made the store; it is as it was.
        sqlalchemy.exc.SQLAlchemyError: it could not be changed, and is as it was.
    """
    if _version(connection) == HEAD and _has_table(connection):
        connection.rollback()
        return False
    from alembic import command  # noqa: PLC0415  # a third of a second, for a store that is new or old
    from alembic.config import Config  # noqa: PLC0415  # as above

    connection.rollback()
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    version = _version(connection)
    if version is not None and version > HEAD:
        raise StoreFailed(
            f"a newer version of Runner Policy made this log (its schema is {version}, ours {HEAD}); update this one"
        )
    is_new = not _has_table(connection)
    if is_new and version is not None:  # somebody dropped it; all migrations have to run again
        connection.exec_driver_sql(f"DELETE FROM {VERSIONS}")  # noqa: S608  # our own name
    if is_new or version != HEAD:
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    connection.commit()
    return is_new


def _has_table(connection: Connection) -> bool:
    return bool(inspect(connection).has_table(TABLE.name))


def _version(connection: Connection) -> str | None:
    """The newest migration that the store has; ``None`` where it has none. It is asked without an error, which would end the transaction."""
    if not inspect(connection).has_table(VERSIONS):
        return None
    found: str | None = connection.exec_driver_sql(f"SELECT version_num FROM {VERSIONS}").scalar()  # noqa: S608  # our own name
    return found
