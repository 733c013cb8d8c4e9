"""Laws of verdicts over random deployments, compared with a reference that reads two public decisions."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import catalogue, policy, sources
from core.test_laws import random_facts
from deployments import DENSE, TODAY

from policy.errors import RequestInvalid
from policy.impact.targets import V1_REMOVED, targets_of
from policy.pins.decider import PinDecider
from policy.pins.pins import VariableSource, pins_of
from policy.pins.verdicts import PinVerdict
from policy.request.request import read_request

if TYPE_CHECKING:
    from policy.decision.decision import Decision
    from policy.policy import Policy
    from policy.request.request import Request

__all__ = ["catalogue", "policy", "sources"]
NAME = "VLLM_USE_V2_MODEL_RUNNER"
MODEL = "Qwen/Qwen3-8B"
RELEASES = ("0.20.0", "0.22.0", "0.23.0", "0.26.0", "0.29.0", "0.33.0")
VALUES: tuple[Any, ...] = ("0", "1", True, False, "x", "")
FLAGS = [
    ["--enforce-eager"],
    ["--enable-dbo"],
    ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
    ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}'],
    ["-pp", "2"],
    ["--no-such-flag"],
    ["--enable-lora"],
    ["--mamba-cache-mode", "all"],
    ["-tp", "two"],
]


def outcome(decision: Decision) -> tuple[Any, ...]:
    """What a user gets: without the reasons and the name of the step that chose the runner."""
    return (
        decision.runner,
        decision.starts,
        decision.startup_errors,
        decision.launch_errors,
        [each.rule for each in decision.known_problems],
        decision.set_env,
    )


def decided(policy: Policy, request: Request) -> Decision | None:
    try:
        return policy.decide(request, TODAY)
    except RequestInvalid:
        return None


def check(verdict: PinVerdict, pinned: Decision | None, free: Decision | None, case: object) -> None:
    """Compare a verdict with what the decisions with and without the pin say."""
    if pinned is None or free is None:
        assert verdict is PinVerdict.UNDECIDED, case
        return
    assert (verdict is PinVerdict.REDUNDANT) == (outcome(pinned) == outcome(free)), case
    if free.starts and not pinned.starts:
        assert verdict is PinVerdict.FATAL, case
    if pinned.starts and not free.starts:
        assert verdict is PinVerdict.NEEDED, case
    if verdict is PinVerdict.FATAL:
        assert not pinned.starts, case
    if verdict is PinVerdict.UNEXPLAINED:
        assert (pinned.runner, free.runner) == ("v1", "v2"), case
        assert pinned.starts == free.starts, case
    if verdict in {PinVerdict.HARMFUL, PinVerdict.NEEDED} and pinned.starts and free.starts:
        assert outcome(pinned) != outcome(free), case
    if verdict is PinVerdict.HARMFUL and pinned.starts and free.starts and pinned.runner == free.runner:
        assert pinned.set_env or pinned.known_problems, case


def requests_of(policy: Policy, seed: int) -> tuple[Request, Request]:
    """A random pinned deployment, and the same one without the pin, both written as a user would."""
    chance = random.Random(seed)
    release, value = chance.choice(RELEASES), chance.choice(VALUES)
    if seed % 2:
        facts = random_facts(seed)
        facts["env"] = {**(facts.get("env") or {}), NAME: value}
        bare = {**facts, "env": {name: each for name, each in facts["env"].items() if name != NAME}}
        documents: list[dict[str, Any]] = [{"facts": facts}, {"facts": bare}]
    else:
        args = ["serve", MODEL, *(word for each in chance.sample(FLAGS, chance.randrange(4)) for word in each)]
        deployment = {"args": args, "model_configs": {MODEL: DENSE}}
        text = str(value) if isinstance(value, str) else str(int(value))
        documents = [{"deployment": {**deployment, "env": {NAME: text}}}, {"deployment": deployment}]
    layers = chance.choice([["upstream"], ["upstream", "house"]])
    first, second = (
        read_request({**each, "vllm_version": release, "layers": layers}, policy.releases) for each in documents
    )
    return first, second


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 400, 50)], ids=str)
def test_verdicts_are_those_of_two_decisions(policy: Policy, seeds: range) -> None:
    decider = PinDecider(policy, (), TODAY, from_own=True)
    for seed in seeds:
        request, bare = requests_of(policy, seed)
        _, pins = decider.decide(request)
        assert len(pins) == 1, seed
        check(pins[0][1].now, decided(policy, request), decided(policy, bare), seed)


def test_the_deployment_without_a_pin_is_the_one_that_was_never_pinned(policy: Policy) -> None:
    for seed in range(100):
        request, bare = requests_of(policy, seed)
        (pin,) = pins_of(request)
        assert pins_of(pin.without) == [], seed
        without, never = decided(policy, pin.without), decided(policy, bare)
        assert (without is None) == (never is None), seed
        if without is not None and never is not None:
            assert outcome(without) == outcome(never), seed


@pytest.mark.parametrize("version", ["0.21.0", "0.33.0"])
def test_a_variable_that_is_null_is_no_pin(policy: Policy, version: str) -> None:
    request = read_request({"facts": {"env": {NAME: None}}, "vllm_version": version}, policy.releases)
    assert pins_of(request) == []


@pytest.mark.parametrize("value", ["0", "1"])
def test_without_v1_no_pin_chooses_a_runner(policy: Policy, value: str) -> None:
    """Where only V2 is left, what V2 refuses will not start; V2 asked for refuses less than V2 required."""
    decider = PinDecider(policy, targets_of([V1_REMOVED], policy.releases), TODAY)
    found = set()
    for seed in range(1, 120, 2):
        facts = {**random_facts(seed), "env": {NAME: value}}
        request = read_request({"facts": facts, "vllm_version": "0.33.0"}, policy.releases)
        _, ((_, verdicts),) = decider.decide(request)
        answer = verdicts.releases[V1_REMOVED]
        assert answer.verdict in {PinVerdict.FATAL, PinVerdict.REDUNDANT, PinVerdict.NEEDED}, seed
        assert answer.verdict is not PinVerdict.NEEDED or (answer.starts and value == "1"), seed
        if answer.verdict is PinVerdict.FATAL:
            assert not answer.starts, seed
        found.add(answer.verdict)
    assert found >= {PinVerdict.FATAL, PinVerdict.REDUNDANT}


BOTH = [f"{NAME}=1", "vllm", "serve", MODEL]


@pytest.mark.parametrize(
    ("env", "args", "found"),
    [
        ({NAME: "0"}, ["vllm", "serve", MODEL], [(VariableSource.VARIABLES, "0", "")]),
        ({}, ["env", *BOTH], [(VariableSource.COMMAND, "1", "args[1]")]),
        ({NAME: "0"}, ["env", *BOTH], [(VariableSource.VARIABLES, "0", ""), (VariableSource.COMMAND, "1", "args[1]")]),
        ({NAME: "0"}, ["env", "-u", NAME, "vllm", "serve", MODEL], [(VariableSource.VARIABLES, "0", "")]),
        ({}, f"{NAME}=1 vllm serve {MODEL}", [(VariableSource.COMMAND, "1", "args")]),
        ({"OTHER": NAME}, ["vllm", "serve", MODEL], []),
        ({NAME: "${X}"}, ["vllm", "serve", MODEL], [(VariableSource.VARIABLES, None, "")]),
        ({NAME: ""}, ["vllm", "serve", MODEL], [(VariableSource.VARIABLES, "", "")]),
    ],
)
def test_settings(policy: Policy, env: dict[str, str], args: Any, found: list[Any]) -> None:
    document = {"deployment": {"args": args, "env": env, "model_configs": {MODEL: DENSE}}}
    request = read_request({**document, "vllm_version": "0.33.0"}, policy.releases)
    assert [(pin.source, pin.value, pin.at) for pin in pins_of(request)] == found


def test_a_setting_of_the_command_leaves_that_of_the_variables(policy: Policy) -> None:
    """Each setting is judged alone: without the command's, the container's takes effect."""
    document = {"args": ["env", *BOTH], "env": {NAME: "0"}, "model_configs": {MODEL: DENSE}}
    request = read_request({"deployment": document, "vllm_version": "0.33.0"}, policy.releases)
    of_variables, of_command = pins_of(request)
    runners = [policy.decide(each, TODAY).runner for each in (request, of_variables.without, of_command.without)]
    assert runners == ["v2", "v2", "v1"]
