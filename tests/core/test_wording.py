"""Conditions and their changes in words, for each operator."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ruletexts import rule_text
from tables import table

from policy.rules.catalogue import load
from policy.rules.condition_changes import condition_changes, parts_key
from policy.rules.loader import Sources
from policy.rules.wording import Wording

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue
    from policy.rules.conditions import Condition

RELEASES = "known: ['0.23.0']\ndefault: '0.23.0'\n"
NAMED = "id: named\nwhy: Because.\nreleases: [{vllm: '>=0.22', when: {model_config.is_moe: true}}]\n"
CONNECTOR = "kv_transfer_config.kv_connector"
METHOD = "speculative_config.method"
TEXTS = "model_config.architectures"
SIZE = "parallel_config.pipeline_parallel_size"
VARIABLE = "env.VLLM_USE_V2_MODEL_RUNNER"


def read(when: Any) -> Condition | None:
    """The condition of a rule, as its file is read."""
    sources = {
        "releases.yaml": RELEASES,
        "upstream/conditions/named.yaml": NAMED,
        "upstream/v2.yaml": rule_text("v2", "default-v2"),
        "upstream/x.yaml": rule_text("x", "not-default", when),
    }
    rule = load(Sources(sources)).rule("x")
    assert rule is not None
    return rule.ranges[0].when


@table(
    ("when", "words"),
    [
        ("always", "always"),
        ({"model_config.is_moe": True}, "model_config.is_moe is true"),
        ({"model_config.is_moe": {"is_not": True}}, "model_config.is_moe is false"),
        ({METHOD: "dflash"}, f"{METHOD} is dflash"),
        ({METHOD: {"is_not": "dflash"}}, f"{METHOD} is not dflash"),
        ({METHOD: {"in": ["eagle", "mtp", "dflash"]}}, f"{METHOD} is eagle, mtp or dflash"),
        ({METHOD: {"not_in": ["eagle", "mtp"]}}, f"{METHOD} is none of eagle, mtp"),
        ({METHOD: {"not_in": ["eagle"]}}, f"{METHOD} is not eagle"),
        ({METHOD: "absent"}, f"{METHOD} is not set"),
        ({TEXTS: {"has_any_of": ["A", "B"]}}, f"{TEXTS} has A or B"),
        ({TEXTS: {"has_none_of": ["A", "B"]}}, f"{TEXTS} has none of A, B"),
        ({TEXTS: {"has_other_than": ["A"]}}, f"{TEXTS} has something other than A"),
        ({"not": {TEXTS: {"has_other_than": ["A"]}}}, f"{TEXTS} has nothing other than A"),
        ({TEXTS: {"first_is_in": ["A"]}}, f"{TEXTS} begins with A"),
        ({"not": {TEXTS: {"first_is_in": ["A"]}}}, f"{TEXTS} does not begin with A"),
        ({TEXTS: "not_empty"}, f"{TEXTS} is not empty"),
        ({"not": {TEXTS: "not_empty"}}, f"{TEXTS} is empty"),
        ({TEXTS: {"has_any_of": list("ABCDEFGH")}}, f"{TEXTS} has A, B, C, D, E, F and 2 more"),
        ({SIZE: {"at_least": 2}}, f"{SIZE} is at least 2"),
        ({"not": {SIZE: {"at_least": 2}}}, f"{SIZE} is less than 2"),
        ({SIZE: 4}, f"{SIZE} is 4"),
        ({VARIABLE: "present"}, f"{VARIABLE} is set"),
        ({VARIABLE: "absent"}, f"{VARIABLE} is not set"),
        ({VARIABLE: "malformed"}, f"{VARIABLE} is not an integer"),
        ({"not": {VARIABLE: "malformed"}}, f"{VARIABLE} is an integer or not set"),
        ({VARIABLE: False}, f"{VARIABLE} is false"),
        ({"lora_config": "present"}, "lora_config is present"),
        ({"lora_config": "absent"}, "lora_config is absent"),
        ({"uses": "named"}, "the condition named holds"),
        ({"not": {"uses": "named"}}, "the condition named does not hold"),
        (
            {"kv_transfer_config": "present", CONNECTOR: "a"},
            f"{CONNECTOR} is a",
        ),
        (
            {"kv_transfer_config": "present", CONNECTOR: {"is_not": "a"}},
            f"kv_transfer_config is present and {CONNECTOR} is not a",
        ),
        (
            {"platform.is_rocm": True, "any": [{"lora_config": "present", SIZE: 2}, {"model_config.is_moe": True}]},
            f"((lora_config is present and {SIZE} is 2) or model_config.is_moe is true) and platform.is_rocm is true",
        ),
    ],
)
def test_a_condition_is_written_in_words(when: Any, words: str) -> None:
    assert Wording(str).condition(read(when)) == words


MOE = {"model_config.is_moe": True}


@table(
    ("before", "after", "sentences"),
    [
        # the same parts
        (MOE, MOE, []),
        ({METHOD: "mtp"}, {METHOD: {"in": ["mtp"]}}, []),
        ({METHOD: {"in": ["mtp", "eagle"]}}, {METHOD: {"in": ["eagle", "mtp"]}}, []),
        ({"kv_transfer_config": "present", CONNECTOR: "a"}, {CONNECTOR: "a"}, []),
        ({"all": [MOE, {SIZE: 2}]}, {SIZE: 2, **MOE}, []),
        ({"model_config.is_moe": {"is_not": False}}, MOE, []),
        # a part added or removed
        (
            {"kv_transfer_config": "present"},
            {CONNECTOR: {"in": ["NixlConnector"]}},
            [f"only if {CONNECTOR} is NixlConnector; before: any or none"],
        ),
        (
            {CONNECTOR: {"in": ["NixlConnector"]}},
            {"kv_transfer_config": "present"},
            [f"regardless of {CONNECTOR}; before: only if it is NixlConnector"],
        ),
        (MOE, {**MOE, SIZE: 2}, [f"only if {SIZE} is 2; before: any"]),
        (MOE, {**MOE, CONNECTOR: "a"}, [f"only if {CONNECTOR} is a; before: regardless of it"]),
        (MOE, {**MOE, "lora_config": "present"}, ["only if lora_config is present; before: present or absent"]),
        (MOE, {**MOE, "uses": "named"}, ["only if the condition named holds"]),
        ({**MOE, "uses": "named"}, MOE, ["no longer only if the condition named holds"]),
        ({"uses": "named"}, {"uses": "named", **MOE}, ["only if model_config.is_moe is true"]),
        (
            {"any": [MOE, {SIZE: 2}]},
            {"any": [MOE, {SIZE: 2}], SIZE: {"at_least": 2}},
            [f"only if {SIZE} is at least 2"],
        ),
        (
            {"speculative_config": "present"},
            {METHOD: {"is_not": "mtp"}},
            [f"only if {METHOD} is not mtp; before: any or none"],
        ),
        # another value or operator
        (
            {SIZE: {"at_least": 2}},
            {SIZE: {"at_least": 4}},
            [f"only if {SIZE} is at least 4; before: only if it is at least 2"],
        ),
        (
            {METHOD: {"not_in": ["dflash"]}},
            {METHOD: {"not_in": ["dflash", "dspark"]}},
            [f"only if {METHOD} is none of dflash, dspark; before: only if it is not dflash"],
        ),
        (
            {TEXTS: {"has_none_of": list("ABCDEFG")}},
            {TEXTS: {"has_none_of": list("BCDEFGHI")}},
            [f"only if {TEXTS} has none of 8 values (before 7): added H and I, removed A"],
        ),
        (
            {TEXTS: {"has_none_of": list("ABCDEFG")}, **MOE},
            {TEXTS: {"has_none_of": list("ABCDEF")}, "model_config.is_hybrid": True},
            [
                f"only if {TEXTS} has none of 6 values (before 7): removed G",
                "only if model_config.is_hybrid is true; before: only if model_config.is_moe is true",
            ],
        ),
        # alternatives
        (MOE, {"any": [MOE, {SIZE: 2}]}, [f"also if {SIZE} is 2"]),
        ({"any": [MOE, {SIZE: 2}]}, MOE, [f"no longer if {SIZE} is 2"]),
        (
            {"lora_config": "present", "any": [MOE, {SIZE: 2}]},
            {"lora_config": "present", "any": [MOE, {"platform.is_rocm": True}]},
            ["also if platform.is_rocm is true", f"no longer if {SIZE} is 2"],
        ),
        # `always`, and conditions without a common part
        ("always", MOE, ["only if model_config.is_moe is true; before: always"]),
        (MOE, "always", ["always; before: only if model_config.is_moe is true"]),
        ("always", "always", []),
        (
            MOE,
            {"platform.is_rocm": True},
            ["only if platform.is_rocm is true; before: only if model_config.is_moe is true"],
        ),
    ],
)
def test_a_change_of_a_condition_is_described_by_its_parts(before: Any, after: Any, sentences: list[str]) -> None:
    assert condition_changes(read(before), read(after), Wording(str)) == sentences


def test_every_shipped_condition_has_words_that_change_if_and_only_if_its_parts_do(catalogue: Catalogue) -> None:
    wording = Wording(str)
    for rule in catalogue.rules:
        conditions = [part.when for part in rule.ranges]
        assert all(map(wording.condition, conditions))
        for before, after in (*pairwise(conditions), *zip(conditions, conditions, strict=True)):
            same = parts_key(before) == parts_key(after)
            assert (condition_changes(before, after, wording) == []) is same, rule.id
