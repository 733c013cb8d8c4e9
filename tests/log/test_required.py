"""The service with a required log.

What is recorded while the store is unavailable, and when the service ends or is killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from api.conftest import PATIENCE, Server, environment, listening, service_process
from log.conftest import FACTS, log_metrics, log_state, wait_for
from processes import command_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from log.conftest import LogTarget

REQUEST = {"facts": FACTS}


def log_processes(parent: int) -> list[int]:
    """The log processes of a service process."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and (process / "stat").read_text().rpartition(")")[2].split()[1] == str(parent):
                found += [int(process.name)] if b"service.log" in (process / "cmdline").read_bytes() else []
    return found


def lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def service_in_a_group(target: LogTarget, **variables: str) -> Iterator[Server]:
    """A service whose process group can be killed as a whole."""
    variables = {
        "RUNNER_POLICY_PORT": "0",
        "XDG_STATE_HOME": str(target.folder),
        "RUNNER_POLICY_LOG": target.url,
        **variables,
    }
    log = target.folder / "serve.log"
    process = service_process((), environment(**variables), log, session=True)
    try:
        yield Server(process, listening(process, log), log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


def send_requests(server: Server, answered: list[str], enough: threading.Event) -> None:
    """Send requests until the service ends, and collect the ids of the decisions."""
    with server.client() as client, suppress(httpx.HTTPError):
        while True:
            answered.append(client.post("/v1/decisions", json=REQUEST).raise_for_status().json()["decision_id"])
            if len(answered) >= 200:
                enough.set()


def test_every_answered_decision_is_recorded_even_if_all_processes_are_killed(target: LogTarget) -> None:
    answered: list[str] = []
    enough = threading.Event()
    with service_in_a_group(target, RUNNER_POLICY_LOG_REQUIRED="true") as server:
        threads = [threading.Thread(target=send_requests, args=(server, answered, enough)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE)
        os.killpg(server.process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join(PATIENCE)
    assert set(answered) <= set(target.ids())


def test_a_log_process_records_what_it_has_and_ends_if_its_service_is_killed(sqlite: LogTarget) -> None:
    with service_in_a_group(sqlite) as server, server.client() as client:
        wait_for(lambda: log_processes(server.process.pid))
        log_process = log_processes(server.process.pid)
        answered = [client.post("/v1/decisions", json=REQUEST).json()["decision_id"] for _ in range(50)]
        wait_for(lambda: not log_state(client)["waiting"])
        server.process.kill()
        wait_for(lambda: not any(map(lives, log_process)))
    assert sorted(answered) == sqlite.ids()


@pytest.mark.slow
def test_a_shutdown_waits_for_the_log(sqlite: LogTarget) -> None:
    """With several workers, too."""
    with service_in_a_group(sqlite, RUNNER_POLICY_WORKERS="2") as server, server.client() as client:
        lines = (json.dumps(REQUEST) + "\n") * 1000
        answer = client.post(
            "/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"}
        ).text
        os.killpg(server.process.pid, signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    assert sorted(json.loads(line)["decision_id"] for line in answer.splitlines()) == sqlite.ids()


def without_spill(target: LogTarget) -> dict[str, str]:
    """The variables of a service with a required log in a database, and no folder for what it cannot store there."""
    target.spill.write_bytes(b"a file where the folder would be")
    return {
        "RUNNER_POLICY_LOG": target.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_SPILL": str(target.spill),
    }


def test_no_line_of_a_stream_is_answered_unrecorded_beside_one_of_a_worker_process(
    serve: Callable[..., AbstractContextManager[Server]], on_server: LogTarget
) -> None:
    """A line that a worker process decides waits for its own record, not for those of the lines before it."""
    assert on_server.server is not None
    variables = without_spill(on_server)
    review = json.loads((Path(__file__).parents[1] / "core/admission/deployment-create.json").read_text())
    small, large = json.dumps(REQUEST), json.dumps({"manifest": review["request"]["object"]})
    with serve(**variables) as service, service.client() as client, on_server.server.stopped():
        for lines in ([small, large], [small, large, small, small, large]):
            answer = client.post(
                "/v1/decisions/batch", content="\n".join(lines), headers={"content-type": "application/x-ndjson"}
            )
            kinds = [json.loads(line).get("type") for line in answer.text.splitlines()]
            assert kinds == ["urn:runner-policy:problem:log-unavailable"] * len(lines)


def test_a_decision_that_cannot_be_recorded_is_not_answered(
    serve: Callable[..., AbstractContextManager[Server]], on_server: LogTarget
) -> None:
    assert on_server.server is not None
    variables = without_spill(on_server)
    with serve(**variables) as service, service.client() as client:
        made = client.post("/v1/decisions", json=REQUEST).raise_for_status().json()["decision_id"]
        assert on_server.ids() == [made]
        with on_server.server.stopped():
            refused = client.post("/v1/decisions", json=REQUEST)
            detail = (
                "the decision could not be recorded: neither the store nor the local disk accepted it; "
                "send the request again"
            )
            expected = {
                "type": "urn:runner-policy:problem:log-unavailable",
                "title": "The decision could not be recorded",
                "status": 503,
                "detail": detail,
                "errors": [{"pointer": "", "message": detail}],
            }
            assert (refused.status_code, refused.json()) == (503, expected)
            lines = (json.dumps(REQUEST) + "\n") * 3
            answer = client.post("/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"})
            assert [json.loads(line) for line in answer.text.splitlines()] == [expected] * 3
            assert client.post("/v1/decisions/batch", json={"items": [REQUEST]}).status_code == 503
            state = log_state(client)
            assert (state["lost"], state["store_up"]) == (5, False)
            assert on_server.server.password not in service.log.read_text()
        on_server.spill.unlink()
        with on_server.server.stopped():
            spilled = client.post("/v1/decisions", json=REQUEST).raise_for_status().json()["decision_id"]
            assert on_server.spilled() == [spilled]
        wait_for(lambda: log_state(client)["replayed"] == 1)
        assert on_server.ids() == [made, spilled]
        numbers = log_metrics(client)
        assert {
            name: numbers[name] for name in ("written", "spilled", "replayed", "dropped", "store_up", "queue_records")
        } == {
            "written": 1,
            "spilled": 1,
            "replayed": 1,
            "dropped": 5,
            "store_up": 1,
            "queue_records": 0,
        }


@pytest.mark.slow
def test_decisions_are_answered_while_the_store_hangs(
    serve: Callable[..., AbstractContextManager[Server]], on_server: LogTarget
) -> None:
    server = on_server.server
    assert server is not None
    variables = {
        "RUNNER_POLICY_LOG": on_server.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_TIMEOUT": "3",
    }
    with serve(**variables) as service, service.client() as client:
        answered = [client.post("/v1/decisions", json=REQUEST).raise_for_status().json()["decision_id"]]
        wait_for(lambda: len(on_server.ids()) == 1)
        with server.frozen():
            answered += [
                client.post("/v1/decisions", json=REQUEST).raise_for_status().json()["decision_id"] for _ in range(20)
            ]
            wait_for(lambda: not log_state(client)["waiting"])
        wait_for(lambda: log_state(client)["replayed"] == 20)
        assert on_server.ids() == sorted(answered)


@pytest.mark.slow
def test_the_service_is_not_ready_while_the_process_of_its_required_log_hangs(
    serve: Callable[..., AbstractContextManager[Server]], sqlite: LogTarget
) -> None:
    variables = {
        "RUNNER_POLICY_LOG": sqlite.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_TIMEOUT": "1",
    }
    with serve(**variables) as service, service.client() as client:
        assert (client.get("/readyz").status_code, log_state(client)["can_record"]) == (200, True)
        log_process = command_of(*log_processes(service.process.pid))
        assert log_process is not None
        os.kill(log_process, signal.SIGSTOP)
        try:
            wait_for(lambda: client.get("/readyz").status_code == 503)
            assert client.post("/v1/decisions", json=REQUEST).status_code == 503
            state = log_state(client)
            assert not state["can_record"]
            assert re.fullmatch(r"the log process has not answered for \d+ s", state["last_error"])
            assert client.get("/livez").status_code == 200
        finally:
            os.kill(log_process, signal.SIGCONT)
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/decisions", json=REQUEST).status_code == 200
        wait_for(lambda: log_state(client)["last_error"] == "")
