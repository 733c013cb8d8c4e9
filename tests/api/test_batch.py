"""`POST /v1/decisions/batch` with one JSON or YAML document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import httpx

QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
LLAMA: dict[str, Any] = {"model_config": {"architectures": ["LlamaForCausalLM"]}}
OPT: dict[str, Any] = {"model_config": {"architectures": ["OPTForCausalLM"]}}


def ask(client: httpx.Client, items: list[Any]) -> list[Any]:
    response = client.post("/v1/decisions/batch", json={"items": items})
    assert (response.status_code, response.headers["content-type"], list(response.json())) == (
        200,
        "application/json",
        ["items"],
    )
    answers: list[Any] = response.json()["items"]
    return answers


def test_a_batch_is_answered_in_the_order_of_its_items(client: httpx.Client) -> None:
    items = [{"facts": facts, "request_id": str(number)} for number, facts in enumerate([QWEN, OPT, LLAMA] * 50)]
    answers = ask(client, items)
    assert [(answer["request_id"], answer["runner"]) for answer in answers] == [
        (str(number), runner) for number, runner in enumerate(["v2", "v1", "v2"] * 50)
    ]


def test_an_item_is_answered_like_the_same_request_alone(client: httpx.Client) -> None:
    request = {"facts": QWEN, "vllm_version": "0.24.0rc1", "request_id": "seven", "explain": True}
    alone = client.post("/v1/decisions", json=request).json()
    (answer,) = ask(client, [request])
    assert {**answer, "decision_id": None} == {**alone, "decision_id": None}


def test_each_item_has_its_own_id(client: httpx.Client) -> None:
    assert len({answer["decision_id"] for answer in ask(client, [{"facts": QWEN}] * 200)}) == 200


def test_a_faulty_item_does_not_affect_the_others(client: httpx.Client) -> None:
    answers = ask(
        client,
        [
            {"facts": QWEN},
            {"facts": OPT},
            {"facts": LLAMA},
            {"facts": {"model_config": {"is_moe": "no"}}},
            {"facts": QWEN},
        ],
    )
    assert [answer.get("runner") for answer in answers] == ["v2", "v1", "v2", None, "v2"]
    assert answers[3] == {
        "type": "urn:runner-policy:problem:invalid-request",
        "title": "Invalid request",
        "status": 422,
        "detail": (
            "/items/3/facts/model_config/is_moe: `no` is not legal for `model_config.is_moe`; legal: `true`, `false`"
        ),
        "errors": [
            {
                "pointer": "/items/3/facts/model_config/is_moe",
                "message": "`no` is not legal for `model_config.is_moe`; legal: `true`, `false`",
            }
        ],
    }


@pytest.mark.parametrize(
    ("item", "kind", "pointers"),
    [
        (None, "invalid-request", ["/items/1"]),
        ("x", "invalid-request", ["/items/1"]),
        ([], "invalid-request", ["/items/1"]),
        ({}, "invalid-request", ["/items/1"]),
        ({"fact": {}}, "invalid-request", ["/items/1/fact", "/items/1"]),
        ({"facts": []}, "invalid-request", ["/items/1/facts"]),
        ({"facts": {"a/b~c": 1}}, "invalid-request", ["/items/1/facts/a~1b~0c"]),
        ({"facts": {}, "vllm_version": "0.2.7"}, "unknown-release", ["/items/1/vllm_version"]),
        ({"facts": {"model_config": {"is_moe": 1, "is_quantized": 2}}, "explain": 3}, "invalid-request", None),
    ],
)
def test_a_faulty_item_is_a_problem_with_pointers_into_the_batch(
    client: httpx.Client, item: Any, kind: str, pointers: list[str] | None
) -> None:
    answers = ask(client, [{"facts": QWEN}, item, {"facts": QWEN}])
    expected = pointers or [
        "/items/1/explain",
        "/items/1/facts/model_config/is_moe",
        "/items/1/facts/model_config/is_quantized",
    ]
    assert (answers[1]["type"], [fault["pointer"] for fault in answers[1]["errors"]]) == (
        f"urn:runner-policy:problem:{kind}",
        expected,
    )
    assert [answers[0]["runner"], answers[2]["runner"]] == ["v2", "v2"]


def test_an_empty_batch_has_an_empty_answer(client: httpx.Client) -> None:
    assert ask(client, []) == []


def test_a_batch_may_be_yaml(client: httpx.Client) -> None:
    body = (
        "items:\n  - facts: {model_config: {architectures: [Qwen3ForCausalLM]}}\n  - facts: {}\n"
        "    vllm_version: 0.99\n"
    )
    answers = client.post("/v1/decisions/batch", content=body, headers={"content-type": "application/yaml"}).json()[
        "items"
    ]
    assert [answer.get("runner", answer.get("status")) for answer in answers] == ["v2", 422]


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        (b"[]", [("", 'expected a batch, got `[]`; write {"items": [{"facts": {}}]}')]),
        (b"null", [("", 'expected a batch, got `null`; write {"items": [{"facts": {}}]}')]),
        (b"{}", [("/items", "expected a list of requests, got `null`")]),
        (b'{"items": {}}', [("/items", "expected a list of requests, got `{}`")]),
        (b'{"items": null}', [("/items", "expected a list of requests, got `null`")]),
        (b'{"items": [], "item": []}', [("/item", "unknown field `item`; legal: `items`")]),
        (
            b'{"a/b~c": 1, "items": 2}',
            [("/a~1b~0c", "unknown field `a/b~c`; legal: `items`"), ("/items", "expected a list of requests, got `2`")],
        ),
    ],
)
def test_an_invalid_batch_is_a_problem_with_a_pointer(
    client: httpx.Client, document: bytes, faults: list[tuple[str, str]]
) -> None:
    response = client.post("/v1/decisions/batch", content=document)
    problem = response.json()
    assert (response.status_code, problem["type"]) == (422, "urn:runner-policy:problem:invalid-request")
    assert [(fault["pointer"], fault["message"]) for fault in problem["errors"]] == faults


def test_too_many_items_are_refused_with_a_remedy(client: httpx.Client) -> None:
    response = client.post("/v1/decisions/batch", content=json.dumps({"items": [{}] * 10_001}))
    assert (response.status_code, response.json()["errors"]) == (
        422,
        [
            {
                "pointer": "/items",
                "message": "at most 10000 items are accepted, got 10001; send them as a stream of lines",
            }
        ],
    )


def test_a_batch_larger_than_one_decision_s_limit_is_read(client: httpx.Client) -> None:
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"], "padding": "x" * 100_000}}
    assert [answer["runner"] for answer in ask(client, [{"facts": facts}] * 20)] == ["v2"] * 20
