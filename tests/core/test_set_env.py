"""The variable that makes vLLM follow a house rule: what the answer says of vLLM with it is what vLLM then does."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from deployments import NEWEST, TODAY, Asking
from ruletexts import rule_text

from policy.errors import RequestInvalid
from policy.intake.command.expansion import request_expansion
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from policy.decision.decision import Decision

NAME = "VLLM_USE_V2_MODEL_RUNNER"
FALLBACK = "house/kv-connector-fallback.yaml"
LORA_TO_V2 = """
id: lora-v2
title: LoRA goes to V2
effect: force-v2
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: It sets the variable to 1.
references: [https://example.org]
releases:
  - {vllm: ">=0.12", message: LoRA goes to V2, when: {lora_config: present}}
"""
CONNECTOR = ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}']
NGRAM = ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}']
STAGES = ["-pp", "2"]


@pytest.fixture(scope="module")
def ask(sources: Sources) -> Asking:
    """The shipped rules with a house rule for V1 in every later release, and one for V2."""
    fallback = sources.rules[FALLBACK].replace('">=0.22,<0.25"', '">=0.22"')
    assert fallback != sources.rules[FALLBACK]
    return Asking(Policy(load(Sources({**sources.rules, FALLBACK: fallback, "house/lora-v2.yaml": LORA_TO_V2}))))


def what_vllm_does(decision: Decision) -> tuple[Any, ...]:
    return (
        decision.runner,
        decision.starts,
        decision.startup_errors,
        decision.launch_errors,
        decision.known_problems,
    )


@pytest.mark.parametrize(
    ("args", "starts", "errors"),
    [
        pytest.param([*STAGES, *CONNECTOR], True, [], id="the default of the runner that is left would be refused"),
        pytest.param(
            ["--async-scheduling", *NGRAM, *CONNECTOR],
            False,
            ["Async scheduling is not supported by the V1 model runner with ngram-based speculative decoding."],
            id="the runner that is set refuses a flag",
        ),
    ],
)
def test_the_answer_describes_vllm_with_the_variable(
    ask: Asking, args: list[str], errors: list[str], *, starts: bool
) -> None:
    found = ask(["serve", "dense", *args], upstream=False)
    assert (found.runner, found.set_env, found.starts) == ("v1", {NAME: "0"}, starts)
    assert all(text in error for text, error in zip(errors, found.launch_errors + found.startup_errors, strict=True))


def test_vllm_alone_starts_where_only_the_runner_that_is_set_refuses(ask: Asking) -> None:
    found = ask(["serve", "dense", "--async-scheduling", *NGRAM, *CONNECTOR], upstream=False)
    assert (found.runner, found.starts, len(found.launch_errors)) == ("v1", False, 1)
    assert (found.upstream.runner, found.upstream.starts) == ("v2", True)


def test_vllm_alone_does_not_start_where_only_the_runner_that_it_chooses_refuses(sources: Sources) -> None:
    rules = {
        "house/lora-v2.yaml": LORA_TO_V2,
        "upstream/lora-v1.yaml": rule_text("lora-v1", "not-default", {"lora_config": "present"}, vllm=">=0.33"),
    }
    ask = Asking(Policy(load(Sources({**sources.rules, **rules})), compile_all=False))
    found = ask(["serve", "dense", "--async-scheduling", *NGRAM, "--enable-lora"], upstream=False)
    assert (found.runner, found.starts, found.launch_errors, found.set_env) == ("v2", True, [], {NAME: "1"})
    assert (found.upstream.runner, found.upstream.starts) == ("v1", False)


FLAGS = [STAGES, ["--async-scheduling"], NGRAM, ["--enable-lora"], CONNECTOR]
SOME_FLAGS = [
    [word for flag, is_given in zip(FLAGS, chosen, strict=True) if is_given for word in flag]
    for chosen in product([False, True], repeat=len(FLAGS))
]


@pytest.mark.parametrize("release", ["0.20.0", "0.21.0", "0.24.0", "0.29.0", NEWEST])
def test_with_set_env_given_vllm_does_what_the_answer_says(ask: Asking, release: str) -> None:
    number = 0
    for args in SOME_FLAGS:
        decided = ask(["serve", "dense", *args], release, upstream=False)
        if decided.set_env:
            number += 1
            given = ask(["serve", "dense", *args], release, upstream=False, env=decided.set_env)
            assert given.set_env == {}, args
            assert what_vllm_does(given) == what_vllm_does(decided), args
    assert number


def test_a_command_that_clears_the_variable_is_described_with_it(ask: Asking) -> None:
    command = (
        "unset VLLM_USE_V2_MODEL_RUNNER; {} vllm serve dense -pp 2 --kv-transfer-config.kv_connector NixlConnector"
    )
    cleared = ask(command.format(""), upstream=False)
    assert cleared.set_env == {NAME: "0"}
    assert "has no effect" in cleared.warnings[0]
    assert what_vllm_does(cleared) == what_vllm_does(ask(command.format(f"env {NAME}=0"), upstream=False))


def test_a_deployment_that_cannot_be_read_with_the_variable_is_decided_as_it_stands(ask: Asking) -> None:
    script = f"vllm serve dense --enable-lora -tp $((1 - {NAME}))"
    decided = ask(["sh", "-c", script], "0.20.0", upstream=False, env={NAME: "0"})
    assert (decided.runner, decided.starts, decided.set_env) == ("v2", True, {NAME: "1"})


SCRIPT = "echo {}; A={}; B=$A$A; vllm serve dense --kv-transfer-config.kv_connector NixlConnector"


def spent(ask: Asking, script: str, *, upstream: bool, most: int) -> int:
    """How many characters the evaluation of a script's engine counts, of ``most``."""
    request = read_request(ask.request(["sh", "-c", script], upstream=upstream), ask.policy.releases)
    with request_expansion(most) as expansion:
        evaluation = ask.policy.evaluate(request, TODAY).evaluation
    assert (evaluation.set_to is None) == upstream
    return most - expansion.remaining


def test_a_command_that_is_read_again_with_the_variable_counts_once(ask: Asking) -> None:
    once = spent(ask, SCRIPT.format(1, "b" * 100), upstream=True, most=10**6)
    assert once > 100
    assert spent(ask, SCRIPT.format(2, "b" * 100), upstream=False, most=once + once // 10) == once


def test_a_command_that_is_read_again_has_a_limit_too(ask: Asking) -> None:
    longer = "$" + f"{{{NAME}:+{'b' * 1000}}}"
    once = spent(ask, SCRIPT.format(3, longer), upstream=True, most=10**6)
    with pytest.raises(RequestInvalid, match="expand to more text than its size allows"):
        spent(ask, SCRIPT.format(4, longer), upstream=False, most=once)
    assert spent(ask, SCRIPT.format(5, longer), upstream=False, most=once + 10_000) == once


def test_what_would_be_decided_without_the_variable_is_described_with_set_env(ask: Asking) -> None:
    args = ["serve", "dense", *STAGES, *CONNECTOR]
    found = ask(args, upstream=False, env={NAME: "1"}).without_variable
    assert (found.runner, found.starts) == ("v1", True)  # type: ignore[union-attr]


def test_the_trace_of_known_problems_is_that_of_the_answer(ask: Asking) -> None:
    for args in SOME_FLAGS:
        decided = ask(["serve", "dense", *args], upstream=False, explain=True)
        fired = {each.rule for each in decided.trace or () if each.effect == "known-problem" and each.fired}
        assert fired == {each.rule for each in decided.known_problems}, args
