"""Files of the log that are deleted, replaced or damaged under the service.

Every acknowledged decision is in the log, old or new, or counted as lost.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import httpx
import pytest
from api.conftest import PATIENCE
from log.conftest import FACTS, LogTarget, id_of, log_metrics, log_state, running_log, until, wait_for
from log.test_keeping import down, flushed, note, state_of
from log.test_required import log_processes
from log.test_store import rows, run_in
from processes import command_of
from representatives import slow_except

from service.log import retention
from service.log.file import SUFFIXES
from service.log.spill import Spill
from service.log.store import read_url
from service.log.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from api.conftest import Server

    from service.log.record import LogEntry

pytestmark = pytest.mark.anyio

REQUEST = {"facts": FACTS}


def database(target: LogTarget) -> Path:
    assert target.file is not None
    return target.file


def beside(target: LogTarget, suffix: str) -> Path:
    return database(target).with_name(f"{database(target).name}{suffix}")


def copy_of(target: LogTarget) -> Path:
    """A complete copy of the database."""
    copy = target.folder / "copy.db"
    copy.unlink(missing_ok=True)
    run_in(target, f"VACUUM INTO '{copy}'")
    return copy


def delete(target: LogTarget) -> None:
    for suffix in SUFFIXES:
        beside(target, suffix).unlink()


def delete_database_alone(target: LogTarget) -> None:
    database(target).unlink()


def move_away(target: LogTarget) -> None:
    database(target).rename(target.folder / "moved.db")


def restore(target: LogTarget) -> None:
    """Replace the file by the copy, which lacks the last records."""
    (target.folder / "copy.db").rename(database(target))


def remove_folder(target: LogTarget) -> None:
    shutil.rmtree(database(target).parent)


def empty(target: LogTarget) -> None:
    os.truncate(database(target), 0)


def was_there(lose: Callable[[LogTarget], None], target: LogTarget) -> bool:
    """Lose a file; false if a process has yet to create it, or creates one meanwhile."""
    try:
        lose(target)
    except OSError:
        return False
    return True


LOSSES = [delete, delete_database_alone, move_away, restore, remove_folder, empty]


@pytest.mark.parametrize("lose", slow_except([delete], LOSSES))
async def test_records_of_a_lost_file_are_counted_and_new_ones_are_written(
    lose: Callable[[LogTarget], None], sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite, durable=True) as log:
        note(log, new_entry, 5)
        await flushed(log)
        copy_of(sqlite)
        before = note(log, new_entry, 7)
        await flushed(log)
        lose(sqlite)
        for _ in range(3):
            after = new_entry()
            await log.record(after)
            assert id_of(after) in sqlite.ids()
            assert state_of(log, "written", "spilled", "lost_files", "lost_file_records", "lost", "store_up")[1:] == [
                0,
                1,
                12,
                0,
                True,
            ]
            assert str(sqlite.file) in log.counts.last_lost_file
        assert not set(before) & set(sqlite.ids())


@pytest.mark.parametrize("suffix", slow_except(["-wal"], ["-wal", "-shm"]))
async def test_deleting_a_file_beside_the_database_loses_no_record(
    suffix: str, sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite, durable=True) as one, running_log(sqlite, durable=True) as other:
        ids = note(one, new_entry, 20) + note(other, new_entry, 20)
        await flushed(one)
        await flushed(other)
        beside(sqlite, suffix).unlink()
        for log in (one, other, one, other):
            after = new_entry()
            await log.record(after)
            ids.append(id_of(after))
        assert state_of(one, "lost_file_records") == state_of(other, "lost_file_records") == [0]
        # one process may see the new files of the other
        messages = [log.counts.last_lost_file for log in (one, other) if log.counts.lost_files]
        assert messages
        assert all("deleted" in each or "replaced" in each for each in messages)
        # a store that another process is opening may be slow, so that records are spilled
        await until(lambda: all(log.counts.spilled == log.counts.replayed for log in (one, other)), one)
        assert sqlite.ids() == sorted(ids)
    assert run_in(sqlite, "PRAGMA integrity_check") == [("ok",)]


async def test_restoring_a_copy_with_all_records_loses_none(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite) as log:
        ids = note(log, new_entry, 5)
        await flushed(log)
        copy_of(sqlite)
        restore(sqlite)
        ids += note(log, new_entry, 5)
        await flushed(log)
        assert state_of(log, "lost_files", "lost_file_records") == [1, 0]
        assert sqlite.ids() == sorted(ids)


@pytest.mark.slow
async def test_a_lost_file_is_noticed_even_if_nothing_is_decided(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite) as log:
        note(log, new_entry, 5)
        await flushed(log)
        delete(sqlite)
        await until(lambda: log.counts.lost_file_records == 5, log)
        assert database(sqlite).exists()


def overwrite_pages(path: Path) -> None:
    """Overwrite the middle of a database."""
    random = Random(1)
    with path.open("r+b") as file:
        pages = path.stat().st_size // 4096
        for page in range(pages // 3, 2 * pages // 3):
            file.seek(page * 4096)
            file.write(random.randbytes(4096))


def fill(target: LogTarget) -> list[str]:
    """Write records of some hundred pages into the database file, and return their ids."""
    writer = Writer(read_url(target.url), 30)
    found = rows(300, size=3000)
    writer.write(found)
    writer.close()
    run_in(target, "PRAGMA wal_checkpoint(TRUNCATE)")
    return sorted(row.decision_id for row in found)


def damaged_files(target: LogTarget) -> list[Path]:
    return list(database(target).parent.glob("*.damaged-*Z"))


@pytest.mark.slow
async def test_a_database_that_was_damaged_before_the_start_is_set_aside(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    fill(sqlite)
    overwrite_pages(database(sqlite))
    damaged = database(sqlite).read_bytes()
    async with running_log(sqlite) as log:
        await until(lambda: log.counts.lost_files, log)
        assert "is damaged" in log.counts.last_lost_file
        ids = note(log, new_entry, 5)
        await flushed(log)
        assert sqlite.ids()[-5:] == sorted(ids)
        assert log.counts.store_up
    (aside,) = damaged_files(sqlite)
    assert aside.stat().st_size == len(damaged)


def test_a_check_finds_overwritten_pages_and_later_records_go_to_a_new_file(sqlite: LogTarget) -> None:
    fill(sqlite)
    writer = Writer(read_url(sqlite.url), 30)
    writer.open()
    writer.check_for_damage()
    first = rows(1)
    writer.write(first)
    check = writer._check
    assert check is not None
    wait_for(lambda: check._thread is not None and not check._thread.is_alive())
    overwrite_pages(database(sqlite))
    check._due = 0.0
    writer.check_for_damage()
    wait_for(lambda: check._thread is not None and not check._thread.is_alive())
    second = rows(1)
    writer.write(second)
    (loss,) = writer.losses
    (aside,) = damaged_files(sqlite)
    assert (loss.records, "is damaged" in loss.what, aside.name in loss.what) == (1, True, True)
    assert sqlite.ids() == [second[0].decision_id]
    writer.close()


def test_a_file_is_set_aside_if_the_release_of_free_pages_finds_damage(
    sqlite: LogTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(read_url(sqlite.url), 30)
    writer.write(rows(2000, size=3000))
    run_in(sqlite, "PRAGMA wal_checkpoint(TRUNCATE)")
    monkeypatch.setattr(retention, "_release_pages", lambda _: None)
    writer.trim(None, 1 << 20)
    run_in(sqlite, "PRAGMA wal_checkpoint(TRUNCATE)")
    monkeypatch.undo()
    with database(sqlite).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)  # where each page is referred to, which only moving pages reads
    writer.close()
    writer.write(rows(1))
    writer.trim(None, 1 << 20)
    assert [len(damaged_files(sqlite)), len(writer.losses)] == [1, 1]
    writer.close()


def test_a_file_is_set_aside_if_a_statement_finds_damage(sqlite: LogTarget) -> None:
    fill(sqlite)
    writer = Writer(read_url(sqlite.url), 30)
    writer.open()
    with database(sqlite).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (database(sqlite).stat().st_size - 4096))
    made_rows = rows(400, size=3000)
    for row in made_rows:
        writer.write([row])
    assert [len(damaged_files(sqlite)), len(writer.losses)] == [1, 1]
    assert set(sqlite.ids()) <= {row.decision_id for row in made_rows}
    assert len(sqlite.ids()) + writer.losses[0].records == len(made_rows)
    writer.close()


async def test_a_file_that_is_not_a_database_is_not_changed(new: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    database(new).parent.mkdir()
    database(new).write_bytes(b"another program's file\n" * 1000)
    async with running_log(new) as log:
        note(log, new_entry, 5)
        await flushed(log)
        assert state_of(log, "spilled", "lost_files", "last_error") == [5, 0, "file is not a database"]
    assert database(new).read_bytes() == b"another program's file\n" * 1000


async def test_a_table_that_was_dropped_is_created_again(target: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    async with running_log(target) as log:
        note(log, new_entry, 5)
        await flushed(log)
        run_in(target, "DROP TABLE decisions")
        ids = note(log, new_entry, 5)
        await until(lambda: log.counts.replayed == 5, log)
        ids += note(log, new_entry, 5)
        await flushed(log)
        assert target.ids() == sorted(ids)
        assert state_of(log, "written", "lost", "lost_files", "lost_file_records", "store_up") == [10, 0, 1, 5, True]


async def test_a_table_that_was_emptied_accepts_new_records(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(on_server) as log:
        note(log, new_entry, 5)
        await flushed(log)
        run_in(on_server, "TRUNCATE decisions")
        ids = note(log, new_entry, 5)
        await flushed(log)
        assert on_server.ids() == sorted(ids)
        assert state_of(log, "written", "spilled", "lost", "store_up") == [10, 0, 0, True]


def delete_spilled(target: LogTarget) -> None:
    for path in target.spill.iterdir():
        path.unlink()


def replace_spilled(target: LogTarget) -> None:
    (path,) = target.spill.iterdir()
    path.with_suffix(".other").write_bytes(b"")
    path.with_suffix(".other").replace(path)


def remove_spill(target: LogTarget) -> None:
    shutil.rmtree(target.spill)


@pytest.mark.parametrize("lose", slow_except([delete_spilled], [delete_spilled, replace_spilled, remove_spill]))
async def test_a_spill_file_that_is_lost_is_noticed_before_the_next_acknowledgement(
    lose: Callable[[LogTarget], None], new: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    database(new).mkdir(parents=True)  # no database can be created there
    async with running_log(new, durable=True) as log:
        await down(log)
        note(log, new_entry, 5)
        await flushed(log)
        assert log.counts.spilled == 5
        lose(new)
        after = new_entry()
        await log.record(after)
        assert new.spilled() == [id_of(after)]
        assert state_of(log, "spilled", "lost", "lost_files", "lost_file_records") == [6, 0, 1, 5]
        database(new).rmdir()
        await until(lambda: log.counts.replayed == 1, log)
        assert new.ids() == [id_of(after)]


def shorten_spilled(target: LogTarget, lines: int, rest: int) -> None:
    """Keep the first lines of the spill file, and the first bytes of the next one."""
    (path,) = target.spill.iterdir()
    kept = path.read_bytes().splitlines(keepends=True)
    os.truncate(path, sum(map(len, kept[:lines])) + rest)


@pytest.mark.parametrize(("lines", "rest"), [(0, 0), (2, 0), (2, 5)])
async def test_the_records_of_a_shortened_spill_file_that_are_gone_are_counted(
    lines: int, rest: int, new: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    database(new).mkdir(parents=True)
    async with running_log(new, durable=True) as log:
        await down(log)
        ids = note(log, new_entry, 5)
        await flushed(log)
        shorten_spilled(new, lines, rest)
        after = new_entry()
        await log.record(after)
        assert state_of(log, "spilled", "lost", "lost_files", "lost_file_records") == [6, 0, 1, 5 - lines]
        database(new).rmdir()
        await until(lambda: log.counts.replayed == lines + 1, log)
        assert new.ids() == sorted([*ids[:lines], id_of(after)])


@pytest.mark.parametrize("lines", [0, 2])
async def test_a_spill_file_that_is_shortened_is_noticed_without_a_further_record(
    lines: int, new: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    database(new).mkdir(parents=True)
    async with running_log(new, durable=True) as log:
        await down(log)
        note(log, new_entry, 5)
        await flushed(log)
        shorten_spilled(new, lines, 0)
        database(new).rmdir()
        await until(lambda: log.counts.replayed == lines and log.counts.lost_file_records == 5 - lines, log)
        assert log.counts.lost_files == 1


async def test_deleted_spill_files_are_counted_once_the_store_is_back(
    new: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    database(new).mkdir(parents=True)
    async with running_log(new, durable=True) as log:
        await down(log)
        note(log, new_entry, 5)
        await flushed(log)
        remove_spill(new)
        database(new).rmdir()
        await until(lambda: log.counts.store_up, log)
        await until(lambda: log.counts.lost_file_records == 5, log)
        assert log.counts.lost_files == 1


def test_a_folder_that_cannot_be_written_is_detected_without_a_record(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill", 1 << 20)
    assert spill.can_write()
    assert list((tmp_path / "spill").iterdir()) == []
    assert not Spill(tmp_path / "spill", 10).can_write()
    (tmp_path / "file").write_bytes(b"")
    assert not Spill(tmp_path / "file", 1 << 20).can_write()


# the service


def required(target: LogTarget, **more: str) -> dict[str, str]:
    return {
        "RUNNER_POLICY_LOG": target.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_SPILL": str(target.spill),
        **more,
    }


def decide(client: httpx.Client, acknowledged: list[str], number: int = 1) -> None:
    for _ in range(number):
        answer = client.post("/v1/decisions", json=REQUEST)
        if answer.status_code == 200:
            acknowledged.append(answer.json()["decision_id"])


def lose_until_counted(lose: Callable[[LogTarget], None], target: LogTarget, client: httpx.Client) -> None:
    """Lose files until one more is counted.

    Not each is: several that are lost while the store is unavailable count once, and SQLite may by chance write an
    emptied file again from its write-ahead log.
    """
    before, again = log_metrics(client)["lost_files"], 0.0

    def is_counted() -> bool:
        nonlocal again
        if log_metrics(client)["lost_files"] > before:
            return True
        if time.monotonic() >= again and was_there(lose, target):
            again = time.monotonic() + 5
        return False

    wait_for(is_counted)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_acknowledged_decision_is_in_the_log_or_counted(
    workers: str, serve: Callable[..., AbstractContextManager[Server]], sqlite: LogTarget
) -> None:
    """Files are deleted and emptied while several callers send requests."""
    acknowledged: list[str] = []
    stop = threading.Event()
    with serve(**required(sqlite, RUNNER_POLICY_WORKERS=workers)) as server, server.client() as client:

        def send_requests() -> None:
            with server.client() as own_client, suppress(httpx.HTTPError):
                while not stop.is_set():
                    decide(own_client, acknowledged)

        threads = [threading.Thread(target=send_requests) for _ in range(3)]
        for thread in threads:
            thread.start()
        for lose in (delete, delete_database_alone, remove_folder, empty, delete):
            number = len(acknowledged)
            wait_for(lambda number=number: len(acknowledged) >= number + 50)  # type: ignore[misc]  # bound now
            lose_until_counted(lose, sqlite, client)
        number = len(acknowledged)
        wait_for(lambda: len(acknowledged) >= number + 50)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        wait_for(lambda: log_metrics(client)["lost_files"] >= 5)
        time.sleep(2)  # what the other worker counted is published each second
        numbers = log_metrics(client)
        recorded = set(sqlite.ids()) | set(sqlite.spilled())
        lost = set(acknowledged) - recorded
        assert len(lost) <= numbers["lost_file_records"], numbers
        assert numbers["dropped"] == 0
        assert run_in(sqlite, "PRAGMA integrity_check") == [("ok",)]
        assert "a file of the decision log was lost" in server.log.read_text()


def test_the_service_is_not_ready_while_its_required_log_accepts_nothing(
    serve: Callable[..., AbstractContextManager[Server]], sqlite: LogTarget
) -> None:
    with serve(**required(sqlite)) as server, server.client() as client:
        assert log_state(client)["can_record"]
        log_process = command_of(*log_processes(server.process.pid))
        assert log_process is not None
        resource.prlimit(log_process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert client.post("/v1/decisions", json=REQUEST).status_code == 503
        refused = client.get("/readyz")
        detail = (
            "decisions cannot be recorded: neither the decision log's store nor the local disk is known to accept them"
        )
        assert (refused.status_code, refused.headers["retry-after"], refused.headers["content-type"]) == (
            503,
            "1",
            "application/problem+json",
        )
        assert refused.json() == {
            "type": "urn:runner-policy:problem:log-unavailable",
            "title": "The decision could not be recorded",
            "status": 503,
            "detail": detail,
            "errors": [{"pointer": "", "message": detail}],
        }
        verbose = client.get("/readyz?verbose")
        assert (verbose.status_code, verbose.json()["status"], verbose.json()["log"]["can_record"]) == (503, 503, False)
        text, verbose_text = (
            client.get(path, headers={"accept": "text/plain"}) for path in ("/readyz", "/readyz?verbose")
        )
        assert (text.status_code, text.headers["retry-after"], text.headers["content-type"], text.text) == (
            503,
            "1",
            "text/plain; charset=utf-8",
            f"The decision could not be recorded (503 log-unavailable)\n{detail}\n",
        )
        assert verbose_text.text.startswith(f"{text.text}revision: sha256:")
        assert '"can_record": false' in verbose_text.text
        assert client.get("/livez").status_code == 200
        resource.prlimit(log_process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/decisions", json=REQUEST).status_code == 200


@pytest.mark.slow
def test_the_service_is_ready_only_once_its_required_log_is_available(
    serve: Callable[..., AbstractContextManager[Server]], on_server: LogTarget
) -> None:
    assert on_server.server is not None
    on_server.spill.write_bytes(b"a file where the folder would be")
    with serve(**required(on_server)) as server, server.client() as client:
        with on_server.server.stopped():
            (log_process,) = log_processes(server.process.pid)
            os.kill(log_process, signal.SIGKILL)
            wait_for(lambda: client.get("/readyz").status_code == 503)
            wait_for(
                lambda: log_state(client)["last_error"] not in {"", "the log process ended"}
            )  # a new process has tried
            assert [client.get(path).status_code for path in ("/readyz", "/livez")] == [503, 200]
        wait_for(lambda: client.get("/readyz").status_code == 200)


def test_the_service_is_ready_without_a_log_that_is_not_required(
    serve: Callable[..., AbstractContextManager[Server]], new: LogTarget
) -> None:
    new.folder.joinpath("log").write_bytes(b"a file where the folder would be")
    new.spill.write_bytes(b"the same")
    with serve(RUNNER_POLICY_LOG=new.url, RUNNER_POLICY_LOG_SPILL=str(new.spill)) as server, server.client() as client:
        assert client.post("/v1/decisions", json=REQUEST).status_code == 200
        wait_for(lambda: log_state(client)["lost"] == 1)
        assert [client.get(path).status_code for path in ("/readyz", "/livez")] == [200, 200]
