"""The facts of the served model, each with its field in config.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE, HEADS, LLAMA, MODELS
from tables import table

if TYPE_CHECKING:
    from deployments import Asking, Config

MLA = "model_config.use_mla"
MOE = "model_config.is_moe"
RUNNER = "model_config.runner_type"
ARCHITECTURES = "model_config.architectures"
QUANTIZED = "model_config.is_quantized"
VISION = MODELS["vision"]


def within(**text: Any) -> Config:
    """A model whose language model is a separate part."""
    return {**VISION, "text_config": {**VISION["text_config"], **text}}


def test_a_dense_model_has_these_facts_and_no_others(ask: Asking) -> None:
    by_class, default = "model_configs/dense/architectures", "default"
    assert ask.facts("model_config", ["--model", "dense"]) == {
        "enable_prompt_embeds": (False, default),
        "return_sampling_mask": (False, default),
        "enable_trace_replay": (False, default),
        "logits_processors": (None, default),
        "logprobs_mode": ("raw_logprobs", default),
        "runner_type": ("generate", by_class),
        "convert_type": ("none", by_class),
        "architectures": (["Qwen3ForCausalLM"], by_class),
        "attn_type": ("decoder", by_class),
        "is_moe": (False, default),
        "is_quantized": (False, default),
        "is_hybrid": (False, by_class),
        "has_inner_state": (False, by_class),
        "is_attention_free": (False, by_class),
        "is_diffusion": (False, default),
        "use_mla": (False, default),
        "is_multimodal_model": (False, by_class),
        "is_encoder_decoder": (False, default),
        "multimodal_config.mm_encoder_only": (False, default),
        "enable_return_routed_experts": (False, default),
        "hf_overrides.rope_parameters": (False, default),
    }


CLASS = "model_configs/x/architectures"
GEMMA: Config = {"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text"}
FACTS: list[tuple[str, Config, str, tuple[Any, str]]] = [
    ("mamba", {}, "model_config.is_attention_free", (True, "model_configs/mamba/architectures")),
    ("mamba", {}, "model_config.has_inner_state", (True, "model_configs/mamba/architectures")),
    ("hybrid", {}, "model_config.is_hybrid", (True, "model_configs/hybrid/architectures")),
    ("hybrid", {}, MOE, (True, "default")),
    ("vision", {}, "model_config.is_multimodal_model", (True, "model_configs/vision/architectures")),
    ("encoder-decoder", {}, "model_config.is_encoder_decoder", (True, "default")),
    (
        "x",
        {**DENSE, "is_encoder_decoder": True},
        "model_config.is_encoder_decoder",
        (True, "model_configs/x/is_encoder_decoder"),
    ),
    ("x", {**DENSE, "canvas_length": 256}, "model_config.is_diffusion", (True, "model_configs/x/canvas_length")),
    ("x", {**DENSE, "num_experts": 0}, MOE, (False, "model_configs/x/num_experts")),
    ("moe", {}, MOE, (True, "model_configs/moe/num_experts")),
    ("x", within(num_experts=4), MOE, (True, "model_configs/x/text_config/num_experts")),
    ("mla", {}, MLA, (True, "model_configs/mla/kv_lora_rank")),
    ("pooling", {}, RUNNER, ("pooling", "model_configs/pooling/architectures")),
    ("pooling", {}, "model_config.convert_type", ("none", "model_configs/pooling/architectures")),
    ("pooling", {}, "model_config.attn_type", ("encoder_only", "model_configs/pooling/architectures")),
    ("mamba", {}, "model_config.attn_type", ("attention_free", "model_configs/mamba/architectures")),
    ("hybrid", {}, "model_config.attn_type", ("hybrid", "model_configs/hybrid/architectures")),
    ("encoder-decoder", {}, "model_config.attn_type", ("encoder_decoder", "default")),
    ("x", {"model_type": "llama", **HEADS}, ARCHITECTURES, (["LlamaModel"], "model_configs/x")),
    ("x", {"model_type": "llama", **HEADS}, RUNNER, ("generate", "model_configs/x")),
]


@table(("name", "config", "fact", "expected"), FACTS, ids=[f"{name}-{fact}" for name, _, fact, _ in FACTS])
def test_a_fact_comes_from_the_configuration(
    ask: Asking, name: str, config: Config, fact: str, expected: tuple[Any, str]
) -> None:
    assert ask.fact(fact, ["--model", name], models={name: config} if config else {}) == expected


POOLS: list[tuple[Config, list[str], tuple[Any, str], tuple[Any, str]]] = [
    (DENSE, [], ("embed", CLASS), ("decoder", CLASS)),
    (DENSE, ["--convert", "classify"], ("classify", "args[4]"), ("decoder", CLASS)),
    ({**DENSE, "is_causal": False}, [], ("embed", CLASS), ("encoder_only", "model_configs/x/is_causal")),
    ({**DENSE, "is_causal": True}, [], ("embed", CLASS), ("decoder", CLASS)),
    ({**DENSE, "architectures": ["Qwen3ForSequenceClassification"]}, [], ("classify", CLASS), ("decoder", CLASS)),
    ({**DENSE, "architectures": ["VoyageQwen3BidirectionalEmbedModel"]}, [], ("embed", CLASS), ("encoder_only", CLASS)),
    (
        {**GEMMA, "use_bidirectional_attention": True},
        [],
        ("embed", CLASS),
        ("encoder_only", "model_configs/x/use_bidirectional_attention"),
    ),
    ({**GEMMA, "is_causal": False}, [], ("embed", CLASS), ("decoder", CLASS)),
]


@table(("config", "args", "convert", "attention"), POOLS)
def test_how_a_model_pools_and_attends(
    ask: Asking, config: Config, args: list[str], convert: tuple[Any, str], attention: tuple[Any, str]
) -> None:
    """vLLM sets ``is_causal`` of some models itself, from another field or always, whatever is stated."""
    args, models = ["--model", "x", "--runner", "pooling", *args], {"x": config}
    assert ask.fact("model_config.convert_type", args, models=models) == convert
    assert ask.fact("model_config.attn_type", args, models=models) == attention


QUANTIZATION: list[tuple[Config, tuple[bool, str], tuple[bool, str]]] = [
    (
        {**DENSE, "quantization_config": {"quant_method": "fp8"}},
        (True, "model_configs/x/quantization_config"),
        (True, "model_configs/x/quantization_config"),
    ),
    ({**DENSE, "compression_config": {}}, (False, "default"), (True, "model_configs/x/compression_config")),
    (
        within(quantization_config={}),
        (False, "model_configs/x/text_config/quantization_config"),
        (True, "model_configs/x/text_config/quantization_config"),
    ),
    (
        {**DENSE, "quantization_config": None},
        (False, "model_configs/x/quantization_config"),
        (False, "model_configs/x/quantization_config"),
    ),
]


@pytest.mark.parametrize(("config", "before", "after"), QUANTIZATION)
def test_from_0_33_on_two_more_fields_mark_a_model_as_quantised(
    ask: Asking, config: Config, before: tuple[bool, str], after: tuple[bool, str]
) -> None:
    args = ["--model", "x"]
    assert [ask.fact(QUANTIZED, args, release, models={"x": config}) for release in ("0.32.0", "0.33.0")] == [
        before,
        after,
    ]


MODELOPT = json.dumps({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}})
QUANTIZATION_FILES: list[tuple[str, Config, str, tuple[bool, str]]] = [
    ("x/hf_quant_config.json", DENSE, MODELOPT, (True, "files/x/hf_quant_config.json")),
    ("x/hf_quant_config.json", {**DENSE, "quantization_config": None}, "{}", (True, "files/x/hf_quant_config.json")),
    ("x/hf_quant_config.json", DENSE, "null", (False, "default")),
    ("y/hf_quant_config.json", DENSE, MODELOPT, (False, "default")),
    (
        "x/hf_quant_config.json",
        {**DENSE, "quantization_config": {}},
        "not read",
        (True, "model_configs/x/quantization_config"),
    ),
]


@table("release", ["0.20.0", "0.22.0", "0.23.0", "0.33.0"])
@table(("file", "config", "text", "expected"), QUANTIZATION_FILES)
def test_the_quantisation_file_counts_if_the_configuration_states_none(
    ask: Asking, release: str, file: str, config: Config, text: str, expected: tuple[bool, str]
) -> None:
    args = ["--model", "x"]
    assert ask.fact(QUANTIZED, args, release, models={"x": config}, files={file: text}) == expected


def test_the_quantisation_file_is_the_one_beside_the_configuration_that_vllm_reads(ask: Asking) -> None:
    args = ["--model", "dense", "--hf-config-path", "x"]
    models, files = {"x": DENSE}, {"x/hf_quant_config.json": MODELOPT}
    assert ask.fact(QUANTIZED, args, models=models, files=files) == (True, "files/x/hf_quant_config.json")


def test_overrides_take_precedence_over_the_quantisation_file(ask: Asking) -> None:
    args = ["--model", "x", "--hf-overrides", '{"quantization_config": null}']
    found = ask.fact(QUANTIZED, args, models={"x": DENSE}, files={"x/hf_quant_config.json": MODELOPT})
    assert found == (False, "args[2]")


def test_a_model_with_a_quantisation_file_gets_v1_by_default_in_0_23(ask: Asking) -> None:
    args = ["serve", "x"]
    files = {"x/hf_quant_config.json": MODELOPT}
    runners = [ask(args, "0.23.0", models={"x": DENSE}, files=each).runner for each in ({}, files)]
    assert runners == ["v2", "v1"]


@pytest.mark.parametrize(("text", "expected"), [("[1]", "expected an object, got `[1]`"), ("{", "")])
def test_a_quantisation_file_that_is_not_an_object_is_refused(ask: Asking, text: str, expected: str) -> None:
    problem, [(pointer, message)] = ask.refusal(
        ["--model", "x"], models={"x": DENSE}, files={"x/hf_quant_config.json": text}
    )
    assert (problem, pointer) == ("invalid-request", "/deployment/files/x~1hf_quant_config.json")
    assert message.startswith(expected)


def test_the_quantisation_flag_does_not_make_a_model_quantised(ask: Asking) -> None:
    assert ask.fact(QUANTIZED, ["--model", "dense", "--quantization", "fp8"]) == (False, "default")


@table("method", ["modelopt", "modelopt_fp4", "ModelOpt_MXFP8"])
def test_a_modelopt_method_needs_the_file_that_makes_the_model_quantised(ask: Asking, method: str) -> None:
    args = ["serve", "draft", "--quantization", method]
    assert ask.fact(QUANTIZED, args) == (True, "args[2]")
    assert ask(args, "0.23.0").runner == "v1"


@table(
    "flags",
    [
        ["--hf-config-path", "draft"],
        ["--hf-overrides", '{"quantization_config": null}'],
        ["--hf-overrides", '{"quantization_config_file": "a.json"}'],
        ["--hf-overrides", '{"quantization_config_dict_json": "{}"}'],
    ],
)
def test_a_modelopt_method_may_have_its_configuration_from_elsewhere(ask: Asking, flags: list[str]) -> None:
    found = ask.fact(QUANTIZED, ["serve", "dense", "--quantization", "modelopt", *flags])
    assert found
    assert found[0] is False


DISABLED = [
    ("1", True),
    (" 1 ", True),
    ("+1", True),
    ("-1", True),
    ("0", False),
    ("00", False),
    ("", False),
    ("true", False),
]


@table(("text", "disabled"), DISABLED)
def test_multi_head_latent_attention_can_be_switched_off_by_a_variable(
    ask: Asking, text: str, *, disabled: bool
) -> None:
    expected = (False, "env.VLLM_MLA_DISABLE") if disabled else (True, "model_configs/mla/kv_lora_rank")
    assert ask.fact(MLA, ["--model", "mla"], env={"VLLM_MLA_DISABLE": text}) == expected


BY_ARGUMENT: list[tuple[list[str], str, tuple[Any, str]]] = [
    (["--runner", "pooling"], RUNNER, ("pooling", "args[2]")),
    (["--convert", "embed"], RUNNER, ("pooling", "args[2]")),
    (["--runner", "auto", "--convert", "classify"], RUNNER, ("pooling", "args[4]")),
    (["--runner", "auto"], RUNNER, ("generate", "model_configs/dense/architectures")),
    (["--hf-overrides", '{"num_experts": 8}'], MOE, (True, "args[2]")),
    (["--hf-overrides", '{"num_experts": "8"}'], MOE, (True, "args[2]")),
    (["--hf-overrides", '{"num_experts": [" 8 "]}'], MOE, (True, "args[2]")),
    (["--hf-overrides", '{"llm_config": {"num_experts": 8}}'], MOE, (False, "default")),
    (["--hf-overrides", '{"architectures": ["LlamaForCausalLM"]}'], ARCHITECTURES, (["LlamaForCausalLM"], "args[2]")),
    (["--hf-overrides", '{"architectures": ["BertModel"], "model_type": "bert"}'], RUNNER, ("pooling", "args[2]")),
    (
        ["--hf-overrides.num_experts", "8", "--hf-overrides.canvas_length", "4"],
        "model_config.is_diffusion",
        (True, "args[4]"),
    ),
    (["--hf-config-path", "draft"], ARCHITECTURES, (["LlamaForCausalLM"], "model_configs/draft/architectures")),
    (["--hf-config-path", "draft/"], ARCHITECTURES, (["LlamaForCausalLM"], "model_configs/draft/architectures")),
    (["--hf-config-path", "dense"], ARCHITECTURES, (["Qwen3ForCausalLM"], "model_configs/dense/architectures")),
    (["--model-impl", "transformers"], ARCHITECTURES, (["Qwen3ForCausalLM"], "model_configs/dense/architectures")),
]


@table(("args", "fact", "expected"), BY_ARGUMENT, ids=[" ".join(args) for args, _, _ in BY_ARGUMENT])
def test_the_command_line_can_override_the_configuration(
    ask: Asking, args: list[str], fact: str, expected: tuple[Any, str]
) -> None:
    assert ask.fact(fact, ["--model", "dense", *args]) == expected


def test_an_override_of_a_part_keeps_the_rest_of_it(ask: Asking) -> None:
    models = {"x": within(num_experts=4, kv_lora_rank=8)}
    args = ["--model", "x", "--hf-overrides", '{"text_config": {"num_experts": 0}}']
    assert ask.fact(MOE, args, models=models) == (False, "model_configs/x/text_config/num_experts")


OF_ALIASES: list[tuple[Config, Config, bool]] = [
    ({"num_experts": 16}, {"num_local_experts": 0}, False),
    ({"num_local_experts": 16}, {"num_experts": 0}, False),
    ({"num_experts": 0}, {"num_experts": 0, "num_local_experts": 4}, True),
    ({"num_experts": 16}, {"num_local_experts": 4, "num_experts": 0}, False),
]


@table(("stated", "overrides", "expected"), OF_ALIASES)
def test_the_last_override_of_a_field_counts_under_any_of_its_names(
    ask: Asking, stated: Config, overrides: Config, *, expected: bool
) -> None:
    whole: Config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **HEADS, **stated}
    args = ["--model", "x", "--hf-overrides", json.dumps(overrides)]
    found = ask.fact(MOE, args, "0.23.0", models={"x": whole})
    assert found is not None
    assert found[0] is expected


def test_an_override_changes_a_part_under_its_later_name(ask: Asking) -> None:
    models = {"x": {**DENSE, "model_type": "x", "llm_config": {**HEADS, "num_experts": 4}}}
    args = ["--model", "x", "--hf-overrides", '{"text_config": {"kv_lora_rank": 8}}']
    assert ask.fact(MOE, args, models=models) == (True, "model_configs/x/text_config/num_experts")


def modules(*kinds: str) -> str:
    return json.dumps([{"idx": n, "type": kind} for n, kind in enumerate(kinds)])


TRANSFORMER = "sentence_transformers.models.Transformer"
POOLING = "sentence_transformers.models.Pooling"
LATER_POOLING = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
REPOSITORIES: list[tuple[str, dict[str, str], str]] = [
    ("0.29.0", {"a/b/modules.json": modules(TRANSFORMER, POOLING)}, "pooling"),
    ("0.33.0", {"a/b/modules.json": modules(TRANSFORMER, POOLING)}, "pooling"),
    ("0.29.0", {"a/b/modules.json": modules(TRANSFORMER, LATER_POOLING)}, "generate"),
    ("0.30.0", {"a/b/modules.json": modules(TRANSFORMER, LATER_POOLING)}, "pooling"),
    ("0.33.0", {"a/b/modules.json": modules(TRANSFORMER)}, "generate"),
    ("0.33.0", {"a/b/modules.json": "[1, null]"}, "generate"),
    ("0.33.0", {"a/b/modules.json": "{}"}, "generate"),
    ("0.33.0", {"a/modules.json": modules(POOLING)}, "generate"),
]


@table(("release", "files", "expected"), REPOSITORIES)
def test_a_repository_whose_modules_pool_is_a_pooling_model(
    ask: Asking, release: str, files: dict[str, str], expected: str
) -> None:
    found = ask.fact(RUNNER, ["--model", "a/b/"], release, models={"a/b": LLAMA}, files=files)
    assert found == (expected, "model_configs/a/b/architectures")


POOLED = {"a/b/modules.json": json.dumps([{"type": POOLING, "path": "1_Pooling"}])}


@pytest.mark.parametrize("name", ["modules.json", "1_Pooling/config.json"])
def test_an_invalid_json_file_of_sentence_transformers_is_a_fault_at_the_file(ask: Asking, name: str) -> None:
    problem, faults = ask.refusal(
        ["--model", "a/b"], models={"a/b": LLAMA}, files={**POOLED, f"a/b/{name}": "[not json"}
    )
    assert (problem, [pointer for pointer, _ in faults]) == (
        "invalid-request",
        [f"/deployment/files/a~1b~1{name.replace('/', '~1')}"],
    )


HEADED: list[tuple[str, str, str, list[str]]] = [
    ("qwen3_5", "Qwen3_5ForConditionalGeneration", "joint_head_config.json", ["ClefFlashForJointSchema"]),
    ("qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration", "joint_head_config.json", ["ClefOmniForJointSchema"]),
    ("qwen3_5", "Qwen3_5Model", "decision_config.json", ["D3ForSequenceClassification"]),
]


@pytest.mark.parametrize(("model_type", "architecture", "file", "expected"), HEADED)
def test_a_further_file_of_a_model_changes_its_architecture(
    ask: Asking, model_type: str, architecture: str, file: str, expected: list[str]
) -> None:
    models = {"a/b": {**DENSE, "architectures": [architecture], "model_type": model_type}}
    asked = [
        ask.fact("model_config.architectures", ["--model", "a/b"], models=models, files=files)
        for files in ({f"a/b/{file}": "{}"}, {f"a/bc/{file}": "{}"}, {file: "{}"}, {})
    ]
    assert [found[0] if found else None for found in asked] == [expected, *[[architecture]] * 3]
