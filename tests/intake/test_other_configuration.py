"""A model's configuration that vLLM takes from another file than the given `config.json`: a warning, and a doubt."""

from __future__ import annotations

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
DRAFT = '{"method": "eagle", "model": "eagle-draft", "num_speculative_tokens": 2}'


def check(ask: Asking, args: list[str], release: str, expected: list[str], **fields: Any) -> None:
    """Exactly the ``expected`` warnings are shown, and each of them is what makes an engine undecided."""
    request = read_request(ask.request(args, release, **fields), ask.policy.releases)
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    assert [each for each in ask.policy.assemble(result).warnings if "given" in each or "instead" in each] == expected
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
