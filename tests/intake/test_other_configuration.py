"""A model's configuration that vLLM takes from a file other than the given `config.json`: a warning, and a doubt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE, LLAMA, TODAY
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

RELEASES = ["0.20.2", "0.23.0", "0.33.0"]
PARTS = ("instead", "not known here", "not read here")
"""The parts of such warnings."""
DRAFT = '{"method": "eagle", "model": "eagle-draft", "num_speculative_tokens": 2}'


def check(ask: Asking, args: list[str], release: str, expected: list[str], **fields: Any) -> None:
    """Exactly the ``expected`` warnings are shown, and each of them is what makes an engine undecided."""
    request = read_request(ask.request(args, release, **fields), ask.policy.releases)
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    assert [each for each in ask.policy.assemble(result).warnings if any(part in each for part in PARTS)] == expected
    if not expected:
        require_known_values(result.intake, "/deployment")
        return
    with pytest.raises(RequestInvalid) as caught:
        require_known_values(result.intake, "/deployment")
    assert [fault.message for fault in caught.value.faults] == expected


def versioned(model: str, file: str) -> str:
    return (
        f"`configuration_files` in the `config.json` of `{model}` names `{file}`, which vLLM loads instead with a "
        "Transformers of that version or newer; give that file as the model's `config.json`, without "
        "`configuration_files`"
    )


def of_format(model: str, place: str = "") -> str:
    """The doubt about a model in Mistral's format: that of the flag at a place, or of what vLLM prefers."""
    start = (
        f"by `--config-format` ({place}) vLLM takes the configuration of `{model}` from its `params.json`; "
        if place
        else f"vLLM takes the configuration of `{model}` from its `params.json` if it has one and "
        "`consolidated*.safetensors`, as models of `mistralai` have; "
    )
    return f"{start}that file is not read here; for the given `config.json` write `--config-format hf`"


def of_file(model: str) -> str:
    return (
        f"vLLM takes the configuration of `{model}` from that GGUF file, which is not read here; give a model with a "
        "`config.json` as `--hf-config-path`"
    )


def of_gguf(model: str) -> str:
    return (
        f"vLLM replaces the architecture in the given `config.json` of `{model}`, a GGUF model, by the causal class of "
        "its model type, which is not known here; state `architectures` in `--hf-overrides`"
    )


@table("release", RELEASES)
@table(
    ("names", "file"),
    [
        (["config.4.0.0.json"], "config.4.0.0.json"),
        (["config.json", "config.5.json", "config.4.0.0.json"], "config.5.json"),
        ({"config.4.0.0.json": 1}, "config.4.0.0.json"),
        ([1, None, ["config.1.json"], "config.99.json"], "config.99.json"),
        ([], ""),
        ({}, ""),
        (None, ""),
        (["config.json"], ""),
        (["config.4.0.0.yaml", "model.4.json", "x/config.4.0.0.json", ""], ""),
        ("config.4.0.0.json", ""),
        (7, ""),
    ],
)
def test_a_configuration_for_a_version_of_transformers_is_loaded_instead(
    ask: Asking, release: str, names: Any, file: str
) -> None:
    models = {"dense": {**DENSE, "configuration_files": names}}
    check(ask, ["serve", "dense"], release, [versioned("dense", file)] if file else [], models=models)


@table("release", RELEASES)
@table(
    ("model", "args", "place"),
    [
        ("dense", ["--config-format", "mistral"], "args[2]"),
        ("dense", ["--config-format=mistral", "--load-format=mistral"], "args[2]"),
        ("mistralai/M", ["--config_format", "mistral"], "args[2]"),
        ("mistralai/M", [], "auto"),
        ("MistralAI/M", ["--config-format=auto"], "auto"),
        ("/models/mistralai/M/", [], "auto"),
        ("/hub/models--mistralai--M/snapshots/1", [], "auto"),
        ("mistralai/M", ["--load-format=mistral", "--tokenizer-mode=mistral"], "auto"),
        ("mistralai/M", ["--config-format", "hf"], ""),
        ("mistralai/M", ["--config-format=mistral", "--config-format=hf"], ""),
        ("o/mistralai", [], ""),
        ("mistralai", [], ""),
        ("mistralai/M/x", [], ""),
        ("xmistralai/M", [], ""),
        ("dense", ["--config-format", "auto"], ""),
        ("dense", ["--load-format=mistral", "--tokenizer-mode=mistral"], ""),
    ],
)
def test_the_configuration_may_be_in_the_format_of_mistral(
    ask: Asking, release: str, model: str, args: list[str], place: str
) -> None:
    name = model.rstrip("/")
    expected = [of_format(name, "" if place == "auto" else place)] if place else []
    check(ask, ["serve", model, *args], release, expected, models={name: DENSE})


def test_the_configuration_of_a_draft_may_be_in_the_format_of_mistral(ask: Asking) -> None:
    draft = DRAFT.replace("eagle-draft", "mistralai/E")
    args = ["serve", "dense", "--speculative-config", draft]
    models = {"mistralai/E": LLAMA}
    check(ask, args, "0.33.0", [of_format("mistralai/E")], models=models)
    check(ask, [*args, "--config-format", "hf"], "0.33.0", [], models=models)
    both = [of_format("dense", "args[4]"), of_format("mistralai/E", "args[4]")]
    check(ask, [*args, "--config-format", "mistral"], "0.33.0", both, models=models)


def test_only_the_configuration_counts_that_is_used(ask: Asking) -> None:
    models = {"mistralai/M": DENSE, "o/x": {**DENSE, "configuration_files": ["config.4.json"]}}
    check(ask, ["serve", "mistralai/M", "--hf-config-path", "dense"], "0.33.0", [], models=models)
    args = ["serve", "dense", "--hf-config-path", "mistralai/M"]
    check(ask, args, "0.33.0", [of_format("mistralai/M")], models=models)


GGUF = "o/X-GGUF:Q4_K_M"
REPLACED = f"model_configs/{GGUF}/model_type"
STATED = f"model_configs/{GGUF}/architectures"
OPT = ["OPTForCausalLM"]
QWEN3 = ["Qwen3ForCausalLM"]


@table(
    ("release", "model", "model_type", "architectures", "args", "expected"),
    [
        ("0.20.2", GGUF, "qwen3", None, [], (QWEN3, REPLACED)),
        ("0.23.0", GGUF, "qwen3", None, [], (QWEN3, REPLACED)),
        ("0.23.0", GGUF, "qwen3", ["Qwen3ForSequenceClassification"], [], (QWEN3, REPLACED)),
        ("0.23.0", GGUF, "qwen3", ["Qwen3Model"], [], (QWEN3, REPLACED)),
        ("0.23.0", GGUF, "opt", QWEN3, [], (OPT, REPLACED)),
        (
            "0.23.0",
            "o/X:UD-Q4_K_XL",
            "llama",
            ["LlamaModel"],
            [],
            (["LlamaForCausalLM"], "model_configs/o/X:UD-Q4_K_XL/model_type"),
        ),
        ("0.23.0", GGUF, "gpt2", None, [], (["GPT2LMHeadModel"], REPLACED)),
        ("0.23.0", GGUF, "qwen3", None, ["--hf-overrides", '{"architectures": ["OPTForCausalLM"]}'], (OPT, "args[2]")),
        ("0.23.0", "o/X-GGUF", "qwen3", OPT, [], (OPT, "model_configs/o/X-GGUF/architectures")),
        ("0.23.0", "/o/X:Q4_K_M", "qwen3", OPT, [], (OPT, "model_configs//o/X:Q4_K_M/architectures")),
        ("0.24.0", GGUF, "qwen3", OPT, [], (OPT, STATED)),
        ("0.33.0", GGUF, "qwen3", OPT, [], (OPT, STATED)),
    ],
)
def test_a_gguf_model_has_the_causal_class_of_its_model_type(
    ask: Asking,
    release: str,
    model: str,
    model_type: str,
    architectures: list[str] | None,
    args: list[str],
    expected: tuple[list[str], str],
) -> None:
    config = {**DENSE, "model_type": model_type, "architectures": architectures}
    asked = ["serve", model, *args]
    assert ask.fact("model_config.architectures", asked, release, models={model: config}) == expected
    runner = ask.fact("model_config.runner_type", asked, release, models={model: config})
    assert runner is not None
    assert runner[0] == "generate"
    check(ask, asked, release, [], models={model: config})


def test_the_architecture_of_a_gguf_draft_is_replaced(ask: Asking) -> None:
    settings = {"method": "draft_model", "model": GGUF, "num_speculative_tokens": 2}
    args = ["serve", "dense", "--speculative-config", json.dumps(settings)]
    name = "speculative_config.draft_model_config.architectures"
    models = {GGUF: {**LLAMA, "architectures": OPT}}
    for release, expected in (("0.23.0", ["LlamaForCausalLM"]), ("0.33.0", OPT)):
        found = ask.fact(name, args, release, models=models)
        assert found is not None
        assert found[0] == expected


OVERRIDES = '{"architectures": ["OPTForCausalLM"]}'


@table(
    ("release", "model", "args", "expected"),
    [
        ("0.23.0", "/x/q.gguf", [], [of_file("/x/q.gguf")]),
        ("0.23.0", "/x/q.gguf", ["--hf-overrides", OVERRIDES], [of_file("/x/q.gguf")]),
        ("0.23.0", "/x/q.gguf", ["--hf-config-path", "dense"], []),
        ("0.33.0", "/x/q.gguf", [], []),
        ("0.23.0", GGUF, [], [of_gguf(GGUF)]),
        ("0.23.0", GGUF, ["--hf-overrides", OVERRIDES], []),
        ("0.23.0", GGUF, ["--hf-overrides", '{"model_type": "qwen3"}'], [of_gguf(GGUF)]),
        ("0.23.0", GGUF, ["--hf-config-path", "dense"], []),
        ("0.33.0", GGUF, [], []),
    ],
)
def test_the_configuration_of_a_gguf_model_may_not_be_known(
    ask: Asking, release: str, model: str, args: list[str], expected: list[str]
) -> None:
    models = {model: {**DENSE, "model_type": "no_such_type"}, "dense": DENSE}
    check(ask, ["serve", model, *args], release, expected, models=models)


def test_each_model_that_is_read_may_have_another_configuration(ask: Asking) -> None:
    other = {**LLAMA, "configuration_files": ["config.4.json"]}
    args = ["serve", "dense", "--speculative-config", DRAFT]
    check(ask, args, "0.33.0", [versioned("eagle-draft", "config.4.json")], models={"eagle-draft": other})
    args = ["serve", "dense", "--hf-config-path", "o/x"]
    check(ask, args, "0.33.0", [versioned("o/x", "config.4.json")], models={"o/x": other})


def test_the_configuration_does_not_matter_for_another_runner(ask: Asking) -> None:
    models = {"dense": {**DENSE, "configuration_files": ["config.4.json"]}}
    check(ask, ["serve", "dense"], "0.33.0", [], models=models, environment={"platform": "tpu"})
    check(ask, ["serve", "dense", "--config-format=mistral"], "0.33.0", [], environment={"platform": "tpu"})


def test_what_is_refused_for_the_given_configuration_may_start_with_another(ask: Asking) -> None:
    models = {"dense": {**DENSE, "num_attention_heads": 3, "configuration_files": ["config.4.json"]}}
    decision = ask(["serve", "dense", "-tp", "2"], models=models, upstream=False)
    assert decision.launch_errors == []
    assert [each for each in decision.warnings if "refuses this configuration" in each]
