"""The facts and decisions recorded from vLLM for deployments as users write them, line by line."""

from __future__ import annotations

import gzip
import json
import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from configured import as_configured

from policy.facts.vocabulary import FACTS
from policy.request.request import read_request
from policy.rules.releases import series

if TYPE_CHECKING:
    from policy.decision.decision import Decision
    from policy.policy import Policy

FILES = [
    "0.22.0",
    "0.23.0",
    "0.24.0",
    "0.25.1",
    "0.26.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.32.0-cpuplatform",
    "0.33.0",
    *(
        f"drawn-{release}"
        for release in (
            "0.20.2",
            "0.21.0",
            "0.23.0",
            "0.25.0",
            "0.27.1",
            "0.29.0",
            "0.30.0",
            "0.31.0",
            "0.32.0",
            "0.33.0",
        )
    ),
]
FOLDER = Path(__file__).resolve().parent.parent / "recordings" / "deployments"
TODAY = date(2026, 1, 1)
ARGUMENT = re.compile(r"args\[(\d+)\]")

TRANSFORMERS = (((0, 31), "5.19.0"), ((0, 27), "5.12.0"), ((0, 0), "5.8.0"))
"""vLLM series → the release of Transformers with which it was recorded from then on."""

Line = dict[str, Any]


def recorded(name: str) -> list[Line]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def decided(policy: Policy, line: Line) -> Decision:
    request = {**line["request"], "layers": ["upstream"]}
    installed = next(found for since, found in TRANSFORMERS if series(request["vllm_version"]) >= since)
    deployment = request["deployment"]
    environment = {"transformers": installed, **(deployment.get("environment") or {})}
    request["deployment"] = {**deployment, "environment": environment}
    return policy.decide(read_request(request, policy.releases), TODAY)


@pytest.fixture(scope="module", params=FILES)
def answers(request: pytest.FixtureRequest, policy: Policy) -> list[tuple[Line, Decision]]:
    """Each line of a recording with our decision, which is made once for all checks."""
    return [(line, decided(policy, line)) for line in recorded(request.param)]


def facts_as_recorded(decision: Decision, asked: Line, release: str) -> Line:
    """The facts of a decision that a line also has; a missing one has its default."""
    assert decision.facts
    shown = decision.facts
    return {name: shown[name].value if name in shown else FACTS[name].default_in(series(release)) for name in asked}


def as_lists(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_every_recording_is_compared() -> None:
    assert sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz")) == sorted(FILES)


def test_a_deployment_is_decided_as_vllm_did_with_the_facts_that_vllm_had(
    policy: Policy, answers: list[tuple[Line, Decision]]
) -> None:
    mismatches: list[tuple[Any, ...]] = []
    for line, decision in answers:
        stated = {member: getattr(decision, member) for member in line["expected"]}
        found = as_configured(policy, stated, decision.startup_errors)
        if found != line["expected"]:
            mismatches.append((line["id"], found, line["expected"]))
        asked = line.get("facts", {})
        facts = facts_as_recorded(decision, asked, decision.release.decided_as)
        mismatches += [
            (line["id"], fact, facts[fact], value) for fact, value in asked.items() if as_lists(facts[fact]) != value
        ]
    assert mismatches == []


def origin_exists(origin: str, deployment: Line) -> bool:
    """Whether an origin exists in the request.

    It is an argument, a field of a given file, configuration or environment, a variable, or none of these.
    """
    argument = ARGUMENT.fullmatch(origin)
    if argument is not None:
        return int(argument[1]) < len(deployment["args"])
    named = [f"env.{name}" for name in deployment["env"]] + [
        f"environment.{name}" for name in deployment["environment"]
    ]
    models = [f"model_configs/{name}" for name in deployment["model_configs"]]
    within = [*models, *(f"files/{name}" for name in deployment.get("files", {}))]
    whole = {"args"} if isinstance(deployment["args"], str) else set()
    return origin in {"default", "assumed", *whole, *named, *models} or origin.startswith(
        tuple(f"{place}/" for place in within)
    )


def test_every_fact_has_an_existing_origin(answers: list[tuple[Line, Decision]]) -> None:
    lost = []
    for line, decision in answers:
        assert decision.facts
        deployment = line["request"]["deployment"]
        lost += [
            (line["id"], fact, sourced.from_)
            for fact, sourced in decision.facts.items()
            if not origin_exists(sourced.from_, deployment)
        ]
    assert lost == []
