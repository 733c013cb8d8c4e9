"""Claims that must hold for a catalogue: proved for the shipped one, and refuted for others."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from known_releases import EQUIVALENT
from ruletexts import rule_text

from policy.policy import Policy
from policy.proof import claims
from policy.proof.steps import Steps
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.proof.claims import Proof


@pytest.fixture(scope="module")
def shipped(policy: Policy) -> Callable[[], Proof]:
    """The proof of the shipped rules, made on first use."""
    return cache(lambda: prove(policy))


def prove(policy: Policy) -> Proof:
    return claims.prove(policy, Steps(policy))


@pytest.mark.slow
def test_no_shipped_rule_is_unreachable_or_redundant(shipped: Callable[[], Proof]) -> None:
    assert shipped().faults == ()


@pytest.mark.slow
def test_only_these_releases_are_equivalent(shipped: Callable[[], Proof]) -> None:
    proof = shipped()
    assert [group for group in proof.equivalent if len(group) > 1] == EQUIVALENT
    assert len(proof.equivalent) == 23


@pytest.mark.slow
def test_each_step_between_releases_lists_the_rules_that_changed(shipped: Callable[[], Proof]) -> None:
    proof = shipped()
    steps = {(step.before, step.after): {change.rule for change in step.changes} for step in proof.steps}
    assert {pair for pair, rules in steps.items() if not rules} == {
        pair for group in EQUIVALENT for pair in pairwise(group)
    }
    assert {"architecture-allowlist", "mamba-align"} <= steps["0.22.1", "0.23.0"]


def policy_of(rules: Mapping[str, str], *known: str) -> Policy:
    texts = {f"upstream/{name}.yaml": text for name, text in rules.items()}
    releases = f"known: {list(known or ('0.22.0', '0.23.0'))}\ndefault: '0.23.0'\n"
    return Policy(load(Sources({"releases.yaml": releases, **texts})))


V2 = rule_text("v2", "default-v2", "always")
MOE = {"model_config.is_moe": True}
FAULTY_RULES: list[tuple[dict[str, str], list[tuple[str, str]]]] = [
    ({"v2": V2, "moe": rule_text("moe", "not-default", MOE)}, []),
    (
        {"v2": V2, "never": rule_text("never", "not-default", {"all": [MOE, {"model_config": "absent"}]})},
        [
            (
                "upstream/never.yaml",
                "in 0.22.0 to 0.23.0, unreachable rule: no facts meet its condition; correct it, or remove the range",
            )
        ],
    ),
    (
        {
            "v2": V2,
            "moe": rule_text("moe", "not-default", MOE),
            "dense": rule_text("dense", "not-default", {"all": [MOE, {"model_config.is_hybrid": True}]}),
        },
        [
            (
                "upstream/dense.yaml",
                "in 0.22.0 to 0.23.0, redundant rule: the answers are always the same without it; remove the range",
            )
        ],
    ),
    (
        {"v2": V2, "v1": rule_text("v1", "fallback-v1", "always"), "moe": rule_text("moe", "refuse-v2", MOE, order=1)},
        [
            (
                "upstream/moe.yaml",
                "in 0.22.0 to 0.23.0, redundant rule: the answers are always the same without it; remove the range",
            ),
            (
                "upstream/v2.yaml",
                "in 0.22.0 to 0.23.0, redundant rule: the answers are always the same without it; remove the range",
            ),
        ],
    ),
]


@pytest.mark.parametrize(("rules", "expected"), FAULTY_RULES)
def test_unreachable_and_redundant_rules_are_reported(rules: dict[str, str], expected: list[tuple[str, str]]) -> None:
    proof = prove(policy_of(rules))
    assert sorted((fault.path, fault.message) for fault in proof.faults) == expected
    assert proof.equivalent == (("0.22.0", "0.23.0"),)


def test_a_fault_names_the_releases_that_have_it() -> None:
    rules = {
        "v2": V2,
        "early": rule_text("early", "not-default", MOE, vllm=">=0.22,<0.23"),
        "late": rule_text("late", "not-default", MOE, vllm=">=0.24"),
        "dense": rule_text("dense", "not-default", {"all": [MOE, {"model_config.is_hybrid": True}]}),
    }
    proof = prove(policy_of(rules, "0.22.0", "0.23.0", "0.24.0"))
    assert [fault.message.partition(", redundant")[0] for fault in proof.faults] == ["in 0.22.0, 0.24.0"]


def with_house(rules: Mapping[str, str], house: Mapping[str, str]) -> Policy:
    texts = {
        **{f"upstream/{name}.yaml": rules[name] for name in rules},
        **{f"house/{name}.yaml": house[name] for name in house},
    }
    return Policy(load(Sources({"releases.yaml": "known: ['0.22.0', '0.23.0']\ndefault: '0.23.0'\n", **texts})))


def house_rule(name: str, when: Any, **members: str) -> str:
    """A house rule for V1."""
    dates = {"owner": "tests", "review_by": "2027-03-01", "blocked_by": "nothing"}
    return rule_text(name, "fallback-v1", when, **dates, **members)


UPSTREAM = {
    "v2": V2,
    "moe": rule_text("moe", "not-default", MOE),
    "note": rule_text("note", "advise", "always", runner="v2"),
}


@pytest.mark.parametrize(
    ("house", "expected"),
    [
        ({"wall": house_rule("wall", "always")}, []),
        ({"wall": house_rule("wall", "always"), "part": house_rule("part", MOE)}, ["house/part.yaml"]),
        ({"wall": house_rule("wall", "always", until="2027-03-01")}, []),
        (
            {
                "wall": house_rule("wall", "always", until="2027-04-01"),
                "part": house_rule("part", MOE, until="2027-03-01"),
            },
            ["house/part.yaml"],
        ),
        (
            {
                "wall": house_rule("wall", "always", until="2027-03-01"),
                "part": house_rule("part", MOE, until="2027-04-01"),
            },
            [],
        ),
    ],
    ids=["beside upstream rules", "no end", "an end", "ends first", "ends last"],
)
def test_a_rule_is_redundant_only_if_it_is_redundant_on_every_day(house: dict[str, str], expected: list[str]) -> None:
    proof = prove(with_house(UPSTREAM, house))
    assert sorted(fault.path for fault in proof.faults) == expected
    assert proof.equivalent == (("0.22.0", "0.23.0"),)
