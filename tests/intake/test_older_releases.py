"""Deployments on releases before 0.20, whose decisions do not depend on the model."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except

from policy.errors import RequestInvalid
from policy.intake.command.flags import flags
from policy.intake.derive.without_models import has_models
from policy.intake.model.tables import releases_with_flags
from policy.request.request import read_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.decision.decision import Decision
    from policy.policy import Policy

V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
MALFORMED = "invalid literal for int() with base 10: 'yes'"
NOT_CHECKED = (
    "vLLM {} is older than the releases whose models are known: the decision does not depend on the model, and whether "
    "this vLLM can load it is not checked"
)
ENGINE_CHOICE = (
    "VLLM_USE_V1 is not set, so vLLM may start its V0 engine, whose model runner is neither V1 nor V2, if the V1 "
    "engine lacks something that is needed; this decision is for the V1 engine"
)
V0_ENGINE = (
    "VLLM_USE_V1=0 starts the V0 engine, whose model runner is neither V1 nor V2; this decision is for the V1 engine"
)
NOT_READ = "this release does not read VLLM_USE_V2_MODEL_RUNNER"
ATTENTION = (
    "V2 is an experiment in this release: it starts with the attention backend FLASH_ATTN only, and vLLM does not "
    "check what else it lacks"
)
EXPERIMENT = (
    "V2 is an experiment in this release: vLLM does not check what it lacks, and may stop while the model is loaded"
)
METHOD = (
    "the speculative configuration: it names no `method`, and vLLM 0.19.1 finds it out from the draft, which is not "
    'read for this release; the method decides whether V2 starts, so write it, such as `"method": "eagle"`'
)


def decided(
    policy: Policy, release: str, *args: str, env: Mapping[str, str | None] | None = None, **fields: Any
) -> Decision:
    deployment = {"args": ["serve", "org/model", *args], "env": env or {}, **fields}
    request = read_request({"vllm_version": release, "deployment": deployment}, policy.releases)
    return policy.decide(request, date(2026, 1, 1))


@pytest.mark.parametrize(
    ("release", "env", "runner", "errors", "warnings"),
    [
        ("0.9.0", {}, "v1", [], [ENGINE_CHOICE]),
        ("0.9.0.1", {"VLLM_USE_V1": "1"}, "v1", [], []),
        ("0.10.1.1", {"VLLM_USE_V1": "0"}, "v1", [], [V0_ENGINE]),
        ("0.10.2", {"VLLM_USE_V1": "yes"}, None, [MALFORMED], []),
        ("0.10.2", {"VLLM_USE_V1": "1", **V2}, "v1", [], [NOT_READ]),
        ("0.11.0", {}, "v1", [], []),
        ("0.11.0", {"VLLM_USE_V1": "0"}, "v1", ["assert envs.VLLM_USE_V1"], []),
        ("0.11.1", {"VLLM_USE_V1": "0"}, "v1", [], []),
        ("0.11.2", {"VLLM_USE_V2_MODEL_RUNNER": "yes"}, "v1", [], [NOT_READ]),
        ("0.12.0", {}, "v1", [], []),
        ("0.12.0", {"VLLM_USE_V2_MODEL_RUNNER": "yes"}, None, [MALFORMED], []),
        ("0.12.0", V2, "v2", [], [ATTENTION]),
        ("0.14.1", {"VLLM_USE_V1": "0", **V2}, "v2", [], [ATTENTION]),
        ("0.15.0", V2, "v2", [], [EXPERIMENT]),
        ("0.19.1", V2, "v2", [], [EXPERIMENT]),
        ("0.19.1", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "v1", [], []),
    ],
)
def test_a_deployment_is_decided_without_its_model(
    policy: Policy, release: str, env: dict[str, str | None], runner: str | None, errors: list[str], warnings: list[str]
) -> None:
    decision = decided(policy, release, env=env)
    assert (decision.runner, decision.startup_errors, decision.starts) == (runner, errors, not errors)
    assert (decision.warnings, decision.launch_errors) == ([*warnings, NOT_CHECKED.format(release)], [])


@pytest.mark.parametrize(
    ("release", "args", "errors"),
    [
        ("0.12.0", ["--speculative-config", '{"method": "ngram"}'], ["ngram is not supported yet."]),
        ("0.12.0", ["--speculative-config", '{"model": "[ngram]"}'], ["ngram is not supported yet."]),
        ("0.12.0", ["--speculative-config", '{"method": "deepseek_mtp"}'], []),
        ("0.16.0", ["--speculative-config", '{"method": "eagle3"}', "-pp", "2"], []),
        (
            "0.17.0",
            ["--speculative-config", '{"method": "eagle3"}', "-pp", "2"],
            ["EAGLE3 with pipeline parallel is not supported."],
        ),
        ("0.17.1", ["--logprobs-mode", "raw_logits"], ["Unsupported logprobs_mode: raw_logits"]),
        (
            "0.17.1",
            ["--logprobs-mode", "raw_logits", "--runner", "pooling"],
            ["Unsupported logprobs_mode: raw_logits"],
        ),
        ("0.18.0", ["--logprobs-mode", "raw_logits", "--runner", "pooling"], []),
    ],
)
def test_v2_refuses_what_it_lacked_as_an_experiment(
    policy: Policy, release: str, args: list[str], errors: list[str]
) -> None:
    assert (decided(policy, release, *args).startup_errors, decided(policy, release, *args, env=V2).startup_errors) == (
        [],
        errors,
    )


def test_a_method_that_follows_from_the_draft_matters_for_v2_only(policy: Policy) -> None:
    draft = ("--speculative-config", '{"model": "org/draft"}')
    assert decided(policy, "0.19.1", *draft).runner == "v1"
    with pytest.raises(RequestInvalid) as raised:
        decided(policy, "0.19.1", *draft, env=V2)
    assert [(fault.pointer, fault.message) for fault in raised.value.faults] == [("/deployment/args/2", METHOD)]


def test_only_facts_that_were_derived_are_shown(policy: Policy) -> None:
    connector = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
    args = ("--logprobs-mode", "raw_logits", "-tp", "2", "--kv-transfer-config", connector, "--max-num-seqs", "4")
    shown = {
        release: {
            name: (fact.value, fact.from_) for name, fact in (decided(policy, release, *args).facts or {}).items()
        }
        for release in ("0.11.0", "0.12.0")
    }
    runner, engine = ("env.VLLM_USE_V2_MODEL_RUNNER", "env.VLLM_USE_V1")
    stated = {
        "parallel_config.tensor_parallel_size": (2, "args[4]"),
        "kv_transfer_config": (True, "args[6]"),
        "kv_transfer_config.kv_connector": ("NixlConnector", "args[6]"),
        "kv_transfer_config.kv_role": ("kv_both", "args[6]"),
    }
    assert shown == {
        "0.11.0": {runner: (None, "assumed"), engine: (None, "assumed"), **stated},
        "0.12.0": {runner: (False, "assumed"), "model_config.logprobs_mode": ("raw_logits", "args[2]"), **stated},
    }


def test_given_models_are_not_read_and_not_reported_as_unused(policy: Policy) -> None:
    decision = decided(policy, "0.11.2", model_configs={"org/model": {"architectures": ["AnyModel"]}})
    assert (decision.runner, decision.warnings) == ("v1", [NOT_CHECKED.format("0.11.2")])


def test_a_variable_with_an_unknown_value_is_assumed_to_be_unset(policy: Policy) -> None:
    command = "VLLM_USE_V1=$(a) VLLM_USE_V2_MODEL_RUNNER=$(b) vllm serve org/model"
    unknown = "the value of `{}` is not known here; it is assumed to be unset"
    for release, name in (("0.10.2", "VLLM_USE_V1"), ("0.12.0", "VLLM_USE_V2_MODEL_RUNNER")):
        request = read_request({"vllm_version": release, "deployment": {"args": command}}, policy.releases)
        decision = policy.decide(request, date(2026, 1, 1))
        assert [warning for warning in decision.warnings if "is not known here" in warning] == [unknown.format(name)]


@pytest.mark.parametrize(
    ("release", "args", "launch_errors"),
    [
        ("0.9.0", ["--headless", "-dpr", "1", "--num-scheduler-steps", "8"], []),
        ("0.9.2", ["--limit-mm-per-prompt", "image=2"], []),
        ("0.10.2", ["-O3"], []),
        ("0.10.2", ["-O=3"], []),
        ("0.10.2", ["-O", "3"], []),
        ("0.10.2", ["-O", '{"level": 3}'], []),
        ("0.11.2", ["-O.level=3"], []),
        ("0.12.0", ["-O.level", "3"], []),
        ("0.12.0", ["-O3"], []),
        ("0.18.0", ["--grpc"], []),
        (
            "0.10.1",
            ["--enable-reasoning"],
            ["vLLM 0.10.1 has no flag `--enable-reasoning` (args[2]) and would not start; 0.9.0 to 0.9.2 have it"],
        ),
        (
            "0.9.0",
            ["--async-scheduling"],
            ["vLLM 0.9.0 has no flag `--async-scheduling` (args[2]) and would not start; 0.10.0 to 0.33.0 have it"],
        ),
    ],
)
def test_arguments_are_those_of_the_release(
    policy: Policy, release: str, args: list[str], launch_errors: list[str]
) -> None:
    assert decided(policy, release, *args).launch_errors == launch_errors


@pytest.mark.parametrize(
    ("release", "args", "message"),
    [
        ("0.10.0", ["--limit-mm-per-prompt", "image=2"], "`--limit-mm-per-prompt`: invalid JSON `image=2`"),
        ("0.10.2", ["-Ofast"], "invalid level `-Ofast`; write `-O0`, `-O1`, `-O2` or `-O3`"),
        ("0.13.0", ["-O.level=3"], "invalid level `-O.level=3`"),
    ],
)
def test_a_value_that_the_release_refuses_is_a_fault(
    policy: Policy, release: str, args: list[str], message: str
) -> None:
    with pytest.raises(RequestInvalid) as raised:
        decided(policy, release, *args)
    assert [fault.message[: len(message)] for fault in raised.value.faults] == [message]


OLDER = [release for release in releases_with_flags() if not has_models(release)]


@pytest.mark.parametrize("release", slow_except(["0.9.0", "0.11.2"], OLDER))
def test_every_flag_of_a_release_is_read(policy: Policy, release: str) -> None:
    for word, flag in flags(release).exact.items():
        for values in ([], ["3"], ['{"a": 1}'], ["x", "y"]):
            try:
                decision = decided(policy, release, word, *values)
            except RequestInvalid:
                continue
            assert decision.launch_errors == [], (word, flag.kind, values)
