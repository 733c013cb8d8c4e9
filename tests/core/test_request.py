"""A request's fields, and all their faults at once."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.errors import MAX_FAULTS, RequestInvalid
from policy.intake.manifests.registry import is_manifest
from policy.request.request import read_request
from policy.rules.releases import Resolution
from service.problems import problem_of

if TYPE_CHECKING:
    from policy.policy import Policy

FIELDS = (
    "`facts`, `deployment`, `manifest`, `model_configs`, `environment`, `vllm_version`, `override_images`, "
    "`layers`, `request_id`, `explain`, `beyond_verified`"
)
LAYERS = '`["upstream"]`, `["upstream", "house"]`'


def test_facts_are_all_that_a_request_needs(policy: Policy) -> None:
    request = read_request({"facts": {}}, policy.releases)
    assert (request.vllm_version, request.release, request.upstream_only, request.request_id, request.explain) == (
        "0.23.0",
        Resolution("0.23.0", verified=True, defaulted=True),
        False,
        None,
        False,
    )


def test_every_field_is_read(policy: Policy) -> None:
    document = {
        "facts": {},
        "vllm_version": "v0.99",
        "layers": ["upstream"],
        "request_id": "mine",
        "explain": True,
        "beyond_verified": "nearest",
    }
    request = read_request(document, policy.releases)
    assert (request.vllm_version, request.release, request.upstream_only, request.request_id, request.explain) == (
        "v0.99",
        Resolution("0.33.0", verified=False, defaulted=False),
        True,
        "mine",
        True,
    )


def test_optional_fields_may_be_null(policy: Policy) -> None:
    document: dict[str, Any] = {
        "facts": {},
        "vllm_version": None,
        "layers": None,
        "request_id": None,
        "beyond_verified": None,
    }
    assert read_request(document, policy.releases).release == Resolution("0.23.0", verified=True, defaulted=True)


@pytest.mark.parametrize("layers", [["upstream", "house"], ["house", "upstream"]])
def test_both_layers_may_be_named_in_any_order(policy: Policy, layers: list[str]) -> None:
    assert read_request({"facts": {}, "layers": layers}, policy.releases).upstream_only is False


def test_a_request_id_may_have_256_characters(policy: Policy) -> None:
    assert read_request({"facts": {}, "request_id": "é" * 256}, policy.releases).request_id == "é" * 256


EXAMPLE = '`{"facts": {"model_config": {}}}`'
OR_DOCUMENTS = (
    ", or the objects of a manifest, beside which one of several YAML documents may have fields such as `model_configs`"
)


@table(
    ("document", "faults"),
    [
        ([], [("", f"expected an object, got `[]`; write a request such as {EXAMPLE}{OR_DOCUMENTS}")]),
        (None, [("", 'expected an object, got `null`; write a request such as `{"facts": {"model_config": {}}}`')]),
        (
            {},
            [
                (
                    "",
                    (
                        "expected one of `facts`, `deployment`, `manifest`; add one, or write "
                        '`"facts": {}` for the defaults'
                    ),
                )
            ],
        ),
        ({"facts": None}, [("/facts", 'expected an object, got `null`; write the facts as `{"model_config": {…}}`')]),
        ({"facts": {}, "fact": {}}, [("/fact", f"unknown field `fact`; legal: {FIELDS}; did you mean `facts`?")]),
        ({"facts": {}, "a/b": 1}, [("/a~1b", f"unknown field `a/b`; legal: {FIELDS}")]),
        ({"facts": {}, "request_id": 7}, [("/request_id", "expected a string of at most 256 characters, got `7`")]),
        (
            {"facts": {}, "request_id": "x" * 257},
            [("/request_id", f"expected a string of at most 256 characters, got `{'x' * 80}…`")],
        ),
        ({"facts": {}, "explain": "yes"}, [("/explain", "expected `true` or `false`, got `yes`")]),
        ({"facts": {}, "explain": 1}, [("/explain", "expected `true` or `false`, got `1`")]),
        ({"facts": {}, "explain": None}, [("/explain", "expected `true` or `false`, got `null`")]),
        ({"facts": {}, "layers": "upstream"}, [("/layers", f"`upstream` is not legal; legal: {LAYERS}")]),
        ({"facts": {}, "layers": []}, [("/layers", f"`[]` is not legal; legal: {LAYERS}")]),
        ({"facts": {}, "layers": ["house"]}, [("/layers", f'`["house"]` is not legal; legal: {LAYERS}')]),
        (
            {"facts": {}, "layers": ["upstream", "upstream"]},
            [("/layers", f'`["upstream", "upstream"]` is not legal; legal: {LAYERS}')],
        ),
        ({"facts": {}, "layers": [1, None]}, [("/layers", f"`[1, null]` is not legal; legal: {LAYERS}")]),
        (
            {"facts": {}, "beyond_verified": True},
            [("/beyond_verified", "`true` is not legal; legal: `nearest`, or leave it out")],
        ),
        (
            {"facts": {}, "vllm_version": 0.23},
            [("/vllm_version", 'expected a string, got `0.23`; write the version in quotes, such as `"0.23.0"`')],
        ),
        (
            {"facts": {}, "vllm_version": ""},
            [("/vllm_version", "invalid version ``; write it as `0.23.0` or `v0.23.0`")],
        ),
        (
            {"facts": {}, "vllm_version": "newest"},
            [("/vllm_version", "invalid version `newest`; write it as `0.23.0` or `v0.23.0`")],
        ),
        (
            {
                "facts": {"model_config": {"is_moe": 1}},
                "layers": [],
                "explain": 0,
                "vllm_version": [],
                "request_id": {},
                "beyond_verified": "",
                "extra": "",
            },
            [
                ("/extra", f"unknown field `extra`; legal: {FIELDS}"),
                ("/beyond_verified", "`` is not legal; legal: `nearest`, or leave it out"),
                ("/vllm_version", 'expected a string, got `[]`; write the version in quotes, such as `"0.23.0"`'),
                ("/request_id", "expected a string of at most 256 characters, got `{}`"),
                ("/explain", "expected `true` or `false`, got `0`"),
                ("/facts/model_config/is_moe", "`1` is not legal for `model_config.is_moe`; legal: `true`, `false`"),
                ("/layers", f"`[]` is not legal; legal: {LAYERS}"),
            ],
        ),
    ],
)
def test_all_faults_of_an_invalid_request_are_reported(
    policy: Policy, document: Any, faults: list[tuple[str, str]]
) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_request(document, policy.releases)
    assert ([(fault.pointer, fault.message) for fault in raised.value.faults], raised.value.problem) == (
        faults,
        "invalid-request",
    )


@pytest.mark.parametrize("version", ["0.2.7", "0.34.0", "7"])
def test_an_unknown_release_is_a_separate_problem(policy: Policy, version: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_request({"facts": {"model_config": {"is_moe": 1}}, "vllm_version": version}, policy.releases)
    assert ([fault.pointer for fault in raised.value.faults], raised.value.problem) == (
        ["/vllm_version", "/facts/model_config/is_moe"],
        "unknown-release",
    )


def test_the_pointers_of_faults_begin_with_that_of_the_request(policy: Policy) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_request({"facts": {"a": 1}, "b": 1, "layers": 1}, policy.releases, "/items/2")
    assert [fault.pointer for fault in raised.value.faults] == ["/items/2/b", "/items/2/facts/a", "/items/2/layers"]


def test_the_number_of_faults_of_a_request_is_limited(policy: Policy) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_request({"facts": {}, **{f"m{n}": n for n in range(MAX_FAULTS + 10)}}, policy.releases)
    assert [fault.pointer for fault in raised.value.faults] == [f"/m{n}" for n in range(MAX_FAULTS)]


def test_the_text_of_a_problem_has_all_faults_in_one_line(policy: Policy) -> None:
    with pytest.raises(
        RequestInvalid,
        match=r"^/explain: expected `true` or `false`, got `1`; "
        r"/: expected one of `facts`, `deployment`, `manifest`; add one",
    ):
        read_request({"explain": 1}, policy.releases)


def test_unprintable_characters_are_escaped(policy: Policy) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_request({"facts": {}, "explain": "a\x00\x1b[31m\ud800\u202eb"}, policy.releases)
    assert raised.value.faults[0].message == r"expected `true` or `false`, got `a\x00\x1b[31m\ud800\u202eb`"


@pytest.mark.parametrize(
    ("number", "more"),
    [(1, ""), (2, " (and 1 more)"), (MAX_FAULTS - 1, " (and 98 more)"), (5000, " (and at least 99 more)")],
)
def test_a_problem_says_how_many_more_faults_were_found(policy: Policy, number: int, more: str) -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_request({"facts": {}, **{f"m{n}": n for n in range(number)}}, policy.releases)
    problem = problem_of(raised.value)
    assert len(problem.errors) == min(number, MAX_FAULTS)
    assert problem.detail.endswith(more or "`beyond_verified`")


@table("value", ["x", 1, {}, {"x": "y"}, [{"x": "y"}], ["x"], None], ids=repr)
def test_no_manifest_has_only_fields_of_a_request(value: Any) -> None:
    names = [name.strip("`") for name in FIELDS.split(", ")]
    documents = [dict.fromkeys(some, value) for count in range(len(names) + 1) for some in combinations(names, count)]
    assert [document for document in documents if is_manifest(document)] == []
