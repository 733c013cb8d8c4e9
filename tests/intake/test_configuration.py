"""A `config.json` as vLLM reads it.

Defaults, aliases and formulas of its class, its language model, and its form as a draft.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from policy.intake.model.configuration import Configuration, architectures_stated, as_draft, evaluate_rows
from policy.intake.model.formula import compute
from policy.intake.model.tables import releases, tables

NEWEST = "0.33.0"
Document = dict[str, Any]

ATTRIBUTES: list[tuple[str, Document, str, Any]] = [
    (NEWEST, {"model_type": "jamba"}, "num_experts", 16),
    (NEWEST, {"model_type": "jamba", "num_local_experts": 2}, "num_experts", 2),
    (NEWEST, {"model_type": "jamba", "num_experts": 3}, "num_local_experts", 3),
    (NEWEST, {"model_type": "deepseek_v2"}, "n_routed_experts", 64),
    (NEWEST, {"model_type": "whisper"}, "is_encoder_decoder", True),
    (NEWEST, {"model_type": "no_such_type", "num_experts": 2}, "num_experts", 2),
    (NEWEST, {}, "num_experts", None),
    (NEWEST, {"model_type": "qwen3", "num_hidden_layers": 2}, "layer_types", ["full_attention"] * 2),
    (
        NEWEST,
        {
            "model_type": "qwen3",
            "num_hidden_layers": 2,
            "use_sliding_window": True,
            "sliding_window": 8,
            "max_window_layers": 1,
        },
        "layer_types",
        ["full_attention", "sliding_attention"],
    ),
    (NEWEST, {"model_type": "qwen3", "num_hidden_layers": "two"}, "layer_types", None),
    (NEWEST, {"model_type": "qwen3", "layer_types": ["mamba", 1]}, "layer_types", ["linear_attention", 1]),
    ("0.23.0", {"model_type": "qwen3", "layer_types": ["mamba", 1]}, "layer_types", ["mamba", 1]),
    (
        NEWEST,
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M*-E"},
        "layer_types",
        ["linear_attention", "full_attention", "mlp", "moe"],
    ),
    (NEWEST, {"model_type": "nemotron_h", "hybrid_override_pattern": "M?"}, "layer_types", None),
    (
        NEWEST,
        {"model_type": "deepseek_v4", "num_hidden_layers": 2, "compress_ratios": [128, 4]},
        "layer_types",
        ["heavily_compressed_attention", "compressed_sparse_attention"],
    ),
    (NEWEST, {"model_type": "swin"}, "hidden_size", None),
    (NEWEST, {"model_type": "swin", "hidden_size": 4}, "hidden_size", 4),
    (NEWEST, {"model_type": "musespark1x_text", "moe": {"num_experts": 8}}, "num_local_experts", 8),
    (
        NEWEST,
        {"model_type": "deepseek_v41", "text_config": {"n_routed_experts": 2, "model_type": "x"}},
        "n_routed_experts",
        2,
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v41", "n_routed_experts": 3, "text_config": {"n_routed_experts": 2}},
        "n_routed_experts",
        3,
    ),
    (NEWEST, {"model_type": "deepseek_v41", "text_config": []}, "n_routed_experts", None),
    ("0.28.0", {"model_type": "qwen3_next", "layer_types": ["attention"] * 2}, "layer_types", ["full_attention"] * 2),
    ("0.28.0", {"model_type": "llama", "layer_types": ["attention"]}, "layer_types", ["attention"]),
    ("0.23.0", {"model_type": "qwen3_next", "layer_types": ["attention"]}, "layer_types", ["attention"]),
    ("0.28.0", {"model_type": "kimi_k2"}, "n_routed_experts", 256),
]


@table(("release", "document", "name", "expected"), ATTRIBUTES)
def test_an_attribute_is_stated_computed_or_a_default(
    release: str, document: Document, name: str, expected: Any
) -> None:
    assert Configuration(document, tables(release)).get(name) == expected


TEXTS: list[tuple[Document, str | None, int]] = [
    ({"model_type": "qwen3"}, "qwen3", 0),
    ({"model_type": "gemma3", "text_config": {"num_hidden_layers": 3}}, "gemma3_text", 3),
    ({"model_type": "gemma3", "text_config": {"model_type": "llama", "num_hidden_layers": 3}}, "llama", 3),
    ({"model_type": "gemma3", "text_config": {"model_type": "no_such_type", "num_hidden_layers": 3}}, "gemma3_text", 3),
    ({"model_type": "gemma3"}, "gemma3_text", 26),
    ({"model_type": "gemma3", "text_config": [1]}, "gemma3_text", 26),
    ({"model_type": "no_such_type", "text_config": {"num_hidden_layers": 3}}, None, 3),
    ({"model_type": "no_such_type", "llm_config": {"num_hidden_layers": 3}}, None, 3),
    (
        {"model_type": "no_such_type", "llm_config": {"num_hidden_layers": 3}, "text_config": {"num_hidden_layers": 4}},
        None,
        4,
    ),
    ({"model_type": "gemma3", "llm_config": {"num_hidden_layers": 3}}, "gemma3_text", 26),
    ({"model_type": "llama4", "llm_config": {"num_hidden_layers": 3}}, "llama4_text", 48),
    ({"model_type": "qwen2_5_vl", "llm_config": {"num_hidden_layers": 3}}, "qwen2_5_vl_text", 80),
    ({"model_type": "llava", "llm_config": {"num_hidden_layers": 3}}, "llama", 32),
    ({"model_type": "mistral3", "llm_config": {"num_hidden_layers": 3}}, "mistral", 32),
    ({"model_type": "mllama", "llm_config": {"num_hidden_layers": 3}}, "mllama_text_model", 40),
    ({"model_type": "qwen3", "llm_config": {"num_hidden_layers": 3}}, None, 3),
    (
        {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"num_hidden_layers": 3}}},
        "qwen3_omni_moe_text",
        3,
    ),
    ({"model_type": "moondream3"}, "moondream3_text", 24),
    ({"model_type": "moondream3", "config": {"text": {"n_layers": 3}}}, "moondream3_text", 3),
    ({"model_type": "moondream3", "config": [{"text": 3}]}, "moondream3_text", 24),
    ({"model_type": "unlimited-ocr"}, "deepseek_v2", 32),
    ({"model_type": "unlimited-ocr", "language_config": {"num_hidden_layers": 3}}, "deepseek_v2", 3),
    ({"model_type": "deepseek_vl_v2", "language_config": {"num_hidden_layers": 3}}, "deepseek_v2", 3),
    ({"model_type": "ovis", "llm_config": {"model_type": "qwen3", "num_hidden_layers": 3}}, "qwen3", 3),
    (
        {"model_type": "ovis", "llm_config": {"model_type": "qwen3"}, "text_config": {"model_type": "llama"}},
        "qwen3",
        32,
    ),
    ({"model_type": "ultravox", "num_hidden_layers": 3}, "llama", 32),
    ({"model_type": "ultravox", "text_config": {"model_type": "llama4"}}, "llama4_text", 48),
    (
        {"model_type": "ultravox", "text_config": {"model_type": "gemma3", "text_config": {"num_hidden_layers": 3}}},
        "gemma3_text",
        3,
    ),
    ({"model_type": "qwen3_asr", "thinker_config": {"num_hidden_layers": 3}}, "qwen3_asr_text", 0),
    ({"speculators_config": {}}, "speculators", 0),
    ({"architectures": ["LongcatFlashForCausalLM"]}, "longcat_flash", 0),
    ({"architectures": [1]}, None, 0),
]


@table(("document", "model_type", "layers"), TEXTS)
def test_the_language_model_is_found(document: Document, model_type: str | None, layers: int) -> None:
    text = Configuration(document, tables(NEWEST)).text()
    assert text.model_type == model_type
    assert layers in {0, text.get("num_hidden_layers")}


def test_parts_nested_in_themselves_are_followed_to_a_limited_depth() -> None:
    document: Document = {}
    for _ in range(500):
        document = {"model_type": "qwen3_omni_moe", "thinker_config": document}
    assert Configuration(document, tables(NEWEST)).text().model_type == "qwen3_omni_moe"


def test_the_language_model_is_determined_once() -> None:
    configuration = Configuration({"model_type": "gemma3"}, tables(NEWEST))
    assert configuration.text() is configuration.text()


def test_a_stated_null_is_present() -> None:
    configuration = Configuration({"model_type": "llama", "num_experts": None}, tables(NEWEST))
    assert (
        configuration.has("num_experts"),
        configuration.has("layer_types"),
        configuration.has("num_hidden_layers"),
    ) == (True, False, True)


def test_a_field_is_found_by_its_path() -> None:
    configuration = Configuration(
        {"model_type": "gemma3", "text_config": {"num_hidden_layers": 3}, "a": {"b": {"c": 1}}}, tables(NEWEST)
    )
    paths = ("a.b.c", "a.x.c", "text_config.class", "text_config.model_type", "class", "model_type")
    assert [configuration.at(path) for path in paths] == [
        1,
        None,
        "Gemma3TextConfig",
        "gemma3_text",
        "Gemma3Config",
        "gemma3",
    ]


DRAFTS: list[tuple[str, Document, str | None, list[str]]] = [
    (
        "0.20.0",
        {"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"]},
        "deepseek_mtp",
        ["DeepSeekMTPModel"],
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"]},
        "deepseek_mtp",
        ["DeepseekV32MTPModel"],
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]},
        "deepseek_mtp",
        ["DeepSeekMTPModel"],
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v41", "architectures": ["DeepseekV41ForCausalLM"]},
        "deepseek_mtp",
        ["DeepseekV41ForCausalLM"],
    ),
    (NEWEST, {"model_type": "qwen3_5_moe", "architectures": ["X"]}, "qwen3_5_mtp", ["Qwen3_5MoeMTP"]),
    (NEWEST, {"model_type": "qwen3_5", "architectures": ["X"]}, "qwen3_5_mtp", ["Qwen3_5MTP"]),
    (
        "0.23.0",
        {"model_type": "nemotron_h", "architectures": ["X"], "num_nextn_predict_layers": 1},
        "nemotron_h_mtp",
        ["NemotronHMTPModel"],
    ),
    (
        "0.23.0",
        {"model_type": "nemotron_h", "architectures": ["X"], "num_nextn_predict_layers": 0},
        "nemotron_h",
        ["X"],
    ),
    (
        NEWEST,
        {"model_type": "step3p7", "architectures": ["X"], "text_config": {"num_hidden_layers": 2}},
        "step3p5_mtp",
        ["Step3p5MTP"],
    ),
    (NEWEST, {"model_type": "x", "architectures": ["MiMoV2OmniForCausalLM"]}, "mimo_v2_mtp", ["MiMoV2OmniMTPModel"]),
    (
        NEWEST,
        {"model_type": "x", "architectures": ["MistralLarge3ForCausalLM"]},
        "x",
        ["EagleMistralLarge3ForCausalLM"],
    ),
    (
        NEWEST,
        {
            "model_type": "x",
            "architectures": ["RadioMBartPrefixForCausalLM"],
            "decoder": {"causal_vision_prefix": True},
        },
        "mtp",
        ["ParseAuxMTPModel"],
    ),
    (
        NEWEST,
        {"model_type": "x", "architectures": ["RadioMBartPrefixForCausalLM"], "decoder": 1},
        "x",
        ["RadioMBartPrefixForCausalLM"],
    ),
    (
        NEWEST,
        {
            "model_type": "nemo",
            "architectures": ["NemotronH_Omni_Reasoning_V3"],
            "text_config": {"model_type": "nemotron_h", "num_nextn_predict_layers": 1},
        },
        "nemotron_h_mtp",
        ["NemotronHMTPModel"],
    ),
    (
        NEWEST,
        {
            "model_type": "nemo",
            "architectures": ["NemotronH_Omni_Reasoning_V3"],
            "text_config": {"model_type": "llama", "architectures": 7},
        },
        "llama",
        [],
    ),
    (NEWEST, {"model_type": "llama", "architectures": ["LlamaForCausalLMEagle3"]}, "llama", ["LlamaForCausalLMEagle3"]),
    (NEWEST, {"model_type": "llama"}, "llama", []),
]


@table(("release", "document", "model_type", "architectures"), DRAFTS)
def test_a_target_is_rewritten_into_its_draft(
    release: str, document: Document, model_type: str | None, architectures: list[str]
) -> None:
    configuration = Configuration(document, tables(release))
    draft, names = as_draft(configuration, architectures_stated(configuration))
    assert (draft.model_type, names) == (model_type, architectures)


def test_a_draft_keeps_the_class_that_filled_its_configuration() -> None:
    document = {
        "model_type": "dots3_note",
        "architectures": ["Dots3NoteForCausalLM"],
        "layer_types": ["full_attention"],
        "num_nextn_predict_layers": 2,
    }
    draft, names = as_draft(Configuration(document, tables(NEWEST)), ["Dots3NoteForCausalLM"])
    assert (names, draft.get("layer_types")) == (
        ["Dots3NoteMTPModel"],
        ["full_attention", "sliding_attention", "sliding_attention"],
    )
    moved, _ = as_draft(Configuration({"model_type": "deepseek_v3"}, tables(NEWEST)), ["DeepseekV3ForCausalLM"])
    assert (moved.model_type, moved.kind.class_name, moved.get("n_routed_experts")) == (
        "deepseek_mtp",
        "DeepseekV3Config",
        256,
    )


METHODS: list[tuple[str, str, str, list[str], str, str, list[str], bool]] = [
    (
        "0.22.0",
        "draft_model",
        "AngelSlim/Qwen3-8B_eagle3",
        ["LlamaForCausalLM"],
        "llama",
        "eagle3",
        ["Eagle3LlamaForCausalLM"],
        False,
    ),
    ("0.22.0", "eagle3", "x", ["LlamaForCausalLMEagle3"], "llama", "eagle3", ["LlamaForCausalLMEagle3"], False),
    (
        "0.22.0",
        "draft_model",
        "yuhuili/EAGLE-LLaMA3",
        ["LlamaForCausalLM"],
        "llama",
        "eagle",
        ["EagleLlamaForCausalLM"],
        False,
    ),
    ("0.22.0", "draft_model", "x", ["MedusaModel"], "medusa", "medusa", ["MedusaModel"], False),
    (NEWEST, "draft_model", "x", ["MedusaModel"], "medusa", "draft_model", ["MedusaModel"], False),
    (
        NEWEST,
        "draft_model",
        "z-lab/Qwen3-8B-DFlash",
        ["DFlashDraftModel"],
        "qwen3",
        "dflash",
        ["DFlashDraftModel"],
        True,
    ),
    (NEWEST, "dflash", "x", ["LiLiCorrDraftModel"], "qwen3", "dflash", ["LiLiCorrDraftModel"], True),
    ("0.30.0", "dflash", "x", ["LiLiCorrDraftModel"], "qwen3", "dflash", ["DFlashLiLiCorrDraftModel"], True),
    (NEWEST, "draft_model", "x", ["Qwen3DSparkModel"], "qwen3", "dspark", ["Qwen3DSparkModel"], True),
    (NEWEST, "draft_model", "x", ["DSparkDraftModel"], "qwen3", "dspark", ["Qwen3DSparkModel"], True),
    (NEWEST, "dspark", "x", ["DeepseekV4ForCausalLM"], "deepseek_mtp", "dspark", ["DSparkDraftModel"], True),
    ("0.22.0", "draft_model", "x", ["DeepSeekMTPModel"], "deepseek_mtp", "mtp", ["DeepSeekMTPModel"], False),
    ("0.22.0", "draft_model", "x", ["Qwen3ForCausalLM"], "qwen3", "draft_model", ["Qwen3ForCausalLM"], False),
]


@table(("release", "method", "model", "architectures", "model_type", "found", "names", "parallel"), METHODS)
def test_a_draft_decides_the_method_and_gets_its_names(
    release: str,
    method: str,
    model: str,
    architectures: list[str],
    model_type: str,
    found: str,
    names: list[str],
    *,
    parallel: bool,
) -> None:
    constants = tables(release).constants
    known = {
        "method": method,
        "draft_model_config.model": model,
        "draft_model_config.architectures": architectures,
        "draft_model_config.hf_config.model_type": model_type,
        "parallel_drafting": False,
    }
    known["method"] = compute(constants["draft_method"], known.get)
    known |= evaluate_rows(constants["draft_overrides"], known.get)
    assert (known["method"], known["draft_model_config.architectures"], known["parallel_drafting"]) == (
        found,
        names,
        parallel,
    )


def test_the_second_of_two_rows_sees_the_changes_of_the_first() -> None:
    rows: list[dict[str, Any]] = [
        {"a": ["+", ["key", "a"], 1]},
        {"when": [">", ["key", "a"], 1], "b": ["key", "a"]},
        {"c": ["%", 1, 0]},
        {"when": False, "d": 1},
    ]
    assert evaluate_rows(rows, {"a": 1}.get) == {"a": 2, "b": 2}


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from([10**400, "mamba", "moe"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "architectures", "block_configs", "compress_ratios", "decoder", "head_dim", "hybrid_override_pattern",
    "is_encoder_decoder", "kv_lora_rank", "layer_types", "llm_config", "moe", "num_experts", "num_hidden_layers",
    "num_nextn_predict_layers", "sliding_window", "text_config", "thinker_config", "vision_config",
)  # fmt: skip
TYPES = sorted({model_type for release in ("0.20.0", NEWEST) for model_type in tables(release).configs})
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), JUNK, max_size=8)


@given(document=DOCUMENTS, model_type=st.sampled_from(TYPES) | JUNK, release=st.sampled_from(releases()))
def test_every_attribute_has_a_value_for_any_document(document: Document, model_type: Any, release: str) -> None:
    configuration = Configuration({**document, "model_type": model_type}, tables(release))
    for found in (configuration, configuration.text()):
        for name in NAMES:
            found.get(name)
            found.has(name)
    as_draft(configuration, architectures_stated(configuration))
