"""Events that no client can cause: a new day, an engine that does not finish, and a fault in the program."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest.mock import Mock

import httpx
import pytest
from pydantic import SecretStr

from policy.errors import EngineFailed, PolicyError
from policy.problems import ProblemFault
from service.app import create_app
from service.models import HubModels
from service.problems import KINDS, problem_of
from service.recorder import Recorder
from service.reload.reload import Published
from service.request_context import RequestContext
from service.settings import Settings
from service.state.answers import Answers
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.policy import Policy

BODY = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}}'


ASKING = RequestContext("v1/decisions", "somebody", 0)
PUBLISHED = Published("sha256:0", {}, "rules", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    "answer",
    [
        lambda answers: answers.cached(BODY, ASKING) or answers.decision(BODY, ASKING),
        lambda answers: answers.decision(BODY, ASKING),
        lambda answers: answers.line(BODY, ASKING),
    ],
    ids=["kept", "decision", "line"],
)
def test_no_answer_is_given_on_another_day(
    answer: Callable[[Answers], bytes], policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.answers.time", lambda: datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    answers = Answers(policy, PUBLISHED, Settings(), HubModels(None), Recorder(Metrics()))

    def warnings() -> list[list[str]]:
        return [json.loads(answer(answers))["warnings"] for _ in range(4)]

    assert warnings() == [[]] * 4
    monkeypatch.setattr("service.state.answers.time", lambda: datetime(2199, 1, 1, tzinfo=UTC).timestamp())
    overdue = "the house rule `kv-connector-fallback` was to be reviewed by 2027-06-30; its owner is inference-platform"
    assert warnings() == [[overdue]] * 4


def test_an_engine_that_did_not_finish_is_a_503_that_says_what_to_do() -> None:
    problem = problem_of(EngineFailed("the engine stopped before the last rule"))
    assert (problem.type, problem.status, problem.errors) == (
        "urn:runner-policy:problem:engine-failed",
        503,
        [ProblemFault("", "the engine stopped before the last rule; send the request again")],
    )


def test_an_error_that_is_no_client_s_business_is_no_problem() -> None:
    error = PolicyError("of another kind")
    with pytest.raises(PolicyError) as raised:
        problem_of(error)
    assert raised.value is error


@pytest.mark.parametrize("path", ["/v1/decisions", "/v1/decisions/batch"])
def test_a_request_that_failed_for_a_fault_of_ours_is_counted_as_one(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(app.service.answers, "decision", fail)
    monkeypatch.setattr(app.service.pool, "result", fail)

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            with pytest.raises(RuntimeError):
                await client.post(path, json={"items": [{}]})

    asyncio.run(ask())
    counted = {
        sample[1]: sample[2]
        for sample in app.service.metrics.snapshot().samples
        if sample[0] == "runner_policy_requests"
    }
    assert counted == {(path, "500"): 1, ("/v1/decisions", "200"): 0}


def test_requests_at_once_have_the_document_described_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))
    describe = Mock(wraps=app.openapi)
    monkeypatch.setattr(app, "openapi", describe)

    async def ask() -> set[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(20)))
        return {answer.status_code for answer in answers}

    assert (asyncio.run(ask()), describe.call_count) == ({200}, 1)


def test_every_kind_of_problem_is_in_the_table_for_readers(root: Path) -> None:
    rows = [
        f"| `{kind}` | {status} | {title} |"
        for kind, (status, title) in sorted(KINDS.items(), key=lambda item: item[1][0])
    ]
    assert "\n".join(["| kind | status | title |", "|---|---|---|", *rows, ""]) in (
        root / "docs/decision.md"
    ).read_text("utf-8")
