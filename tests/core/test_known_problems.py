"""Known problems in decisions, the other runner, and house rules that name a problem."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from ruletexts import read_document, rule_text
from tables import table

from policy.checks.comparison import MemberChange, compare
from policy.decision.decision import ID_END, encode
from policy.fastpath.request_decoder import decode_fast
from policy.policy import Policy
from policy.render import as_text
from policy.render import decision as rendered
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.vllm.verify.evidence import unproved
from service.admission.engines import AdmissionOptions
from service.admission.messages import EngineDecision, warnings_of

if TYPE_CHECKING:
    from pathlib import Path

    from policy.decision.decision import Decision
    from policy.rules.rule import Rule

TODAY = date(2026, 1, 1)
QWEN3 = {"architectures": ["Qwen3ForCausalLM"]}
MOE = {"lora_config": {}, "model_config": {**QWEN3, "is_moe": True}}
LORA = {"lora_config": {}, "model_config": QWEN3}
OPTIONS = AdmissionOptions(deny=False, fail="open", set_env="off")
NAME = "VLLM_USE_V2_MODEL_RUNNER"
HOUSE = {"owner": "team", "review_by": "2030-01-01", "blocked_by": "nothing"}


def problem(name: str, symptom: str, certainty: str, runner: str | None, fact: str, **members: Any) -> str:
    """A known problem of deployments that have an object."""
    bites = {"runner": runner} if runner else {}
    more = {"symptom": symptom, "certainty": certainty, **bites, **members}
    return rule_text(name, "known-problem", {fact: "present"}, f"{name} happens", ">=0.20,<99.0", **more)


PROBLEMS = [
    problem("slow-v2", "slow", "code", "v2", "lora_config", evidence=[{"file": "vllm/envs.py", "has": "x"}]),
    problem("crash-v2", "crash", "reported", "v2", "lora_config", remedy="do without", fixed_in="99.0.0"),
    problem("sure-crash-v2", "crash", "confirmed", "v2", "speculative_config"),
    problem("crash-v1", "crash", "reported", "v1", "speculative_config"),
    problem("ignored", "ignored", "reproduced", None, "lora_config"),
]
LEAVES_V2 = rule_text(
    "leaves-v2",
    "fallback-v1",
    releases=[
        {"vllm": ">=0.22,<0.24", "message": "it leaves V2", "known_problem": "crash-v2"},
        {
            "vllm": ">=0.24",
            "message": "it leaves V2",
            "known_problem": "crash-v2",
            "when": {"model_config.is_moe": True},
        },
    ],
    **HOUSE,
)
LEAVES_V1 = rule_text(
    "leaves-v1", "force-v2", known_problem="crash-v1", releases=[{"vllm": ">=0.20", "message": "it leaves V1"}], **HOUSE
)


def with_rules(sources: Sources, *rules: str) -> Policy:
    return Policy(load(with_texts(sources, *rules)), compile_all=False)


def with_texts(sources: Sources, *rules: str) -> Sources:
    """The sources with these rules, in the layer that fits their fields."""
    documents = [(read_document(text), text) for text in rules]
    added = {f"{'house' if 'owner' in each else 'upstream'}/{each['id']}.yaml": text for each, text in documents}
    return Sources({**sources.rules, **added})


@pytest.fixture(scope="module")
def policy(sources: Sources) -> Policy:
    """The shipped rules, with known problems of this module."""
    return with_rules(sources, *PROBLEMS)


@pytest.fixture(scope="module")
def leaving(sources: Sources) -> Policy:
    """The same with house rules that name a problem."""
    return with_rules(sources, *PROBLEMS, LEAVES_V2, LEAVES_V1)


def decided(policy: Policy, facts: dict[str, Any], version: str = "0.23.0", **members: Any) -> Decision:
    return policy.decide(read_request({"facts": facts, "vllm_version": version, **members}, policy.releases), TODAY)


def with_variable(facts: dict[str, Any], value: str | None) -> dict[str, Any]:
    return facts if value is None else {**facts, "env": {NAME: value}}


def warning(runner: str, names: str, chooser: str = f"`{NAME}`") -> str:
    other = {"V1": "V2", "V2": "V1"}[runner]
    return f"{chooser} chooses {runner}, of which worse problems are known than of {other}: {names}"


V2_PROBLEMS = ["crash-v2", "ignored", "slow-v2"]
SPECULATIVE = {"model_config": QWEN3, "speculative_config": {"method": "eagle"}}


@table(
    ("facts", "version", "variable", "runner", "problems", "other", "warnings"),
    [
        ({"model_config": QWEN3}, "0.23.0", None, "v2", [], [], []),
        (LORA, "0.23.0", None, "v2", V2_PROBLEMS, ["ignored"], []),
        (LORA, "0.23.0", "1", "v2", V2_PROBLEMS, ["ignored"], [warning("V2", "`crash-v2` (crash), `slow-v2` (slow)")]),
        (LORA, "0.23.0", "0", "v1", ["ignored"], V2_PROBLEMS, []),
        (MOE, "0.23.0", None, "v1", ["ignored"], V2_PROBLEMS, []),
        # Both runners have a crash: the more certain one is the worse.
        (SPECULATIVE, "0.23.0", "1", "v2", ["sure-crash-v2"], ["crash-v1"], [warning("V2", "`sure-crash-v2` (crash)")]),
        (SPECULATIVE, "0.23.0", "0", "v1", ["crash-v1"], ["sure-crash-v2"], []),
        # The opt-in of 0.20 and 0.21, where V1 is the default.
        (LORA, "0.20.0", "1", "v2", V2_PROBLEMS, ["ignored"], [warning("V2", "`crash-v2` (crash), `slow-v2` (slow)")]),
        (LORA, "0.20.0", None, "v1", ["ignored"], V2_PROBLEMS, []),
        # There is no other runner.
        (LORA, "0.10.0", None, "v1", [], None, []),
        (LORA, "0.23.0", "x", None, [], None, []),
        ({**LORA, "omni": True}, "0.23.0", None, None, [], None, []),
    ],
)
def test_a_decision_has_the_known_problems_of_its_runner_the_worst_first(
    policy: Policy,
    facts: dict[str, Any],
    version: str,
    variable: str | None,
    runner: str | None,
    problems: list[str],
    other: list[str] | None,
    warnings: list[str],
) -> None:
    decision = decided(policy, with_variable(facts, variable), version, explain=True)
    alternative = decision.alternative
    found = [each.rule for each in alternative.known_problems] if isinstance(alternative, msgspec.Struct) else None
    assert (decision.runner, [each.rule for each in decision.known_problems], found) == (runner, problems, other)
    own = [text for text in decision.warnings if "worse problems" in text]
    assert own == warnings
    assert {reason.rule for reason in decision.reasons}.isdisjoint(problems)
    if runner is not None:
        assert_fast_answer(policy, with_variable(facts, variable), version)


def test_a_known_problem_and_the_other_runner_have_these_members(policy: Policy) -> None:
    found = json.loads(encode(decided(policy, {**LORA, "parallel_config": {"enable_dbo": True}}, explain=True)))
    ignored = {
        "rule": "ignored",
        "runner": None,
        "symptom": "ignored",
        "certainty": "reproduced",
        "message": "ignored happens",
        "remedy": None,
        "fixed_in": None,
        "references": ["https://example.org"],
    }
    assert (found["runner"], found["known_problems"]) == ("v1", [ignored])
    assert found["alternative"].pop("known_problems")[:2] == [
        {
            "rule": "crash-v2",
            "runner": "v2",
            "symptom": "crash",
            "certainty": "reported",
            "message": "crash-v2 happens",
            "remedy": "do without",
            "fixed_in": "99.0.0",
            "references": ["https://example.org"],
        },
        ignored,
    ]
    (feature,) = found["unsupported_features"]
    assert found["alternative"] == {
        "runner": "v2",
        "starts": False,
        "startup_errors": [f"Model Runner V2 does not yet support: {feature}"],
        "unsupported_features": [feature],
    }
    assert "alternative" not in json.loads(encode(decided(policy, LORA)))


def test_the_other_runner_is_that_of_the_deployment_with_the_variable(policy: Policy) -> None:
    deployment = {"args": ["--model", "m", "--enable-lora"], "env": {NAME: "1"}, "model_configs": {"m": QWEN3}}
    request = {"deployment": deployment, "vllm_version": "0.23.0", "explain": True}
    found = json.loads(policy.answer(read_request(request, policy.releases), TODAY).json)
    assert found["alternative"] == {
        "runner": "v1",
        "starts": True,
        "startup_errors": [],
        "unsupported_features": [],
        "known_problems": found["known_problems"][1:2],
    }


@table(
    ("facts", "version", "variable", "runner", "fired", "warnings"),
    [
        (LORA, "0.23.0", None, "v1", ["leaves-v2"], []),
        (LORA, "0.24.0", None, "v2", [], []),
        ({"model_config": QWEN3}, "0.23.0", None, "v2", [], []),
        # It is V1 anyway, so there is nothing to leave.
        ({**LORA, "platform": {"has_triton": False}}, "0.23.0", None, "v1", [], []),
        (LORA, "0.23.0", "0", "v1", [], []),
        (LORA, "0.23.0", "1", "v2", ["leaves-v2"], [warning("V2", "`crash-v2` (crash), `slow-v2` (slow)")]),
        ({**SPECULATIVE, "platform": {"has_triton": False}}, "0.23.0", "0", "v1", ["leaves-v1"], []),
        # It leaves V1 for a runner of which worse is known.
        (
            {"model_config": {}, "speculative_config": {"method": "eagle"}},
            "0.23.0",
            None,
            "v2",
            ["leaves-v1"],
            [warning("V2", "`sure-crash-v2` (crash)", "a house rule")],
        ),
    ],
)
def test_a_house_rule_holds_if_its_problem_does_for_the_runner_that_would_be_decided(
    leaving: Policy,
    facts: dict[str, Any],
    version: str,
    variable: str | None,
    runner: str,
    fired: list[str],
    warnings: list[str],
) -> None:
    facts = with_variable(facts, variable)
    decision = decided(leaving, facts, version, explain=True)
    reasons = [reason.rule for reason in decision.reasons if reason.rule.startswith("leaves")]
    own = [text for text in decision.warnings if "worse problems" in text]
    assert (decision.runner, reasons, own) == (runner, fired, warnings)
    assert decision.trace
    traced = [item.rule for item in decision.trace if item.fired and item.rule.startswith("leaves")]
    assert traced == fired
    assert_fast_answer(leaving, facts, version)


def assert_fast_answer(policy: Policy, facts: dict[str, Any], version: str) -> None:
    """Check that the fast path encodes the decision, and that it is the decision of the plain path."""
    request = decode_fast(json.dumps({"vllm_version": version, "facts": facts}).encode(), policy.releases)
    assert request
    found = policy.answer(request, TODAY)
    assert found.decision is None, "assembled in full"
    assert found.json[ID_END:] == encode(decided(policy, facts, version))[ID_END:]


def test_the_trace_says_that_the_problem_is_of_the_other_runner(leaving: Policy) -> None:
    decision = decided(leaving, {**LORA, "platform": {"has_triton": False}}, explain=True)
    assert decision.trace
    (found,) = (item.failed for item in decision.trace if item.rule == "leaves-v2")
    assert msgspec.to_builtins(found) == [{"fact": "known_problem", "expected": "v2", "actual": "v1"}]


def test_a_comparison_names_the_rules_of_known_problems(policy: Policy) -> None:
    current = decided(policy, {"model_config": QWEN3}, explain=True)
    found = compare(current, _Result(decided(policy, LORA, explain=True)))  # type: ignore[arg-type]  # as a result of the sandbox
    assert found.changes == [MemberChange("known_problems", [], V2_PROBLEMS, V2_PROBLEMS)]


class _Result:
    """What a comparison reads of the result of a dry run."""

    faults = request_faults = ()
    failed = affected = cases = None
    rules: tuple[str, ...] = ()

    def __init__(self, decision: Decision) -> None:
        self.decision = decision


def test_people_read_them_in_a_text_and_in_a_warning_of_kubernetes(policy: Policy) -> None:
    decision = decided(policy, with_variable(LORA, "0"), explain=True)
    lines = as_text(rendered(decision)).splitlines()
    start = lines.index("the alternative: V2, starts, 3 known problems")
    assert "known problem (ignored; ignored, reproduced): ignored happens" in lines[:start]
    assert lines[start + 1 : start + 3] == [
        "  known problem (crash-v2; crash, reported, fixed in 99.0.0): crash-v2 happens",
        "  remedy (crash-v2): do without",
    ]
    engine = EngineDecision(_Engine(), decided(policy, LORA))  # type: ignore[arg-type]  # what messages read of an engine
    assert list(warnings_of(engine, OPTIONS)) == [
        (5, "spec: known problem of vLLM 0.23.0 (crash, reported): crash-v2 happens")
    ]


class _Engine:
    path = "spec"
    nodes = ()


RANGED = problem(
    "ranged",
    "crash",
    "code",
    "v2",
    "lora_config",
    releases=[
        {
            "vllm": ">=0.22,<0.24",
            "text": "it crashes",
            "when": "always",
            "evidence": [
                {"file": "vllm/a.py", "has": "def crash(self):\n  pass"},
                {"file": "vllm/a.py", "lacks": "caught"},
            ],
        }
    ],
)


@pytest.fixture(scope="module")
def ranged(sources: Sources) -> Rule:
    """A rule whose range has evidence."""
    rule = load(with_texts(sources, RANGED)).rule("ranged")
    assert rule is not None
    return rule


CRASH = "def  crash(self):\n\n    pass"
FAILS = "ranged: `>=0.22,<0.24` has 0.23.0, but this does not hold there: vllm/a.py"
HOLDS_ELSEWHERE = "ranged: no range has {}, but all lines of evidence hold there"


@pytest.mark.parametrize(
    ("text", "release", "sentences"),
    [
        (CRASH, "0.22.1", []),
        (CRASH, "0.24.0", [HOLDS_ELSEWHERE.format("0.24.0")]),
        (CRASH, "0.21.0", [HOLDS_ELSEWHERE.format("0.21.0")]),
        ("def fine(self): pass", "0.24.0", []),
        (f"{CRASH}  # caught", "0.24.0", []),
        (None, "0.24.0", []),
        (
            f"{CRASH}  # caught",
            "0.23.0",
            [FAILS + " lacks `caught`"],
        ),
        (
            None,
            "0.23.0",
            [
                FAILS + r" has `def crash(self):\n  pass`",
                FAILS + " lacks `caught`",
            ],
        ),
    ],
)
def test_evidence_holds_in_the_releases_of_the_range_and_in_no_other(
    ranged: Rule, tmp_path: Path, text: str | None, release: str, sentences: list[str]
) -> None:
    (tmp_path / "vllm").mkdir()
    if text is not None:
        (tmp_path / "vllm" / "a.py").write_text(text)
    assert list(unproved([ranged], release, tmp_path)) == sentences
