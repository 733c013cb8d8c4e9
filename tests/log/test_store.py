"""The store: its schema, who may change it, what is deleted, and what a copy of it is good for."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from api.conftest import PATIENCE
from log.conftest import Place, becomes, id_of, keeping, made, until
from msgspec.structs import replace
from postgres import binaries
from pydantic import SecretStr
from uuid_utils import uuid7

from service.log.record import Row, first_id
from service.log.schema import HEAD, VERSIONS
from service.log.store import StoreFailed, read_url
from service.log.writer import Writer
from service.problems import LogUnavailable
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres import Postgres

    from service.log.record import LogEntry

pytestmark = pytest.mark.anyio

MIGRATIONS = Path(__file__).parent.parent.parent / "service" / "log" / "migrations"
MAKE = (
    "import sys; from service.log.store import read_url; from service.log.writer import Writer; sys.stdin.read(); "
    "Writer(read_url(sys.argv[1]), 30).open()"
)


def run_in(place: Place, statement: str) -> list[Any]:
    """Ask the store with nothing of ours between."""
    if place.server is None:
        with closing(sqlite3.connect(place.file or "")) as connection:
            found: list[Any] = connection.execute(statement).fetchall()
            connection.commit()
            return found
    with place.server.connection(place.url) as server:
        cursor = server.execute(statement)
        return cursor.fetchall() if cursor.description else []


def rows(number: int, days_ago: float = 0, size: int = 100) -> list[Row]:
    """Records of some age, as many bytes large as is said or more."""
    at = first_id(datetime.now(UTC) - timedelta(days=days_ago))[:13]
    text = Random(1).randbytes(size // 2).hex()  # what is random is not made smaller
    return [
        Row(
            at + str(uuid7())[13:],
            "argo",
            "v1/decisions",
            "v2",
            "default",
            True,
            "0.23.0",
            "sha256:0",
            1,
            False,
            "{}",
            "{}",
            f'"{text}"',
        )
        for _ in range(number)
    ]


def test_the_newest_migration_is_the_one_that_is_named() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_several_processes_at_once_make_a_store_once(kind: str, new: Place, request: pytest.FixtureRequest) -> None:
    url = new.url if kind == "sqlite" else request.getfixturevalue("postgres").database()
    (new.folder / "log").mkdir()
    processes = [
        subprocess.Popen([sys.executable, "-c", MAKE, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
    assert [(process.wait(PATIENCE), process.stderr.read() if process.stderr else b"") for process in processes] == [
        (0, b"")
    ] * 2
    for process in processes:
        assert process.stderr is not None
        process.stderr.close()
    server = None if kind == "sqlite" else request.getfixturevalue("postgres")
    assert run_in(Place(url, new.folder, server), f"SELECT * FROM {VERSIONS}") == [(HEAD,)]


def test_another_program_in_the_same_database_keeps_its_own_versions(postgres: Postgres, tmp_path: Path) -> None:
    place = Place(postgres.database(), tmp_path, postgres)
    run_in(place, "CREATE TABLE alembic_version AS SELECT 'theirs' AS version_num")
    made(place)
    assert run_in(place, "SELECT version_num FROM alembic_version") == [("theirs",)]


async def test_a_store_that_a_newer_version_made_is_left_alone_and_records_wait(
    place: Place, noted: Callable[..., LogEntry]
) -> None:
    run_in(place, f"UPDATE {VERSIONS} SET version_num = '0999'")
    async with keeping(place) as log:
        waiting = noted()
        log.note(waiting)
        await until(lambda: log.counts.spilled == 1, log)
        assert (
            log.counts.last_error
            == f"a newer version of Runner Policy made this log (its schema is 0999, ours {HEAD}); update this one"
        )
        assert place.ids() == []
    run_in(place, f"UPDATE {VERSIONS} SET version_num = '{HEAD}'")
    async with keeping(place) as log:
        await until(lambda: log.counts.replayed == 1, log)
    assert place.ids() == [id_of(waiting)]


def test_a_user_who_may_not_make_tables_is_said(postgres: Postgres) -> None:
    url = postgres.database()
    name = read_url(url).database
    with postgres.connection(url) as connection:
        connection.execute(f"CREATE ROLE reader_{name} LOGIN PASSWORD 'geheim'")
    other = re.sub(r"//.*@", f"//reader_{name}:geheim@", url)
    with pytest.raises(StoreFailed, match=r"^permission denied for schema public$"):
        Writer(read_url(other), 10).open()


async def test_what_is_older_than_it_is_kept_is_deleted(place: Place) -> None:
    writer = Writer(read_url(place.url), 30)
    writer.write(rows(2500, days_ago=31))
    young = rows(5, days_ago=29)
    writer.write(young)
    async with keeping(place, keep_seconds=30 * 86400.0) as log:
        await until(lambda: log.counts.deleted == 2500, log)
        assert place.ids() == sorted(row.decision_id for row in young)
    writer.close()


async def test_the_oldest_are_deleted_where_there_are_too_many(place: Place) -> None:
    writer = Writer(read_url(place.url), 30)
    made_rows = [row for days in (2, 1) for row in rows(2500, days, size=2000)]
    writer.write(made_rows)
    writer.close()
    ids = sorted(row.decision_id for row in made_rows)
    if place.server is not None:  # its own count of rows comes a moment after them
        becomes(
            lambda: run_in(place, "SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'decisions'") == [(5000,)]
        )
    async with keeping(place, keep_size=6 << 20) as log:
        await until(lambda: log.counts.deleted >= 2000, log)
    while writer.trim(None, 6 << 20):  # what the keeper had no time for
        pass
    if place.file is not None:
        run_in(place, "PRAGMA wal_checkpoint(TRUNCATE)")
    writer.close()
    left = place.ids()
    assert left == ids[-len(left) :]
    assert 1000 <= len(left) <= 3000
    assert place.file is None or place.file.stat().st_size <= 6 << 20


@pytest.mark.parametrize("size", [1, 199, 200, 201, 1000])
def test_any_number_of_rows_is_written_once(place: Place, size: int) -> None:
    writer = Writer(read_url(place.url), 30)
    made_rows = rows(size)
    assert [writer.write(made_rows), writer.write(made_rows)] == [0, 0]
    writer.close()
    assert place.ids() == sorted(row.decision_id for row in made_rows)


def leave_out(place: Place, path: str) -> None:
    """Add a trigger of the store's owner that leaves records of one path out.

    Neither database reports this to the client that inserts them.
    """
    if place.server is None:
        run_in(
            place,
            (
                f"CREATE TRIGGER dropping BEFORE INSERT ON decisions WHEN NEW.path = '{path}' BEGIN SELECT "
                "RAISE(IGNORE); END"
            ),
        )
        return
    condition = f"IF NEW.path = '{path}' THEN RETURN NULL; END IF; RETURN NEW;"
    run_in(place, f"CREATE FUNCTION dropping() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {condition} END $$")
    run_in(place, "CREATE TRIGGER dropping BEFORE INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION dropping()")


def test_rows_that_the_store_leaves_out_are_not_written(place: Place) -> None:
    writer = Writer(read_url(place.url), 30)
    before, after = rows(300), rows(450)
    writer.write(before)
    leave_out(place, "left/out")
    mixed = [*before, *(replace(row, path="left/out") if number % 3 == 0 else row for number, row in enumerate(after))]
    assert [writer.write(mixed), writer.write(mixed), writer.write(before)] == [150, 150, 0]
    writer.close()
    assert place.ids() == sorted(row.decision_id for row in mixed if row.path != "left/out")


async def test_a_decision_that_the_store_leaves_out_is_not_acknowledged(
    place: Place, noted: Callable[..., LogEntry]
) -> None:
    async with keeping(place) as log:
        first = noted()
        await log.recorded(first)
        leave_out(place, first[2])
        with pytest.raises(LogUnavailable):
            await log.recorded(noted())
        assert (log.counts.written, log.counts.lost, log.counts.store_up) == (1, 1, True)
        assert "trigger" in log.counts.last_error
    assert place.ids() == [id_of(first)]


def test_a_copy_of_a_file_that_is_written_is_whole(sqlite: Place, tmp_path: Path) -> None:
    writer = Writer(read_url(sqlite.url), 30)
    writer.write(rows(1000))
    copy = tmp_path / "copy.db"
    run_in(sqlite, f"VACUUM INTO '{copy}'")
    writer.write(rows(1))
    writer.close()
    restored = Place(f"sqlite:///{copy}", tmp_path, None)
    assert restored.ids() == sqlite.ids()[:1000]
    made(restored)


def test_a_dump_of_a_database_that_is_written_is_restored(on_server: Place) -> None:
    server = on_server.server
    assert server is not None
    writer = Writer(read_url(on_server.url), 30)
    writer.write(rows(1000))
    dump = subprocess.run([binaries() / "pg_dump", "--format=custom", on_server.url], capture_output=True, check=True)
    writer.write(rows(1))
    writer.close()
    restored = Place(server.database(), on_server.folder, server)
    subprocess.run([binaries() / "pg_restore", "--no-owner", f"--dbname={restored.url}"], input=dump.stdout, check=True)
    assert restored.ids() == on_server.ids()[:1000]
    made(restored)


LOG = "postgresql://runner:secret@db.example.org:5432/log"


@pytest.mark.parametrize(
    ("url", "same"),
    [
        (LOG.replace("secret", "rotated"), True),
        (LOG.replace("runner:secret@", ""), True),
        (LOG.replace("postgresql:", "postgresql+psycopg:"), True),
        (LOG.replace("5432", "5433"), False),
        (LOG.replace("db.", "other."), False),
        (f"{LOG}2", False),
        ("sqlite:////var/lib/log.db", False),
    ],
)
def test_what_a_log_could_not_take_is_found_again_after_its_password_was_changed(url: str, same: bool) -> None:  # noqa: FBT001  # a parameter of the table
    folders = [Settings(log=SecretStr(each)).spill_folder() for each in (LOG, url)]
    assert (len(set(folders)) == 1) == same
