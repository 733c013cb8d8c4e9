"""Records on their way to the store, which is stopped, hangs or is full, while processes are killed.

Every record is stored once, or counted as lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sqlite3
import stat
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import PATIENCE
from log.conftest import TODAY, id_of, log_config, run_loop, running_log, until
from log.test_store import rows

from policy.request.request import read_request
from service.log import client
from service.log.maintenance import Maintenance
from service.log.messages import MAINTENANCE_INTERVAL
from service.log.spill import Spill, SpillFile, SpillReader, encode
from service.log.store import read_url
from service.log.store_thread import TaskResult
from service.log.worker import BACKLOG
from service.log.writer import Writer
from service.problems import LogUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from log.conftest import LogTarget

    from service.log.client import LogClient
    from service.log.record import LogEntry

pytestmark = pytest.mark.anyio


def note(log: LogClient, new_entry: Callable[..., LogEntry], number: int) -> list[str]:
    """Log some decisions, and return their ids."""
    found = [new_entry() for _ in range(number)]
    for each in found:
        log.note(each)
    return [id_of(each) for each in found]


async def down(log: LogClient) -> None:
    await until(lambda: not log.counts.store_up, log)


async def flushed(log: LogClient) -> None:
    await until(lambda: not log.waiting, log)


def state_of(log: LogClient, *names: str) -> list[Any]:
    state = log.state()
    return [state[name] for name in names]


async def stored(log: LogClient, new_entry: Callable[..., LogEntry], number: int) -> list[str]:
    """Note new entries, and wait until the store has them; those that it did not take in time are replayed."""
    ids = note(log, new_entry, number)
    await flushed(log)
    await until(lambda: log.counts.written + log.counts.replayed == number, log)
    return ids


def kill(process: Any) -> None:
    os.kill(process.pid, signal.SIGKILL)


async def test_logged_decisions_are_written(target: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    async with running_log(target) as log:
        ids = note(log, new_entry, 1234)
        await flushed(log)
        assert target.ids() == sorted(ids)
        assert state_of(log, "written", "spilled", "replayed", "lost", "overflowed", "store_up") == [
            1234,
            0,
            0,
            0,
            0,
            True,
        ]


async def test_closing_the_log_waits_for_its_records(target: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    async with running_log(target) as log:
        ids = note(log, new_entry, 50)
    assert target.ids() == sorted(ids)


@pytest.mark.slow
def test_a_store_that_is_down_at_the_start_gets_its_records_later(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    assert on_server.server is not None
    with on_server.server.stopped():

        async def first() -> list[str]:
            async with running_log(on_server) as log:
                ids = note(log, new_entry, 700)
                await flushed(log)
                assert state_of(log, "written", "spilled", "lost", "store_up") == [0, 700, 0, False]
                assert "password" not in log.counts.last_error
                assert on_server.server is not None
                assert on_server.server.password not in log.counts.last_error
                return ids

        ids: list[str] = []

        async def spill_all() -> None:
            ids.extend(await first())

        run_loop(spill_all())
    assert sorted(on_server.spilled()) == sorted(ids)

    async def again() -> None:
        async with running_log(on_server) as log:
            await until(lambda: log.counts.replayed == 700, log)
        assert on_server.ids() == sorted(ids)
        assert list(on_server.spill.iterdir()) == []

    run_loop(again())


@pytest.mark.slow
async def test_a_store_that_is_stopped_and_started_has_every_record_once(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    async with running_log(on_server) as log:
        ids = note(log, new_entry, 10)
        await flushed(log)
        with server.stopped():
            ids += note(log, new_entry, 20)
            await flushed(log)
            assert state_of(log, "written", "spilled", "store_up") == [10, 20, False]
        await until(lambda: log.counts.replayed == 20, log)
        ids += note(log, new_entry, 5)
        await flushed(log)
        assert state_of(log, "written", "spilled", "replayed", "lost", "store_up", "last_error", "spill_bytes") == [
            15,
            20,
            20,
            0,
            True,
            "",
            0,
        ]
        assert on_server.ids() == sorted(ids)


@pytest.mark.slow
async def test_a_store_that_is_killed_and_started_has_every_record_once(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    async with running_log(on_server) as log:
        ids = note(log, new_entry, 3000)
        await until(lambda: log.counts.written, log)
        server.kill()
        ids += note(log, new_entry, 1000)
        await flushed(log)
        server.start()
        await until(lambda: log.counts.written + log.counts.replayed == 4000, log)
        assert on_server.ids() == sorted(ids)


@pytest.mark.slow
async def test_a_store_that_hangs_is_disconnected(on_server: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    server = on_server.server
    assert server is not None
    async with running_log(on_server, timeout=2) as log:
        ids = await stored(log, new_entry, 5)
        written, spilled = state_of(log, "written", "spilled")
        with server.frozen():
            ids += note(log, new_entry, 5)
            await flushed(log)
            assert state_of(log, "written", "spilled", "store_up", "last_error") == [
                written,
                spilled + 5,
                False,
                "the store did not answer within 2 s",
            ]
            ids += note(log, new_entry, 5)
            await flushed(log)
            assert log.counts.spilled == spilled + 10
        await until(lambda: log.counts.replayed == spilled + 10, log)
        assert on_server.ids() == sorted(ids)


@pytest.mark.slow
async def test_a_store_that_hangs_during_connecting_delays_no_record(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    with server.frozen():
        async with running_log(on_server, timeout=2) as log:
            ids = note(log, new_entry, 5)
            await flushed(log)
            assert log.counts.spilled == 5
    async with running_log(on_server) as log:
        await until(lambda: log.counts.replayed == 5, log)
    assert on_server.ids() == sorted(ids)


async def test_a_locked_table_is_waited_for_for_a_limited_time(
    target: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(target, timeout=2) as log:
        ids = await stored(log, new_entry, 5)
        written, spilled = state_of(log, "written", "spilled")
        with closing(target.hold()):
            ids += note(log, new_entry, 5)
            await flushed(log)
            assert state_of(log, "written", "spilled") == [written, spilled + 5]
        await until(lambda: log.counts.replayed == spilled + 5, log)
    assert target.ids() == sorted(ids)


async def test_a_store_that_is_slow_has_its_records_spilled(
    target: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(target, timeout=20.0) as log:
        ids = note(log, new_entry, 1)
        await flushed(log)
        with closing(target.hold()):
            ids += note(log, new_entry, 1)
            await until(lambda: log._sent, log)
            ids += note(log, new_entry, BACKLOG)
            await until(lambda: log.counts.spilled == BACKLOG, log)
        await flushed(log)
        await until(lambda: log.counts.replayed == BACKLOG, log)
        assert state_of(log, "written", "spilled", "lost", "store_up") == [2, BACKLOG, 0, True]
        assert target.ids() == sorted(ids)


async def test_a_store_that_is_full_has_its_records_spilled(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    """The files of the log process cannot grow."""
    async with running_log(sqlite) as log:
        ids = note(log, new_entry, 300)
        await flushed(log)
        assert sqlite.file is not None
        process = log._process
        assert process is not None
        wal = sqlite.file.with_name(f"{sqlite.file.name}-wal").stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (wal, resource.RLIM_INFINITY))
        ids += note(log, new_entry, 100)
        await flushed(log)
        assert state_of(log, "written", "spilled", "lost", "store_up") == [300, 100, 0, False]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await until(lambda: log.counts.replayed == 100, log)
        assert sqlite.ids() == sorted(ids)


def test_records_that_neither_store_nor_disk_accepts_are_counted(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    assert on_server.server is not None

    async def test() -> None:
        async with running_log(on_server, bound=500, spill_size=100_000) as log:
            note(log, new_entry, 800)
            await flushed(log)
            for _ in range(10):
                note(log, new_entry, 20)
                await flushed(log)
            written, spilled, lost, overflowed = state_of(log, "written", "spilled", "lost", "overflowed")
            assert written + spilled + lost + overflowed == 1000
            assert overflowed == 300
            assert spilled == len(on_server.spilled()) > 0
            assert lost >= 500
            assert sum(path.stat().st_size for path in on_server.spill.iterdir()) <= 100_000

    with on_server.server.stopped():
        run_loop(test())


def test_a_full_disk_leaves_no_incomplete_line(on_server: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    assert on_server.server is not None

    async def test() -> None:
        async with running_log(on_server) as log:
            note(log, new_entry, 10)
            await flushed(log)
            assert log._process is not None
            resource.prlimit(
                log._process.pid, resource.RLIMIT_FSIZE, (on_server.spill_size + 1000, resource.RLIM_INFINITY)
            )
            note(log, new_entry, 10)
            await flushed(log)
            assert state_of(log, "spilled", "lost") == [10, 10]
            assert "File too large" in log.counts.last_error
            assert len(on_server.spilled()) == 10
            resource.prlimit(log._process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            note(log, new_entry, 10)
            await flushed(log)
            assert len(on_server.spilled()) == 20

    with on_server.server.stopped():
        run_loop(test())


async def test_a_record_that_the_store_refuses_is_counted_and_the_others_are_written(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    assert on_server.server is not None
    on_server.url = on_server.server.database("ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    async with running_log(on_server) as log:
        await until(lambda: log.counts.spill_bytes == 0 and log._transport, log)
        others = note(log, new_entry, 3)
        log.note(new_entry(request_id="決定"))
        others += note(log, new_entry, 3)
        await flushed(log)
        assert state_of(log, "written", "spilled", "lost", "store_up") == [6, 0, 1, True]
        assert log.counts.last_error == (
            "records not stored: 1; the store refused a value in them, "
            "or a trigger or rule of the database left them out"
        )
        assert on_server.ids() == sorted(others)


async def test_a_log_process_that_is_killed_is_replaced_and_every_record_is_written_once(
    target: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(target) as log:
        ids = []
        for _ in range(2):
            ids += note(log, new_entry, 400)
            await until(lambda: log._sent, log)
            killed = log._process
            kill(killed)
            ids += note(log, new_entry, 100)
            await until(lambda killed=killed: log._process is not killed and log._transport, log)  # type: ignore[misc]  # bound now
        await flushed(log)
        assert target.ids() == sorted(ids)
        assert state_of(log, "written", "spilled", "lost", "overflowed") == [1000, 0, 0, 0]


async def test_a_log_process_that_lacks_an_open_file_to_start_is_started_later(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite) as log:
        ids = await stored(log, new_entry, 1)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            kill(log._process)
            ids += note(log, new_entry, 1)
            await until(lambda: log.state()["last_error"].startswith("the log process could not be started"), log)
            assert log.waiting == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await flushed(log)
        assert sqlite.ids() == sorted(ids)


RECORD_COMMIT_SETTING = """
    CREATE TABLE commits (setting text);
    CREATE FUNCTION record_setting() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO commits VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
    CREATE TRIGGER record_setting BEFORE INSERT ON decisions FOR EACH ROW EXECUTE FUNCTION record_setting();
"""


@pytest.mark.parametrize(
    ("config", "setting"), [({"durable": True}, "on"), pytest.param({"durable": False}, "off", marks=pytest.mark.slow)]
)
async def test_a_durable_decision_is_committed_to_disk_whatever_the_server_s_setting(
    on_server: LogTarget, new_entry: Callable[..., LogEntry], config: dict[str, Any], setting: str
) -> None:
    server = on_server.server
    assert server is not None
    with server.connection(on_server.url) as connection:
        connection.execute(RECORD_COMMIT_SETTING)
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET synchronous_commit = off')
    async with running_log(on_server, **config) as log:
        await log.record(new_entry())
        await until(lambda: log.counts.written == 1, log)
    with server.connection(on_server.url) as connection:
        assert connection.execute("SELECT setting FROM commits").fetchall() == [(setting,)]


@pytest.mark.slow
async def test_decisions_wait_a_limited_time_for_a_log_process_that_hangs(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite, timeout=1, durable=True) as log:
        first = new_entry()
        log.note(first)
        await flushed(log)
        await until(lambda: log.counts.written + log.counts.replayed == 1, log)
        assert log._process is not None
        os.kill(log._process.pid, signal.SIGSTOP)
        try:
            second = new_entry()
            with pytest.raises(LogUnavailable, match=r"^the decision could not be recorded: the log does not answer$"):
                await log.record(second)
        finally:
            os.kill(log._process.pid, signal.SIGCONT)
        await flushed(log)
        await until(lambda: log.counts.written + log.counts.replayed == 2, log)
        assert sqlite.ids() == [id_of(first), id_of(second)]


async def test_a_log_process_that_hangs_is_replaced_if_decisions_wait_for_it(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_log(sqlite) as log:
        ids = await stored(log, new_entry, 1)
        hanging = log._process
        assert hanging is not None
        os.kill(hanging.pid, signal.SIGSTOP)
        try:
            with monkeypatch.context() as patched:
                patched.setattr(client, "SWEEP_INTERVAL", 0.01)
                patched.setattr(client, "SILENCE_MARGIN", 0.1 - MAINTENANCE_INTERVAL - PATIENCE)
                await asyncio.sleep(0.5)
                assert hanging.poll() is None  # nothing waits for it
                ids += note(log, new_entry, 2)
                await until(lambda: log._process is not hanging, log)
        finally:
            hanging.kill()
        await flushed(log)
        assert sqlite.ids() == sorted(ids)
        assert state_of(log, "written", "lost", "overflowed") == [3, 0, 0]


async def test_the_queue_is_limited_in_bytes(sqlite: LogTarget, policy: Any) -> None:
    architectures = [f"{n:04}" * 2000 for n in range(100)]
    request = read_request(
        {"facts": {"model_config": {"architectures": architectures}}, "vllm_version": "0.23.0"}, policy.releases
    )
    large = policy.answer(request, TODAY), request, "v1/decisions", "argo", 1, None
    async with running_log(sqlite) as log:
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
        await flushed(log)


class Turns:
    """The bytes that are written to log processes, each with the number of the event loop's turn."""

    def __init__(self, log: LogClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        self.written: list[tuple[int, bytes]] = []
        kind: Any = type(log._transport)
        loop: Any = asyncio.get_running_loop()
        write, run_once = kind.write, loop._run_once

        def noted(transport: object, data: bytes) -> None:
            self.written.append((self.now, data))
            write(transport, data)

        def counted() -> None:
            self.now += 1
            run_once()

        monkeypatch.setattr(kind, "write", noted)
        monkeypatch.setattr(loop, "_run_once", counted)

    def sizes(self) -> list[int]:
        """How many bytes were written in each turn that wrote some."""
        found: Counter[int] = Counter()
        for turn, data in self.written:
            found[turn] += len(data)
        return list(found.values())

    def ids(self) -> list[str]:
        """The ids of the decisions in the order in which they were written."""
        batches = [json.loads(data) for _, data in self.written if data.startswith(b"[")]
        return [record[-1]["decision_id"] for _, records in batches for record in records]


@pytest.mark.parametrize("is_required", [False, True])
async def test_a_large_backlog_is_sent_in_parts_and_in_order(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry], monkeypatch: pytest.MonkeyPatch, *, is_required: bool
) -> None:
    """To the log process, and to the one that replaces it."""
    large = {"model_config": {"architectures": ["x" * 8000] * 10}}
    async with running_log(sqlite) as log:
        await until(lambda: log._transport, log)
        turns = Turns(log, monkeypatch)
        stopped = log._process
        assert stopped is not None
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            entries = [new_entry(facts=large) for _ in range(50)]
            ids = [id_of(each) for each in entries]
            futures = [log.record(each) for each in entries] if is_required else []
            for each in entries[len(futures) :]:
                log.note(each)
            await until(lambda: not log._entries, log)
            sent = turns.written.copy()
            assert (len(turns.sizes()) > 3, max(turns.sizes()) < (1 << 20) + 200_000) == (True, True)
            assert turns.ids() == ids
            assert sum(batch.number for batch in log._sent.values()) == log.waiting == len(ids)
            turns.written.clear()
        finally:
            kill(stopped)
        await flushed(log)
        assert [data for _, data in turns.written[1:]] == [data for _, data in sent]
        assert max(turns.sizes()) < (1 << 20) + 200_000
        assert sqlite.ids() == sorted(ids)
        assert state_of(log, "written", "lost", "overflowed") == [50, 0, 0]
        assert all(future.done() for future in futures)


async def test_a_large_backlog_is_sent_when_the_log_closes(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    large = {"model_config": {"architectures": ["x" * 8000] * 10}}
    async with running_log(sqlite) as log:
        entries = [new_entry(facts=large) for _ in range(50)]
        for each in entries:
            log.note(each)
    assert sqlite.ids() == sorted(map(id_of, entries))


@pytest.mark.slow
async def test_only_the_owner_may_read_the_files(new: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    async with running_log(new, timeout=3) as log:
        note(log, new_entry, 5)
        await until(lambda: log.counts.written + log.counts.replayed == 5, log)
        with closing(new.hold()):
            note(log, new_entry, 5)
            await flushed(log)
            # while the database is locked: closing the last connection deletes the files beside it
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in new.folder.rglob("*") if path.is_file()}
        assert {path.name.partition("-")[2] for path in modes if path.suffix.startswith(".db")} == {"", "shm", "wal"}
        assert any(path.suffix == ".jsonl" for path in modes)
        assert set(modes.values()) == {0o600}


async def test_spill_files_left_behind_are_replayed_once(target: LogTarget, new_entry: Callable[..., LogEntry]) -> None:
    """Two log processes look for them at the same time."""
    async with running_log(target, timeout=2) as log:
        await stored(log, new_entry, 1)
        with closing(target.hold()):
            for _ in range(5):
                note(log, new_entry, 500)
                await flushed(log)
            kill(log._process)
            await until(lambda: log._transport is None, log)
            spilled = target.spilled()
            assert len(spilled) == 2500
        log._closing = True
    async with running_log(target) as one, running_log(target) as other:
        await until(lambda: one.counts.replayed + other.counts.replayed == 2500, one)
        assert [one.counts.written, other.counts.written] == [0, 0]
    assert len(target.ids()) == 2501
    assert list(target.spill.iterdir()) == []


@pytest.mark.slow
def test_an_incomplete_line_is_ignored_and_an_unreadable_one_is_counted(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async def spill() -> None:
        async with running_log(sqlite, timeout=2) as log:
            await stored(log, new_entry, 1)
            with closing(sqlite.hold()):
                note(log, new_entry, 4)
                await flushed(log)
                kill(log._process)
                await until(lambda: log._transport is None, log)
            log._closing = True

    run_loop(spill())
    (path,) = sqlite.spill.glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\0" * 100 + b"\n", lines[2], lines[3][:-20]]))

    async def again() -> None:
        async with running_log(sqlite) as log:
            await until(lambda: log.counts.replayed == 2, log)
            assert log.counts.lost == 1
        assert len(sqlite.ids()) == 3
        assert list(sqlite.spill.iterdir()) == []

    run_loop(again())


@pytest.mark.parametrize(
    "bad_line",
    [b"\0" * 100, b"", b"{", b"[1]", b"null", b"\xff", b'["\xff"]', b'["' + b"\xed\xa0\x80" + b'"]', b"[" * 100_000],
    ids=repr,
)
def test_a_damaged_line_of_a_spill_file_does_not_keep_the_others_from_being_replayed(
    tmp_path: Path, bad_line: bytes
) -> None:
    good = [encode(row) for row in rows(2)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([good[0], bad_line, good[1], b""]))
    reader = SpillReader(tmp_path)
    found, broken = reader.next_part()
    assert ([encode(row) for row in found], broken) == (good, 1)
    reader.mark_replayed()
    assert reader.next_part() == ([], 0)
    assert list(tmp_path.iterdir()) == []


def test_a_spill_file_that_cannot_be_looked_up_is_not_lost(sqlite: LogTarget) -> None:
    sqlite.spill.mkdir()
    writer, spill = Writer(read_url(sqlite.url), 30), Spill(sqlite.spill, 1 << 30)
    unreadable = SpillFile(sqlite.spill / ("a" * 300), -1, 1, rows(1)[0].decision_id)
    missing = SpillFile(sqlite.spill / "a.jsonl", -1, 1, rows(1)[0].decision_id)
    spill.handed_over.extend([unreadable, missing])
    assert Maintenance(log_config(sqlite), writer, spill).run() == TaskResult()
    assert [list(spill.handed_over), [loss.records for loss in spill.losses]] == [[unreadable], [1]]
    writer.close()


@pytest.mark.slow
async def test_a_log_process_ends_with_its_service_even_if_the_store_hangs(
    on_server: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    server = on_server.server
    assert server is not None
    async with running_log(on_server, timeout=2) as log:
        ids = note(log, new_entry, 5)
        await flushed(log)
        with server.frozen():
            ids += note(log, new_entry, 5)
            await until(lambda: log._sent, log)
            assert log._transport is not None
            log._closing = True
            log._transport.abort()  # as if this process were killed
            process = log._process
            assert process is not None
            await until(lambda: process.poll() is not None, log)
        assert process.returncode == 0
        assert sorted([*on_server.ids(), *on_server.spilled()]) == sorted(ids)
        log._sent.clear()


async def test_a_nul_does_not_break_queries_of_the_stored_json(
    target: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    texts = {"\x00": "\ufffd", "a\x00\\u0000": "a\ufffd\\u0000", "\\\x00": "\\\ufffd", "\ufffd": "\ufffd"}
    facts = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "kv_transfer_config": {"kv_connector": "N\x00"}}
    async with running_log(target) as log:
        for text in texts:
            log.note(new_entry(facts=facts, request_id=text))
        await flushed(log)
    assert [found["input"]["request_id"] for found in target.records()] == list(texts.values())
    if target.server is None:
        query = "SELECT r.value ->> '$.rule' FROM decisions, json_each(result, '$.reasons') AS r"
        connection: Any = sqlite3.connect(target.file or "")
    else:
        query = "SELECT r ->> 'rule' FROM decisions, jsonb_array_elements(result::jsonb -> 'reasons') AS r"
        connection = target.server.connection(target.url)
    with closing(connection):
        assert ("variable-true",) in connection.execute(query).fetchall()
