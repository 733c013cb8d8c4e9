"""The command ``observe``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from observation_logs import (
    MODEL,
    READY,
    V1_LOADS,
    V2_WORKER,
    configuration,
    engine_failure,
    record,
    refusal,
    text_of,
    v1_start,
    v2_start,
    version,
)

from policy.observation.comparison import CUT_OFF, NOT_SHOWN
from policy.observation.explanations import NOT_DECIDED
from policy.observation.prediction import NO_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

QWEN = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
DBO = "Model Runner V2 does not yet support: dual batch overlap"
MODULES = f"files/{MODEL}/modules.json=a pooling module"
FALLBACK = "Model Runner V2 requires Triton; using the V1 model runner instead."
ARGUMENTS = "non-default args: {'model_tag': '%s', 'api_key': ['sk-verysecret'], 'model': '%s'%s}"
TRANSFER = ", 'kv_transfer_config': KVTransferConfig(kv_connector='NixlConnector', kv_role='kv_both', kv_rank=None)"


def deployment(release: str | None = "0.26.0", *args: str, model: str = MODEL, **members: Any) -> dict[str, Any]:
    stated = {} if release is None else {"vllm_version": release}
    return {**stated, "deployment": {"args": ["serve", model, *args], "model_configs": {model: QWEN}, **members}}


def arguments(rest: str = "") -> str:
    return record(ARGUMENTS % (MODEL, MODEL, rest), "api_utils.py")


@pytest.fixture
def observe(call: Callable[..., Done], tmp_path: Path) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    """Compares the lines of a log with a deployment; returns the exit code and the comparisons."""

    def command(lines: list[str], document: Any = None, *flags: str) -> tuple[int, list[dict[str, Any]]]:
        options = [*flags]
        if document is not None:
            (tmp_path / "d.json").write_text(json.dumps(document))
            options += ["--deployment", str(tmp_path / "d.json")]
        done = call("observe", "-", *options, stdin=text_of(lines))
        return done.code, [json.loads(line) for line in done.out.splitlines()]

    return command


def causes(comparison: dict[str, Any]) -> dict[str, list[str]]:
    """The causes of each difference; those of assumptions with their fact and value."""
    return {
        difference["member"]: [
            f"{each['fact']}={each['value']}" if each["cause"] == "assumption" else each["cause"]
            for each in difference["explanations"]
        ]
        for difference in comparison["differences"]
    }


def pin(value: str) -> dict[str, Any]:
    return {"env": {"VLLM_USE_V2_MODEL_RUNNER": value}}


@pytest.mark.parametrize(
    ("lines", "document"),
    [
        (v2_start(), deployment()),
        (v1_start(), deployment(**pin("0"))),
        (v2_start("0.26.0"), deployment(None)),
        (v1_start("0.22.0"), deployment("0.22.0", **pin("0"))),
        ([version("0.26.0"), *refusal(DBO)], deployment("0.26.0", "--enable-dbo", **pin("1"))),
        (v2_start()[:4], deployment()),
    ],
)
def test_an_engine_that_did_as_decided_agrees(
    observe: Callable[..., Any], lines: list[str], document: dict[str, Any]
) -> None:
    code, (found,) = observe(lines, document)
    assert (code, found["verdict"], found["differences"]) == (0, "agreed", [])


@pytest.mark.parametrize(
    ("lines", "document", "expected"),
    [
        # the variable, which no deployment states that has none
        (v1_start(), deployment(), {"runner": ["env.VLLM_USE_V2_MODEL_RUNNER=0", MODULES]}),
        # vLLM says why
        (
            [record(FALLBACK, "vllm.py", level="WARNING"), *v1_start()],
            deployment(),
            {"runner": ["log", "platform.has_triton=false", MODULES]},
        ),
        # a house rule whose variable was not set
        (
            v2_start("0.23.0"),
            deployment("0.23.0", "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'),
            {"runner": ["set_env"]},
        ),
        # another release
        (v2_start("0.23.0"), deployment("0.20.0"), {"vllm_version": ["release"], "runner": ["release"]}),
        # other arguments
        (
            [version("0.26.0"), arguments(", 'logits_processors': ['a:B']"), *v1_start()[1:]],
            deployment(),
            {"runner": ["arguments"]},
        ),
        # an exception that names no runner, but may be a refusal of the configuration
        *(
            ([*v2_start()[:4], *engine_failure(exception)], deployment(), {"starts": ["not-decided"]})
            for exception in ("ValueError: x must be y", "AssertionError", "NotImplementedError: not for this model")
        ),
        (
            [version("0.26.0"), *engine_failure("ValidationError: 1 validation error for ModelConfig")],
            deployment("0.26.0", "--enable-dbo", **pin("1")),
            {"startup_errors": ["not-decided"]},
        ),
        # another runner, and an exception that has nothing to do with it
        (
            [*v1_start()[:4], *engine_failure("OSError: no space")],
            deployment(),
            {"runner": ["env.VLLM_USE_V2_MODEL_RUNNER=0", MODULES], "starts": ["not-decided"]},
        ),
        # a refusal that was not foreseen
        ([version("0.26.0"), *refusal(DBO)], deployment(**pin("1")), {"starts": ["environment.platform=cpu"]}),
    ],
)
def test_a_difference_has_what_explains_it(
    observe: Callable[..., Any], lines: list[str], document: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    code, (found,) = observe(lines, document)
    assert (code, found["verdict"]) == (1, "differed")
    actual = causes(found)
    assert actual == expected


@pytest.mark.parametrize(
    "exception",
    [
        "OSError: no space",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "ModuleNotFoundError: No module named 'flash_attn'",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94, unhandled system error",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`.",
        "ValueError: Free memory on device cuda:0 (1.0/79.1 GiB) on startup is less than desired",
    ],
)
@pytest.mark.parametrize(
    ("lines", "document", "member"),
    [
        (v2_start()[:4], deployment(), "starts"),
        ([version("0.26.0")], deployment("0.26.0", "--enable-dbo", **pin("1")), "startup_errors"),
    ],
)
def test_an_exception_that_has_nothing_to_do_with_the_decision_is_unrelated(
    observe: Callable[..., Any], lines: list[str], document: dict[str, Any], member: str, exception: str
) -> None:
    code, (found,) = observe([*lines, *engine_failure(exception)], document)
    known = ["known-problem"] * ("memory" in exception.lower() and member == "starts")
    assert (code, found["verdict"], causes(found)) == (0, "unrelated", {member: [*known, "not-decided"]})


def test_a_model_that_is_another_is_named(observe: Callable[..., Any]) -> None:
    lines = [version("0.26.0"), record("Resolved architecture: OPTForCausalLM", "model.py"), *v1_start()[1:]]
    _, (found,) = observe(lines, deployment())
    assert "model" in causes(found)["runner"]


def test_the_messages_say_what_differs(observe: Callable[..., Any]) -> None:
    _, (found,) = observe(v1_start(), deployment())
    (difference,) = found["differences"]
    assert (difference["predicted"], difference["observed"]) == ("v2", "v1")
    assert {
        "cause": "assumption",
        "message": "env.VLLM_USE_V2_MODEL_RUNNER is not stated; with 0 the decision is V1, starts",
        "fact": "env.VLLM_USE_V2_MODEL_RUNNER",
        "assumed": None,
        "value": "0",
    } in difference["explanations"]
    _, (found,) = observe([*v2_start()[:4], *engine_failure("OSError: no space")], deployment())
    assert found["differences"][0]["explanations"][-1]["message"] == NOT_DECIDED


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ([version("0.26.0")], CUT_OFF),
        ([configuration("0.26.0"), record(READY)], NOT_SHOWN),
        (
            [configuration("0.26.0"), record(V2_WORKER, "gpu_worker.py"), record(V1_LOADS, "gpu_model_runner.py")],
            "the log shows both runners, so it may be that of two engines whose lines cannot be told apart",
        ),
    ],
)
def test_a_log_that_shows_too_little_is_undecided(observe: Callable[..., Any], lines: list[str], note: str) -> None:
    code, (found,) = observe(lines, deployment())
    assert (code, found["verdict"], note in found["notes"]) == (1, "undecided", True)


def test_without_a_deployment_the_log_s_arguments_are_decided(observe: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(json.dumps(QWEN))
    given = ("--model-config", f"{MODEL}={tmp_path / 'q.json'}")
    lines = [version("0.23.0"), arguments(TRANSFER), *v2_start("0.23.0")[1:]]
    code, (found,) = observe(lines, None, *given)
    assert (code, found["predicted"]["summary"]) == (
        1,
        "V1: a KV connector (NixlConnector) keeps this deployment on V1",
    )
    assert found["predicted"]["set_env"] == {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    code, (found,) = observe([version("0.26.0"), arguments(), *v2_start()[1:]], None, *given)
    assert (code, found["verdict"], found["predicted"]["vllm_version"]) == (0, "agreed", "0.26.0")
    code, (found,) = observe(
        [arguments(), record(V2_WORKER, "gpu_worker.py")], None, *given, "--vllm-version", "0.26.0"
    )
    assert (code, found["verdict"], found["predicted"]["vllm_version"]) == (0, "agreed", "0.26.0")


@pytest.mark.parametrize(
    ("lines", "problem", "note"),
    [
        (v2_start(), None, NO_ARGUMENTS),
        (
            [version("0.26.0"), arguments(", 'x': [")],
            None,
            "the log's arguments (`non-default args`): expected a value",
        ),
        ([version("0.26.0"), arguments()], "model-config-needed", ""),
        ([version("0.99.0"), arguments()], "unknown-release", ""),
    ],
)
def test_without_a_decision_an_engine_is_undecided(
    observe: Callable[..., Any], lines: list[str], problem: str | None, note: str
) -> None:
    code, (found,) = observe(lines)
    assert (code, found["verdict"], found["predicted"]) == (1, "undecided", None)
    assert found.get("problem", {}).get("type", "").rpartition(":")[2] == (problem or "")
    assert any(each.startswith(note) for each in found["notes"]) or not note


def container(name: str, *args: str, image: str = "vllm/vllm-openai:v0.26.0", **members: Any) -> dict[str, Any]:
    return {"name": name, "image": image, "args": ["--model", *args], **members}


def workload(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    spec = {"template": {"spec": {"containers": [*containers]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


PINNED: dict[str, Any] = {"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "0"}]}
CLUSTER = {
    "manifest": {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            workload("qwen", container("vllm", "a/a", **PINNED)),
            workload("qwen-large", container("vllm", "a/b"), container("draft", "a/a")),
        ],
    },
    "model_configs": {"a/a": QWEN, "a/b": QWEN},
}
MODELS = {"model_configs": CLUSTER["model_configs"]}


def prefixed(pod: str, name: str, lines: list[str]) -> list[str]:
    return [f"[pod/{pod}/{name}] {line}" for line in lines]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (prefixed("qwen-7d9-x2", "vllm", v1_start()), ("agreed", "Deployment/qwen/vllm")),
        (prefixed("qwen-large-7d9-x2", "vllm", v2_start()), ("agreed", "Deployment/qwen-large/vllm")),
        (prefixed("qwen-large-7d9-x2", "vllm", v1_start()), ("differed", "Deployment/qwen-large/vllm")),
        (prefixed("qwen-large-7d9-x2", "draft", v2_start()), ("agreed", "Deployment/qwen-large/draft")),
        # by the model, without a pod
        ([version("0.26.0", "a/b"), *v2_start()[2:]], ("agreed", "Deployment/qwen-large/vllm")),
        ([version("0.26.0", "a/a"), *v2_start()[2:]], ("undecided", None)),
        ([version("0.26.0", "other"), *v2_start()[2:]], ("undecided", None)),
    ],
)
def test_a_log_is_that_of_the_engine_with_its_pod_or_model(
    observe: Callable[..., Any], lines: list[str], expected: tuple[str, str | None]
) -> None:
    _, (found,) = observe(lines, CLUSTER)
    assert (found["verdict"], found["engine"]) == expected


def test_a_manifest_without_a_version_is_decided_for_the_log_s_release(observe: Callable[..., Any]) -> None:
    unversioned = {"manifest": workload("qwen", container("vllm", "a/a", image="registry/vllm:main")), **MODELS}
    code, (found,) = observe(prefixed("qwen-1", "vllm", v2_start("0.27.0")), unversioned)
    assert (code, found["verdict"], found["predicted"]["vllm_version"]) == (0, "agreed", "0.27.0")


def test_a_release_whose_texts_were_not_compared_is_noted(observe: Callable[..., Any]) -> None:
    _, (found,) = observe(v1_start("0.18.0"), deployment("0.18.0"))
    assert (found["verdict"], len(found["notes"])) == ("agreed", 1)
    assert observe(v1_start("0.19.0"), deployment("0.19.0"))[1][0]["notes"] == []


def test_the_device_of_the_log_is_the_platform_of_its_arguments(observe: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "q.json").write_text(json.dumps(QWEN))
    lines = [arguments(), configuration("0.26.0").replace("=cuda", "=cpu"), record(V1_LOADS, "cpu_model_runner.py")]
    code, (found,) = observe(lines, None, "--model-config", f"{MODEL}={tmp_path / 'q.json'}")
    assert (code, found["verdict"], found["predicted"]["outcome"]) == (0, "agreed", "fallback")


def test_each_engine_of_a_log_has_a_line(observe: Callable[..., Any]) -> None:
    lines = [
        *prefixed("qwen-1", "vllm", v1_start()),
        *prefixed("qwen-large-1", "vllm", [*v2_start()[:4], *engine_failure("OSError: x"), *v2_start()]),
    ]
    code, rows = observe(lines, CLUSTER)
    assert code == 0
    assert [(row["observed"]["source"], row["observed"]["first_line"], row["verdict"]) for row in rows] == [
        ("pod/qwen-1/vllm", 1, "agreed"),
        ("pod/qwen-large-1/vllm", 6, "unrelated"),
        ("pod/qwen-large-1/vllm", 23, "agreed"),
    ]


def test_a_service_of_docker_compose_is_found_by_its_name(observe: Callable[..., Any]) -> None:
    services = {
        "manifest": {
            "services": {
                "small": {
                    "image": "vllm/vllm-openai:v0.26.0",
                    "command": ["--model", "a/a"],
                    "environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"},
                },
                "large": {"image": "vllm/vllm-openai:v0.26.0", "command": ["--model", "a/a"]},
            }
        },
        "model_configs": {"a/a": QWEN},
    }
    lines = [*(f"small-1  | {line}" for line in v1_start()), *(f"large-1  | {line}" for line in v2_start())]
    code, rows = observe(lines, services)
    assert (code, [(row["verdict"], row["engine"]) for row in rows]) == (
        0,
        [("agreed", "services.small"), ("agreed", "services.large")],
    )


def compose(*names: str) -> dict[str, Any]:
    """A file with services that are engines, each with a model of its own."""
    image = "vllm/vllm-openai:v0.26.0"
    services = {name: {"image": image, "command": ["--model", f"a/{name}"]} for name in names}
    return {"manifest": {"services": services}, "model_configs": {f"a/{name}": QWEN for name in names}}


@pytest.mark.parametrize(
    ("names", "source", "service"),
    [
        (["api", "other"], "api-1", "api"),
        (["api", "other"], "chat-api-1", "api"),
        (["api", "other"], "chat_api_1", "api"),
        (["api", "other"], "api", "api"),
        # the whole name counts more than its end, and a longer end more than a shorter one
        (["api", "other-api"], "other-api-1", "other-api"),
        (["api", "other-api"], "api-1", "api"),
        (["api", "other-api"], "my-other-api-2", "other-api"),
        (["api", "my.api"], "my.api-1", "my.api"),
        (["api-1", "other"], "api-1", "api-1"),
        (["api-1", "api"], "api-1", "api"),
        (["api-1", "api"], "api-1-1", "api-1"),
        # another service, whose name only ends with the same letters
        (["api", "other"], "myapi-1", None),
        (["api", "my.api"], "x.api-1", None),
    ],
)
def test_a_container_of_docker_compose_is_of_the_service_in_its_name(
    observe: Callable[..., Any], names: list[str], source: str, service: str | None
) -> None:
    log = [record(V2_WORKER, "gpu_worker.py"), record(READY)]
    _, (found,) = observe([f"{source}  | {line}" for line in log], compose(*names))
    assert found["engine"] == (None if service is None else f"services.{service}")


def test_services_of_the_same_name_in_several_files_are_ambiguous(call: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text_of([f"chat-api-1  | {line}" for line in v2_start()[2:]]))
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(json.dumps(compose("api")["manifest"]))
    (folder / "c.yaml").write_text(json.dumps(compose("other")["manifest"]))
    done = call("observe", str(tmp_path / "log"), "--deployment", str(folder))
    (found,) = map(json.loads, done.out.splitlines())
    assert (done.code, found["engine"], found["verdict"]) == (1, None, "undecided")
    assert [note.partition(";")[0] for note in found["notes"]] == [
        "the log may be that of `a.yaml: services.api`, `b.yaml: services.api`"
    ]


@pytest.mark.parametrize(
    ("flags", "verdict", "decided_for"),
    [((), "undecided", None), (("--nearest",), "agreed", "0.33.0"), (("--vllm-version", "0.26.0"), "agreed", "0.26.0")],
)
def test_an_unknown_release_of_the_log_is_decided_only_if_that_is_asked_for(
    observe: Callable[..., Any], tmp_path: Path, flags: tuple[str, ...], verdict: str, decided_for: str | None
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    first, *rest = v2_start("0.99.0")
    _, (found,) = observe(
        [first, arguments(), *rest], None, *flags, "--model-config", f"{MODEL}={tmp_path / 'config.json'}"
    )
    said = f"the log is of vLLM 0.99.0, which is no known release; decided for {decided_for}"
    assert (found["verdict"], said in found["notes"]) == (verdict, decided_for is not None)


@pytest.mark.parametrize(("flags", "decided_for"), [((), "0.23.0"), (("--nearest",), "0.33.0")])
def test_an_unknown_release_of_the_log_is_said_beside_a_deployment_without_one(
    observe: Callable[..., Any], flags: tuple[str, ...], decided_for: str
) -> None:
    _, (found,) = observe(v2_start("0.99.0"), deployment(None), *flags)
    assert found["notes"] == [f"the log is of vLLM 0.99.0, which is no known release; decided for {decided_for}"]


@pytest.mark.parametrize("lines", [[], ["hello"], ["\x00" * 100]])
def test_a_log_without_a_start_is_a_fault(call: Callable[..., Done], lines: list[str]) -> None:
    done = call("observe", "-", stdin=text_of(lines))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("-: no start of vLLM found; expected its log from the start of the container")


@pytest.mark.parametrize(
    "rest",
    [
        ", 'served_model_name': ['\\ud800', '\\x00']",
        ", 'max_model_len': -1, 'tensor_parallel_size': 99999999999999999999",
        ", 'dtype': inf, 'hf_overrides': {'a': nan}",
        ", 'speculative_config': 'x', 'compilation_config': [1], 'kv_transfer_config': {1: {None: 2}}",
        ", 'enforce_eager': 'maybe', 'tensor_parallel_size': [2], 'pipeline_parallel_size': {}",
    ],
)
def test_arguments_that_no_vllm_would_log_are_no_error_of_the_command(
    observe: Callable[..., Any], tmp_path: Path, rest: str
) -> None:
    (tmp_path / "q.json").write_text(json.dumps(QWEN))
    lines = [version("0.26.0"), arguments(rest), *v2_start()[1:]]
    code, (found,) = observe(lines, None, "--model-config", f"{MODEL}={tmp_path / 'q.json'}")
    assert (code in {0, 1}, found["observed"]["runner"]) == (True, "v2")


def test_inputs_that_cannot_be_read_are_faults(call: Callable[..., Done], tmp_path: Path) -> None:
    assert call("observe", str(tmp_path / "absent")).code == 2
    assert call("observe", "-", "--deployment", "-").code == 2
    assert call("observe", "-", "--deployment", str(tmp_path / "absent"), stdin=text_of(v2_start())).code == 2
    done = call("observe", "-", "--vllm-version", "9.9", stdin=text_of(v2_start()))
    assert (done.code, done.err.startswith("--vllm-version: ")) == (2, True)


def test_bytes_that_are_no_text_do_not_hide_a_log(call: Callable[..., Done]) -> None:
    log = b"\xff\xfe progress \x80\n" + text_of(v2_start()).encode()
    assert json.loads(call("observe", "-", stdin=log).out)["observed"]["runner"] == "v2"


def test_secrets_of_the_arguments_are_never_printed(
    call: Callable[..., Done], on_terminal: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    hidden = ", 'hf_token': 'hf_abcdefghijkl', 'additional_config': {'k': 'hidden-one'}, 'tokenizer': 5, 'x': ["
    text = text_of(
        [version("0.26.0"), arguments(hidden), arguments(", 'hf_token': 'hf_abcdefghijkl'}"), *v2_start()[1:]]
    )
    done = call("observe", "-", stdin=text)
    (tmp_path / "vllm.log").write_text(text)
    _, shown = on_terminal("observe", str(tmp_path / "vllm.log"))
    assert not [word for word in ("verysecret", "abcdefghijkl", "hidden-one") if word in done.out + done.err + shown]


def test_on_a_terminal_it_is_a_table(on_terminal: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text(text_of(v1_start()))
    (tmp_path / "d.json").write_text(json.dumps(deployment()))
    given = ("--deployment", str(tmp_path / "d.json"))
    code, shown = on_terminal("observe", str(tmp_path / "vllm.log"), *given, NO_COLOR="1", TERM="dumb")
    assert code == 1
    assert "differed   V2, starts   V1, started   0.26.0   org/some-model, line 1" in shown
    assert "runner: decided v2, log v1" in shown
    assert "assumption: env.VLLM_USE_V2_MODEL_RUNNER is not stated; with 0 the decision is V1, starts" in " ".join(
        shown.split()
    )
    code, shown = on_terminal("observe", str(tmp_path / "vllm.log"), *given, "--json")
    assert (code, json.loads(shown)["verdict"]) == (1, "differed")
