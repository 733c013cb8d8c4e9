"""Query strings: each parameter is known to the endpoint and given once, or the request is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

if TYPE_CHECKING:
    import httpx

NONE = "this endpoint has no parameters"
IN_BODY = "this endpoint has no parameters; send the request in the body"
READ_PATHS = {
    "/v1/policy": NONE,
    "/v1/releases": NONE,
    "/v1/images": NONE,
    "/v1/facts": NONE,
    "/v1/schemas/cases": NONE,
    "/v1/arguments": "legal: `name`, `vllm_version`",
    "/v1/rules": "legal: `vllm_version`",
    "/v1/rules/kv-connector-fallback": "legal: `vllm_version`",
}
FACTS: dict[str, Any] = {"facts": {}}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/decisions": FACTS,
    "/v1/decisions/batch": {"items": [FACTS]},
    "/v1/dry-run": FACTS,
    "/v1/impact": {"deployments": [FACTS]},
}


def refusals(answer: httpx.Response) -> tuple[int, list[str]]:
    return answer.status_code, [fault["message"] for fault in answer.json()["errors"]]


@pytest.mark.parametrize("path", READ_PATHS)
def test_an_unknown_parameter_is_a_422(client: httpx.Client, path: str) -> None:
    expected = [f"unknown parameter `colour`; {READ_PATHS[path]}", f"unknown parameter `\\x00`; {READ_PATHS[path]}"]
    assert refusals(client.get(f"{path}?colour=red&%00&colour")) == (422, expected)


@pytest.mark.parametrize("path", ["/v1/rules", "/v1/rules/kv-connector-fallback"])
def test_a_misspelt_parameter_gets_a_suggestion_and_a_repeated_one_is_refused(client: httpx.Client, path: str) -> None:
    assert refusals(client.get(f"{path}?vllm_verson=0.23.0&vllm_version=0.23.0&vllm_version=0.24.0")) == (
        422,
        [
            "unknown parameter `vllm_verson`; did you mean `vllm_version`?; legal: `vllm_version`",
            "vllm_version: given 2 times; keep one",
        ],
    )


@pytest.mark.parametrize("path", BODIES)
def test_an_endpoint_with_a_body_has_no_parameters(client: httpx.Client, path: str) -> None:
    assert refusals(client.post(f"{path}?vllm_version=0.24.0&explain=true", json=BODIES[path])) == (
        422,
        [f"unknown parameter `vllm_version`; {IN_BODY}", f"unknown parameter `explain`; {IN_BODY}"],
    )


def test_the_number_of_faults_is_limited(client: httpx.Client) -> None:
    query = "&".join(f"p{number}={number}" for number in range(256))
    status, messages = refusals(client.get(f"/v1/rules?{query}"))
    assert (status, len(messages)) == (422, 100)


def test_parameters_of_probes_scrapers_and_api_servers_are_ignored(client: httpx.Client) -> None:
    assert [
        client.get(f"{path}?timeout=3s").status_code
        for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/docs")
    ] == [200] * 5
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "x", "operation": "DELETE"},
    }
    plain, timed = (client.post(f"/v1/admission{query}", json=review) for query in ("", "?timeout=3s"))
    assert (timed.status_code, timed.content) == (plain.status_code, plain.content)


LARGE: dict[str, str] = {"bytes": "x" * 16_385, "escapes": "%e4=%e4&" * 2048 + "x", "parameters": "&" * 256}
OPEN = ("/", "/livez", "/readyz", "/metrics", "/docs", "/openapi.json", "/rules", "/assets/none.js", "/none")


@table("name", LARGE)
def test_a_query_that_is_too_large_is_refused_before_it_is_parsed(client: httpx.Client, name: str) -> None:
    message = "the query is too large; at most 16,384 bytes and 256 parameters are accepted"
    answers = [client.get(f"{path}?{LARGE[name]}") for path in (*OPEN, *READ_PATHS)]
    answers += [client.post(f"{path}?{LARGE[name]}", json=BODIES[path]) for path in BODIES]
    answers.append(client.post(f"/v1/admission?{LARGE[name]}", json={}))
    assert {(answer.status_code, answer.json()["detail"]) for answer in answers} == {(431, message)}
    text = client.get(f"/livez?{LARGE[name]}", headers={"accept": "text/plain"}).text
    assert text == f"The request headers are too large (431 headers-too-large)\n{message}\n"


def test_a_query_of_the_largest_size_is_read(client: httpx.Client) -> None:
    assert [client.get(f"/livez?{query}").status_code for query in ("x" * 16_384, "&" * 255)] == [200, 200]
