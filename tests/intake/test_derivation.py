"""Facts stated by a single argument, and the order in which facts are derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

if TYPE_CHECKING:
    from deployments import Asking

DENSE = ["--model", "dense"]
VISION = ["--model", "vision"]
PRODUCER = ["--ec-transfer-config", '{"ec_connector": "x", "ec_role": "ec_producer"}']
CONSUMER = ["--ec-transfer-config", '{"ec_connector": "x", "ec_role": "ec_consumer"}']
ENCODER_ONLY = "model_config.multimodal_config.mm_encoder_only"
ROUTED = "model_config.enable_return_routed_experts"
AUX = "aux_output_config.enabled"
SPARSE = "attention_config.hisparse_config"
ASYNC = "scheduler_config.async_scheduling"

ROPE = "model_config.hf_overrides.rope_parameters"
NGRAM = '{"method": "ngram", "num_speculative_tokens": %s}'

SEVERAL = (
    '{"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": [3, '
    '{"kv_connector": "HiSparseConnector"}]}}'
)

STATED: list[tuple[str, list[str], Any, Any]] = [
    ("model_config.enable_prompt_embeds", ["--enable-prompt-embeds"], True, False),
    ("model_config.return_sampling_mask", ["--return-sampling-mask"], True, False),
    ("model_config.enable_trace_replay", ["--enable-trace-replay"], True, False),
    ("model_config.logits_processors", ["--logits-processors", "a:B", "c:D"], ["a:B", "c:D"], None),
    ("model_config.logprobs_mode", ["--logprobs-mode", "raw_logits"], "raw_logits", "raw_logprobs"),
    ("parallel_config.tensor_parallel_size", ["-tp", "2"], 2, 1),
    ("parallel_config.pipeline_parallel_size", ["-pp", "2"], 2, 1),
    ("parallel_config.prefill_context_parallel_size", ["-pcp", "2"], 2, 1),
    ("parallel_config.decode_context_parallel_size", ["-dcp", "2"], 2, 1),
    ("parallel_config.data_parallel_size", ["--data-parallel-size", "2"], 2, 1),
    ("parallel_config.ubatch_size", ["--ubatch-size", "2"], 2, 0),
    ("scheduler_config.policy", ["--scheduling-policy", "priority"], "priority", "fcfs"),
    (ROPE, ["--hf-overrides", '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}'], True, False),
    (ROPE, ["--hf-overrides", '{"text_config": {"rope_parameters": {"rope_type": "yarn"}}}'], True, False),
    ("parallel_config.enable_dbo", ["--enable-dbo"], True, False),
    ("parallel_config.enable_elastic_ep", ["--enable-elastic-ep"], True, False),
    ("parallel_config.enable_batch_sharded_sampling", ["--enable-batch-sharded-sampling"], True, False),
    ("lora_config", ["--enable-lora"], True, False),
    ("cache_config.kv_sharing_fast_prefill", ["--kv-sharing-fast-prefill"], True, False),
    ("watermark_config", ["--watermark-config", '{"key": 1}'], True, False),
    ("reasoning_config", ["--reasoning-parser", "qwen3"], True, False),
    ("reasoning_config", ["--reasoning-config", "{}"], True, False),
    ("ec_transfer_config", CONSUMER, True, False),
    (SPARSE, ["--attention-config", '{"hisparse_config": {}}'], True, False),
    (SPARSE, ["--attention-config.hisparse_config", "{}"], True, False),
    (SPARSE, ["--kv-transfer-config", '{"kv_connector": "HiSparseConnector", "kv_role": "kv_both"}'], True, False),
    (SPARSE, ["--kv-transfer-config", SEVERAL], True, False),
    (AUX, ["--enable-return-routed-experts"], True, False),
    (AUX, ["--aux-output-config", '{"enable_return_routed_experts": true}'], True, False),
]


@table(("fact", "args", "value", "default"), STATED)
def test_an_argument_states_a_fact(ask: Asking, fact: str, args: list[str], value: Any, default: Any) -> None:
    assert ask.fact(fact, [*DENSE, *args]) == (value, "args[2]")
    assert ask.fact(fact, DENSE) == (default, "default")


NOT_STATED: list[tuple[str, list[str], Any]] = [
    ("speculative_config.num_speculative_tokens", ["--speculative-config", NGRAM % "-1"], 0),
    (ROPE, ["--hf-overrides", '{"architectures": ["Qwen3ForCausalLM"]}'], False),
    (ROPE, ["--hf-overrides", '{"text_config": 3}'], False),
    ("parallel_config.data_parallel_size", ["--data-parallel-size", "1"], 1),
]


@pytest.mark.parametrize(("fact", "args", "value"), NOT_STATED)
def test_what_does_not_show_a_fact_leaves_its_default(ask: Asking, fact: str, args: list[str], value: Any) -> None:
    assert ask.fact(fact, [*DENSE, *args]) == (value, "default")


def test_the_number_of_drafts_is_a_fact_of_speculative_decoding(ask: Asking) -> None:
    args = [*DENSE, "--speculative-config", NGRAM % "3"]
    assert ask.fact("speculative_config.num_speculative_tokens", args) == (3, "args[2]")


SHARE = "cache_config.gpu_memory_utilization"


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ([], (0.92, "default")),
        (["--gpu-memory-utilization", "0.85"], (0.85, "args[2]")),
        (["--gpu-memory-utilization=1"], (1.0, "args[2]")),
        (["--kv-cache-memory-bytes", "268435456"], (None, "args[2]")),
        (["--gpu-memory-utilization", "0.95", "--kv-cache-memory-bytes=1G"], (None, "args[4]")),
    ],
)
def test_the_share_of_memory_is_that_of_the_flag_unless_the_size_of_the_cache_is_stated(
    ask: Asking, args: list[str], value: tuple[Any, str]
) -> None:
    assert ask.fact(SHARE, [*DENSE, *args]) == value


def test_pinned_memory_is_there_unless_the_request_says_otherwise(ask: Asking) -> None:
    fact = "platform.is_pin_memory_available"
    assert ask.fact(fact, DENSE) == (True, "default")
    assert ask.fact(fact, DENSE, environment={"has_pinned_memory": False}) == (False, "environment.has_pinned_memory")


CHANGES: list[tuple[str, list[str], dict[str, tuple[Any, str]]]] = [
    (
        ROUTED,
        [*DENSE, "--enable-return-routed-experts"],
        {"0.20.0": (True, "args[2]"), "0.30.0": (True, "args[2]"), "0.31.0": (False, "args[2]")},
    ),
    (ENCODER_ONLY, [*VISION, *PRODUCER], {"0.28.0": (False, "default"), "0.29.0": (True, "args[2]")}),
    (ENCODER_ONLY, [*VISION, "--ec-transfer-config", '{"ec_role": "ec_producer"}'], {"0.33.0": (False, "default")}),
    (ENCODER_ONLY, [*VISION, *CONSUMER], {"0.28.0": (False, "default"), "0.29.0": (False, "default")}),
    (
        ENCODER_ONLY,
        [*VISION, *PRODUCER, "--mm-encoder-only"],
        {"0.28.0": (True, "args[4]"), "0.29.0": (True, "args[4]")},
    ),
    (ENCODER_ONLY, [*VISION, "--mm-encoder-only"], {"0.20.0": (True, "args[2]"), "0.33.0": (True, "args[2]")}),
    (ENCODER_ONLY, [*DENSE, "--mm-encoder-only"], {"0.20.0": (False, "args[2]"), "0.33.0": (False, "args[2]")}),
    (ENCODER_ONLY, [*DENSE, *PRODUCER], {"0.33.0": (False, "default")}),
]


@table(("fact", "args", "expected"), CHANGES)
def test_a_change_applies_from_its_release_on(
    ask: Asking, fact: str, args: list[str], expected: dict[str, tuple[Any, str]]
) -> None:
    assert {release: ask.fact(fact, args, release) for release in expected} == expected


VARIABLE: list[tuple[str, dict[str, str], Any, str, str | None]] = [
    ("0.33.0", {}, None, "assumed", "v2"),
    ("0.33.0", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, False, "env.VLLM_USE_V2_MODEL_RUNNER", "v1"),
    ("0.33.0", {"VLLM_USE_V2_MODEL_RUNNER": " 1 "}, True, "env.VLLM_USE_V2_MODEL_RUNNER", "v2"),
    ("0.21.0", {}, False, "assumed", "v1"),
    ("0.21.0", {"VLLM_USE_V2_MODEL_RUNNER": "1"}, True, "env.VLLM_USE_V2_MODEL_RUNNER", "v2"),
    ("0.33.0", {"VLLM_USE_V2_MODEL_RUNNER": "true"}, "true", "env.VLLM_USE_V2_MODEL_RUNNER", None),
]


@table(("release", "env", "value", "origin", "runner"), VARIABLE)
def test_the_runners_own_variable_is_a_fact(
    ask: Asking, release: str, env: dict[str, str], value: Any, origin: str, runner: str | None
) -> None:
    decision = ask(DENSE, release, env=env)
    assert decision.facts
    fact = decision.facts["env.VLLM_USE_V2_MODEL_RUNNER"]
    assert (fact.value, fact.from_, decision.runner) == (value, origin, runner)


def test_a_variable_on_the_command_line_overrides_that_of_the_environment(ask: Asking) -> None:
    text = "VLLM_USE_V2_MODEL_RUNNER=1 vllm serve dense"
    assert ask(text, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}).runner == "v2"


PLUGINS = {
    "ascend": "vllm-ascend",
    "gaudi": "vllm-gaudi",
    "metal": "vllm-metal",
    "neuron": "vllm-neuron",
    "openvino": "vllm-openvino",
    "rbln": "vllm-rbln",
    "spyre": "vllm-spyre",
    "tenstorrent": "vllm-tt-plugin",
}
PLATFORMS = ("cuda", "rocm", "xpu", "cpu", "tpu", "out-of-tree", "unspecified", *PLUGINS)


@table("platform", PLATFORMS)
def test_a_platform_sets_only_its_own_fact(ask: Asking, platform: str) -> None:
    facts = ask.facts("platform", DENSE, environment={"platform": platform})
    by_vllm = "out-of-tree" if platform in PLUGINS else platform
    own = {"rocm": "is_rocm", "tpu": "is_tpu", "out-of-tree": "is_out_of_tree", "unspecified": "is_unspecified"}
    expected: dict[str, tuple[Any, str]] = {
        name: (own.get(by_vllm) == name, "environment.platform") for name in own.values()
    }
    expected["plugin"] = (PLUGINS.get(platform), "environment.platform")
    has_triton = platform not in {"tpu", *PLUGINS} or platform == "ascend"
    assert facts == {**expected, "has_triton": (has_triton, "assumed"), "is_pin_memory_available": (True, "default")}


MASK = ["--return-sampling-mask", "--logprobs-mode", "processed_logprobs"]
SPARSE_ARGS = ["--attention-config", '{"hisparse_config": {}}']
AFTER_A_REFUSAL: list[tuple[str, list[str], dict[str, str], bool]] = [
    ("0.28.0", MASK, {}, True),
    ("0.28.0", MASK, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, False),
    ("0.29.0", ["--enable-trace-replay"], {"VLLM_USE_V2_MODEL_RUNNER": "0"}, False),
    ("0.32.0", SPARSE_ARGS, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, True),
    ("0.33.0", SPARSE_ARGS, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, False),
    ("0.33.0", SPARSE_ARGS, {}, True),
]


@table(("release", "args", "env", "value"), AFTER_A_REFUSAL)
def test_nothing_is_derived_after_v1_refuses_a_feature_of_v2(
    ask: Asking, release: str, args: list[str], env: dict[str, str], *, value: bool
) -> None:
    assert ask.fact(ASYNC, [*DENSE, *args], release, env=env) == (value, "default")


ILLEGAL: list[tuple[list[str], str, str]] = [
    (
        ["-tp", "0"],
        "/deployment/args/2",
        "`0` is not legal for `parallel_config.tensor_parallel_size`; legal: a whole number from 1 to 2147483647",
    ),
    (
        ["-tp", "-1"],
        "/deployment/args/2",
        "`-1` is not legal for `parallel_config.tensor_parallel_size`; legal: a whole number from 1 to 2147483647",
    ),
    (
        ["-pp", "0"],
        "/deployment/args/2",
        "`0` is not legal for `parallel_config.pipeline_parallel_size`; legal: a whole number from 1 to 2147483647",
    ),
    (
        ["-dcp", "0"],
        "/deployment/args/2",
        (
            "`0` is not legal for `parallel_config.decode_context_parallel_size`; legal: a whole number from 1 to "
            "2147483647"
        ),
    ),
    (
        ["--ubatch-size", "-1"],
        "/deployment/args/2",
        "`-1` is not legal for `parallel_config.ubatch_size`; legal: a whole number from 0 to 2147483647",
    ),
    (
        ["-pp", "2147483648"],
        "/deployment/args/2",
        (
            "`2147483648` is not legal for `parallel_config.pipeline_parallel_size`; legal: a whole number from 1 to "
            "2147483647"
        ),
    ),
    (
        ["--kv-transfer-config", '{"kv_connector": 3}'],
        "/deployment/args/2",
        "`3` is not legal for `kv_transfer_config.kv_connector`; legal: a string of at most 8192 characters, `null`",
    ),
]


@table(("args", "pointer", "message"), ILLEGAL, ids=[" ".join(args) for args, _, _ in ILLEGAL])
def test_a_value_that_no_release_accepts_is_a_fault_at_its_argument(
    ask: Asking, args: list[str], pointer: str, message: str
) -> None:
    assert ask.refusal([*DENSE, *args]) == ("invalid-request", [(pointer, message)])


def test_all_illegal_values_are_reported_at_once(ask: Asking) -> None:
    _, faults = ask.refusal([*DENSE, "-tp", "0", "-pp", "0", "--ubatch-size", "-1"])
    assert [pointer for pointer, _ in faults] == ["/deployment/args/2", "/deployment/args/4", "/deployment/args/6"]


def test_an_illegal_value_of_a_model_or_a_variable_is_reported_at_its_origin(ask: Asking) -> None:
    long = "x" * 9000
    models = {"dense": {"architectures": ["Qwen3ForCausalLM", long], "model_type": "qwen3"}}
    _, faults = ask.refusal(DENSE, models=models, env={"VLLM_USE_V2_MODEL_RUNNER": long})
    assert [pointer for pointer, _ in faults] == [
        "/deployment/env/VLLM_USE_V2_MODEL_RUNNER",
        "/deployment/model_configs/dense",
    ]
