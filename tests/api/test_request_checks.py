"""``POST /v1/requests/check``, alone, in batches and in streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

PATH = "/v1/requests/check"
FACTS = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}
KILLS = {"vllm_version": "0.26.0", "facts": FACTS, "request": {"allowed_token_ids": list(range(1025))}}
FINE = {"vllm_version": "0.26.0", "facts": FACTS, "request": {"temperature": 0.7}, "request_id": "seven"}
CONFIG = {"q": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936}}
CONTAINER = {"name": "vllm", "image": "vllm/vllm-openai:v0.26.0", "args": ["--model", "q"]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}}
NO_POD = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "b"}, "spec": {}}


def test_a_request_is_checked_with_both_runners(client: httpx.Client) -> None:
    answer = client.post(PATH, json=KILLS).json()
    assert answer["policy"]["revision"] == client.get("/v1/policy").json()["revision"]
    assert {name: answer[name] for name in answer if name != "policy"} == {
        "request_id": None,
        "runner": "v2",
        "verdict": "kills-engine",
        "starts": True,
        "findings": [
            {
                "rule": "allowed-token-ids-limit",
                "parameter": "allowed_token_ids",
                "verdict": "kills-engine",
                "message": "Too many allowed token IDs: 1025. The max size is 1024.",
                "remedy": "send at most 1,024 tokens, bound them at the gateway, or use V1 where the release allows it",
                "fixed_in": None,
                "references": [
                    "https://github.com/vllm-project/vllm/issues/55164",
                    "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/worker/gpu/sample/logit_bias.py",
                ],
            }
        ],
        "alternative": {"runner": "v1", "verdict": "fine", "findings": []},
        "warnings": [],
        "vllm_version": "0.26.0",
        "release": {"decided_as": "0.26.0", "verified": True, "defaulted": False},
    }


def test_as_text_it_is_a_table(client: httpx.Client) -> None:
    text = client.post(PATH, json=KILLS, headers={"accept": "text/plain"}).text
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["V2", "kills-engine", "vLLM", "0.26.0"]
    assert ["with", "V1:", "fine"] in lines
    yaml = client.post(PATH, content="facts: {}\nrequest: {n: 0}", headers={"content-type": "application/yaml"})
    assert yaml.json()["verdict"] == "refused"


def test_each_engine_of_a_manifest_is_checked(client: httpx.Client) -> None:
    body = {"manifest": [POD, NO_POD], "model_configs": CONFIG, "request": {"n": 0}}
    items = client.post(PATH, json=body).json()["items"]
    assert [(item["path"], item["kind"], item["name"], item["check"]["verdict"]) for item in items] == [
        ("[0].spec.containers[0]", "Pod", "a", "refused")
    ]
    text = client.post(PATH, json=body, headers={"accept": "text/plain"}).text
    assert "refused" in text
    without = client.post(PATH, json={"manifest": [POD], "request": {}}).json()["items"]
    assert [item["problem"]["type"].rpartition(":")[2] for item in without] == ["model-config-needed"]


def test_a_batch_and_a_stream_answer_in_order(client: httpx.Client) -> None:
    items: list[Any] = [KILLS, FINE, {"facts": FACTS}, {**FINE, "request": {"n": "1"}}]
    expected = ["kills-engine", "fine", 422, 422]
    answers = client.post(f"{PATH}/batch", json={"items": items}).json()["items"]
    lines = "".join(json.dumps(item) + "\n" for item in [*items, 5])
    headers = {"content-type": "application/x-ndjson"}
    streamed = client.post(f"{PATH}/batch", content=f"{lines}\nnot json\n", headers=headers).text
    found = [json.loads(line) for line in streamed.splitlines()]
    assert [answer.get("verdict", answer.get("status")) for answer in answers] == expected
    assert [answer.get("verdict", answer.get("status")) for answer in found] == [*expected, 422, 400]
    assert answers[:2] == found[:2]


def test_faults_are_problems_with_pointers(client: httpx.Client) -> None:
    cases: list[tuple[Any, int, list[str]]] = [
        ({"facts": {}}, 422, [""]),
        ({"facts": {}, "request": []}, 422, ["/request"]),
        ({"facts": {"x": 1}, "request": {}}, 422, ["/facts/x"]),
        ({"facts": {}, "request": {"temprature": 1, "n": "1"}}, 422, ["/request/temprature", "/request/n"]),
        ({"vllm_version": "0.19.0", "facts": {}, "request": {}}, 422, ["/vllm_version"]),
        ([], 422, [""]),
    ]
    for body, status, pointers in cases:
        response = client.post(PATH, json=body)
        found = [error["pointer"] for error in response.json()["errors"]]
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
        assert found == pointers, body


def test_a_number_that_is_too_large_is_refused_with_the_legal_range(client: httpx.Client) -> None:
    response = client.post(PATH, json={"facts": {}, "request": {"temperature": 2**63, "max_tokens": -(2**63)}})
    legal = "from -9223372036854775807 to 9223372036854775807"
    assert (response.status_code, response.json()["errors"]) == (
        422,
        [
            {"pointer": "/request/temperature", "message": f"expected a number {legal}, got `9223372036854775808`"},
            {
                "pointer": "/request/max_tokens",
                "message": f"expected a whole number {legal}, got `-9223372036854775808`",
            },
        ],
    )


def test_checked_requests_are_counted(client: httpx.Client) -> None:
    line = 'runner_policy_request_checks_total{runner="v2",verdict="fine",vllm_version="0.26.0"} '

    def count() -> float:
        found = [each for each in client.get("/metrics").text.splitlines() if each.startswith(line)]
        return float(found[0].removeprefix(line)) if found else 0

    before = count()
    client.post(PATH, json=FINE)
    assert count() == before + 1
