"""Events that no client can cause: a new day, an engine that does not finish, and a fault in the program."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import httpx
import pytest
from files import replace_file
from msgspec import structs
from pydantic import SecretStr

from policy.decision.decision import encode
from policy.errors import EngineFailed, PolicyError
from policy.policy import Policy
from policy.problems import ProblemFault
from service.api.endpoint import MAX_TURN
from service.app import create_app
from service.models import HubModels
from service.problems import KINDS, Refused, problem_of
from service.recorder import Recorder
from service.reload.reload import Published
from service.request_context import RequestContext
from service.settings import Settings
from service.state.answers import GROUP as GROUPED
from service.state.answers import Answers
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import date

    from policy.policy import FullEvaluation
    from policy.request.request import Request
    from service.app import Application

pytestmark = pytest.mark.usefixtures("shipped_rules_once")
BODY = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}}'


CONTEXT = RequestContext("v1/decisions", "somebody", 0)
PUBLISHED = Published("sha256:0", {}, "rules", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    "answer",
    [
        lambda answers: answers.cached_answer(BODY, CONTEXT) or answers.decision(BODY, CONTEXT),
        lambda answers: answers.decision(BODY, CONTEXT),
        lambda answers: answers.line(BODY, CONTEXT),
    ],
    ids=["kept", "decision", "line"],
)
def test_a_cached_answer_is_not_reused_on_another_day(
    answer: Callable[[Answers], bytes], policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.state.answers.time", lambda: datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    answers = Answers(policy, PUBLISHED, Settings(), HubModels(None), Recorder(Metrics()))

    def warnings() -> list[list[str]]:
        return [json.loads(answer(answers))["warnings"] for _ in range(4)]

    assert warnings() == [[]] * 4
    monkeypatch.setattr("service.state.answers.time", lambda: datetime(2199, 1, 1, tzinfo=UTC).timestamp())
    overdue = "the house rule `kv-connector-fallback` was due for review by 2027-06-30; its owner is inference-platform"
    assert warnings() == [[overdue]] * 4


LAST = datetime(2027, 3, 1, 23, 59, 59, tzinfo=UTC)
MIDNIGHT = datetime(2027, 3, 2, tzinfo=UTC)
RULE = "kv-connector-fallback"
SOON = f"the house rule `{RULE}` holds until 2027-03-01, and not afterwards; its owner is inference-platform"
SET = (
    "vLLM alone would use V2, the policy decided V1; set VLLM_USE_V2_MODEL_RUNNER=0; "
    f"rule `{RULE}`: a KV connector (NixlConnector) keeps this deployment on V1"
)
NIXL_ON_V2 = (
    "known problem of vLLM 0.23.0 (wrong-output, confirmed): V2 with NIXL answers wrongly if `--block-size` is larger "
    "than the attention kernel's blocks, as 128 with FlashInfer"
)
ENDED = f"the house rule `{RULE}` held until 2027-03-01, and no longer applies; its owner is inference-platform"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    """Sets the service's clock."""
    return lambda now: monkeypatch.setattr("service.state.answers.time", now.timestamp)


TOO_LONG = Refused("too-large", "more bytes than are read")
GROUP = [
    BODY,
    b'{"facts": {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, "request_id": "overridden"}',
    b'{"facts": {"model_config": {"is_moe": 1}}}',
    b'{"facts": {"kv_transfer_config": {}}, "vllm_version": "0.33.0", "explain": true}',
    b'{"deployment": {"args": ["--enforce-eager"], "model_configs": {}}}',
    b"{",
    b'{"facts": {"platform": {"has_triton": false}}, "vllm_version": "0.22.1", "layers": ["upstream"]}',
    b'{"facts": {}, "vllm_version": "1.0"}',
]


def result(
    answer: Callable[..., bytes | None], body: bytes | Refused, evaluation: FullEvaluation | PolicyError | None
) -> Any:
    """A decision without its id, or the problem."""
    try:
        found = answer(body, CONTEXT, evaluation)
    except PolicyError as error:
        found = encode(problem_of(error))
    return found and {**json.loads(found), "decision_id": None}


def test_requests_of_a_group_are_answered_as_by_themselves(policy: Policy) -> None:
    answers = Answers(policy, PUBLISHED, Settings(), HubModels(None), Recorder(Metrics()))
    lines: list[bytes | Refused] = [*GROUP, TOO_LONG]
    evaluations = answers.evaluate_common(lines)
    assert [evaluation is not None for evaluation in evaluations] == [
        body in {GROUP[0], GROUP[1], GROUP[6]} for body in lines
    ]
    for line, evaluation in zip(lines, evaluations, strict=True):
        assert result(answers.line, line, evaluation) == result(answers.line, line, None)
    for body, evaluation in zip(GROUP, evaluations[:-1], strict=True):
        assert result(answers.decision, body, evaluation) == result(answers.decision, body, None)


@pytest.fixture
def ending(folder: Path) -> Path:
    """The shipped rules, whose house rule has an end."""
    file = folder / "house" / f"{RULE}.yaml"
    text = file.read_text()
    assert "review_by: 2027-06-30" in text
    replace_file(file, text.replace("review_by: 2027-06-30", "review_by: 2027-03-01\nuntil: 2027-03-01"))
    return folder


def served(app: Application, ask: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
    """The result of ``ask`` with a client of the application."""

    async def run() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await ask(client)

    return asyncio.run(run())


def test_an_evaluation_that_fails_fails_only_its_own_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))
    evaluate = Policy.evaluate_fully

    def evaluate_or_fail(policy: Policy, request: Request, today: date) -> FullEvaluation:
        if request.request_id == "bad":
            raise EngineFailed("the engine stopped before the last rule")
        return evaluate(policy, request, today)

    monkeypatch.setattr(Policy, "evaluate_fully", evaluate_or_fail)

    async def ask(client: httpx.AsyncClient) -> list[int]:
        posts = [client.post("/v1/decisions", json={"facts": {}, "request_id": name}) for name in ("a", "bad", "b")]
        return [answer.status_code for answer in await asyncio.gather(*posts)]

    assert served(app, ask) == [200, 503, 200]


def test_a_request_whose_evaluation_takes_longer_than_a_turn_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))
    evaluate = Policy.evaluate_fully

    def evaluate_slowly(policy: Policy, request: Request, today: date) -> FullEvaluation:
        time.sleep(2 * MAX_TURN / 1e9)
        return evaluate(policy, request, today)

    monkeypatch.setattr(Policy, "evaluate_fully", evaluate_slowly)

    async def ask(client: httpx.AsyncClient) -> list[int]:
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*(client.post("/v1/decisions", content=BODY) for _ in range(3)))
        return [answer.status_code for answer in answers]

    assert served(app, ask) == [200, 200, 200]


def test_each_of_many_concurrent_requests_gets_its_own_decision(tmp_path: Path) -> None:
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))

    async def ask(client: httpx.AsyncClient) -> list[Any]:
        async def post(number: int) -> Any:
            for _ in range(number % 4):  # they arrive in several turns of the event loop
                await asyncio.sleep(0)
            facts = {
                "model_config": {
                    "architectures": ["Qwen3ForCausalLM"],
                    "runner_type": ("generate", "pooling")[number % 2],
                }
            }
            answer = await client.post("/v1/decisions", json={"facts": facts, "request_id": str(number)})
            return answer.json()

        return await asyncio.gather(*map(post, range(3 * GROUPED)))

    answers = served(app, ask)
    assert [answer["request_id"] for answer in answers] == [str(number) for number in range(3 * GROUPED)]
    alike = [{**answer, "decision_id": None, "request_id": None} for answer in answers]
    assert alike == [alike[0], alike[1]] * (len(alike) // 2)
    assert alike[0] != alike[1]


def test_no_decision_of_the_day_before_is_cached(policy: Policy, clock: Callable[[datetime], None]) -> None:
    answers = Answers(policy, PUBLISHED, Settings(), HubModels(None), Recorder(Metrics()))
    clock(LAST)
    (evaluation,) = answers.evaluate_common([BODY])
    clock(MIDNIGHT)
    answers.decision(GROUP[1], CONTEXT)
    for _ in range(3):
        answers.decision(BODY, CONTEXT, evaluation)
    assert answers.cached_answer(BODY, CONTEXT) is None


def application(ending: Path, tmp_path: Path, **settings: Any) -> Application:
    run = tmp_path / "run"
    run.mkdir(exist_ok=True)
    return create_app(Settings(log=SecretStr("off"), run=run, rules=ending, **settings))


def test_a_rule_ends_with_the_clock_and_no_cached_answer_outlives_its_day(
    ending: Path, tmp_path: Path, clock: Callable[[datetime], None]
) -> None:
    app = application(ending, tmp_path)

    async def ask(client: httpx.AsyncClient) -> list[tuple[Any, ...]]:
        found = []
        for now in (LAST, LAST, LAST, MIDNIGHT, MIDNIGHT, MIDNIGHT, LAST, LAST, LAST):  # at last the clock is set back
            clock(now)
            answer = (await client.post("/v1/decisions", content=BODY)).json()
            untils = [reason.get("until") for reason in answer["reasons"]]
            found.append(
                (answer["runner"], answer["set_env"], untils, answer["warnings"], answer["policy"]["revision"])
            )
        return found

    revision = app.service.answers.policy.revision
    before = ("v1", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, ["2027-03-01"], [SOON], revision)
    after: tuple[Any, ...] = ("v2", {}, [None], [ENDED], revision)
    assert served(app, ask) == [before] * 3 + [after] * 3 + [before] * 3


@pytest.mark.slow
def test_the_openapi_examples_follow_the_rules_and_the_date(
    ending: Path, tmp_path: Path, clock: Callable[[datetime], None]
) -> None:
    app = application(ending, tmp_path)

    async def examples(client: httpx.AsyncClient) -> tuple[Any, ...]:
        paths = (await client.get("/openapi.json")).json()["paths"]
        decision, validated, mutated = [
            paths[path]["post"]["responses"]["200"]["content"]["application/json"]["example"]
            for path in ("/v1/decisions", "/v1/admission", "/v1/admission/mutate")
        ]
        warnings = [text.partition("]: ")[2] for text in validated["response"].get("warnings", [])]
        return decision["runner"], warnings, "patch" in mutated["response"]

    async def ask(client: httpx.AsyncClient) -> list[tuple[Any, ...]]:
        found = []
        for now in (LAST, LAST, MIDNIGHT, MIDNIGHT):
            clock(now)
            found.append(await examples(client))
        rules = {name: text for name, text in app.service.published.rules.items() if not name.startswith("house/")}
        published = structs.replace(app.service.published, rules=rules)
        app.service.swap(published, app.service.build_answers(published, app.service.answers))
        return [*found, await examples(client)]

    before = ("v1", [SET, SOON], True)
    after = ("v2", [ENDED, NIXL_ON_V2], False)
    assert served(app, ask) == [before, before, after, after, ("v2", [NIXL_ON_V2], False)]


def test_every_endpoint_decides_without_a_rule_that_has_ended(
    ending: Path, tmp_path: Path, clock: Callable[[datetime], None]
) -> None:
    app = application(ending, tmp_path, admission_set_env="always")
    document = json.loads(BODY)
    rule = (ending / "house" / f"{RULE}.yaml").read_text()
    review = json.loads((Path(__file__).parent.parent / "core/admission/deployment-create.json").read_text())

    async def ask(client: httpx.AsyncClient) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for now in (LAST, MIDNIGHT):
            clock(now)
            answers = {
                "batch": (await client.post("/v1/decisions/batch", json={"items": [document]})).json()["items"][0],
                "stream": json.loads(
                    (
                        await client.post(
                            "/v1/decisions/batch",
                            content=BODY + b"\n",
                            headers={"content-type": "application/x-ndjson"},
                        )
                    ).text
                ),
                "explained": (await client.post("/v1/decisions", json={**document, "explain": True})).json(),
                "dry run": (await client.post("/v1/dry-run", json=document)).json(),
            }
            for name, answer in answers.items():
                found.setdefault(name, []).append((answer["runner"], answer["warnings"]))
            tried = (await client.post("/v1/dry-run", json={"request": document, "rules": [rule]})).json()
            found.setdefault("candidate", []).append(
                (tried["candidate"]["runner"], tried["candidate"]["warnings"], tried["changes"])
            )
            admitted = (await client.post("/v1/admission", json=review)).json()["response"]
            found.setdefault("admission", []).append([text.partition("]: ")[2] for text in admitted["warnings"]])
            patched = (await client.post("/v1/admission/mutate", json=review)).json()["response"]
            found.setdefault("patch", []).append("patch" in patched)
        app.service.pool.close()
        return found

    decided = [("v1", [SOON]), ("v2", [ENDED])]
    assert served(app, ask) == {
        **dict.fromkeys(("batch", "stream", "explained", "dry run"), decided),
        "candidate": [(*each, []) for each in decided],
        "admission": [[SET, SOON], [ENDED, NIXL_ON_V2]],
        "patch": [True, False],
    }


def test_metrics_have_the_number_of_ended_rules_and_the_next_end(
    ending: Path, tmp_path: Path, clock: Callable[[datetime], None]
) -> None:
    app = application(ending, tmp_path)

    async def ask(client: httpx.AsyncClient) -> list[dict[str, float]]:
        found = []
        for now in (LAST, MIDNIGHT):
            clock(now)
            lines = (await client.get("/metrics")).text.splitlines()
            numbers = dict(line.split(" ") for line in lines if line.startswith("runner_policy_") and "{" not in line)
            found.append(
                {
                    name: float(number)
                    for name, number in numbers.items()
                    if name.endswith(("_overdue_rules", "_ended_rules", "_next_rule_end_timestamp_seconds"))
                }
            )
        return found

    gone = {"runner_policy_overdue_rules": 0, "runner_policy_ended_rules": 1}
    assert served(app, ask) == [
        {
            "runner_policy_overdue_rules": 0,
            "runner_policy_ended_rules": 0,
            "runner_policy_next_rule_end_timestamp_seconds": MIDNIGHT.timestamp(),
        },
        gone,
    ]


def test_the_catalogue_has_the_end_of_a_rule(ending: Path, tmp_path: Path) -> None:
    app = application(ending, tmp_path)

    async def ask(client: httpx.AsyncClient) -> list[Any]:
        rule = (await client.get(f"/v1/rules/{RULE}")).json()
        rules = [(await client.get(path)).json()["rules"] for path in ("/v1/rules", "/v1/rules?vllm_version=0.23.0")]
        return [rule["until"], *({each["id"]: each.get("until") for each in found}[RULE] for found in rules)]

    assert served(app, ask) == ["2027-03-01"] * 3


def test_an_unfinished_engine_run_is_a_503_with_a_remedy() -> None:
    problem = problem_of(EngineFailed("the engine stopped before the last rule"))
    assert (problem.type, problem.status, problem.errors) == (
        "urn:runner-policy:problem:engine-failed",
        503,
        [ProblemFault("", "the engine stopped before the last rule; send the request again")],
    )


def test_an_internal_error_is_not_turned_into_a_problem() -> None:
    error = PolicyError("of another kind")
    with pytest.raises(PolicyError) as raised:
        problem_of(error)
    assert raised.value is error


@pytest.mark.defects
@pytest.mark.parametrize("path", ["/v1/decisions", "/v1/decisions/batch"])
def test_a_request_that_fails_on_an_internal_error_is_counted_as_failed(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(app.service.answers, "decision", fail)
    monkeypatch.setattr(app.service.pool, "result", fail)

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            assert (await client.post(path, json={"items": [{}]})).status_code == 500

    asyncio.run(ask())
    counted = {
        sample[1]: sample[2]
        for sample in app.service.metrics.snapshot().samples
        if sample[0] == "runner_policy_requests"
    }
    assert counted == {(path, "500"): 1, ("/v1/decisions", "200"): 0}


def test_concurrent_requests_build_the_document_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
