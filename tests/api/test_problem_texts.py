"""Problems as text: under ``accept: text/plain`` each error has the same content as its JSON, one fault per line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import httpx
    from operations.conftest import Service

    from .conftest import Server

PROBLEM, TEXT = "application/problem+json", "text/plain; charset=utf-8"
NAME = "Qwen/Qwen3-8B"
POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "vllm/vllm-openai:v0.24.0"}]}}
HOSTILE = "\x1b[31m\u202e\n\u009b"
DECIDING_PATHS = (
    *("/v1/decisions", "/v1/decisions/batch", "/v1/dry-run", "/v1/impact"),
    *("/v1/admission", "/v1/admission/mutate"),
)
REQUESTS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    **{f"no body {path}": ("POST", path, 400, {"content": b""}) for path in DECIDING_PATHS},
    **{f"compressed {path}": ("POST", path, 415, {"headers": {"content-encoding": "br"}}) for path in DECIDING_PATHS},
    **{f"large {path}": ("POST", path, 413, {"content": b" " * (17 << 20)}) for path in DECIDING_PATHS},
    **{f"an empty object {path}": ("POST", path, 422, {"content": b"{}"}) for path in DECIDING_PATHS},
    **{
        f"a method {path}": ("PUT", path, 405, {}) for path in (*DECIDING_PATHS, "/", "/v1/policy", "/docs", "/metrics")
    },
    **{f"a query {path}": ("POST", f"{path}?x=1", 422, {"content": b"{}"}) for path in DECIDING_PATHS[:4]},
    **{f"revision {path}": ("POST", path, 412, {"json": {}, "headers": {"if-match": "x"}}) for path in DECIDING_PATHS},
    "several faults": ("POST", "/v1/decisions", 422, {"json": {"facts": {"a": 1}, "layers": [], "explain": 2}}),
    "many faults": ("POST", "/v1/decisions", 422, {"json": {"facts": {f"x{n}": n for n in range(500)}}}),
    "control characters": ("POST", "/v1/decisions", 422, {"json": {"facts": {HOSTILE: HOSTILE}, HOSTILE: 1}}),
    "a release": ("POST", "/v1/decisions", 422, {"json": {"facts": {}, "vllm_version": "0.1"}}),
    "a model": ("POST", "/v1/decisions", 422, {"json": {"deployment": {"args": ["serve", NAME]}}}),
    "yaml": ("POST", "/v1/decisions", 400, {"content": b"a: [", "headers": {"content-type": "application/yaml"}}),
    "a large deployment": (
        "POST",
        "/v1/decisions",
        422,
        {"json": {"deployment": {"args": ["serve", NAME], "files": {"a": "x" * 9000}}}},
    ),
    "rules": ("POST", "/v1/dry-run", 422, {"json": {"request": {"facts": {}}, "rules": ["id: x\neffect: y\n"]}}),
    "a rule to remove": ("POST", "/v1/dry-run", 422, {"json": {"request": {"facts": {}}, "remove": [HOSTILE]}}),
    "a manifest to try": ("POST", "/v1/dry-run", 422, {"json": {"request": {"manifest": POD}, "remove": ["a"]}}),
    "a path": ("GET", "/v1/decision", 404, {}),
    "a hostile path": ("GET", "/%1b%5b31m%e2%80%ae", 404, {}),
    "a static file": ("GET", "/docs/static/nothing", 404, {}),
    "a rule": ("GET", "/v1/rules/nothing", 404, {}),
    "a hostile rule": ("GET", "/v1/rules/%1b%5b31m", 404, {}),
    "a parameter": ("GET", "/v1/rules?vllm=1&x=%1b", 422, {}),
    "a version": ("GET", "/v1/rules?vllm_version=0.1", 422, {}),
    "a filter": ("GET", "/v1/log?runner=v3&starts=%1b", 422, {}),
    "no decision": ("GET", "/v1/decisions/01a1feba-135c-7656-a303-4a8904f82d19", 404, {}),
    "a host": ("GET", "/v1/policy", 421, {"headers": {"host": "evil.example"}}),
    "a page": ("POST", "/v1/decisions", 403, {"json": {}, "headers": {"origin": "http://evil.example"}}),
}
ACCEPT = {
    "*/*": PROBLEM,
    "application/json": PROBLEM,
    "application/problem+json": PROBLEM,
    "text/html, */*;q=0.8": PROBLEM,
    "application/json, text/plain": PROBLEM,
    "text/plain;q=0.5, application/json;q=0.6": PROBLEM,
    "text/plain;q=0": PROBLEM,
    "text/plain": TEXT,
    "TEXT/plain;q=0.1": TEXT,
    "text/plain, */*;q=0.5": TEXT,
    "application/json;q=0.4, text/plain;q=0.5": TEXT,
}


def text_of(problem: dict[str, Any]) -> str:
    """The lines that a problem should have as text."""
    lines = [f"{problem['title']} ({problem['status']} {problem['type'].rpartition(':')[2]})"]
    for fault in problem["errors"]:
        place = fault["pointer"]
        if "file" in fault:
            place = f"{fault['file']}:{fault['line']}:{fault['column']}"
        lines.append(escape_line(f"{place}: {fault['message']}" if place else fault["message"]))
    if len(problem["errors"]) == 100:
        lines.append("there may be more: at most 100 faults are reported")
    return "".join(f"{line}\n" for line in lines)


def response_of(client: httpx.Client, name: str, *accept: str) -> httpx.Response:
    method, path, status, arguments = REQUESTS[name]
    headers = [*arguments.get("headers", {}).items(), *(("accept", value) for value in accept)]
    response = client.request(method, path, **{**arguments, "headers": headers})
    assert response.status_code == status, response.text
    return response


@table("name", REQUESTS)
def test_a_problem_as_text_has_the_content_of_its_json(client: httpx.Client, name: str) -> None:
    problem, text = response_of(client, name, "*/*"), response_of(client, name, "text/plain")
    assert (problem.headers["content-type"], text.headers["content-type"]) == (PROBLEM, TEXT)
    assert text.text == text_of(problem.json())
    assert all(line.isprintable() for line in text.text.split("\n"))
    headers = [
        {key: value for key, value in each.headers.items() if key not in {"date", "content-type", "content-length"}}
        for each in (problem, text)
    ]
    assert headers[0] == headers[1]


@table(("accept", "content_type"), ACCEPT.items())
@table("name", ["several faults", "no body /v1/decisions/batch", "rules", "a large deployment", "a path", "a host"])
def test_the_form_of_a_problem_is_negotiated_by_weight(
    client: httpx.Client, name: str, accept: str, content_type: str
) -> None:
    response = response_of(client, name, accept)
    assert response.headers["content-type"] == content_type
    assert response.headers["vary"] == "accept"
    assert response.text.startswith("{") is (content_type == PROBLEM)


@table("name", REQUESTS)
def test_several_accept_headers_of_a_refused_request_are_one_list(client: httpx.Client, name: str) -> None:
    for one, other, content_type in (
        ("application/json;q=0.4", "text/plain;q=0.5", TEXT),
        ("application/json;q=0.5", "text/plain;q=0.4", PROBLEM),
    ):
        for accept in ((one, other), (other, one)):
            response = response_of(client, name, *accept)
            assert (response.headers["content-type"], response.headers["vary"]) == (content_type, "accept"), accept


@pytest.mark.parametrize(
    ("token", "status", "path"),
    [
        (None, 401, "/v1/decisions"),
        (None, 401, "/"),
        (None, 401, "/v1/policy"),
        (None, 401, "/readyz?verbose"),
        ("read", 403, "/v1/decisions"),
        ("decide", 403, "/v1/dry-run"),
        ("decide", 403, "/v1/log"),
    ],
)
def test_a_caller_without_permission_gets_its_problem_as_text(
    shared: Callable[..., AbstractContextManager[Service]], token: str | None, status: int, path: str
) -> None:
    method = "POST" if path in DECIDING_PATHS else "GET"
    with shared("tokens", *([token] if token else [])) as service, service.client() as client:
        if token is None:
            client.headers.pop("authorization", None)
        problem, text = (client.request(method, path, headers={"accept": each}) for each in ("*/*", "text/plain"))
    assert (problem.status_code, text.status_code, text.headers["content-type"]) == (status, status, TEXT)
    assert text.text == text_of(problem.json())
    assert text.headers.get("www-authenticate") == problem.headers.get("www-authenticate")


def test_a_caller_over_its_rate_limit_gets_its_problem_as_text(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    with serve(RUNNER_POLICY_RATE_LIMIT="0.001") as server, server.client() as client:
        client.get("/v1/policy")
        text = client.post("/v1/decisions", json={"facts": {}}, headers={"accept": "text/plain"})
    assert (text.status_code, text.headers["content-type"], "retry-after" in text.headers) == (429, TEXT, True)
    assert text.text.startswith("Too many requests (429 too-many-requests)\nmore than 0.001 decisions a second; wait ")


def test_a_stream_answers_each_line_as_json_whatever_the_client_prefers(client: httpx.Client) -> None:
    large = {"deployment": {"args": ["serve", NAME], "files": {"a.yaml": "x" * 9000}}}
    lines = [{"facts": {}}, {"facts": 1}, large, {"manifest": POD}]
    response = client.post(
        "/v1/decisions/batch",
        content="".join(json.dumps(line) + "\n" for line in lines),
        headers={"content-type": "application/x-ndjson", "accept": "text/plain"},
    )
    found = [json.loads(line) for line in response.text.splitlines()]
    assert response.headers["content-type"] == "application/x-ndjson"
    assert ["runner" in found[0], found[1]["status"], found[2]["status"], "items" in found[3]] == [True, 422, 422, True]
