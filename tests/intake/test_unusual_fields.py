"""Fields of a configuration that vLLM may read differently: a warning, and no decision where all has to be known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from deployments import DENSE, HEADS, MODELS, TODAY
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking, Config

RELEASE: Final = "0.23.0"
DIFFERS: Final = "vLLM may read the configuration of `x` differently from here, or refuse it: "
MOE: Final[Config] = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", **HEADS}
GEMMA: Final[Config] = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "text_config": {"model_type": "gemma3_text", **HEADS},
}
INTEGER: Final = "its `num_experts` is not an integer"
ALIASES: Final = "its `attribute_map` gives other names to its fields"
QUANTIZATION: Final = "its `quantization_config` is not an object"
BLOCKS: Final = "its `block_configs` is not a list of blocks with numbers of experts"
NAMED: Final[Config] = {"architectures": ["Qwen3ForCausalLM"]}
TWO_NAMES: Final = "its `num_local_experts` and `num_experts` are one field with two values"
TEXT_PART: Final = "its `text_config` has experts by the class of one model type, and none by that of another"
FILES: Final[list[tuple[Config, str]]] = [
    ({**DENSE, "num_experts": 1.5}, INTEGER),
    ({**DENSE, "num_experts": "x"}, INTEGER),
    ({**DENSE, "num_experts": []}, INTEGER),
    ({**DENSE, "num_experts": [None]}, INTEGER),
    ({**DENSE, "num_experts": {"a": 1}}, INTEGER),
    ({**MOE, "num_experts": "8"}, INTEGER),
    ({**MOE, "num_experts": True}, INTEGER),
    ({**DENSE, "block_configs": [{"block_type": "moe", "n_routed_experts": "8"}]}, BLOCKS),
    ({**DENSE, "block_configs": 3}, BLOCKS),
    ({**DENSE, "attribute_map": {"num_experts": "hidden_size"}}, ALIASES),
    ({**DENSE, "attribute_map": {"architectures": "foo"}, "foo": ["OPTForCausalLM"]}, ALIASES),
    ({**DENSE, "attribute_map": {}}, ALIASES),
    ({**GEMMA, "text_config": {**GEMMA["text_config"], "attribute_map": {"num_experts": "hidden_size"}}}, ALIASES),
    ({**DENSE, "quantization_config": False}, QUANTIZATION),
    ({**DENSE, "quantization_config": []}, QUANTIZATION),
    ({**DENSE, "is_encoder_decoder": "false"}, "its `is_encoder_decoder` is not true or false"),
    ({**DENSE, "architectures": ["Qwen3ForCausalLM", 3]}, "its `architectures` is not a list of names"),
    ({**GEMMA, "text_config": 5}, "its `text_config` is not an object"),
    ({**NAMED, **HEADS, "model_type": "mixtral", "num_local_experts": 8, "num_experts": 0}, TWO_NAMES),
    ({**NAMED, **HEADS, "model_type": "mixtral", "num_experts": None, "num_local_experts": 8}, TWO_NAMES),
    ({**NAMED, **HEADS, "model_type": "gpt_oss", "num_local_experts": 8, "num_experts": 0}, TWO_NAMES),
    (
        {**NAMED, **HEADS, "model_type": "glm4_moe", "n_routed_experts": 0, "num_local_experts": 8},
        "its `n_routed_experts` and `num_local_experts` are one field with two values",
    ),
    ({**NAMED, "model_type": "qwen3_vl_moe", "text_config": {**HEADS, "model_type": "qwen3"}}, TEXT_PART),
    ({**NAMED, "model_type": "llama4", "text_config": {**HEADS, "model_type": "llama"}}, TEXT_PART),
    ({**NAMED, "model_type": "gemma3", "text_config": {**HEADS, "model_type": "qwen3_moe"}}, TEXT_PART),
    ({**NAMED, **HEADS, "model_type": "glm4v", "n_routed_experts": 8}, TEXT_PART),
    ({**NAMED, **HEADS, "model_type": "glm4v", "num_experts": 8}, TEXT_PART),
    ({**NAMED, **HEADS, "model_type": "glm4v_moe", "num_experts": 0}, TEXT_PART),
    ({**NAMED, "model_type": "kimi_vl", "text_config": HEADS}, "the class of its `text_config` is not known"),
    ({**NAMED, "model_type": "kimi_vl"}, "the class of its `text_config` is not known"),
    (
        {**NAMED, "model_type": "hunyuan_vl", "text_config": HEADS},
        "its class takes its fields from its `text_config`, also those that it states itself",
    ),
    (
        {**NAMED, **HEADS, "model_type": "hunyuan_vl", "text_config": {}},
        "its class takes its fields from its `text_config`, also those that it states itself",
    ),
    (
        {**NAMED, "model_type": "ultravox", "text_model_id": "Qwen/Qwen3-30B-A3B"},
        "its language model's configuration is that of the model in its `text_model_id`, which is not read",
    ),
]
OVERRIDES: Final[list[tuple[Config, Any, str]]] = [
    (DENSE, {"attribute_map": {"num_experts": "hidden_size"}}, ALIASES),
    (DENSE, {"num_experts": "1e1"}, INTEGER),
    (MOE, {"num_experts": "8"}, INTEGER),
    (DENSE, {"quantization_config": ""}, QUANTIZATION),
    (
        DENSE,
        {"text_config": {"num_attention_heads": 8}},
        "its class has no part `text_config`, which `--hf-overrides` sets",
    ),
    (DENSE, {"decoder": {"num_experts": 8}}, "its class has no part `decoder`, which `--hf-overrides` sets"),
    (DENSE, {"model_type": "qwen3_moe"}, "`model_type` in `--hf-overrides` may not change its class"),
    (DENSE, {"architectures": None}, "`--hf-overrides` leaves it without `architectures`"),
    (GEMMA, {"text_config": None}, "`--hf-overrides` leaves it without its `text_config`"),
    (
        {**DENSE, "llm_config": HEADS},
        {"llm_config": {"num_experts": 8}},
        "`llm_config` in `--hf-overrides` may not change its language model",
    ),
]
USUAL: Final[list[tuple[Config, Any]]] = [
    (DENSE, {}),
    ({**DENSE, "num_experts": None, "quantization_config": None}, {}),
    ({**DENSE, "num_experts": [64, 64], "moe_num_experts": "x"}, {}),
    (MOE, {"num_experts": 16}),
    (DENSE, {"num_experts": "8"}),
    (DENSE, {"text_config": {"num_experts": 8}}),
    ({**DENSE, "model_type": "x"}, {"model_type": "qwen3"}),
    (DENSE, {"llm_config": {"num_experts": 8}, "model_type": "qwen3"}),
    (GEMMA, {"text_config": {"num_experts": 8}, "architectures": ["Gemma3ForConditionalGeneration"]}),
    ({**DENSE, "quantization_config": {"quant_method": "fp8"}}, {"quantization_config": {}}),
    ({**NAMED, **HEADS, "model_type": "mixtral", "num_local_experts": 8, "num_experts": 8}, {}),
    ({**NAMED, "model_type": "llava", "text_config": {**HEADS, "model_type": "qwen2"}}, {}),
    ({**NAMED, "model_type": "llava", "text_config": {**HEADS, "model_type": "mixtral", "num_local_experts": 8}}, {}),
    ({**NAMED, **HEADS, "model_type": "qwen2_vl"}, {}),
    ({**NAMED, **HEADS, "model_type": "hunyuan_vl"}, {}),
    (
        {
            **NAMED,
            "model_type": "kimi_vl",
            "text_config": {**HEADS, "model_type": "deepseek_v3", "n_routed_experts": 64},
        },
        {},
    ),
    ({**NAMED, "model_type": "kimi_vl", "text_config": {**HEADS, "n_routed_experts": 64}}, {}),
]
LAYERS: Final = ["attention", "attention"]
LAYERS_KEPT: Final = "`{}` in `--hf-overrides` keeps names of layer types that the class changes in the file"
ROWS: Final = [*((config, {}, why) for config, why in FILES), *OVERRIDES]


def asked(ask: Asking, config: Config, overrides: Any) -> Config:
    return ask.request(["--model", "x", "--hf-overrides", json.dumps(overrides)], RELEASE, models={"x": config})


@table(("config", "overrides", "why"), ROWS)
def test_they_are_decided_with_a_warning(ask: Asking, config: Config, overrides: Any, why: str) -> None:
    warnings = ask.document(asked(ask, config, overrides)).warnings
    assert [text for text in warnings if text.startswith(DIFFERS)] == [DIFFERS + why]


@table(
    ("release", "model_type", "overrides", "why"),
    [
        ("0.23.0", "granitemoehybrid", {"layer_types": LAYERS}, []),
        ("0.28.0", "granitemoehybrid", {"layer_types": LAYERS}, [LAYERS_KEPT.format("layer_types")]),
        ("0.28.0", "granitemoehybrid", {"layers_block_type": LAYERS}, [LAYERS_KEPT.format("layers_block_type")]),
        ("0.28.0", "nemotron_h", {"layers_block_type": LAYERS}, [LAYERS_KEPT.format("layers_block_type")]),
        ("0.28.0", "granitemoehybrid", {"layer_types": ["full_attention", "sliding_attention"]}, []),
        ("0.33.0", "qwen3_next", {"layer_types": LAYERS}, [LAYERS_KEPT.format("layer_types")]),
    ],
)
def test_overrides_of_layer_types_by_names_that_classes_change(
    ask: Asking, release: str, model_type: str, overrides: Any, why: list[str]
) -> None:
    config = {**NAMED, **HEADS, "model_type": model_type}
    args = ["--model", "x", "--hf-overrides", json.dumps(overrides)]
    warnings = ask.document(ask.request(args, release, models={"x": config})).warnings
    assert [text.removeprefix(DIFFERS) for text in warnings if text.startswith(DIFFERS)] == why


@table("model_type", [[], {}, ["qwen3"], 5, True])
@table(("kind", "why"), [("kimi_vl", "the class of its `text_config` is not known"), ("gemma3", "")])
def test_a_part_with_a_model_type_that_is_no_name_is_decided(ask: Asking, kind: str, model_type: Any, why: str) -> None:
    config = {**NAMED, "model_type": kind, "text_config": {**HEADS, "model_type": model_type}}
    warnings = ask.document(asked(ask, config, {})).warnings
    found = [text.removeprefix(DIFFERS) for text in warnings if text.startswith(DIFFERS)]
    assert found == ["its `model_type` is not a name", *filter(None, [why])]


@table(("config", "overrides", "why"), ROWS)
def test_they_are_undecided_where_all_has_to_be_known(ask: Asking, config: Config, overrides: Any, why: str) -> None:
    result = ask.policy.evaluate(read_request(asked(ask, config, overrides), ask.policy.releases), TODAY)
    assert result.intake is not None
    with pytest.raises(RequestInvalid) as caught:
        require_known_values(result.intake, "/deployment")
    assert [(fault.pointer, fault.message) for fault in caught.value.faults] == [("/deployment", DIFFERS + why)]


@table(("config", "overrides"), USUAL)
def test_fields_as_usual_have_none(ask: Asking, config: Config, overrides: Any) -> None:
    warnings = ask.document(asked(ask, config, overrides)).warnings
    assert [text for text in warnings if text.startswith(DIFFERS)] == []


REFUSAL: Final = "expert parallelism is enabled, and it has no experts"


def test_it_is_not_certain_what_vllm_refuses(ask: Asking) -> None:
    config = {**DENSE, "attribute_map": {"num_experts": "hidden_size"}}
    decision = ask(["--model", "x", "--enable-expert-parallel"], RELEASE, models={"x": config})
    assert any(text.startswith("vLLM refuses") and text.endswith(REFUSAL) for text in decision.warnings)


def test_those_of_a_draft_count_too(ask: Asking) -> None:
    draft = {**MODELS["eagle-draft"], "attribute_map": {"architectures": "foo"}}
    settings = {"method": "eagle", "model": "x", "num_speculative_tokens": 2}
    args = ["--model", "dense", "--speculative-config", json.dumps(settings)]
    warnings = ask(args, RELEASE, models={"x": draft}).warnings
    assert [text for text in warnings if text.startswith(DIFFERS)] == [DIFFERS + ALIASES]
