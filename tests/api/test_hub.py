"""The service with the hub switched on, and off.

On: a model's `config.json` is fetched, or the problem says why not. Off, which is the default: nothing is requested.
"""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import pytest
from hubserver import CONFIG, NAME, TEXT, TOKEN, HubServer, Reply, hub_server
from pydantic import SecretStr

from policy.intake.model.hub import Hub
from policy.rules.loader import default_folder
from service.auth.access import Access
from service.jobs.messages import Job, JobKind
from service.models import CONCURRENCY, HubModels
from service.recorder import Recorder
from service.reload.reload import RulesFolder, load_at_start
from service.request_context import RequestContext
from service.settings import Settings
from service.state.answers import today
from service.state.state import ServiceState
from service.telemetry.metrics import Metrics

from .conftest import serving, without_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import httpx

    from .conftest import Done, Server

    Serve = Callable[..., AbstractContextManager[Server]]

ON = {"RUNNER_POLICY_HUB": "true", "RUNNER_POLICY_HUB_TIMEOUT": "60", "RUNNER_POLICY_CANDIDATE_TIMEOUT": "60"}
GIVE = "or give its `config.json`"
POOLING = json.dumps([{"idx": "0", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]).encode()


@pytest.fixture(scope="module")
def one_hub() -> Iterator[HubServer]:
    with hub_server() as started:
        yield started


@pytest.fixture
def hub(one_hub: HubServer) -> Iterator[HubServer]:
    """An empty hub that has received no request."""
    one_hub.replies.clear()
    one_hub.asked.clear()
    one_hub.tokens.clear()
    one_hub.release = threading.Event()
    yield one_hub
    one_hub.release.set()


@pytest.fixture
def variables(hub: HubServer, tmp_path: Path) -> dict[str, str]:
    """The settings that point the service to this hub, except the switch."""
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1"}


@pytest.fixture(scope="module")
def service(one_hub: HubServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the hub switched on.

    It caches what it fetched, so a test that checks what is fetched uses its own models.
    """
    folder = tmp_path_factory.mktemp("service")
    variables = {
        "HF_ENDPOINT": one_hub.url,
        "HF_HOME": str(folder / "home"),
        "HF_TOKEN": TOKEN,
        "NO_PROXY": "127.0.0.1",
    }
    with serving(folder, **ON, **variables) as started:
        yield started


def request_with(*args: str, model: str = NAME, **members: Any) -> dict[str, Any]:
    return {"vllm_version": "0.24.0", "deployment": {"args": ["--model", model, *args], **members}}


def problem_of(problem: Any, hub: HubServer) -> tuple[str, list[tuple[str, str]]]:
    faults = [(fault["pointer"], fault["message"].replace(hub.url, "HUB")) for fault in problem["errors"]]
    return problem["type"].removeprefix("urn:runner-policy:problem:"), faults


def decided(client: httpx.Client, document: object, path: str = "/v1/decisions", **headers: str) -> Any:
    response = client.post(path, json=document, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


# models on the hub


def test_a_model_is_fetched_once_for_all_requests(hub: HubServer, service: Server, decide: Callable[..., Any]) -> None:
    hub.give(Reply(), name="once/m")
    given = without_id(decide(request_with(model="once/m", model_configs={"once/m": CONFIG})))
    with service.client() as client:
        assert [without_id(decided(client, request_with(model="once/m"))) for _ in range(3)] == [given] * 3
        requests = [request_with(model="once/m"), {"facts": {}}, pod("once/m")]
        single, _, manifest = decided(client, {"items": requests}, "/v1/decisions/batch")["items"]
        assert (without_id(single), manifest["items"][0]["decision"]["runner"]) == (given, given["runner"])
        lines = client.post(
            "/v1/decisions/batch",
            content="\n".join(map(json.dumps, requests)),
            headers={"content-type": "application/x-ndjson"},
        )
        assert [without_id(json.loads(lines.text.splitlines()[0]))] == [given]
        assert decided(client, request_with(model="once/m"), "/v1/dry-run")["facts"] == given["facts"]
        text = client.post(
            "/v1/decisions",
            content=json.dumps(request_with(model="once/m")),
            headers={"content-type": "application/yaml", "accept": "text/plain"},
        )
        assert text.text.startswith("V2  default  starts  vLLM 0.24.0 (verified)")
    assert [path for method, path in hub.asked if method == "GET"] == ["/once/m/resolve/main/config.json"]


def pod(model: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"image": "vllm/vllm-openai:v0.24.0", "args": ["--model", model]}]},
    }


def test_every_endpoint_fetches_the_model(hub: HubServer, service: Server) -> None:
    hub.replies["*"] = Reply()
    with service.client() as client:
        for name, document in (
            ("way/a", request_with(model="way/a")),
            ("way/b", {"manifest": pod("way/b")}),
            ("way/c", pod("way/c")),
        ):
            answer = decided(client, document)
            decision = answer["items"][0]["decision"] if "items" in answer else answer
            given = {"value": CONFIG["architectures"], "from": f"model_configs/{name}/architectures"}
            assert decision["facts"]["model_config.architectures"] == given


def test_a_draft_and_the_verifier_of_a_speculators_repository_are_fetched_too(hub: HubServer, service: Server) -> None:
    methods = [{"speculative_tokens": 3, "proposal_type": "greedy"}]
    spec = {
        "algorithm": "eagle3",
        "proposal_methods": methods,
        "verifier": {"name_or_path": "target/m", "architectures": CONFIG["architectures"]},
    }
    layers = {"transformer_layer_config": {"model_type": "llama", "num_hidden_layers": 1}}
    brings = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": spec,
        **layers,
    }
    hub.give(Reply(), name="target/m")
    hub.give(Reply(json.dumps(brings).encode()), name="a/speculators")
    hub.give(
        Reply(json.dumps({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"}).encode()), name="a/draft"
    )
    draft = '{"model": "a/draft", "method": "eagle3", "num_speculative_tokens": 3}'
    with service.client() as client:
        facts = [
            decided(client, each)["facts"]
            for each in (request_with("-sc", draft, model="target/m"), request_with(model="a/speculators"))
        ]
    assert [each["speculative_config.method"]["value"] for each in facts] == ["eagle3"] * 2
    assert {
        path.rpartition("/resolve")[0]
        for _, path in hub.asked
        if path.endswith("/config.json") and "1_Pooling" not in path
    } == {
        "/target/m",
        "/a/draft",
        "/a/speculators",
    }


def test_the_files_beside_a_configuration_count(hub: HubServer, service: Server) -> None:
    hub.give(Reply(), name="files/m")
    hub.give(Reply(POOLING), "modules.json", name="files/m")
    with service.client() as client:
        assert decided(client, request_with(model="files/m"))["facts"]["model_config.runner_type"]["value"] == "pooling"
        compared = decided(
            client, {"request": request_with(model="files/m"), "remove": ["kv-connector-fallback"]}, "/v1/dry-run"
        )
    assert compared["candidate"]["facts"] == compared["current"]["facts"]


def test_the_quantisation_file_beside_a_configuration_counts(hub: HubServer, service: Server) -> None:
    hub.give(Reply(), name="files/fp8")
    hub.give(Reply(b'{"quantization": {"quant_algo": "FP8"}}'), "hf_quant_config.json", name="files/fp8")
    with service.client() as client:
        facts = decided(client, request_with(model="files/fp8"))["facts"]
    assert facts["model_config.is_quantized"] == {"value": True, "from": "files/files/fp8/hf_quant_config.json"}


@pytest.mark.parametrize("file", ["modules.json", "1_Pooling/config.json", "hf_quant_config.json"])
def test_a_model_is_not_known_if_the_hub_fails_for_a_file_beside_its_configuration(
    hub: HubServer, service: Server, file: str
) -> None:
    name = f"failing/{file.partition('.')[0].replace('/', '-')}"
    hub.give(Reply(), name=name)
    hub.give(Reply(b"", 429), file, name=name)
    with service.client() as client:
        answer = client.post("/v1/decisions", json=request_with(model=name))
    problem = answer.json()
    assert problem["type"] == "urn:runner-policy:problem:model-config-needed"
    assert f"`{file}` of `{name}`: the hub answers 429" in answer.text


def test_candidate_rules_are_tried_with_models_from_the_hub(hub: HubServer, service: Server) -> None:
    hub.give(Reply())
    given = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    with service.client() as client:
        documents: list[dict[str, Any]] = [
            {"facts": {}},
            request_with(),
            request_with(model_configs={NAME: given}, files={}),
        ]
        for document in documents:
            compared = decided(client, {"request": document, "remove": ["kv-connector-fallback"]}, "/v1/dry-run")
            assert compared["changes"] == []
            assert compared["candidate"].get("facts") == compared["current"].get("facts")


@pytest.mark.slow
def test_an_answer_is_valid_as_long_as_the_fetched_model(hub: HubServer, tmp_path: Path) -> None:
    now = [0.0]
    models = HubModels(Hub(60, endpoint=hub.url, offline=False, cache=str(tmp_path), clock=lambda: now[0]))
    settings = Settings(log=SecretStr("off"))
    served = ServiceState(
        settings,
        load_at_start(RulesFolder(default_folder()))[0],
        models,
        Recorder(Metrics()),
        Access(None, 0, Metrics()),
        "0",
    )
    asking = RequestContext("v1/decisions", "somebody", 0)

    async def answer(body: bytes) -> bytes:
        answers = served.answers
        found = answers.cached_answer(body, asking) or answers.decision(body, asking)
        if found is not None:
            return found
        job = Job(
            JobKind.DECISION,
            answers.policy.revision,
            body,
            b"",
            wants_text=False,
            path="",
            caller="",
            began=0,
            settings=served.job_settings(),
        )
        return (await served.pool.result(job, answers.texts, today())).body

    def architecture() -> str:
        found = asyncio.run(answer(json.dumps(request_with()).encode()))
        return str(json.loads(found)["facts"]["model_config.architectures"]["value"][0])

    hub.give(Reply())
    found = [architecture() for _ in range(3)]
    hub.give(Reply(TEXT.replace(b"Qwen3", b"Qwen2"), headers={"X-Repo-Commit": "f" * 40}))
    for now[0] in (299.0, 301.0):
        found.append(architecture())
    assert found == ["Qwen3ForCausalLM"] * 4 + ["Qwen2ForCausalLM"]


# missing models


def test_a_model_missing_from_the_hub_is_reported(hub: HubServer, service: Server) -> None:
    hub.give(Reply())
    hub.give(Reply(b"", 404, {"X-Error-Code": "RepoNotFound"}), name="none/b")
    hub.give(Reply(b"[]"), name="none/c")
    lacks = f"HUB has no `{{}}`; check the name, set `HF_TOKEN` if it is private, {GIVE}"
    with service.client() as client:
        response = client.post("/v1/decisions", json=request_with(model="none/b"))
        assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
        assert problem_of(response.json(), hub) == (
            "model-config-needed",
            [("/deployment/model_configs/none~1b", lacks.format("none/b"))],
        )
        draft = '{"model": "none/b", "method": "eagle3", "num_speculative_tokens": 3}'
        two = client.post("/v1/decisions", json=request_with("-sc", draft, model="none/c")).json()
        unreadable = "`config.json` of `none/c` must be an object, got `[]`; give its `config.json`"
        assert problem_of(two, hub)[1] == [
            ("/deployment/model_configs/none~1c", unreadable),
            ("/deployment/model_configs/none~1b", lacks.format("none/b")),
        ]
        several = {"items": [request_with(), request_with(model="none/b")]}
        good, bad = decided(client, several, "/v1/decisions/batch")["items"]
        assert ("runner" in good, problem_of(bad, hub)[1][0][0]) == (True, "/items/1/deployment/model_configs/none~1b")
        lines = client.post(
            "/v1/decisions/batch",
            content="\n".join(map(json.dumps, several["items"])),
            headers={"content-type": "application/x-ndjson"},
        ).text.splitlines()
        assert problem_of(json.loads(lines[1]), hub)[0] == "model-config-needed"


def test_an_invalid_model_name_is_not_requested_and_no_folder_is_read(
    hub: HubServer, service: Server, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    no_name = "expected one such as `Qwen/Qwen3-8B`; or give its `config.json`"
    with service.client() as client:
        for name in (str(tmp_path), "../x", "a/b/c", "a b"):
            response = client.post("/v1/decisions", json=request_with(model=name))
            kind, ((_, message),) = problem_of(response.json(), hub)
            assert (response.status_code, kind, message.rpartition(": ")[2]) == (
                422,
                "model-config-needed",
                no_name,
            )
    assert hub.asked == []


REFUSALS = [
    (403, "GatedRepo", f"`a/b403` on HUB is gated; ask for access on its page with the account of `HF_TOKEN`, {GIVE}"),
    (401, None, f"HUB denies `a/b401` with the token in `HF_TOKEN`; check the name and the token, {GIVE}"),
    (503, None, f"the hub answers 503; try again later, {GIVE}"),
]


def test_the_token_is_in_no_answer_and_no_log(hub: HubServer, service: Server) -> None:
    with service.client() as client:
        for status, code, message in REFUSALS:
            hub.give(
                Reply(b"", status, {"X-Error-Code": code, "X-Error-Message": f"who has {TOKEN}?"}), name=f"a/b{status}"
            )
            response = client.post("/v1/decisions", json=request_with(model=f"a/b{status}"))
            assert problem_of(response.json(), hub)[1] == [(f"/deployment/model_configs/a~1b{status}", message)]
            assert TOKEN not in response.text + str(response.headers)
    assert hub.tokens == [f"Bearer {TOKEN}"] * 3
    assert TOKEN not in service.log.read_text()


# a slow hub


@pytest.mark.slow
def test_a_slow_hub_does_not_delay_other_requests(hub: HubServer, service: Server) -> None:
    hub.give(Reply(hold=hub.release), name="slow/m")
    hub.give(Reply(), name="quick/m")
    with ThreadPoolExecutor(2) as pool, service.client() as client:
        waiting = [
            pool.submit(decided, client, document, path)
            for document, path in (
                (request_with(model="slow/m"), "/v1/decisions"),
                ({"items": [request_with(model="slow/m")]}, "/v1/decisions/batch"),
            )
        ]
        while not hub.asked:
            threading.Event().wait(0.01)
        others: list[Any] = [{"facts": {}}, request_with(model="quick/m"), request_with(model_configs={NAME: CONFIG})]
        with service.client() as other:
            assert [decided(other, document)["starts"] for document in others] == [True] * 3
            assert other.get("/readyz").status_code == 200
        assert [future.done() for future in waiting] == [False, False]
        hub.release.set()
        single, batch = (future.result() for future in waiting)
    assert (single["runner"], batch["items"][0]["runner"]) == ("v2", "v2")


def test_a_hub_that_does_not_answer_in_time_counts_as_unavailable(
    hub: HubServer, serve: Serve, variables: dict[str, str]
) -> None:
    hub.give(Reply(hold=hub.release))
    with serve(**{**ON, "RUNNER_POLICY_HUB_TIMEOUT": "0.2"}, **variables) as started, started.client() as client:
        response = client.post("/v1/decisions", json=request_with())
    assert (response.status_code, response.json()["type"]) == (422, "urn:runner-policy:problem:model-config-needed")


@pytest.mark.slow
def test_waiting_for_a_hanging_hub_is_limited_in_time_and_per_caller(
    hub: HubServer, serve: Serve, variables: dict[str, str]
) -> None:
    hub.give(Reply(), name="a/b")
    for number in range(40):
        hub.give(Reply(hold=hub.release), name=f"slow/m{number}")

    def service(client: httpx.Client, caller: str, name: str) -> httpx.Response:
        return client.post("/v1/decisions", json=request_with(model=name), headers={"x-forwarded-for": caller})

    settings = {**ON, "RUNNER_POLICY_HUB_TIMEOUT": "3", "RUNNER_POLICY_TRUSTED_PROXIES": "127.0.0.1", **variables}
    with (
        ThreadPoolExecutor(40) as pool,
        serve(**settings) as started,
        started.client() as client,
        started.client() as other,
    ):
        assert (
            service(other, "8.8.8.8", "a/c").status_code == 422
        )  # the worker process and the hub's library are loaded
        slow = [pool.submit(service, client, "7.7.7.7", f"slow/m{number}") for number in range(40)]
        while sum("/slow/" in path for _, path in hub.asked) < 3:
            threading.Event().wait(0.01)
        assert service(other, "8.8.8.8", "a/b").status_code == 200
        assert not any(future.done() and future.result().status_code == 200 for future in slow)
        answers = [future.result() for future in slow]
    assert {answer.status_code for answer in answers} == {422, 503}
    (busy,) = {answer.text for answer in answers if answer.status_code == 503}
    problem = json.loads(busy)
    assert (problem["type"], "give the model's `config.json`" in problem["detail"]) == (
        "urn:runner-policy:problem:busy",
        True,
    )


def test_the_fetches_of_a_caller_are_divided_among_its_users() -> None:
    """One user's many models do not make the other users of an API server wait for all of them."""
    order: list[str] = []
    started, release = threading.Event(), threading.Event()

    class SlowHub:
        timeout = 60

        def config(self, name: str, *_: object) -> None:
            order.append(name)
            if len(order) == CONCURRENCY - 1:
                started.set()
            release.wait(self.timeout)

    async def fetch_all() -> None:
        models = HubModels(cast("Hub", SlowHub()))
        many = asyncio.ensure_future(models.fetch([f"many/{n}" for n in range(10)], None, "api-server", "many"))
        await asyncio.to_thread(started.wait, SlowHub.timeout)
        few = asyncio.ensure_future(models.fetch(["few/0"], None, "api-server", "few"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        release.set()
        assert [await many, await few] == [{}, {}]

    asyncio.run(fetch_all())
    assert len(order) == 11
    assert order.index("few/0") < 2 * CONCURRENCY


# switched off, or misconfigured


@pytest.mark.parametrize("switch", [{}, pytest.param({"RUNNER_POLICY_HUB": "false"}, marks=pytest.mark.slow)])
def test_by_default_nothing_is_requested_from_the_hub(
    hub: HubServer, serve: Serve, variables: dict[str, str], switch: dict[str, str]
) -> None:
    hub.give(Reply())
    with serve(**switch, **variables) as started, started.client() as client:
        answers = [client.post(path, json=request_with()) for path in ("/v1/decisions", "/v1/dry-run")]
        batch = decided(client, {"items": [request_with()]}, "/v1/decisions/batch")["items"]
    assert [answer.json()["type"] for answer in answers] + [batch[0]["type"]] == [
        "urn:runner-policy:problem:model-config-needed"
    ] * 3
    assert hub.asked == []


@pytest.mark.slow
def test_offline_only_the_cache_is_read(hub: HubServer, serve: Serve, variables: dict[str, str]) -> None:
    hub.give(Reply())
    with serve(**ON, **variables) as started, started.client() as client:
        before = without_id(decided(client, request_with()))
    seen = len(hub.asked)
    with serve(**ON, **variables, HF_HUB_OFFLINE="1") as started, started.client() as client:
        assert without_id(decided(client, request_with())) == before
        assert "(`HF_HUB_OFFLINE`)" in client.post("/v1/decisions", json=request_with(model="a/b")).json()["detail"]
    assert (len(hub.asked), TEXT) == (seen, json.dumps(CONFIG).encode())


def test_an_invalid_hub_address_prevents_startup(run: Callable[..., Done]) -> None:
    done = run("serve", RUNNER_POLICY_HUB="true", HF_ENDPOINT=f"ftp://user:{TOKEN}@hub", RUNNER_POLICY_PORT="0")
    assert (done.code, done.out, "set `HF_ENDPOINT`" in done.err, TOKEN in done.err) == (2, "", True, False)
