"""Reading the log: pages, filters and faults, over HTTP and from the command line; following and exporting it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import BIN, PATIENCE, ROOT, environment
from log.conftest import wait_for
from msgspec.structs import replace
from processes import bound
from starlette.requests import Request
from tables import table
from uuid_utils import uuid7

from policy.errors import RequestInvalid
from service.api import catalogue
from service.limits.slots import Slots
from service.log import query as reading
from service.log import tail
from service.log.filters import FILTERS
from service.log.query import LogFilter, page, read_filter, stream
from service.log.record import StoredRow, first_id, row_size, timestamp
from service.log.store import Store, StoreFailed, StoreNotCreated, read_url
from service.log.tail import LogTail
from service.log.writer import Writer
from service.problems import Refused
from service.transport.disconnection import CONNECTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from api.conftest import Done, Server
    from log.conftest import LogTarget
    from postgres import Postgres

OUTCOMES = "`not-applicable`, `override`, `required`, `default`, `not-default`, `fallback`, `null`"
SECONDS = 100
START = datetime(2026, 6, 1, 12, tzinfo=UTC)


def decision(second: int, **members: Any) -> StoredRow:
    """A record with a timestamp; every fifth differs from the others."""
    decision_id = first_id(START + timedelta(seconds=second))[:13] + str(uuid7())[13:]
    differs = second % 5 == 0
    runner, outcome, release, caller = (
        ("v1", "fallback", "0.24.0", "argo") if differs else ("v2", "default", "0.23.0", "flux")
    )
    result = {
        "decision_id": decision_id,
        "runner": runner,
        "outcome": outcome,
        "starts": not differs,
        "summary": "why [it] is so",
        "reasons": [{"rule": "kv-connector-fallback" if differs else "v2-by-default"}],
        "release": {"decided_as": release},
    }
    text = json.dumps(result, separators=(",", ":"))
    row = StoredRow(
        decision_id,
        caller,
        "v1/decisions",
        runner,
        outcome,
        not differs,
        release,
        "sha256:0",
        1,
        differs,
        "{}",
        "{}",
        text,
    )
    return replace(row, **members)


ROWS = [decision(second) for second in range(SECONDS)]


def ids(rows: Any) -> list[str]:
    return [row.decision_id for row in rows]


def filled_store(target: LogTarget, rows: list[StoredRow]) -> Store:
    writer = Writer(read_url(target.url), 30)
    writer.write(rows)
    writer.close()
    return Store(read_url(target.url), 30)


@pytest.fixture
def store(target: LogTarget) -> Iterator[Store]:
    found = filled_store(target, ROWS)
    yield found
    found.close()


def test_pages_lead_through_all_records(store: Store) -> None:
    found, until = [], None
    for size in (30, 30, 30, 10):
        part = page(store, LogFilter(until=until, limit=30))
        assert len(part.items) == size
        found += ids(part.items)
        until = part.next
    assert until is None
    assert found == ids(ROWS)[::-1]


ODD, EVEN = ROWS[::5], [row for number, row in enumerate(ROWS) if number % 5]
FILTER_RESULTS: dict[str, tuple[dict[str, str], list[StoredRow]]] = {
    "runner": ({"runner": "v1"}, ODD),
    "no runner": ({"runner": "null"}, []),
    "outcome": ({"outcome": "default"}, EVEN),
    "starts": ({"starts": "true"}, EVEN),
    "does not start": ({"starts": "false"}, ODD),
    "release": ({"vllm_version": "0.24.0"}, ODD),
    "rule": ({"rule": "kv-connector-fallback"}, ODD),
    "part of a rule's name": ({"rule": "kv-connector"}, []),
    "caller": ({"requested_by": "argo"}, ODD),
    "no caller": ({"requested_by": "null"}, []),
    "path": ({"path": "/v1/decisions"}, ROWS),
    "revision": ({"revision": "sha256:1"}, []),
    "since": ({"since": "2026-06-01T12:01:00Z"}, ROWS[60:]),
    "since, elsewhere": ({"since": "2026-06-01T14:01:00+02:00"}, ROWS[60:]),
    "until": ({"until": "2026-06-01T12:01:00Z"}, ROWS[:60]),
    "until an id": ({"until": ROWS[3].decision_id}, ROWS[:3]),
    "since an id": ({"since": ROWS[97].decision_id}, ROWS[97:]),
    "long ago": ({"since": "99999d"}, ROWS),
    "a second ago": ({"since": "1s"}, []),
    "several": ({"runner": "v1", "since": "2026-06-01T12:01:00Z", "starts": "false"}, ROWS[60::5]),
}


@pytest.mark.parametrize("max_scanned", [20_000, 17])
def test_each_filter_finds_its_records_however_many_rows_one_query_scans(
    store: Store, monkeypatch: pytest.MonkeyPatch, max_scanned: int
) -> None:
    monkeypatch.setattr(reading, "MAX_SCANNED", max_scanned)
    for name, (members, expected) in FILTER_RESULTS.items():
        query = replace(read_filter(members.items()), limit=9)
        found: list[str] = []
        until = query.until
        for _ in range(100):
            part = page(store, replace(query, until=until))
            found += ids(part.items)
            until = part.next
            if until is None:
                break
        assert (name, found) == (name, ids(expected)[::-1])
        assert (name, [each for part_ in stream(store, query) for each in ids(part_)]) == (name, ids(expected))


LARGE = [
    decision(second, input=json.dumps({"a": "\u00e9" * (600_000 if second % 2 else 1)}, ensure_ascii=False))
    for second in range(30)
]
"""Records of which every second one is large, with twice as many bytes as characters."""


@pytest.mark.parametrize("rows", [LARGE, LARGE[:1], [], [decision(1, input=json.dumps({"a": "x" * (9 << 20)}))]])
def test_every_reader_has_few_large_records_in_memory(target: LogTarget, rows: list[StoredRow]) -> None:
    store = filled_store(target, rows)
    sizes = {row.decision_id: row_size(row) for row in rows}

    def fits(part: list[str]) -> bool:
        return len(part) == 1 or sum(sizes[each] for each in part) <= reading.MAX_SIZE

    found: list[str] = []
    until = None
    while True:
        part = page(store, LogFilter(until=until, limit=1000))
        assert fits(ids(part.items))
        found += ids(part.items)
        until = part.next
        if until is None:
            break
    assert found == ids(rows)[::-1]
    parts = [ids(part_) for part_ in stream(store, LogFilter())]
    assert all(map(fits, parts))
    assert [each for part_ in parts for each in part_] == ids(rows)
    assert ids(LogTail(store, 20).newest) == ids(rows)[-20:]
    following = LogTail(store, 1)
    following._seen.clear()
    assert ids(following.new_records()) == [each for each in ids(rows) if each >= (following._since or "")]
    store.close()


@pytest.mark.slow
def test_pages_of_large_records_are_limited_over_http(
    serve: Callable[..., AbstractContextManager[Server]], call: Callable[..., Done], sqlite: LogTarget
) -> None:
    rows = LARGE + [decision(40 + n, input=json.dumps({"a": "x" * 3_000_000})) for n in range(20)]
    filled_store(sqlite, rows).close()
    with (
        serve(RUNNER_POLICY_LOG=sqlite.url, RUNNER_POLICY_LOG_RETENTION_DAYS="9999") as server,
        server.client() as client,
        ThreadPoolExecutor(8) as pool,
    ):
        found: list[str] = []
        bounds: dict[str, Any] = {}
        while bounds.get("until", "") is not None:
            answer = client.get("/v1/log", params={"limit": "1000", **bounds})
            assert len(answer.content) < reading.MAX_SIZE + 100_000
            assert len(answer.content) == int(answer.headers["content-length"])
            found += [each["decision_id"] for each in answer.json()["items"]]
            bounds = {"until": answer.json()["next"]}
        assert found == ids(rows)[::-1]
        again = list(pool.map(lambda _: client.get("/v1/log").json()["next"], range(8)))
        assert again == [rows[-2].decision_id] * 8
        one = client.get(f"/v1/decisions/{rows[-1].decision_id}").json()
        assert one["input"] == json.loads(rows[-1].input)
    log = {"RUNNER_POLICY_LOG": sqlite.url}
    assert [json.loads(each)["decision_id"] for each in call("log", "query", **log).out.splitlines()] == found
    assert [json.loads(each)["decision_id"] for each in call("log", "export", "-", **log).out.splitlines()] == ids(rows)


@pytest.mark.slow
def test_unread_answers_hold_the_slots_of_their_caller_until_they_are_closed(
    serve: Callable[..., AbstractContextManager[Server]], sqlite: LogTarget
) -> None:
    filled_store(sqlite, [decision(n, input=json.dumps({"a": "x" * 7_900_000})) for n in range(5)]).close()
    with (
        serve(RUNNER_POLICY_LOG=sqlite.url, RUNNER_POLICY_LOG_RETENTION_DAYS="9999") as server,
        server.client() as client,
    ):
        unread = [socket.create_connection(("127.0.0.1", server.port), PATIENCE) for _ in range(80)]
        for connection in unread:
            connection.sendall(b"GET /v1/log HTTP/1.1\r\nHost: localhost\r\n\r\n")
        refused = client.get("/v1/log")
        assert (refused.status_code, refused.json()["type"], refused.headers["retry-after"]) == (
            503,
            "urn:runner-policy:problem:busy",
            "1",
        )
        assert client.get("/livez").status_code == 200
        for connection in unread:
            connection.close()
        wait_for(lambda: client.get("/v1/log?limit=1").status_code == 200)


def test_a_client_that_reads_its_records_too_slowly_is_disconnected_and_frees_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Aborted:
        is_aborted = False

        def abort(self) -> None:
            self.is_aborted = True

    monkeypatch.setattr(catalogue, "SEND_TIME", 0.01)
    connection = Aborted()

    async def answered() -> None:
        slots = Slots(1, 0, "busy")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()  # the client does not read

        async with AsyncExitStack() as slot:
            await slot.enter_async_context(slots.slot("a"))
            response = catalogue.RecordsResponse(b"[]", slot.pop_all())
        await response({"type": "http", CONNECTION: weakref.ref(connection)}, None, send)  # type: ignore[arg-type]  # it receives nothing
        async with slots.slot("b"):
            assert connection.is_aborted

    asyncio.run(answered())


def test_a_request_for_records_waits_for_a_slot_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_WAIT", 0.01)

    async def refused() -> None:
        slots = Slots(1, 8, "busy")
        state = SimpleNamespace(service=SimpleNamespace(log_slots=slots))
        request = Request({"type": "http", "app": SimpleNamespace(state=state), "caller": "b"})
        async with slots.slot("a"), AsyncExitStack() as slot:
            with pytest.raises(Refused, match="others are reading the log"):
                await catalogue.take_log_slot(request, slot)

    asyncio.run(refused())


@table("name", FILTERS)
@table("text", ["a" * 257, "a" * 50_000, "1" * 50_000, "\u00e9" * 20_000, "a-" * 20_000 + "a"])
def test_an_overlong_value_is_a_fault_of_the_filter(name: str, text: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_filter([(name, text)])
    assert [fault.message.partition(":")[0] for fault in raised.value.faults] == [name]


@pytest.mark.parametrize("text", ["a" * 256, "x"])
def test_a_value_of_the_maximum_length_is_legal(store: Store, text: str) -> None:
    for name in ("vllm_version", "requested_by", "path", "revision", "rule"):
        assert page(store, read_filter([(name, text)])).items == []


LEGAL_BOUND = (
    "a date such as `2026-11-21`, a date and time such as `2026-11-21T12:00:00Z`, a time ago such as `30m`, `12h` or "
    "`7d`, or a `decision_id`"
)


def test_every_fault_is_named() -> None:
    members = {
        "runner": "v3",
        "outcome": "x",
        "starts": "yes",
        "rule": "NO",
        "since": "999999d",
        "until": "soon",
        "limit": "0",
        "path": "",
        "colour": "red",
    }
    with pytest.raises(RequestInvalid) as raised:
        read_filter(members.items())
    assert [fault.message for fault in raised.value.faults] == [
        (
            "unknown parameter `colour`; legal: "
            "`runner`, `outcome`, `vllm_version`, `requested_by`, `path`, `revision`, `starts`, `rule`, `since`, "
            "`until`, `limit`"
        ),
        "runner: `v3` is not legal; legal: `v1`, `v2`, `null`",
        f"outcome: `x` is not legal; legal: {OUTCOMES}",
        "path: `` is not legal; legal: a string of at most 256 characters",
        "starts: `yes` is not legal; legal: `true`, `false`",
        "rule: `NO` is not legal; legal: a rule's id, of at most 256 characters",
        f"since: `999999d` is not legal; legal: {LEGAL_BOUND}",
        f"until: `soon` is not legal; legal: {LEGAL_BOUND}",
        "limit: `0` is not legal; legal: a whole number from 1 to 1000",
    ]


TIMESTAMPS = [
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "1969-01-01",
    "2026-01-31T10:00:00Z",
    "2026-01-31T10:00:00.123456789Z",
    "2026-01-31t10:00:00z",
]


@pytest.mark.parametrize("text", TIMESTAMPS)
def test_a_timestamp_is_read(text: str) -> None:
    assert read_filter([("since", text)]).since


INVALID_TIMESTAMPS = [
    "2026-W01",
    "2026-W01-1",
    "20260131",
    "2026-01-31T10Z",
    "2026-01-31T10:00Z",
    "2026-01-31T10:00:00",
    "2026-01-31T10:00:00+0100",
    "2026-02-30",
]


@table(
    ("name", "text"),
    [
        *(("since", text) for text in INVALID_TIMESTAMPS),
        ("until", "\u0662026-01-31"),
        ("since", "\u0661d"),
        ("limit", "\u0661"),
        ("limit", "\uff15"),
    ],
)
def test_numbers_and_timestamps_have_one_form(name: str, text: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_filter([(name, text)])
    assert [fault.message.partition(" is not legal")[0] for fault in raised.value.faults] == [f"{name}: `{text}`"]


def test_a_repeated_filter_is_a_fault_beside_those_of_its_values() -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_filter(
            [
                ("runner", "v1"),
                ("limit", "0"),
                ("runner", "v2"),
                ("limit", "many"),
                ("limit", "0"),
                ("colour", "red"),
                ("colour", "blue"),
            ]
        )
    assert [fault.message for fault in raised.value.faults] == [
        f"unknown parameter `colour`; legal: {', '.join(f'`{name}`' for name in FILTERS)}",
        "runner: given 2 times; keep one",
        "limit: given 3 times; keep one",
        "limit: `0` is not legal; legal: a whole number from 1 to 1000",
        "limit: `many` is not legal; legal: a whole number from 1 to 1000",
    ]


def test_the_log_is_queried_over_http(serve: Callable[..., AbstractContextManager[Server]], target: LogTarget) -> None:
    filled_store(target, ROWS).close()
    with (
        serve(RUNNER_POLICY_LOG=target.url, RUNNER_POLICY_LOG_RETENTION_DAYS="9999") as server,
        server.client() as client,
    ):
        first = client.get("/v1/log", params={"runner": "v1", "limit": "15"}).json()
        second = client.get("/v1/log", params={"runner": "v1", "limit": "15", "until": first["next"]}).json()
        assert [each["decision_id"] for each in [*first["items"], *second["items"]]] == ids(ODD)[::-1]
        assert second["next"] is None
        wrong = client.get("/v1/log", params={"limit": "many", "colour": "red"})
        assert (wrong.status_code, len(wrong.json()["errors"])) == (422, 2)
        twice = client.get("/v1/log?runner=v1&runner=v2")
        assert (twice.status_code, [fault["message"] for fault in twice.json()["errors"]]) == (
            422,
            ["runner: given 2 times; keep one"],
        )
        longest = dict.fromkeys(("vllm_version", "requested_by", "path", "revision"), "\U0001f600" * 256)
        longest |= {"runner": "v1", "outcome": "not-default", "starts": "true", "rule": "r" * 256, "limit": "1000"}
        longest |= dict.fromkeys(("since", "until"), f"2026-06-01T12:00:00.{'0' * 32}+00:00")
        assert client.get("/v1/log", params=longest).json() == {"items": [], "next": None}
        assert client.get(f"/v1/decisions/{ROWS[7].decision_id}").json()["timestamp"] == "2026-06-01T12:00:07.000Z"


TABLE_CHANGED = "the table `decisions` was changed by hand; restore it, or rename it, and the service makes a new one: "
RECORD_CHANGED = (
    "a record was changed by hand{}; restore it or delete it, or read the others with `since` and `until`: "
)
CHANGED: list[tuple[str, str]] = [
    ("ALTER TABLE decisions DROP COLUMN path", TABLE_CHANGED + "no such column: decisions.path"),
    ("ALTER TABLE decisions RENAME COLUMN input TO inputs", TABLE_CHANGED + "no such column: decisions.input"),
    ("UPDATE decisions SET decision_id = 'x'", RECORD_CHANGED.format("") + "badly formed hexadecimal UUID string"),
    (
        "UPDATE decisions SET decision_id = '{}'".format("f" * 32),
        RECORD_CHANGED.format(", ffffffff-ffff-ffff-ffff-ffffffffffff")
        + "`decision_id` has no valid time: date value out of range",
    ),
    *(
        (f"UPDATE decisions SET {name} = {value}", RECORD_CHANGED.format(f", {ROWS[0].decision_id}") + problem)
        for name, value, problem in (
            ("requested_by", "NULL", "Expected `str`, got `null` - at `requested_by`"),
            ("path", "x'ff'", "Expected `str`, got `bytes` - at `path`"),
            ("starts", "NULL", "Expected `bool`, got `null` - at `starts`"),
            ("nanoseconds", "'soon'", "Expected `int`, got `str` - at `nanoseconds`"),
            ("labels", "'{'", "`labels` is not a JSON object"),
            ("input", "'[]'", "`input` is not a JSON object"),
            ("result", "''", "`result` is not a JSON object"),
            ("result", "NULL", "Expected `str`, got `null` - at `result`"),
        )
    ),
]


def test_a_log_that_was_changed_by_hand_is_a_problem_that_says_what_to_do(
    serve: Callable[..., AbstractContextManager[Server]], call: Callable[..., Done], new: LogTarget
) -> None:
    filled_store(new, ROWS[:1]).close()
    assert new.file is not None
    columns = ", ".join(StoredRow.__struct_fields__)
    again = f"CREATE TABLE kept AS SELECT {columns} FROM decisions"
    anew = f"DROP TABLE decisions; CREATE TABLE decisions ({columns}); INSERT INTO decisions SELECT * FROM kept"
    with (
        closing(sqlite3.connect(new.file, isolation_level=None)) as database,
        serve(RUNNER_POLICY_LOG=new.url, RUNNER_POLICY_LOG_RETENTION_DAYS="9999") as server,
        server.client() as client,
    ):
        database.execute(again)
        for statement, message in CHANGED:
            database.executescript(f"BEGIN; {anew}; {statement}; COMMIT")
            problem = client.get("/v1/log")
            assert (problem.status_code, problem.json()["type"].rpartition(":")[2], problem.json()["detail"]) == (
                503,
                "log-unavailable",
                f"the decision log cannot be read: {message}",
            ), statement
            commands = (("query",), ("tail",), ("export", "-"), ("export", str(new.folder / "log.parquet")))
            for command in commands if statement in {CHANGED[0][0], CHANGED[3][0], CHANGED[4][0]} else ():
                done = call("log", *command, RUNNER_POLICY_LOG=new.url)
                assert (done.code, done.err.strip()) == (2, f"the log cannot be read: {message}"), statement
        database.executescript("ALTER TABLE decisions RENAME TO old")
        made = client.post("/v1/decisions", json={"facts": {}}).json()["decision_id"]
        wait_for(lambda: [each["decision_id"] for each in client.get("/v1/log").json()["items"]] == [made])


@pytest.mark.slow
def test_a_table_of_a_server_that_was_changed_by_hand_is_a_problem(on_server: LogTarget) -> None:
    store = filled_store(on_server, ROWS[:1])
    assert on_server.server is not None
    found = []
    for statement, read in (
        ("ALTER COLUMN starts TYPE text", LogFilter(starts=True)),
        ("ALTER COLUMN starts TYPE text", LogFilter()),
        ("DROP COLUMN path", LogFilter()),
    ):
        with on_server.server.connection(on_server.url) as connection:
            connection.execute(f"ALTER TABLE decisions {statement}")
        with pytest.raises(StoreFailed) as raised:
            page(store, read)
        found.append(str(raised.value))
    assert found == [
        TABLE_CHANGED + "operator does not exist: text = boolean",
        RECORD_CHANGED.format(f", {ROWS[0].decision_id}") + "Expected `bool`, got `str` - at `starts`",
        TABLE_CHANGED + "column decisions.path does not exist",
    ]


def test_a_terminal_shows_a_record_whose_result_is_not_a_decision(
    on_terminal: Callable[..., tuple[int, str]], sqlite: LogTarget
) -> None:
    filled_store(sqlite, [replace(ROWS[0], result="{}")]).close()
    code, text = on_terminal("log", "query", "--log", sqlite.url)
    assert (code, "the record was changed by hand" in " ".join(text.split())) == (0, True)


def test_a_store_that_is_created_while_it_is_read_is_not_created_yet(
    new: LogTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, file = sqlite3.connect, tmp_path / "log" / "decisions.db"
    file.parent.mkdir(exist_ok=True)

    def created_too_late(*args: Any, **options: Any) -> Any:
        try:
            return connect(*args, **options)
        finally:
            file.touch()

    monkeypatch.setattr(sqlite3, "connect", created_too_late)
    with pytest.raises(StoreNotCreated):
        page(Store(read_url(new.url), 30), LogFilter())


@pytest.mark.slow
def test_a_log_without_a_store_is_empty(
    serve: Callable[..., AbstractContextManager[Server]], new: LogTarget, postgres: Postgres
) -> None:
    for url in (new.url, postgres.database()):
        with pytest.raises(StoreNotCreated):
            page(Store(read_url(url), 30), LogFilter())
        with serve(RUNNER_POLICY_LOG=url) as server, server.client() as client:
            client.get("/livez")
            assert client.get("/v1/log").json() == {"items": [], "next": None}
            assert client.get(f"/v1/decisions/{ROWS[7].decision_id}").status_code == 404


@pytest.mark.slow
def test_the_log_is_unavailable_while_its_store_is_stopped_or_hangs(
    serve: Callable[..., AbstractContextManager[Server]], on_server: LogTarget
) -> None:
    server = on_server.server
    assert server is not None
    filled_store(on_server, ROWS).close()
    with serve(RUNNER_POLICY_LOG=on_server.url, RUNNER_POLICY_LOG_TIMEOUT="1") as service, service.client() as client:
        wait_for(lambda: client.get("/v1/log").status_code == 200)
        with server.frozen():
            hanging = client.get("/v1/log")
            assert (hanging.status_code, hanging.json()["type"]) == (503, "urn:runner-policy:problem:log-unavailable")
        with server.stopped():
            stopped = client.get("/v1/log")
            assert stopped.status_code == 503
            assert server.password not in stopped.text
        wait_for(lambda: client.get("/v1/log").status_code == 200)


def test_the_command_line_queries_follows_and_exports(
    call: Callable[..., Done], target: LogTarget, tmp_path: Path
) -> None:
    from arro3.io import read_parquet  # noqa: PLC0415  # only here

    filled_store(target, ROWS).close()
    log = {"RUNNER_POLICY_LOG": target.url}
    found = call("log", "query", "--runner", "v1", "--limit", "3", "--until", "2026-06-01T12:01:00Z", **log)
    assert (found.code, [json.loads(each)["decision_id"] for each in found.out.splitlines()]) == (
        0,
        ids(ODD[:12][::-1][:3]),
    )
    assert call("log", "query", "--requested-by", "nobody", **log).code == 1
    wrong = call("log", "query", "--since", "soon", "--outcome", "x", **log)
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 2)
    assert [json.loads(each)["decision_id"] for each in call("log", "tail", "-n", "4", **log).out.splitlines()] == ids(
        ROWS[-4:]
    )
    lines = call("log", "export", "-", "--no-starts", **log)
    assert [json.loads(each) for each in lines.out.splitlines()] == [
        each for each in target.records() if not each["result"]["starts"]
    ]
    assert lines.err.strip() == "20 decisions"
    file = tmp_path / "log.parquet"
    assert call("log", "export", str(file), **log).code == 0
    table = read_parquet(file).read_all()
    columns = {name: table.column(name).to_pylist() for name in table.schema.names}
    assert columns.pop("timestamp") == [START + timedelta(seconds=second) for second in range(SECONDS)]
    assert [StoredRow(*(columns[name][n] for name in StoredRow.__struct_fields__)) for n in range(SECONDS)] == ROWS
    assert call("log", "export", str(tmp_path), **log).code == 2
    assert call("log", "export", "-", "--format", "parquet", **log).code == 2


def test_an_export_that_fails_midway_is_reported(
    call: Callable[..., Done], on_server: LogTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = on_server.server
    assert server is not None
    filled_store(on_server, ROWS).close()
    monkeypatch.setattr(reading, "BATCH", 10)
    with server.connection(on_server.url) as connection:
        connection.execute(f"UPDATE decisions SET result = '' WHERE decision_id = '{ROWS[50].decision_id}'")
        connection.execute("ALTER TABLE decisions RENAME TO others")
        connection.execute(
            "CREATE VIEW decisions AS SELECT decision_id, requested_by, path, runner, outcome, starts, vllm_version, "
            "revision, (nanoseconds / length(result))::bigint AS nanoseconds, erased, labels, input, result FROM others"
        )
    for name in ("log.parquet", "log.jsonl"):
        done = call("log", "export", str(tmp_path / name), RUNNER_POLICY_LOG=on_server.url)
        assert (done.code, done.err.strip()) == (
            2,
            "the log cannot be read: the store refused a record (DivisionByZero)",
        )


def test_a_followed_record_is_shown_once_even_if_it_is_late(target: LogTarget) -> None:
    store = filled_store(target, ROWS[:90])
    following = LogTail(store, 3)
    assert ids(following.newest) == ids(ROWS[87:90])
    assert ids(following.new_records()) == []
    filled_store(target, [ROWS[92], ROWS[95]]).close()
    assert ids(following.new_records()) == ids([ROWS[92], ROWS[95]])
    filled_store(target, [ROWS[91], ROWS[94], ROWS[96]]).close()
    assert ids(following.new_records()) == ids([ROWS[91], ROWS[94], ROWS[96]])
    filled_store(target, [decision(80), ROWS[97]]).close()  # one of them is too late
    assert ids(following.new_records()) == ids([ROWS[97]])
    store.close()


def test_a_followed_record_is_shown_once_however_many_records_one_query_scans(
    target: LogTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MAX_SCANNED", 4)  # of eleven within ten seconds
    store = filled_store(target, ROWS[:30])
    following = LogTail(store, 3)
    assert ids(following.newest) == ids(ROWS[27:30])
    assert ids(following.new_records()) == []
    filled_store(target, ROWS[32:50]).close()
    assert [ids(following.new_records()) for _ in range(2)] == [ids(ROWS[32:50]), []]
    late = [decision(42), decision(47)]
    filled_store(target, [*late, ROWS[50]]).close()
    assert [ids(following.new_records()) for _ in range(2)] == [ids([*late, ROWS[50]]), []]
    store.close()


def test_of_too_many_followed_records_the_oldest_are_forgotten(
    target: LogTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "MAX_SCANNED", 4)
    monkeypatch.setattr(tail, "MAX_SEEN", 5)
    store = filled_store(target, ROWS[:30])
    following = LogTail(store, 3)
    late = decision(27)
    filled_store(target, [decision(24), late, ROWS[30]]).close()  # the first is older than those that are remembered
    assert [ids(following.new_records()) for _ in range(2)] == [ids([late, ROWS[30]]), []]
    assert following._seen == {late.decision_id, *ids(ROWS[27:31])}
    store.close()


def test_an_empty_log_can_be_followed(target: LogTarget) -> None:
    store = Store(read_url(target.url), 30)
    following = LogTail(store, 10)
    assert list(following.newest) == []
    filled_store(target, ROWS[:2]).close()
    assert ids(following.new_records()) == ids(ROWS[:2])
    store.close()


def test_tail_follows_until_it_is_interrupted(sqlite: LogTarget) -> None:
    filled_store(sqlite, ROWS[:5]).close()
    command = [str(BIN / "runner-policy"), "log", "tail", "-n", "2", "-f", "--log", sqlite.url]
    with subprocess.Popen(bound(command), cwd=ROOT, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        shown = [json.loads(process.stdout.readline())["decision_id"] for _ in range(2)]
        filled_store(sqlite, ROWS[5:8]).close()
        shown += [json.loads(process.stdout.readline())["decision_id"] for _ in range(3)]
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert shown == ids(ROWS[3:8])


def test_a_terminal_shows_a_table(on_terminal: Callable[..., tuple[int, str]], sqlite: LogTarget) -> None:
    filled_store(sqlite, ROWS[:2]).close()
    code, shown = on_terminal("log", "query", RUNNER_POLICY_LOG=sqlite.url)
    assert code == 0
    assert [timestamp(ROWS[1].decision_id), timestamp(ROWS[0].decision_id)] == [
        line.split()[0] for line in shown.splitlines()[1:]
    ]
    assert "why [it] is so" in shown
