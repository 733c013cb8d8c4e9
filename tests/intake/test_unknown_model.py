"""A model, a value or a variable of which only the name of a variable is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deployments import DENSE, TODAY

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

RELEASE = "0.23.0"
DECIDED = "the model is `{}`, whose value is not known; decided for the `config.json` that is given under this name"
REPLACED = (
    "`{}` is set to `${{N}}`, which vLLM refuses as it stands; it is taken as a value that a tool such as `envsubst` "
    "sets"
)
ASSUMED = (
    "`--tensor-parallel-size` is set to `${N}`, whose value is not known; it is assumed to be 1, and the decision is "
    "the same with 2 and 8"
)
COMMANDS: list[tuple[str | list[str], str]] = [
    ('vllm serve "$MODEL"', "$MODEL"),
    ("vllm serve $MODEL --port 80", "$MODEL"),
    ('vllm serve --model "$MODEL"', "$MODEL"),
    ('vllm serve --model="/models/${MODEL}"', "/models/${MODEL}"),
    (["vllm", "serve", "${MODEL}"], "${MODEL}"),
]


@pytest.mark.parametrize(("args", "name"), COMMANDS)
def test_its_configuration_is_asked_for_under_the_name_that_is_written(
    ask: Asking, args: str | list[str], name: str
) -> None:
    kind, ((_, message),) = ask.refusal(args, RELEASE)
    assert (kind, message) == (
        "model-config-needed",
        f"the config.json of `{name}` is needed, under the name that the arguments give it",
    )


@pytest.mark.parametrize(("args", "name"), COMMANDS)
def test_it_is_decided_for_the_configuration_that_is_given(ask: Asking, args: str | list[str], name: str) -> None:
    decision = ask(args, RELEASE, models={name: DENSE})
    assert (decision.runner, DECIDED.format(name) in decision.warnings) == ("v2", True)


def test_it_is_not_decided_where_every_value_has_to_be_known(ask: Asking) -> None:
    document = ask.request('vllm serve --model "$MODEL"', RELEASE, models={"$MODEL": DENSE})
    result = ask.policy.evaluate(read_request(document, ask.policy.releases), TODAY)
    assert result.intake is not None
    with pytest.raises(RequestInvalid) as caught:
        require_known_values(result.intake, "/deployment")
    assert [(fault.pointer, fault.message) for fault in caught.value.faults] == [
        ("/deployment", DECIDED.format("$MODEL"))
    ]


def test_a_release_that_needs_no_model_needs_no_name(ask: Asking) -> None:
    assert ask('vllm serve --model "$MODEL"', "0.11.0").runner == "v1"


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (["--gpu-memory-utilization", "${N}"], [REPLACED.format("--gpu-memory-utilization")]),
        (["--tensor-parallel-size=${N}"], [REPLACED.format("--tensor-parallel-size"), ASSUMED]),
        (["${N}"], ["the value of `${N}` (args[3]) is not known, so it is ignored; set the variable"]),
    ],
)
def test_a_placeholder_that_nothing_replaces_has_an_unknown_value(
    ask: Asking, words: list[str], warned: list[str]
) -> None:
    decision = ask(["vllm", "serve", "dense", *words], RELEASE)
    assert (decision.runner, decision.starts, decision.warnings) == ("v2", True, warned)


@pytest.mark.parametrize("release", ["0.12.0", RELEASE])
def test_a_variable_with_a_placeholder_has_an_unknown_value(ask: Asking, release: str) -> None:
    decision = ask(["vllm", "serve", "dense"], release, env={"VLLM_USE_V2_MODEL_RUNNER": "${A}"})
    unknown = "the value of `VLLM_USE_V2_MODEL_RUNNER` is not known here; it is assumed to be unset"
    assert (decision.starts, unknown in decision.warnings) == (True, True)
