"""The process that evaluates candidate rules: what its caller and the operators see when it ends early."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvloop
from api.test_dry_run import HOSTILE
from processes import command_of

from policy.checks import candidate
from service.api import dry_run
from service.problems import Refused
from service.request_context import RequestContext

from .conftest import QWEN, until
from .test_work import local_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message

    from .conftest import Tokens


def kind(problem: Any) -> str:
    return str(problem["type"].rpartition(":")[2])


def cpu_seconds(process: int) -> float:
    """The processor time that a process has taken outside of the kernel."""
    command = command_of(process)
    if command is None:
        return 0
    return int(Path(f"/proc/{command}/stat").read_text().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


def test_a_crash_by_candidate_rules_is_logged(serve: Callable[..., Any]) -> None:
    """It is while the process is sent its job, which it has not read, and later, when it evaluates the rules."""
    with serve(MAX_BODY=str(4 << 20)) as service, service.client() as client, ThreadPoolExecutor(1) as thread:

        def crash(has_read: bool) -> Any:  # noqa: FBT001  # local
            asked = thread.submit(client.post, "/v1/dry-run", json={"request": QWEN, "rules": HOSTILE})
            (process,) = until(lambda: service.children("policy.checks.candidate"))
            command = until(command_of, process)
            if has_read:
                until(lambda: cpu_seconds(process) >= 1)
            else:
                os.kill(command, signal.SIGSTOP)
            os.kill(command, signal.SIGSEGV)
            os.kill(command, signal.SIGCONT)
            return asked.result().json()

        answers = [crash(has_read) for has_read in (False, True)]
        logged = service.messages("the process for candidate rules failed")
    message = "the candidate rules crashed the engine (signal 11); make their conditions simpler"
    assert [(kind(answer), answer["detail"]) for answer in answers] == 2 * [("candidate-aborted", message)]
    assert [(line["level"], line["exit_code"]) for line in logged] == 2 * [("error", -signal.SIGSEGV)]


def test_a_process_that_ends_before_it_gets_its_candidate_rules_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec

    async def start_and_wait(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        await process.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_wait)
    monkeypatch.setattr(candidate, "COMMAND", ["sh", "-c", "kill -SEGV $$"])
    with pytest.raises(Refused, match="the candidate rules crashed the engine") as refused:
        uvloop.run(dry_run._run(b"a job", 5, 1 << 20, None))
    assert refused.value.kind == "candidate-aborted"


def test_the_body_is_released_before_the_answer_is_sent() -> None:
    """A client may take long to read it."""
    served = local_state()
    body = json.dumps({"request": QWEN, "remove": ["kv-connector-fallback"]}).encode()
    arriving: list[Message] = [{"type": "http.request", "body": body}]
    answers: list[int] = []

    async def receive() -> Message:
        return arriving.pop() if arriving else await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])
            with served.memory.hold("another caller") as other:
                other.add(served.settings.max_bodies * 7 // 8)  # all that large bodies may have

    async def answer() -> None:
        try:
            endpoint = dry_run.DryRunEndpoint(served, "/v1/dry-run")
            await endpoint.answer({}, receive, send, RequestContext("v1/dry-run", "somebody", 0))
        finally:
            served.pool.close()

    asyncio.run(answer())
    assert answers == [200]


@pytest.mark.slow
def test_candidate_rules_are_charged_by_their_time(serve: Callable[..., Any], tokens: Tokens) -> None:
    token = tokens.add("many", "dry-run")
    with (
        serve(
            "--tokens", str(tokens.path), CANDIDATE_TIMEOUT="1", RATE_LIMIT="0.001", MAX_BODY=str(4 << 20)
        ) as service,
        service.client(token) as client,
    ):
        aborted = client.post("/v1/dry-run", json={"request": QWEN, "rules": HOSTILE})
        assert kind(aborted.json()) == "candidate-aborted"
        refused = client.post("/v1/dry-run", json=QWEN)
        assert (refused.status_code, kind(refused.json())) == (429, "too-many-requests")
        assert 90_000 < int(refused.headers["retry-after"]) <= 201_000  # 1 s counts as 100 decisions
