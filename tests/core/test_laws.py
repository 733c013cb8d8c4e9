"""Laws that hold for every deployment: the engine against the reference, and decisions against each other."""

from __future__ import annotations

import json
from datetime import date
from functools import reduce
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import UNSET
from msgspec.structs import replace
from packaging.version import Version
from reference import Deployment, MalformedVariable, Reference, as_reference
from representatives import slow_except

from policy.decision.decision import WithoutVariable, encode
from policy.decision.evaluation import Evaluation, evaluate, evaluate_with
from policy.decision.ruleset import Ruleset
from policy.decision.trace import failures
from policy.errors import RulesInvalid
from policy.facts.facts import defaults, read_facts, to_json
from policy.facts.vocabulary import FACTS, VARIABLE, VARIABLE_INDEX, VOCABULARY, Fact, FactKind, Malformed
from policy.fastpath.request_decoder import decode_fast
from policy.policy import Policy
from policy.remedies.changes import GIVEN_PREFIXES
from policy.request.request import Request, read_request
from policy.rules.catalogue import load
from policy.rules.conditions import MAX_WAYS
from policy.rules.json_schema import facts_schema
from policy.rules.loader import Sources, read_folder
from policy.rules.operators import OPERATORS, operators_for
from policy.rules.releases import UnknownRelease, is_untagged, series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.decision.decision import Decision
    from policy.decision.remedies import Remedy
    from policy.errors import RequestFault

law = settings(derandomize=True, database=None)
TODAY = date(2026, 1, 1)
UPSTREAM, BOTH = ["upstream"], ["upstream", "house"]

# Rules that contradict upstream, each other and the variable, or show values that occur only with a set variable.
EXTRA_RULES = {
    "upstream/more-stages.yaml": """
id: more-stages
title: Stages where the variable is set
effect: exclude-v2
order: 5000
why: It shows a value that occurs only with a set variable.
references: [https://example.org]
releases:
  - vllm: ">=0.20"
    feature: "{parallel_config.pipeline_parallel_size} stages"
    when: {env.VLLM_USE_V2_MODEL_RUNNER: present, parallel_config.pipeline_parallel_size: {at_least: 2}}
""",
    "upstream/more-microbatches.yaml": """
id: more-microbatches
title: Microbatches with a true variable
effect: refuse-v2
order: 5000
why: It shows a value that occurs only with a set variable.
references: [https://example.org]
releases:
  - vllm: ">=0.20"
    text: "{parallel_config.ubatch_size} microbatches of {model_config.architectures}"
    when: {env.VLLM_USE_V2_MODEL_RUNNER: true, parallel_config.ubatch_size: {at_least: 1}}
""",
    "house/house-rocm-v1.yaml": """
id: house-rocm-v1
title: ROCm stays on V1
effect: fallback-v1
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: It contradicts upstream.
references: [https://example.org]
releases:
  - {vllm: ">=0.20", message: "ROCm ({platform.is_rocm}) stays on V1", when: {platform.is_rocm: true}}
""",
    "house/house-lora-v2.yaml": """
id: house-lora-v2
title: LoRA goes to V2
effect: force-v2
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: It contradicts upstream.
references: [https://example.org]
releases:
  - {vllm: ">=0.20", message: LoRA goes to V2, when: {lora_config: present}}
""",
    "house/house-sizes-v2.yaml": """
id: house-sizes-v2
title: Large deployments go to V2
effect: force-v2
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: It contradicts upstream.
references: [https://example.org]
releases:
  - {vllm: ">=0.20", message: "{parallel_config.pipeline_parallel_size} stages go to V2", \
when: {parallel_config.pipeline_parallel_size: {at_least: 2}}}
""",
    "house/house-advice.yaml": """
id: house-advice
title: Advice after a decision of a house rule
effect: advise
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: A house advisory depends on house rules.
references: [https://example.org]
decided_by: [house-rocm-v1, house-lora-v2]
unless: exclude-v1
when: always
releases:
  - {vllm: ">=0.20", text: "the house decided for {model_config.architectures}; upstream lists {unsupported_features}"}
""",
    **{
        f"{layer}/{name}.yaml": f"""
id: {name}
title: A problem
effect: known-problem
symptom: {symptom}
certainty: {certainty}
{extra}
why: It is one of several.
references: [https://example.org]
releases:
  - {{vllm: ">=0.20", text: "{name} with {{model_config.architectures}}", when: {when}}}
"""
        for layer, name, symptom, certainty, extra, when in (
            ("upstream", "slow-lora-v1", "slow", "confirmed", "runner: v1", "{lora_config: present}"),
            ("upstream", "lora-crash-v2", "crash", "reported", "runner: v2", "{lora_config: present}"),
            ("upstream", "crash-v1", "crash", "reproduced", "runner: v1", "{model_config.is_moe: true}"),
            (
                "upstream",
                "stages-crash-v1",
                "crash",
                "reported",
                "runner: v1",
                "{parallel_config.pipeline_parallel_size: \
{at_least: 2}}",
            ),
            ("upstream", "any-runner", "wrong-output", "confirmed", "", "{model_config.is_hybrid: true}"),
            (
                "house",
                "house-problem-v2",
                "ignored",
                "confirmed",
                "runner: v2\nowner: a\nreview_by: 2040-01-01\n\
blocked_by: b",
                "always",
            ),
        )
    },
    "house/house-leaves-v1.yaml": """
id: house-leaves-v1
title: V2 instead of a problem of V1
effect: force-v2
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: It depends on the runner that all other rules choose.
references: [https://example.org]
known_problem: crash-v1
releases:
  - {vllm: ">=0.21", message: MoE leaves V1}
""",
    "house/house-leaves-v2.yaml": """
id: house-leaves-v2
title: V1 instead of a problem of V2
effect: fallback-v1
owner: tests
review_by: 2040-01-01
blocked_by: nothing
why: It depends on the runner that all other rules choose.
references: [https://example.org]
releases:
  - {vllm: ">=0.21", message: graphs leave V2, known_problem: v2-graph-memory, when: {model_config.use_mla: true}}
""",
}
ROOT = Path(__file__).resolve().parent.parent.parent
TEXTS = {**read_folder(ROOT / "rules").rules, **EXTRA_RULES}
REFERENCE = Reference(TEXTS)
RELEASES = REFERENCE.distinct()
MENTIONED = REFERENCE.mentioned()
ODD_VARIABLES = [
    "0",
    "1",
    "2",
    "-1",
    " 1 ",
    "00",
    "01",
    "+1",
    "1_0",
    "\n0\t",
    "１",
    "",
    " ",
    "true",
    "True",
    "yes",
    "1.0",
    "0x1",
    "1e3",
    "--1",
    "_1",
    "9" * 5000,
]
IGNORED = {"kv_connector_extra_config": {"key": [1, None]}, "zzz": "?"}


@pytest.fixture(scope="session")
def extended() -> Policy:
    """The shipped rules, and others that often contradict them."""
    return Policy(load(Sources(TEXTS)))


def samples(fact: Fact) -> list[Any]:
    """Legal values, including those in rules."""
    words = [value for value in MENTIONED.get(fact.name, []) if isinstance(value, str)]
    match fact.kind:
        case FactKind.PRESENCE:
            legal: list[Any] = [{}, {}, IGNORED, None]
        case FactKind.VARIABLE:
            legal = ["0", "1", True, False, None, *ODD_VARIABLES]
        case FactKind.BOOLEAN:
            legal = [True, False]
        case FactKind.INTEGER:
            legal = [fact.least, fact.least + 1, 2, 3, 2**31 - 1]
        case FactKind.SHARE:
            legal = [0.5, 0.9, 0.901, 0.95, 1, None]
        case FactKind.CHOICE:
            legal = list(fact.choices)
        case FactKind.TEXT:
            legal = [*words, "", "ray", "NixlConnector"]
        case FactKind.TEXTS:
            legal = [
                [],
                ["other"],
                *([word] for word in words),
                *([word, "other"] for word in words),
                *(["other", word] for word in words),
            ]
        case FactKind.LIST:
            legal = [[], [1], [None], ["a.b:C"], [[1, 2, 3]]]
    return [*legal, None] if fact.nullable else legal


SAMPLES = {fact.name: samples(fact) for fact in VOCABULARY}
NAMES = sorted(SAMPLES, key=lambda name: (name.count("."), name))
VALUES: dict[str, st.SearchStrategy[Any]] = {name: st.sampled_from(legal) for name, legal in SAMPLES.items()} | {
    VARIABLE: st.sampled_from(SAMPLES[VARIABLE]) | st.text(st.characters(exclude_characters="\0"), max_size=8),
    "kv_transfer_config.kv_connector": st.none() | st.text(max_size=8),
}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Facts as a request nests them; below an absent object there are none."""
    document: dict[str, Any] = {"model_config": {}} if draw(st.integers(0, 9)) else {}
    for name in NAMES:
        if draw(st.integers(0, 7)) == 7:
            put(document, name.split("."), draw(VALUES[name]))
    return document


def random_facts(seed: int | str) -> dict[str, Any]:
    """Facts from a plain random generator, which repeats values less often than Hypothesis."""
    random = Random(seed)
    document: dict[str, Any] = {"model_config": {}} if random.random() < 0.9 else {}
    density = random.choice([0.05, 0.1, 0.2, 0.4])
    for name in NAMES:
        if random.random() < density:
            put(document, name.split("."), random.choice(SAMPLES[name]))
    return document


def put(document: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a field, unless its parent is not an object; an object that exists stays."""
    for part in path[:-1]:
        found = document.setdefault(part, {})
        if not isinstance(found, dict):
            return
        document = found
    if isinstance(value, dict):
        document.setdefault(path[-1], dict(value))
    else:
        document[path[-1]] = value


def request_for(
    policy: Policy, release: str, facts: dict[str, Any], layers: list[str], *, explain: bool = False
) -> Request:
    return read_request(
        {"vllm_version": release, "facts": facts, "layers": layers, "explain": explain}, policy.releases
    )


def decided(
    policy: Policy, release: str, facts: dict[str, Any], layers: list[str], *, explain: bool = False
) -> Decision:
    return policy.decide(request_for(policy, release, facts, layers, explain=explain), TODAY)


def answer(decision: Decision) -> dict[str, Any]:
    """A decision without its id."""
    found: dict[str, Any] = json.loads(
        json.dumps({name: getattr(decision, name) for name in decision.__struct_fields__}, default=repr)
    )
    del found["decision_id"]
    return found


def fired_rules(policy: Policy, release: str, facts: dict[str, Any]) -> set[int]:
    """The indexes of the rules that the engine fired, and of those that it does not evaluate."""
    ruleset = policy.ruleset(release)
    request = request_for(policy, release, facts, BOTH)
    fired = [n for n in ruleset.fired(request.facts) if n >= 0]
    assert fired == sorted(set(fired))
    return {*fired, *ruleset.definition.always}


any_facts = documents() | st.integers(0, 2**63).map(random_facts)
deployments = given(facts=any_facts, release=st.sampled_from(RELEASES))
deployments_of_layers = given(
    facts=any_facts, release=st.sampled_from(RELEASES), layers=st.sampled_from([UPSTREAM, BOTH])
)


@law
@given(facts=any_facts)
def test_the_engine_fires_the_rules_of_the_reference_in_the_same_order(extended: Policy, facts: dict[str, Any]) -> None:
    for release in RELEASES:
        rules = extended.ruleset(release).rules
        fired = [rules[n].rule.id for n in sorted(fired_rules(extended, release, facts))]
        assert (release, fired) == (release, REFERENCE.fired(release, facts, BOTH))


@law
@given(facts=any_facts, layers=st.sampled_from([UPSTREAM, BOTH]))
def test_the_decision_is_that_of_the_reference_in_every_release(
    extended: Policy, facts: dict[str, Any], layers: list[str]
) -> None:
    for release in RELEASES:
        decision = decided(extended, release, facts, layers)
        assert (release, as_reference(decision)) == (release, REFERENCE.decide(release, facts, layers))


@pytest.mark.parametrize("release", slow_except(["0.21.0", "0.24.0", "0.32.0"], RELEASES))
def test_hundreds_of_random_deployments_are_decided_like_the_reference(extended: Policy, release: str) -> None:
    mismatches = []
    for seed in range(400):
        facts, layers = random_facts(f"{release} {seed}"), BOTH if seed % 4 else UPSTREAM
        found, expected = (
            as_reference(decided(extended, release, facts, layers)),
            REFERENCE.decide(release, facts, layers),
        )
        if found != expected:
            mismatches.append((facts, layers, found, expected))
    assert mismatches[:3] == []


@law
@deployments_of_layers
def test_the_rules_that_fired_in_the_trace_are_those_of_the_reasons(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers, explain=True)
    assert decision.trace
    listed = [
        *(reason.rule for reason in decision.reasons),
        *(problem.rule for problem in decision.known_problems),
    ]
    assert sorted(item.rule for item in decision.trace if item.fired) == sorted(listed)


@law
@deployments_of_layers
def test_every_remedy_does_what_it_says(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers, explain=True)
    for remedy in decision.remedies or []:
        document, later = json.loads(json.dumps(facts)), release
        for change in remedy.change:
            if change.field is not UNSET:
                later = change.to
            elif change.to is None or change.fact != VARIABLE:
                drop(document, str(change.fact).split("."))
            else:
                put(document, VARIABLE.split("."), change.to)
        after = decided(extended, later, document, layers)
        assert (after.runner, after.starts) == (remedy.runner, remedy.starts)
        match remedy.purpose:
            case "start":
                assert (decision.starts, after.starts) == (False, True)
            case "v2":
                assert (after.runner, after.starts, decision.runner) == ("v2", True, "v1")
            case problem:
                assert problem in {each.rule for each in decision.known_problems}
                assert problem not in {each.rule for each in after.known_problems}


def drop(document: dict[str, Any], path: list[str]) -> None:
    for part in path[:-1]:
        document = document[part]
    del document[path[-1]]


@law
@deployments
def test_no_single_fact_helps_where_two_changes_are_named(
    extended: Policy, facts: dict[str, Any], release: str
) -> None:
    decision = decided(extended, release, facts, BOTH, explain=True)
    sizes = {remedy.purpose: len(remedy.change) for remedy in decision.remedies or [] if is_of_facts(remedy)}
    for fact in VOCABULARY:
        document = json.loads(json.dumps(facts))
        try:
            drop(document, fact.name.split("."))
        except (KeyError, TypeError):
            continue
        if not fact.name.startswith(GIVEN_PREFIXES) and document != facts:
            after = decided(extended, release, document, BOTH)
            if sizes.get("start", 1) > 1:
                assert not after.starts
            if sizes.get("v2", 1) > 1:
                assert (after.runner, after.starts) != ("v2", True)


def is_of_facts(remedy: Remedy) -> bool:
    return all(change.fact is not UNSET for change in remedy.change)


@law
@deployments_of_layers
def test_the_trace_has_every_rule_of_the_release_and_layers_in_order(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers, explain=True)
    assert decision.trace
    assert [item.rule for item in decision.trace] == [rule.id for rule in REFERENCE.rules(release, layers)]


@law
@deployments_of_layers
def test_a_traced_rule_has_failures_if_and_only_if_it_did_not_fire(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers, explain=True)
    assert decision.trace
    assert [item.rule for item in decision.trace if item.fired == bool(item.failed)] == []


@law
@deployments
def test_a_condition_has_no_failures_if_and_only_if_the_engine_fires_it(
    extended: Policy, facts: dict[str, Any], release: str
) -> None:
    rules = extended.ruleset(release).rules
    row = request_for(extended, release, facts, BOTH).facts.row
    without_failures = {n for n, item in enumerate(rules) if item.when is None or failures(item.when, row) == []}
    assert without_failures == fired_rules(extended, release, facts)


@law
@deployments
def test_with_set_env_vllm_alone_does_as_decided(extended: Policy, facts: dict[str, Any], release: str) -> None:
    decision = decided(extended, release, facts, BOTH)
    env = {**(facts.get("env") or {}), **decision.set_env}
    upstream = decided(extended, release, {**facts, "env": env}, UPSTREAM)
    assert (upstream.runner, upstream.starts, upstream.startup_errors) == (
        decision.runner,
        decision.starts,
        decision.startup_errors,
    )


@law
@deployments
def test_set_env_is_empty_if_and_only_if_vllm_alone_takes_the_decided_runner(
    extended: Policy, facts: dict[str, Any], release: str
) -> None:
    decision = decided(extended, release, facts, BOTH)
    assert (decision.set_env == {}) == (decision.runner == decision.upstream.runner)


@law
@deployments
def test_the_field_upstream_is_the_decision_of_the_upstream_layer_alone(
    extended: Policy, facts: dict[str, Any], release: str
) -> None:
    found = decided(extended, release, facts, BOTH).upstream
    upstream = decided(extended, release, facts, UPSTREAM)
    assert found == upstream.upstream
    assert (found.runner, found.outcome, found.starts, found.startup_errors) == (
        upstream.runner,
        upstream.outcome,
        upstream.starts,
        upstream.startup_errors,
    )


@law
@deployments_of_layers
def test_every_decision_has_a_decisive_reason(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers)
    assert any(reason.decisive for reason in decision.reasons)
    assert (decision.runner is None) == (decision.outcome in {None, "not-applicable"})
    assert decision.starts == (decision.startup_errors == [])


@law
@deployments_of_layers
def test_a_reason_is_lifted_in_the_first_later_release_without_it(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    later = {
        other: {reason.rule for reason in decided(extended, other, facts, layers).reasons}
        for other in RELEASES[RELEASES.index(release) + 1 :]
    }
    for reason in decided(extended, release, facts, layers, explain=True).reasons:
        assert reason.lifted_in == next((other for other, rules in later.items() if reason.rule not in rules), None)


@law
@deployments_of_layers
def test_without_variable_is_the_decision_of_the_same_facts_without_it(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    found = decided(extended, release, facts, layers)
    env = {name: value for name, value in (facts.get("env") or {}).items() if name != VARIABLE.removeprefix("env.")}
    other = decided(extended, release, {**facts, "env": env}, layers)
    expected = WithoutVariable(other.runner, other.outcome, other.starts) if found.outcome == "override" else UNSET
    assert found.without_variable == expected


@law
@deployments
def test_one_run_of_the_engine_tells_the_rules_for_every_value_of_the_variable(
    extended: Policy, facts: dict[str, Any], release: str
) -> None:
    ruleset = extended.ruleset(release)
    found = evaluate(ruleset, request_for(extended, release, facts, BOTH).facts, TODAY, upstream_only=False)
    for text in (None, "0", "1", "x"):
        env = {**(facts.get("env") or {}), VARIABLE.removeprefix("env."): text}
        other = request_for(extended, release, {**facts, "env": env}, BOTH).facts
        expected = evaluate(ruleset, other, TODAY, upstream_only=False)
        changed = evaluate_with(ruleset, found, other.row[VARIABLE_INDEX], TODAY, upstream_only=False)
        assert changed.facts.row == other.row
        assert (text, *rulings_of(changed)) == (text, *rulings_of(expected))


def rulings_of(evaluation: Evaluation) -> tuple[Any, ...]:
    return evaluation.matches, evaluation.ruling, evaluation.upstream, evaluation.final, evaluation.set_to


@law
@given(facts=any_facts, release=st.sampled_from(RELEASES), random=st.randoms(use_true_random=False))
def test_the_order_of_fields_never_changes_a_decision(
    extended: Policy, facts: dict[str, Any], release: str, random: Any
) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}

    assert answer(decided(extended, release, shuffled(facts), BOTH)) == answer(decided(extended, release, facts, BOTH))


@law
@deployments
def test_a_fact_that_the_release_does_not_read_has_no_effect(
    extended: Policy, facts: dict[str, Any], release: str
) -> None:
    read = REFERENCE.read(release)

    def pruned(document: dict[str, Any], path: str) -> dict[str, Any]:
        found = {}
        for key, value in document.items():
            name = f"{path}{key}"
            if name not in FACTS or name in read:
                found[key] = pruned(value, f"{name}.") if isinstance(value, dict) else value
        return found

    assert answer(decided(extended, release, pruned(facts, ""), BOTH)) == answer(
        decided(extended, release, facts, BOTH)
    )


@law
@deployments
def test_stating_a_default_changes_nothing(extended: Policy, facts: dict[str, Any], release: str) -> None:
    stated = json.loads(json.dumps(facts))
    for fact in VOCABULARY:
        parents = [path for path in FACTS if fact.name.startswith(f"{path}.")]
        if fact.kind is not FactKind.PRESENCE and all(
            Deployment(stated, release).value(path) is not None for path in parents
        ):
            parts = fact.name.split(".")
            parent = reduce(lambda document, part: document.setdefault(part, {}), parts[:-1], stated)
            parent.setdefault(parts[-1], fact.default)
    assert answer(decided(extended, release, stated, BOTH)) == answer(decided(extended, release, facts, BOTH))


@law
@deployments
def test_reasons_show_the_facts_as_they_were_sent(extended: Policy, facts: dict[str, Any], release: str) -> None:
    assert_evidence(decided(extended, release, facts, UPSTREAM), release, facts)


def assert_evidence(decision: Decision, release: str, facts: dict[str, Any]) -> None:
    """Check that every reason shows the facts that were sent."""
    deployment = Deployment(facts, release)
    for reason in decision.reasons:
        for name, value in reason.facts.items():
            expected = deployment.value(name)
            if FACTS[name].kind is FactKind.PRESENCE:
                expected = expected is not None
            if isinstance(expected, MalformedVariable):
                expected = facts["env"][name.partition(".")[2]]
            assert (name, value) == (name, expected)


AFTER_ID = len('{"decision_id":"') + 36


@law
@given(seed=st.integers(0, 2**63), release=st.sampled_from(RELEASES), layers=st.sampled_from([UPSTREAM, BOTH]))
def test_a_decision_does_not_depend_on_earlier_requests(
    extended: Policy, seed: int, release: str, layers: list[str]
) -> None:
    facts = random_facts(seed)
    random = Random(seed)
    for _ in range(20):
        name = random.choice([*["parallel_config.pipeline_parallel_size", "parallel_config.ubatch_size"] * 20, *NAMES])
        similar = json.loads(json.dumps(facts))
        put(similar, name.split("."), random.choice(SAMPLES[name]))
        body = json.dumps({"vllm_version": release, "layers": layers, "facts": similar}).encode()
        request = decode_fast(body, extended.releases) or request_for(extended, release, similar, layers)
        decision = extended.decide(request, TODAY)
        assert extended.answer(request, TODAY).json[AFTER_ID:] == encode(decision)[AFTER_ID:]
        assert as_reference(decision) == REFERENCE.decide(release, similar, layers)
        if not decision.set_env:
            assert_evidence(decision, release, similar)


def stated(facts: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The facts with one more."""
    document: dict[str, Any] = json.loads(json.dumps(facts))
    parts = name.split(".")
    parent = document
    for part in parts[:-1]:
        parent[part] = parent.get(part) or {}
        parent = parent[part]
    parent[parts[-1]] = value
    return document


def as_stated(fact: Fact, label: str) -> Any:
    """The value that a label in ``would_change`` denotes, as a request states it."""
    match fact.kind:
        case FactKind.PRESENCE:
            return {}
        case FactKind.BOOLEAN | FactKind.INTEGER:
            return json.loads(label)
        case FactKind.SHARE:
            return json.loads(label)
        case FactKind.CHOICE:
            return None if label == "null" else label
        case _:
            return label


@law
@deployments_of_layers
def test_stating_another_value_changes_the_answer_as_the_assumption_says(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers, explain=True)
    assert decision.assumptions is not None
    for item in decision.assumptions or []:
        fact = FACTS[item.fact]
        if fact.kind in {FactKind.TEXTS, FactKind.LIST}:
            continue
        for label, other in item.would_change.items():
            again = decided(extended, release, stated(facts, item.fact, as_stated(fact, label)), layers)
            assert (item.fact, label, again.runner, again.starts) == (item.fact, label, other.runner, other.starts)


@settings(law, max_examples=min(60, law.max_examples))
@deployments_of_layers
def test_an_assumption_lists_no_value_if_and_only_if_none_changes_the_answer(
    extended: Policy, facts: dict[str, Any], release: str, layers: list[str]
) -> None:
    decision = decided(extended, release, facts, layers, explain=True)
    for item in decision.assumptions or []:
        fact = FACTS[item.fact]
        words = [word for word in MENTIONED.get(fact.name, []) if isinstance(word, str)]
        others: dict[FactKind, list[Any]] = {
            FactKind.PRESENCE: [{}],
            FactKind.VARIABLE: ["0", "1"],
            FactKind.BOOLEAN: [True, False],
            FactKind.INTEGER: [1, 2, 3, 2**31 - 1],
            FactKind.SHARE: [0.5, 0.9, 0.901, 0.95, 1, None],
            FactKind.CHOICE: [*fact.choices, *([None] if fact.nullable else [])],
            FactKind.TEXT: [*words, "something else", None],
            FactKind.TEXTS: [
                [],
                ["something else"],
                *([word] for word in words),
                *([word, "something else"] for word in words),
            ],
            FactKind.LIST: [[], [1]],
        }
        again = [decided(extended, release, stated(facts, item.fact, value), layers) for value in others[fact.kind]]
        changed = any((other.runner, other.starts) != (decision.runner, decision.starts) for other in again)
        assert (item.fact, item.would_change != {}) == (item.fact, changed)


# Conditions that no shipped rule has.

TINY = {
    "releases.yaml": 'known: ["0.21.0", "0.33.0"]\ndefault: "0.33.0"\n',
    "upstream/always.yaml": json.dumps(
        {
            "id": "always",
            "title": "V2",
            "effect": "default-v2",
            "why": "For the test.",
            "references": ["https://example.org"],
            "releases": [{"vllm": ">=0.20", "message": "V2", "when": "always"}],
        }
    ),
}


COMPARED = [fact for fact in VOCABULARY if fact.is_in((0, 21)) and fact.is_in((0, 33))]
"""The facts that a rule of both releases may read."""


@st.composite
def comparisons(draw: st.DrawFn) -> dict[str, Any]:
    """A fact and a comparison on it."""
    fact = draw(st.sampled_from(COMPARED))
    words = operators_for(fact)
    bare = [word for word in words if OPERATORS[word].takes == "nothing"]
    is_bare: bool = bool(bare) and draw(st.booleans())
    if is_bare:
        return {fact.name: draw(st.sampled_from(bare))}
    chosen: list[str] = draw(st.lists(st.sampled_from(words), min_size=1, max_size=2, unique=True))
    return {fact.name: {word: draw(operand_of(fact, OPERATORS[word].takes)) for word in chosen}}


def operand_of(fact: Fact, takes: str) -> st.SearchStrategy[Any]:
    words = st.sampled_from(
        list(fact.choices)
        or ["external_launcher", "ray", "LlamaForCausalLM", "sliding_attention", "null", "1", "OtherForCausalLM"]
    )
    match takes, fact.kind:
        case "nothing", _:
            return st.just(True)
        case "values", _:
            return st.lists(words, min_size=1, max_size=3, unique=True)
        case _, FactKind.BOOLEAN | FactKind.VARIABLE:
            return st.booleans()
        case _, FactKind.INTEGER:
            return st.sampled_from([fact.least, 2, 3, 2**31 - 1])
        case _, FactKind.SHARE:
            return st.sampled_from([0.5, 0.9, 1])
        case _:
            return words


def combined(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    both = st.tuples(comparisons(), inner).map(lambda pair: {**pair[0], **pair[1]})
    return (
        several.map(lambda items: {"all": items})
        | several.map(lambda items: {"any": items})
        | inner.map(lambda item: {"not": item})
        | both
    )


leaf_conditions = comparisons()
conditions = st.recursive(leaf_conditions, combined, max_leaves=5)
named_conditions = st.sampled_from(
    [{"uses": "shared"}, {"not": {"uses": "shared"}}, {"any": [{"uses": "shared"}, {"lora_config": "present"}]}]
)


def rule_text(name: str, condition: dict[str, Any]) -> str:
    part = {"vllm": ">=0.20", "text": "it holds", "when": condition}
    return json.dumps(
        {
            "id": name,
            "title": "It holds",
            "effect": "advise",
            "why": "For the test.",
            "references": ["https://example.org"],
            "releases": [part],
        }
    )


@settings(law, max_examples=min(120, law.max_examples))
@given(
    whens=st.lists(conditions | named_conditions, min_size=1, max_size=4),
    shared=conditions,
    seed=st.integers(0, 2**63),
    release=st.sampled_from(["0.21.0", "0.33.0"]),
)
def test_the_engine_evaluates_any_condition_as_the_reference_does(
    whens: list[dict[str, Any]], shared: dict[str, Any], seed: int, release: str
) -> None:
    texts = TINY | {f"upstream/rule-{n}.yaml": rule_text(f"rule-{n}", condition) for n, condition in enumerate(whens)}
    texts["upstream/conditions/shared.yaml"] = json.dumps(
        {"id": "shared", "why": "It is shared.", "releases": [{"vllm": ">=0.20", "when": shared}]}
    )
    try:
        rules = load(Sources(texts)).rules_of(release)
    except RulesInvalid as error:  # a few have more alternatives than a rule may have
        if not all(f"more than {MAX_WAYS}" in fault.message for fault in error.faults):
            raise
        reject()
    reference = Reference(texts)
    ruleset = Ruleset(rules, series(release))
    try:
        for n in range(10):
            document = random_facts(f"{seed} {n}")
            faults: list[RequestFault] = []
            read = read_facts(document, series(release), "", faults)
            fired = [index for index in ruleset.fired(read) if index >= 0]
            expected = [name for name in reference.fired(release, document, UPSTREAM) if name != "always"]
            assert (document, faults, [rules[index].rule.id for index in fired]) == (document, [], expected)
            for index, item in enumerate(rules):
                if item.when is not None:
                    assert (failures(item.when, read.row) == []) == (index in fired)
    finally:
        ruleset.close()


# Versions.


@st.composite
def versions(draw: st.DrawFn) -> str:
    """PEP 440 versions around the known releases, without those of builds that have no tags."""
    numbers = draw(st.lists(st.integers(0, 3), min_size=0, max_size=2))
    minor = draw(st.integers(1, 36))
    tail = draw(st.sampled_from(["", "rc1", ".dev3", ".post1", "a2", "+cu128", "rc2+local.1", ".post2.dev1"]))
    text = ".".join(map(str, [0, minor, *numbers])) + tail
    if is_untagged(Version(text)):
        reject()
    return draw(st.sampled_from(["", "v"])) + text


def segment_of(version: str) -> Version:
    """The numbers of a version, with those of a post-release."""
    found = Version(version)
    return Version(found.base_version + ("" if found.post is None else f".post{found.post}"))


@law
@given(version=versions())
def test_a_version_is_decided_by_the_newest_patch_release_up_to_it(policy: Policy, version: str) -> None:
    segment = segment_of(version)
    patches = [release for release in REFERENCE.known if Version(release).release[:2] == (segment.major, segment.minor)]
    if not patches:
        with pytest.raises(UnknownRelease):
            policy.releases.resolve(version)
        return
    below = [release for release in patches if Version(release) <= segment]
    found = policy.releases.resolve(version)
    assert (found.decided_as, found.defaulted) == ((below or patches[:1])[-1], False)


@law
@given(version=versions())
def test_a_version_is_verified_if_and_only_if_it_is_the_release_that_decides(policy: Policy, version: str) -> None:
    found = policy.releases.resolve(version, nearest=True)
    assert found.verified == (Version(Version(version).public) == Version(found.decided_as))


@law
@given(version=versions(), other=versions())
def test_a_later_version_is_never_decided_by_an_earlier_release(policy: Policy, version: str, other: str) -> None:
    first, second = sorted([version, other], key=segment_of)
    decided_as = [Version(policy.releases.resolve(text, nearest=True).decided_as) for text in (first, second)]
    assert decided_as == sorted(decided_as)


@law
@given(version=versions(), local=st.sampled_from(["", "+cu128", "+abc.1"]))
def test_only_a_custom_local_part_changes_the_resolution(policy: Policy, version: str, local: str) -> None:
    plain = version.removeprefix("v").partition("+")[0]
    expected = policy.releases.resolve(plain, nearest=True)
    if local == "+abc.1":
        expected = replace(expected, verified=False)
    assert policy.releases.resolve(f"v{plain}{local}", nearest=True) == expected


# Arbitrary JSON.

keys = st.sampled_from(sorted({part for name in VALUES for part in name.split(".")})) | st.text(max_size=6)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=12)
    | st.sampled_from(["dflash", "1", "generate"])
)
junk = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=20
)


@st.composite
def corrupted_facts(draw: st.DrawFn) -> Any:
    """Legal facts, some of them replaced by arbitrary values."""
    document = random_facts(draw(st.integers(0, 2**63)))
    for name in draw(st.lists(st.sampled_from(list(VALUES)), max_size=4)):
        put(document, name.split("."), draw(junk))
    return document


def value_at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer."""
    for part in pointer.split("/")[1:]:
        document = document[part.replace("~1", "/").replace("~0", "~")]
    return document


def illegal_facts(row: list[Any]) -> Iterator[str]:
    """The facts of a row whose values are illegal."""
    for fact, value in zip(VOCABULARY, row, strict=True):
        match fact.kind:
            case FactKind.PRESENCE:
                legal = type(value) is bool
            case FactKind.VARIABLE:
                legal = value is None or type(value) is bool or isinstance(value, Malformed)
            case FactKind.TEXTS | FactKind.LIST if isinstance(value, tuple):
                legal = fact.admits(to_json(value))
            case _:
                legal = fact.admits(value) or (value is None and fact.nullable)
        if not legal:
            yield fact.name


@law
@given(document=junk | corrupted_facts(), release=st.sampled_from(RELEASES))
def test_any_json_gives_faults_or_a_row_of_legal_values(document: Any, release: str) -> None:
    faults: list[RequestFault] = []
    facts = read_facts(document, series(release), "", faults)
    assert len(facts.row) == len(defaults(series(release)))
    assert list(illegal_facts(facts.row)) == []


@law
@given(document=junk | corrupted_facts())
def test_the_pointer_of_a_fault_resolves_in_the_document(document: Any) -> None:
    faults: list[RequestFault] = []
    read_facts(document, (0, 23), "", faults)
    for fault in faults:
        value_at(document, fault.pointer)


@law
@given(document=junk | corrupted_facts(), release=st.sampled_from(RELEASES))
def test_facts_without_a_fault_are_read_as_the_reference_reads_them(document: Any, release: str) -> None:
    faults: list[RequestFault] = []
    facts = read_facts(document, series(release), "", faults)
    if faults:
        return
    deployment = Deployment(document, release)
    for fact, value in zip(VOCABULARY, facts.row, strict=True):
        expected = deployment.value(fact.name)
        if fact.kind is FactKind.PRESENCE:
            expected = expected is not None
        if isinstance(expected, MalformedVariable):
            expected = Malformed(value_at(document, "/" + fact.name.replace(".", "/")), expected.error)
        if not deployment.is_below_absent(fact.name):
            assert (fact.name, to_json(value) if isinstance(value, tuple) else value) == (fact.name, expected)


FACTS_SCHEMA = Draft202012Validator(facts_schema())


@law
@given(document=st.dictionaries(keys, junk, max_size=4) | corrupted_facts())
def test_facts_without_a_fault_follow_their_schema(document: dict[str, Any]) -> None:
    faults: list[RequestFault] = []
    read_facts(document, (0, 23), "", faults)
    if not faults:
        assert [error.message for error in FACTS_SCHEMA.iter_errors(document)] == []


@law
@given(document=st.dictionaries(keys, junk, max_size=4) | corrupted_facts())
def test_facts_that_follow_their_schema_have_no_fault(document: dict[str, Any]) -> None:
    faults: list[RequestFault] = []
    read_facts(document, (0, 23), "", faults)
    if FACTS_SCHEMA.is_valid(document):  # the schema allows 2.0 for 2, and zero bytes in a variable
        assert [fault for fault in faults if ".0`" not in fault.message and r"\x00" not in fault.message] == []


# The fast path.


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Requests as JSON, most of them legal; numbers in other spellings, repeated fields, any value for a field."""
    request: dict[str, Any] = {"facts": draw(corrupted_facts() | st.integers(0, 2**63).map(random_facts) | junk)}
    members = {
        "vllm_version": st.sampled_from([None, "", "0.23.0", "v0.24.1", "0.2", "9.9", "1!0.23.0", "x"]) | scalars,
        "layers": st.sampled_from(
            [
                None,
                [],
                ["upstream"],
                ["house"],
                ["house", "upstream"],
                ["upstream", "upstream"],
                ["upstream", 1],
                "upstream",
            ]
        ),
        "request_id": st.sampled_from([None, "", "mine", "x" * 256, "x" * 257, 1]),
        "explain": st.sampled_from([True, False, None, 0, "false"]),
        "beyond_verified": st.sampled_from([None, "nearest", "Nearest", True]),
        "extra": scalars,
    }
    for name in draw(st.lists(st.sampled_from(list(members)), unique=True, max_size=3)):
        request[name] = draw(members[name])
    text = json.dumps(request)
    for old, new in draw(st.lists(st.sampled_from(SPELLINGS), unique=True, max_size=2)):
        text = text.replace(old, new)
    return text.encode()


SPELLINGS = [
    (": 2,", ": 2.0,"),
    (": 2}", ": 2e0}"),
    (": 1}", ": 1.0}"),
    (": 3", ": 0x3"),
    (": true", ": 1"),
    (": false", ': "false"'),
    ('"facts": {', '"facts": {"lora_config": {}, '),
    ('"model_config": {', '"model_config": {"is_moe": true, "is_moe": false, '),
    ('"env": {', '"env": {"VLLM_USE_V2_MODEL_RUNNER": "1", '),
    ("}", ", }"),
    ("null", "nul"),
    ("null", "NaN"),
]


def fields_of(request: Request) -> tuple[Any, ...]:
    return (
        request.facts.row,
        request.vllm_version,
        request.release,
        request.upstream_only,
        request.request_id,
        request.explain,
    )


@settings(law, max_examples=law.max_examples * 3 // 2)
@given(body=bodies())
def test_the_fast_path_reads_a_request_as_the_plain_path_does_or_not_at_all(policy: Policy, body: bytes) -> None:
    fast = decode_fast(body, policy.releases)
    if fast is not None:
        assert fields_of(fast) == fields_of(read_request(msgspec.json.decode(body), policy.releases))


@law
@given(
    seed=st.integers(0, 2**63),
    version=st.sampled_from([None, "0.23.0", "v0.24.1"]),
    layers=st.sampled_from([None, UPSTREAM, BOTH]),
)
def test_the_fast_path_reads_plain_legal_requests(
    policy: Policy, seed: int, version: str | None, layers: list[str] | None
) -> None:
    def plain(document: dict[str, Any], path: str = "") -> dict[str, Any]:
        """The facts without null objects, other fields and unusual items."""
        found: dict[str, Any] = {}
        for key, value in document.items():
            name = f"{path}{key}"
            if isinstance(value, dict) and key not in IGNORED:
                found[key] = plain(value, f"{name}.")
            elif name in FACTS and (value is not None or FACTS[name].kind is not FactKind.PRESENCE):
                found[key] = value if value != [None] else []
        return found

    body = json.dumps({"facts": plain(random_facts(seed)), "vllm_version": version, "layers": layers}).encode()
    fast = decode_fast(body, policy.releases)
    assert fast
    assert fields_of(fast) == fields_of(read_request(json.loads(body), policy.releases))
