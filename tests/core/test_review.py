"""Reading an admission review: its fields, and all its faults at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tables import table

from policy.errors import RequestInvalid
from service.admission.review import MAX_USER, UNKNOWN_USER, Review, read_review, user_of


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("admission").joinpath(f"{name}.json").read_text())
    return found


def test_the_fields_of_a_review_are_read() -> None:
    review = read_review(recorded("deployment-dry-run"))
    document = recorded("deployment-dry-run")["request"]
    expected = Review(
        uid=document["uid"],
        operation="CREATE",
        group="apps",
        version="v1",
        kind="Deployment",
        sub_resource="",
        dry_run=True,
        object=document["object"],
        old_object=None,
    )
    assert review == expected
    assert read_review(recorded("deployment-scale")).sub_resource == "scale"


LEGAL = {"uid": "7", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {}}
KINDS = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
FAULTS: list[tuple[Any, list[tuple[str, str]]]] = [
    (None, [("", "expected an AdmissionReview, got `null`; a Kubernetes API server sends one")]),
    ([1], [("", "expected an AdmissionReview, got `[1]`; a Kubernetes API server sends one")]),
    (
        {"apiVersion": "admission.k8s.io/v1beta1", "kind": ["AdmissionReview"]},
        [
            ("/apiVersion", "unsupported value `admission.k8s.io/v1beta1`; legal: `admission.k8s.io/v1`"),
            ("/kind", 'unsupported value `["AdmissionReview"]`; legal: `AdmissionReview`'),
            ("/request", "missing `request`; every review has one"),
        ],
    ),
    ({**KINDS, "request": "x"}, [("/request", "expected an object, got `x`")]),
    (
        {**KINDS, "request": {}},
        [
            ("/request/operation", "missing `operation`; every review has one"),
            ("/request/uid", "missing `uid`; every review has one"),
            ("/request/kind", "missing kind; a review names the kind of its object"),
        ],
    ),
    (
        {**KINDS, "request": {**LEGAL, "uid": "u" * 129, "operation": "UPDATE", "object": None, "oldObject": []}},
        [
            ("/request/uid", "at most 128 characters are accepted, got 129"),
            ("/request/oldObject", "expected an object, got `[]`"),
            ("/request/object", "missing `object`; `UPDATE` needs one"),
        ],
    ),
    (
        {
            **KINDS,
            "request": {
                **LEGAL,
                "operation": "PATCH",
                "kind": {"group": 1, "kind": "Pod"},
                "resource": [],
                "name": {},
                "userInfo": {"username": 1, "groups": ["a", 2], "extra": {"a/b": "c"}},
                "object": "x",
                "dryRun": "yes",
                "options": 0,
            },
        },
        [
            ("/request/operation", "unknown operation `PATCH`; legal: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`"),
            ("/request/kind/group", "expected a string in quotes, got `1`"),
            ("/request/resource", "expected an object, got `[]`"),
            ("/request/userInfo/username", "expected a string in quotes, got `1`"),
            ("/request/name", "expected a string in quotes, got `{}`"),
            ("/request/userInfo/groups/1", "expected a string in quotes, got `2`"),
            ("/request/userInfo/extra/a~1b", "expected a list, got `c`"),
            ("/request/object", "expected an object, got `x`"),
            ("/request/options", "expected an object, got `0`"),
            ("/request/dryRun", "expected `true` or `false`, got `yes`"),
        ],
    ),
]


@table(("document", "faults"), FAULTS)
def test_all_faults_of_a_review_are_reported_at_once(document: Any, faults: list[tuple[str, str]]) -> None:
    with pytest.raises(RequestInvalid) as found:
        read_review(document)
    assert [(fault.pointer, fault.message) for fault in found.value.faults] == faults


def test_the_first_item_of_a_list_that_is_not_a_string_is_a_fault() -> None:
    user = {"groups": ["a", None, 1, 2], "extra": {"a/b": ["a", {}], "c": "a", "d": None, "e": ["a"]}}
    with pytest.raises(RequestInvalid) as raised:
        read_review({**KINDS, "request": {**LEGAL, "userInfo": user}})
    assert [fault.pointer for fault in raised.value.faults] == [
        "/request/userInfo/groups/2",
        "/request/userInfo/extra/a~1b/1",
        "/request/userInfo/extra/c",
    ]


def test_at_most_a_hundred_faults_are_reported() -> None:
    with pytest.raises(RequestInvalid) as raised:
        read_review({**KINDS, "request": {**LEGAL, "userInfo": {"extra": {f"a{n}": 1 for n in range(5000)}}}})
    assert len(raised.value.faults) == 100


@pytest.mark.parametrize(
    ("body", "user"),
    [
        (b'{"request": {"object": {"a": [1, {"b": "c"}]}, "userInfo": {"username": "jo", "groups": [1]}}}', "jo"),
        (b'{"request": {"userInfo": {"username": "%b"}}}' % (b"x" * 2 * MAX_USER), "x" * MAX_USER),
        (b'{"request": {"userInfo": {"username": ""}}}', UNKNOWN_USER),
        (b'{"request": {"userInfo": {"username": 1}}}', UNKNOWN_USER),
        (b'{"request": {"userInfo": {}}}', UNKNOWN_USER),
        (b'{"request": {"userInfo": {"username": "\\ud800"}}}', UNKNOWN_USER),
        (b'{"request": {"object": %b}}' % (b"[" * 100_000), UNKNOWN_USER),
        (b'{"request": {"userInfo": {"username": "\xff"}}}', UNKNOWN_USER),
        (b"request: {}", UNKNOWN_USER),
        (b"[]", UNKNOWN_USER),
        (b"", UNKNOWN_USER),
    ],
)
def test_the_user_of_a_review_is_known_or_none(body: bytes, user: str) -> None:
    assert user_of(body) == user
