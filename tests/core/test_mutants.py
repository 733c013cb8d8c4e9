"""How each rule is mutated, and which mutants its cases kill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ruletexts import rule_text

from policy.checks.cases import read_accepted_mutants, read_cases
from policy.checks.mutants import mutants, mutate
from policy.checks.request_cases import read_request_cases
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue
    from policy.rules.request_rule import RequestRule
    from policy.rules.rule import NamedCondition, Rule

RELEASES = "known: ['0.22.0', '0.23.0', '0.24.0']\ndefault: '0.24.0'\n"
PP = "parallel_config.pipeline_parallel_size"


def catalogue_of(*, conditions: dict[str, Any] | None = None, **members: Any) -> Catalogue:
    named = {
        f"upstream/conditions/{name}.yaml": yaml.safe_dump(
            {"id": name, "why": "Because.", "releases": [{"vllm": ">=0.22", "when": when}]}
        )
        for name, when in (conditions or {}).items()
    }
    return load(
        Sources(
            {
                "releases.yaml": RELEASES,
                "upstream/v2.yaml": rule_text("v2", "default-v2"),
                "upstream/example.yaml": rule_text("example", **{"effect": "not-default", **members}),
                **named,
            }
        )
    )


def changes(catalogue: Catalogue, name: str = "example") -> list[tuple[str, str]]:
    items: dict[str, Rule | RequestRule | NamedCondition] = {
        **{rule.id: rule for rule in catalogue.rules},
        **{rule.id: rule for rule in catalogue.request_rules},
        **catalogue.conditions,
    }
    return [(mutant.range, mutant.change) for mutant in mutants(items[name], catalogue.releases)]


WHEN: list[tuple[Any, list[str]]] = [
    ({"model_config.is_moe": True}, ["when: without `model_config.is_moe: True`"]),
    (
        {PP: {"at_least": 2}},
        [
            f"when: without `{PP}: {{'at_least': 2}}`",
            f"when: `{PP}: {{'at_least': 2}}` with 1",
            f"when: `{PP}: {{'at_least': 2}}` with 3",
        ],
    ),
    (
        {"speculative_config.method": {"not_in": ["ngram", "eagle"]}},
        [
            "when: without `speculative_config.method: {'not_in': ['ngram', 'eagle']}`",
            "when: `speculative_config.method` without `eagle`",
            "when: `speculative_config.method` without `ngram`",
        ],
    ),
    (
        {"any": [{"model_config.is_moe": True}, {"uses": "hybrid"}], "model_config.use_mla": False},
        [
            "when: without `model_config.is_moe: True`",
            "when: without `uses: hybrid`",
            "when: without `model_config.use_mla: False`",
        ],
    ),
]


@pytest.mark.parametrize(("when", "expected"), WHEN)
def test_each_condition_bound_and_list_value_is_mutated(when: Any, expected: list[str]) -> None:
    hybrid = {"all": [{"model_config.is_hybrid": True}, {"model_config.use_mla": True}]}
    catalogue = catalogue_of(
        conditions={"hybrid": hybrid}, releases=[{"vllm": ">=0.22", "message": "words", "when": when}]
    )
    bounds = ["vllm: without 0.22.0", "vllm: without 0.24.0"]
    assert sorted(changes(catalogue)) == sorted((">=0.22", change) for change in expected + bounds)
    assert changes(catalogue, "hybrid") == [
        (">=0.22", "without `model_config.is_hybrid: True`"),
        (">=0.22", "without `model_config.use_mla: True`"),
    ]


def test_a_range_is_extended_to_a_release_that_no_other_range_has() -> None:
    ranges = [
        {"vllm": ">=0.22,<0.23", "message": "then", "when": "always"},
        {"vllm": ">=0.23,<0.24", "message": "now", "when": "always"},
    ]
    assert changes(catalogue_of(releases=ranges)) == [(">=0.23,<0.24", "vllm: 0.24.0 as well")]


def test_fields_that_refer_to_the_decision_are_mutated_too() -> None:
    members: dict[str, Any] = {
        "effect": "advise",
        "runner": "v2",
        "decided_by": ["v2"],
        "unless": ["refuse-v2"],
        "requires_any": ["exclude-v1", "v2"],
    }
    catalogue = catalogue_of(**members, releases=[{"vllm": ">=0.24", "text": "words", "when": "always"}])
    assert changes(catalogue) == [
        (">=0.24", "requires_any: without `exclude-v1`"),
        (">=0.24", "requires_any: without `v2`"),
        (">=0.24", "unless: without `refuse-v2`"),
        (">=0.24", "decided_by: without `v2`"),
        (">=0.24", "runner: without `v2`"),
        (">=0.24", "vllm: 0.23.0 as well"),
    ]


MOE: list[dict[str, Any]] = [
    {
        "name": "experts",
        "vllm": ["0.23.0"],
        "given": {"model_config": {"is_moe": True, "is_hybrid": True}},
        "fires": True,
    },
    {"name": "none", "vllm": ["0.23.0"], "given": {"model_config": {"is_hybrid": True}}, "fires": False},
    {
        "name": "before",
        "vllm": ["0.22.0"],
        "given": {"model_config": {"is_moe": True, "is_hybrid": True}},
        "fires": False,
    },
]
DENSE = {"name": "not hybrid", "vllm": ["0.23.0"], "given": {"model_config": {"is_moe": True}}, "fires": False}
AFTER = {
    "name": "after",
    "vllm": ["0.24.0"],
    "given": {"model_config": {"is_moe": True, "is_hybrid": True}},
    "fires": False,
}
ACCEPTED = {"vllm": ">=0.23,<0.24", "change": "when: without `model_config.is_hybrid: True`", "why": "For the test."}
TRIALS: list[tuple[list[dict[str, Any]], list[dict[str, Any]], tuple[list[str], int, int]]] = [
    ([*MOE, AFTER, DENSE], [], ([], 0, 0)),
    ([*MOE, AFTER], [], ([ACCEPTED["change"]], 0, 0)),
    ([*MOE, DENSE, {**AFTER, "given": {}}], [], (["vllm: 0.24.0 as well"], 0, 0)),
    ([*MOE, AFTER], [ACCEPTED], ([], 1, 0)),
    ([*MOE, AFTER, DENSE], [ACCEPTED], ([], 0, 1)),
]


@pytest.mark.parametrize(("cases", "accepted", "expected"), TRIALS)
def test_a_mutant_that_no_case_kills_survives_unless_it_is_accepted(
    cases: list[dict[str, Any]], accepted: list[dict[str, Any]], expected: tuple[list[str], int, int]
) -> None:
    when = {"model_config.is_moe": True, "model_config.is_hybrid": True}
    catalogue = catalogue_of(releases=[{"vllm": ">=0.23,<0.24", "message": "words", "when": when}])
    near = {"name": "none", "vllm": ["0.24.0"], "given": {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}, "fires": False}
    texts = {
        "upstream/example_test.yaml": yaml.safe_dump(
            {"rule": "example", "cases": cases, **({"accepted_mutants": accepted} if accepted else {})}
        ),
        "upstream/v2_test.yaml": yaml.safe_dump(
            {
                "rule": "v2",
                "cases": [{**near, "given": {}, "fires": True}, {**near, "given": MOE[0]["given"], "vllm": ["0.23.0"]}],
            }
        ),
    }
    own = [case for case in read_cases(texts, catalogue) if case.rule == "example"]
    trial = mutate(catalogue, own, accepted=read_accepted_mutants(texts))
    found = [mutant.change for mutant in trial.survivors if mutant.item.id == "example"]
    assert (found, len(trial.accepted), len(trial.outdated)) == expected


def test_a_condition_is_tested_by_the_cases_of_the_rules_that_use_it() -> None:
    catalogue = catalogue_of(
        conditions={"sparse": {"all": [{"model_config.is_moe": True}, {"model_config.is_hybrid": True}]}},
        releases=[{"vllm": ">=0.23,<0.24", "message": "words", "when": {"uses": "sparse"}}],
    )
    texts = {"upstream/example_test.yaml": yaml.safe_dump({"rule": "example", "cases": [*MOE, AFTER]})}
    with_v2 = {
        **texts,
        "upstream/v2_test.yaml": yaml.safe_dump(
            {"rule": "v2", "cases": [{**MOE[1], "fires": True}, {**MOE[0], "fires": False}]}
        ),
    }
    own = [case for case in read_cases(with_v2, catalogue) if case.rule == "example"]
    assert [mutant.change for mutant in mutate(catalogue, own).survivors if mutant.item.id == "sparse"] == [
        "without `model_config.is_hybrid: True`"
    ]


BIASES = {
    "id": "biases",
    "title": "Biases",
    "effect": "request-refused",
    "parameter": "logit_bias",
    "runner": "v2",
    "why": "Because.",
    "references": ["https://github.com/vllm-project/vllm/pull/1"],
    "releases": [
        {
            "vllm": ">=0.23",
            "text": "words",
            "when": {"request.logit_bias": {"more_than": 2}, "request.api": {"in": ["chat", "completion"]}},
        }
    ],
}


def with_requests(rule: dict[str, Any]) -> Catalogue:
    texts = {
        "releases.yaml": RELEASES,
        "upstream/v2.yaml": rule_text("v2", "default-v2"),
        "upstream/requests/biases.yaml": yaml.safe_dump(rule),
    }
    return load(Sources(texts))


def test_rules_about_requests_are_mutated_too() -> None:
    assert sorted(changes(with_requests(BIASES), "biases")) == [
        (">=0.23", "runner: without `v2`"),
        (">=0.23", "vllm: 0.22.0 as well"),
        (">=0.23", "vllm: without 0.23.0"),
        (">=0.23", "vllm: without 0.24.0"),
        (">=0.23", "when: `request.api` without `chat`"),
        (">=0.23", "when: `request.api` without `completion`"),
        (">=0.23", "when: `request.logit_bias: {'more_than': 2}` with 1"),
        (">=0.23", "when: `request.logit_bias: {'more_than': 2}` with 3"),
        (">=0.23", "when: without `request.api: {'in': ['chat', 'completion']}`"),
        (">=0.23", "when: without `request.logit_bias: {'more_than': 2}`"),
    ]


def request_case(biases: int, *, fires: bool, api: str = "chat", vllm: str = "0.23.0", **more: str) -> dict[str, Any]:
    given = {"request": {"logit_bias": biases, "api": api}}
    return {"name": f"{biases} {api} {vllm}", "vllm": [vllm], "given": given, "fires": fires, **more}


NEEDED = [
    request_case(3, fires=True, vllm="0.24.0"),
    request_case(3, fires=True),
    request_case(2, fires=False),
    request_case(3, fires=False, vllm="0.22.0"),
]
REST = [
    request_case(3, fires=True, api="completion"),
    request_case(3, fires=False, api="sampling_params"),
    request_case(3, fires=False, runner="v1"),
]
WITHOUT_REST = [
    "when: without `request.api: {'in': ['chat', 'completion']}`",
    "when: `request.api` without `completion`",
    "runner: without `v2`",
]
COMPLETION = {"vllm": ">=0.23", "change": WITHOUT_REST[1], "why": "For the test."}
REQUEST_TRIALS: list[tuple[list[dict[str, Any]], list[dict[str, Any]], tuple[list[str], int, int]]] = [
    ([*NEEDED, *REST], [], ([], 0, 0)),
    (NEEDED, [], (WITHOUT_REST, 0, 0)),
    ([*NEEDED, *REST[1:]], [COMPLETION], ([], 1, 0)),
    ([*NEEDED, *REST], [COMPLETION], ([], 0, 1)),
]


@pytest.mark.parametrize(("cases", "accepted", "expected"), REQUEST_TRIALS)
def test_a_mutant_of_a_rule_about_requests_is_killed_by_its_cases_or_accepted(
    cases: list[dict[str, Any]], accepted: list[dict[str, Any]], expected: tuple[list[str], int, int]
) -> None:
    catalogue = with_requests(BIASES)
    document = {"rule": "biases", "cases": cases, **({"accepted_mutants": accepted} if accepted else {})}
    texts = {"upstream/requests/biases_test.yaml": yaml.safe_dump(document)}
    own = read_request_cases(texts, catalogue)
    trial = mutate(catalogue, [], own, accepted=read_accepted_mutants(texts))
    found = [mutant.change for mutant in trial.survivors if mutant.item.id == "biases"]
    assert (found, len(trial.accepted), len(trial.outdated)) == expected
