"""House rules with an end: they decide up to and including the day in `until`, and are left out afterwards."""

from __future__ import annotations

import json
from datetime import date, timedelta
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from representatives import slow_except, slow_rows_except
from ruletexts import read_document, rule_text

from policy.checks.candidate import CandidateJob, overlay, run_job
from policy.checks.cases import read_cases, run_cases
from policy.checks.comparison import compare
from policy.decision.decision import Decision, RuleTrace, encode
from policy.fastpath.request_decoder import decode_fast
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.loader import Sources

UNTIL = date(2027, 3, 1)
BEFORE, AFTER = UNTIL - timedelta(days=1), UNTIL + timedelta(days=1)
DAYS = [date.min, UNTIL - timedelta(days=31), UNTIL - timedelta(days=30), BEFORE, UNTIL, AFTER, date.max]
RULE = "kv-connector-fallback"
PATH = f"house/{RULE}.yaml"
VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
QWEN3 = {"architectures": ["Qwen3ForCausalLM"]}
KV = {"model_config": QWEN3, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
SOON = f"the house rule `{RULE}` holds until 2027-03-01, and not afterwards; its owner is inference-platform"
ENDED = f"the house rule `{RULE}` held until 2027-03-01, and no longer applies; its owner is inference-platform"


def house(name: str, effect: str, when: Any = "always", **members: Any) -> str:
    """A house rule for every release, with an end."""
    dates = {"review_by": "2027-03-01", "until": "2027-03-01"}
    owned = {"owner": "tests", "blocked_by": "nothing", **dates, **members}
    return rule_text(name, effect, when, f"message of {name}", ">=0.20", **owned)


def with_end(sources: Sources, until: str = "2027-03-01", **edits: str) -> Sources:
    """The shipped rules, whose house rule has an end."""
    dates = f"review_by: {edits.get('review_by', '2027-03-01')}\nuntil: {until}"
    text = sources.rules[PATH].replace("review_by: 2027-06-30", dates)
    return Sources({**sources.rules, PATH: text}, sources.cases)


def ask(policy: Policy, facts: dict[str, Any], day: date, version: str = "0.23.0", **members: Any) -> Decision:
    return policy.decide(read_request({"facts": facts, "vllm_version": version, **members}, policy.releases), day)


def comparable(json_text: bytes) -> dict[str, Any]:
    """A decision without its id, its revision, and the warnings about rules that have ended."""
    found: dict[str, Any] = json.loads(json_text)
    del found["decision_id"], found["policy"]
    found["warnings"] = [text for text in found["warnings"] if " held until " not in text]
    return found


@pytest.fixture(scope="module")
def policy_with_end(sources: Sources) -> Policy:
    return Policy(load(with_end(sources)))


# The last day.


@pytest.mark.parametrize("until", ["2027-03-01", '"2027-03-01"', "'2027-03-01'"])
def test_the_day_named_is_the_last_on_which_the_rule_decides(sources: Sources, until: str) -> None:
    policy = Policy(load(with_end(sources, until)))
    runners = {day: ask(policy, KV, day).runner for day in DAYS}
    assert runners == {day: "v1" if day <= UNTIL else "v2" for day in DAYS}


def test_a_reason_has_the_last_day_of_its_rule(policy_with_end: Policy, policy: Policy) -> None:
    [reason] = ask(policy_with_end, KV, UNTIL).reasons
    assert (reason.owner, reason.review_by, reason.until) == ("inference-platform", UNTIL, UNTIL)
    assert '"review_by":"2027-03-01","until":"2027-03-01"}' in encode(reason).decode()
    [reason] = ask(policy, KV, UNTIL).reasons
    assert (reason.until, "until" in json.loads(encode(reason))) == (UNSET, False)


def test_an_end_is_announced_for_thirty_days_and_reported_afterwards(policy_with_end: Policy) -> None:
    warnings = {day: ask(policy_with_end, KV, day).warnings for day in DAYS}
    quiet, soon, over = DAYS[:2], DAYS[2:5], DAYS[5:]
    expected = [(quiet, []), (soon, [SOON]), (over, [ENDED])]
    assert warnings == {day: texts for days, texts in expected for day in days}


def test_a_review_is_overdue_only_while_the_rule_holds(sources: Sources) -> None:
    policy = Policy(load(with_end(sources, review_by="2027-02-27")))
    overdue = f"the house rule `{RULE}` was due for review by 2027-02-27; its owner is inference-platform"
    assert [ask(policy, KV, day).warnings for day in (BEFORE, UNTIL, AFTER)] == [
        [overdue, SOON],
        [overdue, SOON],
        [ENDED],
    ]
    [rule] = [rule for rule in policy.catalogue.rules if rule.id == RULE]
    assert [rule.is_overdue(day) for day in (UNTIL, AFTER)] == [True, False]


def test_only_deployments_that_the_rule_would_decide_have_a_warning(policy_with_end: Policy) -> None:
    dense = {"model_config": QWEN3}
    assert [ask(policy_with_end, dense, day).warnings for day in DAYS] == [[]] * len(DAYS)
    assert ask(policy_with_end, KV, AFTER, "0.26.0").warnings == []
    assert [ask(policy_with_end, KV, day, layers=["upstream"]).warnings for day in DAYS] == [[]] * len(DAYS)
    malformed = {**KV, "env": {VARIABLE: "maybe"}}
    assert [ask(policy_with_end, malformed, day).warnings for day in DAYS] == [[]] * len(DAYS)


def test_a_rule_that_ends_on_the_last_day_of_the_calendar_never_ends(sources: Sources) -> None:
    policy = Policy(load(with_end(sources, "9999-12-31")))
    assert (ask(policy, KV, date.max).runner, policy.catalogue.days_after_ends()) == ("v1", [])


def test_a_rule_may_end_on_the_first_day_of_the_calendar(sources: Sources) -> None:
    policy = Policy(load(with_end(sources, "0001-01-01", review_by="0001-01-01")))
    assert [ask(policy, KV, day).runner for day in (date.min, UNTIL)] == ["v1", "v2"]


# Decisions after the end.


HOUSE = {
    "house-force": house("house-force", "force-v2", {"lora_config": "present"}),
    "house-rocm": house("house-rocm", "fallback-v1", {"platform.is_rocm": True}),
    "house-advice": house("house-advice", "advise", decided_by=["house-force", "house-rocm"], unless="exclude-v1"),
    "house-always": house("house-always", "advise", runner="v2"),
    "house-earlier": house(
        "house-earlier", "fallback-v1", {"model_config.is_moe": True}, review_by="2027-01-01"
    ).replace("until: '2027-03-01'", "until: '2027-02-01'"),
    "house-left": house("house-left", "force-v2", {"lora_config": "present"}, until="2030-01-01"),
}


def extended(sources: Sources, day: date | None) -> Policy:
    """The shipped rules and more house rules; with a day, without those that have ended by then."""
    texts = overlay(with_end(sources).rules, list(HOUSE.values()), [])[0]
    if day is not None:
        ends = {path: read_document(text).get("until") for path, text in texts.items()}
        texts = {path: text for path, text in texts.items() if ends[path] is None or str(ends[path]) >= str(day)}
    return policy_of(tuple(texts.items()))


@cache
def policy_of(texts: tuple[tuple[str, str], ...]) -> Policy:
    return Policy(load(Sources(dict(texts))))


BASES: list[dict[str, Any]] = [{}, {"model_config": QWEN3}, {"model_config": {**QWEN3, "is_moe": True}}, KV]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"lora_config": {}},
    {"platform": {"is_rocm": True}},
    {"platform": {"is_rocm": True}, "lora_config": {}},
    {"parallel_config": {"pipeline_parallel_size": 2}, "lora_config": {}},
]
FACTS = [
    {**base, **more, **({} if value is None else {"env": {VARIABLE: value}})}
    for base in BASES
    for more in VARIANTS
    for value in (None, "0", "1", "x")
]


@pytest.mark.parametrize("day", [date(2027, 2, 1), date(2027, 2, 2), UNTIL, AFTER, date(2030, 1, 2)], ids=str)
@pytest.mark.parametrize(
    "layers", slow_except([["upstream", "house"]], [["upstream", "house"], ["upstream"]]), ids=["both", "upstream"]
)
def test_after_the_end_decisions_are_those_without_the_rule(sources: Sources, day: date, layers: list[str]) -> None:
    policy, expected = extended(sources, None), extended(sources, day)
    for release in ("0.20.0", "0.23.0", "0.24.0", "0.33.0"):
        for facts in FACTS:
            body = json.dumps({"vllm_version": release, "layers": layers, "facts": facts}).encode()
            found, other = (
                each.answer(decode_fast(body, each.releases) or read_request(json.loads(body), each.releases), day)
                for each in (policy, expected)
            )
            assert comparable(found.json) == comparable(other.json), facts


@pytest.mark.parametrize("day", DAYS, ids=str)
def test_the_fast_path_and_the_plain_path_give_the_same_answer_on_every_day(sources: Sources, day: date) -> None:
    policy = extended(sources, None)
    for facts in FACTS * 2:
        request = decode_fast(json.dumps({"vllm_version": "0.23.0", "facts": facts}).encode(), policy.releases)
        assert request
        fast, plain = json.loads(policy.answer(request, day).json), json.loads(encode(policy.decide(request, day)))
        del fast["decision_id"], plain["decision_id"]
        assert fast == plain


def test_decisions_may_be_made_for_days_in_any_order(policy_with_end: Policy) -> None:
    days = [AFTER, UNTIL, date.max, BEFORE, AFTER, date.min, UNTIL] * 3
    assert [ask(policy_with_end, KV, day).runner for day in days] == ["v1" if day <= UNTIL else "v2" for day in days]


def test_the_variable_decides_before_and_after_the_end(policy_with_end: Policy) -> None:
    facts = {**KV, "env": {VARIABLE: "1"}}
    found = [ask(policy_with_end, facts, day) for day in (UNTIL, AFTER)]
    assert [(decision.runner, decision.outcome) for decision in found] == [("v2", "override")] * 2
    others = [decision.without_variable for decision in found]
    assert [None if other is UNSET else other.runner for other in others] == ["v1", "v2"]
    assert [decision.warnings for decision in found] == [[SOON], [ENDED]]


def test_a_deployment_is_decided_without_a_rule_that_has_ended(policy_with_end: Policy) -> None:
    transfer = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})
    deployment = {
        "args": ["--model", "m", "--kv-transfer-config", transfer],
        "model_configs": {"m": QWEN3},
        "env": {VARIABLE: "1"},
    }

    def decided(day: date, *, explain: bool = False) -> Decision:
        request = {"deployment": deployment, "vllm_version": "0.23.0", "explain": explain}
        return policy_with_end.decide(read_request(request, policy_with_end.releases), day)

    for day in (UNTIL, AFTER, UNTIL):
        other = decided(day).without_variable
        assert (None if other is UNSET else other.runner) == ("v1" if day <= UNTIL else "v2")
    explained = decided(AFTER, explain=True)
    assert RULE not in [reason.rule for reason in explained.reasons]


def test_a_rule_that_refers_to_an_ended_rule_no_longer_fires(sources: Sources) -> None:
    advice = house("advice", "advise", decided_by=["wants-v1"], until="2040-01-01", review_by="2040-01-01")
    rules = [house("wants-v1", "fallback-v1", {"model_config": "present"}), advice]
    policy = Policy(load(Sources(overlay(sources.rules, rules, [])[0])))
    found = {
        day: [reason.rule for reason in ask(policy, {"model_config": QWEN3}, day).reasons] for day in (UNTIL, AFTER)
    }
    assert found == {UNTIL: ["wants-v1", "advice"], AFTER: ["v2-by-default"]}


def test_an_ended_advisory_is_reported_only_where_it_would_apply(sources: Sources) -> None:
    rules = [house("on-v1", "advise", runner="v1"), house("on-v2", "advise", runner="v2")]
    policy = Policy(load(Sources(overlay(sources.rules, rules, [])[0])))
    assert ask(policy, {"model_config": QWEN3}, AFTER).warnings == [
        "the house rule `on-v2` held until 2027-03-01, and no longer applies; its owner is tests"
    ]


# Explanations.


def test_the_trace_says_that_a_rule_has_ended(policy_with_end: Policy) -> None:
    def traced(day: date) -> list[RuleTrace]:
        found = ask(policy_with_end, KV, day, explain=True).trace
        assert found
        return [item for item in found if item.rule == RULE]

    assert msgspec.to_builtins([*traced(UNTIL), *traced(AFTER)]) == [
        {"rule": RULE, "layer": "house", "effect": "fallback-v1", "fired": True, "failed": []},
        {
            "rule": RULE,
            "layer": "house",
            "effect": "fallback-v1",
            "fired": False,
            "failed": [{"fact": "until", "expected": "2027-03-01", "actual": "2027-03-02"}],
        },
    ]


def test_after_the_end_an_explanation_is_that_without_the_rule(sources: Sources) -> None:
    policy, expected = extended(sources, None), extended(sources, AFTER)
    for facts in FACTS[::3]:
        found, other = (comparable(encode(ask(each, facts, AFTER, explain=True))) for each in (policy, expected))
        known = {item["rule"] for item in other["trace"]}
        found["trace"] = [item for item in found["trace"] if item["rule"] in known]
        assert found == other


def test_an_ended_rule_of_a_later_release_does_not_change_lifted_in(sources: Sources) -> None:
    rule = house("early", "fallback-v1", {"model_config": "present"}, until="2040-01-01", review_by="2040-01-01")
    ended = house("late", "fallback-v1", {"model_config": "present"})
    rules = [rule.replace(">=0.20", ">=0.20,<0.24"), ended.replace(">=0.20", ">=0.24")]
    policy = Policy(load(Sources(overlay(sources.rules, rules, [])[0])))
    expected = Policy(load(Sources(overlay(sources.rules, rules[:1], [])[0])))
    lifted = [
        [(reason.rule, reason.lifted_in) for reason in ask(each, {"model_config": QWEN3}, AFTER, explain=True).reasons]
        for each in (policy, expected)
    ]
    assert lifted == [[("early", "0.24.0")], [("early", "0.24.0")]]


# Cases and candidates.


def test_cases_pass_on_every_day(sources: Sources) -> None:
    ended = Policy(load(with_end(sources, "2020-01-01", review_by="2020-01-01")))
    results = [each for each in run_cases(read_cases(sources.cases, ended.catalogue), ended) if each.case.rule == RULE]
    assert (len(results) > 3, [each for each in results if not each.passed]) == (True, [])


@pytest.mark.parametrize(("day", "runner"), [(BEFORE, "v1"), (UNTIL, "v1"), (AFTER, "v2")], ids=str)
def test_a_candidate_ends_as_a_loaded_rule_does(sources: Sources, policy: Policy, day: date, runner: str) -> None:
    candidate = with_end(sources).rules[PATH]
    request = {"facts": KV, "vllm_version": "0.23.0"}
    current = policy.decide(read_request(request, policy.releases), day)
    result = run_job(CandidateJob(sources.rules, [candidate], [], request, "0.23.0", day, 10))
    compared = compare(current, result)
    assert (compared.current.runner, compared.candidate.runner) == ("v1", runner)
    changed = next(change for change in compared.changes if getattr(change, "member", "") == "warnings")
    assert changed.to == [SOON if day <= UNTIL else ENDED]


@pytest.mark.parametrize(
    ("day", "since"),
    slow_rows_except(
        [(UNTIL, {date(2027, 3, 2)})],
        [(BEFORE, {date(2027, 3, 2)}), (UNTIL, {date(2027, 3, 2)}), (AFTER, {UNSET})],
    ),
    ids=str,
)
def test_a_dry_run_for_all_deployments_names_the_first_day_of_a_change(
    sources: Sources, day: date, since: set[Any]
) -> None:
    candidate = with_end(sources).rules[PATH]
    request = {"facts": KV, "vllm_version": "0.23.0"}
    result = run_job(CandidateJob(sources.rules, [candidate], [], request, "0.23.0", day, 60, for_all=True))
    assert result.affected
    assert {each.since for each in result.affected} == since
    assert {each.rule for each in result.affected} == {RULE}
