"""Triton on a CPU, where nobody states it: by vLLM's release, the image and the machine that its name shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deployments import TODAY
from kubernetes_objects import container, deployment
from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

DENSE = ["--model", "dense"]
CPU: dict[str, Any] = {"platform": "cpu"}
OF_BUILD = (
    "Triton is assumed: vLLM's builds for CPUs require triton-cpu on x86-64 from 0.31.0 on, and not on Arm, where vLLM "
    "would decide otherwise; state `has_triton` in `environment`"
)
OF_IMAGE = (
    "Triton is assumed: this image for CPUs has triton-cpu on x86-64 from 0.23.0 on, and not on Arm, where vLLM would "
    "decide otherwise; state `has_triton` in `environment`"
)
NONE = (
    "no Triton is assumed; with triton-cpu, which vLLM's own images for CPUs have on x86-64 from 0.23.0 on, vLLM would "
    "decide otherwise; state `has_triton` in `environment`"
)
OWN = "vllm/vllm-openai-cpu"
OTHER = "registry.example/team/vllm-cpu"


def said(warnings: list[str]) -> list[str]:
    """The warnings about what is assumed."""
    return [each for each in warnings if "Triton is assumed" in each]


@table(
    ("release", "environment", "env", "runner", "warnings"),
    [
        ("0.22.1", CPU, {}, "v1", []),
        ("0.23.0", CPU, {}, "v1", [NONE]),
        ("0.30.0", CPU, {}, "v1", [NONE]),
        ("0.31.0", CPU, {}, "v2", [OF_BUILD]),
        ("0.33.0", CPU, {}, "v2", [OF_BUILD]),
        ("0.33.0", {**CPU, "has_triton": True}, {}, "v2", []),
        ("0.33.0", {**CPU, "has_triton": False}, {}, "v1", []),
        ("0.30.0", {**CPU, "has_triton": True}, {}, "v2", []),
        ("0.33.0", CPU, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "v1", []),
        ("0.30.0", {}, {"VLLM_TARGET_DEVICE": "cpu"}, "v1", []),
        ("0.33.0", {}, {"VLLM_TARGET_DEVICE": "cpu"}, "v1", []),
        ("0.33.0", {"platform": "cuda"}, {}, "v2", []),
        ("0.33.0", {"platform": "gaudi"}, {}, None, []),
    ],
)
def test_a_cpu_has_triton_from_0_31_on_with_a_warning_if_that_changes_the_answer(
    ask: Asking, release: str, environment: dict[str, Any], env: dict[str, str], runner: str | None, warnings: list[str]
) -> None:
    decision = ask(DENSE, release, environment=environment, env=env)
    assert (decision.runner, said(decision.warnings)) == (runner, warnings)


@table(
    ("image", "environment", "runner", "warnings"),
    [
        (f"{OWN}:v0.22.1", {}, "v1", []),
        (f"{OWN}:v0.23.0", {}, "v2", [OF_IMAGE]),
        (f"{OWN}:v0.33.0", {}, "v2", [OF_IMAGE]),
        (f"{OWN}:v0.33.0-x86_64", {}, "v2", [OF_IMAGE]),
        (f"{OWN}:v0.33.0-arm64", {}, "v1", []),
        ("public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.23.0", {}, "v2", [OF_IMAGE]),
        ("public.ecr.aws/q9t5s3a7/vllm-arm64-cpu-release-repo:v0.33.0", {}, "v1", []),
        (f"{OWN}:v0.23.0", {"has_triton": False}, "v1", []),
        (f"{OWN}:v0.33.0-arm64", {"has_triton": True}, "v2", []),
        (f"{OTHER}:v0.23.0", {}, "v1", [NONE]),
        (f"{OTHER}:v0.31.0", {}, "v2", [OF_BUILD]),
        ("vllm/vllm-openai:v0.23.0", {}, "v2", []),
        ("vllm/vllm-openai:v0.23.0", CPU, "v1", [NONE]),
    ],
)
def test_an_image_for_cpus_has_triton_from_the_release_of_its_row_on(
    ask: Asking, image: str, environment: dict[str, Any], runner: str, warnings: list[str]
) -> None:
    configs = ask.request(DENSE)["deployment"]["model_configs"]
    asked = read_request_or_manifest(
        {
            "manifest": deployment(container(image=image, model="dense")),
            "model_configs": configs,
            "environment": environment,
        },
        ask.policy.releases,
    )
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    assert (decision.runner, said(decision.warnings)) == (runner, warnings)


def test_a_later_release_is_decided_with_what_is_assumed_for_it(ask: Asking) -> None:
    decision = ask(DENSE, "0.30.0", environment=CPU, explain=True)
    assert (decision.runner, decision.v2_from) == ("v1", "0.31.0")
