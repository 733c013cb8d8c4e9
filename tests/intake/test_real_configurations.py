"""Facts as configurations that vLLM made for real showed them, one for each property that was misunderstood."""

from __future__ import annotations

from typing import Any, Final

import pytest
from deployments import DENSE, HEADS, MODELS, Asking, Config
from tables import table

from policy.intake.model.configuration import Configuration
from policy.intake.model.registry import ModelQuery, Unsupported, select_class
from policy.intake.model.tables import tables

GRAPH: Final = "compilation_config.cudagraph_mode"
QUANTIZED: Final = "model_config.is_quantized"
DRAFT: Final = "speculative_config.draft_model_config.architectures"
MTP: Final = ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}']
POOLER: Final = ["--pooler-config", '{"pooling_type": "MEAN"}']
MOONSHOT: Final[Config] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {
        **MODELS["mla"],
        "quantization_config": {"quant_method": "compressed-tensors"},
    },
}
EXPERTS: Final = "model_config.is_moe"
MLA: Final = "model_config.use_mla"
HYBRID: Final = "model_config.is_hybrid"
UNLIMITED: Final[Config] = {"architectures": ["UnlimitedOCRForCausalLM"], "model_type": "unlimited-ocr"}
DEEPSEEK_VL: Final[Config] = {"architectures": ["DeepseekVLV2ForCausalLM"], "model_type": "deepseek_vl_v2"}
MOONDREAM: Final[Config] = {"architectures": ["HfMoondream"], "model_type": "moondream3"}
QWEN_ASR: Final[Config] = {"architectures": ["Qwen3ASRForConditionalGeneration"], "model_type": "qwen3_asr"}
OVIS: Final[Config] = {"architectures": ["Ovis"], "model_type": "ovis"}
ULTRAVOX: Final[Config] = {"architectures": ["UltravoxModel"], "model_type": "ultravox"}
QWEN_NEXT: Final[Config] = {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_experts": 0}
QWEN_VL: Final[Config] = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"}
GEMMA: Final[Config] = {"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", **HEADS}
QWEN: Final[Config] = {"model_type": "qwen3", **HEADS}
MOE: Final[Config] = {"model_type": "qwen3_moe", "num_experts": 3, **HEADS}
LAYERED: Final[Config] = {**DENSE, "num_mtp_layers": 1}

FACTS: list[tuple[str, str, list[str], dict[str, Config], Any]] = [
    (GRAPH, "0.23.0", ["--model", "dense", *POOLER], {}, ("PIECEWISE", "args[2]")),
    (GRAPH, "0.33.0", ["--model", "dense", *POOLER], {}, ("PIECEWISE", "args[2]")),
    (GRAPH, "0.33.0", ["--model", "dense"], {}, ("FULL_AND_PIECEWISE", "default")),
    (QUANTIZED, "0.22.0", ["--model", "x"], {"x": MOONSHOT}, (True, "model_configs/x/text_config/quantization_config")),
    (QUANTIZED, "0.23.0", ["--model", "x"], {"x": MOONSHOT}, (True, "model_configs/x/text_config/quantization_config")),
    (
        QUANTIZED,
        "0.23.0",
        ["--model", "x"],
        {"x": {**MOONSHOT, "model_type": "qwen3"}},
        (False, "model_configs/x/text_config/quantization_config"),
    ),
    (
        DRAFT,
        "0.33.0",
        ["--model", "x", "--model-impl", "transformers", *MTP],
        {"x": LAYERED},
        (["TransformersForMTP"], "model_configs/x"),
    ),
    (
        DRAFT,
        "0.32.0",
        ["--model", "x", "--model-impl", "transformers", *MTP],
        {"x": LAYERED},
        (["Qwen3ForCausalLM"], "model_configs/x"),
    ),
]


@table(("fact", "release", "args", "models", "expected"), FACTS, ids=[f"{r[0]} {r[1]} {' '.join(r[2])}" for r in FACTS])
def test_a_fact_is_what_vllm_had(
    ask: Asking, fact: str, release: str, args: list[str], models: dict[str, Config], expected: Any
) -> None:
    assert ask.fact(fact, args, release, models=models) == expected


VALUES: list[tuple[str, str, Config, bool]] = [
    (EXPERTS, "0.25.1", {**UNLIMITED, "language_config": {"n_routed_experts": 64}}, True),
    (EXPERTS, "0.25.1", UNLIMITED, True),
    (EXPERTS, "0.25.1", {**UNLIMITED, "language_config": {"num_experts": 0}}, False),
    (MLA, "0.28.0", {**DEEPSEEK_VL, "language_config": HEADS}, False),
    (MLA, "0.28.0", {**DEEPSEEK_VL, "language_config": {"kv_lora_rank": 512}}, True),
    (EXPERTS, "0.28.0", {**DEEPSEEK_VL, "language_config": {"num_experts": 0}}, False),
    (EXPERTS, "0.23.0", MOONDREAM, True),
    (EXPERTS, "0.28.0", {**MOONDREAM, "config": {}}, True),
    (EXPERTS, "0.28.0", {**MOONDREAM, "config": {"text": {"moe": {"n_experts": 0}}}}, False),
    (EXPERTS, "0.28.0", {**QWEN_ASR, "thinker_config": {"num_experts": 8}}, False),
    (EXPERTS, "0.28.0", {**OVIS, "llm_config": MOE, "text_config": QWEN}, True),
    (EXPERTS, "0.28.0", {**OVIS, "llm_config": QWEN, "text_config": MOE}, False),
    (EXPERTS, "0.28.0", {**ULTRAVOX, "text_config": {"model_type": "gemma3", "text_config": {"num_experts": 4}}}, True),
    (EXPERTS, "0.28.0", {**ULTRAVOX, "text_config": {"model_type": "llama4"}}, True),
    (EXPERTS, "0.28.0", {**ULTRAVOX, "num_experts": 4}, False),
    (EXPERTS, "0.25.1", {**GEMMA, "n_routed_experts": 8}, False),
    (EXPERTS, "0.25.1", {**GEMMA, "num_experts": 8}, True),
    (HYBRID, "0.28.0", {**QWEN_NEXT, "layer_types": ["attention"] * 48}, True),
    (HYBRID, "0.28.0", {**QWEN_VL, "layer_types": ["attention"] * 48}, False),
    (HYBRID, "0.23.0", {**QWEN_NEXT, "layer_types": ["attention"] * 48}, False),
]


@table(("fact", "release", "config", "expected"), VALUES)
def test_a_value_is_what_the_class_of_the_configuration_made(
    ask: Asking, fact: str, release: str, config: Config, expected: object
) -> None:
    found = ask.fact(fact, ["--model", "x"], release, models={"x": config})
    assert found is not None
    assert found[0] is expected


REPEATED: list[tuple[list[str], list[str]]] = [
    (
        [
            "--speculative-config",
            '{"foo": 1}',
            "--speculative-config",
            '{"method": "ngram", "num_speculative_tokens": 2}',
        ],
        [],
    ),
    (
        [
            "--speculative-config",
            '{"method": "ngram", "num_speculative_tokens": 2}',
            "--speculative-config",
            '{"foo": 1}',
        ],
        ["/deployment/args/5"],
    ),
    (["--speculative-config", "{", "--speculative-config", '{"method": "ngram"}'], ["/deployment/args/3"]),
    (["--kv-transfer-config", '{"foo": 1}', "--kv-transfer-config", "{}"], ["/deployment/args/3"]),
    (["-tp", "x", "-tp", "2"], ["/deployment/args/3"]),
]


@pytest.mark.parametrize(("args", "expected"), REPEATED, ids=[" ".join(args) for args, _ in REPEATED])
def test_the_fields_of_a_json_flag_are_read_after_all_words(ask: Asking, args: list[str], expected: list[str]) -> None:
    words = ["--model", "dense", *args]
    if expected:
        assert [pointer for pointer, _ in ask.refusal(words)[1]] == expected
    else:
        assert ask(words).starts


@pytest.mark.parametrize("model_impl", ["transformers", "auto"])
def test_a_class_that_the_registry_lacks_leaves_the_native_one(model_impl: str) -> None:
    known = tables("0.33.0")
    lacking = {name: model for name, model in known.models.items() if not name.startswith("Transformers")}
    release = type(known)(
        **{name: getattr(known, name) for name in known.__struct_fields__}
        | {"models": lacking, "resolutions": {}, "computed": {}}
    )
    configuration = Configuration(DENSE, release)
    found = select_class(release, configuration, ["Qwen3ForCausalLM"], ModelQuery(model_impl=model_impl))
    assert found.architecture == "Qwen3ForCausalLM"
    with pytest.raises(Unsupported):
        select_class(release, Configuration({**HEADS}, release), ["Own"], ModelQuery(model_impl=model_impl))
