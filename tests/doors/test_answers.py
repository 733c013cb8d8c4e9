"""What no client can bring about: a new day, and an engine that does not finish."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from policy.errors import EngineFailed, PolicyError
from service.answers import Answers
from service.metrics import Metrics
from service.models import Models
from service.problems import ProblemFault, problem_of
from service.recording import Asking, Recorder
from service.reload import Published
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.policy import Policy

BODY = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}}'


ASKING = Asking("v1/decisions", "somebody", 0)
PUBLISHED = Published("sha256:0", {}, "rules", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    "answer",
    [
        lambda answers: answers.kept(BODY, ASKING) or answers.decision(BODY, ASKING),
        lambda answers: answers.decision(BODY, ASKING),
        lambda answers: answers.line(BODY, ASKING),
    ],
    ids=["kept", "decision", "line"],
)
def test_no_answer_is_given_on_another_day(answer: Callable[[Answers], bytes], policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.answers.time", lambda: datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    answers = Answers(policy, PUBLISHED, Settings(), Models(None), Recorder(Metrics()))

    def warnings() -> list[list[str]]:
        return [json.loads(answer(answers))["warnings"] for _ in range(4)]

    assert warnings() == [[]] * 4
    monkeypatch.setattr("service.answers.time", lambda: datetime(2199, 1, 1, tzinfo=UTC).timestamp())
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
