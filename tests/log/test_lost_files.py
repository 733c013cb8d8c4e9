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
from log.conftest import FACTS, Place, becomes, counts, id_of, keeping, settled, until
from log.test_keeping import down, note, safe, told
from log.test_required import keepers
from log.test_store import rows, run_in

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

ASKED = {"facts": FACTS}


def database(place: Place) -> Path:
    assert place.file is not None
    return place.file


def beside(place: Place, suffix: str) -> Path:
    return database(place).with_name(f"{database(place).name}{suffix}")


def copy_of(place: Place) -> Path:
    """A whole copy of the database as it is."""
    copy = place.folder / "copy.db"
    copy.unlink(missing_ok=True)
    run_in(place, f"VACUUM INTO '{copy}'")
    return copy


def delete(place: Place) -> None:
    for suffix in SUFFIXES:
        beside(place, suffix).unlink()


def delete_database_alone(place: Place) -> None:
    database(place).unlink()


def move_away(place: Place) -> None:
    database(place).rename(place.folder / "moved.db")


def restore(place: Place) -> None:
    """A copy without the last records is put in the place of the file."""
    (place.folder / "copy.db").rename(database(place))


def remove_folder(place: Place) -> None:
    shutil.rmtree(database(place).parent)


def empty(place: Place) -> None:
    os.truncate(database(place), 0)


LOSING = [delete, delete_database_alone, move_away, restore, remove_folder, empty]


@pytest.mark.parametrize("lose", LOSING)
async def test_what_is_written_to_a_lost_file_is_written_again_and_the_rest_counted(
    lose: Callable[[Place], None], sqlite: Place, noted: Callable[..., LogEntry]
) -> None:
    async with keeping(sqlite, durable=True) as log:
        note(log, noted, 5)
        await safe(log)
        copy_of(sqlite)
        before = note(log, noted, 7)
        await safe(log)
        lose(sqlite)
        for _ in range(3):
            after = noted()
            await log.recorded(after)
            assert id_of(after) in sqlite.ids()
            assert told(log, "written", "spilled", "lost_files", "lost_file_records", "lost", "store_up")[1:] == [
                0,
                1,
                12,
                0,
                True,
            ]
            assert str(sqlite.file) in log.counts.last_lost_file
        assert not set(before) & set(sqlite.ids())


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_a_file_beside_the_database_that_is_deleted_takes_no_record_with_it(
    suffix: str, sqlite: Place, noted: Callable[..., LogEntry]
) -> None:
    async with keeping(sqlite, durable=True) as one, keeping(sqlite, durable=True) as other:
        ids = note(one, noted, 20) + note(other, noted, 20)
        await safe(one)
        await safe(other)
        beside(sqlite, suffix).unlink()
        for log in (one, other, one, other):
            after = noted()
            await log.recorded(after)
            ids.append(id_of(after))
        assert told(one, "lost_file_records") == told(other, "lost_file_records") == [0]
        # one process may see the new files of the other
        said = [log.counts.last_lost_file for log in (one, other) if log.counts.lost_files]
        assert said
        assert all("deleted" in each or "replaced" in each for each in said)
        # a store that another process is just opening may be slow, and its records are spilled
        await until(lambda: all(log.counts.spilled == log.counts.replayed for log in (one, other)), one)
        assert sqlite.ids() == sorted(ids)
    assert run_in(sqlite, "PRAGMA integrity_check") == [("ok",)]


async def test_a_copy_with_all_records_takes_nothing_away(sqlite: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(sqlite) as log:
        ids = note(log, noted, 5)
        await safe(log)
        copy_of(sqlite)
        restore(sqlite)
        ids += note(log, noted, 5)
        await safe(log)
        assert told(log, "lost_files", "lost_file_records") == [1, 0]
        assert sqlite.ids() == sorted(ids)


async def test_a_lost_file_is_noticed_though_nothing_is_decided(sqlite: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(sqlite) as log:
        note(log, noted, 5)
        await safe(log)
        delete(sqlite)
        await until(lambda: log.counts.lost_file_records == 5, log)
        assert database(sqlite).exists()


def overwrite_pages(path: Path) -> None:
    """The middle of a database is overwritten."""
    random = Random(1)
    with path.open("r+b") as file:
        pages = path.stat().st_size // 4096
        for page in range(pages // 3, 2 * pages // 3):
            file.seek(page * 4096)
            file.write(random.randbytes(4096))


def filled(place: Place) -> list[str]:
    """The ids of records that take some hundred pages, all of them in the database itself."""
    writer = Writer(read_url(place.url), 30)
    found = rows(300, size=3000)
    writer.write(found)
    writer.close()
    run_in(place, "PRAGMA wal_checkpoint(TRUNCATE)")
    return sorted(row.decision_id for row in found)


def set_aside(place: Place) -> list[Path]:
    return list(database(place).parent.glob("*.damaged-*Z"))


async def test_a_database_that_was_damaged_before_the_start_is_set_aside(
    sqlite: Place, noted: Callable[..., LogEntry]
) -> None:
    filled(sqlite)
    overwrite_pages(database(sqlite))
    damaged = database(sqlite).read_bytes()
    async with keeping(sqlite) as log:
        await until(lambda: log.counts.lost_files, log)
        assert "is damaged" in log.counts.last_lost_file
        ids = note(log, noted, 5)
        await safe(log)
        assert sqlite.ids()[-5:] == sorted(ids)
        assert log.counts.store_up
    (aside,) = set_aside(sqlite)
    assert aside.stat().st_size == len(damaged)


def test_a_check_finds_overwritten_pages_and_nothing_more_is_acknowledged_into_them(sqlite: Place) -> None:
    filled(sqlite)
    writer = Writer(read_url(sqlite.url), 30)
    writer.open()
    writer.check_for_damage()
    first = rows(1)
    writer.write(first)
    check = writer._check
    assert check is not None
    becomes(lambda: check._thread is not None and not check._thread.is_alive())
    overwrite_pages(database(sqlite))
    check._due = 0.0
    writer.check_for_damage()
    becomes(lambda: check._thread is not None and not check._thread.is_alive())
    second = rows(1)
    writer.write(second)
    (loss,) = writer.losses
    (aside,) = set_aside(sqlite)
    assert (loss.records, "is damaged" in loss.what, aside.name in loss.what) == (1, True, True)
    assert sqlite.ids() == [second[0].decision_id]
    writer.close()


def test_damage_that_a_statement_finds_has_the_file_set_aside(sqlite: Place) -> None:
    filled(sqlite)
    writer = Writer(read_url(sqlite.url), 30)
    writer.open()
    with database(sqlite).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (database(sqlite).stat().st_size - 4096))
    made_rows = rows(400, size=3000)
    for row in made_rows:
        writer.write([row])
    assert [len(set_aside(sqlite)), len(writer.losses)] == [1, 1]
    assert set(sqlite.ids()) <= {row.decision_id for row in made_rows}
    assert len(sqlite.ids()) + writer.losses[0].records == len(made_rows)
    writer.close()


async def test_a_file_that_is_no_database_is_left_alone(new: Place, noted: Callable[..., LogEntry]) -> None:
    database(new).parent.mkdir()
    database(new).write_bytes(b"somebody's letter\n" * 1000)
    async with keeping(new) as log:
        note(log, noted, 5)
        await safe(log)
        assert told(log, "spilled", "lost_files", "last_error") == [5, 0, "file is not a database"]
    assert database(new).read_bytes() == b"somebody's letter\n" * 1000


async def test_a_table_that_was_dropped_is_made_again(place: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(place) as log:
        note(log, noted, 5)
        await safe(log)
        run_in(place, "DROP TABLE decisions")
        ids = note(log, noted, 5)
        await until(lambda: log.counts.replayed == 5, log)
        ids += note(log, noted, 5)
        await safe(log)
        assert place.ids() == sorted(ids)
        assert told(log, "written", "lost", "lost_files", "lost_file_records", "store_up") == [10, 0, 1, 5, True]


async def test_a_table_that_was_emptied_takes_what_comes(on_server: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(on_server) as log:
        note(log, noted, 5)
        await safe(log)
        run_in(on_server, "TRUNCATE decisions")
        ids = note(log, noted, 5)
        await safe(log)
        assert on_server.ids() == sorted(ids)
        assert told(log, "written", "spilled", "lost", "store_up") == [10, 0, 0, True]


def delete_spilled(place: Place) -> None:
    for path in place.spill.iterdir():
        path.unlink()


def replace_spilled(place: Place) -> None:
    (path,) = place.spill.iterdir()
    path.with_suffix(".other").write_bytes(b"")
    path.with_suffix(".other").replace(path)


def remove_spill(place: Place) -> None:
    shutil.rmtree(place.spill)


@pytest.mark.parametrize("lose", [delete_spilled, replace_spilled, remove_spill])
async def test_a_spill_file_that_is_lost_is_noticed_before_the_next_acknowledgement(
    lose: Callable[[Place], None], new: Place, noted: Callable[..., LogEntry]
) -> None:
    database(new).mkdir(parents=True)  # no database can be made there
    async with keeping(new, durable=True) as log:
        await down(log)
        note(log, noted, 5)
        await safe(log)
        assert log.counts.spilled == 5
        lose(new)
        after = noted()
        await log.recorded(after)
        assert new.spilled() == [id_of(after)]
        assert told(log, "spilled", "lost", "lost_files", "lost_file_records") == [6, 0, 1, 5]
        database(new).rmdir()
        await until(lambda: log.counts.replayed == 1, log)
        assert new.ids() == [id_of(after)]


async def test_spill_files_that_were_left_and_then_deleted_are_counted_once_the_store_is_back(
    new: Place, noted: Callable[..., LogEntry]
) -> None:
    database(new).mkdir(parents=True)
    async with keeping(new, durable=True) as log:
        await down(log)
        note(log, noted, 5)
        await safe(log)
        remove_spill(new)
        database(new).rmdir()
        await until(lambda: log.counts.store_up, log)
        await until(lambda: log.counts.lost_file_records == 5, log)
        assert log.counts.lost_files == 1


def test_a_disk_that_takes_nothing_is_known_without_a_record(tmp_path: Path) -> None:
    spill = Spill(tmp_path / "spill", 1 << 20)
    assert spill.can_write()
    assert list((tmp_path / "spill").iterdir()) == []
    assert not Spill(tmp_path / "spill", 10).can_write()
    (tmp_path / "file").write_bytes(b"")
    assert not Spill(tmp_path / "file", 1 << 20).can_write()


# the service


def required(place: Place, **more: str) -> dict[str, str]:
    return {
        "RUNNER_POLICY_LOG": place.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_SPILL": str(place.spill),
        **more,
    }


def decide(client: httpx.Client, acknowledged: list[str], number: int = 1) -> None:
    for _ in range(number):
        answer = client.post("/v1/decisions", json=ASKED)
        if answer.status_code == 200:
            acknowledged.append(answer.json()["decision_id"])


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_every_acknowledged_decision_is_in_the_log_or_counted(
    workers: str, serve: Callable[..., AbstractContextManager[Server]], sqlite: Place
) -> None:
    """Whatever becomes of the files while several callers ask."""
    acknowledged: list[str] = []
    stop = threading.Event()
    with serve(**required(sqlite, RUNNER_POLICY_WORKERS=workers)) as server, server.client() as client:

        def ask() -> None:
            with server.client() as own, suppress(httpx.HTTPError):
                while not stop.is_set():
                    decide(own, acknowledged)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for lose in (delete, delete_database_alone, remove_folder, empty, delete):
            number = len(acknowledged)
            becomes(lambda number=number: len(acknowledged) >= number + 50)  # type: ignore[misc]  # bound now
            with suppress(FileNotFoundError):  # a file that a process is about to make
                lose(sqlite)
        number = len(acknowledged)
        becomes(lambda: len(acknowledged) >= number + 50)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        becomes(lambda: counts(client)["lost_files"] >= 5)
        time.sleep(2)  # what the other worker counted is published each second
        numbers = counts(client)
        kept = set(sqlite.ids()) | set(sqlite.spilled())
        lost = set(acknowledged) - kept
        assert len(lost) <= numbers["lost_file_records"], numbers
        assert numbers["dropped"] == 0
        assert run_in(sqlite, "PRAGMA integrity_check") == [("ok",)]
        assert "a file of the decision log was lost" in server.log.read_text()


def test_a_required_log_that_takes_nothing_makes_the_service_unready(
    serve: Callable[..., AbstractContextManager[Server]], sqlite: Place
) -> None:
    with serve(**required(sqlite)) as server, server.client() as client:
        (keeper,) = keepers(server.process.pid)
        assert settled(client)["can_record"]
        resource.prlimit(keeper, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert client.post("/v1/decisions", json=ASKED).status_code == 503
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
        text, whole = (client.get(path, headers={"accept": "text/plain"}) for path in ("/readyz", "/readyz?verbose"))
        assert (text.status_code, text.headers["retry-after"], text.headers["content-type"], text.text) == (
            503,
            "1",
            "text/plain; charset=utf-8",
            f"The decision could not be recorded (503 log-unavailable)\n{detail}\n",
        )
        assert whole.text.startswith(f"{text.text}revision: sha256:")
        assert '"can_record": false' in whole.text
        assert client.get("/livez").status_code == 200
        resource.prlimit(keeper, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        becomes(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/decisions", json=ASKED).status_code == 200


def test_a_required_log_has_to_be_there_before_the_service_is_ready(
    serve: Callable[..., AbstractContextManager[Server]], on_server: Place
) -> None:
    assert on_server.server is not None
    on_server.spill.write_bytes(b"a file where the folder would be")
    with serve(**required(on_server)) as server, server.client() as client:
        with on_server.server.away():
            (keeper,) = keepers(server.process.pid)
            os.kill(keeper, signal.SIGKILL)
            becomes(lambda: client.get("/readyz").status_code == 503)
            becomes(lambda: settled(client)["last_error"] not in {"", "the log process ended"})  # a new one has looked
            assert [client.get(path).status_code for path in ("/readyz", "/livez")] == [503, 200]
        becomes(lambda: client.get("/readyz").status_code == 200)


def test_a_log_that_is_not_required_keeps_no_service_from_being_ready(
    serve: Callable[..., AbstractContextManager[Server]], new: Place
) -> None:
    new.folder.joinpath("log").write_bytes(b"a file where the folder would be")
    new.spill.write_bytes(b"the same")
    with serve(RUNNER_POLICY_LOG=new.url, RUNNER_POLICY_LOG_SPILL=str(new.spill)) as server, server.client() as client:
        assert client.post("/v1/decisions", json=ASKED).status_code == 200
        becomes(lambda: settled(client)["lost"] == 1)
        assert [client.get(path).status_code for path in ("/readyz", "/livez")] == [200, 200]
