"""What a deployment leaves unknown, and what would change with another value."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE as DENSE_CONFIG
from deployments import Asking
from tables import table

from policy.decision.decision import Alternative, Assumption
from policy.policy import Policy
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue

DENSE = ["--model", "dense"]
RUNNER = "env.VLLM_USE_V2_MODEL_RUNNER"
V1 = Alternative("v1", starts=True)
V2 = Alternative("v2", starts=True)
OWN = Alternative(None, starts=True)
STATED = {"platform": "cuda", "has_triton": True, "plugins": {"logits_processors": []}}
SET = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
NOT_STATED = "not stated"


def assumed(ask: Asking, args: list[str], release: str, **given: Any) -> list[Assumption]:
    return ask(args, release, explain=True, **given).assumptions or []


def platform(value: str = "cuda", **otherwise: Alternative) -> Assumption:
    return Assumption("environment.platform", value, NOT_STATED, otherwise)


def triton(*, value: bool = True, **otherwise: Alternative) -> Assumption:
    return Assumption("platform.has_triton", value, NOT_STATED, otherwise)


def plugins(**otherwise: Alternative) -> Assumption:
    return Assumption("plugins.logits_processors", [], NOT_STATED, otherwise)


def runner(otherwise: dict[str, Alternative]) -> Assumption:
    return Assumption(RUNNER, None, NOT_STATED, otherwise)


def modules(other: Alternative, model: str = "dense") -> Assumption:
    return Assumption(f"files/{model}/modules.json", None, NOT_STATED, {"a pooling module": other})


NGRAM = [*DENSE, "--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}']
NIXL = [*DENSE, "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}']
OPEN: list[tuple[str, list[str], dict[str, Any], list[Assumption]]] = [
    ("0.33.0", DENSE, {"environment": STATED, "env": SET}, []),
    ("0.33.0", DENSE, {}, [platform(tpu=OWN), triton(false=V1), plugins(), runner({"0": V1})]),
    ("0.30.0", DENSE, {}, [platform(cpu=V1, tpu=OWN), triton(false=V1), plugins(another=V1), runner({"0": V1})]),
    ("0.21.0", DENSE, {}, [platform(tpu=OWN), triton(), plugins(), runner({"1": V2})]),
    ("0.33.0", DENSE, {"environment": {"has_triton": True}, "env": SET}, [platform(tpu=OWN), plugins()]),
    ("0.33.0", DENSE, {"environment": {**STATED, "platform": None}}, [platform(tpu=OWN), runner({"0": V1})]),
    ("0.33.0", DENSE, {"environment": {**STATED, "has_triton": None}}, [triton(false=V1), runner({"0": V1})]),
    ("0.33.0", DENSE, {"environment": {"platform": "cpu", "plugins": {}}}, [triton(false=V1), runner({"0": V1})]),
    (
        "0.30.0",
        DENSE,
        {"environment": {"platform": "cpu", "plugins": {}}},
        [triton(value=False, true=V2), runner({"1": Alternative("v2", starts=False)})],
    ),
    ("0.33.0", DENSE, {"environment": {**STATED, "plugins": None}, "env": SET}, [plugins()]),
    ("0.29.0", NGRAM, {"environment": STATED}, [runner({"1": Alternative("v2", starts=False)})]),
    ("0.23.0", NIXL, {"environment": STATED, "upstream": False}, [runner({"1": V2})]),
    ("0.33.0", DENSE, {"environment": STATED, "env": {"VLLM_USE_V2_MODEL_RUNNER": "x"}}, []),
]


@table(("release", "args", "given", "expected"), OPEN)
def test_each_unstated_fact_is_listed_with_what_would_change(
    ask: Asking, release: str, args: list[str], given: dict[str, Any], expected: list[Assumption]
) -> None:
    assert assumed(ask, args, release, **given) == expected


def test_a_platform_that_refuses_the_model_would_not_start_it(ask: Asking) -> None:
    models = {"x": {"architectures": ["TransformersForCausalLM"], "model_type": "qwen3"}}
    found = assumed(ask, ["--model", "x"], "0.33.0", models=models)
    assert [each.fact for each in found] == [
        "environment.platform",
        "platform.has_triton",
        "plugins.logits_processors",
        RUNNER,
    ]


@table("platform_", ["rocm", "xpu", "cpu", "tpu", "out-of-tree", "unspecified"])
def test_another_platform_is_evaluated_with_all_that_follows_from_it(ask: Asking, platform_: str) -> None:
    for release in ("0.27.1", "0.30.0", "0.33.0"):
        decision = ask(["--model", "moe"], release, explain=True)
        stated = ask(["--model", "moe"], release, environment={"platform": platform_})
        assert decision.assumptions
        would = decision.assumptions[0].would_change.get(platform_)
        answer = Alternative(stated.runner, stated.starts)
        assert would == (None if answer == Alternative(decision.runner, decision.starts) else answer)


def pod(*variables: str) -> dict[str, Any]:
    """A pod whose variables come from outside the manifest."""
    env = [{"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}} for name in variables]
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", "args": DENSE, "env": env}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def request_for(ask: Asking, manifest: dict[str, Any]) -> Request:
    configs = ask.request(DENSE)["deployment"]["model_configs"]
    document = {
        "manifest": manifest,
        "model_configs": configs,
        "environment": STATED,
        "layers": ["upstream"],
        "explain": True,
    }
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return request


UNKNOWN: list[tuple[tuple[str, ...], list[Assumption]]] = [
    (("VLLM_USE_V2_MODEL_RUNNER",), [Assumption(RUNNER, None, "unknown", {"0": V1})]),
    (("SOME_TOKEN", "HF_HOME"), [runner({"0": V1})]),
    (("VLLM_MLA_DISABLE",), [runner({"0": V1}), Assumption("env.VLLM_MLA_DISABLE", None, "unknown", {})]),
    (
        ("TORCH_COMPILE_DISABLE", "VLLM_USE_V2_MODEL_RUNNER"),
        [Assumption(RUNNER, None, "unknown", {"0": V1}), Assumption("env.TORCH_COMPILE_DISABLE", None, "unknown", {})],
    ),
]


@pytest.mark.parametrize(("variables", "expected"), UNKNOWN)
def test_a_variable_with_an_unknown_value_is_an_assumption(
    ask: Asking, variables: tuple[str, ...], expected: list[Assumption]
) -> None:
    decision = ask.policy.decide(request_for(ask, pod(*variables)), date(2026, 1, 1))
    assert (decision.runner, decision.assumptions) == ("v2", expected)


MODULES_JSON = '[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]'


@table(
    ("release", "args", "given", "expected"),
    [
        ("0.23.0", DENSE, {}, [modules(V1)]),
        ("0.28.0", DENSE, {}, [modules(V1)]),
        ("0.23.0", ["serve", "dense/"], {}, [modules(V1)]),
        (
            "0.23.0",
            ["--model", "a/b", "--hf-config-path", "dense"],
            {"models": {"a/b": DENSE_CONFIG}},
            [modules(V1, "a/b")],
        ),
        ("0.33.0", DENSE, {}, []),
        ("0.21.0", DENSE, {}, []),
        ("0.23.0", DENSE, {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, []),
        ("0.23.0", [*DENSE, "--runner", "generate"], {}, []),
        ("0.23.0", DENSE, {"files": {"dense/modules.json": "[]"}}, []),
        ("0.23.0", DENSE, {"files": {"dense/modules.json": MODULES_JSON}}, []),
        ("0.23.0", ["--model", "pooling"], {}, []),
    ],
)
def test_an_unknown_pooling_module_is_an_assumption_if_it_would_change_the_decision(
    ask: Asking, release: str, args: list[str], given: dict[str, Any], expected: list[Assumption]
) -> None:
    found = assumed(ask, args, release, **given)
    assert [each for each in found if each.fact.startswith("files/")] == expected


def test_the_pooling_module_of_a_model_that_was_looked_up_is_known(catalogue: Catalogue) -> None:
    policy = Policy(catalogue, find=lambda _: (DENSE_CONFIG, {}))
    found = assumed(Asking(policy), ["--model", "a/b"], "0.23.0")
    assert not any(each.fact.startswith("files/") for each in found)
