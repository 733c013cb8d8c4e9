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
