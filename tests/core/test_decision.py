"""Decisions with the shipped rules, and with other house rules."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from known_releases import EQUIVALENT
from tables import table

from policy.checks.candidate import overlay
from policy.decision.decision import encode
from policy.decision.trace import failures
from policy.facts.vocabulary import PLATFORM_PLUGINS
from policy.fastpath.request_decoder import decode_fast
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.conditions import Ref
from policy.rules.loader import Sources
from policy.rules.releases import UnknownRelease

if TYPE_CHECKING:
    from policy.decision.decision import Decision
    from policy.rules.catalogue import Catalogue

TODAY = date(2026, 1, 1)
QWEN3 = {"architectures": ["Qwen3ForCausalLM"]}
NAME = "VLLM_USE_V2_MODEL_RUNNER"


def decided(
    policy: Policy, facts: dict[str, Any], version: str | None = None, today: date = TODAY, **members: Any
) -> Decision:
    return policy.decide(read_request({"facts": facts, "vllm_version": version, **members}, policy.releases), today)


def verdict(decision: Decision) -> tuple[Any, ...]:
    """Runner, outcome, startup errors, features, the variable to set, rules; a decisive one in capitals."""
    rules = [reason.rule.upper() if reason.decisive else reason.rule for reason in decision.reasons]
    return (
        decision.runner,
        decision.outcome,
        decision.startup_errors,
        decision.unsupported_features,
        decision.set_env,
        rules,
    )


# Whole decisions.


def test_a_kv_connector_gets_this_decision(policy: Policy, catalogue: Catalogue) -> None:
    facts = {
        "model_config": {**QWEN3, "is_moe": False},
        "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
    }
    found = json.loads(encode(decided(policy, facts, "0.23.0", request_id="mine")))
    assert len(found.pop("decision_id")) == 36
    assert found == {
        "request_id": "mine",
        "runner": "v1",
        "outcome": "fallback",
        "starts": True,
        "startup_errors": [],
        "launch_errors": [],
        "summary": "V1: a KV connector (NixlConnector) keeps this deployment on V1",
        "unsupported_features": [],
        "v1_unsupported_features": [],
        "reasons": [
            {
                "rule": "kv-connector-fallback",
                "layer": "house",
                "effect": "fallback-v1",
                "decisive": True,
                "feature": None,
                "message": "a KV connector (NixlConnector) keeps this deployment on V1",
                "remedy": "drop `--kv-transfer-config` and `--kv-offloading-size`, "
                "or set `VLLM_USE_V2_MODEL_RUNNER` to 1, for V2",
                "facts": {"kv_transfer_config.kv_connector": "NixlConnector"},
                "references": [
                    "https://github.com/vllm-project/vllm/pull/42955",
                    "https://github.com/vllm-project/vllm/issues/42846",
                ],
                "owner": "inference-platform",
                "review_by": "2027-06-30",
            }
        ],
        "known_problems": [],
        "upstream": {"runner": "v2", "outcome": "default", "starts": True, "startup_errors": []},
        "set_env": {"VLLM_USE_V2_MODEL_RUNNER": "0"},
        "warnings": [],
        "vllm_version": "0.23.0",
        "release": {"decided_as": "0.23.0", "verified": True, "defaulted": False},
        "policy": {"revision": catalogue.revision},
    }


def test_a_deployment_that_will_not_start_gets_this_decision(policy: Policy, catalogue: Catalogue) -> None:
    facts = {
        "model_config": QWEN3,
        "env": {NAME: " 01 "},
        "parallel_config": {"enable_dbo": True},
        "speculative_config": {"method": "suffix"},
    }
    found = json.loads(encode(decided(policy, facts)))
    error = "Model Runner V2 does not yet support: speculative method 'suffix', dual batch overlap"
    del found["decision_id"]
    references = {reason["rule"]: reason.pop("references") for reason in found["reasons"]}
    assert references["dual-batch-overlap"] == ["https://github.com/vllm-project/vllm/issues/50738"]
    assert found == {
        "request_id": None,
        "runner": "v2",
        "outcome": "override",
        "starts": False,
        "startup_errors": [error],
        "launch_errors": [],
        "summary": f"V2: the variable VLLM_USE_V2_MODEL_RUNNER asks for V2; vLLM will not start: {error}",
        "unsupported_features": ["speculative method 'suffix'", "dual batch overlap"],
        "v1_unsupported_features": [],
        "reasons": [
            {
                "rule": "variable-true",
                "layer": "upstream",
                "effect": "override-v2",
                "decisive": True,
                "feature": None,
                "message": "the variable VLLM_USE_V2_MODEL_RUNNER asks for V2",
                "remedy": "remove `VLLM_USE_V2_MODEL_RUNNER` to let vLLM choose, or set it to 0 for V1",
                "facts": {"env.VLLM_USE_V2_MODEL_RUNNER": True},
            },
            {
                "rule": "spec-method",
                "layer": "upstream",
                "effect": "exclude-v2",
                "decisive": False,
                "feature": "speculative method 'suffix'",
                "message": "V2 does not support speculative method 'suffix'",
                "remedy": "use eagle, eagle3 or mtp, or stay on V1",
                "facts": {"speculative_config.method": "suffix"},
            },
            {
                "rule": "dual-batch-overlap",
                "layer": "upstream",
                "effect": "exclude-v2",
                "decisive": False,
                "feature": "dual batch overlap",
                "message": "V2 does not support dual batch overlap",
                "remedy": "switch dual batch overlap off, or from 0.30 set `VLLM_USE_V2_MODEL_RUNNER` to 1",
                "facts": {"parallel_config.enable_dbo": True},
            },
            {
                "rule": "refuse-v2-unsupported",
                "layer": "upstream",
                "effect": "refuse-v2",
                "decisive": False,
                "feature": None,
                "message": error,
                "remedy": "switch the listed features off, or remove VLLM_USE_V2_MODEL_RUNNER=1 so that vLLM can "
                "choose V1",
                "facts": {},
            },
        ],
        "known_problems": [],
        "upstream": {"runner": "v2", "outcome": "override", "starts": False, "startup_errors": [error]},
        "set_env": {},
        "warnings": [],
        "vllm_version": "0.23.0",
        "release": {"decided_as": "0.23.0", "verified": True, "defaulted": True},
        "policy": {"revision": catalogue.revision},
        "without_variable": {"runner": "v1", "outcome": "fallback", "starts": True},
    }


def test_an_invalid_variable_gets_this_decision(policy: Policy, catalogue: Catalogue) -> None:
    facts = {
        "model_config": QWEN3,
        "env": {NAME: "true"},
        "parallel_config": {"enable_dbo": True},
        "kv_transfer_config": {},
    }
    found = json.loads(encode(decided(policy, facts, "0.33.0")))
    error = "invalid literal for int() with base 10: 'true'"
    del found["decision_id"]
    assert found == {
        "request_id": None,
        "runner": None,
        "outcome": None,
        "starts": False,
        "startup_errors": [error],
        "launch_errors": [],
        "summary": f"no runner: vLLM will not start: {error}",
        "unsupported_features": [],
        "v1_unsupported_features": [],
        "reasons": [
            {
                "rule": "variable-malformed",
                "layer": "upstream",
                "effect": "invalid",
                "decisive": True,
                "feature": None,
                "message": error,
                "remedy": "set `VLLM_USE_V2_MODEL_RUNNER` to 0 or 1, or remove it",
                "facts": {"env.VLLM_USE_V2_MODEL_RUNNER": "true"},
                "references": ["https://github.com/vllm-project/vllm/pull/39337"],
            }
        ],
        "known_problems": [],
        "upstream": {"runner": None, "outcome": None, "starts": False, "startup_errors": [error]},
        "set_env": {},
        "warnings": [],
        "vllm_version": "0.33.0",
        "release": {"decided_as": "0.33.0", "verified": True, "defaulted": False},
        "policy": {"revision": catalogue.revision},
    }


def test_a_platform_with_its_own_runners_gets_this_decision(policy: Policy, catalogue: Catalogue) -> None:
    facts = {
        "model_config": QWEN3,
        "platform": {"is_out_of_tree": True, "plugin": "vllm-ascend"},
        "env": {NAME: "1"},
        "kv_transfer_config": {"kv_connector": "NixlConnector"},
    }
    found = json.loads(encode(decided(policy, facts, "0.23.0")))
    message = (
        "vllm-ascend has model runners of its own, and the variable VLLM_USE_V2_MODEL_RUNNER alone chooses between its "
        "V1 and its V2; it is true, so its V2 runs"
    )
    assert found == {
        "decision_id": found["decision_id"],
        "request_id": None,
        "runner": None,
        "outcome": "not-applicable",
        "starts": True,
        "startup_errors": [],
        "launch_errors": [],
        "summary": f"own runner: {message}",
        "unsupported_features": [],
        "v1_unsupported_features": [],
        "reasons": [
            {
                "rule": "own-runner-ascend-v2",
                "layer": "upstream",
                "effect": "not-applicable",
                "decisive": True,
                "feature": None,
                "message": message,
                "remedy": "remove `VLLM_USE_V2_MODEL_RUNNER` for the V1 of vllm-ascend",
                "facts": {"platform.plugin": "vllm-ascend", "env.VLLM_USE_V2_MODEL_RUNNER": True},
                "references": [
                    "https://github.com/vllm-project/vllm-ascend/pull/11377",
                    "https://github.com/vllm-project/vllm-ascend/pull/11389",
                ],
            }
        ],
        "known_problems": [],
        "upstream": {"runner": None, "outcome": "not-applicable", "starts": True, "startup_errors": []},
        "set_env": {},
        "warnings": [],
        "vllm_version": "0.23.0",
        "release": {"decided_as": "0.23.0", "verified": True, "defaulted": False},
        "policy": {"revision": catalogue.revision},
    }


OWN: dict[str, dict[str, Any]] = {
    "tpu": {"platform": {"is_tpu": True, "has_triton": False}},
    "gaudi": {"platform": {"is_out_of_tree": True, "plugin": "vllm-gaudi", "has_triton": False}},
    "ascend": {"platform": {"is_out_of_tree": True, "plugin": "vllm-ascend"}},
    "omni": {"omni": True},
}
VARIABLE_ADVICE = "advise-own-runner-variable"


@table(
    ("own", "facts", "version", "rules"),
    [
        ("tpu", {}, "0.9.0", ["OWN-RUNNER-TPU"]),
        ("tpu", {}, "0.23.0", ["OWN-RUNNER-TPU"]),
        ("tpu", {"env": {NAME: "1"}}, "0.23.0", ["OWN-RUNNER-TPU", VARIABLE_ADVICE]),
        ("gaudi", {"env": {NAME: "1"}}, "0.33.0", ["OWN-RUNNER-PLUGIN", VARIABLE_ADVICE]),
        (
            "gaudi",
            {"platform": {"plugin": "vllm-gaudi"}},
            "0.33.0",
            ["OWN-RUNNER-PLUGIN", "advise-own-runner-scheduler"],
        ),
        ("gaudi", {"kv_transfer_config": {}, "ec_transfer_config": {}}, "0.23.0", ["OWN-RUNNER-PLUGIN"]),
        ("ascend", {}, "0.22.1", ["OWN-RUNNER-ASCEND"]),
        ("ascend", {}, "0.29.0", ["OWN-RUNNER-ASCEND-V1"]),
        ("ascend", {"env": {NAME: "1"}}, "0.33.0", ["OWN-RUNNER-ASCEND"]),
        ("omni", {"kv_transfer_config": {}}, "0.23.0", ["OWN-RUNNER-OMNI"]),
        ("omni", {"env": {NAME: "1"}, "kv_transfer_config": {}}, "0.33.0", ["OWN-RUNNER-OMNI"]),
    ],
)
@table("layers", [["upstream"], ["upstream", "house"]])
def test_neither_of_vllms_runners_is_decided_where_others_run(
    policy: Policy, own: str, facts: dict[str, Any], version: str, rules: list[str], layers: list[str]
) -> None:
    found = decided(policy, {"model_config": QWEN3, **OWN[own], **facts}, version, layers=layers)
    assert (verdict(found), found.starts, len(found.warnings)) == (
        (None, "not-applicable", [], [], {}, rules),
        True,
        len(rules) - 1,
    )


def test_a_plugin_that_is_not_known_is_decided_as_vllm_decides(policy: Policy) -> None:
    assert decided(policy, {"model_config": QWEN3, "platform": {"is_out_of_tree": True}}, "0.23.0").runner == "v2"


@pytest.mark.parametrize("own", OWN)
def test_a_malformed_variable_stops_vllm_before_another_runner_counts(policy: Policy, own: str) -> None:
    found = decided(policy, {"model_config": QWEN3, **OWN[own], "env": {NAME: "yes"}}, "0.23.0")
    assert (found.runner, found.outcome, found.starts) == (None, None, False)


def test_every_decision_has_a_unique_id(policy: Policy) -> None:
    assert len({decided(policy, {}).decision_id for _ in range(100)}) == 100


# The shipped policy, for requests without a version.


@table(
    ("facts", "expected"),
    [
        ({"model_config": {"architectures": ["Qwen3ForCausalLM"]}}, ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"])),
        ({"model_config": {"architectures": ["LlamaForCausalLM"]}}, ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"])),
        ({"model_config": {"architectures": ["MistralForCausalLM"]}}, ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"])),
        (
            {"model_config": {"architectures": ["Other", "LlamaForCausalLM"]}},
            ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"]),
        ),
        (
            {"model_config": {"architectures": ["Qwen3MoeForCausalLM"], "is_moe": True}},
            ("v1", "not-default", [], [], {}, ["ARCHITECTURE-ALLOWLIST", "MOE"]),
        ),
        ({"model_config": {**QWEN3, "is_moe": True}}, ("v1", "not-default", [], [], {}, ["MOE"])),
        ({"model_config": {**QWEN3, "is_quantized": True}}, ("v1", "not-default", [], [], {}, ["QUANTIZED"])),
        ({"model_config": {**QWEN3, "runner_type": "pooling"}}, ("v1", "not-default", [], [], {}, ["RUNNER-TYPE"])),
        (
            {"model_config": {"architectures": ["OPTForCausalLM"]}},
            ("v1", "not-default", [], [], {}, ["ARCHITECTURE-ALLOWLIST"]),
        ),
        ({"model_config": {}}, ("v1", "not-default", [], [], {}, ["ARCHITECTURE-ALLOWLIST"])),
        ({}, ("v1", "not-default", [], [], {}, ["NO-MODEL-CONFIG"])),
        (
            {"model_config": QWEN3, "kv_transfer_config": {}},
            ("v1", "fallback", [], [], {NAME: "0"}, ["KV-CONNECTOR-FALLBACK"]),
        ),
        (
            {"model_config": {"architectures": ["OPTForCausalLM"]}, "kv_transfer_config": {}},
            ("v1", "fallback", [], [], {}, ["KV-CONNECTOR-FALLBACK", "architecture-allowlist"]),
        ),
        (
            {"model_config": QWEN3, "speculative_config": {"method": "eagle3", "parallel_drafting": True}},
            (
                "v1",
                "fallback",
                [],
                ["parallel drafting for speculative decoding"],
                {},
                ["PARALLEL-DRAFTING", "advise-v2-unsupported"],
            ),
        ),
        (
            {"model_config": {**QWEN3, "has_inner_state": True}, "cache_config": {"mamba_cache_mode": "align"}},
            (
                "v1",
                "fallback",
                [],
                ["hybrid/mamba models with align cache mode"],
                {},
                ["MAMBA-ALIGN", "advise-v2-unsupported"],
            ),
        ),
        (
            {
                "model_config": {**QWEN3, "has_inner_state": True, "is_hybrid": True},
                "cache_config": {"mamba_cache_mode": "all"},
            },
            ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"]),
        ),
        ({"model_config": QWEN3, "env": {NAME: "0"}}, ("v1", "override", [], [], {}, ["VARIABLE-FALSE"])),
        ({"model_config": QWEN3, "env": {NAME: "1"}}, ("v2", "override", [], [], {}, ["VARIABLE-TRUE"])),
        (
            {"model_config": QWEN3, "env": {NAME: "1"}, "kv_transfer_config": {}},
            ("v2", "override", [], [], {}, ["VARIABLE-TRUE", "kv-connector-fallback"]),
        ),
        (
            {"model_config": QWEN3, "env": {NAME: "1"}, "parallel_config": {"prefill_context_parallel_size": 2}},
            (
                "v2",
                "override",
                ["Model Runner V2 does not yet support: prefill context parallelism"],
                ["prefill context parallelism"],
                {},
                ["VARIABLE-TRUE", "prefill-context-parallel", "refuse-v2-unsupported"],
            ),
        ),
        (
            {
                "model_config": QWEN3,
                "env": {NAME: "1"},
                "platform": {"has_triton": False},
                "parallel_config": {"enable_dbo": True},
            },
            (
                "v2",
                "override",
                ["Model Runner V2 requires Triton."],
                ["dual batch overlap"],
                {},
                ["VARIABLE-TRUE", "no-triton", "dual-batch-overlap", "refuse-v2-no-triton"],
            ),
        ),
        (
            {
                "model_config": {**QWEN3, "logprobs_mode": "raw_logits", "enable_prompt_embeds": True},
                "parallel_config": {"prefill_context_parallel_size": 2, "enable_dbo": True},
                "ec_transfer_config": {},
                "compilation_config": {"mode": "STOCK_TORCH_COMPILE"},
                "plugins": {"logits_processors": ["a plugin"]},
            },
            (
                "v1",
                "fallback",
                [],
                [
                    "prefill context parallelism",
                    "stock torch.compile",
                    "dual batch overlap",
                    "custom logits processors",
                    "prompt embeds",
                    "logprobs mode 'raw_logits'",
                    "EC transfer",
                ],
                {},
                [
                    "PREFILL-CONTEXT-PARALLEL",
                    "STOCK-COMPILE",
                    "DUAL-BATCH-OVERLAP",
                    "LOGITS-PROCESSORS",
                    "PROMPT-EMBEDS",
                    "LOGPROBS-MODE",
                    "EC-TRANSFER",
                    "advise-v2-unsupported",
                ],
            ),
        ),
    ],
)
def test_a_deployment_without_a_version_gets_this_decision(
    policy: Policy, facts: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert verdict(decided(policy, facts)) == expected


# Differences between releases.


@table(
    ("version", "facts", "expected"),
    [
        ("0.20.0", {"model_config": QWEN3}, ("v1", "not-default", [], [], {}, ["OPT-IN"])),
        ("0.21.0", {"model_config": QWEN3, "env": {NAME: "0"}}, ("v1", "not-default", [], [], {}, ["OPT-IN"])),
        ("0.21.0", {"model_config": QWEN3, "env": {NAME: "1"}}, ("v2", "override", [], [], {}, ["VARIABLE-TRUE"])),
        (
            "0.20.0",
            {"model_config": {**QWEN3, "has_inner_state": True}, "env": {NAME: "2"}, "speculative_config": {}},
            (
                "v2",
                "override",
                ["VLLM_USE_V2_MODEL_RUNNER does not yet support: hybrid/mamba models, speculative method 'None'"],
                ["hybrid/mamba models", "speculative method 'None'"],
                {},
                ["VARIABLE-TRUE", "mamba-align", "spec-method", "refuse-v2-unsupported"],
            ),
        ),
        (
            "0.22.0",
            {"model_config": QWEN3, "env": {NAME: "1"}, "platform": {"has_triton": False}},
            (
                "v2",
                "override",
                ["VLLM_USE_V2_MODEL_RUNNER requires Triton."],
                [],
                {},
                ["VARIABLE-TRUE", "no-triton", "refuse-v2-no-triton"],
            ),
        ),
        (
            "0.22.0",
            {"model_config": {"architectures": ["LlamaForCausalLM"]}},
            ("v1", "not-default", [], [], {}, ["ARCHITECTURE-ALLOWLIST"]),
        ),
        (
            "0.24.0",
            {"model_config": {"is_diffusion": True}},
            ("v2", "required", [], [], {}, ["FORCE-DIFFUSION", "architecture-allowlist"]),
        ),
        (
            "0.24.0",
            {"model_config": {"is_diffusion": True}, "kv_transfer_config": {}},
            (
                "v1",
                "fallback",
                [],
                [],
                {NAME: "0"},
                ["KV-CONNECTOR-FALLBACK", "force-diffusion", "architecture-allowlist"],
            ),
        ),
        ("0.25.0", {"model_config": QWEN3, "kv_transfer_config": {}}, ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"])),
        (
            "0.25.0",
            {"model_config": {"architectures": ["JambaForCausalLM"], "is_hybrid": True, "is_moe": True}},
            ("v1", "not-default", [], [], {}, ["HYBRID", "MOE"]),
        ),
        (
            "0.27.0",
            {
                "model_config": {"architectures": ["KimiK3ForConditionalGeneration"], "is_moe": True},
                "platform": {"is_rocm": True},
            },
            ("v1", "not-default", [], [], {}, ["MOE"]),
        ),
        (
            "0.27.0",
            {"model_config": {"architectures": ["KimiK3ForConditionalGeneration"], "is_moe": True}},
            ("v2", "default", [], [], {}, ["V2-BY-DEFAULT"]),
        ),
        (
            "0.28.0",
            {
                "model_config": {**QWEN3, "return_sampling_mask": True},
                "env": {NAME: "0"},
                "parallel_config": {"prefill_context_parallel_size": 2},
            },
            (
                "v1",
                "override",
                [
                    "sampling distribution replay requires Model Runner V2",
                    "Prefill context parallelism requires Model Runner V2. Remove VLLM_USE_V2_MODEL_RUNNER=0.",
                ],
                ["prefill context parallelism"],
                {},
                ["VARIABLE-FALSE", "force-pcp", "prefill-context-parallel", "refuse-sampling-mask", "refuse-v1-pcp"],
            ),
        ),
        (
            "0.30.0",
            {
                "model_config": QWEN3,
                "attention_config": {"hisparse_config": {}},
                "env": {NAME: "0"},
                "watermark_config": {},
                "parallel_config": {"enable_dbo": True},
            },
            (
                None,
                None,
                ["HiSparse requires Model Runner V2; remove VLLM_USE_V2_MODEL_RUNNER=0."],
                [],
                {},
                ["HISPARSE-VARIABLE-FALSE", "force-hisparse", "force-watermark", "variable-false"],
            ),
        ),
        (
            "0.31.0",
            {
                "model_config": {**QWEN3, "return_sampling_mask": True, "enable_trace_replay": True},
                "env": {NAME: "0"},
                "aux_output_config": {"enabled": True},
                "parallel_config": {"pipeline_parallel_size": 2},
                "scheduler_config": {"async_scheduling": True},
                "speculative_config": {"method": "dspark"},
            },
            (
                "v1",
                "override",
                [
                    "sampling distribution replay requires Model Runner V2",
                    "trace replay requires Model Runner V2",
                    (
                        "Model Runner V1 does not support: pipeline parallelism with async scheduling, dspark "
                        "speculative decoding"
                    ),
                    "AuxOutput Connector requires Model Runner V2; set VLLM_USE_V2_MODEL_RUNNER=1.",
                ],
                [],
                {},
                [
                    "VARIABLE-FALSE",
                    "v1-pp-async",
                    "v1-dspark",
                    "refuse-sampling-mask",
                    "refuse-trace-replay",
                    "refuse-v1-unsupported",
                    "refuse-aux-output",
                ],
            ),
        ),
        (
            "0.33.0",
            {
                "model_config": QWEN3,
                "env": {NAME: "1"},
                "platform": {"has_triton": False},
                "parallel_config": {"enable_dbo": True},
                "lora_config": {},
                "compilation_config": {"mode": "STOCK_TORCH_COMPILE", "cudagraph_mode": "PIECEWISE"},
            },
            (
                "v2",
                "override",
                [
                    "Model Runner V2 does not yet support: dual batch overlap with LoRA",
                    "Model Runner V2 requires Triton.",
                ],
                ["dual batch overlap with LoRA", "dual batch overlap with PIECEWISE CUDA graphs"],
                {},
                [
                    "VARIABLE-TRUE",
                    "no-triton",
                    "dbo-lora",
                    "dbo-piecewise",
                    "refuse-v2-unsupported",
                    "refuse-v2-no-triton-worker",
                    "advise-stock-compile-cudagraphs",
                ],
            ),
        ),
        (
            "0.33.0",
            {"model_config": QWEN3, "platform": {"has_triton": False, "is_unspecified": True}},
            (
                "v2",
                "default",
                ["Model Runner V2 requires Triton."],
                [],
                {},
                ["V2-BY-DEFAULT", "refuse-v2-no-triton-worker"],
            ),
        ),
    ],
)
def test_a_deployment_gets_this_decision_in_a_release(
    policy: Policy, version: str, facts: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert verdict(decided(policy, facts, version)) == expected


def test_a_reason_that_is_cleared_at_startup_lets_vllm_start(policy: Policy) -> None:
    facts = {
        "model_config": QWEN3,
        "env": {NAME: "1"},
        "parallel_config": {"enable_dbo": True},
        "compilation_config": {"mode": "STOCK_TORCH_COMPILE", "cudagraph_mode": "PIECEWISE"},
    }
    found = [decided(policy, facts, version) for version in ("0.31.0", "0.32.0")]
    assert [(decision.starts, decision.unsupported_features) for decision in found] == [
        (False, ["stock torch.compile", "dual batch overlap with PIECEWISE CUDA graphs"]),
        (True, ["dual batch overlap with PIECEWISE CUDA graphs"]),
    ]


# Warnings.

ROCM_DEEPSEEK = {
    "model_config": {"architectures": ["DeepseekV4ForCausalLM"], "is_moe": True},
    "platform": {"is_rocm": True},
}
REASONING = {"model_config": QWEN3, "reasoning_config": {}}
THINKING = (
    "Model Runner V2 does not yet support the thinking_token_budget request parameter. Set VLLM_USE_V2_MODEL_RUNNER=0 "
    "if this is required."
)
STOCK = {"model_config": QWEN3, "compilation_config": {"mode": "STOCK_TORCH_COMPILE", "cudagraph_mode": "PIECEWISE"}}
NO_TRITON = {"model_config": QWEN3, "platform": {"has_triton": False}}
TWO_FEATURES = {"model_config": {**QWEN3, "logits_processors": ["a:B"]}, "parallel_config": {"enable_dbo": True}}


@table(
    ("versions", "facts", "warnings"),
    [
        (["0.22.0", "0.22.1"], NO_TRITON, ["Model runner v2 requires Triton; using the v1 model runner instead."]),
        (
            ["0.23.0", "0.28.0", "0.33.0"],
            NO_TRITON,
            ["Model Runner V2 requires Triton; using the V1 model runner instead."],
        ),
        (
            ["0.22.0", "0.22.1"],
            TWO_FEATURES,
            [
                (
                    "Model runner v2 does not yet support dual batch overlap, custom logits processors; using the v1 "
                    "model runner instead."
                )
            ],
        ),
        (
            ["0.23.0", "0.30.0"],
            TWO_FEATURES,
            [
                (
                    "Model Runner V2 does not yet support dual batch overlap, custom logits processors; using the V1 "
                    "model runner instead."
                )
            ],
        ),
        (
            ["0.22.0"],
            REASONING,
            ["Model runner v2 does not yet support reasoning budget enforcement; using the v1 model runner instead."],
        ),
        (["0.23.0", "0.24.0", "0.25.1", "0.27.1"], REASONING, [THINKING]),
        (["0.28.0", "0.33.0"], REASONING, []),
        (["0.23.0", "0.27.1"], {**REASONING, "env": {NAME: "0"}}, []),
        (["0.23.0", "0.27.1"], {**REASONING, "env": {NAME: "1"}}, [THINKING]),
        (["0.23.0", "0.27.1"], {**REASONING, "env": {NAME: "1"}, "platform": {"has_triton": False}}, []),
        (["0.23.0", "0.27.1"], {**REASONING, "env": {NAME: "1"}, "parallel_config": {"enable_dbo": True}}, []),
        (
            ["0.29.0", "0.30.0", "0.31.0"],
            ROCM_DEEPSEEK,
            ["Defaulting to V1 model runner on ROCm for model architectures: DeepseekV4ForCausalLM"],
        ),
        (
            ["0.29.0", "0.30.0"],
            {**ROCM_DEEPSEEK, "parallel_config": {"enable_batch_sharded_sampling": True}},
            ["Defaulting to V1 model runner on ROCm for model architectures: DeepseekV4ForCausalLM"],
        ),
        (
            ["0.31.0"],
            {
                **ROCM_DEEPSEEK,
                "parallel_config": {"enable_batch_sharded_sampling": True, "prefill_context_parallel_size": 2},
            },
            [
                (
                    "Skipping the ROCm V1 model runner default for DeepseekV4ForCausalLM: V1 does not support prefill "
                    "context parallel, batch-sharded sampling."
                ),
            ],
        ),
        (
            ["0.31.0"],
            {**ROCM_DEEPSEEK, "parallel_config": {"enable_batch_sharded_sampling": True}, "env": {NAME: "1"}},
            [],
        ),
        (["0.28.0", "0.32.0"], ROCM_DEEPSEEK, []),
        (
            ["0.30.0", "0.33.0"],
            {"model_config": QWEN3, "watermark_config": {}, "env": {NAME: "0"}},
            ["Watermarking requires Model Runner V2 and overrides VLLM_USE_V2_MODEL_RUNNER=0."],
        ),
        (["0.30.0", "0.33.0"], {"model_config": QWEN3, "watermark_config": {}}, []),
        (
            ["0.30.0"],
            {
                "model_config": QWEN3,
                "watermark_config": {},
                "env": {NAME: "0"},
                "attention_config": {"hisparse_config": {}},
            },
            [],
        ),
        (
            ["0.32.0", "0.33.0"],
            STOCK,
            [
                (
                    "CUDA graphs are not supported with stock torch.compile in Model Runner V2. Overriding "
                    "cudagraph_mode PIECEWISE to NONE."
                )
            ],
        ),
        (["0.32.0"], {**STOCK, "compilation_config": {"mode": "STOCK_TORCH_COMPILE", "cudagraph_mode": "NONE"}}, []),
        (["0.32.0"], {**STOCK, "env": {NAME: "0"}}, []),
        (
            ["0.31.0"],
            STOCK,
            ["Model Runner V2 does not yet support stock torch.compile; using the V1 model runner instead."],
        ),
    ],
)
def test_the_warnings_are_those_that_vllm_logs(
    policy: Policy, versions: list[str], facts: dict[str, Any], warnings: list[str]
) -> None:
    assert {version: decided(policy, facts, version).warnings for version in versions} == dict.fromkeys(
        versions, warnings
    )


@pytest.mark.parametrize(
    ("version", "members", "warnings"),
    [
        ("0.24.1", {}, ["vLLM 0.24.1 was not checked against these rules; decided as 0.24.0"]),
        ("v0.24.0rc1+cu128", {}, ["vLLM v0.24.0rc1+cu128 was not checked against these rules; decided as 0.24.0"]),
        ("1.0", {"beyond_verified": "nearest"}, ["vLLM 1.0 was not checked against these rules; decided as 0.33.0"]),
        ("0.24.0+cu128", {}, []),
        (None, {}, []),
    ],
)
def test_an_unverified_release_has_a_warning(
    policy: Policy, version: str | None, members: dict[str, Any], warnings: list[str]
) -> None:
    assert decided(policy, {"model_config": QWEN3}, version, **members).warnings == warnings


OVERDUE = ["the house rule `kv-connector-fallback` was due for review by 2027-06-30; its owner is inference-platform"]


@table(
    ("today", "facts", "layers", "warnings"),
    [
        (date(2027, 6, 30), {"kv_transfer_config": {}}, None, []),
        (date(2027, 7, 1), {"kv_transfer_config": {}}, None, OVERDUE),
        (date(2030, 1, 1), {"kv_transfer_config": {}}, None, OVERDUE),
        (date(2030, 1, 1), {"kv_transfer_config": {}, "env": {NAME: "1"}}, None, OVERDUE),
        (date(2030, 1, 1), {"kv_transfer_config": {}}, ["upstream"], []),
        (date(2030, 1, 1), {}, None, []),
    ],
    ids=[
        "on the day",
        "the day after",
        "years after",
        "it decided nothing",
        "upstream alone",
        "it did not fire",
    ],
)
def test_a_house_rule_past_its_review_date_has_a_warning(
    policy: Policy, today: date, facts: dict[str, Any], layers: list[str] | None, warnings: list[str]
) -> None:
    assert decided(policy, facts, today=today, layers=layers).warnings == warnings


def test_warnings_come_in_this_order(policy: Policy) -> None:
    facts = {
        "model_config": QWEN3,
        "kv_transfer_config": {},
        "reasoning_config": {},
        "env": {NAME: "1"},
    }
    assert decided(policy, facts, "0.23.9", date(2030, 1, 1)).warnings == [
        THINKING,
        "vLLM 0.23.9 was not checked against these rules; decided as 0.23.0",
        *OVERDUE,
    ]


# Layers.


@pytest.mark.parametrize("layers", [None, ["upstream", "house"], ["upstream"]])
def test_the_upstream_layer_alone_excludes_house_rules(policy: Policy, layers: list[str] | None) -> None:
    decision = decided(policy, {"model_config": QWEN3, "kv_transfer_config": {}}, layers=layers)
    expected = (
        ("v2", {}, ["v2-by-default"]) if layers == ["upstream"] else ("v1", {NAME: "0"}, ["kv-connector-fallback"])
    )
    assert (decision.runner, decision.set_env, [reason.rule for reason in decision.reasons]) == expected


def house(name: str, effect: str, when: Any, **members: Any) -> str:
    """A house rule for every release."""
    part = {"vllm": ">=0.20", "text" if effect == "advise" else "message": f"message of {name}", "when": when}
    rule = {
        "id": name,
        "title": "A house rule",
        "effect": effect,
        "owner": "tests",
        "review_by": "2040-01-01",
        "blocked_by": "nothing",
        "why": "For the test.",
        "references": ["https://example.org"],
        **members,
        "releases": [part],
    }
    return json.dumps(rule)


@cache
def policy_of(texts: tuple[tuple[str, str], ...]) -> Policy:
    return Policy(load(Sources(dict(texts))))


def with_house(sources: Sources, *rules: str) -> Policy:
    return policy_of(tuple(overlay(sources.rules, list(rules), [])[0].items()))


FORCE_V2 = house("wants-v2", "force-v2", {"model_config": "present"})
FALLBACK_V1 = house("wants-v1", "fallback-v1", {"model_config": "present"})


@table(
    ("rules", "version", "facts", "expected"),
    [
        ([FORCE_V2], "0.20.0", {"model_config": {}}, ("v2", "required", [], [], {NAME: "1"}, ["WANTS-V2", "opt-in"])),
        (
            [FORCE_V2],
            "0.20.0",
            {"model_config": {}, "env": {NAME: "0"}},
            ("v2", "required", [], [], {NAME: "1"}, ["WANTS-V2", "opt-in"]),
        ),
        (
            [FORCE_V2],
            "0.23.0",
            {"model_config": {}},
            ("v2", "required", [], [], {NAME: "1"}, ["WANTS-V2", "architecture-allowlist"]),
        ),
        ([FORCE_V2], "0.23.0", {"model_config": QWEN3}, ("v2", "required", [], [], {}, ["WANTS-V2"])),
        (
            [FORCE_V2],
            "0.23.0",
            {"model_config": QWEN3, "env": {NAME: "0"}},
            ("v1", "override", [], [], {}, ["VARIABLE-FALSE", "wants-v2"]),
        ),
        (
            [FORCE_V2],
            "0.23.0",
            {"model_config": QWEN3, "parallel_config": {"enable_dbo": True}},
            (
                "v2",
                "required",
                ["Model Runner V2 does not yet support: dual batch overlap"],
                ["dual batch overlap"],
                {NAME: "1"},
                ["WANTS-V2", "dual-batch-overlap", "refuse-v2-unsupported"],
            ),
        ),
        (
            [FORCE_V2],
            "0.30.0",
            {"model_config": QWEN3, "parallel_config": {"enable_dbo": True}},
            ("v2", "required", [], ["dual batch overlap"], {NAME: "1"}, ["WANTS-V2", "dual-batch-overlap"]),
        ),
        (
            [FORCE_V2],
            "0.24.0",
            {"model_config": {**QWEN3, "has_inner_state": True}, "cache_config": {"mamba_cache_mode": "align"}},
            (
                "v2",
                "required",
                [
                    "Model Runner V2 does not yet support: hybrid/mamba models with align cache mode",
                    "Model Runner V2 has not yet supported mamba_cache_mode='align'. ",
                ],
                ["hybrid/mamba models with align cache mode"],
                {NAME: "1"},
                ["WANTS-V2", "mamba-align", "refuse-v2-unsupported", "refuse-mamba-align"],
            ),
        ),
        (
            [FALLBACK_V1, FORCE_V2],
            "0.33.0",
            {"model_config": {}},
            ("v1", "fallback", [], [], {NAME: "0"}, ["WANTS-V1", "wants-v2"]),
        ),
        (
            [FALLBACK_V1],
            "0.33.0",
            {"model_config": {"is_diffusion": True}},
            (
                "v1",
                "fallback",
                ["Model Runner V1 does not support: diffusion models"],
                [],
                {NAME: "0"},
                ["WANTS-V1", "v1-diffusion", "refuse-v1-unsupported"],
            ),
        ),
        (
            [FALLBACK_V1],
            "0.33.0",
            {"model_config": {}, "watermark_config": {}},
            ("v2", "required", [], [], {}, ["FORCE-WATERMARK", "wants-v1"]),
        ),
        (
            [FALLBACK_V1],
            "0.33.0",
            {"model_config": {}, "env": {NAME: "x"}},
            (None, None, ["invalid literal for int() with base 10: 'x'"], [], {}, ["VARIABLE-MALFORMED"]),
        ),
    ],
)
def test_house_rules_take_precedence_over_upstream_but_not_over_the_variable(
    sources: Sources, rules: list[str], version: str, facts: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert verdict(decided(with_house(sources, *rules), facts, version)) == expected


def test_a_house_advisory_may_depend_on_a_house_rule(sources: Sources) -> None:
    policy = with_house(
        sources, FALLBACK_V1, house("says-so", "advise", "always", decided_by="wants-v1", unless="exclude-v2")
    )
    facts: list[dict[str, Any]] = [
        {"model_config": QWEN3},
        {},
        {"model_config": QWEN3, "parallel_config": {"enable_dbo": True}},
    ]
    assert [decided(policy, document).warnings for document in facts] == [["message of says-so"], [], []]


def test_the_upstream_decision_is_that_of_vllm_alone(sources: Sources) -> None:
    decision = decided(with_house(sources, FORCE_V2), {"model_config": {}, "parallel_config": {"enable_dbo": True}})
    assert msgspec.to_builtins(decision.upstream) == {
        "runner": "v1",
        "outcome": "not-default",
        "starts": True,
        "startup_errors": [],
    }


def test_a_cached_reason_is_not_used_for_another_deployment(sources: Sources) -> None:
    part = {
        "vllm": ">=0.23",
        "text": "{parallel_config.ubatch_size} microbatches",
        "when": {f"env.{NAME}": True, "parallel_config.ubatch_size": {"at_least": 1}},
    }
    refusal = {
        "id": "counts",
        "title": "It shows a value",
        "effect": "refuse-v2",
        "order": 5000,
        "why": "For the test.",
        "references": ["https://example.org"],
    }
    policy = with_house(sources, FORCE_V2, json.dumps({**refusal, "releases": [part]}))
    for size in (1, 2, 1, 2, 1, 2, 3):
        facts = {"model_config": {}, "parallel_config": {"ubatch_size": size}}
        decision = decided(policy, facts)
        assert decision.startup_errors == [f"{size} microbatches"]
        assert [
            reason.facts["parallel_config.ubatch_size"] for reason in decision.reasons if reason.rule == "counts"
        ] == [size]
        assert fast_answer(policy, facts) == without_id(decision)


def fast_answer(policy: Policy, facts: dict[str, Any]) -> dict[str, Any]:
    """The answer of the fast path, without its id."""
    request = decode_fast(json.dumps({"facts": facts}).encode(), policy.releases)
    assert request
    answer = policy.answer(request, TODAY)
    assert answer.decision is None, "assembled in full"
    found: dict[str, Any] = json.loads(answer.json)
    del found["decision_id"]
    return found


def without_id(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(decision))
    del found["decision_id"]
    return found


def test_an_upstream_refusal_also_applies_if_the_house_decides_the_same_runner(sources: Sources) -> None:
    refusal = {
        "id": "no-v2",
        "title": "No V2",
        "effect": "refuse-v2",
        "order": 5000,
        "why": "For the test.",
        "references": ["https://example.org"],
    }
    no_v2 = json.dumps(
        {
            **refusal,
            "unless": "wants-v2",
            "releases": [{"vllm": ">=0.23", "text": "no V2 here", "when": {"model_config": "present"}}],
        }
    )
    policy = with_house(sources, FORCE_V2, no_v2)
    decision = decided(policy, {"model_config": QWEN3})
    assert (decision.runner, decision.starts, decision.startup_errors, decision.set_env) == (
        "v2",
        False,
        ["no V2 here"],
        {},
    )
    assert fast_answer(policy, {"model_config": QWEN3}) == without_id(decision)


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([[1, 8, 3], [9, 64, 1]], "[1, 8, 3], [9, 64, 1]"),
        (["a", 2], "a, 2"),
        ([{"from": [1]}, [[1]], None], "{'from': [1]}, [[1]], None"),
        ([], ""),
    ],
)
def test_the_items_of_a_list_are_shown_as_they_were_sent(sources: Sources, items: list[Any], text: str) -> None:
    name = "speculative_config.num_speculative_tokens_per_batch_size"
    policy = with_house(
        sources, house("sizes", "advise", {name: "present"}).replace("message of sizes", f"sizes: {{{name}}}")
    )
    decision = decided(
        policy, {"model_config": {}, "speculative_config": {"num_speculative_tokens_per_batch_size": items}}
    )
    assert decision.warnings == [f"sizes: {text}"]
    assert [reason.facts[name] for reason in decision.reasons if reason.rule == "sizes"] == [items]


# The default release.


def test_the_default_release_can_be_another_one(catalogue: Catalogue) -> None:
    decision = decided(Policy(catalogue, "v0.25.1"), {"model_config": {"architectures": ["OPTForCausalLM"]}})
    assert (decision.runner, decision.vllm_version, decision.release.decided_as, decision.release.defaulted) == (
        "v2",
        "0.25.1",
        "0.25.1",
        True,
    )


def test_releases_with_the_same_rules_share_a_ruleset(policy: Policy) -> None:
    assert all(policy.ruleset(group[0]) is policy.ruleset(release) for group in EQUIVALENT for release in group)
    distinct = len({id(policy.ruleset(release)) for release in policy.releases.known})
    assert distinct == len(policy.releases.known) - sum(len(group) - 1 for group in EQUIVALENT)


def test_an_unknown_default_release_is_refused(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownRelease):
        Policy(catalogue, "9.9")


# Explanations.


def explained(policy: Policy, facts: dict[str, Any], version: str | None = None, **members: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(decided(policy, facts, version, explain=True, **members))
    return found


def test_an_explanation_is_given_only_on_request(policy: Policy) -> None:
    plain, full = (msgspec.to_builtins(decided(policy, {}, explain=explain)) for explain in (False, True))
    added = ["trace", "assumptions", "alternative", "remedies", "v2_from", "v2_path"]
    assert [name for name in full if name not in plain] == added


@table(
    ("facts", "version", "rule", "fired", "failed"),
    [
        ({"model_config": QWEN3}, "0.23.0", "v2-by-default", True, []),
        ({"model_config": {}}, "0.23.0", "v2-by-default", False, [("decided_by", "default-v2", "not-default")]),
        ({"model_config": QWEN3}, "0.23.0", "moe", False, [("model_config.is_moe", True, False)]),
        ({}, "0.23.0", "moe", False, [("model_config", "present", "absent")]),
        ({}, "0.23.0", "parallel-drafting", False, [("speculative_config", "present", "absent")]),
        ({"model_config": {}}, "0.23.0", "no-model-config", False, [("model_config", "absent", "present")]),
        (
            {"model_config": QWEN3},
            "0.23.0",
            "architecture-allowlist",
            False,
            [
                (
                    "model_config.architectures",
                    {"has_none_of": ["LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"]},
                    ["Qwen3ForCausalLM"],
                )
            ],
        ),
        (
            {"parallel_config": {"tensor_parallel_size": 2}},
            "0.23.0",
            "sequence-parallel",
            False,
            [("compilation_config.pass_config.enable_sp", True, False)],
        ),
        (
            {},
            "0.23.0",
            "prefill-context-parallel",
            False,
            [("parallel_config.prefill_context_parallel_size", {"at_least": 2}, 1)],
        ),
        (
            {"speculative_config": {"method": "mtp"}},
            "0.23.0",
            "spec-ngram",
            False,
            [("speculative_config.method", {"in": ["ngram", "ngram_gpu"]}, "mtp")],
        ),
        (
            {"model_config": {}},
            "0.23.0",
            "logits-processors",
            False,
            [("model_config.logits_processors", "not_empty", None), ("plugins.logits_processors", "not_empty", [])],
        ),
        ({}, "0.23.0", "variable-malformed", False, [("env.VLLM_USE_V2_MODEL_RUNNER", "malformed", None)]),
        ({"env": {NAME: "x"}}, "0.23.0", "variable-true", False, [("env.VLLM_USE_V2_MODEL_RUNNER", True, "x")]),
        ({"env": {NAME: "x"}}, "0.23.0", "no-model-config", False, [("decided_by", "not-default", "invalid")]),
        (
            {"env": {NAME: "1"}},
            "0.30.0",
            "dual-batch-overlap",
            False,
            [("parallel_config.enable_dbo", True, False), ("parallel_config.ubatch_size", {"at_least": 2}, 0)],
        ),
        (
            {"parallel_config": {"enable_dbo": True}, "env": {NAME: "1"}},
            "0.30.0",
            "dual-batch-overlap",
            False,
            [("env.VLLM_USE_V2_MODEL_RUNNER", "absent", True)],
        ),
        ({"platform": {"has_triton": False}}, "0.23.0", "refuse-v2-no-triton", False, [("runner", "v2", "v1")]),
        ({"env": {NAME: "1"}}, "0.23.0", "refuse-v2-unsupported", False, [("requires_any", ["exclude-v2"], [])]),
        (
            {"env": {NAME: "1"}, "platform": {"has_triton": False}, "parallel_config": {"enable_dbo": True}},
            "0.23.0",
            "refuse-v2-unsupported",
            False,
            [("unless", ["refuse-v2-no-triton"], ["refuse-v2-no-triton"])],
        ),
        ({"model_config": QWEN3}, "0.23.0", "advise-no-triton", False, [("decided_by", ["no-triton"], "default-v2")]),
        (
            {**ROCM_DEEPSEEK, "speculative_config": {"method": "dspark"}},
            "0.31.0",
            "rocm-default-v1",
            False,
            [("unless", ["exclude-v1"], ["exclude-v1"])],
        ),
        (
            {
                "speculative_config": {
                    "method": "dflash",
                    "draft_model_config": {"hf_config": {"layer_types": ["sliding_attention"]}},
                }
            },
            "0.26.0",
            "force-dflash-mixed",
            False,
            [
                (
                    "speculative_config.draft_model_config.hf_config.layer_types",
                    {"has_other_than": ["sliding_attention"]},
                    ["sliding_attention"],
                )
            ],
        ),
        (
            {"model_config": {"architectures": ["Other", "Step5ForCausalLM"]}},
            "0.33.0",
            "v1-step5",
            False,
            [
                (
                    "model_config.architectures",
                    {"first_is_in": ["Step5ForCausalLM", "Step5ForConditionalGeneration"]},
                    ["Other", "Step5ForCausalLM"],
                )
            ],
        ),
        (
            {"speculative_config": {"is_xpress": True, "method": "dspark"}},
            "0.33.0",
            "v1-xpress",
            False,
            [("speculative_config.method", {"is_not": "dspark"}, "dspark")],
        ),
    ],
)
def test_a_rule_is_traced_to_the_first_condition_that_failed(
    policy: Policy,
    facts: dict[str, Any],
    version: str,
    rule: str,
    fired: bool,  # noqa: FBT001  # a table's column
    failed: list[tuple[str, Any, Any]],
) -> None:
    traced = {item["rule"]: item for item in explained(policy, facts, version)["trace"]}[rule]
    assert (traced["fired"], [(item["fact"], item["expected"], item["actual"]) for item in traced["failed"]]) == (
        fired,
        failed,
    )


def test_an_unresolved_reference_cannot_be_explained() -> None:
    with pytest.raises(AssertionError):
        failures(Ref("microbatching", negated=False, line=1, column=1), [])


def test_refusals_are_traced_with_the_variable_of_set_env(sources: Sources) -> None:
    facts = {"model_config": QWEN3, "parallel_config": {"enable_dbo": True}}
    found = explained(with_house(sources, FORCE_V2), facts)
    assert {item["rule"] for item in found["trace"] if item["fired"]} == {
        "wants-v2",
        "dual-batch-overlap",
        "refuse-v2-unsupported",
    }


def test_facts_that_are_not_stated_are_assumptions_with_the_values_that_matter(policy: Policy) -> None:
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"], "runner_type": "generate", "is_moe": False}}
    found = {item["fact"]: item for item in explained(policy, facts)["assumptions"]}
    v1, own = {"runner": "v1", "starts": True}, {"runner": None, "starts": True}
    assert {name: item["would_change"] for name, item in found.items() if item["would_change"]} == {
        "env.VLLM_USE_V2_MODEL_RUNNER": {"0": v1},
        "platform.has_triton": {"false": v1},
        "platform.is_tpu": {"true": own},
        "platform.plugin": dict.fromkeys(PLATFORM_PLUGINS, own),
        "omni": {"true": own},
        "plugins.logits_processors": {"not empty": v1},
        "model_config.is_quantized": {"true": v1},
        "model_config.logits_processors": {"not empty": v1},
        "model_config.enable_prompt_embeds": {"true": v1},
        "model_config.enable_return_routed_experts": {"true": v1},
        "model_config.logprobs_mode": {"raw_logits": v1, "processed_logits": v1},
        "parallel_config.prefill_context_parallel_size": {"2": v1},
        "parallel_config.enable_dbo": {"true": v1},
        "speculative_config": {"present": v1},
        "cache_config.kv_sharing_fast_prefill": {"true": v1},
        "compilation_config.mode": {"STOCK_TORCH_COMPILE": v1},
        "kv_transfer_config": {"present": v1},
        "ec_transfer_config": {"present": v1},
    }
    assert found["platform.has_triton"] == {
        "fact": "platform.has_triton",
        "assumed": True,
        "why": "not stated",
        "would_change": {"false": v1},
    }
    assert found["reasoning_config"] == {
        "fact": "reasoning_config",
        "assumed": False,
        "why": "not stated",
        "would_change": {},
    }


@pytest.mark.parametrize(
    ("facts", "version", "fact", "would_change"),
    [
        (
            {"model_config": QWEN3},
            "0.23.0",
            "model_config.runner_type",
            {"pooling": {"runner": "v1", "starts": True}, "draft": {"runner": "v1", "starts": True}},
        ),
        (
            {"model_config": {"is_moe": True}, "speculative_config": {"method": "dflash", "draft_model_config": {}}},
            "0.26.0",
            "speculative_config.draft_model_config.hf_config.layer_types",
            {"sliding_attention, …": {"runner": "v2", "starts": True}},
        ),
        (
            {"model_config": QWEN3, "env": {NAME: "0"}},
            "0.33.0",
            "speculative_config",
            {},
        ),
        (
            {"model_config": QWEN3, "speculative_config": {}},
            "0.33.0",
            "speculative_config.method",
            {"suffix": {"runner": "v1", "starts": True}, "custom_class": {"runner": "v1", "starts": True}},
        ),
    ],
    ids=["a choice", "a list with two kinds", "nothing", "a choice that may be null"],
)
def test_an_assumption_lists_the_values_that_would_change_the_answer(
    policy: Policy, facts: dict[str, Any], version: str, fact: str, would_change: dict[str, Any]
) -> None:
    found = {item["fact"]: item["would_change"] for item in explained(policy, facts, version)["assumptions"]}
    assert found[fact] == would_change


def test_fields_of_an_absent_object_are_not_assumptions(policy: Policy) -> None:
    names = [item["fact"] for item in explained(policy, {})["assumptions"]]
    assert [
        name for name in names if name.startswith(("model_config", "speculative_config", "kv_transfer_config"))
    ] == [
        "model_config",
        "speculative_config",
        "kv_transfer_config",
    ]
