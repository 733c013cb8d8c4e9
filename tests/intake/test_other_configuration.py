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
    assert [each for each in ask.policy.assemble(result).warnings if "config" in each] == expected
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


def test_each_model_that_is_read_may_have_another_configuration(ask: Asking) -> None:
    other = {**LLAMA, "configuration_files": ["config.4.json"]}
    args = ["serve", "dense", "--speculative-config", DRAFT]
    check(ask, args, "0.33.0", [versioned("eagle-draft", "config.4.json")], models={"eagle-draft": other})
    args = ["serve", "dense", "--hf-config-path", "o/x"]
    check(ask, args, "0.33.0", [versioned("o/x", "config.4.json")], models={"o/x": other})


def test_the_configuration_does_not_matter_for_another_runner(ask: Asking) -> None:
    models = {"dense": {**DENSE, "configuration_files": ["config.4.json"]}}
    check(ask, ["serve", "dense"], "0.33.0", [], models=models, environment={"platform": "tpu"})


def test_what_is_refused_for_the_given_configuration_may_start_with_another(ask: Asking) -> None:
    models = {"dense": {**DENSE, "num_attention_heads": 3, "configuration_files": ["config.4.json"]}}
    decision = ask(["serve", "dense", "-tp", "2"], models=models, upstream=False)
    assert decision.launch_errors == []
    assert [each for each in decision.warnings if "refuses this configuration" in each]
