"""Claims about the rules of requests, and the requests that an edit changes: proved, and checked by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ruletexts import rule_text

from policy.policy import Policy
from policy.proof import claims
from policy.proof.edit import edit_of
from policy.proof.requests import RequestDifference, RequestOutcome, RequestReplay, request_differences
from policy.proof.search import ProofFailed
from policy.proof.steps import Steps
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.rules.request_rule import Verdict
from policy.sampling.check import RequestChecker

if TYPE_CHECKING:
    from collections.abc import Mapping

MANY = {"request.bad_words": {"more_than": 128}}
FINE, IGNORED, REFUSED, KILLS = Verdict.FINE, Verdict.IGNORED, Verdict.REFUSED, Verdict.KILLS_ENGINE


def request_rule(name: str, effect: str, when: Any, *, vllm: str = ">=0.22", **members: Any) -> str:
    return yaml.safe_dump(
        {
            "id": name,
            "title": "A title",
            "effect": f"request-{effect}",
            "parameter": "bad_words",
            "why": "Because.",
            "references": ["https://example.com/"],
            "releases": [{"vllm": vllm, "text": "words", "when": when}],
            **members,
        }
    )


def policy_of(rules: Mapping[str, str]) -> Policy:
    texts = {f"upstream/requests/{name}.yaml": text for name, text in rules.items()}
    releases = "known: ['0.22.0', '0.23.0']\ndefault: '0.23.0'\n"
    return Policy(
        load(Sources({"releases.yaml": releases, "upstream/v2.yaml": rule_text("v2", "default-v2"), **texts}))
    )


LIMIT = request_rule("limit", "kills-engine", MANY, runner="v2")
WIDE = {"request.bad_words": {"more_than": 64}}
NEVER = {"all": [{"request.bad_words": {"more_than": 5}}, {"request.bad_words": {"less_than": 3}}]}
UNREACHABLE = "in 0.22.0 to 0.23.0, unreachable rule: no request meets its condition; correct it, or remove the range"
SHADOWED = (
    "in 0.22.0 to 0.23.0, shadowed rule: wherever it holds, another rule gives the same or a worse verdict; correct "
    "its condition, or remove the range"
)
CLAIMS: list[tuple[dict[str, str], list[tuple[str, str]]]] = [
    ({"limit": LIMIT}, []),
    ({"never": request_rule("never", "refused", NEVER)}, [("never", UNREACHABLE)]),
    ({"never": request_rule("never", "advise", NEVER)}, [("never", UNREACHABLE)]),
    ({"limit": LIMIT, "same": request_rule("same", "refused", MANY, runner="v2")}, [("same", SHADOWED)]),
    ({"limit": LIMIT, "same": request_rule("same", "refused", MANY)}, []),
    ({"limit": LIMIT, "note": request_rule("note", "advise", MANY, runner="v2")}, []),
    (
        {"wide": request_rule("wide", "refused", WIDE), "limit": request_rule("limit", "refused", MANY)},
        [("limit", SHADOWED)],
    ),
]


@pytest.mark.parametrize(("rules", "expected"), CLAIMS)
def test_unreachable_and_shadowed_rules_about_requests_are_reported(
    rules: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    policy = policy_of(rules)
    faults = claims.prove(policy, Steps(policy)).faults
    assert [(fault.path, fault.message) for fault in faults] == [
        (f"upstream/requests/{name}.yaml", message) for name, message in expected
    ]


def change_of(
    rule: str, facts: dict[str, Any], before: tuple[Verdict, Verdict], after: tuple[Verdict, Verdict]
) -> tuple[Any, ...]:
    return rule, facts, before, after


def changes(before: dict[str, str], after: dict[str, str]) -> list[tuple[Any, ...]]:
    effects = edit_of(policy_of(before), policy_of(after)).request_effects
    assert all(effect.releases == ("0.22.0", "0.23.0") for effect in effects)
    found = [effect.change for effect in effects]
    return [(each.rule, each.facts, each.before.verdicts, each.after.verdicts) for each in found]


def bad_words(number: int) -> dict[str, Any]:
    return {"request": {"bad_words": number}}


SEED = request_rule("seed", "ignored", {"request.has_seed": True})
EDITS: list[tuple[dict[str, str], dict[str, str], list[tuple[Any, ...]]]] = [
    ({"limit": LIMIT}, {"limit": LIMIT}, []),
    ({}, {"limit": LIMIT}, [change_of("limit", bad_words(129), (FINE, FINE), (FINE, KILLS))]),
    ({"limit": LIMIT}, {}, [change_of("limit", bad_words(129), (FINE, KILLS), (FINE, FINE))]),
    (
        {"limit": LIMIT},
        {"limit": request_rule("limit", "kills-engine", WIDE, runner="v2")},
        [change_of("limit", bad_words(65), (FINE, FINE), (FINE, KILLS))],
    ),
    (
        {"limit": LIMIT},
        {"limit": request_rule("limit", "refused", MANY)},
        [change_of("limit", bad_words(129), (FINE, KILLS), (REFUSED, REFUSED))],
    ),
    (
        {"seed": SEED},
        {"seed": SEED, "limit": request_rule("limit", "refused", MANY)},
        [
            change_of("limit", bad_words(129), (FINE, FINE), (REFUSED, REFUSED)),
            change_of(
                "limit", {"request": {"bad_words": 129, "has_seed": True}}, (IGNORED, IGNORED), (REFUSED, REFUSED)
            ),
        ],
    ),
    (
        {"limit": LIMIT},
        {"limit": LIMIT, "note": request_rule("note", "advise", MANY)},
        [change_of("note", bad_words(129), (FINE, KILLS), (FINE, KILLS))],
    ),
    (
        {},
        {"one": request_rule("one", "refused", MANY), "other": request_rule("other", "ignored", MANY)},
        [change_of("one", bad_words(129), (FINE, FINE), (REFUSED, REFUSED))],
    ),
]


@pytest.mark.parametrize(("before", "after", "expected"), EDITS)
def test_an_edit_shows_the_smallest_request_for_each_change_of_a_verdict(
    before: dict[str, str], after: dict[str, str], expected: list[tuple[Any, ...]]
) -> None:
    assert changes(before, after) == expected


LARGEST = 2**63 - 1
TEMPERATURES: list[tuple[Any, list[float]]] = [
    ({"more_than": 1e17}, [10**17 + 1]),
    ({"less_than": -1e17}, [-(10**17) - 1]),
    ({"more_than": 1e17, "less_than": 1e17 + 16}, [10**17 + 1]),
    ({"more_than": LARGEST}, []),
    ({"less_than": -LARGEST}, []),
    ({"more_than": 9007199254740992, "less_than": 9007199254740994}, [9007199254740993]),
    ({"more_than": 0.1, "less_than": 0.2}, [0.15]),
    ({"more_than": 1, "less_than": 1.0000001}, [1.0000000500000001]),
    ({"more_than": 1.5, "less_than": 3}, [2]),
]


@pytest.mark.parametrize(("comparison", "expected"), TEMPERATURES)
def test_a_number_is_found_in_every_interval_that_has_one(comparison: Any, expected: list[float]) -> None:
    after = {"limit": request_rule("limit", "refused", {"request.temperature": comparison})}
    found = changes({}, after)
    assert [facts["request"]["temperature"] for _, facts, *_ in found] == expected


def test_facts_that_no_request_can_have_fail_the_proof() -> None:
    replay = RequestReplay(*[(RequestChecker(policy_of({})), "0.23.0")] * 2)
    with pytest.raises(ProofFailed, match=r"illegal facts.*temperature"):
        replay({"request": {"temperature": float(2**63)}})


def test_an_edit_of_a_rule_about_requests_affects_no_deployment() -> None:
    edit = edit_of(policy_of({}), policy_of({"limit": LIMIT}))
    assert edit.effects == ()
    assert edit.changes_something


def test_a_step_between_releases_has_the_requests_that_change() -> None:
    policy = policy_of({"limit": request_rule("limit", "kills-engine", MANY, runner="v2", vllm=">=0.23")})
    proof = claims.prove(policy, Steps(policy))
    [step] = proof.steps
    assert (step.changes, proof.equivalent) == ((), (("0.22.0", "0.23.0"),))
    assert step.requests == (
        RequestDifference(
            "limit",
            ("limit",),
            bad_words(129),
            RequestOutcome((FINE, FINE), ((), ())),
            RequestOutcome((FINE, KILLS), ((), ("limit",))),
        ),
    )


def test_a_disagreement_of_solver_and_engine_stops_the_proof() -> None:
    one, other = policy_of({}), policy_of({"limit": LIMIT})
    rules = one.catalogue.request_rules_of("0.23.0"), other.catalogue.request_rules_of("0.23.0")
    wrong = RequestReplay((RequestChecker(one), "0.23.0"), (RequestChecker(one), "0.23.0"))
    with pytest.raises(ProofFailed, match="the solver and the engine disagree"):
        request_differences(*rules, ("0.23.0", "0.23.0"), wrong)


@pytest.mark.slow
def test_no_shipped_rule_about_requests_is_unreachable_or_shadowed(policy: Policy) -> None:
    assert [*claims.request_faults(policy.catalogue)] == []
