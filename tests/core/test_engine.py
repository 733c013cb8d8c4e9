"""The faults of durable_rules, shown on the module itself, and the guard against each.

What crashes or hangs runs in a separate process.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import durable_rules_engine as rete
import pytest
from collisions import COLLISIONS
from processes import forked_python
from tables import table

from policy.decision.ruleset import Ruleset
from policy.engine.compiler import GROUP_SIZE, MAX_GROUPS, check_collisions, compile_rules, fnv1a
from policy.engine.rete import Engine
from policy.errors import EngineFailed, RequestInvalid
from policy.facts.facts import read_facts
from policy.facts.vocabulary import MAX_INTEGER, MAX_ITEMS, MAX_TEXT
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.errors import RequestFault
    from policy.policy import Policy
    from policy.rules.release_rule import ReleaseRule

TODAY = date(2026, 1, 1)
BASE = {
    "releases.yaml": 'known: ["0.33.0"]\ndefault: "0.33.0"\n',
    "upstream/v2-by-default.yaml": json.dumps(
        {
            "id": "v2-by-default",
            "title": "V2",
            "effect": "default-v2",
            "why": "For the test.",
            "references": ["https://example.org"],
            "releases": [{"vllm": ">=0.33", "message": "V2", "when": "always"}],
        }
    ),
}
RAW = """
import durable_rules_engine as rete, json

def made(*conditions):
    rules = {f"r{n}": {"pri": n + 1, "count": 1, "all": [{"m": condition}]} for n, condition in enumerate(conditions)}
    return rete.create_ruleset("raw", json.dumps(rules))

def fired(handle, fact):
    state = rete.assert_fact(handle, fact if isinstance(fact, str) else json.dumps({"id": 1, **fact}))[1]
    started = rete.start_action_for_state(handle, state)
    action = started and started[1]
    names = []
    while action is not None:
        names.append(next(iter(json.loads(action))))
        action = rete.complete_and_start_action(handle, state)
    rete.retract_fact(handle, '{"id":1}')
    return names
"""


def raw(code: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """The result of code that uses the module alone, in a separate process."""
    python = sys.executable if env else forked_python()
    return subprocess.run(
        [python, "-c", RAW + code],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **env},
    )


def output_of(code: str) -> Any:
    """The output of such code, parsed as JSON."""
    done = raw(code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rules_of(*conditions: dict[str, Any]) -> tuple[ReleaseRule, ...]:
    """The rules of a release: one that always decides, then one for each condition."""
    texts = dict(BASE)
    for n, condition in enumerate(conditions):
        part = {"vllm": ">=0.33", "text": "it holds", "when": condition}
        rule = {
            "id": f"r{n:04}",
            "title": "It holds",
            "effect": "advise",
            "why": "For the test.",
            "references": ["https://example.org"],
            "releases": [part],
        }
        texts[f"upstream/r{n:04}.yaml"] = json.dumps(rule)
    return load(Sources(texts)).rules_of("0.33.0")


def fired(rules: tuple[ReleaseRule, ...], *documents: dict[str, Any]) -> list[list[int]]:
    """For each document, the indexes of the conditions that hold."""
    ruleset = Ruleset(rules, (0, 33))
    found = []
    for document in documents:
        faults: list[RequestFault] = []
        facts = read_facts(document, (0, 33), "", faults)
        assert faults == []
        found.append([index - 1 for index in ruleset.fired(facts)])
    ruleset.close()
    return found


def decided(policy: Policy, facts: dict[str, Any], release: str = "0.33.0") -> tuple[Any, ...]:
    decision = policy.decide(read_request({"vllm_version": release, "facts": facts}, policy.releases), TODAY)
    return decision.runner, decision.outcome, decision.startup_errors, [reason.rule for reason in decision.reasons]


# Actions that are started and not completed.


def test_after_an_unfinished_action_the_module_fires_no_rule() -> None:
    code = """
handle = made({"x": 1})
first = fired(handle, {"x": 1})
state = rete.assert_fact(handle, '{"id": 1, "x": 1}')[1]
rete.start_action_for_state(handle, state)
rete.retract_fact(handle, '{"id": 1}')
print(json.dumps([first, fired(handle, {"x": 1})]))
"""
    assert output_of(code) == [["r0"], []]


def test_after_an_unfinished_action_the_next_decision_is_correct() -> None:
    ruleset = Ruleset(rules_of({"platform.is_rocm": True}), (0, 33))
    facts = read_facts({"platform": {"is_rocm": True}}, (0, 33), "", [])
    text = ruleset.definition.encoder.encode(facts.row)
    handle = ruleset.engine._handle
    rete.start_action_for_state(handle, rete.assert_fact(handle, text)[1])
    assert [ruleset.fired(facts) for _ in range(3)] == [(1,), (1,), (1,)]


def test_a_refused_fact_is_an_engine_error_and_the_next_decision_is_correct() -> None:
    ruleset = Ruleset(rules_of({"platform.is_rocm": True}), (0, 33))
    with pytest.raises(EngineFailed):
        ruleset.engine.fired("no fact at all")
    facts = read_facts({"platform": {"is_rocm": True}}, (0, 33), "", [])
    assert ruleset.fired(facts) == (1,)


@pytest.mark.parametrize("step", ["start_action_for_state", "complete_and_start_action", "retract_fact"])
def test_an_interrupted_run_does_not_affect_later_decisions(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    ruleset = Ruleset(rules_of({"platform.is_rocm": True}), (0, 33))
    on, off = (read_facts({"platform": {"is_rocm": value}}, (0, 33), "", []) for value in (True, False))
    with monkeypatch.context() as patch:
        patch.setattr(rete, step, stop)
        with pytest.raises(KeyboardInterrupt):
            ruleset.fired(on)
    assert [ruleset.fired(facts) for facts in (off, on, off)] == [(), (1,), ()]


# Names are hashed to 32 bits.


def test_the_module_confuses_colliding_names() -> None:
    first, second = "k32728", COLLISIONS["k32728"][0]
    assert fnv1a(first) == fnv1a(second)
    assert output_of(f"print(json.dumps(fired(made({{{first!r}: 1}}), {{{second!r}: 1}})))") == ["r0"]


def test_colliding_names_are_refused() -> None:
    first, second = "k32728", COLLISIONS["k32728"][0]
    with pytest.raises(
        EngineFailed, match=f"the engine cannot tell the keys '{first}' and '{second}' apart; rename one"
    ):
        check_collisions(["x", first, second])


@pytest.mark.parametrize("name", ["id", "sid", "_0", "a", "b"])
def test_a_colliding_name_in_a_request_changes_nothing(policy: Policy, name: str) -> None:
    other = COLLISIONS[name][0]
    assert fnv1a(other) == fnv1a(name)
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}
    with_collisions = {
        "model_config": {other: 1, "architectures": ["Qwen3ForCausalLM"]},
        "kv_transfer_config": {other: "1", name: 0},
    }
    assert decided(policy, with_collisions, "0.23.0") == decided(policy, facts, "0.23.0")


def test_a_colliding_name_outside_an_open_object_is_refused(policy: Policy) -> None:
    with pytest.raises(RequestInvalid, match="unknown field"):
        read_request({"facts": {COLLISIONS["id"][0]: 1}}, policy.releases)


def test_the_module_reads_a_dot_in_a_name_as_nesting() -> None:
    assert output_of("print(json.dumps(fired(made({'a.b': 1}), {'a': {'b': 1}})))") == ["r0"]


def test_the_keys_of_every_release_are_short_generated_names(policy: Policy) -> None:
    for release in policy.releases.known:
        definition = policy.ruleset(release).definition
        keys = list(json.loads(definition.canary))
        check_collisions(keys)
        assert [key for key in keys if not re.fullmatch("[A-Za-z0-9_]{1,3}", key)] == []


def keys_in(definition: dict[str, Any]) -> set[str]:
    """The keys in the conditions of a ruleset."""
    text = json.dumps([rule["all"] for rule in definition.values()])
    return set(re.findall(r'"([^"$]+)": -?[0-9]', text))


def test_the_module_gets_only_integers(policy: Policy) -> None:
    hostile = {
        "env": {"VLLM_USE_V2_MODEL_RUNNER": '"}, {'},
        "model_config": {
            "architectures": ["\ud800", '","a":1', "\x00"],
            "logits_processors": [{"id": 2, "sid": "q"}, [[[1.5e300]]]],
        },
        "parallel_config": {"distributed_executor_backend": '1,"id":2', "ubatch_size": MAX_INTEGER},
        "kv_transfer_config": {"kv_connector": "null", "id": 7, "$s": 1},
    }
    for release in policy.releases.known:
        request = read_request({"vllm_version": release, "facts": hostile}, policy.releases)
        definition = policy.ruleset(release).definition
        fact = json.loads(definition.encoder.encode(request.facts.row))
        assert (
            {type(value) for value in fact.values()},
            fact["id"],
            fact.keys() - keys_in(json.loads(definition.ruleset)),
        ) == ({int}, 1, {"id"})


# States and memory.


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc fills fresh memory on demand")
def test_deleting_a_state_that_never_dispatched_crashes_the_process() -> None:
    code = (
        "handle = made({'x': 1}); rete.assert_fact(handle, '{\"id\": 1, \"x\": 1}'); rete.delete_state(handle, '0'); "
        "print('alive')"
    )
    done = raw(code, MALLOC_PERTURB_="165")
    assert (done.returncode < 0, done.stdout) == (True, "")


def test_a_new_engine_can_be_closed_at_once(root: Path) -> None:
    code = """
from pathlib import Path
from policy.rules.catalogue import load
from policy.rules.loader import read_folder
from policy.policy import Policy
policy = Policy(load(read_folder(Path("rules"))))
for release in ("0.20.0", "0.23.0", "0.33.0"):
    policy.ruleset(release).close()
print("alive")
"""
    env = {**os.environ, "MALLOC_PERTURB_": "165"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=env, cwd=root
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


MEMORY = """
from datetime import date
from pathlib import Path
from policy.rules.catalogue import load
from policy.rules.loader import read_folder
from policy.policy import Policy
from policy.request.request import read_request
from policy.decision.ruleset import Ruleset

def mebibytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

catalogue = load(read_folder(Path("rules")))
policy = Policy(catalogue)
"""


def memory_growth(root: Path, code: str) -> float:
    """The growth in MiB that ``code`` measures in a separate process."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("COV")}  # coverage takes memory too
    done = subprocess.run(
        [sys.executable, "-c", MEMORY + code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=root,
        env=env,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@needs_proc
@pytest.mark.parametrize(
    ("made", "least", "most"),
    [
        pytest.param("Engine(definition)", 50, 1000, marks=pytest.mark.slow),
        pytest.param("Engine(definition).close()", -1000, 5, marks=pytest.mark.slow),
        ('Ruleset(catalogue.rules_of("0.33.0"), (0, 33))', -1000, 5),
    ],
    ids=["engine-dropped", "engine-closed", "ruleset-dropped"],
)
def test_a_closed_engine_and_a_dropped_ruleset_free_their_memory(
    root: Path, made: str, least: float, most: float
) -> None:
    code = f"""
from policy.engine.compiler import compile_rules
from policy.engine.rete import Engine
definition = compile_rules(catalogue.rules_of("0.33.0"), (0, 33))
def some(count):
    for _ in range(count):
        {made}
some(10)
before = mebibytes()
some(200)
print(mebibytes() - before)
"""
    assert least < memory_growth(root, code) < most


@pytest.mark.slow
@needs_proc
def test_decisions_leak_no_memory(root: Path) -> None:
    code = """
def decide(n):
    facts = {
        "model_config": {"architectures": [f"Model{n}"], "logits_processors": [n]},
        "kv_transfer_config": {"kv_connector": f"Connector{n}", f"extra{n}": n},
        "parallel_config": {"pipeline_parallel_size": n % 5 + 1, "enable_dbo": n % 2 == 0},
        "env": {"VLLM_USE_V2_MODEL_RUNNER": str(n % 3)} if n % 7 else {"VLLM_USE_V2_MODEL_RUNNER": f"x{n}"},
    }
    release = policy.releases.known[n % len(policy.releases.known)]
    policy.decide(read_request({"vllm_version": release, "facts": facts}, policy.releases), date(2026, 1, 1))
for n in range(5000):
    decide(n)
before = mebibytes()
for n in range(5000, 55000):
    decide(n)
print(mebibytes() - before)
"""
    assert memory_growth(root, code) < 5


def test_large_objects_in_lists_leak_no_memory(root: Path) -> None:
    code = """
def decide(n):
    facts = {"model_config": {"logits_processors": [{"n": [str(n) * 20_000]}]}}
    policy.decide(read_request({"facts": facts}, policy.releases), date(2026, 1, 1))
for n in range(10_000, 10_010):
    decide(n)
before = mebibytes()
for n in range(20_000, 20_200):
    decide(n)
print(mebibytes() - before)
"""
    assert memory_growth(root, code) < 5


# The number of conditions that match.


def test_the_module_fails_if_more_than_64_conditions_match_at_one_level() -> None:
    code = """
handle = made(*({f"k{n}": 1} for n in range(65)))
print(json.dumps(len(fired(handle, {f"k{n}": 1 if n < 64 else 0 for n in range(65)}))), flush=True)
fired(handle, {f"k{n}": 1 for n in range(65)})
"""
    done = raw(code)
    assert (done.stdout, done.stderr.splitlines()[-1]) == (
        "64\n",
        "durable_rules_engine.error: Could not assert fact, error code: 303",
    )


@pytest.mark.slow
def test_the_module_hangs_on_600_conditions() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        raw("made(*({f'k{n}': 1} for n in range(600)))", timeout=3)


@pytest.mark.parametrize("count", [63, 64, 65, 500, 600])
def test_hundreds_of_conditions_that_all_hold_fire_in_order(count: int) -> None:
    rules = rules_of(*({"parallel_config.tensor_parallel_size": {"at_least": n + 1}} for n in range(count)))
    all_of_them, some = fired(
        rules,
        {"parallel_config": {"tensor_parallel_size": MAX_INTEGER}},
        {"parallel_config": {"tensor_parallel_size": 40}},
    )
    assert (all_of_them, some) == (list(range(count)), list(range(40)))


def test_hundreds_of_rules_may_have_the_same_condition() -> None:
    assert fired(rules_of(*[{"lora_config": "present"}] * 500), {"lora_config": {}}, {}) == [list(range(500)), []]


SIZES = [
    "parallel_config.tensor_parallel_size",
    "parallel_config.pipeline_parallel_size",
    "parallel_config.prefill_context_parallel_size",
    "parallel_config.decode_context_parallel_size",
]
ALL_LARGE = {"parallel_config": {name.partition(".")[2]: MAX_INTEGER for name in SIZES}}


@pytest.mark.parametrize("count", [16, 20, 32, 100])
def test_rules_with_alternatives_that_all_hold_fire_or_are_refused(count: int) -> None:
    rules = rules_of(*({"any": [{name: {"at_least": n + 2}} for name in SIZES]} for n in range(count)))
    try:
        ruleset = Ruleset(rules, (0, 33))
    except EngineFailed:
        return
    facts = read_facts(ALL_LARGE, (0, 33), "", [])
    assert ruleset.fired(facts) == tuple(range(1, count + 1))


def test_the_maximum_number_of_rules_can_fire_at_once() -> None:
    rules = rules_of(*({SIZES[n % 4]: {"at_least": n // 4 + 2}} for n in range(GROUP_SIZE * MAX_GROUPS)))
    facts = read_facts(ALL_LARGE, (0, 33), "", [])
    ruleset = Ruleset(rules, (0, 33))
    assert ruleset.fired(facts) == tuple(range(1, GROUP_SIZE * MAX_GROUPS + 1))


def test_more_rules_than_the_maximum_are_refused() -> None:
    rules = rules_of(*[{"lora_config": "present"}] * (GROUP_SIZE * MAX_GROUPS + 1))
    most = GROUP_SIZE * MAX_GROUPS
    with pytest.raises(EngineFailed, match=f"^expected at most {most} conditions in a release, got {most + 1}$"):
        compile_rules(rules, (0, 33))


@pytest.mark.parametrize(
    "condition",
    [
        {"all": [{"any": [{name: {"at_least": n + 2}} for name in SIZES]} for n in range(14)]},
        {"parallel_config.distributed_executor_backend": {"in": [f"text {n}" for n in range(600)]}},
        {
            "any": [
                {"parallel_config.distributed_executor_backend": {"in": [f"text {n} {m}" for m in range(20)]}}
                for n in range(60)
            ]
        },
        {"not": {"parallel_config.distributed_executor_backend": {"not_in": [f"text {n}" for n in range(600)]}}},
        {"parallel_config.distributed_executor_backend": {"not_in": [f"text {n}" for n in range(600) if n != 7]}},
    ],
    ids=["alternatives that multiply", "a long list", "many lists", "a long list twice negated", "a long list negated"],
)
def test_a_condition_with_too_many_alternatives_is_refused_or_evaluated_and_never_hangs(
    condition: dict[str, Any],
) -> None:
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parent.parent)]!r}
import test_engine
from policy.errors import EngineFailed, RulesInvalid
document = {{"parallel_config": {{**test_engine.ALL_LARGE["parallel_config"], \
"distributed_executor_backend": "text 7"}}}}
try:
    print(test_engine.fired(test_engine.rules_of({condition!r}), document))
except (EngineFailed, RulesInvalid):
    print([[0]])
"""
    done = subprocess.run([forked_python(), "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("[[0]]\n", "")


def test_the_module_fails_if_a_fact_has_more_than_255_fields() -> None:
    done = raw("""fired(made({'x': 1}), {f'k{n}': 1 for n in range(300)})""")
    assert done.stderr.splitlines()[-1] == "durable_rules_engine.error: Could not assert fact, error code: 302"


def test_hundreds_of_comparisons_are_evaluated_or_refused() -> None:
    rules = rules_of(*({"model_config.architectures": {"has_any_of": [f"A{n}"]}} for n in range(300)))
    try:
        ruleset = Ruleset(rules, (0, 33))
    except EngineFailed:
        return
    facts = read_facts({"model_config": {"architectures": [f"A{n}" for n in range(300)]}}, (0, 33), "", [])
    assert ruleset.fired(facts) == tuple(range(1, 301))


# Results that the engine omits or repeats.


def test_the_module_fires_a_rule_once_for_every_alternative_that_holds() -> None:
    assert output_of("print(json.dumps(fired(made({'$or': [{'x': 1}, {'y': 1}]}), {'x': 1, 'y': 1})))") == ["r0", "r0"]


def test_a_rule_fires_once_if_several_alternatives_hold() -> None:
    condition = {"any": [{"lora_config": "present"}, {"platform.is_rocm": True}, {"watermark_config": "present"}]}
    document: dict[str, Any] = {"lora_config": {}, "watermark_config": {}, "platform": {"is_rocm": True}}
    assert fired(rules_of(condition, {"lora_config": "present"}), document) == [[0, 1]]


@pytest.mark.parametrize("word", ["$not", "$in"])
def test_the_module_has_no_negation_and_no_membership(word: str) -> None:
    done = raw(f"made({{{word!r}: {{'x': 1}}}})")
    assert "Could not create ruleset" in done.stderr


def test_the_module_fires_no_inequality_for_null_or_a_missing_field() -> None:
    code = """
handle = made({"$and": [{"g": 1}, {"$neq": {"x": 1}}]})
print(json.dumps([fired(handle, fact) for fact in ({"g": 1, "x": 2}, {"g": 1, "x": None}, {"g": 1})]))
"""
    assert output_of(code) == [["r0"], [], []]


def test_null_differs_from_every_value() -> None:
    method = "speculative_config.method"
    rules = rules_of(
        {method: {"is_not": "mtp"}},
        {method: {"not_in": ["mtp", "eagle"]}},
        {method: "absent"},
        {method: "present"},
        {method: {"in": ["mtp"]}},
    )
    documents: list[dict[str, Any]] = [
        {"speculative_config": {"method": None}},
        {"speculative_config": {}},
        {"speculative_config": {"method": "mtp"}},
        {"speculative_config": {"method": "suffix"}},
    ]
    assert fired(rules, *documents) == [[0, 1, 2], [0, 1, 2], [3, 4], [0, 1, 3]]


@pytest.mark.parametrize("document", [{}, {"speculative_config": None}], ids=["missing", "null"])
def test_below_an_absent_object_no_condition_and_no_negation_holds(document: dict[str, Any]) -> None:
    method, types = "speculative_config.method", "speculative_config.draft_model_config.hf_config.layer_types"
    leaves: list[dict[str, Any]] = [
        {method: "mtp"},
        {method: {"is_not": "mtp"}},
        {method: {"not_in": ["mtp"]}},
        {method: "absent"},
        {"speculative_config.is_xpress": False},
        {types: {"has_none_of": ["sliding_attention"]}},
        {types: "absent"},
        {"speculative_config.draft_model_config": "absent"},
    ]
    rules = rules_of(*leaves, *({"not": leaf} for leaf in leaves), {"speculative_config": "absent"})
    assert fired(rules, document) == [[16]]


LIST = "model_config.architectures"


@table(
    ("condition", "holds_for"),
    [
        ({LIST: {"has_any_of": ["A", "B"]}}, ["A", "AB", "AC", "CA"]),
        ({LIST: {"has_none_of": ["A", "B"]}}, ["", "C"]),
        ({"not": {LIST: {"has_any_of": ["A", "B"]}}}, ["", "C"]),
        ({"not": {LIST: {"has_none_of": ["A", "B"]}}}, ["A", "AB", "AC", "CA"]),
        ({LIST: {"has_other_than": ["A", "B"]}}, ["AC", "C", "CA"]),
        ({"not": {LIST: {"has_other_than": ["A", "B"]}}}, ["", "A", "AB"]),
        ({LIST: {"first_is_in": ["A", "B"]}}, ["A", "AB", "AC"]),
        ({"not": {LIST: {"first_is_in": ["A", "B"]}}}, ["", "C", "CA"]),
        ({LIST: "not_empty"}, ["A", "AB", "AC", "C", "CA"]),
        ({"not": {LIST: "not_empty"}}, [""]),
        ({LIST: {"has_any_of": ["A"], "has_other_than": ["A"]}}, ["AB", "AC", "CA"]),
        ({"not": {LIST: {"has_any_of": ["A"], "has_other_than": ["A"]}}}, ["", "A", "C"]),
    ],
    ids=str,
)
def test_list_operators_hold_for_these_lists(condition: dict[str, Any], holds_for: list[str]) -> None:
    lists = ["", "A", "AB", "AC", "C", "CA"]
    found = fired(rules_of(condition), *({"model_config": {"architectures": list(letters)}} for letters in lists))
    assert [letters for letters, indexes in zip(lists, found, strict=True) if indexes] == holds_for


def test_a_list_may_be_null_empty_or_filled() -> None:
    name = "model_config.logits_processors"
    rules = rules_of({name: "present"}, {name: "absent"}, {name: "not_empty"}, {"not": {name: "not_empty"}})
    lists: list[list[Any] | None] = [None, [], [None]]
    assert fired(rules, *({"model_config": {"logits_processors": value}} for value in lists)) == [
        [1, 3],
        [0, 3],
        [0, 2],
    ]


def test_the_variable_has_four_states() -> None:
    name = "env.VLLM_USE_V2_MODEL_RUNNER"
    rules = rules_of(
        {name: True},
        {name: False},
        {name: "present"},
        {name: "absent"},
        {name: "malformed"},
        {name: {"is_not": True}},
        {"not": {name: "malformed"}},
    )
    texts: list[str | None] = [None, "0", "1", "yes"]
    found = fired(rules, *({"env": {"VLLM_USE_V2_MODEL_RUNNER": text}} for text in texts))
    assert found == [[3, 5, 6], [1, 2, 5, 6], [0, 2, 6], [2, 4, 5]]


# Types.


def test_the_module_does_not_distinguish_1_true_and_text() -> None:
    assert (
        output_of(
            "handle = made({'x': 1}); print(json.dumps([fired(handle, {'x': value}) for value in (1, True, '1', 1.0)]))"
        )
        == [["r0"]] * 4
    )


@pytest.mark.parametrize("value", [1, "1", "true", 1.0, 0, "", [], {}], ids=repr)
def test_a_boolean_must_be_true_or_false(policy: Policy, value: Any) -> None:
    advice = "; write it without quotes" if value == "true" else ""
    with pytest.raises(
        RequestInvalid, match=rf"is not legal for `model_config\.is_moe`; legal: `true`, `false`{advice}$"
    ):
        read_request({"facts": {"model_config": {"is_moe": value}}}, policy.releases)


@table("value", [True, "2", "0", "02", str(MAX_INTEGER + 1), 2.0, 0, -1, MAX_INTEGER + 1, 2**63, [2], {}], ids=repr)
def test_a_size_must_be_a_whole_number_within_bounds(policy: Policy, value: Any) -> None:
    advice = "; write it without quotes" if value == "2" else ""
    with pytest.raises(RequestInvalid, match=f"legal: a whole number from 1 to {MAX_INTEGER}{advice}$"):
        read_request({"facts": {"parallel_config": {"tensor_parallel_size": value}}}, policy.releases)


def test_the_module_treats_large_numbers_as_equal() -> None:
    assert output_of("print(json.dumps(fired(made({'x': 9223372036854775807}), {'x': 9223372036854775810})))") == ["r0"]


def test_numbers_at_their_bounds_are_distinguished() -> None:
    rules = rules_of(*({"parallel_config.ubatch_size": {"at_least": n}} for n in (0, 1, MAX_INTEGER - 1, MAX_INTEGER)))
    sizes = [0, 1, MAX_INTEGER - 2, MAX_INTEGER - 1, MAX_INTEGER]
    found = fired(rules, *({"parallel_config": {"ubatch_size": size}} for size in sizes))
    assert found == [[0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2, 3]]


def test_the_module_can_treat_a_very_long_text_as_a_short_one() -> None:
    assert output_of("print(json.dumps(fired(made({'x': 'ab'}), {'x': 'ab' + 'c' * 65536})))") == ["r0"]


def test_texts_are_distinguished_up_to_the_maximum_length() -> None:
    name = "parallel_config.distributed_executor_backend"
    texts = ["ray", "ray ", "Ray", "ray\0", "r", "", "ray" + "x" * (MAX_TEXT - 3), "ra\u0443", None]
    found = fired(
        rules_of({name: "ray"}, {name: {"in": ["ray", "mp"]}}),
        *({"parallel_config": {"distributed_executor_backend": text}} for text in texts),
    )
    assert found == [[0, 1], *[[]] * 8]


@pytest.mark.parametrize(
    "facts",
    [
        {"parallel_config": {"distributed_executor_backend": "x" * (MAX_TEXT + 1)}},
        {"model_config": {"architectures": ["x" * (MAX_TEXT + 1)]}},
        {"model_config": {"architectures": ["x"] * (MAX_ITEMS + 1)}},
        {"model_config": {"logits_processors": [1] * (MAX_ITEMS + 1)}},
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1" * (MAX_TEXT + 1)}},
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1\0"}},
    ],
    ids=["text", "text in a list", "list of strings", "list", "variable", "zero byte"],
)
def test_values_that_are_too_long_are_refused_before_the_engine(policy: Policy, facts: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid, match="is not legal for"):
        read_request({"facts": facts}, policy.releases)


def test_deep_lists_crash_the_module() -> None:
    done = raw("""fired(made({'x': 1}), '{"id": 1, "x": ' + '[' * 100000 + ']' * 100000 + '}')""")
    assert done.returncode < 0


def test_deep_lists_never_reach_the_engine(policy: Policy) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert decided(policy, {"model_config": {"logits_processors": deep, "own": deep}, "lora_config": {"own": deep}})[
        :2
    ] == ("v2", "default")


# The definitions.


def operators_in(condition: Any) -> Iterator[str]:
    """The operators of the module in a condition."""
    if isinstance(condition, list):
        for item in condition:
            yield from operators_in(item)
    elif isinstance(condition, dict):
        for key, value in condition.items():
            if key.startswith("$"):
                yield key
            yield from operators_in(value)


def test_rules_use_only_five_operators_of_the_module(policy: Policy) -> None:
    used = {
        operator
        for release in policy.releases.known
        for rule in json.loads(policy.ruleset(release).definition.ruleset).values()
        for operator in operators_in(rule["all"])
    }
    assert used <= {"$and", "$or", "$neq", "$gte", "$lt"}


def test_priorities_are_the_order_of_the_rules_and_the_sentinel_is_the_last(policy: Policy) -> None:
    for release in policy.releases.known:
        definition = json.loads(policy.ruleset(release).definition.ruleset)
        assert [rule["pri"] for rule in definition.values()] == [*range(1, len(definition)), 65_535]


def test_a_refused_ruleset_is_an_engine_error(policy: Policy) -> None:
    definition = policy.ruleset("0.33.0").definition
    with pytest.raises(EngineFailed, match=r"^the engine refuses the rules: "):
        Engine(replace(definition, ruleset="[]"))


def test_a_run_without_its_sentinel_is_an_error(policy: Policy) -> None:
    definition = policy.ruleset("0.33.0").definition
    silent = json.dumps({"0": {"pri": 1, "count": 1, "all": [{"m": {"_0": 1}}]}})
    with pytest.raises(EngineFailed, match=r"^the engine stopped before the last rule$"):
        Engine(replace(definition, ruleset=silent))


# Threads.


def test_eight_threads_get_the_same_answers_as_one(policy: Policy) -> None:
    documents: list[tuple[dict[str, Any], str]] = [
        (
            {
                "model_config": {
                    "architectures": ["Qwen3ForCausalLM", "LlamaForCausalLM", "Other"][n % 3 :],
                    "is_moe": n % 4 == 0,
                },
                "parallel_config": {"pipeline_parallel_size": n % 3 + 1, "enable_dbo": n % 5 == 0},
                "env": {"VLLM_USE_V2_MODEL_RUNNER": [None, "0", "1", "x"][n % 4]},
                "kv_transfer_config": {} if n % 2 else None,
            },
            policy.releases.known[n % 6 + 4],
        )
        for n in range(2000)
    ]
    sequential = [decided(policy, *document) for document in documents]
    with ThreadPoolExecutor(8) as threads:
        concurrent = list(threads.map(lambda document: decided(policy, *document), documents))
    assert concurrent == sequential
