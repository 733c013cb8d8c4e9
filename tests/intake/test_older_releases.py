"""Deployments on releases before 0.20, whose decisions do not depend on the model."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except
from tables import table

from policy.checks.candidate import overlay
from policy.errors import RequestInvalid
from policy.intake.command.flags import flags
from policy.intake.derive.without_models import has_models
from policy.intake.model.tables import releases_with_flags
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.decision.decision import Decision

V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
MALFORMED = "invalid literal for int() with base 10: 'yes'"
NOT_CHECKED = (
    "vLLM {} is older than the releases whose models are known: the decision does not depend on the model, and whether "
    "this vLLM can load it is not checked"
)
V0_ONLY = (
    "this release has the V0 engine alone, whose model runner is neither V1 nor V2; that the decision is V1 means only "
    "that it is not V2"
)
V0_DEFAULT = (
    "VLLM_USE_V1 is not set, so vLLM starts its V0 engine, whose model runner is neither V1 nor V2; this decision is "
    "for the V1 engine"
)
ENGINE_CHOICE = (
    "VLLM_USE_V1 is not set, so vLLM may start its V0 engine, whose model runner is neither V1 nor V2, if the V1 "
    "engine lacks something that is needed; this decision is for the V1 engine"
)
V0_ENGINE = (
    "VLLM_USE_V1=0 starts the V0 engine, whose model runner is neither V1 nor V2; this decision is for the V1 engine"
)
UNREAD = "vLLM {} does not read the variable `VLLM_USE_V1`; 0.6.4 to 0.11.0 read it"
"""The warning of the table of variables, after that of the models."""
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
    deployment = {"args": ["--model", "org/model", *args], "env": env or {}, **fields}
    request = read_request({"vllm_version": release, "deployment": deployment}, policy.releases)
    return policy.decide(request, date(2026, 1, 1))


@table(
    ("release", "env", "runner", "errors", "warnings"),
    [
        ("0.3.0", {}, "v1", [], [V0_ONLY]),
        ("0.4.2", {"VLLM_USE_V1": "yes"}, "v1", [], [V0_ONLY, UNREAD]),
        ("0.5.5", {"VLLM_USE_V1": None}, "v1", [], [V0_ONLY]),
        ("0.6.3.post1", {"VLLM_USE_V1": "1", **V2}, "v1", [], [V0_ONLY, NOT_READ, UNREAD]),
        ("0.6.4", {}, "v1", [], [V0_DEFAULT]),
        ("0.6.6.post1", {"VLLM_USE_V1": "yes"}, None, [MALFORMED], []),
        ("0.7.3", {"VLLM_USE_V1": "0"}, "v1", [], [V0_ENGINE]),
        ("0.7.3", {"VLLM_USE_V1": "1"}, "v1", [], []),
        ("0.8.0", {}, "v1", [], [ENGINE_CHOICE]),
        ("0.8.5.post1", {"VLLM_USE_V1": "0"}, "v1", [], [V0_ENGINE]),
        ("0.9.0", {}, "v1", [], [ENGINE_CHOICE]),
        ("0.9.0.1", {"VLLM_USE_V1": "1"}, "v1", [], []),
        ("0.10.1.1", {"VLLM_USE_V1": "0"}, "v1", [], [V0_ENGINE]),
        ("0.10.2", {"VLLM_USE_V1": "yes"}, None, [MALFORMED], []),
        ("0.10.2", {"VLLM_USE_V1": "1", **V2}, "v1", [], [NOT_READ]),
        ("0.11.0", {}, "v1", [], []),
        ("0.11.0", {"VLLM_USE_V1": "0"}, "v1", ["assert envs.VLLM_USE_V1"], []),
        ("0.11.1", {"VLLM_USE_V1": "0"}, "v1", [], [UNREAD]),
        ("0.11.2", {"VLLM_USE_V2_MODEL_RUNNER": "yes"}, "v1", [], [NOT_READ]),
        ("0.12.0", {}, "v1", [], []),
        ("0.12.0", {"VLLM_USE_V2_MODEL_RUNNER": "yes"}, None, [MALFORMED], []),
        ("0.12.0", V2, "v2", [], [ATTENTION]),
        ("0.14.1", {"VLLM_USE_V1": "0", **V2}, "v2", [], [ATTENTION, UNREAD]),
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
    of_rules = [warning for warning in warnings if warning != UNREAD]
    of_variables = [UNREAD.format(release)] if UNREAD in warnings else []
    expected = [*of_rules, NOT_CHECKED.format(release), *of_variables]
    assert (decision.warnings, decision.launch_errors) == (expected, [])


@table(
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


def house_rule(name: str, when: Any) -> str:
    rule = {
        "id": name,
        "title": "A house rule",
        "effect": "advise",
        "owner": "tests",
        "review_by": "2040-01-01",
        "blocked_by": "nothing",
        "why": "For the test.",
        "references": ["https://example.org"],
        "releases": [{"vllm": ">=0.11", "text": "a text", "when": when}],
    }
    return json.dumps(rule)


def test_a_rule_that_reads_what_is_not_derived_is_named(sources: Sources) -> None:
    read = {
        "of-lora": {"any": [{"lora_config": "present"}, {"model_config.is_moe": True}]},
        "of-method": {"speculative_config.method": "eagle"},
        "of-triton": {"platform.has_triton": False},
        "of-tensors": {"parallel_config.tensor_parallel_size": {"at_least": 5}},
    }
    rules = [house_rule(name, when) for name, when in read.items()]
    policy = Policy(load(Sources(overlay(sources.rules, rules, [])[0])))
    text = "the rule `{}` reads {}, not derived from deployments of vLLM {} and so assumed to be the default; ask with "
    texts = {
        release: [
            each for each in decided(policy, release, "--enable-lora", "-tp", "2").warnings if each.startswith("the r")
        ]
        for release in ("0.11.2", "0.18.0")
    }
    lora = "`lora_config`, `model_config.is_moe`"
    assert texts == {
        "0.11.2": [
            text.format("of-lora", lora, "0.11.2") + "`facts` to state it",
            text.format("of-method", "`speculative_config.method`", "0.11.2") + "`facts` to state it",
            text.format("of-triton", "`platform.has_triton`", "0.11.2") + "`facts` to state it",
        ],
        "0.18.0": [
            text.format("of-lora", lora, "0.18.0") + "`facts` to state it",
            text.format("of-triton", "`platform.has_triton`", "0.18.0") + "`facts` to state it",
        ],
    }
    body = {"vllm_version": "0.18.0", "layers": ["upstream"], "deployment": {"args": ["--model", "org/model"]}}
    assert policy.decide(read_request(body, policy.releases), date(2026, 1, 1)).warnings == [
        NOT_CHECKED.format("0.18.0")
    ]


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


@table(
    ("release", "args", "launch_errors"),
    [
        ("0.3.2", ["--max-model-len", "4096", "--block-size", "16", "-tp", "2", "--lora-modules", "a=b", "c=d"], []),
        ("0.4.0", ["--enable-chunked-prefill", "yes"], []),
        ("0.5.0", ["--max-model", "4096"], []),
        (
            "0.5.0.post1",
            ["--max_model_len", "4096"],
            ["vLLM 0.5.0.post1 has no flag `--max_model_len` (args[2]) and would not start; 0.5.1 to 0.33.0 have it"],
        ),
        ("0.5.1", ["--max_model_len", "4096"], []),
        (
            "0.3.2",
            ["-O3"],
            ["vLLM 0.3.2 has no flag `-O3` (args[2]) and would not start"],
        ),
        ("0.6.5", ["-O3"], []),
        ("0.7.3", ["-O", "{'level': 3}"], []),
        ("0.6.1", ["--enable-chunked-prefill", "--quantization", "awq"], []),
        ("0.6.1", ["--enable-chunked-prefill", "False", "--quantization", "None"], []),
        ("0.8.4", ["--limit-mm-per-prompt", "image=2,VIDEO = 1", "--enable-expert-parallel"], []),
        ("0.8.4", ["--limit-mm-per-prompt", "", "--no-enable-prefix-caching"], []),
        (
            "0.8.4",
            ["--no-enable-expert-parallel"],
            [
                (
                    "vLLM 0.8.4 has no flag `--no-enable-expert-parallel` (args[2]) and would not start; "
                    "0.8.5 to 0.33.0 have it"
                )
            ],
        ),
        (
            "0.8.5",
            ["--kv-transfer-config.kv_role", "kv_both"],
            [
                (
                    "vLLM 0.8.5 has no flag `--kv-transfer-config.kv_role` (args[2]) and would not start; did you mean "
                    "`--kv-transfer-config`?"
                )
            ],
        ),
        (
            "0.5.5",
            ["--config", "file.yaml"],
            ["vLLM 0.5.5 has no flag `--config` (args[2]) and would not start; 0.6.0 to 0.33.0 have it"],
        ),
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
            [
                (
                    "vLLM 0.10.1 has no flag `--enable-reasoning` (args[2]) and would not start; 0.7.1 to 0.9.2 "
                    "have it; use `--reasoning-parser` instead"
                )
            ],
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


MODULE = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
NO_SERVE = (
    "vLLM {} has no command `vllm serve` and would not start; 0.5.2 is the first that has it; start "
    "`python -m vllm.entrypoints.openai.api_server --model MODEL` instead"
)
NO_MODEL = "`vllm serve` of vLLM {} does not take the model by `--model` and would not start; write `vllm serve MODEL`"


@table(
    ("release", "command", "launch_error"),
    [
        ("0.3.2", ["vllm", "serve", "m"], NO_SERVE),
        ("0.5.1", ["vllm", "serve", "m"], NO_SERVE),
        ("0.5.2", ["vllm", "serve", "m"], None),
        ("0.5.2", ["vllm", "serve", "--model", "m"], NO_MODEL),
        ("0.8.2", ["vllm", "serve", "--model=m"], NO_MODEL),
        ("0.8.2", ["vllm", "serve", "$MODEL"], None),
        ("0.8.3", ["vllm", "serve", "--model", "m"], NO_MODEL),
        ("0.8.3", ["vllm", "serve", "--model=m"], None),
        ("0.8.3", ["vllm", "serve"], None),
        ("0.11.0", ["vllm", "serve", "--model", "m"], NO_MODEL),
        ("0.11.1", ["vllm", "serve", "--model", "m"], None),
        *((release, [*MODULE, "--model", "m"], None) for release in ("0.3.0", "0.5.2", "0.8.5", "0.11.0")),
        *((release, ["--model", "m"], None) for release in ("0.3.0", "0.5.2", "0.8.5", "0.11.0")),
        *((release, ["org/model"], None) for release in ("0.3.0", "0.5.2", "0.8.5", "0.11.0")),
    ],
)
def test_vllm_serve_takes_the_model_where_the_release_does(
    policy: Policy, release: str, command: list[str], launch_error: str | None
) -> None:
    script = " ".join(command)
    forms: list[Any] = [command, script, *([["sh", "-c", script]] if "vllm" in script else [])]
    for args in forms:
        deployment = {"args": args, "env": {"MODEL": "org/model"}}
        request = read_request({"vllm_version": release, "deployment": deployment}, policy.releases)
        found = policy.decide(request, date(2026, 1, 1)).launch_errors
        assert found == ([] if launch_error is None else [launch_error.format(release)]), args


@table(
    ("module", "starts", "not_in"),
    [
        ("vllm serve", [], ["0.6.0", "0.20.0", "0.33.0"]),
        ("vllm.entrypoints.cli serve", [], ["0.8.5", "0.33.0"]),
        ("vllm.scripts serve", ["0.5.2", "0.7.2"], ["0.7.3", "0.8.0", "0.20.2", "0.31.0", "0.33.0"]),
        ("vllm.entrypoints.cli.main serve", ["0.7.3", "0.20.0"], ["0.7.2"]),
        ("vllm.entrypoints.api_server --model", ["0.3.0", "0.20.2"], ["0.25.0", "0.33.0"]),
        ("vllm.entrypoints.grpc_server --model", ["0.14.0", "0.20.2"], ["0.13.0"]),
        ("vllm.entrypoints.launchers.api_server.entry --model", [], ["0.20.2", "0.28.0"]),
        ("vllm.entrypoints.launchers.grpc_server --model", [], ["0.20.2", "0.29.0"]),
        ("vllm.entrypoints.openai.api_server --model", ["0.3.0", "0.20.2"], []),
    ],
)
def test_a_module_starts_the_server_in_the_releases_that_have_it(
    policy: Policy, module: str, starts: list[str], not_in: list[str]
) -> None:
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    args = ["python3", "-m", *module.split(), "org/model"]
    for release in [*starts, *not_in]:
        deployment = {"args": args, "model_configs": {"org/model": config}}
        request = read_request({"vllm_version": release, "deployment": deployment}, policy.releases)
        found = policy.decide(request, date(2026, 1, 1)).launch_errors
        named = f"`python -m {args[2]}` starts no server in vLLM {release}; "
        assert [error[: len(named)] for error in found] == [named] * (release in not_in), release


@table(
    ("release", "args", "message"),
    [
        ("0.6.4", ["--limit-mm-per-prompt", '{"image": 2}'], "`--limit-mm-per-prompt`: expected a list such as"),
        ("0.8.4", ["--limit-mm-per-prompt", "image=2,video"], "`--limit-mm-per-prompt`: expected a list such as"),
        ("0.8.4", ["--limit-mm-per-prompt", "image=2, Image=3"], "`--limit-mm-per-prompt`: `image` has two values"),
        ("0.8.4", ["--limit-mm-per-prompt", "image=many"], "`--limit-mm-per-prompt`: expected a whole number"),
        ("0.6.2", ["--enable-chunked-prefill", "no"], "`--enable-chunked-prefill`: expected `true` or `false`"),
        ("0.3.3", ["--block-size", "64"], "`--block-size`: `64` is not legal; legal: `8`, `16`, `32`"),
        ("0.6.1", ["--quantization", "best"], "`--quantization`: `best` is not legal"),
        ("0.6.6", ["-O4"], "invalid level `-O4`"),
        ("0.8.5", ["-O.level=3"], "invalid level `-O.level=3`"),
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


@pytest.mark.parametrize("release", slow_except(["0.3.0", "0.6.4", "0.9.0", "0.11.2"], OLDER))
def test_every_flag_of_a_release_is_read(policy: Policy, release: str) -> None:
    for word, flag in flags(release).exact.items():
        for values in ([], ["3"], ['{"a": 1}'], ["x", "y"]):
            try:
                decision = decided(policy, release, word, *values)
            except RequestInvalid:
                continue
            assert decision.launch_errors == [], (word, flag.kind, values)
