"""The vocabulary, and how a request's nested facts are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.errors import MAX_FAULTS
from policy.facts.facts import defaults, read_facts, to_json
from policy.facts.vocabulary import FACTS, INDEX, VARIABLE, VOCABULARY, FactKind, Malformed, ancestors, parse_variable

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.facts.facts import Facts

VARIABLE_NAME = "VLLM_USE_V2_MODEL_RUNNER"


def test_the_vocabulary_has_these_facts_with_these_types_and_defaults() -> None:
    assert [(fact.name, str(fact.kind), fact.default) for fact in VOCABULARY] == [
        ("env.VLLM_USE_V2_MODEL_RUNNER", "tri-state", None),
        ("env.VLLM_USE_V1", "tri-state", None),
        ("platform.has_triton", "boolean", True),
        ("platform.is_rocm", "boolean", False),
        ("platform.is_unspecified", "boolean", False),
        ("platform.is_tpu", "boolean", False),
        ("platform.is_out_of_tree", "boolean", False),
        ("platform.plugin", "choice", None),
        ("platform.is_pin_memory_available", "boolean", True),
        ("omni", "boolean", False),
        ("plugins.logits_processors", "list of text", []),
        ("model_config", "presence", False),
        ("model_config.runner_type", "choice", "generate"),
        ("model_config.convert_type", "choice", "none"),
        ("model_config.architectures", "list of text", []),
        ("model_config.attn_type", "choice", "decoder"),
        ("model_config.hf_overrides.rope_parameters", "presence", False),
        ("model_config.is_moe", "boolean", False),
        ("model_config.is_quantized", "boolean", False),
        ("model_config.is_hybrid", "boolean", False),
        ("model_config.has_inner_state", "boolean", False),
        ("model_config.is_attention_free", "boolean", False),
        ("model_config.is_diffusion", "boolean", False),
        ("model_config.use_mla", "boolean", False),
        ("model_config.is_multimodal_model", "boolean", False),
        ("model_config.is_encoder_decoder", "boolean", False),
        ("model_config.multimodal_config.mm_encoder_only", "boolean", False),
        ("model_config.enable_return_routed_experts", "boolean", False),
        ("model_config.logits_processors", "list", None),
        ("model_config.enable_prompt_embeds", "boolean", False),
        ("model_config.logprobs_mode", "choice", "raw_logprobs"),
        ("model_config.return_sampling_mask", "boolean", False),
        ("model_config.enable_trace_replay", "boolean", False),
        ("parallel_config.tensor_parallel_size", "integer", 1),
        ("parallel_config.pipeline_parallel_size", "integer", 1),
        ("parallel_config.data_parallel_size", "integer", 1),
        ("parallel_config.prefill_context_parallel_size", "integer", 1),
        ("parallel_config.decode_context_parallel_size", "integer", 1),
        ("parallel_config.distributed_executor_backend", "text", None),
        ("parallel_config.enable_dbo", "boolean", False),
        ("parallel_config.ubatch_size", "integer", 0),
        ("parallel_config.enable_elastic_ep", "boolean", False),
        ("parallel_config.enable_batch_sharded_sampling", "boolean", False),
        ("scheduler_config.async_scheduling", "boolean", False),
        ("scheduler_config.policy", "choice", "fcfs"),
        ("speculative_config", "presence", False),
        ("speculative_config.method", "choice", None),
        ("speculative_config.num_speculative_tokens", "integer", 0),
        ("speculative_config.parallel_drafting", "boolean", False),
        ("speculative_config.num_speculative_tokens_per_batch_size", "list", None),
        ("speculative_config.enable_adaptive_verification", "boolean", False),
        ("speculative_config.use_heterogeneous_vocab", "boolean", False),
        ("speculative_config.draft_lm_head_quantization", "choice", None),
        ("speculative_config.draft_model_config", "presence", False),
        ("speculative_config.draft_model_config.architectures", "list of text", []),
        ("speculative_config.draft_model_config.hf_config.layer_types", "list of text", None),
        ("speculative_config.is_xpress", "boolean", False),
        ("cache_config.mamba_cache_mode", "choice", "none"),
        ("cache_config.kv_sharing_fast_prefill", "boolean", False),
        ("cache_config.gpu_memory_utilization", "share", 0.92),
        ("compilation_config.mode", "choice", "VLLM_COMPILE"),
        ("compilation_config.cudagraph_mode", "choice", "FULL_AND_PIECEWISE"),
        ("compilation_config.pass_config.enable_sp", "boolean", False),
        ("kv_transfer_config", "presence", False),
        ("kv_transfer_config.kv_connector", "text", None),
        ("kv_transfer_config.connectors", "list of text", []),
        ("kv_transfer_config.kv_role", "choice", None),
        ("ec_transfer_config", "presence", False),
        ("reasoning_config", "presence", False),
        ("lora_config", "presence", False),
        ("watermark_config", "presence", False),
        ("attention_config.hisparse_config", "presence", False),
        ("aux_output_config.enabled", "boolean", False),
    ]


@table(
    ("name", "choices"),
    [
        ("model_config.runner_type", "generate pooling draft"),
        ("model_config.logprobs_mode", "raw_logits raw_logprobs processed_logits processed_logprobs"),
        (
            "speculative_config.method",
            (
                "ngram ngram_gpu medusa mlp_speculator draft_model suffix custom_class eagle eagle3 mtp dflash dspark "
                "extract_hidden_states"
            ),
        ),
        ("speculative_config.draft_lm_head_quantization", "fp8 nvfp4"),
        ("cache_config.mamba_cache_mode", "none align all"),
        ("compilation_config.mode", "NONE STOCK_TORCH_COMPILE DYNAMO_TRACE_ONCE VLLM_COMPILE"),
        ("compilation_config.cudagraph_mode", "NONE PIECEWISE FULL FULL_DECODE_ONLY FULL_AND_PIECEWISE"),
        ("kv_transfer_config.kv_role", "kv_producer kv_consumer kv_both"),
    ],
)
def test_a_choice_has_these_values(name: str, choices: str) -> None:
    assert FACTS[name].choices == tuple(choices.split())


def test_null_is_a_value_of_these_facts_only() -> None:
    assert [fact.name for fact in VOCABULARY if fact.nullable] == [
        "platform.plugin",
        "model_config.logits_processors",
        "parallel_config.distributed_executor_backend",
        "speculative_config.method",
        "speculative_config.num_speculative_tokens_per_batch_size",
        "speculative_config.draft_lm_head_quantization",
        "speculative_config.draft_model_config.hf_config.layer_types",
        "cache_config.gpu_memory_utilization",
        "kv_transfer_config.kv_connector",
        "kv_transfer_config.kv_role",
    ]


def test_the_share_of_memory_was_smaller_before_graphs_were_estimated() -> None:
    rows = [dict(zip(FACTS, defaults(series), strict=True)) for series in ((0, 3), (0, 19), (0, 20), (0, 33))]
    assert [row["cache_config.gpu_memory_utilization"] for row in rows] == [0.9, 0.9, 0.92, 0.92]


@pytest.mark.parametrize("series", [(0, 20), (0, 21), (0, 22), (0, 33)])
def test_an_unset_variable_is_false_before_0_22_and_unset_from_then_on(series: tuple[int, int]) -> None:
    row = dict(zip(FACTS, defaults(series), strict=True))
    assert row == {
        **{fact.name: () if fact.default == [] else fact.default for fact in VOCABULARY},
        VARIABLE: False if series < (0, 22) else None,
    }


@table(
    ("name", "objects"),
    [
        ("env.VLLM_USE_V2_MODEL_RUNNER", ()),
        ("model_config", ()),
        ("model_config.is_moe", ("model_config",)),
        ("model_config.multimodal_config.mm_encoder_only", ("model_config",)),
        ("speculative_config.draft_model_config", ("speculative_config",)),
        (
            "speculative_config.draft_model_config.hf_config.layer_types",
            ("speculative_config", "speculative_config.draft_model_config"),
        ),
        ("attention_config.hisparse_config", ()),
        ("compilation_config.pass_config.enable_sp", ()),
    ],
)
def test_a_fact_is_below_these_objects(name: str, objects: tuple[str, ...]) -> None:
    assert ancestors(name) == objects


@table("text", ["1", "2", "-1", " 1 ", "01", "+1", "1_0", "\t1\n", "１", "٣", "9" * 4300])
def test_these_texts_of_the_variable_are_true(text: str) -> None:
    assert parse_variable(text) is True


@table("text", ["0", "00", "-0", "+0", " 0 ", "0_0", "０"])
def test_these_texts_of_the_variable_are_false(text: str) -> None:
    assert parse_variable(text) is False


@table(
    ("text", "error"),
    [
        ("", "invalid literal for int() with base 10: ''"),
        (" ", "invalid literal for int() with base 10: ' '"),
        ("true", "invalid literal for int() with base 10: 'true'"),
        ("True", "invalid literal for int() with base 10: 'True'"),
        ("false", "invalid literal for int() with base 10: 'false'"),
        ("yes", "invalid literal for int() with base 10: 'yes'"),
        ("on", "invalid literal for int() with base 10: 'on'"),
        ("1.0", "invalid literal for int() with base 10: '1.0'"),
        ("0x1", "invalid literal for int() with base 10: '0x1'"),
        ("1e0", "invalid literal for int() with base 10: '1e0'"),
        ("1 1", "invalid literal for int() with base 10: '1 1'"),
        ("--1", "invalid literal for int() with base 10: '--1'"),
        ("_1", "invalid literal for int() with base 10: '_1'"),
        ('"1"', "invalid literal for int() with base 10: '\"1\"'"),
        ("'1'", "invalid literal for int() with base 10: \"'1'\""),
        ("é\n", "invalid literal for int() with base 10: 'é\\n'"),
        ("\ud800", "invalid literal for int() with base 10: '\\ud800'"),
        (
            "9" * 4301,
            (
                "Exceeds the limit (4300 digits) for integer string conversion: value has 4301 digits; use "
                "sys.set_int_max_str_digits() to increase the limit"
            ),
        ),
    ],
)
def test_these_texts_of_the_variable_have_the_error_of_vllm(text: str, error: str) -> None:
    assert parse_variable(text) == Malformed(text, error)


# Reading.


def read(document: Any, series: tuple[int, int] = (0, 23)) -> tuple[Facts, list[tuple[str, str]]]:
    faults: list[RequestFault] = []
    facts = read_facts(document, series, "", faults)
    return facts, [(fault.pointer, fault.message) for fault in faults]


def differing(document: Any, series: tuple[int, int] = (0, 23)) -> dict[str, Any]:
    """The facts that are not their defaults."""
    facts, faults = read(document, series)
    assert faults == []
    rows = zip(FACTS, facts.row, defaults(series), strict=True)
    found = {name: value for name, value, default in rows if type(value) is not type(default) or value != default}
    return {name: to_json(value) if isinstance(value, tuple) else value for name, value in found.items()}


def test_an_empty_document_has_the_defaults() -> None:
    assert (differing({}), read({})[0].stated) == ({}, [])


def test_every_fact_can_be_stated() -> None:
    document = {
        "env": {VARIABLE_NAME: "1", "VLLM_USE_V1": "1"},
        "platform": {
            "has_triton": False,
            "is_rocm": True,
            "is_unspecified": True,
            "is_tpu": True,
            "is_out_of_tree": True,
            "plugin": "vllm-gaudi",
            "is_pin_memory_available": False,
        },
        "omni": True,
        "plugins": {"logits_processors": ["a"]},
        "model_config": {
            "runner_type": "pooling",
            "convert_type": "classify",
            "architectures": ["A", ""],
            "attn_type": "hybrid",
            **dict.fromkeys(
                [
                    "is_moe",
                    "is_quantized",
                    "is_hybrid",
                    "has_inner_state",
                    "is_attention_free",
                    "is_diffusion",
                    "use_mla",
                ],
                True,
            ),
            **dict.fromkeys(
                ["is_multimodal_model", "is_encoder_decoder", "enable_return_routed_experts", "enable_prompt_embeds"],
                True,
            ),
            **dict.fromkeys(["return_sampling_mask", "enable_trace_replay"], True),
            "multimodal_config": {"mm_encoder_only": True},
            "hf_overrides": {"rope_parameters": {}},
            "logits_processors": [],
            "logprobs_mode": "raw_logits",
        },
        "parallel_config": {
            **dict.fromkeys(
                [
                    "tensor_parallel_size",
                    "pipeline_parallel_size",
                    "data_parallel_size",
                    "prefill_context_parallel_size",
                    "decode_context_parallel_size",
                ],
                8,
            ),
            **dict.fromkeys(["enable_dbo", "enable_elastic_ep", "enable_batch_sharded_sampling"], True),
            "distributed_executor_backend": "",
            "ubatch_size": 2,
        },
        "scheduler_config": {"async_scheduling": True, "policy": "priority"},
        "speculative_config": {
            "method": "mtp",
            **dict.fromkeys(
                ["parallel_drafting", "enable_adaptive_verification", "use_heterogeneous_vocab", "is_xpress"], True
            ),
            "num_speculative_tokens": 3,
            "num_speculative_tokens_per_batch_size": [[1, 2, 3]],
            "draft_lm_head_quantization": "fp8",
            "draft_model_config": {"architectures": ["B"], "hf_config": {"layer_types": []}},
        },
        "cache_config": {"mamba_cache_mode": "all", "kv_sharing_fast_prefill": True, "gpu_memory_utilization": 0.5},
        "compilation_config": {"mode": "NONE", "cudagraph_mode": "NONE", "pass_config": {"enable_sp": True}},
        "kv_transfer_config": {"kv_connector": "", "connectors": ["A"], "kv_role": "kv_both"},
        **{name: {} for name in ("ec_transfer_config", "reasoning_config", "lora_config", "watermark_config")},
        "attention_config": {"hisparse_config": {}},
        "aux_output_config": {"enabled": True},
    }
    assert set(differing(document)) == set(FACTS)


@table(
    ("document", "expected"),
    [
        ({"model_config": {}}, {"model_config": True}),
        ({"model_config": None}, {}),
        ({"env": None, "platform": None, "parallel_config": None, "compilation_config": {"pass_config": None}}, {}),
        ({"env": {}, "platform": {}, "attention_config": {}}, {}),
        ({"env": {VARIABLE_NAME: None}}, {}),
        ({"env": {VARIABLE_NAME: False}}, {VARIABLE: False}),
        ({"env": {VARIABLE_NAME: True}}, {VARIABLE: True}),
        ({"env": {VARIABLE_NAME: " 0 "}}, {VARIABLE: False}),
        ({"env": {VARIABLE_NAME: "no"}}, {VARIABLE: Malformed("no", "invalid literal for int() with base 10: 'no'")}),
        ({"attention_config": {"hisparse_config": {}}}, {"attention_config.hisparse_config": True}),
        ({"speculative_config": {"method": None}}, {"speculative_config": True}),
        (
            {"speculative_config": {"draft_model_config": {"hf_config": None}}},
            {"speculative_config": True, "speculative_config.draft_model_config": True},
        ),
        ({"model_config": {"logits_processors": []}}, {"model_config": True, "model_config.logits_processors": []}),
        (
            {"kv_transfer_config": {"kv_connector_extra_config": {"a": [1]}, "engine_id": 7}},
            {"kv_transfer_config": True},
        ),
        (
            {"model_config": {"multimodal_config": {"own": 1, "mm_encoder_only": True}}},
            {"model_config": True, "model_config.multimodal_config.mm_encoder_only": True},
        ),
    ],
)
def test_a_document_is_read_as_these_facts(document: Any, expected: dict[str, Any]) -> None:
    assert differing(document) == expected


def test_null_is_an_unset_variable_which_is_false_before_0_22() -> None:
    assert read({"env": {VARIABLE_NAME: None}}, (0, 21))[0].row[INDEX[VARIABLE]] is False


@pytest.mark.parametrize("name", ["VLLM_USE_V2_MODEL_RUNNER", "VLLM_USE_V1"])
def test_a_variable_that_is_null_is_not_stated(name: str) -> None:
    assert read({"env": {name: None}}) == read({})


def test_a_fact_in_the_document_is_stated_even_if_it_has_its_default() -> None:
    facts, _ = read(
        {
            "model_config": None,
            "platform": {"has_triton": True},
            "speculative_config": {"method": None},
        }
    )
    names = [VOCABULARY[index].name for index in facts.stated]
    assert sorted(names) == [
        "model_config",
        "platform.has_triton",
        "speculative_config",
        "speculative_config.method",
    ]


LEGAL = {
    "presence": "an object, `null` if it is absent",
    "boolean": "`true`, `false`",
    "role": "`kv_producer`, `kv_consumer`, `kv_both`, `null`",
}


@table(
    ("document", "faults"),
    [
        ([], [("", 'expected an object, got `[]`; write the facts as `{"model_config": {…}}`')]),
        (None, [("", 'expected an object, got `null`; write the facts as `{"model_config": {…}}`')]),
        ("x" * 100, [("", f'expected an object, got `{"x" * 80}…`; write the facts as `{{"model_config": {{…}}}}`')]),
        (
            {"model_config": []},
            [("/model_config", f"`[]` is not legal for `model_config`; legal: {LEGAL['presence']}")],
        ),
        (
            {"model_config": True},
            [("/model_config", f"`true` is not legal for `model_config`; legal: {LEGAL['presence']}")],
        ),
        ({"lora_config": ""}, [("/lora_config", f"`` is not legal for `lora_config`; legal: {LEGAL['presence']}")]),
        (
            {"platform": []},
            [
                (
                    "/platform",
                    (
                        "expected an object, got `[]`; its fields are `has_triton`, `is_rocm`, `is_unspecified`, "
                        "`is_tpu`, `is_out_of_tree`, `plugin`, `is_pin_memory_available`"
                    ),
                )
            ],
        ),
        (
            {"platform": {"is_rocm": "yes"}},
            [("/platform/is_rocm", f"`yes` is not legal for `platform.is_rocm`; legal: {LEGAL['boolean']}")],
        ),
        (
            {"platform": {"is_rocm": None}},
            [
                (
                    "/platform/is_rocm",
                    f"`null` is not legal here; legal: {LEGAL['boolean']}; leave it out for the default",
                )
            ],
        ),
        (
            {"platform": {"isrocm": True}},
            [
                (
                    "/platform/isrocm",
                    (
                        "unknown field `isrocm`; legal: `has_triton`, `is_rocm`, `is_unspecified`, `is_tpu`, "
                        "`is_out_of_tree`, `plugin`, `is_pin_memory_available`; did you mean `is_rocm`?"
                    ),
                )
            ],
        ),
        (
            {"env": {"A/B~C": "1"}},
            [("/env/A~1B~0C", "unknown field `A/B~C`; legal: `VLLM_USE_V2_MODEL_RUNNER`, `VLLM_USE_V1`")],
        ),
        (
            {"env": {VARIABLE_NAME: 1}},
            [
                (
                    f"/env/{VARIABLE_NAME}",
                    (
                        f"`1` is not legal for `{VARIABLE}`; legal: the variable's text, `true`, `false`, `null` if "
                        "it is unset"
                    ),
                )
            ],
        ),
        (
            {"env": {VARIABLE_NAME: "1\0"}},
            [
                (
                    f"/env/{VARIABLE_NAME}",
                    (
                        f"`1\\x00` is not legal for `{VARIABLE}`; legal: the variable's text, `true`, `false`, `null` "
                        "if it is unset"
                    ),
                )
            ],
        ),
        (
            {"parallel_config": {"ubatch_size": 1.0, "tensor_parallel_size": 0, "pipeline_parallel_size": True}},
            [
                (
                    "/parallel_config/ubatch_size",
                    "`1.0` is not legal for `parallel_config.ubatch_size`; legal: a whole number from 0 to 2147483647",
                ),
                (
                    "/parallel_config/tensor_parallel_size",
                    (
                        "`0` is not legal for `parallel_config.tensor_parallel_size`; legal: a whole number from 1 to "
                        "2147483647"
                    ),
                ),
                (
                    "/parallel_config/pipeline_parallel_size",
                    (
                        "`true` is not legal for `parallel_config.pipeline_parallel_size`; legal: a whole number from "
                        "1 to 2147483647"
                    ),
                ),
            ],
        ),
        (
            {"kv_transfer_config": {"kv_role": "both", "kv_connector": 7}},
            [
                (
                    "/kv_transfer_config/kv_role",
                    f"`both` is not legal for `kv_transfer_config.kv_role`; legal: {LEGAL['role']}",
                ),
                (
                    "/kv_transfer_config/kv_connector",
                    (
                        "`7` is not legal for `kv_transfer_config.kv_connector`; legal: a string of at most 8192 "
                        "characters, `null`"
                    ),
                ),
            ],
        ),
        (
            {"model_config": {"architectures": "LlamaForCausalLM", "logits_processors": {}}},
            [
                (
                    "/model_config/architectures",
                    (
                        "`LlamaForCausalLM` is not legal for `model_config.architectures`; legal: a list of at most "
                        "4096 strings"
                    ),
                ),
                (
                    "/model_config/logits_processors",
                    (
                        "`{}` is not legal for `model_config.logits_processors`; legal: a list of at most 4096 items, "
                        "`null`"
                    ),
                ),
            ],
        ),
        (
            {"model_config": {"architectures": ["LlamaForCausalLM", None, 1, {"a": 1}]}},
            [
                (
                    "/model_config/architectures",
                    (
                        '`["LlamaForCausalLM", null, 1, {…}]` is not legal for `model_config.architectures`; legal: a '
                        "list of at most 4096 strings"
                    ),
                )
            ],
        ),
        (
            {"speculative_config": {"draft_model_config": {"hf_config": 1}}},
            [
                (
                    "/speculative_config/draft_model_config/hf_config",
                    "expected an object, got `1`; its fields are `layer_types`",
                )
            ],
        ),
    ],
)
def test_a_fault_has_the_pointer_the_value_and_the_legal_values(document: Any, faults: list[tuple[str, str]]) -> None:
    assert read(document)[1] == faults


def test_an_unknown_top_level_field_is_reported_with_the_legal_ones() -> None:
    _, faults = read({"modelconfig": {}})
    tops = list(dict.fromkeys(name.partition(".")[0] for name in FACTS))
    assert faults == [
        (
            "/modelconfig",
            (
                f"unknown field `modelconfig`; legal: {', '.join(f'`{top}`' for top in tops)}; did you mean "
                "`model_config`?"
            ),
        )
    ]


def test_the_number_of_faults_is_limited() -> None:
    assert [pointer for pointer, _ in read({f"m{n}": n for n in range(MAX_FAULTS + 10)})[1]] == [
        f"/m{n}" for n in range(MAX_FAULTS)
    ]


def test_the_pointer_of_a_fault_begins_with_that_of_the_facts() -> None:
    faults: list[RequestFault] = []
    read_facts({"a": 1, "model_config": {"is_moe": 1}, "platform": {"b": 1}}, (0, 23), "/items/3/facts", faults)
    assert [fault.pointer for fault in faults] == [
        "/items/3/facts/a",
        "/items/3/facts/model_config/is_moe",
        "/items/3/facts/platform/b",
    ]


@table(
    ("document", "faults"),
    [
        ({"model_config": {"architecture": ["A"]}}, {"/model_config/architecture": "architectures"}),
        (
            {"model_config": {"isMoe": True, "is_moee": True, "is_mo": 1, "IS_MOE": True, "is-moe": False}},
            dict.fromkeys(
                [f"/model_config/{key}" for key in ("isMoe", "is_moee", "is_mo", "IS_MOE", "is-moe")], "is_moe"
            ),
        ),
        ({"speculative_config": {"Method": "mtp"}}, {"/speculative_config/Method": "method"}),
        (
            {"speculative_config": {"paralel_drafting": True}},
            {"/speculative_config/paralel_drafting": "parallel_drafting"},
        ),
        (
            {"speculative_config": {"draft_model_config": {"architectures_": []}}},
            {"/speculative_config/draft_model_config/architectures_": "architectures"},
        ),
        ({"speculative_config": {"draft_load_config": None}}, {}),
        ({"speculative_config": {"draft_model_config": {"hf_config": {"layer_type": "x"}}}}, {}),
        ({"kv_transfer_config": {"kv_connector_extra_config": {}, "kv_rank": 0, "kv_buffer_size": 1.0}}, {}),
        ({"lora_config": {"max_loras": 4}}, {}),
        ({"model_config": {"is_moe" * 20: 1}}, {}),
    ],
)
def test_a_misspelt_fact_among_other_fields_of_vllm_is_a_fault(document: Any, faults: dict[str, str]) -> None:
    expected = [
        (pointer, f"unknown field `{pointer.rpartition('/')[2]}`; did you mean `{fact}`?")
        for pointer, fact in faults.items()
    ]
    assert read(document)[1] == expected


def test_a_fact_of_each_kind_names_its_legal_values() -> None:
    found = {
        str(fact.kind): fact.legal
        for fact in reversed(VOCABULARY)
        if not fact.nullable or fact.kind in {FactKind.TEXT, FactKind.LIST}
    }
    assert found == {
        "presence": "an object, `null` if it is absent",
        "tri-state": "the variable's text, `true`, `false`, `null` if it is unset",
        "boolean": "`true`, `false`",
        "integer": "a whole number from 1 to 2147483647",
        "choice": "`generate`, `pooling`, `draft`",
        "text": "a string of at most 8192 characters, `null`",
        "list of text": "a list of at most 4096 strings",
        "list": "a list of at most 4096 items, `null`",
    }
