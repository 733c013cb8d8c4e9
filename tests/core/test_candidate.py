"""Candidate rules: overlaid on the loaded ones, evaluated within limits, and compared."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from api.conftest import ROOT, environment, run_forked
from msgspec.structs import replace
from processes import forked_python
from ruletexts import rule_text
from tables import table

from policy.checks import candidate
from policy.checks.candidate import COMMAND, CandidateJob, encode, exit_reason, overlay, run_job
from policy.checks.comparison import (
    ClassOutcome,
    DryRunComparisonOfAll,
    MemberChange,
    SandboxResult,
    compare,
    read_result,
)
from policy.checks.report import comparison_of_all
from policy.errors import RequestFault, RequestInvalid, RulesInvalid
from policy.facts.vocabulary import VARIABLE
from policy.policy import Policy
from policy.render import as_text
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from policy.decision.decision import Decision
    from policy.rules.catalogue import Catalogue

TODAY = date(2026, 1, 1)
KV = {
    "facts": {
        "model_config": {"architectures": ["Qwen3ForCausalLM"]},
        "kv_transfer_config": {"kv_connector": "NixlConnector"},
    }
}


@pytest.fixture(autouse=True)
def _loaded_rules_once(monkeypatch: pytest.MonkeyPatch, catalogue: Catalogue) -> None:
    """Let jobs of this process read only the files that differ from the loaded ones; other processes read all."""

    def load_changed(sources: Sources, *, before: Catalogue | None = None) -> Catalogue:
        return load(sources, before=before or catalogue)

    monkeypatch.setattr(candidate, "load", load_changed)


def rule(name: str, effect: str = "fallback-v1", when: Any = "always", **members: Any) -> str:
    """A rule for every release from 0.22 on, with the fields of a house rule."""
    field = {"exclude-v2": "feature", "exclude-v1": "feature", "advise": "text"}.get(effect, "message")
    document = {
        "id": name,
        "title": "A candidate",
        "effect": effect,
        "owner": "tests",
        "review_by": "2040-01-01",
        "blocked_by": "nothing",
        "why": "For the test.",
        "references": ["https://example.org"],
        field: f"message of {name}",
        **members,
        "releases": [{"vllm": ">=0.22", "when": when}],
    }
    return json.dumps({key: value for key, value in document.items() if value is not None})


def upstream_rule(name: str, effect: str, **members: Any) -> str:
    return rule(name, effect, owner=None, review_by=None, blocked_by=None, **members)


def job(
    sources: Sources, *rules: str, request: Any = KV, remove: list[str] | None = None, seconds: int = 10
) -> CandidateJob:
    return CandidateJob(sources.rules, list(rules), remove or [], request, "0.23.0", TODAY, seconds)


def current(policy: Policy, request: Any = KV) -> Decision:
    return policy.decide(read_request(request, policy.releases), TODAY)


# Overlays.


def test_a_candidate_replaces_the_rule_with_its_id(sources: Sources) -> None:
    text = rule("kv-connector-fallback")
    texts, ids = overlay(sources.rules, [text], [])
    assert (texts, ids) == ({**sources.rules, "house/kv-connector-fallback.yaml": text}, ["kv-connector-fallback"])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (rule("new-rule"), "house/new-rule.yaml"),
        (rule("new-rule", "advise"), "house/new-rule.yaml"),
        (upstream_rule("new-rule", "exclude-v2", order=5), "upstream/new-rule.yaml"),
        (upstream_rule("new-rule", "not-default"), "upstream/new-rule.yaml"),
        ("id: new-rule", "house/new-rule.yaml"),
        ("id: new-rule\neffect: [advise]", "house/new-rule.yaml"),
        (rule("releases"), "house/releases.yaml"),
        (rule("ray"), "house/ray.yaml"),
        (rule("microbatching"), "house/microbatching.yaml"),
    ],
    ids=[
        "house effect",
        "effect of both",
        "upstream effect",
        "another",
        "no effect",
        "no text",
        "named like the list of releases",
        "named like a file of images",
        "named like a condition",
    ],
)
def test_a_new_candidate_goes_to_the_layer_of_its_effect(sources: Sources, text: str, path: str) -> None:
    texts, _ = overlay(sources.rules, [text], [])
    assert texts == {**sources.rules, path: text}


def test_a_condition_may_be_a_candidate_too(sources: Sources) -> None:
    text = json.dumps(
        {
            "id": "microbatching",
            "why": "For the test.",
            "releases": [{"vllm": ">=0.30", "when": {"lora_config": "present"}}],
        }
    )
    assert overlay(sources.rules, [text], [])[0]["upstream/conditions/microbatching.yaml"] == text


def test_a_condition_with_a_fault_replaces_the_loaded_one(sources: Sources) -> None:
    text = "id: microbatching\nwhy: For the test.\nranges: []\n"
    assert overlay(sources.rules, [text], [])[0] == {**sources.rules, "upstream/conditions/microbatching.yaml": text}


def test_a_rule_and_a_condition_may_have_one_id(sources: Sources) -> None:
    path = "upstream/conditions/microbatching.yaml"
    condition = sources.rules[path] + "# edited\n"
    both = {**sources.rules, "house/microbatching.yaml": rule("microbatching"), path: condition}
    texts, ids = overlay(sources.rules, [rule("microbatching"), condition], [])
    assert (texts, ids) == (both, ["microbatching", "microbatching"])
    assert overlay(both, [], ["microbatching"])[0] == {**sources.rules, path: condition}
    assert overlay(sources.rules, [], ["microbatching"])[0].keys() == sources.rules.keys() - {path}


def test_a_file_of_images_cannot_be_removed_as_a_rule(sources: Sources) -> None:
    assert "images/vllm.yaml" in sources.rules
    with pytest.raises(RequestInvalid) as raised:
        overlay(sources.rules, [], ["vllm"])
    assert [(fault.pointer, fault.message) for fault in raised.value.faults] == [("/remove/0", "unknown rule `vllm`")]
    texts = {**sources.rules, "house/ray.yaml": rule("ray")}
    assert overlay(texts, [], ["ray"]) == (dict(sources.rules), ["ray"])


def test_a_rule_can_be_removed_and_added_again(sources: Sources) -> None:
    path = "house/kv-connector-fallback.yaml"
    without = {name: text for name, text in sources.rules.items() if name != path}
    assert overlay(sources.rules, [], ["kv-connector-fallback"]) == (without, ["kv-connector-fallback"])
    assert (
        overlay(sources.rules, [rule("kv-connector-fallback")], ["kv-connector-fallback"])[0].keys()
        == sources.rules.keys()
    )


def test_an_overlay_does_not_change_the_base(sources: Sources) -> None:
    before = dict(sources.rules)
    overlay(sources.rules, [rule("kv-connector-fallback"), rule("new-rule")], ["moe"])
    assert sources.rules == before


def test_unknown_ids_to_remove_are_faults(sources: Sources) -> None:
    with pytest.raises(RequestInvalid) as raised:
        overlay(sources.rules, ["["], ["kv-connector-fallbak", "moe", "zzz"])
    assert [(fault.pointer, fault.message) for fault in raised.value.faults] == [
        ("/remove/0", "unknown rule `kv-connector-fallbak`; did you mean `kv-connector-fallback`?"),
        ("/remove/2", "unknown rule `zzz`"),
    ]
    with pytest.raises(RequestInvalid) as raised:
        overlay(sources.rules, [], ["default-v2"])
    assert [fault.message for fault in raised.value.faults] == ["unknown rule `default-v2`"]


def test_a_candidate_that_is_given_twice_is_a_fault(sources: Sources) -> None:
    with pytest.raises(
        RulesInvalid, match=r"^rules\[2\]:1:1: the rule `twice` is already in rules\[0\]; send each rule once$"
    ):
        overlay(sources.rules, [rule("twice"), rule("once"), rule("twice", effect="force-v2")], [])


def test_all_candidates_that_cannot_be_overlaid_are_reported_at_once(sources: Sources) -> None:
    with pytest.raises(RulesInvalid) as raised:
        overlay(
            sources.rules,
            [
                "",
                "- id: a",
                "title: none",
                "id: Upper",
                "id: 7",
                "a: [",
                rule("fine"),
                "\n\n  7",
                "a: \ud800",
                "id: ../up",
            ],
            [],
        )
    message = "the rule has no `id` in lower-case words with hyphens; add it"
    assert [str(fault) for fault in raised.value.faults] == [
        "rules[0]:1:1: empty; expected a document",
        f"rules[1]:1:1: {message}",
        f"rules[2]:1:1: {message}",
        f"rules[3]:1:1: {message}",
        f"rules[4]:1:1: {message}",
        "rules[5]:1:4: not YAML: the bracket `[` is not closed with `]`, or a comma is missing between its items",
        f"rules[7]:3:3: {message}",
        "rules[8]:1:1: not YAML: a lone surrogate",
        f"rules[9]:1:1: {message}",
    ]


# Evaluation.


def test_a_candidate_is_evaluated_on_the_request(sources: Sources) -> None:
    result = run_job(job(sources, rule("kv-connector-fallback", when={"kv_transfer_config.kv_role": "present"})))
    assert result.decision
    assert (result.decision.runner, result.rules, result.faults, result.request_faults, result.failed) == (
        "v2",
        ["kv-connector-fallback"],
        [],
        [],
        None,
    )


def test_faults_in_a_candidate_name_the_file_that_it_would_be(sources: Sources) -> None:
    result = run_job(job(sources, rule("new-rule", effect="fallback-v3", review_by="soon")))
    assert result == SandboxResult(faults=result.faults)
    assert [(fault.path, fault.message) for fault in result.faults] == [
        (
            "house/new-rule.yaml",
            (
                "unknown effect `fallback-v3` of the house layer; legal: `fallback-v1`, `force-v2`, `advise`, "
                "`known-problem`; did you mean `fallback-v1`?"
            ),
        ),
        ("house/new-rule.yaml", "invalid date `soon`; write it as `2027-01-31`"),
    ]


def test_removing_the_rule_that_decides_last_is_a_fault(sources: Sources) -> None:
    result = run_job(job(sources, remove=["v2-by-default"]))
    assert [(fault.path, fault.message) for fault in result.faults][:1] == [
        (
            "releases.yaml",
            "no rule decides in 0.22.0 to 0.33.0 if no other rule fires; add a `default-v2` rule with `when: always`",
        )
    ]


def test_rules_for_the_set_variable_alone_are_a_fault_in_releases_where_it_may_be_unset(sources: Sources) -> None:
    on = rule_text("on", "override-v2", {VARIABLE: True})
    off = rule_text("off", "not-default", {VARIABLE: False})
    result = run_job(job(sources, on, off, request={"facts": {}}, remove=["v2-by-default"]))
    found = [fault.message for fault in result.faults if fault.path == "releases.yaml"]
    assert found[:1] == [
        "no rule decides in 0.22.0 to 0.33.0 if no other rule fires; add a `default-v2` rule with `when: always`"
    ]


FALSE_IS_V1 = f"a `not-default` rule with `when: {{{VARIABLE}: false}}`"
TRUE_IS_V2 = f"an `override-v2` rule with `when: {{{VARIABLE}: true}}`"


@pytest.mark.parametrize(
    ("rules", "releases", "missing"),
    [
        (["opt-in"], "0.12.0 to 0.21.0", FALSE_IS_V1),
        (["opt-in", "variable-true"], "0.12.0 to 0.21.0", f"{FALSE_IS_V1} and {TRUE_IS_V2}"),
        (["v1-only"], "0.3.0 to 0.11.2", "a `not-default` rule with `when: always`"),
    ],
    ids=["variable unset", "variable unset or true", "V1 alone"],
)
def test_one_fault_names_all_releases_in_which_nothing_decides_and_what_is_missing(
    sources: Sources, rules: list[str], releases: str, missing: str
) -> None:
    result = run_job(job(sources, remove=rules))
    assert [fault.message for fault in result.faults if fault.path == "releases.yaml"] == [
        f"no rule decides in {releases} if no other rule fires; add {missing}"
    ]


def test_faults_of_the_request_are_reported(sources: Sources) -> None:
    assert run_job(job(sources, request={"facts": {}, "vllm_version": "newest", "explain": 1})) == SandboxResult(
        request_faults=[
            RequestFault("/vllm_version", "invalid version `newest`; write it as `0.23.0` or `v0.23.0`"),
            RequestFault("/explain", "expected `true` or `false`, got `1`"),
        ],
        problem="invalid-request",
    )


def test_rules_that_the_engine_refuses_are_reported(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policy.engine.compiler.MAX_UNGROUPED", 0)
    monkeypatch.setattr("policy.engine.compiler.MAX_GROUPS", 0)
    assert run_job(job(sources)) == SandboxResult(failed="expected at most 0 conditions in a release, got 4")


def test_a_result_is_unchanged_by_encoding_and_decoding(sources: Sources) -> None:
    for result in (
        run_job(job(sources, request={**KV, "explain": True})),
        run_job(job(sources, "id: broken")),
        run_job(job(sources, request=[])),
    ):
        assert read_result(encode(result)) == result


# Comparison.


def test_a_comparison_names_every_changed_field_and_the_rule_that_changes_it(sources: Sources, policy: Policy) -> None:
    found = compare(
        current(policy),
        run_job(job(sources, rule("kv-connector-fallback", when={"kv_transfer_config.kv_role": "present"}))),
    )
    rules = ["kv-connector-fallback"]
    assert (found.current.runner, found.candidate.runner) == ("v1", "v2")
    assert found.changes == [
        MemberChange("runner", "v1", "v2", rules),
        MemberChange("outcome", "fallback", "default", rules),
        MemberChange("set_env", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, {}, rules),
    ]


def test_a_change_is_written_with_from_and_to() -> None:
    assert msgspec.to_builtins(MemberChange("runner", "v1", "v2", ["a"])) == {
        "member": "runner",
        "from": "v1",
        "to": "v2",
        "rules": ["a"],
    }


def test_a_removed_rule_is_named(sources: Sources, policy: Policy) -> None:
    found = compare(current(policy), run_job(job(sources, remove=["kv-connector-fallback", "moe"])))
    assert [(change.member, change.rules) for change in found.changes if isinstance(change, MemberChange)] == [
        ("runner", ["kv-connector-fallback"]),
        ("outcome", ["kv-connector-fallback"]),
        ("set_env", ["kv-connector-fallback"]),
    ]


def test_if_no_changed_rule_is_a_reason_the_differing_reasons_are_named(sources: Sources, policy: Policy) -> None:
    request = {"vllm_version": "0.30.0", "facts": {"parallel_config": {"ubatch_size": 2}}}
    text = json.dumps(
        {
            "id": "microbatching",
            "why": "For the test.",
            "releases": [{"vllm": ">=0.30", "when": {"parallel_config.enable_dbo": True}}],
        }
    )
    found = compare(current(policy, request), run_job(job(sources, text, request=request)))
    rules = ["dual-batch-overlap", "advise-v2-unsupported", "v2-by-default"]
    assert [(change.member, change.rules) for change in found.changes if isinstance(change, MemberChange)] == [
        (member, rules) for member in ("runner", "outcome", "unsupported_features", "upstream", "warnings")
    ]


def test_a_candidate_that_changes_nothing_gives_no_changes(sources: Sources, policy: Policy) -> None:
    assert (
        compare(current(policy), run_job(job(sources, rule("new-rule", when={"lora_config": "present"})))).changes == []
    )


def test_a_known_problem_that_is_described_otherwise_is_a_change(sources: Sources) -> None:
    crash, slow = (
        rule_text("problem", "known-problem", symptom=symptom, certainty=certainty, **fix)
        for symptom, certainty, fix in (("crash", "reported", {}), ("slow", "confirmed", {"fixed_in": "0.99.0"}))
    )
    loaded = Sources({**sources.rules, "upstream/problem.yaml": crash.replace(">=0.22", ">=0.22,<0.99")})
    found = compare(
        current(Policy(load(loaded), compile_all=False)),
        run_job(job(loaded, slow.replace(">=0.22", ">=0.22,<0.99"))),
    )
    assert found.changes == [
        MemberChange("symptom", "crash", "slow", ["problem"]),
        MemberChange("certainty", "reported", "confirmed", ["problem"]),
        MemberChange("fixed_in", None, "0.99.0", ["problem"]),
    ]


def test_changes_for_all_name_a_known_problem_that_is_described_otherwise(sources: Sources) -> None:
    crash, slow = (
        rule_text("problem", "known-problem", symptom=each, certainty="reported") for each in ("crash", "slow")
    )
    loaded = Sources({**sources.rules, "upstream/problem.yaml": crash})
    decided = current(Policy(load(loaded), compile_all=False))
    found = compare(decided, run_job(replace(job(loaded, slow), for_all=True)))
    assert isinstance(found, DryRunComparisonOfAll)
    assert (found.changes, found.known_problems) == ([], ["problem"])
    assert as_text(comparison_of_all(found)).splitlines()[:2] == [
        "the candidate rules change no runner, start or reason of any deployment (proved)",
        "the known problem problem is changed; answers with it differ",
    ]
    same = compare(decided, run_job(replace(job(loaded, crash), for_all=True)))
    assert isinstance(same, DryRunComparisonOfAll)
    assert (same.changes, same.known_problems) == ([], msgspec.UNSET)


def test_changes_for_all_have_those_of_vllms_own_decision_that_house_rules_hide(sources: Sources) -> None:
    when = {VARIABLE: "absent", "kv_transfer_config": "present"}
    refusal = rule_text("refusal", "refuse-v2", when, vllm=">=0.24,<0.25", order=9999)
    request = {**KV, "vllm_version": "0.24.0", "layers": ["upstream"]}
    found = run_job(replace(job(sources, refusal, request=request), for_all=True))
    assert found.decision is not None
    assert not found.decision.starts
    assert found.affected
    assert {each.rule for each in found.affected} == {"refusal"}
    assert {(each.to.runner, each.to.starts) for each in found.affected} == {("v1", True)}
    alone = [each.to.upstream for each in found.affected]
    assert all(isinstance(each, ClassOutcome) and not each.starts for each in alone)
    compared = compare(found.decision, found)
    assert isinstance(compared, DryRunComparisonOfAll)
    shown = as_text(comparison_of_all(compared))
    assert shown.splitlines()[2].startswith(
        "0.24.0     refusal   V1, starts (vLLM alone: V2,       V1, starts (vLLM alone: V2,"
    )


def test_a_candidate_that_was_refused_cannot_be_compared(sources: Sources, policy: Policy) -> None:
    decision = current(policy)
    with pytest.raises(RulesInvalid, match=r"^house/new-rule\.yaml:"):
        compare(decision, run_job(job(sources, "id: new-rule")))
    with pytest.raises(RequestInvalid, match=r"expected one of `facts`, `deployment`, `manifest`"):
        compare(decision, run_job(job(sources, request={})))
    with pytest.raises(RulesInvalid, match=r"^rules:1:1: it broke$"):
        compare(decision, SandboxResult(failed="it broke"))


# The process.


def run(work: CandidateJob) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(COMMAND, input=encode(work), capture_output=True, timeout=60, check=False)


def test_the_process_gives_the_result_of_a_call(sources: Sources) -> None:
    done = run(job(sources, rule("new-rule", when={"lora_config": "present"}), request={**KV, "explain": True}))
    found, expected = (
        read_result(done.stdout),
        run_job(job(sources, rule("new-rule", when={"lora_config": "present"}), request={**KV, "explain": True})),
    )
    assert found.decision
    assert expected.decision
    assert msgspec.structs.replace(found.decision, decision_id="") == msgspec.structs.replace(
        expected.decision, decision_id=""
    )
    assert (found.rules, done.returncode, done.stderr) == (["new-rule"], 0, b"")


SIZES = [
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "decode_context_parallel_size",
]


@table(
    "text",
    [
        rule("hostile", when={"all": [{"parallel_config.ubatch_size": {"at_least": n}} for n in range(1000)]}),
        rule(
            "hostile",
            when={
                "all": [
                    {"any": [{f"parallel_config.{size}": {"at_least": n + 1}} for size in SIZES]} for n in range(15)
                ]
            },
        ),
        "id: hostile\nwhen: " + "{not: " * 200 + "{lora_config: present}" + "}" * 200,
        "id: hostile\nwhen: " + "[" * 100_000,
        "id: hostile\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10) if n else '1'}]\n" for n in range(12)),
        "id: hostile\n" + "".join(f"key{n}: {n}\n" for n in range(30_000)),
        rule("hostile", why="(a+)+$" * 30_000, message="{" * 10_001),
        rule("hostile", message="{a!r:{b!s:{c}}}" * 5_000),
        rule("a" + "-a" * 20_000 + "-"),
        "id: hostile\nreleases: [{vllm: '" + ",".join([">=0.22"] * 20_000) + "'}]",
        "id: hostile\norder: " + "9" * 200_000,
        "id: hostile\norder: 1" + ":59" * 60_000,
        "id: hostile\norder: 0x" + "f" * 200_000,
        "x" * 1_000_000,
    ],
    ids=[
        "conditions",
        "alternatives",
        "negations",
        "depth",
        "aliases",
        "keys",
        "braces",
        "nested braces",
        "id",
        "range",
        "number",
        "sexagesimal number",
        "hexadecimal number",
        "size",
    ],
)
def test_a_hostile_candidate_is_refused_with_short_messages_within_the_limits(sources: Sources, text: str) -> None:
    done = run_forked([*COMMAND], encode(job(sources, text, seconds=5)), ROOT, environment())
    result = read_result(done.out.encode())
    assert (result.decision, result.faults != [], done.code, done.err) == (None, True, 0, "")
    assert [fault.message for fault in result.faults if len(fault.message) > 1000] == []


def test_many_long_lists_are_evaluated_within_the_limits(sources: Sources) -> None:
    rules = [
        rule(f"long-{n}", when={"kv_transfer_config.kv_connector": {"in": [f"Connector{n}x{m}" for m in range(600)]}})
        for n in range(10)
    ]
    result = read_result(
        run(
            job(sources, *rules, rule("nixl", when={"kv_transfer_config.kv_connector": {"in": ["a", "NixlConnector"]}}))
        ).stdout
    )
    assert result.decision
    assert [reason.rule for reason in result.decision.reasons if reason.decisive] == ["kv-connector-fallback", "nixl"]


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
@pytest.mark.parametrize(
    ("evaluation", "seconds", "code", "message"),
    [
        (
            "while True: pass",
            1,
            -signal.SIGXCPU,
            "the candidate rules took more than 1 s; make their conditions simpler",
        ),
        (
            "os.abort()",
            10,
            -signal.SIGABRT,
            "the candidate rules crashed the engine (signal 6); make their conditions simpler",
        ),
        (
            "os.kill(os.getpid(), 9)",
            10,
            -signal.SIGKILL,
            (
                "the process that evaluates the candidate rules was killed (signal 9), as by a machine without memory; "
                "send the request again"
            ),
        ),
        (
            "bytearray(2 << 30)",
            10,
            71,
            "the candidate rules need more memory than a dry run may use; make their conditions simpler",
        ),
        (
            "raise ValueError",
            10,
            1,
            (
                "the process that evaluates the candidate rules failed with the exit code 1; try it again, and report "
                "it as a defect of Runner Policy if it fails again"
            ),
        ),
    ],
    ids=["time", "crash", "killed", "memory", "defect"],
)
def test_exceeding_a_limit_ends_the_process(
    sources: Sources, evaluation: str, seconds: int, code: int, message: str
) -> None:
    script = f"""\
import os
from policy.checks import candidate
def run_job(job):
    {evaluation}
candidate.run_job = run_job
candidate.main()
"""
    command = [forked_python(), "-c", script]
    done = subprocess.run(
        command, input=encode(job(sources, seconds=seconds)), capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, exit_reason(done.returncode, seconds)) == (code, message)
