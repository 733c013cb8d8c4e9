"""The store: its schema, its retention, and copies of it."""

from __future__ import annotations

import gc
import re
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from api.conftest import PATIENCE
from log.conftest import LogTarget, created, id_of, log_config, running_log, until, wait_for
from msgspec.structs import replace
from postgres import binaries
from processes import forked_python
from pydantic import SecretStr
from representatives import slow_except
from uuid_utils import uuid7

from service.log.maintenance import Maintenance
from service.log.record import StoredRow, first_id
from service.log.schema import HEAD, VERSIONS
from service.log.spill import Spill
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
CREATE_STORE = (
    "import sys; from service.log.store import read_url; from service.log.writer import Writer; sys.stdin.read(); "
    "Writer(read_url(sys.argv[1]), 30).open()"
)


def run_in(target: LogTarget, statement: str) -> list[Any]:
    """Run a statement in the store over a plain connection."""
    if target.server is None:
        with closing(sqlite3.connect(target.file or "")) as connection:
            found: list[Any] = connection.execute(statement).fetchall()
            connection.commit()
            return found
    with target.server.connection(target.url) as server:
        cursor = server.execute(statement)
        return cursor.fetchall() if cursor.description else []


def rows(number: int, days_ago: float = 0, size: int = 100) -> list[StoredRow]:
    """Records of some age, with at least ``size`` bytes each."""
    at = first_id(datetime.now(UTC) - timedelta(days=days_ago))[:13]
    text = Random(1).randbytes(size // 2).hex()  # random data cannot be compressed
    return [
        StoredRow(
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
            f'{{"summary":"{text}"}}',
        )
        for _ in range(number)
    ]


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


@pytest.mark.parametrize("kind", slow_except(["sqlite"], ["sqlite", "postgresql"]))
def test_several_processes_at_once_create_a_store_once(
    kind: str, new: LogTarget, request: pytest.FixtureRequest
) -> None:
    url = new.url if kind == "sqlite" else request.getfixturevalue("postgres").database()
    (new.folder / "log").mkdir()
    processes = [
        subprocess.Popen([forked_python(), "-c", CREATE_STORE, url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
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
    assert run_in(LogTarget(url, new.folder, server), f"SELECT * FROM {VERSIONS}") == [(HEAD,)]


def test_another_program_in_the_same_database_keeps_its_own_versions(postgres: Postgres, tmp_path: Path) -> None:
    target = LogTarget(postgres.database(), tmp_path, postgres)
    run_in(target, "CREATE TABLE alembic_version AS SELECT 'theirs' AS version_num")
    created(target)
    assert run_in(target, "SELECT version_num FROM alembic_version") == [("theirs",)]


async def test_the_store_of_a_newer_version_is_not_changed_and_records_are_spilled(
    target: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    run_in(target, f"UPDATE {VERSIONS} SET version_num = '0999'")
    async with running_log(target) as log:
        waiting = new_entry()
        log.note(waiting)
        await until(lambda: log.counts.spilled == 1, log)
        assert (
            log.counts.last_error
            == f"a newer version of Runner Policy made this log (its schema is 0999, ours {HEAD}); update this one"
        )
        assert target.ids() == []
    run_in(target, f"UPDATE {VERSIONS} SET version_num = '{HEAD}'")
    async with running_log(target) as log:
        await until(lambda: log.counts.replayed == 1, log)
    assert target.ids() == [id_of(waiting)]


def test_a_missing_permission_to_create_tables_is_reported(postgres: Postgres) -> None:
    url = postgres.database()
    name = read_url(url).database
    with postgres.connection(url) as connection:
        connection.execute(f"CREATE ROLE reader_{name} LOGIN PASSWORD 'geheim'")
    other = re.sub(r"//.*@", f"//reader_{name}:geheim@", url)
    with pytest.raises(StoreFailed, match=r"^permission denied for schema public$"):
        Writer(read_url(other), 10).open()


async def test_records_older_than_the_retention_time_are_deleted(target: LogTarget) -> None:
    writer = Writer(read_url(target.url), 30)
    writer.write(rows(2500, days_ago=31))
    young = rows(5, days_ago=29)
    writer.write(young)
    async with running_log(target, keep_seconds=30 * 86400.0) as log:
        await until(lambda: log.counts.deleted == 2500, log)
        assert target.ids() == sorted(row.decision_id for row in young)
    writer.close()


async def test_records_are_deleted_as_they_become_too_old(target: LogTarget) -> None:
    writer = Writer(read_url(target.url), 30)
    writer.write(rows(10, days_ago=31))
    async with running_log(target, keep_seconds=30 * 86400.0) as log:
        await until(lambda: log.counts.deleted == 10, log)
        writer.write(rows(5, days_ago=31))
        await until(lambda: log.counts.deleted == 15, log)
    writer.close()


def test_old_records_do_not_keep_the_size_limit_from_being_enforced(sqlite: LogTarget) -> None:
    writer = Writer(read_url(sqlite.url), 30)
    writer.write([*rows(5, days_ago=31), *rows(2000, days_ago=1, size=2000)])
    assert writer.trim(first_id(datetime.now(UTC) - timedelta(days=30)), 1 << 20) == 1000
    writer.close()


def test_the_deletion_of_records_as_they_become_too_old_pauses(sqlite: LogTarget) -> None:
    writer = Writer(read_url(sqlite.url), 30)
    writer.write(rows(1003, days_ago=31))
    maintenance = Maintenance(log_config(sqlite, keep_seconds=30 * 86400.0), writer, Spill(sqlite.spill, 1 << 30))
    found = [maintenance.run() for _ in range(3)]
    assert [(result.deleted, result.more) for result in found] == [(1000, True), (3, False), (0, False)]
    writer.close()


async def test_a_store_without_old_records_is_not_locked_for_writing(sqlite: LogTarget) -> None:
    writer = Writer(read_url(sqlite.url), 0.1)
    writer.write(rows(5, days_ago=29))
    with closing(sqlite.hold()):
        assert writer.trim(first_id(datetime.now(UTC) - timedelta(days=30)), 1 << 30) == 0
        with pytest.raises(StoreFailed, match=r"^database is locked$"):
            writer.write(rows(1))
    writer.close()


async def test_the_oldest_records_are_deleted_if_there_are_too_many(target: LogTarget) -> None:
    writer = Writer(read_url(target.url), 30)
    made_rows = [row for days in (2, 1) for row in rows(2500, days, size=2000)]
    writer.write(made_rows)
    writer.close()
    ids = sorted(row.decision_id for row in made_rows)
    if target.server is not None:  # PostgreSQL updates its count of rows later
        wait_for(
            lambda: (
                run_in(target, "SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'decisions'") == [(5000,)]
            )
        )
    async with running_log(target, keep_size=6 << 20) as log:
        await until(lambda: log.counts.deleted >= 2000, log)
    while writer.trim(None, 6 << 20):  # the log process may have left some
        pass
    if target.file is not None:
        run_in(target, "PRAGMA wal_checkpoint(TRUNCATE)")
    writer.close()
    left = target.ids()
    assert left == ids[-len(left) :]
    assert 1000 <= len(left) <= 3000
    assert target.file is None or target.file.stat().st_size <= 6 << 20


def counted(target: LogTarget, number: int) -> None:
    """Wait until PostgreSQL has counted the rows, which it does later."""
    live = "SELECT pg_stat_get_live_tuples('decisions'::regclass)"
    wait_for(lambda: run_in(target, live) == [(number,)])


def test_few_large_records_do_not_delete_the_others(on_server: LogTarget) -> None:
    """The newest records may be much larger than the others, by the choice of one caller."""
    writer = Writer(read_url(on_server.url), 30)
    writer.write(rows(3000, days_ago=1))
    writer.write(rows(25, size=400_000))
    counted(on_server, 3025)
    assert writer.trim(None, 64 << 20) == 0
    writer.close()


def test_records_that_were_deleted_do_not_count_in_the_size(on_server: LogTarget) -> None:
    """PostgreSQL's files do not shrink when rows are deleted."""
    writer = Writer(read_url(on_server.url), 30)
    writer.write(rows(3000, days_ago=2))
    large = rows(100, days_ago=1, size=400_000)
    writer.write(large)
    deleted = ", ".join(f"'{row.decision_id}'" for row in large[:90])
    run_in(on_server, f"DELETE FROM decisions WHERE decision_id IN ({deleted})")
    counted(on_server, 3010)
    assert run_in(on_server, "SELECT pg_total_relation_size('decisions') > 20 << 20") == [(True,)]
    assert writer.trim(None, 20 << 20) == 0
    assert writer.trim(None, 2 << 20) == 1000
    writer.close()


def test_what_remains_in_a_row_beside_its_chunks_counts_in_the_size(on_server: LogTarget) -> None:
    """PostgreSQL moves a row's largest value out first, and keeps the others in it."""
    writer = Writer(read_url(on_server.url), 30)
    text = Random(1).randbytes(750).hex()
    writer.write([replace(row, input=f'{{"text":"{text}"}}') for row in rows(2000, size=1700)])
    counted(on_server, 2000)
    assert writer.trim(None, 6 << 20) == 1000
    writer.close()


@pytest.mark.parametrize("size", [1, 199, 200, 201, 1000])
def test_any_number_of_rows_is_written_once(target: LogTarget, size: int) -> None:
    writer = Writer(read_url(target.url), 30)
    made_rows = rows(size)
    assert [writer.write(made_rows), writer.write(made_rows)] == [0, 0]
    writer.close()
    assert target.ids() == sorted(row.decision_id for row in made_rows)


def drop_records_of(target: LogTarget, path: str) -> None:
    """Add a trigger that drops the records of one path, as an owner of the store may.

    Neither database reports this to the client that inserts them.
    """
    if target.server is None:
        run_in(
            target,
            (
                f"CREATE TRIGGER dropping BEFORE INSERT ON decisions WHEN NEW.path = '{path}' BEGIN SELECT "
                "RAISE(IGNORE); END"
            ),
        )
        return
    condition = f"IF NEW.path = '{path}' THEN RETURN NULL; END IF; RETURN NEW;"
    run_in(target, f"CREATE FUNCTION dropping() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {condition} END $$")
    run_in(target, "CREATE TRIGGER dropping BEFORE INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION dropping()")


def test_rows_that_the_store_drops_are_counted(target: LogTarget) -> None:
    writer = Writer(read_url(target.url), 30)
    before, after = rows(300), rows(450)
    writer.write(before)
    drop_records_of(target, "left/out")
    mixed = [*before, *(replace(row, path="left/out") if number % 3 == 0 else row for number, row in enumerate(after))]
    assert [writer.write(mixed), writer.write(mixed), writer.write(before)] == [150, 150, 0]
    writer.close()
    assert target.ids() == sorted(row.decision_id for row in mixed if row.path != "left/out")


async def test_a_decision_that_the_store_drops_is_not_acknowledged(
    target: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(target) as log:
        first = new_entry()
        await log.record(first)
        drop_records_of(target, first[2])
        with pytest.raises(LogUnavailable):
            await log.record(new_entry())
        assert (log.counts.written, log.counts.lost, log.counts.store_up) == (1, 1, True)
        assert "trigger" in log.counts.last_error
    assert target.ids() == [id_of(first)]


def test_a_copy_of_a_file_in_use_is_complete(sqlite: LogTarget, tmp_path: Path) -> None:
    writer = Writer(read_url(sqlite.url), 30)
    writer.write(rows(1000))
    copy = tmp_path / "copy.db"
    run_in(sqlite, f"VACUUM INTO '{copy}'")
    writer.write(rows(1))
    writer.close()
    restored = LogTarget(f"sqlite:///{copy}", tmp_path, None)
    assert restored.ids() == sqlite.ids()[:1000]
    created(restored)


def test_a_dump_of_a_database_in_use_can_be_restored(on_server: LogTarget) -> None:
    server = on_server.server
    assert server is not None
    writer = Writer(read_url(on_server.url), 30)
    writer.write(rows(1000))
    dump = subprocess.run([binaries() / "pg_dump", "--format=custom", on_server.url], capture_output=True, check=True)
    writer.write(rows(1))
    writer.close()
    restored = LogTarget(server.database(), on_server.folder, server)
    subprocess.run([binaries() / "pg_restore", "--no-owner", f"--dbname={restored.url}"], input=dump.stdout, check=True)
    assert restored.ids() == on_server.ids()[:1000]
    created(restored)


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
        (LOG.replace("secret", "p[hunter22]q"), True),
        (LOG.replace("secret", "a[b"), True),
        (LOG.replace("secret", "a?b/c"), True),
    ],
)
def test_the_spill_folder_does_not_depend_on_the_password_of_the_store(url: str, same: bool) -> None:  # noqa: FBT001  # a parameter of the table
    folders = [Settings(log=SecretStr(each)).spill_folder() for each in (LOG, url)]
    assert (len(set(folders)) == 1) == same


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://runner:secret@db.example.org:5432/log", "6ecebff65d1c809b"),
        ("postgresql+psycopg://u:p@h/db?sslmode=verify-full&sslrootcert=/etc/ca.pem", "3a4f5da4063e7b50"),
        ("postgres://u:p@h/db", "7e1046ffb29dc49a"),
        ("postgresql://u@[::1]:5432/log", "1f51acf481c956fe"),
        ("postgresql://u:p%40x@h/db", "0afb49c634e1a931"),
        ("postgresql://h", "a9e982383a5d4193"),
        ("postgresql:///db?host=/run/postgresql", "1646b3f6a19378df"),
        ("sqlite:///log.db", "ee66f21d875362bc"),
        ("off", "b4dc66dde806261b"),
    ],
)
def test_the_spill_folder_of_a_log_has_the_same_name_in_every_version(url: str, name: str) -> None:
    """Otherwise the records in it would not be replayed after an update."""
    assert Settings(log=SecretStr(url)).spill_folder().name == name


def test_the_spill_folder_that_is_set_does_not_depend_on_the_log(tmp_path: Path) -> None:
    log = SecretStr(LOG.replace("secret", "p[hunter22]q"))
    assert Settings(log=log, log_spill=tmp_path).spill_folder() == tmp_path


async def test_a_record_that_fails_is_not_logged_if_its_request_has_ended(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry], caplog: pytest.LogCaptureFixture
) -> None:
    async with running_log(sqlite, bound=0) as log:
        abandoned = log.record(new_entry())
        assert abandoned.done()
        del abandoned
        gc.collect()
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []
