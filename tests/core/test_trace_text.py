"""The text of an explained decision: which rules nearly fired, and why not, in the words of the rules."""

from __future__ import annotations

import sys
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from tables import table

from policy.decision.decision import FailedCondition, RuleTrace
from policy.decision.trace_text import failed_text, nearness
from policy.render import as_text, decision
from policy.render_rows import LongTable, table_of
from policy.request.request import read_request

if TYPE_CHECKING:
    from policy.policy import Policy

TODAY = date(2027, 1, 1)
QWEN = {"architectures": ["Qwen3ForCausalLM"]}
TEXTS = "model_config.architectures"
VARIABLE = "env.VLLM_USE_V2_MODEL_RUNNER"


@table(
    ("failed", "text"),
    [
        (("kv_transfer_config", "present", "absent"), "kv_transfer_config is present (it is absent)"),
        (("model_config.is_moe", True, False), "model_config.is_moe is true (it is false)"),
        (
            ("parallel_config.pipeline_parallel_size", {"at_least": 2}, 1),
            "parallel_config.pipeline_parallel_size is at least 2 (it is 1)",
        ),
        ((TEXTS, {"has_none_of": ["A", "B"]}, ["A", "C"]), f"{TEXTS} has none of A, B (it is A, C)"),
        ((TEXTS, {"not": "not_empty"}, ["A"]), f"{TEXTS} is empty (it is A)"),
        ((TEXTS, {"not": {"has_other_than": ["A"]}}, ["B"]), f"{TEXTS} has nothing other than A (it is B)"),
        ((TEXTS, "not_empty", []), f"{TEXTS} is not empty (it is empty)"),
        (("speculative_config.method", {"is_not": "mtp"}, "mtp"), "speculative_config.method is not mtp (it is mtp)"),
        ((VARIABLE, "malformed", None), f"{VARIABLE} is not an integer (it is not set)"),
        ((TEXTS, {"has_any_of": ["A"]}, ["\x1b[2J"]), f"{TEXTS} has A (it is \\x1b[2J)"),
        # fields of a rule that refer to others
        (("requires_any", ["exclude-v2"], []), "exclude-v2 applies (it does not)"),
        (("requires_any", ["exclude-v2", "x"], []), "exclude-v2 or x applies (none does)"),
        (("unless", ["exclude-v1", "x"], ["x"]), "exclude-v1 and x do not apply (x does)"),
        (("decided_by", "default-v2", "not-default"), "default-v2 decides (not-default does)"),
        (("decided_by", ["a", "b"], "c"), "a or b decides (c does)"),
        (("runner", "v2", "v1"), "the runner is v2 (it is v1)"),
        (("runner", ["v1", "v2"], None), "the runner is v1 or v2 (it is not chosen)"),
        (("until", "2027-03-01", "2027-03-02"), "the rule holds until 2027-03-01 (it is 2027-03-02)"),
    ],
)
def test_a_failed_condition_is_described_in_words(failed: tuple[str, Any, Any], text: str) -> None:
    assert failed_text(RuleTrace("x", "upstream", "advise", fired=False, failed=[FailedCondition(*failed)])) == text


def test_a_rule_that_has_ended_is_listed_after_those_that_nearly_fired() -> None:
    ended, set_aside, other = (
        RuleTrace("x", "house", "advise", fired=False, failed=[FailedCondition(*failed)])
        for failed in (
            ("until", "2027-03-01", "2027-03-02"),
            ("runner", "v2", "v1"),
            ("model_config.is_moe", True, False),
        )
    )
    assert nearness(set_aside) < nearness(other) <= nearness(ended)


@table("release", ["0.20.0", "0.23.0", "0.28.0", "0.33.0"])
@table(
    "facts",
    [
        {"model_config": QWEN},
        {"model_config": QWEN, "kv_transfer_config": {}, "parallel_config": {"pipeline_parallel_size": 2}},
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "x"}},
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "speculative_config": {"method": "dspark"}},
    ],
)
def test_rules_that_nearly_fired_come_first_and_no_json_is_shown(
    policy: Policy, facts: dict[str, Any], release: str
) -> None:
    request = read_request({"facts": facts, "vllm_version": release, "explain": True}, policy.releases)
    answer = policy.decide(request, TODAY)
    lines = as_text(decision(answer)).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("rule  ") and "does not hold" in line)
    traced = {item.rule: item for item in answer.trace or []}
    shown = [traced[line.split()[0]] for line in lines[start:] if line.split()[:1] and line.split()[0] in traced]
    assert sorted(item.rule for item in shown) == sorted(traced)
    assert all(nearness(one) <= nearness(other) for one, other in pairwise(shown))
    texts = [failed_text(item) for item in shown]
    assert [text for text in texts if any(word in text for word in ("[", "{", "null", "requires_any", "_by"))] == []
    assert [bool(text) for text in texts] == [not item.fired for item in shown]


def test_marks_are_explained(policy: Policy) -> None:
    request = read_request({"facts": {"model_config": QWEN}, "explain": True}, policy.releases)
    text = as_text(decision(policy.decide(request, TODAY)))
    assert "\n* decided\n" in text
    assert "\norder: rules that fired; " in text


WORDS: Final = st.text(st.sampled_from("ab-,.é漢 "), min_size=1, max_size=60).map(str.strip).filter(bool)
ROWS: Final = st.lists(st.tuples(WORDS, WORDS, st.lists(WORDS, min_size=1, max_size=6).map(" ".join)), max_size=6)


@given(rows=ROWS)
def test_a_long_table_looks_as_a_table_of_rich_whose_first_columns_do_not_wrap(rows: list[tuple[str, ...]]) -> None:
    header = ("rule", "effect", "first condition that does not hold")
    other = table_of(*header)
    for column in other.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        other.add_row(*map(Text, row))
    assert as_text(LongTable(header, rows)) == as_text(other)


def calls_of(rows: int) -> int:
    """The calls of functions that the text of a trace with so many rules takes."""
    item = RuleTrace("x" * 20, "upstream", "advise", fired=False, failed=[FailedCondition("runner", "v2", "v1")])
    table = LongTable(("rule", "fails"), [(item.rule, failed_text(item)) for _ in range(rows)])
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    as_text(table)
    sys.setprofile(counted)
    try:
        as_text(table)
    finally:
        sys.setprofile(None)
    return count


def test_each_rule_of_a_trace_costs_the_same_few_calls() -> None:
    some, twice, more = map(calls_of, (50, 100, 200))
    assert more - twice < 2.2 * (twice - some)
    assert more - twice < 100 * 200
