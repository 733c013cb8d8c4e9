"""Proved differences, checked against the engine on single deployments and by brute force on a small space."""

from __future__ import annotations

import json
from datetime import date
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import z3
from representatives import slow_except
from ruletexts import read_document, rule_text, write_document

from policy.facts.facts import nested
from policy.policy import Policy
from policy.proof.difference import ProofOutcome, differences
from policy.proof.edit import Edit, edit_of
from policy.proof.replay import PolicyPair
from policy.proof.search import ProofFailed
from policy.proof.space import Choice, Space
from policy.proof.symbolic import SymbolicDecision, SymbolicRules
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = ["0.20.0", "0.22.0", "0.25.0", "0.28.0", "0.31.0", "0.33.0"]
KV = "house/kv-connector-fallback.yaml"
NARROWED = {"kv_transfer_config.kv_connector": {"in": ["NixlConnector"]}}

Facts = dict[str, Any]


def edited(sources: Sources, path: str, **members: Any) -> Policy:
    """The policy with fields of one rule replaced; ``when`` and ``vllm`` are those of its first range."""
    document = read_document(sources.rules[path])
    for name, value in members.items():
        (document["releases"][0] if name in {"when", "vllm"} else document)[name] = value
    return Policy(load(Sources({**sources.rules, path: write_document(document)})))


def conditions(policy: Policy, release: str) -> list[Any]:
    return [
        condition
        for item in policy.catalogue.rules_of(release)
        for condition in (item.when, item.cleared)
        if condition is not None
    ]


@pytest.mark.parametrize("release", slow_except(RELEASES[::3], RELEASES))
def test_the_symbolic_rules_agree_with_the_engine(policy: Policy, release: str) -> None:
    space = Space(conditions(policy, release))
    side = SymbolicRules(policy.catalogue.rules_of(release), space, series(release))
    replay = PolicyPair((policy, release), (policy, release))
    solver = z3.SolverFor("QF_FD")
    solver.add(space.laws)
    random = Random(release)
    for _ in range(60):
        solver.push()
        for fact in random.sample(list(space.facts.values()), min(12, len(space.facts))):
            solver.push()
            solver.add(
                random.choice(fact.preferences())
                if random.random() < 0.5
                else z3.Not(random.choice(fact.preferences()))
            )
            if solver.check() != z3.sat:
                solver.pop()
        solver.check()
        model = solver.model()
        while solver.num_scopes():
            solver.pop()
        facts = space.stated(model)
        answer, _ = replay(facts)
        assert shown(answer) == evaluated(side.decision, model), facts
        assert shown(answer.alone) == evaluated(side.alone, model), facts


def shown(answer: ProofOutcome) -> tuple[Any, ...]:
    return answer.runner, answer.starts, set(answer.reasons)


def evaluated(decision: SymbolicDecision, model: Any) -> tuple[Any, ...]:
    """The runner, start and reasons of a decision in a model."""

    def holds(when: Any) -> bool:
        return bool(z3.is_true(model.eval(when, model_completion=True)))

    reasons = {(rule, effect) for (rule, _, effect, _), when in decision.reasons.items() if holds(when)}
    runner = next(which for which, when in decision.runner.items() if holds(when))
    return runner, holds(decision.starts), reasons


def deployments(space: Space, names: list[str]) -> Iterator[Facts]:
    """Every combination of values of the named facts."""
    facts = [space.facts[name] for name in names]
    values = [
        list(fact.values) if isinstance(fact, Choice) else [[], ["LlamaForCausalLM"], ["Another"]] for fact in facts
    ]
    for chosen in product(*values):
        stated: Facts = {}
        for fact, value in zip(facts, chosen, strict=True):
            if fact.fact.default != value and not (isinstance(fact, Choice) and value == fact.fact.default):
                *parents, last = fact.fact.name.split(".")
                position = stated
                for step in parents:
                    position = position.setdefault(step, {})
                position.setdefault(
                    last, {} if value is True and fact.fact.kind == "presence" else getattr(value, "text", value)
                )
        yield stated


SMALL = [
    "env.VLLM_USE_V2_MODEL_RUNNER",
    "platform.has_triton",
    "model_config.architectures",
    "model_config.is_moe",
    "ec_transfer_config",
    "kv_transfer_config",
    "kv_transfer_config.kv_connector",
    "speculative_config.method",
]
EDITS: list[tuple[str, str, dict[str, Any]]] = [
    ("0.22.0", KV, {"when": NARROWED}),
    ("0.24.0", KV, {"when": {"any": [NARROWED, {"env.VLLM_USE_V2_MODEL_RUNNER": True}]}}),
    ("0.24.0", KV, {"vllm": ">=0.22,<0.24"}),
    ("0.23.0", "upstream/default/no-triton.yaml", {"effect": "not-default"}),
    ("0.23.0", "upstream/default/moe.yaml", {"effect": "default-v1"}),
]


def step(before: ProofOutcome, after: ProofOutcome) -> tuple[Any, ...]:
    return before.runner, before.starts, after.runner, after.starts


@pytest.mark.slow
@pytest.mark.parametrize(("release", "path", "members"), EDITS)
def test_every_difference_found_by_brute_force_is_reported(
    policy: Policy, sources: Sources, release: str, path: str, members: dict[str, Any]
) -> None:
    other = edited(sources, path, **members)
    rules = policy.catalogue.rules_of(release), other.catalogue.rules_of(release)
    replay = PolicyPair((policy, release), (other, release))
    changes = differences(*rules, (series(release), series(release)), replay)
    classes = {step(change.before, change.after) for change in changes}
    space = Space(conditions(policy, release) + conditions(other, release))
    found: dict[tuple[Any, ...], int] = {}
    for facts in deployments(space, [name for name in SMALL if name in space.facts]):
        before, after = replay(facts)
        if before != after:
            found.setdefault(step(before, after), len(json.dumps(facts)))
            assert step(before, after) in classes, facts
    assert found
    assert {change.rule for change in changes} == {path.rpartition("/")[2].removesuffix(".yaml")}


def test_a_witness_is_minimal(policy: Policy, sources: Sources) -> None:
    edit = edit_of(policy, edited(sources, KV, when=NARROWED))
    shown = [
        (effect.releases, effect.change.rule, step(effect.change.before, effect.change.after), effect.change.facts)
        for effect in edit.effects
    ]
    v1_to_v2 = ("v1", True, "v2", True)
    assert (
        ("0.22.0", "0.22.1"),
        "kv-connector-fallback",
        v1_to_v2,
        {"kv_transfer_config": {}, "model_config": {"architectures": ["Qwen3ForCausalLM"]}},
    ) in shown
    assert {rule for _, rule, *_ in shown} == {"kv-connector-fallback"}
    assert {release for releases, *_ in shown for release in releases} == {"0.22.0", "0.22.1", "0.23.0", "0.24.0"}
    assert all("kv_transfer_config" in facts for *_, facts in shown)


def rewritten(sources: Sources) -> Sources:
    """Equivalent rules: keys reordered, another layout, no comments, files moved, ranges split."""
    texts = {}
    for path, text in sources.rules.items():
        document = read_document(text)
        if "effect" in document:
            split = [part for part in document["releases"] if part["vllm"] == ">=0.22,<0.25"]
            for part in split:
                position = document["releases"].index(part)
                document["releases"][position : position + 1] = [
                    {**part, "vllm": ">=0.22,<0.23"},
                    {**part, "vllm": ">=0.23,<0.25"},
                ]
        folder, _, name = path.rpartition("/")
        kept = "requests/" if folder.endswith("/requests") else ""  # which makes them rules about requests
        moved = f"{folder.partition('/')[0]}/moved/{kept}{name}" if "effect" in document else path
        texts[moved] = json.dumps(document, sort_keys=True, default=str)
    return Sources(texts)


@pytest.mark.slow
def test_an_edit_that_only_reformats_moves_and_splits_is_proved_to_change_nothing(
    policy: Policy, sources: Sources
) -> None:
    other = Policy(load(rewritten(sources)))
    assert other.catalogue.revision != policy.catalogue.revision
    edit = edit_of(policy, other)
    assert (edit.effects, edit.changes_something) == ((), False)


EQUIVALENT_CONDITIONS: list[tuple[str, str, Any]] = [
    ("0.22.0", KV, {"all": [{"kv_transfer_config": "present"}, {"kv_transfer_config": "present"}]}),
    ("0.22.0", KV, {"any": [{"kv_transfer_config": "present"}, NARROWED]}),
    ("0.22.0", KV, {"not": {"kv_transfer_config": "absent"}}),
    (
        "0.22.0",
        KV,
        {
            "kv_transfer_config": "present",
            "any": [{"model_config.is_moe": True}, {"model_config.is_moe": False}, {"model_config": "absent"}],
        },
    ),
]


@pytest.mark.parametrize(("release", "path", "when"), EQUIVALENT_CONDITIONS)
def test_equivalent_conditions_are_proved_equivalent(
    policy: Policy, sources: Sources, release: str, path: str, when: Any
) -> None:
    other = edited(sources, path, when=when)
    rules = policy.catalogue.rules_of(release), other.catalogue.rules_of(release)
    assert rules[0] != rules[1]
    assert (
        differences(*rules, (series(release), series(release)), PolicyPair((policy, release), (other, release))) == []
    )


def test_a_replay_that_contradicts_the_solver_fails_the_proof(policy: Policy, sources: Sources) -> None:
    other = edited(sources, KV, when=NARROWED)
    rules = policy.catalogue.rules_of("0.22.0"), other.catalogue.rules_of("0.22.0")
    with pytest.raises(ProofFailed, match="kv_transfer_config"):
        differences(*rules, ((0, 22), (0, 22)), PolicyPair((policy, "0.22.0"), (policy, "0.22.0")))


def test_a_search_without_an_answer_fails_the_proof(policy: Policy, sources: Sources) -> None:
    other = edited(sources, KV, when=NARROWED)
    rules = policy.catalogue.rules_of("0.22.0"), other.catalogue.rules_of("0.22.0")
    z3.set_param(rlimit=1)
    try:
        with pytest.raises(ProofFailed, match="the solver found no answer"):
            differences(*rules, ((0, 22), (0, 22)), PolicyPair((policy, "0.22.0"), (other, "0.22.0")))
    finally:
        z3.set_param(rlimit=0)


@pytest.mark.parametrize("fact", ["model_config.architectures", "kv_transfer_config.kv_connector"])
def test_a_value_named_another_does_not_clash_with_the_placeholder_for_other_values(fact: str) -> None:
    def policy_of(*names: str) -> Policy:
        when = {fact: {"has_any_of" if fact.endswith("s") else "in": list(names)}}
        texts = {"v2": rule_text("v2", "default-v2"), "named": rule_text("named", "not-default", when)}
        return Policy(
            load(
                Sources(
                    {
                        "releases.yaml": "known: ['0.22.0']\ndefault: '0.22.0'\n",
                        **{f"upstream/{name}.yaml": text for name, text in texts.items()},
                    }
                )
            )
        )

    before, after = policy_of("Another", "B"), policy_of("Another")
    assert [effect.change.facts for effect in edit_of(before, after).effects] == [
        nested({fact: ["B"] if fact.endswith("s") else "B", fact.partition(".")[0]: True})
    ]
    assert not edit_of(before, policy_of("B", "Another")).effects


@pytest.mark.slow
def test_reordering_a_feature_list_is_a_change(policy: Policy, sources: Sources) -> None:
    pair = sorted(
        (path for path, text in sources.rules.items() if "effect: exclude-v2" in text),
        key=lambda path: int(read_document(sources.rules[path])["order"]),
    )
    in_force = [path for path in pair if any(item.rule.path == path for item in policy.catalogue.rules_of("0.33.0"))][
        :2
    ]
    orders = [read_document(sources.rules[path])["order"] for path in in_force]
    texts = dict(sources.rules)
    for path, order in zip(in_force, reversed(orders), strict=True):
        texts[path] = write_document({**read_document(texts[path]), "order": order})
    other = Policy(load(Sources(texts)))
    edit = edit_of(policy, other)
    assert edit.effects
    assert all(effect.change.before.runner == effect.change.after.runner for effect in edit.effects)


def test_a_new_release_is_compared_with_the_previous_one_and_a_removed_one_is_reported(
    policy: Policy, sources: Sources
) -> None:
    releases = read_document(sources.rules["releases.yaml"])
    newer = {
        "default": releases["default"],
        "known": [release for release in releases["known"] if release != "0.20.2"] + ["0.34.0"],
    }
    edit: Edit = edit_of(policy, Policy(load(Sources({**sources.rules, "releases.yaml": write_document(newer)}))))
    assert (edit.compared["0.34.0"], edit.gone, edit.effects, edit.changes_something) == (
        "0.33.0",
        ("0.20.2",),
        (),
        True,
    )


def with_end(sources: Sources, until: str | None, **edits: Any) -> Policy:
    return edited(sources, KV, review_by="2027-03-01", **edits, **({} if until is None else {"until": until}))


LAST_DAY, DAY_AFTER = date(2027, 3, 1), date(2027, 3, 2)
AFFECTED = ("0.22.0", "0.22.1", "0.23.0", "0.24.0")


def first_days(base: Policy, head: Policy, today: date) -> dict[date | None, set[str]]:
    """The affected releases, by the day on which the change begins."""
    found: dict[date | None, set[str]] = {}
    for effect in edit_of(base, head, today=today).effects:
        found.setdefault(effect.since, set()).update(effect.releases)
    return found


@pytest.mark.slow
def test_the_end_of_a_rule_changes_decisions_from_the_next_day(policy: Policy, sources: Sources) -> None:
    head = with_end(sources, "2027-03-01")
    assert first_days(policy, head, LAST_DAY) == {DAY_AFTER: set(AFFECTED)}
    assert first_days(policy, head, DAY_AFTER) == {None: set(AFFECTED)}
    shown = [effect.change for effect in edit_of(policy, head, today=LAST_DAY).effects]
    assert {(change.rule, change.before.runner) for change in shown} >= {("kv-connector-fallback", "v1")}


def test_removing_a_rule_that_has_ended_is_proved_to_change_nothing(sources: Sources) -> None:
    base = with_end(sources, "2027-03-01")
    head = Policy(load(Sources({path: text for path, text in sources.rules.items() if path != KV})))
    assert first_days(base, head, DAY_AFTER) == {}
    assert first_days(base, head, LAST_DAY) == {None: set(AFFECTED)}


@pytest.mark.slow
def test_moving_an_end_changes_the_days_between(sources: Sources) -> None:
    base, head = with_end(sources, "2027-03-01"), with_end(sources, "2027-04-01")
    assert first_days(base, head, LAST_DAY) == first_days(head, base, LAST_DAY) == {DAY_AFTER: set(AFFECTED)}
    assert first_days(base, head, DAY_AFTER) == {None: set(AFFECTED)}
    assert first_days(base, head, date(2027, 4, 2)) == {}


def test_an_edit_of_a_rule_that_has_ended_changes_nothing(sources: Sources) -> None:
    base, head = with_end(sources, "2027-03-01"), with_end(sources, "2027-03-01", when=NARROWED)
    assert first_days(base, head, DAY_AFTER) == {}
    assert first_days(base, head, LAST_DAY) == {None: set(AFFECTED)}


UTILIZATION = "cache_config.gpu_memory_utilization"


def small_policy(rules: dict[str, str], *known: str) -> Policy:
    """The policy of a few rules by path."""
    return Policy(load(Sources({"releases.yaml": f"known: {list(known)}\ndefault: '{known[-1]}'\n", **rules})))


def with_note(when: Any | None) -> Policy:
    """The policy of two releases, of which the first has another default for ``UTILIZATION``; ``when`` is of advice."""
    rules = {"upstream/v1.yaml": rule_text("v1", "fallback-v1", vllm=">=0.19")}
    if when is not None:
        rules["upstream/note.yaml"] = rule_text("note", "advise", when, vllm=">=0.19")
    return small_policy(rules, "0.19.0", "0.20.0")


@pytest.mark.parametrize("when", [{UTILIZATION: 0.92}, {UTILIZATION: {"more_than": 0.91, "less_than": 0.93}}])
def test_the_default_of_newer_releases_can_be_stated_in_older_ones(when: Any) -> None:
    effects = edit_of(with_note(None), with_note(when)).effects
    assert [(effect.releases, effect.change.facts) for effect in effects] == [
        (("0.19.0",), nested({UTILIZATION: 0.92})),
        (("0.20.0",), {}),
    ]


SMALLEST_SHARES: list[tuple[Any, list[float]]] = [
    ({"less_than": 0.000001}, [0.0000005]),
    ({"less_than": 5e-324}, []),
    ({"more_than": 0.9, "less_than": 0.9000004}, [0.9000002]),
    ({"more_than": 0.999999, "less_than": 1}, [0.9999995]),
    ({"more_than": 0.93, "less_than": 0.95}, [0.94]),
]


@pytest.mark.parametrize(("comparison", "expected"), SMALLEST_SHARES)
def test_a_share_is_found_in_every_interval_that_has_one(comparison: Any, expected: list[float]) -> None:
    effects = edit_of(with_note(None), with_note({UTILIZATION: comparison, "lora_config": "present"})).effects
    assert [effect.change.facts["cache_config"]["gpu_memory_utilization"] for effect in effects] == pytest.approx(
        expected, rel=1e-12
    )


def test_facts_that_no_request_can_have_fail_the_proof(policy: Policy) -> None:
    replay = PolicyPair((policy, "0.22.0"), (policy, "0.22.0"))
    with pytest.raises(ProofFailed, match=r"illegal facts.*gpu_memory_utilization"):
        replay(nested({UTILIZATION: 0.0}))


LORA: dict[str, Any] = {"lora_config": "present"}
BELOW_A_HOUSE_RULE: dict[str, str] = {
    "upstream/v2.yaml": rule_text("v2", "default-v2"),
    "upstream/off.yaml": rule_text("off", "override-v1", {"env.VLLM_USE_V2_MODEL_RUNNER": False}),
    "house/lora.yaml": rule_text(
        "lora", "fallback-v1", LORA, owner="tests", review_by="2027-03-01", blocked_by="nothing"
    ),
}
V2_ALONE = ("v2", True, "v2", True)


@pytest.mark.parametrize(
    ("rule", "alone"),
    [
        (rule_text("rule", "refuse-v2", LORA, order=1), ("v2", True, "v2", False)),
        (rule_text("rule", "not-default", LORA), ("v2", True, "v1", True)),
        (rule_text("rule", "advise", LORA, runner="v2"), V2_ALONE),
        (rule_text("rule", "known-problem", LORA, runner="v2", symptom="slow", certainty="reported"), V2_ALONE),
    ],
    ids=["refusal", "other runner", "advice", "known problem"],
)
def test_what_a_house_rule_hides_of_vllms_own_decision_is_a_difference(rule: str, alone: tuple[Any, ...]) -> None:
    before = small_policy(BELOW_A_HOUSE_RULE, "0.22.0")
    after = small_policy({**BELOW_A_HOUSE_RULE, "upstream/rule.yaml": rule}, "0.22.0")
    changes = [effect.change for effect in edit_of(before, after).effects]
    assert {change.rule for change in changes} == {"rule"}
    [change] = [change for change in changes if change.facts == {"lora_config": {}}]
    assert step(change.before, change.after) == ("v1", True, "v1", True)
    assert step(change.before.alone, change.after.alone) == alone
    assert change.before.alone != change.after.alone
    assert not edit_of(after, after).effects


def test_a_house_rule_alone_changes_nothing_of_vllms_own_decision() -> None:
    without = {path: text for path, text in BELOW_A_HOUSE_RULE.items() if path.startswith("upstream/")}
    edit = edit_of(small_policy(without, "0.22.0"), small_policy(BELOW_A_HOUSE_RULE, "0.22.0"))
    changes = [effect.change for effect in edit.effects]
    assert ("v2", True, "v1", True) in {step(change.before, change.after) for change in changes}
    assert {(change.before.upstream, change.after.upstream) for change in changes} == {(None, None)}
