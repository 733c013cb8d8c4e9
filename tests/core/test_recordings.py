"""Decisions compared with those recorded from vLLM."""

from __future__ import annotations

import gzip
import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from configured import as_configured
from known_releases import KNOWN_RELEASES
from reference import Reference, as_reference
from representatives import slow_except

from policy.request.request import read_request

if TYPE_CHECKING:
    from pathlib import Path

    from policy.decision.decision import Decision
    from policy.policy import Policy
    from policy.rules.loader import Sources

RECORDED = ("runner", "outcome", "starts", "startup_errors", "unsupported_features", "v1_unsupported_features")
QUICK_RELEASES = ["0.20.0", "0.23.0", "0.33.0"]
"""Releases in which `make test` compares the reference too; the law tests compare it in every release."""
with_reference = pytest.mark.parametrize("lines", slow_except(QUICK_RELEASES, KNOWN_RELEASES), indirect=True)
TODAY = date(2026, 1, 1)


@pytest.fixture(scope="session")
def reference(sources: Sources) -> Reference:
    return Reference(sources.rules)


def recorded(root: Path, release: str) -> list[dict[str, Any]]:
    with gzip.open(root / "tests" / "recordings" / f"{release}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def decided(policy: Policy, request: dict[str, Any], *layers: str) -> Decision:
    return policy.decide(read_request({**request, "layers": list(layers)}, policy.releases), TODAY)


@pytest.fixture(scope="module", params=KNOWN_RELEASES)
def lines(request: pytest.FixtureRequest, root: Path) -> list[dict[str, Any]]:
    """The recording of a release, read once for all tests of it."""
    return recorded(root, request.param)


def test_every_release_has_a_recording(root: Path, policy: Policy) -> None:
    stored = sorted(path.name.removesuffix(".jsonl.gz") for path in (root / "tests" / "recordings").glob("*.jsonl.gz"))
    assert (stored, KNOWN_RELEASES) == (sorted(policy.releases.known), list(policy.releases.known))


def test_upstream_alone_decides_as_vllm_did(policy: Policy, lines: list[dict[str, Any]]) -> None:
    mismatches = []
    for line in lines:
        decision = decided(policy, line["request"], "upstream")
        found = as_configured(policy, {name: getattr(decision, name) for name in RECORDED}, decision.startup_errors)
        if found != line["expected"]:
            mismatches.append((line["id"], line["request"], found, line["expected"]))
    assert mismatches[:3] == []


@with_reference
def test_the_reference_decides_as_vllm_did(policy: Policy, reference: Reference, lines: list[dict[str, Any]]) -> None:
    mismatches = []
    for line in lines:
        decision = reference.decide(line["request"]["vllm_version"], line["request"]["facts"], ["upstream"])
        found = as_configured(policy, {name: decision[name] for name in RECORDED}, decision["startup_errors"])
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
