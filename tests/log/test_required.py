"""The service with a required log, as it is started.

What it promises if decisions must be recorded, and what is left of it when it ends or is killed.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from api.conftest import PATIENCE, Server, environment, listening, service_process
from log.conftest import FACTS, becomes, counts, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from log.conftest import Place

ASKED = {"facts": FACTS}


def keepers(parent: int) -> list[int]:
    """The keepers of a process."""
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
def in_a_group(place: Place, **variables: str) -> Iterator[Server]:
    """A service whose whole group of processes can be ended at once."""
    variables = {
        "RUNNER_POLICY_PORT": "0",
        "XDG_STATE_HOME": str(place.folder),
        "RUNNER_POLICY_LOG": place.url,
        **variables,
    }
    log = place.folder / "serve.log"
    process = service_process((), environment(**variables), log, session=True)
    try:
        yield Server(process, listening(process, log), log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


def asking(server: Server, answered: list[str], enough: threading.Event) -> None:
    """Ask until the service is gone; each id that was answered is noted."""
    with server.client() as client, suppress(httpx.HTTPError):
        while True:
            answered.append(client.post("/v1/decisions", json=ASKED).raise_for_status().json()["decision_id"])
            if len(answered) >= 200:
                enough.set()


def test_every_answer_that_was_given_is_there_though_everything_was_killed(place: Place) -> None:
    answered: list[str] = []
    enough = threading.Event()
    with in_a_group(place, RUNNER_POLICY_LOG_REQUIRED="true") as server:
        threads = [threading.Thread(target=asking, args=(server, answered, enough)) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert enough.wait(PATIENCE)
        os.killpg(server.process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join(PATIENCE)
    assert set(answered) <= set(place.ids())


def test_what_the_keeper_had_is_kept_where_its_process_is_killed_and_the_keeper_ends(sqlite: Place) -> None:
    with in_a_group(sqlite) as server, server.client() as client:
        becomes(lambda: keepers(server.process.pid))
        keeper = keepers(server.process.pid)
        answered = [client.post("/v1/decisions", json=ASKED).json()["decision_id"] for _ in range(50)]
        becomes(lambda: not settled(client)["waiting"])
        server.process.kill()
        becomes(lambda: not any(map(lives, keeper)))
    assert sorted(answered) == sqlite.ids()


@pytest.mark.slow
def test_the_end_of_the_service_waits_for_its_log(sqlite: Place) -> None:
    """Of several workers, too."""
    with in_a_group(sqlite, RUNNER_POLICY_WORKERS="2") as server, server.client() as client:
        lines = (json.dumps(ASKED) + "\n") * 1000
        answer = client.post(
            "/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"}
        ).text
        os.killpg(server.process.pid, signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    assert sorted(json.loads(line)["decision_id"] for line in answer.splitlines()) == sqlite.ids()


def test_no_decision_is_answered_that_is_not_safe(
    serve: Callable[..., AbstractContextManager[Server]], on_server: Place
) -> None:
    assert on_server.server is not None
    on_server.spill.write_bytes(b"a file where the folder would be")
    variables = {
        "RUNNER_POLICY_LOG": on_server.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_SPILL": str(on_server.spill),
    }
    with serve(**variables) as service, service.client() as client:
        made = client.post("/v1/decisions", json=ASKED).raise_for_status().json()["decision_id"]
        assert on_server.ids() == [made]
        with on_server.server.away():
            refused = client.post("/v1/decisions", json=ASKED)
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
            lines = (json.dumps(ASKED) + "\n") * 3
            answer = client.post("/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"})
            assert [json.loads(line) for line in answer.text.splitlines()] == [expected] * 3
            assert client.post("/v1/decisions/batch", json={"items": [ASKED]}).status_code == 503
            state = settled(client)
            assert (state["lost"], state["store_up"]) == (5, False)
            assert on_server.server.password not in service.log.read_text()
        on_server.spill.unlink()
        with on_server.server.away():
            spilled = client.post("/v1/decisions", json=ASKED).raise_for_status().json()["decision_id"]
            assert on_server.spilled() == [spilled]
        becomes(lambda: settled(client)["replayed"] == 1)
        assert on_server.ids() == [made, spilled]
        numbers = counts(client)
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
def test_decisions_go_on_while_the_store_hangs(
    serve: Callable[..., AbstractContextManager[Server]], on_server: Place
) -> None:
    server = on_server.server
    assert server is not None
    variables = {
        "RUNNER_POLICY_LOG": on_server.url,
        "RUNNER_POLICY_LOG_REQUIRED": "true",
        "RUNNER_POLICY_LOG_TIMEOUT": "3",
    }
    with serve(**variables) as service, service.client() as client:
        answered = [client.post("/v1/decisions", json=ASKED).raise_for_status().json()["decision_id"]]
        becomes(lambda: len(on_server.ids()) == 1)
        with server.frozen():
            answered += [
                client.post("/v1/decisions", json=ASKED).raise_for_status().json()["decision_id"] for _ in range(20)
            ]
            becomes(lambda: not settled(client)["waiting"])
        becomes(lambda: settled(client)["replayed"] == 20)
        assert on_server.ids() == sorted(answered)
