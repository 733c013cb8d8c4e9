"""Migration of the store's schema.

Owns when migrations run; a store of a newer version is left unchanged. The migrations are in ``migrations/versions``;
each one only adds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect

from service.log.store import TABLE, StoreFailed

if TYPE_CHECKING:
    from sqlalchemy import Connection

HEAD: Final = "0001"
"""The newest migration; a store that has it needs no other."""
VERSIONS: Final = "decisions_version"
"""The table with the store's migration; alembic's default table may belong to others in the same database."""
LOCK: Final = 7_083_227_170
"""The PostgreSQL advisory lock for migrations; an arbitrary number."""


def migrate(connection: Connection) -> bool:
    """Migrate the schema to the newest version; of several processes, one does it and the others wait.

    Returns whether the table was created.

    Raises:
        StoreFailed: a newer version of the program created the store, which is left unchanged.
        sqlalchemy.exc.SQLAlchemyError: it could not be migrated, and is unchanged.
    """
    if _version(connection) == HEAD and _has_table(connection):
        connection.rollback()
        return False
    from alembic import command  # noqa: PLC0415  # it takes a third of a second, and is only needed for a migration
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
    if is_new and version is not None:  # the table was dropped; all migrations must run again
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
    """The store's migration; ``None`` if it has none. No query may fail, as that would end the transaction."""
    if not inspect(connection).has_table(VERSIONS):
        return None
    found: str | None = connection.exec_driver_sql(f"SELECT version_num FROM {VERSIONS}").scalar()  # noqa: S608  # our own name
    return found
