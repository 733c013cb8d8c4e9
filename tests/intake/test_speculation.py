"""The method of speculative decoding that vLLM determines, and its draft."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE, HEADS, LLAMA
from tables import table

if TYPE_CHECKING:
    from deployments import Asking, Config

Origin = tuple[Any, str]
Found = dict[str, Origin]

METHOD, PARALLEL, DRAFT = "method", "parallel_drafting", "draft_model_config"
ARCHITECTURES, LAYERS = f"{DRAFT}.architectures", f"{DRAFT}.hf_config.layer_types"
FULL = ["full_attention"] * 4
OF_THE_TARGET: Found = {
    ARCHITECTURES: (["Qwen3ForCausalLM"], "model_configs/dense"),
    LAYERS: (FULL, "model_configs/dense"),
}


def speculative_args(**keys: Any) -> list[str]:
    return ["--speculative-config", json.dumps({"num_speculative_tokens": 3, **keys})]


def speculation_of(ask: Asking, args: list[str], release: str, **given: Any) -> Found:
    """The method and the draft."""
    found = ask.facts("speculative_config", args, release, **given)
    return {
        name: fact for name, fact in found.items() if name in {METHOD, ARCHITECTURES, LAYERS} and fact[0] is not None
    }


def draft_facts(name: str, architecture: str, method: str, origin: str | None = None) -> Found:
    """The facts of a separate draft."""
    place = f"model_configs/{name}"
    return {METHOD: (method, origin or place), ARCHITECTURES: ([architecture], place)}


HERE = "args[2]"
METHODS: list[tuple[str, dict[str, Any], str, Found]] = [
    ("dense", {"model": "draft"}, "0.33.0", draft_facts("draft", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "draft/"}, "0.33.0", draft_facts("draft", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "eagle3-draft"}, "0.33.0", draft_facts("eagle3-draft", "Eagle3LlamaForCausalLM", "eagle3")),
    ("dense", {"model": "eagle-draft"}, "0.33.0", draft_facts("eagle-draft", "EagleLlamaForCausalLM", "eagle")),
    (
        "dense",
        {"model": "draft", "method": "eagle"},
        "0.33.0",
        draft_facts("draft", "EagleLlamaForCausalLM", "eagle", HERE),
    ),
    (
        "dense",
        {"model": "draft", "method": "dflash"},
        "0.33.0",
        draft_facts("draft", "DFlashLlamaForCausalLM", "dflash", HERE),
    ),
    ("dense", {"model": "medusa"}, "0.32.0", draft_facts("medusa", "MedusaModel", "medusa")),
    ("dense", {"model": "medusa"}, "0.33.0", draft_facts("medusa", "MedusaModel", "draft_model")),
    (
        "dense",
        {"model": "heads", "method": "medusa"},
        "0.24.0",
        {METHOD: ("medusa", HERE), ARCHITECTURES: ([], "model_configs/heads")},
    ),
    ("dense", {"model": "heads", "method": "medusa"}, "0.25.0", draft_facts("heads", "MedusaModel", "medusa", HERE)),
    ("dense", {"model": "heads", "method": "medusa"}, "0.32.0", draft_facts("heads", "MedusaModel", "medusa", HERE)),
    ("dense", {"model": "typed-heads"}, "0.20.0", draft_facts("typed-heads", "MedusaModel", "medusa")),
    ("mla", {"method": "mtp"}, "0.33.0", draft_facts("mla", "DeepSeekMTPModel", "mtp", HERE)),
    ("mla", {"method": "deepseek_mtp"}, "0.33.0", draft_facts("mla", "DeepSeekMTPModel", "mtp", HERE)),
    (
        "dense",
        {"method": "dspark"},
        "0.25.0",
        {
            METHOD: ("dspark", HERE),
            ARCHITECTURES: (["DSparkDraftModel"], "model_configs/dense"),
            LAYERS: (FULL, "model_configs/dense"),
        },
    ),
    ("dense", {"method": "ngram"}, "0.33.0", {METHOD: ("ngram", HERE), **OF_THE_TARGET}),
    ("dense", {"model": "ngram"}, "0.33.0", {METHOD: ("ngram", HERE), **OF_THE_TARGET}),
    ("dense", {"model": "[ngram]"}, "0.33.0", {METHOD: ("ngram", HERE), **OF_THE_TARGET}),
    ("dense", {"method": "suffix"}, "0.33.0", {METHOD: ("suffix", HERE)}),
    (
        "dense",
        {"method": "extract_hidden_states"},
        "0.33.0",
        {
            METHOD: ("extract_hidden_states", HERE),
            ARCHITECTURES: (["ExtractHiddenStatesModel"], "model_configs/dense"),
            LAYERS: (FULL, "model_configs/dense"),
        },
    ),
    ("dense", {"model": "my.Proposer"}, "0.22.0", {METHOD: ("custom_class", HERE), **OF_THE_TARGET}),
    ("dense", {"model": "my.draft", "method": "eagle"}, "0.25.1", {METHOD: ("custom_class", HERE), **OF_THE_TARGET}),
    (
        "dense",
        {"model": "my.draft", "method": "eagle"},
        "0.26.0",
        draft_facts("my.draft", "EagleLlamaForCausalLM", "eagle", HERE),
    ),
    (
        "dense",
        {"model": "my.draft", "method": "eagle"},
        "0.21.0",
        draft_facts("my.draft", "EagleLlamaForCausalLM", "eagle", HERE),
    ),
    ("dense", {"model": "my.draft"}, "0.21.0", draft_facts("my.draft", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "a/my.draft"}, "0.33.0", draft_facts("a/my.draft", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "My3-0.6B"}, "0.25.1", {METHOD: ("custom_class", HERE), **OF_THE_TARGET}),
    ("dense", {"model": "My3-0.6B"}, "0.26.0", draft_facts("My3-0.6B", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "My3-0.6B"}, "0.33.0", draft_facts("My3-0.6B", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "my.draft."}, "0.33.0", draft_facts("my.draft.", "LlamaForCausalLM", "draft_model")),
    ("dense", {"model": "my.Proposer"}, "0.33.0", {METHOD: ("custom_class", HERE), **OF_THE_TARGET}),
]
MEDUSA_HEADS = {"medusa_num_heads": 5, "medusa_num_layers": 1, "base_model_name_or_path": "lmsys/vicuna-7b-v1.3"}
"""A configuration of Medusa heads in their first format."""
MY_DRAFTS = {
    **dict.fromkeys(("my.draft", "my.draft.", "a/my.draft", "My3-0.6B"), LLAMA),
    "heads": MEDUSA_HEADS,
    "typed-heads": {"model_type": "medusa", **MEDUSA_HEADS},
}


@table(("model", "keys", "release", "expected"), METHODS, ids=[f"{release}-{keys}" for _, keys, release, _ in METHODS])
def test_the_method_is_detected_as_by_the_release(
    ask: Asking, model: str, keys: dict[str, Any], release: str, expected: Found
) -> None:
    assert speculation_of(ask, ["--model", model, *speculative_args(**keys)], release, models=MY_DRAFTS) == expected


@pytest.mark.parametrize(
    ("release", "starts"), [("0.24.0", False), ("0.25.0", True), ("0.26.0", True), ("0.32.0", True)]
)
def test_medusa_heads_without_a_model_type_start_from_0_25_on(ask: Asking, release: str, *, starts: bool) -> None:
    args = ["--model", "dense", "-tp", "2", *speculative_args(model="heads", method="medusa")]
    decision = ask(args, release, upstream=False, models=MY_DRAFTS)
    assert (decision.starts, decision.launch_errors == []) == (starts, starts)


def test_without_speculative_decoding_its_absence_is_the_only_fact(ask: Asking) -> None:
    facts = ask(["--model", "dense"]).facts
    assert facts
    assert [name for name in facts if name.startswith("speculative_config")] == ["speculative_config"]
    assert facts["speculative_config"].value is False


def test_a_draft_has_all_its_facts_with_their_origins(ask: Asking) -> None:
    args = [
        "--model",
        "dense",
        *speculative_args(model="draft", draft_lm_head_quantization="fp8", use_heterogeneous_vocab=True),
    ]
    assert ask.facts("speculative_config", args) == {
        METHOD: ("draft_model", "model_configs/draft"),
        PARALLEL: (False, HERE),
        "num_speculative_tokens": (3, HERE),
        "num_speculative_tokens_per_batch_size": (None, HERE),
        "draft_lm_head_quantization": ("fp8", HERE),
        "enable_adaptive_verification": (False, HERE),
        "use_heterogeneous_vocab": (True, HERE),
        DRAFT: (True, HERE),
        ARCHITECTURES: (["LlamaForCausalLM"], "model_configs/draft"),
        LAYERS: (None, "model_configs/draft"),
        "is_xpress": (False, "model_configs/draft"),
    }


PARALLELS: list[tuple[dict[str, Any], bool]] = [
    ({"model": "draft"}, False),
    ({"model": "draft", "parallel_drafting": True}, True),
    ({"model": "draft", "method": "dflash"}, True),
    ({"method": "dspark"}, True),
]


@pytest.mark.parametrize(("keys", "expected"), PARALLELS)
def test_some_methods_draft_in_parallel_by_default(ask: Asking, keys: dict[str, Any], *, expected: bool) -> None:
    assert ask.fact("speculative_config.parallel_drafting", ["--model", "dense", *speculative_args(**keys)]) == (
        expected,
        HERE,
    )


@pytest.mark.parametrize(("release", "expected"), [("0.32.0", False), ("0.33.0", True)])
def test_an_xpress_head_is_recognised_from_0_33_on(ask: Asking, release: str, *, expected: bool) -> None:
    models = {"draft": {**DENSE, "architectures": ["Qwen3XPressModel"]}}
    found = ask.fact(
        "speculative_config.is_xpress",
        ["--model", "dense", *speculative_args(model="draft", method="dflash")],
        release,
        models=models,
    )
    assert found == (expected, "model_configs/draft")


def test_layer_types_of_a_draft_are_filled_in_by_its_class(ask: Asking) -> None:
    args = ["--model", "draft", *speculative_args(model="dense")]
    assert ask.fact(f"speculative_config.{LAYERS}", args) == (FULL, "model_configs/dense")


ILLEGAL: list[tuple[str, Any]] = [
    ("num_speculative_tokens_per_batch_size", {}),
    ("num_speculative_tokens_per_batch_size", {"a": [1]}),
    ("num_speculative_tokens_per_batch_size", 3),
    ("draft_lm_head_quantization", {}),
    ("draft_lm_head_quantization", ["fp8"]),
]


@table("release", ["0.26.0", "0.33.0"])
@table(("key", "value"), ILLEGAL)
def test_a_value_of_an_illegal_type_is_a_fault_in_releases_that_read_their_runner_midway_too(
    ask: Asking, release: str, key: str, value: Any
) -> None:
    # 0.26 has no `draft_lm_head_quantization`: there it is an unknown field. No such value may reach the rules.
    problem, faults = ask.refusal(["--model", "dense", *speculative_args(method="ngram", **{key: value})], release)
    assert (problem, [pointer.rpartition("/")[0] for pointer, _ in faults]) == ("invalid-request", ["/deployment/args"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, 'it names neither a `method` nor a `model`; write one such as `"method": "ngram"`'),
        ({"model": 3}, "`model`: expected a string, got `3`"),
        ({"model": ["draft"], "method": "eagle"}, '`model`: expected a string, got `["draft"]`'),
    ],
)
def test_a_refusal_before_the_draft_is_read_is_reported(ask: Asking, keys: dict[str, Any], message: str) -> None:
    faults = [("/deployment/args/2", f"the speculative configuration: {message}")]
    assert ask.refusal(["--model", "dense", *speculative_args(**keys)]) == ("invalid-request", faults)


def speculators(kind: str, verifier: Any = "dense", **members: Any) -> Config:
    """A repository in the format of speculators."""
    return {
        "architectures": ["SomeDraftModel"],
        "speculators_model_type": kind,
        "speculators_config": {"verifier": {"name_or_path": verifier}, "proposal_methods": [{"speculative_tokens": 3}]},
        "transformer_layer_config": {"model_type": "llama", **HEADS},
        **members,
    }


IN_IT = "model_configs/spec/speculators_config"
AS_MODEL = ["--model", "spec"]
SERVED: list[tuple[str, str, list[str], Origin, Origin]] = [
    ("0.22.0", "eagle3", [], ("eagle3", IN_IT), (False, IN_IT)),
    ("0.33.0", "eagle3", [], ("eagle3", IN_IT), (False, IN_IT)),
    ("0.33.0", "peagle", [], ("eagle3", IN_IT), (True, IN_IT)),
    ("0.33.0", "dflash", [], ("dflash", IN_IT), (True, IN_IT)),
    ("0.28.0", "eagle3", speculative_args(parallel_drafting=True, method="ngram"), ("eagle3", IN_IT), (False, IN_IT)),
    ("0.29.0", "eagle3", speculative_args(parallel_drafting=True, method="ngram"), ("eagle3", IN_IT), (True, IN_IT)),
]


@table(("release", "kind", "args", "method", "parallel"), SERVED)
def test_a_repository_of_speculators_gives_its_verifier_and_itself_as_the_draft(
    ask: Asking, release: str, kind: str, args: list[str], method: Origin, parallel: Origin
) -> None:
    models = {"spec": speculators(kind), "dense": DENSE}
    found = ask.facts("speculative_config", [*AS_MODEL, *args], release, models=models)
    assert (found[METHOD], found[PARALLEL], found[DRAFT]) == (method, parallel, (True, IN_IT))
    assert ask.fact("model_config.architectures", [*AS_MODEL, *args], release, models=models) == (
        ["Qwen3ForCausalLM"],
        "model_configs/dense/architectures",
    )


def test_a_repository_of_speculators_as_a_draft_consists_of_its_own_layers(ask: Asking) -> None:
    models = {"spec": speculators("peagle")}
    found = ask.facts(
        "speculative_config", ["--model", "dense", *speculative_args(model="spec")], "0.33.0", models=models
    )
    assert (found[METHOD], found[PARALLEL], found[ARCHITECTURES]) == (
        ("draft_model", "model_configs/spec"),
        (False, HERE),
        (["PeagleLlamaForCausalLM"], "model_configs/spec"),
    )


@pytest.mark.parametrize("layers", [None, 3, []])
def test_a_repository_of_speculators_without_its_layers_is_read(ask: Asking, layers: Any) -> None:
    models = {"spec": speculators("eagle3", transformer_layer_config=layers), "dense": DENSE}
    assert ask.facts("speculative_config", AS_MODEL, models=models)[METHOD] == ("eagle3", IN_IT)


NOT_SPECULATORS: list[Any] = [
    None,
    3,
    [],
    {},
    {"verifier": "dense", "proposal_methods": [{}]},
    {"verifier": {"name_or_path": 3}, "proposal_methods": [{}]},
    {"verifier": {"name_or_path": "draft"}},
    {"verifier": {"name_or_path": "draft"}, "proposal_methods": []},
    {"verifier": {"name_or_path": "draft"}, "proposal_methods": [3]},
]


@table("inner", NOT_SPECULATORS)
def test_a_repository_without_a_verifier_is_an_ordinary_model(ask: Asking, inner: Any) -> None:
    models = {"x": {**DENSE, "speculators_config": inner}}
    decision = ask(["--model", "x"], models=models)
    assert decision.facts
    assert decision.facts["model_config.architectures"].from_ == "model_configs/x/architectures"
    assert decision.facts["speculative_config"].value is False


def test_a_method_that_no_release_has_is_a_fault_at_the_repository(ask: Asking) -> None:
    problem, faults = ask.refusal(AS_MODEL, models={"spec": speculators("nope"), "dense": DENSE})
    assert (problem, [pointer for pointer, _ in faults]) == ("invalid-request", ["/deployment/model_configs/spec"])
    assert faults[0][1].startswith("`nope` is not legal for `speculative_config.method`; legal: `ngram`, ")


SHORT = ["--spec-method", "eagle3", "--spec-model", "draft", "--spec-tokens", "3"]


def test_the_short_options_are_the_keys_of_the_long_one(ask: Asking) -> None:
    assert speculation_of(ask, ["--model", "dense", *SHORT], "0.33.0") == draft_facts(
        "draft", "Eagle3LlamaForCausalLM", "eagle3", HERE
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, 24),
        ({"suffix_decoding_max_tree_depth": 12}, 12),
        ({"num_speculative_tokens": 3}, 3),
    ],
)
def test_suffix_decoding_has_the_depth_of_its_tree_as_number_of_tokens(
    ask: Asking, keys: dict[str, Any], expected: int
) -> None:
    args = ["--model", "dense", "--speculative-config", json.dumps({"method": "suffix", **keys})]
    found = [ask.fact("speculative_config.num_speculative_tokens", args, release) for release in ("0.20.0", "0.33.0")]
    assert found == [(expected, HERE), (expected, HERE)]
