"""Decisions compared with those recorded from vLLM."""

from __future__ import annotations

import gzip
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from reference import Reference, as_reference
from representatives import slow_except

from policy.request.request import read_request

if TYPE_CHECKING:
    from pathlib import Path

    from policy.decision.decision import Decision
    from policy.policy import Policy
    from policy.rules.loader import Sources

RELEASES = [
    "0.9.0",
    "0.9.0.1",
    "0.9.1",
    "0.9.2",
    "0.10.0",
    "0.10.1",
    "0.10.1.1",
    "0.10.2",
    "0.11.0",
    "0.11.1",
    "0.11.2",
    "0.12.0",
    "0.13.0",
    "0.14.0",
    "0.14.1",
    "0.15.0",
    "0.15.1",
    "0.16.0",
    "0.17.0",
    "0.17.1",
    "0.18.0",
    "0.18.1",
    "0.19.0",
    "0.19.1",
    "0.20.0",
    "0.20.1",
    "0.20.2",
    "0.21.0",
    "0.22.0",
    "0.22.1",
    "0.23.0",
    "0.24.0",
    "0.25.0",
    "0.25.1",
    "0.26.0",
    "0.27.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
]
RECORDED = ("runner", "outcome", "starts", "startup_errors", "unsupported_features", "v1_unsupported_features")
QUICK_RELEASES = ["0.20.0", "0.23.0", "0.33.0"]
"""Releases in which `make test` compares the reference too; the law tests compare it in every release."""
with_reference = pytest.mark.parametrize("lines", slow_except(QUICK_RELEASES, RELEASES), indirect=True)
TODAY = date(2026, 1, 1)


@pytest.fixture(scope="session")
def reference(sources: Sources) -> Reference:
    return Reference(sources.rules)


def recorded(root: Path, release: str) -> list[dict[str, Any]]:
    with gzip.open(root / "tests" / "recordings" / f"{release}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def decided(policy: Policy, request: dict[str, Any], *layers: str) -> Decision:
    return policy.decide(read_request({**request, "layers": list(layers)}, policy.releases), TODAY)


@pytest.fixture(scope="module", params=RELEASES)
def lines(request: pytest.FixtureRequest, root: Path) -> list[dict[str, Any]]:
    """The recording of a release, read once for all tests of it."""
    return recorded(root, request.param)


def test_every_release_has_a_recording(root: Path, policy: Policy) -> None:
    stored = sorted(path.name.removesuffix(".jsonl.gz") for path in (root / "tests" / "recordings").glob("*.jsonl.gz"))
    assert (stored, RELEASES) == (sorted(policy.releases.known), list(policy.releases.known))


def test_upstream_alone_decides_as_vllm_did(policy: Policy, lines: list[dict[str, Any]]) -> None:
    mismatches = []
    for line in lines:
        decision = decided(policy, line["request"], "upstream")
        found = {name: getattr(decision, name) for name in RECORDED}
        if found != line["expected"]:
            mismatches.append((line["id"], line["request"], found, line["expected"]))
    assert mismatches[:3] == []


@with_reference
def test_the_reference_decides_as_vllm_did(reference: Reference, lines: list[dict[str, Any]]) -> None:
    mismatches = []
    for line in lines:
        decision = reference.decide(line["request"]["vllm_version"], line["request"]["facts"], ["upstream"])
        found = {name: decision[name] for name in RECORDED}
        if found != line["expected"]:
            mismatches.append((line["id"], line["request"], found, line["expected"]))
    assert mismatches[:3] == []


@with_reference
def test_with_house_rules_the_engine_and_the_reference_agree_on_every_recorded_deployment(
    policy: Policy, reference: Reference, lines: list[dict[str, Any]]
) -> None:
    mismatches = []
    for line in lines:
        found = as_reference(decided(policy, line["request"], "upstream", "house"))
        expected = reference.decide(line["request"]["vllm_version"], line["request"]["facts"], ["upstream", "house"])
        if found != expected:
            mismatches.append((line["id"], line["request"], found, expected))
    assert mismatches[:3] == []
