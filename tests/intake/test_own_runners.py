"""Deployments on platforms, and of programs, that have model runners of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.errors import RequestInvalid

if TYPE_CHECKING:
    from deployments import Asking

NAME = "VLLM_USE_V2_MODEL_RUNNER"
DENSE = ["serve", "dense"]
UNKNOWN_MODEL = (
    "the model's configuration is not known here and not needed, because vLLM's own runners are not used; whether the "
    "model can be loaded is not checked"
)


def on(platform: str, **members: Any) -> dict[str, Any]:
    return {"environment": {"platform": platform, **members}}


@table(
    ("args", "release", "given", "rules"),
    [
        (DENSE, "0.23.0", on("tpu"), ["own-runner-tpu"]),
        (DENSE, "0.19.1", on("tpu"), ["own-runner-tpu"]),
        (DENSE, "0.33.0", on("tpu"), ["own-runner-tpu"]),
        (DENSE, "0.33.0", on("tpu", has_triton=True), ["own-runner-tpu", "advise-own-runner-scheduler"]),
        (DENSE, "0.33.0", {**on("gaudi"), "env": {NAME: "1"}}, ["own-runner-plugin", "advise-own-runner-variable"]),
        (DENSE, "0.18.0", {**on("gaudi"), "env": {NAME: "1"}}, ["own-runner-plugin", "advise-own-runner-variable"]),
        (DENSE, "0.23.0", on("neuron"), ["own-runner-plugin"]),
        (DENSE, "0.23.0", on("ascend"), ["own-runner-ascend-v1"]),
        (DENSE, "0.23.0", {**on("ascend"), "env": {NAME: "1"}}, ["own-runner-ascend-v2"]),
        (f"env {NAME}=1 vllm serve dense", "0.29.0", on("ascend"), ["own-runner-ascend-v2"]),
        (["serve", "dense", "--omni"], "0.23.0", {}, ["own-runner-omni"]),
        ("vllm serve dense --omni --stage-configs-path stages.yaml", "0.30.0", {}, ["own-runner-omni"]),
        ("vllm-omni serve dense --omni", "0.18.0", {}, ["own-runner-omni"]),
        ("python -m vllm_omni.entrypoints.cli.main serve dense --omni", "0.30.0", {}, ["own-runner-omni"]),
        ("sh -c 'cd /app && vllm-omni serve dense --omni'", "0.30.0", {}, ["own-runner-omni"]),
    ],
)
def test_another_runner_runs(
    ask: Asking, args: list[str] | str, release: str, given: dict[str, Any], rules: list[str]
) -> None:
    found = ask(args, release, **given)
    assert (found.runner, found.outcome, found.starts, found.set_env, [reason.rule for reason in found.reasons]) == (
        None,
        "not-applicable",
        True,
        {},
        rules,
    )
    assert found.launch_errors == []


@pytest.mark.parametrize("command", ["vllm-omni serve dense", "vllm serve dense"])
def test_vllm_omni_starts_vllm_without_its_flag(ask: Asking, command: str) -> None:
    assert ask(command, "0.23.0").runner == "v2"


def test_the_flag_of_vllm_omni_is_the_origin_of_its_fact(ask: Asking) -> None:
    assert ask.fact("omni", ["serve", "dense", "--omni"], "0.23.0") == (True, "args[2]")


@pytest.mark.parametrize("args", [["serve", "unknown/model"], ["serve", "unsupported"]])
def test_the_model_is_not_needed_where_another_runner_runs(ask: Asking, args: list[str]) -> None:
    models = {"unsupported": {"architectures": ["NoSuchModel"], "model_type": "none"}}
    found = ask(args, "0.23.0", models=models, **on("gaudi"))
    assert (found.outcome, found.warnings[:1]) == ("not-applicable", [UNKNOWN_MODEL])
    with pytest.raises(RequestInvalid):
        ask(args, "0.23.0", models=models, **on("out-of-tree"))


def test_a_flag_that_a_plugin_may_add_is_a_warning(ask: Asking) -> None:
    found = ask([*DENSE, "--frobnicate"], "0.23.0", **on("gaudi"))
    assert (found.starts, found.launch_errors) == (True, [])
    assert found.warnings == ["vLLM 0.23.0 has no flag `--frobnicate` (args[2]) and would not start"]


def test_a_malformed_variable_still_stops_vllm(ask: Asking) -> None:
    found = ask(DENSE, "0.23.0", env={NAME: "yes"}, **on("tpu"))
    assert (found.runner, found.outcome, found.starts) == (None, None, False)
