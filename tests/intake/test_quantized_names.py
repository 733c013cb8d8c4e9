"""Models that are named like quantised checkpoints, without the file in which ModelOpt saves the quantisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import LLAMA, TODAY, Asking
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.policy import Policy
from policy.request.request import read_request

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue

NAME = "nvidia/Llama-3.1-8B-Instruct-FP8"
FILE = f"{NAME}/hf_quant_config.json"


def warnings(ask: Asking, *flags: str, name: str = NAME, release: str = "0.23.0", **given: Any) -> list[str]:
    found = ask(["serve", name, *flags], release, models={name: given.pop("config", LLAMA)}, **given).warnings
    return [warning for warning in found if "is named like a quantised checkpoint" in warning]


@table(
    "name",
    [
        NAME,
        "nvidia/Llama-3.3-70B-Instruct-FP4",
        "nvidia/Llama-NVFP4-v2",
        "a/llama_nvfp4",
        "a/llama-mxfp8",
        "a/Llama-FP8-KV",
        "a/Llama-8B-fp8kv",
        "/models/llama-modelopt",
    ],
)
def test_a_model_that_is_named_like_a_quantised_one_gets_a_warning(ask: Asking, name: str) -> None:
    expected = (
        f"`{name}` is named like a quantised checkpoint, its `config.json` states no quantisation, and its "
        "`hf_quant_config.json` is not given; with that file the model is quantised, which would change the decision; "
        "send `hf_quant_config.json` in `files`, under the model's name (`null` if there is none)"
    )
    assert warnings(ask, name=name) == [expected]


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "a/Llama-fp16", "a/Llama-bfp8", "a/Llama-fp80"])
def test_a_model_with_another_name_gets_none(ask: Asking, name: str) -> None:
    assert warnings(ask, name=name) == []


@pytest.mark.parametrize("text", ["null", '{"quantization": {"quant_algo": "FP8"}}'])
def test_no_warning_if_the_file_is_given(ask: Asking, text: str) -> None:
    assert warnings(ask, files={FILE: text}) == []


def test_no_warning_if_the_configuration_states_it(ask: Asking) -> None:
    assert warnings(ask, config={**LLAMA, "quantization_config": {"quant_method": "fp8"}}) == []


def test_no_warning_where_the_decision_would_be_the_same(ask: Asking) -> None:
    assert warnings(ask, env={"VLLM_USE_V2_MODEL_RUNNER": "0"}) == []
    assert warnings(ask, release="0.24.0") == []


def test_the_file_that_counts_is_beside_the_configuration_that_vllm_reads(ask: Asking) -> None:
    assert warnings(ask, "--hf-config-path", "draft") == []


def test_no_warning_for_a_model_that_was_looked_up(catalogue: Catalogue) -> None:
    policy = Policy(catalogue, find=lambda name: (LLAMA, {}) if name == NAME else None)
    found = Asking(policy)(["serve", NAME], "0.23.0").warnings
    assert not any("quantised" in warning for warning in found)


def test_where_every_value_must_be_known_the_model_cannot_be_decided(ask: Asking) -> None:
    document = ask.request(["serve", NAME], "0.23.0", models={NAME: LLAMA})
    result = ask.policy.evaluate(read_request(document, ask.policy.releases), TODAY)
    assert result.intake is not None
    with pytest.raises(RequestInvalid) as caught:
        require_known_values(result.intake, "/deployment")
    [fault] = caught.value.faults
    assert fault.pointer == "/deployment"
    assert fault.message.startswith(f"`{NAME}` is named like a quantised checkpoint")
