"""Records on their way to the store.

The store is unavailable, hangs, is full or returns, and processes are killed. No record is lost or stored twice
unless it is counted.
"""

from __future__ import annotations

import os
import resource
import signal
import stat
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from log.conftest import TODAY, going, id_of, keeping, until

from policy.request.request import read_request
from service.log.worker import BACKLOG
from service.problems import LogUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from log.conftest import Place

    from service.log.client import LogClient
    from service.log.record import LogEntry

pytestmark = pytest.mark.anyio


def note(log: LogClient, noted: Callable[..., LogEntry], number: int) -> list[str]:
    """Log some decisions; their ids."""
    found = [noted() for _ in range(number)]
    for each in found:
        log.note(each)
    return [id_of(each) for each in found]


async def down(log: LogClient) -> None:
    await until(lambda: not log.counts.store_up, log)


async def safe(log: LogClient) -> None:
    await until(lambda: not log.waiting, log)


def told(log: LogClient, *names: str) -> list[Any]:
    state = log.state()
    return [state[name] for name in names]


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)


async def test_what_is_noted_is_written(place: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(place) as log:
        ids = note(log, noted, 1234)
        await safe(log)
        assert place.ids() == sorted(ids)
        assert told(log, "written", "spilled", "replayed", "lost", "overflowed", "store_up") == [1234, 0, 0, 0, 0, True]


async def test_the_end_waits_for_what_was_noted(place: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(place) as log:
        ids = note(log, noted, 50)
    assert place.ids() == sorted(ids)


def test_a_store_that_is_gone_at_the_start_gets_its_records_when_it_comes(
    on_server: Place, noted: Callable[..., LogEntry]
) -> None:
    assert on_server.server is not None
    with on_server.server.away():

        async def first() -> list[str]:
            async with keeping(on_server) as log:
                ids = note(log, noted, 700)
                await safe(log)
                assert told(log, "written", "spilled", "lost", "store_up") == [0, 700, 0, False]
                assert "password" not in log.counts.last_error
                assert on_server.server is not None
                assert on_server.server.password not in log.counts.last_error
                return ids

        ids: list[str] = []

        async def whole() -> None:
            ids.extend(await first())

        going(whole())
    assert sorted(on_server.spilled()) == sorted(ids)

    async def again() -> None:
        async with keeping(on_server) as log:
            await until(lambda: log.counts.replayed == 700, log)
        assert on_server.ids() == sorted(ids)
        assert list(on_server.spill.iterdir()) == []

    going(again())


async def test_a_store_that_goes_and_comes_back_has_every_record_once(
    on_server: Place, noted: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    async with keeping(on_server) as log:
        ids = note(log, noted, 10)
        await safe(log)
        with server.away():
            ids += note(log, noted, 20)
            await safe(log)
            assert told(log, "written", "spilled", "store_up") == [10, 20, False]
        await until(lambda: log.counts.replayed == 20, log)
        ids += note(log, noted, 5)
        await safe(log)
        assert told(log, "written", "spilled", "replayed", "lost", "store_up", "last_error", "spill_bytes") == [
            15,
            20,
            20,
            0,
            True,
            "",
            0,
        ]
        assert on_server.ids() == sorted(ids)


async def test_a_server_that_dies_and_comes_back_has_every_record_once(
    on_server: Place, noted: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    async with keeping(on_server) as log:
        ids = note(log, noted, 3000)
        await until(lambda: log.counts.written, log)
        server.kill()
        ids += note(log, noted, 1000)
        await safe(log)
        server.start()
        await until(lambda: log.counts.written + log.counts.replayed == 4000, log)
        assert on_server.ids() == sorted(ids)


async def test_a_store_that_hangs_is_hung_up_on(on_server: Place, noted: Callable[..., LogEntry]) -> None:
    server = on_server.server
    assert server is not None
    async with keeping(on_server, patience=2) as log:
        ids = note(log, noted, 5)
        await safe(log)
        with server.frozen():
            ids += note(log, noted, 5)
            await safe(log)
            assert told(log, "written", "spilled", "store_up", "last_error") == [
                5,
                5,
                False,
                "the store does not answer in 2 s",
            ]
            ids += note(log, noted, 5)
            await safe(log)
            assert log.counts.spilled == 10
        await until(lambda: log.counts.replayed == 10, log)
        assert on_server.ids() == sorted(ids)


async def test_a_store_that_hangs_while_it_is_connected_to_keeps_nobody_waiting(
    on_server: Place, noted: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    with server.frozen():
        async with keeping(on_server, patience=2) as log:
            ids = note(log, noted, 5)
            await safe(log)
            assert log.counts.spilled == 5
    async with keeping(on_server) as log:
        await until(lambda: log.counts.replayed == 5, log)
    assert on_server.ids() == sorted(ids)


async def test_a_table_that_another_holds_is_waited_for_and_then_given_up(
    place: Place, noted: Callable[..., LogEntry]
) -> None:
    async with keeping(place, patience=2) as log:
        ids = note(log, noted, 5)
        await safe(log)
        with closing(place.hold()):
            ids += note(log, noted, 5)
            await safe(log)
            assert told(log, "written", "spilled") == [5, 5]
        await until(lambda: log.counts.replayed == 5, log)
    assert place.ids() == sorted(ids)


async def test_a_store_that_is_slow_has_the_disk_beside_it(place: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(place, patience=20.0) as log:
        ids = note(log, noted, 1)
        await safe(log)
        with closing(place.hold()):
            ids += note(log, noted, 1)
            await until(lambda: log._sent, log)
            ids += note(log, noted, BACKLOG)
            await until(lambda: log.counts.spilled == BACKLOG, log)
        await safe(log)
        await until(lambda: log.counts.replayed == BACKLOG, log)
        assert told(log, "written", "spilled", "lost", "store_up") == [2, BACKLOG, 0, True]
        assert place.ids() == sorted(ids)


async def test_a_store_that_is_full_has_its_records_spilled(sqlite: Place, noted: Callable[..., LogEntry]) -> None:
    """Files of this process, and of those that it starts, may not become larger than they are."""
    async with keeping(sqlite) as log:
        ids = note(log, noted, 300)
        await safe(log)
        assert sqlite.file is not None
        process = log._process
        assert process is not None
        wal = sqlite.file.with_name(f"{sqlite.file.name}-wal").stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (wal, resource.RLIM_INFINITY))
        ids += note(log, noted, 100)
        await safe(log)
        assert told(log, "written", "spilled", "lost", "store_up") == [300, 100, 0, False]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await until(lambda: log.counts.replayed == 100, log)
        assert sqlite.ids() == sorted(ids)


def test_what_neither_store_nor_disk_takes_is_counted(on_server: Place, noted: Callable[..., LogEntry]) -> None:
    assert on_server.server is not None

    async def test() -> None:
        async with keeping(on_server, bound=500, spill_size=100_000) as log:
            note(log, noted, 800)
            await safe(log)
            for _ in range(10):
                note(log, noted, 20)
                await safe(log)
            written, spilled, lost, overflowed = told(log, "written", "spilled", "lost", "overflowed")
            assert written + spilled + lost + overflowed == 1000
            assert overflowed == 300
            assert spilled == len(on_server.spilled()) > 0
            assert lost >= 500
            assert sum(path.stat().st_size for path in on_server.spill.iterdir()) <= 100_000

    with on_server.server.away():
        going(test())


def test_a_disk_without_room_leaves_no_half_line(on_server: Place, noted: Callable[..., LogEntry]) -> None:
    assert on_server.server is not None

    async def test() -> None:
        async with keeping(on_server) as log:
            note(log, noted, 10)
            await safe(log)
            assert log._process is not None
            resource.prlimit(
                log._process.pid, resource.RLIMIT_FSIZE, (on_server.spill_size + 1000, resource.RLIM_INFINITY)
            )
            note(log, noted, 10)
            await safe(log)
            assert told(log, "spilled", "lost") == [10, 10]
            assert "File too large" in log.counts.last_error
            assert len(on_server.spilled()) == 10
            resource.prlimit(log._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            note(log, noted, 10)
            await safe(log)
            assert len(on_server.spilled()) == 20

    with on_server.server.away():
        going(test())


async def test_a_record_that_the_store_refuses_is_counted_and_takes_no_other_with_it(
    on_server: Place, noted: Callable[..., LogEntry]
) -> None:
    assert on_server.server is not None
    on_server.url = on_server.server.database("ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    async with keeping(on_server) as log:
        await until(lambda: log.counts.spill_bytes == 0 and log._transport, log)
        others = note(log, noted, 3)
        log.note(noted(request_id="決定"))
        others += note(log, noted, 3)
        await safe(log)
        assert told(log, "written", "spilled", "lost", "store_up") == [6, 0, 1, True]
        assert log.counts.last_error == (
            "records not stored: 1; the store refused a value in them, "
            "or a trigger or rule of the database left them out"
        )
        assert on_server.ids() == sorted(others)


async def test_a_keeper_that_is_killed_is_replaced_and_nothing_is_lost_or_twice(
    place: Place, noted: Callable[..., LogEntry]
) -> None:
    async with keeping(place) as log:
        ids = []
        for _ in range(2):
            ids += note(log, noted, 400)
            await until(lambda: log._sent, log)
            killed = log._process
            kill(killed)
            ids += note(log, noted, 100)
            await until(lambda killed=killed: log._process is not killed and log._transport, log)  # type: ignore[misc]  # bound now
        await safe(log)
        assert place.ids() == sorted(ids)
        assert told(log, "written", "spilled", "lost", "overflowed") == [1000, 0, 0, 0]


SAYS_ITS_COMMITS = """
    CREATE TABLE commits (setting text);
    CREATE FUNCTION said() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO commits VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
    CREATE TRIGGER said BEFORE INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION said();
"""


@pytest.mark.parametrize(("kept", "setting"), [({"durable": True}, "on"), ({"durable": False}, "off")])
async def test_a_decision_that_must_be_safe_is_on_the_servers_disk_however_it_is_set_up(
    on_server: Place, noted: Callable[..., LogEntry], kept: dict[str, Any], setting: str
) -> None:
    server = on_server.server
    assert server is not None
    with server.connection(on_server.url) as connection:
        connection.execute(SAYS_ITS_COMMITS)
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off')
    async with keeping(on_server, **kept) as log:
        await log.recorded(noted())
        await until(lambda: log.counts.written == 1, log)
    with server.connection(on_server.url) as connection:
        assert connection.execute("SELECT setting FROM commits").fetchall() == [(setting,)]


async def test_decisions_wait_no_longer_than_they_may_for_a_keeper_that_hangs(
    sqlite: Place, noted: Callable[..., LogEntry]
) -> None:
    async with keeping(sqlite, patience=1, durable=True) as log:
        first = noted()
        log.note(first)
        await safe(log)
        await until(lambda: log.counts.written + log.counts.replayed == 1, log)
        assert log._process is not None
        os.kill(log._process.pid, signal.SIGSTOP)
        try:
            second = noted()
            with pytest.raises(LogUnavailable, match=r"^the decision could not be recorded: the log does not answer$"):
                await log.recorded(second)
        finally:
            os.kill(log._process.pid, signal.SIGCONT)
        await safe(log)
        assert sqlite.ids() == [id_of(first), id_of(second)]


async def test_what_waits_is_bounded_in_bytes(sqlite: Place, policy: Any) -> None:
    architectures = [f"{n:04}" * 2000 for n in range(100)]
    request = read_request(
        {"facts": {"model_config": {"architectures": architectures}}, "vllm_version": "0.23.0"}, policy.releases
    )
    large = policy.answer(request, TODAY), request, "v1/decisions", "argo", 1, None
    async with keeping(sqlite) as log:
        await until(lambda: log._transport, log)
        assert log._process is not None
        os.kill(log._process.pid, signal.SIGSTOP)
        for _ in range(100):
            log.note(large)
            log._flush()
        try:
            assert log.overflowed > 0
            assert log._size <= 64 << 20
            assert log.overflowed + log.waiting == 100
        finally:
            os.kill(log._process.pid, signal.SIGCONT)
        await safe(log)


async def test_the_files_are_nobody_elses_to_read(new: Place, noted: Callable[..., LogEntry]) -> None:
    async with keeping(new, patience=3) as log:
        note(log, noted, 5)
        await until(lambda: log.counts.written + log.counts.replayed == 5, log)
        with closing(new.hold()):
            note(log, noted, 5)
            await safe(log)
            # while the database is held: the last connection that is closed deletes the files beside it
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in new.folder.rglob("*") if path.is_file()}
        assert {path.name.partition("-")[2] for path in modes if path.suffix.startswith(".db")} == {"", "shm", "wal"}
        assert any(path.suffix == ".jsonl" for path in modes)
        assert set(modes.values()) == {0o600}


async def test_files_that_are_left_behind_are_adopted_once(place: Place, noted: Callable[..., LogEntry]) -> None:
    """Two keepers look at the same time."""
    async with keeping(place, patience=2) as log:
        note(log, noted, 1)
        await safe(log)
        with closing(place.hold()):
            for _ in range(5):
                note(log, noted, 500)
                await safe(log)
            kill(log._process)
            await until(lambda: log._transport is None, log)
            spilled = place.spilled()
            assert len(spilled) == 2500
        log._closing = True
    async with keeping(place) as one, keeping(place) as other:
        await until(lambda: one.counts.replayed + other.counts.replayed == 2500, one)
        assert [one.counts.written, other.counts.written] == [0, 0]
    assert len(place.ids()) == 2501
    assert list(place.spill.iterdir()) == []


def test_what_was_torn_is_left_out_and_what_cannot_be_read_is_counted(
    sqlite: Place, noted: Callable[..., LogEntry]
) -> None:
    async def spill() -> None:
        async with keeping(sqlite, patience=2) as log:
            note(log, noted, 1)
            await safe(log)
            with closing(sqlite.hold()):
                note(log, noted, 4)
                await safe(log)
                kill(log._process)
                await until(lambda: log._transport is None, log)
            log._closing = True

    going(spill())
    (path,) = sqlite.spill.glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\0" * 100 + b"\n", lines[2], lines[3][:-20]]))

    async def again() -> None:
        async with keeping(sqlite) as log:
            await until(lambda: log.counts.replayed == 2, log)
            assert log.counts.lost == 1
        assert len(sqlite.ids()) == 3
        assert list(sqlite.spill.iterdir()) == []

    going(again())


async def test_a_keeper_ends_with_its_process_though_the_store_hangs(
    on_server: Place, noted: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    async with keeping(on_server, patience=2) as log:
        ids = note(log, noted, 5)
        await safe(log)
        with server.frozen():
            ids += note(log, noted, 5)
            await until(lambda: log._sent, log)
            assert log._transport is not None
            log._closing = True
            log._transport.abort()  # as where this process is killed
            process = log._process
            assert process is not None
            await until(lambda: process.poll() is not None, log)
        assert process.returncode == 0
        assert sorted([*on_server.ids(), *on_server.spilled()]) == sorted(ids)
        log._sent.clear()
