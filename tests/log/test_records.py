"""The log entries of each endpoint: complete records without secrets, with enough to repeat the decision."""

from __future__ import annotations

import asyncio
import json
import math
import os
import select
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from api.conftest import BIN, PATIENCE, ROOT, Server, environment, listening, serving
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from log.conftest import FACTS, LABELS, TODAY, id_of, running_log, until, wait_for
from msgspec.structs import replace
from processes import bound

from policy.facts.vocabulary import VOCABULARY, FactKind
from policy.fastpath.request_decoder import decode_fast
from policy.request.request import read_request
from service.jobs.messages import JobResult
from service.log import stdout
from service.log.record import SentRecord, line, record, record_json, row
from service.log.stdout import BYTES_AT_ONCE, ENTRIES_AT_ONCE, Printer
from service.recorder import Recorder
from service.request_context import RequestContext
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import httpx
    from api.conftest import Done
    from log.conftest import LogTarget

    from policy.decision.evaluation import EncodedDecision
    from policy.facts.vocabulary import Fact
    from policy.policy import Policy
    from policy.request.request import Request
    from service.log.record import LogEntry, LogRecord

pytestmark = pytest.mark.anyio

QWEN = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
DEPLOYMENT = {"args": ["serve", "m", "-tp", "2"], "model_configs": {"m": QWEN}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "containers": [
            {"name": "a", "image": "vllm/vllm-openai:v0.23.0", "command": ["vllm", "serve", "m"]},
            {"name": "b", "image": "vllm/vllm-openai:v0.33.0", "command": ["vllm", "serve", "m"]},
        ]
    },
}
REVIEW = Path(__file__).parent.parent / "core" / "admission" / "deployment-create.json"
SECRETS = (
    "sk-argument",
    "hf-variable",
    "env-secret",
    "of-the-process",
    "unknown-flag",
    "in-extra-config",
    "config-member",
)


def items(client: httpx.Client, **filters: str) -> list[dict[str, Any]]:
    """The newest records."""
    found: list[dict[str, Any]] = client.get("/v1/log", params={"limit": "1000", **filters}).json()["items"]
    return found


def logged(client: httpx.Client, number: int, **filters: str) -> list[dict[str, Any]]:
    """The records, the oldest first, once there are ``number`` of them."""
    wait_for(lambda: len(items(client, **filters)) >= number)
    found = items(client, **filters)
    assert len(found) == number
    return found[::-1]


def record_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The record of an answer."""
    fields = {name: value for name, value in answer.items() if name not in {"trace", "assumptions", "ignored_args"}}
    fields["reasons"] = [
        {name: value for name, value in reason.items() if name != "lifted_in"} for reason in fields["reasons"]
    ]
    return fields


def expected_record(
    answer: dict[str, Any], request: dict[str, Any], found: dict[str, Any], path: str = "v1/decisions", **more: Any
) -> dict[str, Any]:
    """The expected record of an answer; its duration and time are copied from the record found."""
    assert found["metrics"]["timer_server_handler_ns"] > 0
    return {
        "decision_id": answer["decision_id"],
        "timestamp": found["timestamp"],
        "labels": {"id": socket.gethostname(), "version": version("runner-policy"), "cluster": "blue"},
        "revision": answer["policy"]["revision"],
        "path": path,
        "requested_by": "127.0.0.1",
        "input": request,
        "result": record_of(answer),
        "metrics": found["metrics"],
        **more,
    }


ERASED: dict[str, Any] = {"erased": ["/input/deployment"]}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that logs to a store of each kind."""
    url = request.getfixturevalue("postgres").database() if request.param == "postgresql" else ""
    with serving(
        tmp_path_factory.mktemp("server"), RUNNER_POLICY_LOG=url, RUNNER_POLICY_LOG_LABELS='{"cluster": "blue"}'
    ) as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as found:
        yield found


def test_every_endpoint_logs_its_decisions_completely(client: httpx.Client) -> None:
    facts = {"vllm_version": "0.23.0", "facts": FACTS}
    one = client.post("/v1/decisions", json={"request_id": "r-1", **facts}).json()
    again = [client.post("/v1/decisions", json=facts).json() for _ in range(3)]
    upstream = client.post(
        "/v1/decisions", json={"layers": ["upstream"], "facts": FACTS, "vllm_version": "0.24.0"}
    ).json()
    text = client.post(
        "/v1/decisions",
        content="facts: {model_config: {architectures: [Qwen3ForCausalLM]}}",
        headers={"content-type": "application/yaml"},
    ).json()
    nearest = client.post(
        "/v1/decisions", json={"facts": FACTS, "vllm_version": "0.99.0", "beyond_verified": "nearest"}
    ).json()
    deployed = client.post("/v1/decisions", json={"deployment": DEPLOYMENT, "explain": True}).json()
    pod = client.post("/v1/decisions", json={"manifest": POD, "model_configs": {"m": QWEN}}).json()
    batch = client.post(
        "/v1/decisions/batch", json={"items": [facts, {"facts": {"wrong": 1}}, {"deployment": DEPLOYMENT}]}
    ).json()
    lines = b"\n".join(json.dumps(each).encode() for each in (facts, {"wrong": 1}, {"deployment": DEPLOYMENT}))
    streamed = client.post("/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"}).text
    reviewed = client.post("/v1/admission", content=REVIEW.read_bytes()).json()
    assert reviewed["response"]["allowed"]
    client.post("/v1/dry-run", json=facts)
    assert client.post("/v1/decisions", json={"facts": {"wrong": 1}}).status_code == 422

    found = logged(client, 15)
    at = {each["decision_id"]: each for each in found}
    assert len({each["decision_id"] for each in again}) == 3
    derived = {**FACTS, "parallel_config": {"tensor_parallel_size": 2}}
    input_of = {name: at[name]["input"] for name in at}
    stream = [json.loads(each) for each in streamed.splitlines()]
    expected = [
        expected_record(one, {"request_id": "r-1", **facts}, at[one["decision_id"]]),
        *(expected_record(each, facts, at[each["decision_id"]]) for each in again),
        expected_record(
            upstream, {"vllm_version": "0.24.0", "layers": ["upstream"], "facts": FACTS}, at[upstream["decision_id"]]
        ),
        expected_record(text, facts, at[text["decision_id"]]),
        expected_record(
            nearest,
            {"vllm_version": "0.99.0", "beyond_verified": "nearest", "facts": FACTS},
            at[nearest["decision_id"]],
        ),
        expected_record(deployed, input_of[deployed["decision_id"]], at[deployed["decision_id"]], **ERASED),
        *(
            expected_record(
                each["decision"],
                input_of[each["decision"]["decision_id"]],
                at[each["decision"]["decision_id"]],
                **ERASED,
            )
            for each in pod["items"]
        ),
        expected_record(batch["items"][0], facts, at[batch["items"][0]["decision_id"]], "v1/decisions/batch"),
        expected_record(
            batch["items"][2],
            input_of[batch["items"][2]["decision_id"]],
            at[batch["items"][2]["decision_id"]],
            "v1/decisions/batch",
            **ERASED,
        ),
        expected_record(stream[0], facts, at[stream[0]["decision_id"]], "v1/decisions/batch"),
        expected_record(
            stream[2], input_of[stream[2]["decision_id"]], at[stream[2]["decision_id"]], "v1/decisions/batch", **ERASED
        ),
    ]
    assert [each["path"] for each in found[-1:]] == ["v1/admission"]
    assert found[:-1] == expected
    assert input_of[deployed["decision_id"]]["facts"]["model_config"] == derived["model_config"]
    assert input_of[deployed["decision_id"]]["facts"]["parallel_config"]["tensor_parallel_size"] == 2


def test_the_input_of_a_record_is_decided_as_before(client: httpx.Client) -> None:
    """Also the records of the previous test; their input is a request."""

    def fields_of(answer: dict[str, Any]) -> dict[str, Any]:
        return {
            name: answer[name]
            for name in ("runner", "outcome", "starts", "startup_errors", "summary", "reasons", "upstream", "set_env")
        }

    client.post("/v1/decisions", json={"deployment": DEPLOYMENT})
    wait_for(lambda: items(client))
    for found in items(client):
        again = client.post("/v1/decisions", json=found["input"]).json()
        assert fields_of(again) == fields_of(found["result"])


def test_a_decision_is_found_by_its_id_and_an_unknown_one_is_not_found(client: httpx.Client) -> None:
    made = client.post("/v1/decisions", json={"facts": FACTS}).json()["decision_id"]
    wait_for(lambda: client.get(f"/v1/decisions/{made}").status_code == 200)
    assert client.get(f"/v1/decisions/{made}").json() == client.get("/v1/log", params={"limit": "1"}).json()["items"][0]
    other = client.get("/v1/decisions/01890a5d-ac96-774b-bcce-b302099a8057")
    assert (other.status_code, other.json()["type"]) == (404, "urn:runner-policy:problem:not-found")
    assert client.get("/v1/decisions/nothing").status_code == 404


def test_a_decision_by_candidate_rules_has_no_record(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    """Also if no dry run is answered without a record; that of the loaded rules has one."""
    variables = {"RUNNER_POLICY_LOG_REQUIRED": "true", "RUNNER_POLICY_LOG_DRY_RUNS": "true"}
    with serve(**variables) as server, server.client() as client:
        body = {"request": {"facts": FACTS}, "remove": ["kv-connector-fallback"]}
        tried = client.post("/v1/dry-run", json=body).raise_for_status().json()
        client.post("/v1/decisions", json={"facts": FACTS}).raise_for_status()
        assert [each["path"] for each in logged(client, 2)] == ["v1/dry-run", "v1/decisions"]
        found = [client.get(f"/v1/decisions/{tried[each]['decision_id']}") for each in ("current", "candidate")]
        assert [each.status_code for each in found] == [200, 404]


def test_no_secret_is_in_any_file_or_record(
    serve: Callable[..., AbstractContextManager[Server]], tmp_path: Path
) -> None:
    """Also if dry runs are logged and records are printed."""
    args = ["serve", "m", "--api-key", "sk-argument", "--wrong-flag", "unknown-flag", "--kv-transfer-config"]
    args.append(
        '{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"token": '
        '"in-extra-config"}}'
    )
    env = {"HF_TOKEN": "hf-variable", "DATABASE_PASSWORD": "env-secret", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    request = {
        "deployment": {"args": args, "env": env, "model_configs": {"m": {**QWEN, "secret": "config-member"}}},
        "explain": True,
    }
    variables = {"RUNNER_POLICY_LOG_STDOUT": "true", "RUNNER_POLICY_LOG_DRY_RUNS": "true", "HF_TOKEN": "of-the-process"}
    with serve(**variables) as server, server.client() as client:
        made = client.post("/v1/decisions", json=request).raise_for_status().json()["decision_id"]
        client.post("/v1/dry-run", json=request).raise_for_status()
        extra = {"kv_transfer_config": {"kv_connector_extra_config": {"token": "in-extra-config"}}}
        client.post("/v1/decisions", json={"facts": {**FACTS, **extra}}).raise_for_status()
        records = logged(client, 3)
        assert [each["path"] for each in records] == ["v1/decisions", "v1/dry-run", "v1/decisions"]
        assert records[0]["input"]["facts"]["env"] == {"VLLM_USE_V2_MODEL_RUNNER": True}
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {"decisions.db", "decisions.db-wal", "serve.log"} <= {path.name for path in files}
        found = b"".join(path.read_bytes() for path in files)
    found += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert made.encode() in found
    assert [secret for secret in SECRETS if secret.encode() in found] == []
    printed = [json.loads(text) for text in server.log.read_text().splitlines() if '"decision_id"' in text]
    assert printed == records


def test_the_facts_of_a_deployment_hide_what_answers_hide(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    args = ["serve", "m", "--distributed-executor-backend", "https://bob:Zq8JbhpkJG4rt@h/x.Y"]
    deployment = {"args": args, "model_configs": {"m": QWEN}}
    with serve() as server, server.client() as client:
        answer = client.post("/v1/decisions", json={"deployment": deployment}).raise_for_status().json()
        (record,) = logged(client, 1)
    shown = answer["facts"]["parallel_config.distributed_executor_backend"]["value"]
    assert record["input"]["facts"]["parallel_config"]["distributed_executor_backend"] == shown
    assert "Zq8JbhpkJG4rt" not in json.dumps(record)


def test_nothing_is_recorded_if_the_log_is_off(
    serve: Callable[..., AbstractContextManager[Server]], tmp_path: Path
) -> None:
    with serve(RUNNER_POLICY_LOG="off") as server, server.client() as client:
        made = client.post("/v1/decisions", json={"facts": FACTS}).json()["decision_id"]
        for path in ("/v1/log", f"/v1/decisions/{made}"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["detail"]) == (
                404,
                "decisions are not logged here; set RUNNER_POLICY_LOG to log them",
            )
        assert "log" not in client.get("/readyz?verbose").json()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["serve.log"]


@pytest.mark.slow
def test_decisions_are_answered_if_printed_records_are_not_read(tmp_path: Path) -> None:
    """Standard output is a pipe that is never read, and too small for the records."""
    reader, writer = os.pipe()
    variables = {
        "RUNNER_POLICY_PORT": "0",
        "XDG_STATE_HOME": str(tmp_path),
        "RUNNER_POLICY_LOG": "off",
        "RUNNER_POLICY_LOG_STDOUT": "true",
    }
    log = tmp_path / "serve.log"
    with (
        log.open("wb") as file,
        subprocess.Popen(
            bound([str(BIN / "runner-policy"), "serve"]),
            cwd=ROOT,
            env=environment(**variables),
            stdout=writer,
            stderr=file,
        ) as process,
    ):
        os.close(writer)
        server = Server(process, listening(process, log), log)
        with server.client() as client:
            lines = json.dumps({"facts": FACTS}) + "\n"
            answer = client.post(
                "/v1/decisions/batch", content=lines * 500, headers={"content-type": "application/x-ndjson"}
            )
            assert len(answer.text.splitlines()) == 500
            assert client.post("/v1/decisions", json={"facts": FACTS}).status_code == 200
        process.terminate()
        first = os.read(reader, 1 << 20)
        os.close(reader)
        assert process.wait(PATIENCE) == 0
    assert json.loads(first.partition(b"\n")[0])["path"] == "v1/decisions/batch"


@contextmanager
def piped_output() -> Iterator[tuple[int, int]]:
    """A pipe in place of standard output: the ends for reading and for writing."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", 0) as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", file)
        yield reader, writer


def printed(text: bytes) -> list[str]:
    """The ids of the records in lines of JSON; empty for an empty line."""
    return [json.loads(line)["decision_id"] if line else "" for line in text.split(b"\n")[:-1]]


async def test_records_are_printed_again_after_some_could_not_be(
    new_entry: Callable[..., LogEntry], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The pipe's reader ends within a line; then the output is a full disk, and then one with space."""
    caplog.set_level("INFO")
    entries = [new_entry() for _ in range(5)]
    printer = Printer(json.dumps({"id": "x" * 200_000}))  # more than a pipe accepts in one write
    with piped_output() as (reader, writer):
        printer.note(entries[0])
        await until(lambda: select.select([reader], [], [], 0)[0])
        os.close(reader)
        await until(lambda: printer.dropped == 1)
        for name, new in (("/dev/full", entries[1:3]), (str(tmp_path / "printed.jsonl"), entries[3:])):
            target = os.open(name, os.O_WRONLY | os.O_CREAT)
            os.dup2(target, writer)
            os.close(target)
            for entry in new:
                printer.note(entry)
            printer.close()
            await until(lambda: printer._written == printer._queued)
    assert printed((tmp_path / "printed.jsonl").read_bytes()) == ["", *map(id_of, entries[3:])]
    assert printer.dropped == 3
    assert [(each.levelname, each.message) for each in caplog.records if "printed" in each.message] == [
        ("ERROR", "decisions are not printed: standard output cannot be written"),
        ("INFO", "decisions are printed again"),
    ]


async def test_no_record_is_dropped_if_standard_output_does_not_block(new_entry: Callable[..., LogEntry]) -> None:
    entries = [new_entry() for _ in range(200)]
    printer = Printer(json.dumps({"id": "x" * 10_000}))
    parts: list[bytes] = []
    with piped_output() as (reader, writer):
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)

        def read_all() -> bool:
            with suppress(BlockingIOError):
                parts.append(os.read(reader, 1 << 20))
            return sum(part.count(b"\n") for part in parts) == len(entries)

        for entry in entries:
            printer.note(entry)
        await until(lambda: not select.select([], [writer], [], 0)[1])
        await until(read_all)
        os.close(reader)
    assert (printed(b"".join(parts)), printer.dropped) == (list(map(id_of, entries)), 0)


def result_of(entry: LogEntry, number: int) -> tuple[JobResult, list[str]]:
    """A result of many decisions, with the lines for the log, and their ids."""
    text, decision_id = b"".join(line(entry)), id_of(entry)
    ids = [f"{decision_id[:-6]}{each:06x}" for each in range(number)]
    return JobResult(200, b"", lines=[text.replace(decision_id.encode(), each.encode()) for each in ids]), ids


async def test_the_records_of_a_batch_are_printed_in_parts_and_none_is_dropped(
    new_entry: Callable[..., LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader reads in the event loop, so only between the parts."""
    monkeypatch.setattr(stdout, "ROOM_TIMEOUT", PATIENCE)
    monkeypatch.setattr(stdout, "MAX_QUEUED", 2 << 20)
    found, ids = result_of(new_entry(), 3000)
    recorder = Recorder(Metrics(), stdout_labels=json.dumps({"id": "x" * 4000}))
    numbers = [0]
    parts: list[bytes] = []

    def encoded(entry: LogEntry | bytes, labels: str) -> bytes:
        numbers[-1] += 1
        return record_json(entry, labels)

    async def count_turns() -> None:
        while True:
            numbers.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(stdout, "record_json", encoded)
    with piped_output() as (reader, _):
        asyncio.get_running_loop().add_reader(reader, lambda: parts.append(os.read(reader, 1 << 20)))
        counting = asyncio.create_task(count_turns())
        await recorder.log_job_decisions(found, None, RequestContext("v1/decisions/batch", "argo", 0))
        await until(lambda: sum(part.count(b"\n") for part in parts) + recorder.stdout_dropped == len(ids))
        counting.cancel()
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
    assert (printed(b"".join(parts)), recorder.stdout_dropped) == (ids, 0)
    assert max(numbers) <= 2 * ENTRIES_AT_ONCE  # a part that is complete, and one whose time has come


@pytest.mark.parametrize("is_batch", [False, True])
async def test_few_large_records_are_encoded_in_one_turn(
    new_entry: Callable[..., LogEntry],
    monkeypatch: pytest.MonkeyPatch,
    is_batch: bool,  # noqa: FBT001  # a parameter of the table
) -> None:
    """Other requests wait for one turn of the event loop at most."""
    size, number = 200_000, 40
    entries = [new_entry() for _ in range(number)]
    recorder = Recorder(Metrics(), stdout_labels=json.dumps({"id": "x" * size}))
    assert recorder._printer is not None
    encoded_bytes = [0]
    parts: list[bytes] = []

    def encoded(entry: LogEntry | bytes, labels: str) -> bytes:
        made = record_json(entry, labels)
        encoded_bytes[-1] += len(made)
        return made

    async def count_turns() -> None:
        while True:
            encoded_bytes.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(stdout, "record_json", encoded)
    with piped_output() as (reader, _):
        asyncio.get_running_loop().add_reader(reader, lambda: parts.append(os.read(reader, 1 << 20)))
        counting = asyncio.create_task(count_turns())
        if is_batch:
            found = JobResult(200, b"", lines=[b"".join(line(entry)) for entry in entries])
            await recorder.log_job_decisions(found, None, RequestContext("v1/decisions/batch", "argo", 0))
        else:
            for entry in entries:
                recorder._printer.note(entry)
        await until(lambda: sum(part.count(b"\n") for part in parts) + recorder.stdout_dropped == number)
        counting.cancel()
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
    assert (printed(b"".join(parts)), recorder.stdout_dropped) == (list(map(id_of, entries)), 0)
    assert max(encoded_bytes) <= 2 * (BYTES_AT_ONCE + size)


def test_the_records_that_wait_are_printed_at_the_end(new_entry: Callable[..., LogEntry], tmp_path: Path) -> None:
    """Also those that would be encoded in later turns of the event loop."""
    entries = [new_entry() for _ in range(10)]
    printer = Printer(json.dumps({"id": "x" * 100_000}))

    async def note_all() -> None:
        for entry in entries:
            printer.note(entry)

    with piped_output() as (reader, writer):
        target = os.open(tmp_path / "printed.jsonl", os.O_WRONLY | os.O_CREAT)
        os.dup2(target, writer)
        os.close(target)
        os.close(reader)
        asyncio.run(note_all())
        printer.close()
    assert printed((tmp_path / "printed.jsonl").read_bytes()) == list(map(id_of, entries))


async def test_few_records_wait_however_many_are_decided_in_each_turn(
    new_entry: Callable[..., LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, encoded = new_entry(), [0]
    printer = Printer(json.dumps({"id": "x" * 2000}))

    def encode(entry: LogEntry | bytes, labels: str) -> bytes:
        encoded[0] += 1
        return record_json(entry, labels)

    monkeypatch.setattr(stdout, "record_json", encode)
    with piped_output() as (reader, _):
        os.close(reader)
        for turn in range(1, 11):
            for _ in range(300):
                printer.note(entry)
            await asyncio.sleep(0)
            assert 300 * turn - encoded[0] < ENTRIES_AT_ONCE
        await until(lambda: printer._written == printer._queued)


async def test_records_that_wait_count_as_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit they are dropped when they are noted."""
    monkeypatch.setattr(stdout, "MAX_QUEUED", 1 << 20)
    printer = Printer("{}")
    for _ in range(ENTRIES_AT_ONCE - 1):
        printer.note(b"x" * (1 << 16))
    assert printer.dropped == ENTRIES_AT_ONCE - 1 - 15
    printer._entries.clear()  # they are no records


async def test_a_record_that_cannot_be_encoded_does_not_stop_the_next_ones(
    new_entry: Callable[..., LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [new_entry() for _ in range(2 * ENTRIES_AT_ONCE)]
    printer = Printer(json.dumps({"id": "x" * 10_000}))
    fails = [True]

    def encode(entry: LogEntry | bytes, labels: str) -> bytes:
        if fails[0]:
            fails[0] = False
            raise ValueError
        return record_json(entry, labels)

    monkeypatch.setattr(stdout, "record_json", encode)
    parts: list[bytes] = []
    with piped_output() as (reader, _):
        asyncio.get_running_loop().add_reader(reader, lambda: parts.append(os.read(reader, 1 << 20)))
        for entry in entries:
            with suppress(ValueError):
                printer.note(entry)
        await until(lambda: sum(part.count(b"\n") for part in parts) == len(entries) - 1)
        asyncio.get_running_loop().remove_reader(reader)
        os.close(reader)
    assert printed(b"".join(parts)) == list(map(id_of, entries[1:]))


@pytest.mark.parametrize("is_end", [False, True])
async def test_encoding_takes_no_longer_than_the_wait_for_the_reader(
    new_entry: Callable[..., LogEntry],
    monkeypatch: pytest.MonkeyPatch,
    is_end: bool,  # noqa: FBT001  # a parameter of the table
) -> None:
    """At the end of the service, and of a batch."""
    monkeypatch.setattr(stdout, "CLOSE_TIMEOUT", 0)
    monkeypatch.setattr(stdout, "ROOM_TIMEOUT", 0)
    monkeypatch.setattr(stdout, "LINGER", PATIENCE)
    printer = Printer(json.dumps({"id": "x" * BYTES_AT_ONCE}))
    with piped_output() as (reader, _):
        for _ in range(10):
            printer.note(new_entry())
        if is_end:
            printer.close()
        else:
            await printer.wait_for_room()
        assert len(printer._entries) >= 9
        os.close(reader)
        printer._entries.clear()
        await until(lambda: printer._written == printer._queued)


async def test_batches_wait_once_for_a_reader_that_hangs(
    new_entry: Callable[..., LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no room is dropped; the rest is printed in order once the reader continues."""
    monkeypatch.setattr(stdout, "MAX_QUEUED", 1 << 20)
    found, ids = result_of(new_entry(), 2000)
    recorder = Recorder(Metrics(), stdout_labels=json.dumps({"id": "x" * 4000}))
    parts: list[bytes] = []
    with piped_output() as (reader, _):
        os.set_blocking(reader, False)
        for seconds, lines in ((0, found.lines[:1000]), (math.inf, found.lines[1000:])):
            monkeypatch.setattr(stdout, "ROOM_TIMEOUT", seconds)
            batch = replace(found, lines=lines)
            await recorder.log_job_decisions(batch, None, RequestContext("v1/decisions/batch", "argo", 0))
        await recorder.close()

        def read_all() -> bool:
            with suppress(BlockingIOError):
                parts.append(os.read(reader, 1 << 20))
            return sum(part.count(b"\n") for part in parts) + recorder.stdout_dropped == len(ids)

        await until(read_all)
        os.close(reader)
    kept = printed(b"".join(parts))
    assert kept == [each for each in ids if each in set(kept)]
    assert 0 < recorder.stdout_dropped == len(ids) - len(kept)


@pytest.mark.parametrize(
    "url", ["mysql://u:geheim@h/d", "postgresql://u:12@geheim@h/d", "sqlite://", "sqlite:///:memory:", "geheim"]
)
def test_an_invalid_url_is_reported_without_its_password(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr("uvicorn.Server.run", None)  # it must not start
    done = call("serve", "--port", "0", RUNNER_POLICY_LOG=url)
    assert done.code == 2
    assert done.err.startswith("--log: ")
    assert "heim" not in done.out + done.err
    assert "12" not in done.err


def test_the_start_message_has_the_log_without_a_password(
    serve: Callable[..., AbstractContextManager[Server]], tmp_path: Path
) -> None:
    url = "postgresql://u:geheim@127.0.0.1:1/d?sslpassword=geheim&password=geheim"
    with serve(RUNNER_POLICY_LOG=url, RUNNER_POLICY_LOG_SPILL=str(tmp_path / "spill")) as server:
        text = server.log.read_text()
    assert '"decision_log": "postgresql://u:***@127.0.0.1:1/d"' in text
    assert "geheim" not in text


def test_invalid_settings_are_named(run: Callable[..., Done]) -> None:
    done = run("log", "query", RUNNER_POLICY_ALLOWED_HOSTS="a/b")
    message = "RUNNER_POLICY_ALLOWED_HOSTS: `a/b`: expected a host name without a port, `*.example.org` or `*`"
    assert (done.code, done.out, done.err.strip()) == (2, "", message)


def test_a_query_of_a_missing_log_is_an_error(call: Callable[..., Done], sqlite: LogTarget) -> None:
    assert sqlite.file is not None
    sqlite.file.unlink()
    done = call("log", "query", "--log", sqlite.url)
    expected = f"no log found at {sqlite.file}; `runner-policy serve` creates it, --log names another"
    assert (done.code, done.out, done.err.strip()) == (2, "", expected)
    assert not sqlite.file.exists()


def test_an_error_of_the_database_has_no_password(call: Callable[..., Done], on_server: LogTarget) -> None:
    assert on_server.server is not None
    for url in (
        on_server.url.replace("owner:", "nobody:"),
        on_server.url.replace("/log", "/none"),
        on_server.url + "?wrong=1",
    ):
        done = call("log", "query", RUNNER_POLICY_LOG=url)
        assert done.code == 2
        assert "the log cannot be read: " in done.err
        assert not any(
            word in done.out + done.err for word in (on_server.server.password, on_server.server.password[:8])
        )


def values(fact: Fact) -> list[Any]:
    """Some legal values of a fact."""
    match fact.kind:
        case FactKind.PRESENCE:
            legal: list[Any] = [{}, {"else": "?"}, None]
        case FactKind.VARIABLE:
            legal = ["0", "1", True, False, None, "yes", "", " 1 ", "1.5", "'\"\\\n", "日本"]
        case FactKind.BOOLEAN:
            legal = [True, False]
        case FactKind.INTEGER:
            legal = [fact.least, fact.least + 1, 2, 3, 2**31 - 1]
        case FactKind.SHARE:
            legal = [0.5, 0.92, 1]
        case FactKind.CHOICE:
            legal = list(fact.choices)
        case FactKind.TEXT:
            legal = ["", "ray", "NixlConnector", "\0", "'\"\\\n日本"]
        case FactKind.TEXTS:
            legal = [[], ["Qwen3ForCausalLM"], ["OPTForCausalLM", "x"]]
        case FactKind.LIST:
            legal = [[], [1], ["a.b:C"], [[1, 2, 3]]]  # only the plain path reads a list with null
    return [*legal, None] if fact.nullable else legal


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Facts as a request nests them; below a value that is not an object there are none."""
    document: dict[str, Any] = {"model_config": {}}
    facts = {fact.name: fact for fact in VOCABULARY}
    for name in sorted(facts, key=lambda name: (name.count("."), name)):
        if not draw(st.integers(0, 4)):
            *parents, last = name.split(".")
            parent: Any = document
            for part in parents:
                parent = parent.setdefault(part, {}) if isinstance(parent, dict) else None
            if isinstance(parent, dict):
                parent[last] = draw(st.sampled_from(values(facts[name])))
    return document


def without_id(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer)
    del found["decision_id"]
    return found


def recorded(answer: EncodedDecision, request: Request, body: bytes | None) -> LogRecord:
    return record(
        row(
            msgspec.json.decode(b"".join(line((answer, request, "v1/decisions", "argo", 1, body))), type=SentRecord),
            LABELS,
        )
    )


def without_nul(value: Any) -> Any:
    """A document as it is stored, with U+FFFD for NUL."""
    if isinstance(value, dict):
        return {without_nul(name): without_nul(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


@settings(derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    facts=documents(),
    release=st.sampled_from(["0.20.0", "0.23.0", "0.23.9", "0.29.0", "0.33.0", "0.99.0", None]),
    upstream=st.booleans(),
)
def test_the_logged_input_is_a_request_for_the_same_decision(
    policy: Policy, facts: dict[str, Any], release: str | None, *, upstream: bool
) -> None:
    document = {
        "facts": facts,
        "vllm_version": release,
        "beyond_verified": "nearest",
        **({"layers": ["upstream"]} if upstream else {}),
    }
    request = read_request(document, policy.releases)
    logged = recorded(policy.answer(request, TODAY), request, None)
    answer = policy.answer(read_request(without_nul(document), policy.releases), TODAY)
    expected = without_id(answer.json)
    if release is None:
        expected["release"]["defaulted"] = False  # the record names the version
    body = bytes(logged.input)
    fast = decode_fast(body, policy.releases)
    assert fast is not None
    for again in (fast, read_request(json.loads(body), policy.releases)):
        found = without_id(policy.answer(again, TODAY).json)
        assert {**found, "warnings": []} == {**expected, "warnings": []}
        assert policy.answer(again, TODAY).evaluation.facts.row == answer.evaluation.facts.row


@settings(derandomize=True, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    facts=documents(),
    release=st.sampled_from(["0.20.0", "0.23.9", "0.33.0", None]),
    layers=st.sampled_from([None, ["upstream"], ["upstream", "house"]]),
    name=st.sampled_from([None, "request \u2028 \\ 1"]),
    indent=st.sampled_from([None, 0, 2]),
)
def test_a_request_logged_as_sent_gives_the_same_record(
    policy: Policy,
    facts: dict[str, Any],
    release: str | None,
    layers: list[str] | None,
    name: str | None,
    indent: int | None,
) -> None:
    body = json.dumps(
        {"facts": facts, "vllm_version": release, "beyond_verified": "nearest", "layers": layers, "request_id": name},
        indent=indent,
    ).encode()
    request = decode_fast(body, policy.releases)
    assume(request is not None)
    assert request is not None
    answer = policy.answer(request, TODAY)
    as_sent, from_row = recorded(answer, request, body), recorded(answer, request, None)
    read_again = [decode_fast(bytes(each.input), policy.releases) for each in (as_sent, from_row)]
    assert read_again[0] == read_again[1] is not None
    assert replace(as_sent, input=from_row.input) == from_row


def test_a_field_that_occurs_twice_is_logged_once(policy: Policy) -> None:
    body = b'{"facts": {"model_config": {"architectures": ["A"]}}, "facts": {"model_config": {"architectures": ["B"]}}}'
    request = decode_fast(body, policy.releases)
    assert request is not None
    logged = bytes(recorded(policy.answer(request, TODAY), request, body).input)
    assert logged == b'{"vllm_version":"0.23.0","facts":{"model_config":{"architectures":["B"]}}}'


CALLERS = [
    ("argo", "argo"),
    ("équipe 決定", "équipe 決定"),
    ('a", "b', 'a", "b'),
    ("a\\", "a\\"),
    ("a\nb\x00\x1b[31m\x7f\x85\u2028\udcff", "a?b??[31m????"),
    ("a" * 129, "a" * 128),
    ("\n" * 1000, "?" * 128),
]


async def test_the_caller_is_recorded_without_control_characters_and_with_limited_length(
    sqlite: LogTarget, new_entry: Callable[..., LogEntry]
) -> None:
    async with running_log(sqlite) as log:
        for caller, _ in CALLERS:
            log.note(new_entry(caller=caller))
        await until(lambda: log.counts.written == len(CALLERS), log)
    assert [found["requested_by"] for found in sqlite.records()] == [recorded for _, recorded in CALLERS]
