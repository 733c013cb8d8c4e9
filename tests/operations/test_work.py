"""Requests that need much work: limited in total, run in worker processes, ended when their client has left."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import select
import signal
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import pytest
from api.conftest import PATIENCE, fork_processes
from partial_result import write_a_part
from processes import command_of
from pydantic import SecretStr
from representatives import slow_except

from bench.reliability.attacks import ATTACKS
from policy import errors
from policy.errors import RequestInvalid
from policy.request.request import read_request
from policy.rules.loader import default_folder
from service.api.decisions import _group
from service.auth import access
from service.auth.access import Access
from service.documents.body import Disconnected
from service.jobs import pool as pool_module
from service.jobs.messages import Job, JobKind
from service.jobs.pool import Pool, Worker, until_disconnect
from service.jobs.process import run
from service.limits import slots
from service.limits.share import share_of_user
from service.limits.slots import RESERVE, SMALL_BODY, BodyMemory, Slots, StreamLimit
from service.models import HubModels
from service.problems import LogUnavailable, Refused
from service.recorder import Recorder
from service.reload.reload import RulesFolder, load_at_start
from service.request_context import RequestContext
from service.settings import Settings
from service.state import answers as state_answers
from service.state.answers import today
from service.state.state import ServiceState
from service.telemetry.metrics import Metrics

from .conftest import QWEN, lives, state_of_process, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from .conftest import Service, Tokens

pytestmark = pytest.mark.usefixtures("shipped_rules_once")
CONFIG = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
BATCH = "/v1/decisions/batch"
CHECK = "/v1/requests/check"
CHECK_BATCH = "/v1/requests/check/batch"
IMPACT = "/v1/impact"
LINES = {"content-type": "application/x-ndjson"}


def manifest(engines: int, **members: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{n}", "image": "vllm/vllm-openai:v0.24.0", "args": ["--model", "m"]} for n in range(engines)
    ]
    document = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}}
    return {"manifest": document, "model_configs": {"m": CONFIG}, **members}


def deployment(number: int, **members: Any) -> dict[str, Any]:
    return {
        "deployment": {"args": ["--model", "m"], "env": {"N": str(number)}, "model_configs": {"m": CONFIG}},
        **members,
    }


def heavy(number: int = 6000) -> bytes:
    """A batch that takes seconds."""
    return json.dumps({"items": [deployment(n) for n in range(number)]}).encode()


def kind(problem: Any) -> str:
    return str(problem["type"].rpartition(":")[2])


def kinds(items: list[Any]) -> list[str]:
    """The result of each item: its runner, or the kind of its problem."""
    return [item["runner"] if "runner" in item else kind(item) for item in items]


def worker_processes(service: Service) -> set[int]:
    """The worker processes of a service with one serving process."""
    return service.children("spawn_main")


def is_idle(process: int) -> bool:
    """Whether a worker process waits; not while it starts."""
    command = command_of(process)
    return command is not None and state_of_process(command) == "S"


def idle_processes(service: Service) -> set[int]:
    """Both worker processes of a service that has answered its first batch, once they wait."""
    found: set[int] = until(lambda: len(each := worker_processes(service)) == 2 and all(map(is_idle, each)) and each)
    return found


@pytest.fixture(autouse=True)
def _forked_worker_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the worker processes of this process, as those of services are."""
    fork_processes(monkeypatch)


def local_state() -> ServiceState:
    settings = Settings(log=SecretStr("off"))
    published = load_at_start(RulesFolder(default_folder()))[0]
    return ServiceState(settings, published, HubModels(None), Recorder(Metrics()), Access(None, 0, Metrics()), "0")


# the same answers


@pytest.mark.usefixtures("shipped_rules_once")
@pytest.mark.parametrize("part", slow_except([0], range(10)))
def test_a_worker_process_answers_as_the_event_loop_does(part: int) -> None:
    """Each part has every tenth release."""
    served = local_state()
    answers, settings = served.answers, served.job_settings()
    context = RequestContext("v1/decisions", "somebody", 0)
    bodies = [
        json.dumps(request).encode()
        for version in (None, *answers.policy.releases.known)[part::10]
        for request in (
            {**QWEN, "vllm_version": version},
            {**deployment(1), "vllm_version": version, "request_id": "x"},
            {
                "facts": {"kv_transfer_config": {}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
                "vllm_version": version,
                "explain": True,
            },
        )
    ]
    for body in bodies:
        job = Job(
            JobKind.DECISION,
            answers.policy.revision,
            body,
            b"",
            wants_text=False,
            path="",
            caller="",
            began=0,
            settings=settings,
        )
        found = run(job, answers.texts, today())
        assert found is not None
        direct = answers.decision(body, context)
        if b"explain" in body:
            assert direct is None
            request = read_request(json.loads(body), answers.policy.releases)
            direct = answers.policy.encode(answers.policy.evaluate_fully(request, today())).json
        assert direct is not None
        assert {**json.loads(found.body), "decision_id": ""} == {**json.loads(direct), "decision_id": ""}
        assert (found.status, [number for _, number in found.counts], found.decisions) == (
            200,
            [1],
            64 if b"explain" in body else 1,
        )


SCRIPT: Final = f"{'true;' * 205} vllm serve m"


def layers_of(number: int) -> dict[str, Any]:
    """A configuration whose layer types take a number of iterations that grows as the square of this number."""
    return {
        "architectures": ["Lfm2ForCausalLM"],
        "model_type": "lfm2",
        "num_hidden_layers": number,
        "full_attn_idxs": [5] * number,
    }


SIZES: Final[tuple[tuple[dict[str, Any], bool], ...]] = (
    ({"args": ["--model", "m"]}, True),
    ({"args": ["--model", "m"], "model_configs": {"m": {**CONFIG, "x": "y" * 3500}}}, True),
    ({"args": ["--model", "m"], "model_configs": {"m": {**CONFIG, "x": "y" * 4096}}}, False),
    ({"args": ["bash", "-c", SCRIPT[100:]]}, True),
    ({"args": ["bash", "-c", SCRIPT]}, False),
    ({"args": SCRIPT}, False),
    ({"args": ["bash", "-c", "$RUN"], "env": {"RUN": SCRIPT}}, False),
    ({"args": ["bash", "/run.sh"], "files": {"/run.sh": SCRIPT}}, False),
    ({"args": 'A="true;";eval "$A$A";vllm serve m'}, True),
    *(
        ({"args": script}, False)
        for piece in ("true;", "A=\\$(docker run m);", "bash -c ", "a&&b;", "(a);")
        for script in (f'A="{piece}";B="{"$A" * 16}";C="{"$B" * 16}";eval "{"$C" * 16}";vllm serve m',)
    ),
    ({"args": f'A="a b";B="{"$A " * 16}";C="{"$B " * 16}";D="{"$C " * 8}";vllm serve m $D'}, False),
    ({"args": ["--model", "m"], "model_configs": {"m": layers_of(64)}}, True),
    (
        {"args": ["--model", "m"], "model_configs": {"m": layers_of(1000)}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
        False,
    ),
    ({"args": ["bash", "-c", "eval $A"], "env": {"A": "eval $B$B$B$B", "B": "true;" * 120}}, False),
)
"""Deployments, and whether the event loop decides them."""


def test_the_event_loop_decides_deployments_without_long_texts() -> None:
    answers = local_state().answers
    context = RequestContext("v1/decisions", "somebody", 0)
    bodies = [json.dumps({"deployment": {"model_configs": {"m": CONFIG}, **members}}).encode() for members, _ in SIZES]
    assert [answers.decision(body, context) is not None for body in bodies] == [is_small for _, is_small in SIZES]


FAULT: Final = {"explain": 5}
POD: Final = {"kind": "Pod", "spec": {"containers": [{"name": "vllm"}]}}
NOT_IN_THE_EVENT_LOOP: Final[tuple[dict[str, Any] | list[Any], ...]] = (
    {**QWEN, "explain": True},
    {**deployment(1), "explain": True},
    {"manifest": POD},
    {"manifest": POD, **FAULT},
    {"manifest": POD, **QWEN},
    {"manifest": 1},
    {"deployment": {"args": [], "files": {"/c.yaml": "api-key: abcdefgh1\n" * 60}}, **FAULT},
    {"deployment": {"args": [], "files": {f"/{n}": "x" * 400 for n in range(3)}}, **FAULT},
    {**QWEN, "model_configs": {"m": "key=abcdefg1 " * 400}, **FAULT},
    {**QWEN, **{f"field{number}": 1 for number in range(400)}},
    POD,
    [POD],
)
"""Requests that may take long, also those with faults, whose messages must not show any of their secrets."""


@pytest.mark.parametrize("document", NOT_IN_THE_EVENT_LOOP, ids=lambda document: json.dumps(document)[:50])
def test_a_request_that_may_take_long_is_not_read_in_the_event_loop(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = local_state().answers
    monkeypatch.setattr(state_answers, "read_request", None)
    context = RequestContext("v1/decisions", "somebody", 0)
    body = json.dumps(document).encode()
    assert [answers.decision(body, context), answers.line(body, context)] == [None, None]


SECRET: Final = "hf_abcdefgh12345678"
MANY_FAULTS: Final[tuple[dict[str, Any], ...]] = (
    {"facts": {f"member{number}": 1 for number in range(100)}, "api_key": SECRET},
    {"facts": {}, "api_key": SECRET, **{f"field{number}": 1 for number in range(99)}},
    {"deployment": {"args": [], "env": {"HF_TOKEN": SECRET}, **{f"é{number}": SECRET for number in range(100)}}},
    {"deployment": {"args": [], "env": {"HF_TOKEN": SECRET, **{f"N{number}": 1 for number in range(100)}}}},
    {
        "deployment": {
            "args": ["--model", "m", *(f"word{number}" for number in range(100))],
            "env": {"HF_TOKEN": SECRET},
            "model_configs": {"m": CONFIG},
        }
    },
)
"""Small requests with a hundred faults, whose messages must not show a secret."""


@pytest.mark.parametrize("document", MANY_FAULTS, ids=lambda document: json.dumps(document)[:50])
def test_the_messages_of_many_faults_are_not_searched_for_secrets_in_the_event_loop(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = local_state()
    answers = served.answers
    context = RequestContext("v1/decisions", "somebody", 0)
    body = json.dumps(document).encode()
    with monkeypatch.context() as patched:
        patched.setattr(errors, "masked_message", None)
        assert [answers.decision(body, context), answers.line(body, context)] == [None, None]
    settings = served.job_settings()
    job = Job(JobKind.DECISION, answers.policy.revision, body, b"", False, "", "", 0, settings)
    found = run(job, answers.texts, today())
    assert found is not None
    problem = json.loads(found.body)
    assert (found.status, kind(problem), len(problem["errors"])) == (422, "invalid-request", 100)
    assert SECRET not in found.body.decode()


def test_a_few_faults_are_answered_in_the_event_loop() -> None:
    answers = local_state().answers
    body = json.dumps({"facts": {f"member{number}": 1 for number in range(5)}, "api_key": SECRET}).encode()
    with pytest.raises(RequestInvalid) as raised:
        answers.decision(body, RequestContext("v1/decisions", "somebody", 0))
    assert (len(raised.value.faults), SECRET in str(raised.value)) == (6, False)


def test_an_explained_decision_is_charged_as_64(serve: Callable[..., Any]) -> None:
    with serve(RATE_LIMIT="100") as service, service.client() as client:
        found = [client.post("/v1/decisions", json={**QWEN, "explain": True}).status_code for _ in range(3)]
    assert found == [200, 200, 429]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1000] * 40, [32, 8]),
        ([16_000] * 9, [4, 4, 1]),
        ([16_384] * 5, [4, 1]),
        ([100_000, 100_000], [1, 1]),
        ([1000, 65_000, 1000, 1000], [1, 1, 2]),
        ([], []),
    ],
)
def test_the_requests_that_are_decided_together_are_bounded_in_bytes(sizes: list[int], expected: list[int]) -> None:
    waiting: Any = [(None, None, b"x" * size, None) for size in sizes]
    found, start = [], 0
    while start < len(waiting):
        found.append(len(_group(waiting, start)))
        start += found[-1]
    assert found == expected


def test_a_process_without_the_rules_has_no_result() -> None:
    served = local_state()
    job = Job(
        JobKind.DECISION,
        "sha256:unknown",
        b"{}",
        b"",
        wants_text=False,
        path="",
        caller="",
        began=0,
        settings=served.job_settings(),
    )
    assert run(job, None, today()) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_answered_and_no_other_caller_is_refused(name: str, attacked: Service) -> None:
    attack = ATTACKS[name]
    with attacked.client() as client, attacked.client() as other, ThreadPoolExecutor() as pool:
        in_progress = pool.submit(client.post, attack.path, content=attack.body(), headers=dict(attack.headers))
        answered = [other.post("/v1/decisions", json=QWEN).status_code for _ in range(20)] + [
            other.get("/livez").status_code
        ]
        assert (set(answered), in_progress.result().status_code // 100 in {2, 4}) == ({200}, True)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from .conftest import started  # noqa: PLC0415  # the fixture `serve` belongs to one test

    with started(tmp_path_factory.mktemp("attacked"), LOG="") as service:
        yield service


# limits on all items together


@pytest.mark.slow
def test_all_items_and_engines_of_a_request_share_the_limit_of_decisions(serve: Callable[..., Any]) -> None:
    with serve(MAX_DECISIONS="160") as service, service.client() as client:
        items = client.post(BATCH, json={"items": [manifest(100), manifest(100), QWEN]}).json()["items"]
        first_items, second = (
            [item.get("decision") or item["problem"] for item in each["items"]] for each in items[:2]
        )
        assert kinds(first_items) == ["v2"] * 100
        assert kinds(second) == ["v2"] * 60 + ["too-much-work"] * 40
        assert kinds(items[2:]) == ["too-much-work"]
        assert (
            items[2]["detail"]
            == "one request may ask for 160 decisions, an explained one counts as 64; send it in parts"
        )
        explained = client.post(BATCH, json={"items": [deployment(n, explain=True) for n in range(4)]}).json()["items"]
        assert kinds(explained) == ["v2", "v2", "too-much-work", "too-much-work"]
        dry = client.post("/v1/dry-run", json=manifest(4)).json()["items"]
        assert ["decision" in item for item in dry] == [True, True, False, False]


def test_a_checked_request_counts_by_its_values_for_each_engine(serve: Callable[..., Any]) -> None:
    biases = {"logit_bias": {str(token): 1.0 for token in range(798)}}  # 800 values with the object and its map
    with serve(MAX_DECISIONS="160") as service, service.client() as client:
        items = client.post(CHECK, json={**manifest(100), "request": biases}).json()["items"]
        checked = [item["check"]["verdict"] if "check" in item else kind(item["problem"]) for item in items]
        assert checked == ["fine"] * 32 + ["too-much-work"] * 68
        assert items[32]["problem"]["detail"] == (
            "one request may ask for 160 decisions, 200 values of a checked `request` count as one for each engine; "
            "send it in parts"
        )
        alone = {"facts": {}, "request": {"logit_bias": {str(token): 1.0 for token in range(40_000)}}}
        assert kind(client.post(CHECK, json=alone).json()) == "too-much-work"
        assert client.post(CHECK, json={"facts": {}, "request": biases}).json()["verdict"] == "fine"


def test_an_impact_counts_each_deployment_and_engine_for_each_release(serve: Callable[..., Any]) -> None:
    with serve(MAX_DECISIONS="20") as service, service.client() as client:
        asked = {"deployments": [manifest(5), QWEN, QWEN], "releases": ["0.23.0", "0.26.0", "0.33.0"]}
        found = client.post(IMPACT, json=asked).json()
        refused = [kind(item["problem"]) if "problem" in item else "" for item in found["items"]]
        assert refused == [*[""] * 6, "too-much-work"]
        assert found["items"][6]["problem"]["detail"] == (
            "one request may ask for 20 decisions, each deployment or engine counts once for each release; "
            "send it in parts"
        )
        assert (found["complete"], found["counts"]["undecided"], found["counts"]["deployments"]) == (False, 1, 7)
        to = client.post(IMPACT, json={"deployments": [manifest(11)], "to": "0.33.0"}).json()
        assert ["problem" in item for item in to["items"]] == [False] * 10 + [True]


def test_the_size_of_the_answer_to_an_impact_is_limited(serve: Callable[..., Any]) -> None:
    with serve(MAX_ANSWER=str(1 << 16)) as service, service.client() as client:
        answer = client.post(IMPACT, json={"deployments": [QWEN] * 100, "releases": ["0.22.0", "0.33.0"]})
        found = answer.json()
        refused = [kind(item["problem"]) if "problem" in item else "" for item in found["items"]]
        assert set(refused[: refused.index("too-much-work")]) == {""}
        assert set(refused[refused.index("too-much-work") :]) == {"too-much-work"}
        assert found["complete"] is False
        assert len(answer.content) < 1 << 17


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (BATCH, "items"),
        pytest.param(IMPACT, "deployments", marks=pytest.mark.slow),
        pytest.param(CHECK_BATCH, "items", marks=pytest.mark.slow),
    ],
)
def test_the_problems_of_invalid_items_count_as_answers(serve: Callable[..., Any], path: str, field: str) -> None:
    item = {"facts": {str(number): 1 for number in range(100)}}
    with serve(MAX_ANSWER=str(1 << 16), JOB_TIMEOUT="180") as service, service.client() as client:
        answer = client.post(path, json={field: [item] * 300, **({"releases": ["0.33.0"]} if path == IMPACT else {})})
        found = [each.get("problem", each) for each in answer.json()["items"]]
        assert len(found) == 300
        assert {kind(each) for each in found} == {"invalid-request", "too-much-work"}
        assert len(answer.content) < 1 << 18


def test_an_impact_is_charged_by_its_decisions(serve: Callable[..., Any], tokens: Tokens) -> None:
    token = tokens.add("planner", "dry-run")
    with (
        serve("--tokens", str(tokens.path), RATE_LIMIT="0.01") as service,
        service.client(token) as client,
    ):
        asked = {"deployments": [QWEN, manifest(4)], "releases": ["0.23.0", "0.26.0", "0.33.0"]}
        assert client.post(IMPACT, json=asked).json()["complete"] is True
        refused = client.post(IMPACT, json=asked)
        assert (refused.status_code, kind(refused.json())) == (429, "too-many-requests")
        assert 1300 < int(refused.headers["retry-after"]) <= 1501  # 15 decisions


@pytest.mark.slow
def test_the_size_of_the_answer_to_a_batch_is_limited(serve: Callable[..., Any]) -> None:
    with serve(MAX_ANSWER=str(1 << 16)) as service, service.client() as client:
        answer = client.post(BATCH, json={"items": [deployment(n) for n in range(50)]})
        found = kinds(answer.json()["items"])
        assert found == ["v2"] * found.count("v2") + ["too-much-work"] * found.count("too-much-work")
        assert 0 < found.count("v2") < 20
        assert len(answer.content) < 1 << 17


@pytest.mark.slow
def test_work_that_takes_too_long_is_aborted_and_the_next_request_is_answered(serve: Callable[..., Any]) -> None:
    with serve(JOB_TIMEOUT="1") as service, service.client() as client:
        refused = client.post(BATCH, content=heavy(10_000))
        assert (refused.status_code, kind(refused.json())) == (422, "too-much-work")
        assert refused.json()["detail"] == "it took more than 1 s; send it in parts, or without an explanation"
        assert kinds(until(lambda: client.post(BATCH, json={"items": [QWEN]}).json().get("items"))) == ["v2"]


@pytest.mark.slow
def test_a_request_that_takes_too_much_memory_is_refused_and_the_next_is_answered(serve: Callable[..., Any]) -> None:
    with serve(MAX_BATCH_BODY=str(64 << 20)) as service, service.client() as client:
        refused = client.post(BATCH, content=b'{"items":[' + b"[]," * (21 << 20) + b"1]}")
        assert (refused.status_code, kind(refused.json())) == (422, "too-much-work")
        assert "512 MiB of memory" in refused.json()["detail"]
        assert kinds(client.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]


FURTHER: Final = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("path", "further"),
    [
        (BATCH, b""),
        pytest.param(IMPACT, b"", marks=pytest.mark.slow),
        pytest.param(BATCH, FURTHER, marks=pytest.mark.slow),
        (BATCH, b"later " + FURTHER),
    ],
    ids=["alone", "an impact", "pipelined", "pipelined later"],
)
def test_work_ends_when_its_client_disconnects(serve: Callable[..., Any], path: str, further: bytes) -> None:
    body = heavy(10_000)
    if path == IMPACT:
        documents = [deployment(number) for number in range(5_000)]
        body = json.dumps({"deployments": documents, "releases": ["0.26.0", "0.33.0"]}).encode()
    with serve() as service, service.client() as client:
        assert kinds(client.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]  # a process has started
        before = idle_processes(service)  # and one for the next request
        connection = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
        connection.sendall(
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body))
            + body
            + (b"" if further.startswith(b"later") else further)
        )
        until(lambda: not all(map(is_idle, before)))
        if further.startswith(b"later"):
            connection.sendall(further.removeprefix(b"later "))
        connection.close()
        (left,) = until(lambda: len(found := before & worker_processes(service)) == 1 and found)
        assert kinds(client.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]
        assert left in worker_processes(service)
        until(lambda: len(worker_processes(service)) == 2)


UNREAD_LINES = b'{"facts":{}}\n' * 4600
CHUNK = b"%x\r\n%b\r\n" % (len(UNREAD_LINES), UNREAD_LINES)


@pytest.mark.parametrize(
    ("sent", "resets"),
    [
        (CHUNK, True),
        (CHUNK, False),
        (CHUNK * 8, True),
        (CHUNK * 8, False),
        (CHUNK + b"0\r\n\r\n", True),
        (CHUNK + b"0\r\n\r\n", False),
        (CHUNK + b"0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", True),
    ],
    ids=[
        "reset",
        "closed",
        "reset with unread lines",
        "closed with unread lines",
        "reset after the body",
        "closed after the body",
        "reset after a pipelined request",
    ],
)
def test_a_stream_ends_when_its_client_disconnects(serve: Callable[..., Any], sent: bytes, resets: bool) -> None:  # noqa: FBT001  # a parameter
    """Even while it waits for the rate limit, at which the lines that arrived would take minutes."""
    head = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with serve(MAX_STREAMS="2", RATE_LIMIT="20") as service, service.client() as client:
        connection = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
        connection.settimeout(1)
        with suppress(TimeoutError):
            connection.sendall(head % BATCH.encode() + sent)
        connection.settimeout(PATIENCE)
        assert connection.recv(12) == b"HTTP/1.1 200"
        if resets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        until(lambda: client.post(BATCH, content=b'{"facts":{}}\n', headers=LINES).status_code == 200)
        assert [line for line in service.log_lines() if line["level"] != "info"] == []


def test_work_that_fails_as_its_client_disconnects_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            raise Refused("busy", "the process ended")

    async def run() -> None:
        gone, left = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        for ends in (gone.set, left.set):
            request = asyncio.ensure_future(until_disconnect(receive, work()))
            asyncio.get_running_loop().call_soon(ends)
            await asyncio.sleep(0.01)
            request.cancel()
            with suppress(Disconnected, asyncio.CancelledError):
                await request
            gone.clear()
        del request
        gc.collect()

    asyncio.run(run())
    assert caplog.messages == []


@pytest.mark.slow
def test_a_worker_process_that_was_killed_is_replaced_and_its_request_is_answered(serve: Callable[..., Any]) -> None:
    with serve() as service, service.client() as client, ThreadPoolExecutor() as pool:
        in_progress = pool.submit(client.post, BATCH, content=heavy(10_000))
        killed = until(lambda: worker_processes(service))
        for process in killed:
            os.kill(process, signal.SIGKILL)
        answered = in_progress.result()
        assert (answered.status_code, len(answered.json()["items"])) == (200, 10_000)
        assert not killed & worker_processes(service)


@pytest.mark.slow
def test_a_request_whose_worker_processes_are_killed_twice_is_refused_with_retry_after(
    serve: Callable[..., Any],
) -> None:
    with serve() as service, service.client() as client, ThreadPoolExecutor() as pool:
        in_progress = pool.submit(client.post, BATCH, content=heavy(10_000))
        killed: set[int] = set()
        while not in_progress.done():
            for process in worker_processes(service) - killed:
                os.kill(process, signal.SIGKILL)
                killed.add(process)
        refused = in_progress.result()
        assert (refused.status_code, kind(refused.json()), refused.headers["retry-after"]) == (503, "busy", "1")
        assert kinds(client.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]


def test_worker_processes_end_with_the_service_even_if_it_is_killed(serve: Callable[..., Any]) -> None:
    with serve() as service, ThreadPoolExecutor() as pool, service.client() as client:
        in_progress = pool.submit(client.post, BATCH, content=heavy(10_000))
        processes = until(lambda: worker_processes(service))
        service.process.kill()
        until(lambda: not any(map(lives, processes)))
        assert in_progress.exception() is not None


def test_the_service_ends_while_a_worker_process_does_not_respond(serve: Callable[..., Any]) -> None:
    with serve() as service, service.client() as client:
        assert kinds(client.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]
        processes = idle_processes(service)
        commands = {command for process in processes if (command := command_of(process))}
        assert len(commands) == 2
        try:
            for process in processes | commands:
                os.kill(process, signal.SIGSTOP)
            service.process.terminate()
            assert service.process.wait(PATIENCE) == 0
            assert not any(map(lives, processes))
            until(lambda: not any(map(lives, commands)))
        finally:
            for process in filter(lives, processes | commands):
                os.kill(process, signal.SIGKILL)


async def end_while_a_result_is_written(started: Path) -> None:
    worker = Worker()
    call = asyncio.ensure_future(worker.call(write_a_part, str(started)))
    await asyncio.to_thread(until, started.exists)
    await asyncio.sleep(0.1)  # the thread that reads results reads the part
    worker.end()
    with pytest.raises(BrokenProcessPool):
        await asyncio.wait_for(call, PATIENCE)


def test_a_process_may_be_killed_while_it_writes_its_result(tmp_path: Path) -> None:
    asyncio.run(end_while_a_result_is_written(tmp_path / "started"))


# a caller's share


@pytest.mark.slow
def test_one_caller_s_work_leaves_room_for_others(serve: Callable[..., Any], tokens: Tokens) -> None:
    many, few = tokens.add("many", "decide"), tokens.add("few", "decide")
    with (
        serve("--tokens", str(tokens.path)) as service,
        service.client(many) as client,
        service.client(few) as other,
        ThreadPoolExecutor(8) as pool,
    ):
        started = threading.Barrier(7)

        def ask() -> int:
            started.wait()
            return int(client.post(BATCH, content=heavy(4000)).status_code)

        in_progress = [pool.submit(ask) for _ in range(6)]
        started.wait()
        until(lambda: worker_processes(service))
        assert kinds(other.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]
        assert not all(future.done() for future in in_progress)
        assert [future.result() for future in in_progress] == [200] * 6


def test_a_caller_gets_all_slots_but_one_and_waits_for_its_own() -> None:
    async def run_jobs() -> list[str]:
        shared, order = Slots(3, 1, "busy"), []
        ready, go = asyncio.Event(), asyncio.Event()

        async def work(caller: str) -> None:
            async with shared.slot(caller):
                order.append(caller)
                if len(order) == 3:
                    ready.set()
                await go.wait()

        tasks = [asyncio.ensure_future(work(caller)) for caller in ("a", "a", "a")]
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(work("b")))
        await ready.wait()
        with pytest.raises(Refused, match="3 such requests of this caller"):
            await work("a")
        go.set()
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run_jobs()) == ["a", "a", "b", "a"]


def _order(shared: Slots, *waves: list[tuple[str, bool]]) -> list[list[str]]:
    """The callers, in the order in which they got slots: at first, and after the end of each job.

    A wave has callers, each with whether its job is short. The first wave holds slots while the others arrive.
    """

    async def run_jobs() -> list[list[str]]:
        ends: list[asyncio.Event] = []
        order: list[str] = []

        async def work(caller: str, *, is_short: bool) -> None:
            async with shared.slot(caller, is_short=is_short):
                order.append(caller)
                ends.append(end := asyncio.Event())
                await end.wait()

        tasks = []
        for wave in waves:
            tasks += [asyncio.ensure_future(work(caller, is_short=is_short)) for caller, is_short in wave]
            for _ in range(5):
                await asyncio.sleep(0)
        steps = [order.copy()]
        for position in range(len(tasks)):
            before = len(order)
            ends[position].set()
            for _ in range(5):
                await asyncio.sleep(0)
            steps.append(order[before:])
        await asyncio.gather(*tasks)
        return steps

    return asyncio.run(run_jobs())


def test_a_free_slot_goes_to_the_caller_with_the_fewest_slots_and_then_the_least_recent_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.001
        return now[0]

    monkeypatch.setattr(slots, "monotonic", clock)
    shared = Slots(2, 8, "busy")
    long = False
    assert _order(shared, [("a", long), ("b", long)], [("a", long), ("a", long), ("b", long), ("c", long)]) == [
        ["a", "b"],
        *(["c"], ["a"], ["b"], ["a"], [], []),
    ]

    async def work(caller: str, seconds: float) -> None:
        async with shared.slot(caller):
            now[0] += seconds

    asyncio.run(work("a", 20.0))
    asyncio.run(work("b", 10.0))
    waiting = [("d", long), ("e", long)], [("a", long), ("b", long), ("c", long)]
    assert _order(shared, *waiting) == [["d", "e"], ["c"], ["b"], ["a"], [], []]
    now[0] += 3600
    asyncio.run(work("c", 1.0))
    assert _order(shared, *waiting)[3] == ["c"]


def test_short_jobs_have_a_slot_while_long_ones_have_all_others() -> None:
    long, short = False, True
    callers = [("a", long), ("b", long), ("c", long), ("d", short), ("e", short)]
    assert _order(Slots(2, 8, "busy", reserved=1), callers) == [["a", "b", "d"], ["c"], ["e"], [], [], []]
    assert _order(Slots(1, 8, "busy", reserved=1), callers)[0] == ["a", "d"]


def test_a_small_request_does_not_wait_for_large_ones_of_its_caller_which_do_not_wait_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(slots, "monotonic", lambda: now[0])

    async def run_jobs() -> list[str]:
        shared = Slots(2, 16, "busy")
        order: list[str] = []
        small: list[asyncio.Future[None]] = []

        async def work(name: str, size: int) -> None:
            async with shared.slot("api-server", size=size):
                order.append(name)
                now[0] += 4.0
                if name == "small" and len(small) < 20:  # one more arrives each time
                    small.append(asyncio.ensure_future(work("small", 40_000)))
                await asyncio.sleep(0)

        await asyncio.gather(*(work("large", 1_000_000) for _ in range(3)), work("small", 40_000))
        await asyncio.gather(*small)
        return order

    assert asyncio.run(run_jobs())[:11] == ["large", *["small"] * 7, "large", "large", "small"]


def test_a_caller_divides_its_slots_among_its_users_and_all_their_requests_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One user of an API server neither keeps the reviews of others waiting nor has them refused."""
    now = [0.0]
    monkeypatch.setattr(slots, "monotonic", lambda: now[0])

    async def run_jobs() -> list[str]:
        shared, order = Slots(2, 8, "busy"), []

        async def work(user: str) -> None:
            async with shared.slot("api-server", user=user):
                order.append(user)
                for _ in range(3):  # the others arrive
                    await asyncio.sleep(0)
                now[0] += 1.0

        many = [asyncio.ensure_future(work("many")) for _ in range(120)]
        await asyncio.sleep(0)
        await asyncio.gather(*many, work("few"), work("other"))
        return order

    order = asyncio.run(run_jobs())
    assert (len(order), order[:3]) == (122, ["many", "few", "other"])


def test_a_caller_has_no_more_slots_for_many_users_than_for_one() -> None:
    """Whoever sends a review states its user."""

    async def use() -> None:
        shared = Slots(3, 8, "busy")
        async with shared.slot("a", user="x"), shared.slot("a", user="y"):
            third = asyncio.ensure_future(shared.slot("a", user="z").__aenter__())
            await asyncio.sleep(0)
            async with shared.slot("b"):
                assert not third.done()
            third.cancel()

    asyncio.run(use())


def test_a_request_that_stops_waiting_leaves_its_slot_to_the_next() -> None:
    async def run_jobs() -> list[str]:
        shared, order = Slots(1, 8, "busy"), []

        async def work(caller: str) -> None:
            async with shared.slot(caller):
                order.append(caller)
                await asyncio.sleep(0.01)

        first_one, cancelled, last = (asyncio.ensure_future(work(caller)) for caller in "abc")
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(first_one, last)
        return order

    assert asyncio.run(run_jobs()) == ["a", "c"]


def test_requests_that_stop_waiting_while_a_slot_becomes_free_do_not_fail_others() -> None:
    async def run_jobs() -> list[object]:
        shared, end = Slots(2, 8, "busy"), asyncio.Event()

        async def work(caller: str) -> str:
            async with shared.slot(caller):
                await end.wait()
                return caller

        tasks = [asyncio.ensure_future(work(caller)) for caller in "abcde"]
        await asyncio.sleep(0)
        end.set()  # c and d are cancelled in the turn of the loop in which a and b continue
        for task in tasks[2:4]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        async with shared.slot("f"), shared.slot("g"):  # both slots are free
            return [result if isinstance(result, str) else type(result) for result in results]

    cancelled = asyncio.CancelledError
    assert asyncio.run(run_jobs()) == ["a", "b", cancelled, cancelled, "e"]


def test_a_caller_that_had_slots_waits_no_longer_than_it_had_them_whichever_callers_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(slots, "monotonic", lambda: now[0])

    async def run_jobs() -> int:
        shared = Slots(1, 8, "busy")
        order: list[str] = []

        async def work(caller: str, seconds: float) -> None:
            async with shared.slot(caller):
                order.append(caller)
                await asyncio.sleep(0)
                now[0] += seconds

        await work("old", 5.0)
        tasks = [asyncio.ensure_future(work("new", 1.0)), asyncio.ensure_future(work("old", 1.0))]
        for number in range(20):  # another new caller waits whenever the slot becomes free
            tasks.append(asyncio.ensure_future(work(f"new {number}", 1.0)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order.index("old", 1)

    assert asyncio.run(run_jobs()) <= 7


def test_a_caller_with_a_long_job_has_the_reserved_slot_for_a_short_one() -> None:
    long, short = False, True
    assert _order(Slots(2, 8, "busy", reserved=1), [("a", long), ("a", short), ("a", short)])[0] == ["a", "a"]
    assert _order(Slots(2, 8, "busy", reserved=1), [("a", short), ("a", short), ("a", short)])[0] == ["a", "a"]


@pytest.mark.slow
def test_a_short_request_is_answered_while_two_callers_hold_the_other_processes(
    serve: Callable[..., Any], tokens: Tokens
) -> None:
    body = json.dumps({"items": [deployment(n, explain=True) for n in range(625)]}).encode()
    one, two, three = (tokens.add(name, "decide") for name in ("one", "two", "three"))
    with (
        serve("--tokens", str(tokens.path)) as service,
        service.client(one) as first_client,
        service.client(two) as second_client,
        service.client(three) as other,
        ThreadPoolExecutor() as pool,
    ):
        in_progress = [
            pool.submit(client.post, BATCH, content=body) for client in (first_client, second_client, first_client)
        ]
        until(lambda: len(worker_processes(service)) == 3)
        assert kinds(other.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]
        assert not all(future.done() for future in in_progress[:2])
        assert [future.result().status_code for future in in_progress] == [200] * 3


def test_one_caller_gets_at_most_half_of_the_streams() -> None:
    limit = StreamLimit(4, "too-many-streams")
    with limit.slot("a"), limit.slot("a"):
        with (
            pytest.raises(Refused, match="2 of at most 4 are open, 2 of them by this caller, which may have 2"),
            limit.slot("a"),
        ):
            pass
        with limit.slot("b"), limit.slot("b"), pytest.raises(Refused, match="4 of at most 4"), limit.slot("c"):
            pass
        with limit.slot("c"):
            pass


def test_slow_streams_leave_room_for_decisions(serve: Callable[..., Any]) -> None:
    head = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    ) % BATCH.encode()
    with serve(MAX_STREAMS="4") as service, service.client() as client:
        slow = [socket.create_connection(("127.0.0.1", service.port), PATIENCE) for _ in range(2)]
        for connection in slow:
            connection.sendall(head + b"1\r\n{\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        refused = client.post(BATCH, content=b'{"facts":{}}\n', headers=LINES)
        assert (refused.status_code, kind(refused.json()), "retry-after" in refused.headers) == (
            429,
            "too-many-streams",
            True,
        )
        assert client.post("/v1/decisions", json=QWEN).json()["runner"] == "v2"
        for connection in slow:
            connection.close()
        until(lambda: client.post(BATCH, content=b'{"facts":{}}\n', headers=LINES).status_code == 200)


@pytest.mark.slow
def test_the_total_size_of_the_bodies_in_a_process_is_limited(serve: Callable[..., Any]) -> None:
    head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" % BATCH.encode()
    with serve(MAX_BODIES=str(1 << 20)) as service, service.client() as client:
        holding = [socket.create_connection(("127.0.0.1", service.port), PATIENCE)]
        holding[0].sendall(head + b"[" * 800_000)
        body = json.dumps({"items": [deployment(n) for n in range(40)]}).encode().ljust(800_000)

        def is_refused() -> Any:
            answer = client.post(BATCH, content=body)
            if answer.status_code == 503:
                return answer
            holding[0].close()  # it came second, and was refused instead
            holding[0] = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
            holding[0].sendall(head + b"[" * 800_000)
            return None

        refused = until(is_refused)
        assert (kind(refused.json()), refused.headers["retry-after"]) == ("busy", "1")
        assert client.post("/v1/decisions", json=QWEN).json()["runner"] == "v2"
        holding[0].close()
        assert len(until(lambda: client.post(BATCH, content=body).json().get("items"))) == 40


# the rate counts decisions


def test_the_rate_counts_decisions_and_not_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(access, "monotonic", lambda: now[0])
    control = Access(None, 10, Metrics())
    caller = control.caller(("10.0.0.1", 1), {}, "decide")
    assert control.charge(caller, 39) == pytest.approx(3.0)
    for now[0], is_allowed in ((2.9, False), (3.0, False), (3.2, True)):
        if is_allowed:
            control.caller(("10.0.0.1", 1), {}, "decide")
        else:
            with pytest.raises(Refused, match="more than 10 decisions a second"):
                control.caller(("10.0.0.1", 1), {}, "decide")
    assert control.caller(("10.0.0.2", 1), {}, "decide") == "10.0.0.2"


def test_reviews_are_charged_to_their_user(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(access, "monotonic", lambda: now[0])
    control, client = Access(None, 10, Metrics()), ("10.0.0.1", 1)
    caller = control.reviewer(client, {})
    control.limit_user(caller, "many")
    assert control.charge(share_of_user(caller, "many"), 999) == pytest.approx(99.0)
    with pytest.raises(Refused, match="more than 10 decisions a second; wait 100 s"):
        control.limit_user(caller, "many")
    for _ in range(39):
        control.limit_user(control.reviewer(client, {}), f"user-{_}")
    with pytest.raises(Refused, match="more than 40 reviews a second; wait 1 s"):
        control.reviewer(client, {})
    assert control.caller(client, {}, "decide") == caller
    now[0] = 98.0
    with pytest.raises(Refused, match="more than 10 decisions a second"):
        control.limit_user(caller, "many")
    now[0] = 100.0
    control.limit_user(caller, "many")


def test_reviews_that_are_refused_to_a_user_are_not_charged_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "monotonic", lambda: 0.0)
    control, client = Access(None, 10, Metrics()), ("10.0.0.1", 1)
    for _ in range(10):
        control.limit_user(control.reviewer(client, {}), "many")
    for _ in range(100):
        with pytest.raises(Refused, match="more than 10 decisions a second"):
            control.limit_user(control.reviewer(client, {}), "many")
    for number in range(30):
        control.limit_user(control.reviewer(client, {}), f"user-{number}")
    with pytest.raises(Refused, match="more than 40 reviews a second"):
        control.reviewer(client, {})


def test_the_users_of_reviews_do_not_make_callers_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_CALLERS", 3)
    control, client = Access(None, 0.001, Metrics()), ("10.0.0.1", 1)
    caller = control.caller(("10.0.0.2", 1), {}, "decide")
    assert control.charge(caller, 99) > 0
    for number in range(4):
        control.limit_user(f"10.0.1.{number}", "user")
    with pytest.raises(Refused, match="decisions a second"):
        control.caller(("10.0.0.2", 1), {}, "decide")
    assert control.caller(client, {}, "decide") == "10.0.0.1"


def test_the_users_of_a_caller_do_not_make_the_time_of_callers_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_CALLERS", 3)
    now = [0.0]
    monkeypatch.setattr(slots, "monotonic", lambda: now[0])

    async def run_jobs() -> list[str]:
        shared = Slots(1, 8, "busy")
        order: list[str] = []

        async def work(caller: str, user: str, seconds: float) -> None:
            async with shared.slot(caller, user=user):
                order.append(caller)
                await asyncio.sleep(0)
                now[0] += seconds

        await work("many", "", 9.0)
        for number in range(4):
            await work("api-server", f"user-{number}", 1.0)
        order.clear()
        waiting = [("api-server", "user-0"), ("many", ""), ("api-server", "user-1")]
        await asyncio.gather(*(work(caller, user, 0.001) for caller, user in waiting))
        return order

    assert asyncio.run(run_jobs()) == ["api-server", "api-server", "many"]


NEIGHBOURS: Final = [
    ("2001:db8::1", "2001:db8::2", True),
    ("2001:db8::1", "2001:db8:0:0:ffff:ffff:ffff:ffff", True),
    ("2001:db8::1", "2001:db8:0:1::1", False),
    ("fe80::1", "fe80::2%eth0", True),
    ("::ffff:192.0.2.1", "192.0.2.1", True),
    ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
    ("192.0.2.1", "192.0.2.2", False),
    ("ci", "cd", False),
]
"""Two callers, and whether they share a limit."""


@pytest.mark.parametrize(("first", "second", "is_shared"), NEIGHBOURS)
def test_callers_of_one_ipv6_network_share_the_rate(first: str, second: str, *, is_shared: bool) -> None:
    control = Access(None, 0.001, Metrics())
    assert control.caller((first, 1), {}, "decide") == first
    assert (control.charge(second, 9) > 0) == is_shared
    if is_shared:
        with pytest.raises(Refused, match="decisions a second"):
            control.caller((second, 1), {}, "decide")
    else:
        assert control.caller((second, 1), {}, "decide") == second


@pytest.mark.parametrize(("first", "second", "is_shared"), NEIGHBOURS)
def test_callers_of_one_ipv6_network_share_the_streams(first: str, second: str, *, is_shared: bool) -> None:
    streams = StreamLimit(2, "busy")
    with streams.slot(first):
        if is_shared:
            with pytest.raises(Refused, match="1 of them by this caller"), streams.slot(second):
                pass
        else:
            with streams.slot(second):
                pass


@pytest.mark.parametrize(("first", "second", "is_shared"), NEIGHBOURS)
def test_callers_of_one_ipv6_network_share_the_slots(first: str, second: str, *, is_shared: bool) -> None:
    async def use() -> None:
        slots = Slots(2, 0, "busy")
        async with slots.slot(first):
            if is_shared:
                with pytest.raises(Refused, match="1 such requests of this caller"):
                    async with slots.slot(second):
                        pass
            else:
                async with slots.slot(second):
                    pass

    asyncio.run(use())


def test_one_caller_gets_at_most_half_of_the_memory_for_bodies() -> None:
    memory = BodyMemory(16 * SMALL_BODY)
    with memory.hold("a") as first, memory.hold("a") as second, memory.hold("b") as other:
        first.add(5 * SMALL_BODY)
        second.add(3 * SMALL_BODY)
        with pytest.raises(Refused, match=f"this caller in progress take {8 * SMALL_BODY} of at most {8 * SMALL_BODY}"):
            second.add(1)
        other.add(SMALL_BODY)
        second.release()
        first.add(3 * SMALL_BODY)


def test_one_body_of_a_caller_may_have_more_than_half_of_the_memory() -> None:
    memory = BodyMemory(SMALL_BODY)
    with memory.hold("a") as body, memory.hold("a") as other:
        body.add(SMALL_BODY * 3 // 4)
        with pytest.raises(Refused, match="send fewer at once"):
            other.add(1)


def test_large_bodies_leave_memory_for_small_ones() -> None:
    memory = BodyMemory(16 * SMALL_BODY)
    with memory.hold("a") as first, memory.hold("b") as second, memory.hold("c") as review:
        first.add(8 * SMALL_BODY)
        second.add((16 - 16 // RESERVE - 8) * SMALL_BODY)
        with pytest.raises(Refused, match="the bodies in progress"):
            second.add(1)
        review.add(SMALL_BODY)
        with pytest.raises(Refused, match="the bodies in progress"):
            review.add(1)


def test_the_largest_allowed_body_is_accepted_while_no_other_is_held(serve: Callable[..., Any]) -> None:
    body = json.dumps({"items": [QWEN]}).encode().ljust(2 << 20)
    with serve(MAX_BODIES=str(2 << 20), MAX_BATCH_BODY=str(2 << 20)) as service, service.client() as client:
        assert kinds(client.post(BATCH, content=body).json()["items"]) == ["v2"]


@pytest.mark.parametrize(("first", "second", "is_shared"), NEIGHBOURS)
def test_callers_of_one_ipv6_network_share_the_memory(first: str, second: str, *, is_shared: bool) -> None:
    memory = BodyMemory(4)
    with memory.hold(first) as body, memory.hold(second) as other:
        body.add(2)
        if is_shared:
            with pytest.raises(Refused, match="send fewer at once"):
                other.add(1)
        else:
            other.add(1)


def test_unfinished_bodies_of_one_caller_leave_room_for_others(serve: Callable[..., Any], tokens: Tokens) -> None:
    many, few = tokens.add("many", "decide"), tokens.add("few", "decide")
    head = (
        f"POST {BATCH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {many}\r\nContent-Length: 900000\r\n\r\n"
    ).encode()
    with ExitStack() as stack:
        service = stack.enter_context(serve("--tokens", str(tokens.path), MAX_BODIES=str(4 << 20)))
        other = stack.enter_context(service.client(few))
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) for _ in range(8)]
        for connection in slow:
            connection.sendall(head + b" " * 890_000)
        until(lambda: len(select.select(slow, [], [], 0)[0]) == 6)  # they are refused
        body = json.dumps({"items": [QWEN]}).encode().ljust(1_500_000)
        assert kinds(other.post(BATCH, content=body).json()["items"]) == ["v2"]


def test_a_batch_is_charged_for_each_of_its_decisions(shared: Callable[..., Any]) -> None:
    with shared("rate", "many") as service, service.client() as client:
        assert len(client.post(BATCH, json={"items": [QWEN] * 500}).json()["items"]) == 500
        refused = client.post("/v1/decisions", json=QWEN)
        assert (refused.status_code, kind(refused.json())) == (429, "too-many-requests")
        assert 490_000 < int(refused.headers["retry-after"]) <= 500_000  # at one decision in 1,000 s


@pytest.mark.slow
def test_work_that_takes_too_long_is_charged_by_its_time(serve: Callable[..., Any], tokens: Tokens) -> None:
    token = tokens.add("many", "decide")
    with (
        serve("--tokens", str(tokens.path), JOB_TIMEOUT="2", RATE_LIMIT="0.001") as service,
        service.client(token) as client,
    ):
        assert kind(client.post(BATCH, content=heavy(10_000)).json()) == "too-much-work"
        refused = client.post("/v1/decisions", json=QWEN)
        assert (refused.status_code, kind(refused.json())) == (429, "too-many-requests")
        assert 190_000 < int(refused.headers["retry-after"]) <= 201_000  # 2 s count as 200 decisions


@pytest.mark.slow
def test_a_caller_who_disconnects_is_charged_for_the_process_that_ends(
    serve: Callable[..., Any], tokens: Tokens
) -> None:
    token, other = tokens.add("many", "decide"), tokens.add("other", "decide")
    body = heavy(10_000)
    head = f"POST {BATCH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}"
    with (
        serve("--tokens", str(tokens.path), RATE_LIMIT="0.001") as service,
        service.client(token) as client,
        service.client(other) as warming,
    ):
        assert kinds(warming.post(BATCH, json={"items": [QWEN]}).json()["items"]) == ["v2"]
        before = idle_processes(service)
        connection = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        until(lambda: not all(map(is_idle, before)))
        connection.close()
        until(lambda: before - worker_processes(service))
        refused = client.post("/v1/decisions", json=QWEN)
        assert (refused.status_code, kind(refused.json())) == (429, "too-many-requests")
        assert int(refused.headers["retry-after"]) > 90_000  # at least 1 s counts as 100 decisions


def test_only_the_seconds_beyond_the_decisions_are_charged() -> None:
    charged: list[tuple[str, int]] = []
    pool = Pool(1, 30.0, HubModels(None), None, lambda *charge: charged.append(charge))
    job = Job(JobKind.BATCH, "", b"", b"", False, "", "a", 0, local_state().job_settings())
    for seconds, decisions in ((0.99, 0), (1.5, 100), (1.5, 99), (30.0, 10_000), (30.0, 1)):
        pool._charge_work(job, seconds, decisions)
    assert charged == [("a", 1), ("a", 2999)]


def test_a_process_that_cannot_be_started_is_started_for_a_later_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    async def use() -> None:
        state = local_state()
        body = json.dumps({"items": [QWEN]}).encode()
        settings = state.job_settings()
        job = Job(JobKind.BATCH, state.answers.policy.revision, body, b"", False, BATCH, "a", 0, settings)
        with monkeypatch.context() as patched:
            patched.setattr(pool_module, "ProcessPoolExecutor", fail)
            state.pool.keep_spare()
            for _ in range(2):
                with pytest.raises(Refused, match="no process could be started"):
                    await state.pool.result(job, state.answers.texts, today())
        found = await state.pool.result(job, state.answers.texts, today())
        assert kinds(json.loads(found.body)["items"]) == ["v2"]
        state.pool.close()

    asyncio.run(use())


def test_nothing_more_is_sent_to_a_process_that_takes_too_long_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        state = local_state()
        job = Job(JobKind.BATCH, "", b"", b"", False, BATCH, "a", 0, state.job_settings())
        state.pool.keep_spare()
        (worker,) = (each for each in state.pool._free if each.is_begun)
        start = worker._starting
        assert start is not None
        monkeypatch.setattr(pool_module, "START_TIMEOUT", 0.0)
        with pytest.raises(Refused, match="no process could be started"):
            await state.pool.result(job, state.answers.texts, today())
        await asyncio.wait({start})
        assert start.cancelled()
        state.pool.close()

    asyncio.run(use())


@pytest.mark.parametrize(("seconds", "started"), [(1000.0, 1), (0.0, 2)])
def test_a_process_for_the_next_job_is_started_some_time_after_the_first_job_began(
    monkeypatch: pytest.MonkeyPatch, seconds: float, started: int
) -> None:
    async def use() -> None:
        state = local_state()
        body = json.dumps({"items": [QWEN]}).encode()
        settings = state.job_settings()
        job = Job(JobKind.BATCH, state.answers.policy.revision, body, b"", False, BATCH, "a", 0, settings)
        monkeypatch.setattr(pool_module, "SPARE_AFTER", seconds)
        await state.pool.result(job, state.answers.texts, today())
        assert sum(worker.is_begun for worker in state.pool._free) == started
        state.pool.close()

    asyncio.run(use())


def test_one_process_more_than_are_busy_is_started_however_late_the_timer_of_a_job_that_ended_comes() -> None:
    async def use() -> None:
        pool = local_state().pool
        counts = []

        def keep(least: int = 1) -> None:
            pool.keep_spare(least)
            counts.append(sum(worker.is_begun for worker in (*pool._free, *pool._busy)))

        keep()
        keep(2)  # a job began some time ago
        ended = pool._take()
        keep()
        await asyncio.sleep(0)  # its process is started
        ended.end()  # its client has disconnected
        pool._busy.discard(ended)
        pool._free.append(ended)
        pool._take()  # the process that is left
        keep()  # `housekeeping` starts one beside it
        keep(2)  # the timer of the job that has ended
        pool._take()
        keep()
        keep(2)
        pool.close()
        assert counts == [1, 2, 2, 2, 2, 3, 3]

    asyncio.run(use())


# counts and log records of worker processes


DECISIONS, MATCHES = "runner_policy_decisions", "runner_policy_rule_matches"


def test_the_decisions_of_a_batch_are_counted_once_for_each_label() -> None:
    """As those of the event loop are, and not for each combination of rules."""
    served = local_state()
    answers = served.answers
    facts: list[dict[str, Any]] = [
        {"kv_transfer_config": {}},
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
        {"model_config": {"is_hybrid": True}},
        {"speculative_config": {"method": "eagle"}},
        {"parallel_config": {"pipeline_parallel_size": 2}},
    ]
    items = [
        {"facts": {name: value for each in chosen for name, value in each.items()}, "vllm_version": "0.24.0"}
        for number in range(len(facts) + 1)
        for chosen in combinations(facts, number)
    ]
    for item in items:
        answers.decision(json.dumps(item).encode(), RequestContext("v1/decisions", "somebody", 0))
    body = json.dumps({"items": items}).encode()
    settings = served.job_settings()
    job = Job(JobKind.BATCH, answers.policy.revision, body, b"", False, "", "", 0, settings)
    found = run(job, answers.texts, today())
    assert found is not None
    metrics = Metrics()
    asyncio.run(Recorder(metrics).log_job_decisions(found, None, RequestContext("v1/decisions/batch", "somebody", 0)))
    decisions, matches = (_counted(metrics, name) for name in (DECISIONS, MATCHES))
    assert decisions == _counted(answers.recorder.metrics, DECISIONS)
    assert matches == _counted(answers.recorder.metrics, MATCHES)
    assert (len(found.counts), len(found.matches)) == (len(decisions), len(matches))
    assert (len(decisions) < len(items), len(matches) > 1) == (True, True)


def _counted(metrics: Metrics, name: str) -> set[tuple[tuple[str, ...], float]]:
    return {(labels, number) for each, labels, number in metrics.snapshot().samples if each == name}


class CountingFuture(asyncio.Future[None]):
    """A future that counts the callbacks of all."""

    callbacks = 0

    def add_done_callback(self, *arguments: Any, **options: Any) -> None:
        CountingFuture.callbacks += 1
        super().add_done_callback(*arguments, **options)


@pytest.mark.parametrize("error", [None, LogUnavailable("full")])
def test_the_records_of_a_request_are_waited_for_together(error: LogUnavailable | None) -> None:
    async def wait() -> None:
        context = RequestContext("v1/decisions/batch", "somebody", 0)
        context.waiting = waiting = [CountingFuture() for _ in range(100)]  # type: ignore[assignment]  # futures too
        CountingFuture.callbacks = 0
        task = asyncio.create_task(context.wait_recorded())
        for start in (50, 0):
            await asyncio.sleep(0)
            assert not task.done()
            for future in waiting[start : start + 50]:
                future.set_result(None) if error is None or future is not waiting[70] else future.set_exception(error)
        assert (await asyncio.gather(task, return_exceptions=True))[0] is error
        assert CountingFuture.callbacks <= 2

    asyncio.run(wait())


@pytest.mark.slow
def test_decisions_of_worker_processes_are_counted_and_logged_and_leave_no_files(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    def counted(client: httpx.Client) -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("runner_policy_decisions_total"))

    with serve(LOG="", LOG_REQUIRED="true") as service, service.client() as client:
        answer = client.post(BATCH, json={"items": [deployment(n) for n in range(1500)]})
        assert len(answer.content) > 1 << 20
        made = {item["decision_id"] for item in answer.json()["items"]}
        assert counted(client) == 1500
        logged: set[str] = set()
        until_id: str | None = None
        while True:
            page = client.get("/v1/log", params={"limit": "1000", **({"until": until_id} if until_id else {})}).json()
            logged |= {record["decision_id"] for record in page["items"]}
            until_id = page["next"]
            if until_id is None:
                break
        assert logged == made
        assert not list((tmp_path / "tmp").rglob("answer-*"))
