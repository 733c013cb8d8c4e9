"""The class that a release uses for a model, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tables import table

from policy.intake.deployment import Platform
from policy.intake.model.configuration import Configuration
from policy.intake.model.registry import (
    MAX_ARCHITECTURES,
    ModelQuery,
    ResolvedModel,
    Unsupported,
    architectures_of,
    is_encoder_decoder,
    is_hybrid,
    is_moe,
    select_class,
    use_mla,
)
from policy.intake.model.tables import releases, tables

if TYPE_CHECKING:
    from policy.intake.model.tables import Tables

NEWEST = "0.33.0"
Document = dict[str, Any]


def resolve(release: str, document: Document, query: ModelQuery | None = None) -> ResolvedModel:
    configuration = Configuration(document, tables(release))
    return select_class(configuration.tables, configuration, architectures_of(configuration), query or ModelQuery())


QWEN: Document = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
CASES: list[tuple[str, Document, ModelQuery, tuple[str, str, str]]] = [
    (NEWEST, QWEN, ModelQuery(), ("generate", "none", "Qwen3ForCausalLM")),
    (NEWEST, QWEN, ModelQuery(runner="pooling"), ("pooling", "embed", "Qwen3ForCausalLM")),
    (NEWEST, QWEN, ModelQuery(convert="classify"), ("pooling", "classify", "Qwen3ForCausalLM")),
    (NEWEST, QWEN, ModelQuery(sentence_transformers=True), ("pooling", "embed", "Qwen3ForCausalLM")),
    (NEWEST, QWEN, ModelQuery(runner="draft"), ("draft", "none", "Qwen3ForCausalLM")),
    (
        NEWEST,
        {**QWEN, "architectures": ["NoSuchModel", "Qwen3ForCausalLM"]},
        ModelQuery(),
        ("pooling", "embed", "Qwen3ForCausalLM"),
    ),
    (
        NEWEST,
        {**QWEN, "architectures": ["NoSuch", "Qwen3ForCausalLM"]},
        ModelQuery(),
        ("generate", "none", "Qwen3ForCausalLM"),
    ),
    (
        NEWEST,
        {"architectures": ["LlamaModel", "LlamaForCausalLM"], "model_type": "llama"},
        ModelQuery(),
        ("generate", "none", "LlamaForCausalLM"),
    ),
    (
        NEWEST,
        {"architectures": ["Qwen3Model", "Qwen3ForCausalLM"], "model_type": "qwen3"},
        ModelQuery(),
        ("pooling", "embed", "Qwen3ForCausalLM"),
    ),
    (NEWEST, {"model_type": "llama"}, ModelQuery(), ("generate", "none", "LlamaForCausalLM")),
    (
        NEWEST,
        {"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3"},
        ModelQuery(),
        ("pooling", "classify", "Qwen3ForCausalLM"),
    ),
    (
        NEWEST,
        {"architectures": ["BertModel"], "model_type": "bert"},
        ModelQuery(),
        ("pooling", "none", "BertEmbeddingModel"),
    ),
    (
        NEWEST,
        {"architectures": ["Qwen3ForCausalLM"], "model_type": "no_such_type"},
        ModelQuery(),
        ("generate", "none", "Qwen3ForCausalLM"),
    ),
    (
        NEWEST,
        {**QWEN, "architectures": ["TransformersForCausalLM"]},
        ModelQuery(model_impl="transformers"),
        ("generate", "none", "TransformersForCausalLM"),
    ),
    (NEWEST, QWEN, ModelQuery(model_impl="terratorch"), ("pooling", "none", "Terratorch")),
    (NEWEST, {"architectures": ["ExaoneMoeMTP"]}, ModelQuery(), ("generate", "none", "ExaoneMoeMTP")),
    (NEWEST, {"architectures": ["NoSuch"]}, ModelQuery(model_impl="terratorch"), ("generate", "none", "Terratorch")),
]


@table(("release", "document", "query", "expected"), CASES)
def test_the_runner_type_follows_from_the_class(
    release: str, document: Document, query: ModelQuery, expected: tuple[str, str, str]
) -> None:
    found = resolve(release, document, query)
    assert (found.runner_type, found.convert_type, found.model.class_name) == expected


BACKEND: list[tuple[Document, ModelQuery, str]] = [
    (QWEN, ModelQuery(model_impl="transformers"), "TransformersForCausalLM"),
    (
        {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"},
        ModelQuery(model_impl="transformers"),
        "TransformersMoEForCausalLM",
    ),
    (
        {"architectures": ["Qwen3Model"], "model_type": "qwen3"},
        ModelQuery(model_impl="transformers", runner="pooling"),
        "TransformersEmbeddingModel",
    ),
    (QWEN, ModelQuery(model_impl="transformers", runner="pooling"), "TransformersForCausalLM"),
    ({"architectures": ["HeliumForCausalLM"], "model_type": "helium"}, ModelQuery(), "TransformersForCausalLM"),
    (
        {"architectures": ["HeliumForCausalLM"], "model_type": "helium"},
        ModelQuery(convert="embed"),
        "TransformersForCausalLM",
    ),
    (
        {"architectures": ["AyaVisionForConditionalGeneration"], "model_type": "aya_vision"},
        ModelQuery(model_impl="transformers"),
        "TransformersMultiModalForCausalLM",
    ),
]


@table(("document", "query", "expected"), BACKEND)
def test_the_transformers_backend_is_used_for_its_own_name(
    document: Document, query: ModelQuery, expected: str
) -> None:
    assert resolve(NEWEST, document, query).architecture == expected


REFUSED: list[tuple[str, Document, ModelQuery, str]] = [
    (NEWEST, {}, ModelQuery(), "No model architectures are specified"),
    (NEWEST, {"architectures": [7, None]}, ModelQuery(), "No model architectures are specified"),
    (NEWEST, {"architectures": "LlamaForCausalLM"}, ModelQuery(), "No model architectures are specified"),
    (
        NEWEST,
        {"architectures": ["Phi3SmallForCausalLM"], "model_type": "phi3small"},
        ModelQuery(),
        "Model architecture Phi3SmallForCausalLM was supported in vLLM until v0.9.2, and is not supported anymore.",
    ),
    (
        "0.23.0",
        {"architectures": ["BartModel"]},
        ModelQuery(),
        (
            "Model architecture BartModel is not supported in-tree anymore. Please install the plugin at "
            "https://github.com/vllm-project/bart-plugin"
        ),
    ),
    (NEWEST, {"architectures": ["NoSuch"]}, ModelQuery(), "Model architectures ['NoSuch'] are not supported for now."),
    (
        "0.20.0",
        {"architectures": ["NoSuch"]},
        ModelQuery(model_impl="transformers"),
        "The Transformers implementation of 'NoSuch' is not compatible with vLLM.",
    ),
    (
        NEWEST,
        {"architectures": ["NoSuch"], "auto_map": {}},
        ModelQuery(model_impl="transformers"),
        "Model architectures ['NoSuch'] are not supported for now.",
    ),
]


@table(("release", "document", "query", "reason"), REFUSED)
def test_a_model_that_a_release_refuses_is_refused_with_its_message(
    release: str, document: Document, query: ModelQuery, reason: str
) -> None:
    with pytest.raises(Unsupported) as refused:
        resolve(release, document, query)
    assert str(refused.value) == reason


def test_a_class_that_no_release_registers_is_refused() -> None:
    found = tables(NEWEST)
    bare = replace(found, models={}, other_platforms={}, resolutions={})
    with pytest.raises(Unsupported, match="are not supported for now"):
        select_class(bare, Configuration(QWEN, bare), ["Qwen3ForCausalLM"], ModelQuery(model_impl="terratorch"))


def test_resolving_the_same_model_again_gives_the_same_result() -> None:
    assert resolve(NEWEST, QWEN) is resolve(NEWEST, {**QWEN, "num_hidden_layers": 2})
    assert resolve(NEWEST, QWEN, ModelQuery(platform="rocm")) == resolve(NEWEST, QWEN, ModelQuery(platform="rocm"))


def test_excess_architectures_are_ignored() -> None:
    names = ["NoSuch"] * MAX_ARCHITECTURES + ["Qwen3ForCausalLM"]
    with pytest.raises(Unsupported):
        resolve(NEWEST, {**QWEN, "architectures": names})


REWRITTEN: list[tuple[str, Document, frozenset[str], list[str]]] = [
    (NEWEST, {"model_type": "mimo_v2", "architectures": ["MiMoV2ForCausalLM"]}, frozenset(), ["MiMoV2ForCausalLM"]),
    (
        NEWEST,
        {"model_type": "mimo_v2", "architectures": ["MiMoV2ForCausalLM"], "vision_config": {"depth": 1}},
        frozenset(),
        ["MiMoV2OmniForCausalLM"],
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "vision_n_layers": 2},
        frozenset(),
        ["DeepseekV4ForConditionalGeneration"],
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "vision_n_layers": "two"},
        frozenset(),
        ["DeepseekV4ForCausalLM"],
    ),
    (
        "0.29.0",
        {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "vision_n_layers": 2},
        frozenset(),
        ["DeepseekV4ForCausalLM"],
    ),
    (NEWEST, {"model_type": "qwen3_5", "architectures": ["Qwen3_5Model"]}, frozenset(), ["Qwen3_5Model"]),
    (
        NEWEST,
        {"model_type": "qwen3_5", "architectures": ["Qwen3_5Model"]},
        frozenset({"decision_config.json"}),
        ["D3ForSequenceClassification"],
    ),
    (NEWEST, {"model_type": "llama", "architectures": ["A", 1, "B"]}, frozenset(), ["A", "B"]),
    (NEWEST, {"model_type": "llama", "architectures": []}, frozenset(), ["LlamaModel"]),
    (NEWEST, {"model_type": "llama", "architectures": None}, frozenset(), ["LlamaModel"]),
    (NEWEST, {"model_type": "llama", "architectures": [7]}, frozenset(), []),
    (NEWEST, {}, frozenset(), []),
]


@table(("release", "document", "files", "expected"), REWRITTEN)
def test_architectures_are_those_that_vllm_sees(
    release: str, document: Document, files: frozenset[str], expected: list[str]
) -> None:
    assert architectures_of(Configuration(document, tables(release)), files) == expected


EXPERTS: list[tuple[Document, bool]] = [
    ({"model_type": "jamba"}, True),
    ({"model_type": "nemotron_h"}, True),
    ({"model_type": "qwen3"}, False),
    ({"model_type": "qwen3_moe"}, True),
    ({"model_type": "dbrx"}, False),
    ({"model_type": "qwen3", "num_experts": 8}, True),
    ({"model_type": "qwen3", "num_experts": 0, "n_routed_experts": 8}, False),
    ({"model_type": "x", "num_experts": [4, 2]}, True),
    ({"model_type": "x", "num_experts": []}, False),
    ({"model_type": "x", "num_experts": "8"}, True),
    ({"model_type": "x", "num_experts": ["8"]}, True),
    ({"model_type": "x", "num_experts": ["0", 8]}, False),
    ({"model_type": "x", "num_experts": [8.0]}, True),
    ({"model_type": "x", "num_experts": True}, True),
    ({"model_type": "x", "num_experts": 8.0}, True),
    ({"model_type": "x", "num_experts": 1.5}, False),
    ({"model_type": "x", "num_experts": 1e20}, False),
    ({"model_type": "x", "num_experts": "+8"}, True),
    ({"model_type": "x", "num_experts": " 8\n"}, True),
    ({"model_type": "x", "num_experts": "8.00"}, True),
    ({"model_type": "x", "num_experts": "1_0"}, True),
    ({"model_type": "x", "num_experts": "00_1"}, True),
    ({"model_type": "x", "num_experts": "0_0.0"}, False),
    ({"model_type": "x", "num_experts": "-8"}, False),
    ({"model_type": "x", "num_experts": "1__0"}, False),
    ({"model_type": "x", "num_experts": "8."}, False),
    ({"model_type": "x", "num_experts": "1e1"}, False),
    ({"model_type": "x", "num_experts": "0x8"}, False),
    ({"model_type": "x", "num_experts": "٨"}, False),
    ({"model_type": "x", "num_experts": "9" * 4301}, False),
    ({"model_type": "x", "num_experts": "0", "block_configs": [{"block_type": "moe", "n_routed_experts": 2}]}, False),
    ({"model_type": "x", "num_experts": "", "block_configs": [{"block_type": "moe", "n_routed_experts": 2}]}, True),
    ({"model_type": "x", "block_configs": [{"block_type": "moe", "n_routed_experts": "2"}]}, False),
    ({"model_type": "qwen3", "n_routed_experts": "8"}, True),
    ({"model_type": "qwen3", "moe_num_experts": "2"}, True),
    ({"model_type": "qwen3", "num_experts": None, "num_local_experts": "8"}, False),
    ({"model_type": "x", "num_experts": float("nan")}, False),
    ({"model_type": "x", "block_configs": [1, {"block_type": "moe", "n_routed_experts": 2}]}, True),
    (
        {"model_type": "x", "block_configs": [{"block_type": "moe"}, {"block_type": "dense", "n_routed_experts": 2}]},
        False,
    ),
    ({"model_type": "x", "block_configs": 3}, False),
]


@table(("document", "expected"), EXPERTS)
def test_experts_come_from_configuration_classes_too(document: Document, *, expected: bool) -> None:
    assert is_moe(Configuration(document, tables(NEWEST))) is expected


@pytest.mark.parametrize(("release", "expected"), [("0.28.0", True), ("0.33.0", False)])
def test_a_hybrid_class_with_attention_layers_only_is_not_hybrid(release: str, *, expected: bool) -> None:
    model = tables(release).model("GraniteMoeHybridForCausalLM")
    assert model is not None
    document = {"model_type": "granitemoehybrid", "layer_types": ["full_attention"] * 4}
    assert is_hybrid(model, Configuration(document, tables(release))) is expected


def test_a_class_that_is_not_hybrid_stays_so() -> None:
    model = tables(NEWEST).model("LlamaForCausalLM")
    assert model is not None
    assert is_hybrid(model, Configuration({"model_type": "llama", "layer_types": ["mamba"]}, tables(NEWEST))) is False


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"model_type": "whisper"}, True),
        ({"model_type": "x", "text_config": {"is_encoder_decoder": True}}, True),
        ({"model_type": "llama"}, False),
    ],
)
def test_an_encoder_may_be_inside_the_language_model(document: Document, *, expected: bool) -> None:
    assert is_encoder_decoder(Configuration(document, tables(NEWEST))) is expected


LATENT: list[tuple[str, Document, ModelQuery, bool]] = [
    (NEWEST, {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]}, ModelQuery(), True),
    (
        NEWEST,
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": None},
        ModelQuery(),
        False,
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "is_causal": False},
        ModelQuery(),
        False,
    ),
    (
        "0.28.0",
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "is_causal": False},
        ModelQuery(),
        True,
    ),
    (
        NEWEST,
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"]},
        ModelQuery(model_impl="transformers"),
        True,
    ),
    (NEWEST, {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, ModelQuery(), False),
    (NEWEST, {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}, ModelQuery(), True),
    (
        "0.30.0",
        {
            "model_type": "deepseek_v4",
            "architectures": ["DeepseekV4ForCausalLM"],
            "compress_ratios": [0, 4],
            "head_dim": 512,
        },
        ModelQuery(),
        True,
    ),
    (
        "0.30.0",
        {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"], "compress_ratios": [0, 4]},
        ModelQuery(),
        False,
    ),
    ("0.30.0", {"model_type": "deepseek_v4", "architectures": ["DeepseekV4ForCausalLM"]}, ModelQuery(), False),
]


@table(("release", "document", "query", "expected"), LATENT)
def test_latent_attention_follows_from_the_language_model(
    release: str, document: Document, query: ModelQuery, *, expected: bool
) -> None:
    configuration = Configuration(document, tables(release))
    assert use_mla(resolve(release, document, query), configuration) is expected


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from([10**400, "moe", "Qwen3ForCausalLM", "LlamaModel"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["model_type", "architectures", "block_type"]) | st.text(max_size=4), inner, max_size=3
        )
    ),
    max_leaves=6,
)
MEMBERS = (
    "architectures", "auto_map", "block_configs", "compress_ratios", "head_dim", "is_causal", "kv_lora_rank",
    "layer_types", "n_routed_experts", "num_experts", "speculators_config", "text_config", "thinker_config",
    "vision_config", "vision_n_layers",
)  # fmt: skip
NAMES = st.sampled_from(sorted(tables(NEWEST).models)) | st.text(max_size=5)
WORDS = {
    "runner": ("auto", "generate", "pooling", "draft"),
    "convert": ("auto", "none", "embed", "classify", "reward"),
    "model_impl": ("auto", "vllm", "transformers", "terratorch"),
}
PLATFORMS = st.sampled_from([str(platform) for platform in Platform])
QUERIES = st.builds(
    ModelQuery,
    **{name: st.sampled_from(words) for name, words in WORDS.items()},
    sentence_transformers=st.booleans(),
    platform=PLATFORMS,
)
SUFFIXED = [f"Other{suffix}" for suffix, _ in tables(NEWEST).constants["suffix_defaults"]]
WITHOUT_RUNNER = sorted(
    {
        name
        for of_platform in tables(NEWEST).other_platforms.values()
        for name, model in of_platform.items()
        if not (model.is_pooling_model or model.is_text_generation_model)
    }
)
"""The architectures that have no runner of their own on some platform."""


@given(
    document=st.dictionaries(st.sampled_from(MEMBERS), JUNK, max_size=6),
    names=JUNK | st.lists(NAMES, max_size=3),
    model_type=st.sampled_from(sorted(tables(NEWEST).configs)) | JUNK,
    query=QUERIES,
    release=st.sampled_from(releases()),
)
def test_any_document_is_resolved_or_refused(
    document: Document, names: Any, model_type: Any, query: ModelQuery, release: str
) -> None:
    configuration = Configuration({**document, "architectures": names, "model_type": model_type}, tables(release))
    is_moe(configuration)
    is_encoder_decoder(configuration)
    try:
        found = select_class(configuration.tables, configuration, architectures_of(configuration), query)
    except Unsupported:
        return
    is_hybrid(found.model, configuration)
    use_mla(found, configuration)


def class_of(document: Document, query: ModelQuery, known: Tables) -> ResolvedModel | str:
    """The class of a model, or the reason why it is refused."""
    configuration = Configuration(document, known)
    try:
        return select_class(known, configuration, architectures_of(configuration), query)
    except Unsupported as error:
        return str(error)


@given(
    first=st.sampled_from(["Qwen3ForCausalLM", "BertModel", *WITHOUT_RUNNER]) | NAMES,
    others=st.lists(st.lists(NAMES | st.sampled_from(SUFFIXED), max_size=2), min_size=2, max_size=4),
    query=st.builds(ModelQuery, sentence_transformers=st.booleans(), platform=PLATFORMS) | QUERIES,
    release=st.just(NEWEST) | st.sampled_from(releases()),
)
@example("Qwen3ForCausalLM", [["OtherForSequenceClassification"], []], ModelQuery(sentence_transformers=True), NEWEST)
@example("DSparkDraftModel", [["BertModel"], ["Qwen3ForCausalLM"]], ModelQuery(platform="cpu"), NEWEST)
def test_models_that_were_resolved_before_do_not_change_a_class(
    first: str, others: list[list[str]], query: ModelQuery, release: str
) -> None:
    documents = [{"architectures": [first, *names]} for names in others]
    shared = replace(tables(release), resolutions={})
    found = [class_of(document, query, shared) for document in documents]
    assert found == [class_of(document, query, replace(shared, resolutions={})) for document in documents]
