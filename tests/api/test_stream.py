"""`POST /v1/decisions/batch` as a stream: one request per line in, one answer per line out, as they arrive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    import httpx

    from .conftest import Done, Server

NDJSON = {"content-type": "application/x-ndjson"}
LIMIT = 1 << 20
QWEN = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}'
OPT = b'{"facts": {"model_config": {"architectures": ["OPTForCausalLM"]}}}'
BAD = b'{"facts": {"model_config": {"is_moe": 1}}}'
LONG = b'{"facts": {"model_config": {"x": "' + b"x" * LIMIT + b'"}}}'


def short_form(answer: dict[str, Any]) -> Any:
    """A short form of an answer: the runner, or the kind of problem."""
    return answer.get("runner", answer.get("type", "").rpartition(":")[2])


def lines(client: httpx.Client, body: bytes | Iterator[bytes]) -> list[Any]:
    response = client.post("/v1/decisions/batch", content=body, headers=NDJSON)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson")
    assert response.text == "" or response.text.endswith("\n")
    return [short_form(json.loads(line)) for line in response.text.splitlines()]


@table(
    ("body", "expected"),
    [
        (QWEN + b"\n" + OPT + b"\n", ["v2", "v1"]),
        (QWEN + b"\n" + OPT, ["v2", "v1"]),
        (QWEN, ["v2"]),
        (QWEN + b"\r\n" + OPT + b"\r\n", ["v2", "v1"]),
        (b"\n\n" + QWEN + b"\n\n  \t\n\r\n" + OPT + b"\n\n", ["v2", "v1"]),
        (b"", []),
        (b"\n", []),
        (b"\n" * 1000, []),
        (b"  " + QWEN + b"  \n", ["v2"]),
        (QWEN + b"\n" + BAD + b"\n" + OPT + b"\n", ["v2", "invalid-request", "v1"]),
        (QWEN + b"\n{\n" + OPT + b"\n", ["v2", "malformed", "v1"]),
        (QWEN + QWEN + b"\n" + OPT + b"\n", ["malformed", "v1"]),
        (b"\xff\n" + OPT + b"\n", ["malformed", "v1"]),
        (b"\xef\xbb\xbf" + QWEN + b"\n" + OPT + b"\n", ["malformed", "v1"]),
        (b'{"facts": {}, "vllm_version": "0.99"}\n' + OPT, ["unknown-release", "v1"]),
        (b"[" * 100_000 + b"\n" + OPT, ["malformed", "v1"]),
        (b"[" * 500 + b"]" * 500 + b"\n" + OPT, ["malformed", "v1"]),
        (b'{"facts": ' + b"[" * 500 + b"]" * 500 + b"}\n" + OPT, ["malformed", "v1"]),
        (b"null\n1\n[]\n" + OPT, ["invalid-request", "invalid-request", "invalid-request", "v1"]),
        (QWEN + b"\n" + LONG + b"\n" + OPT + b"\n", ["v2", "too-large", "v1"]),
        (LONG + b"\n" + LONG + b"\n" + OPT, ["too-large", "too-large", "v1"]),
        (QWEN + b"\n" + LONG * 5, ["v2", "too-large"]),
        (LONG * 5 + b"\n" + BAD + b"\n" + OPT, ["too-large", "invalid-request", "v1"]),
    ],
    ids=lambda value: f"{value[:40]!r} and so on, {len(value)} bytes" if isinstance(value, bytes) else " ".join(value),
)
def test_each_line_is_answered_in_order(client: httpx.Client, body: bytes, expected: list[str]) -> None:
    assert lines(client, body) == expected


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_chunk_boundaries_do_not_matter(client: httpx.Client, size: int) -> None:
    body = b"\n".join([QWEN, BAD, b"", OPT, b"{"] * 5) + b"\n" + QWEN
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    assert lines(client, pieces) == ["v2", "invalid-request", "v1", "malformed"] * 5 + ["v2"]


@pytest.mark.parametrize(
    "content_type",
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "Application/X-NDJSON; charset=utf-8"],
)
def test_a_stream_is_recognised_by_its_content_type(client: httpx.Client, content_type: str) -> None:
    response = client.post("/v1/decisions/batch", content=QWEN + b"\n" + OPT, headers={"content-type": content_type})
    assert [short_form(json.loads(line)) for line in response.text.splitlines()] == ["v2", "v1"]


def test_a_line_is_answered_like_the_same_request_alone(client: httpx.Client) -> None:
    request = {"facts": {"kv_transfer_config": {}}, "vllm_version": "v0.24.1", "request_id": "seven", "explain": True}
    alone = client.post("/v1/decisions", json=request).json()
    line = client.post("/v1/decisions/batch", content=json.dumps(request), headers=NDJSON).json()
    assert {**line, "decision_id": None} == {**alone, "decision_id": None}


def test_a_faulty_line_is_a_problem_with_pointers_into_the_line(client: httpx.Client) -> None:
    assert client.post("/v1/decisions/batch", content=BAD, headers=NDJSON).json() == {
        "type": "urn:runner-policy:problem:invalid-request",
        "title": "Invalid request",
        "status": 422,
        "detail": "/facts/model_config/is_moe: `1` is not legal for `model_config.is_moe`; legal: `true`, `false`",
        "errors": [
            {
                "pointer": "/facts/model_config/is_moe",
                "message": "`1` is not legal for `model_config.is_moe`; legal: `true`, `false`",
            }
        ],
    }


def test_repeated_lines_have_different_ids(client: httpx.Client) -> None:
    response = client.post("/v1/decisions/batch", content=(QWEN + b"\n") * 500, headers=NDJSON)
    assert len({json.loads(line)["decision_id"] for line in response.text.splitlines()}) == 500


def test_a_stream_may_be_longer_than_the_limit_of_a_body(client: httpx.Client) -> None:
    line = (
        b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"], "padding": "' + b"x" * 100_000 + b'"}}}\n'
    )
    assert lines(client, (line for _ in range(200))) == ["v2"] * 200


def test_a_stream_of_announced_length_may_be_longer_than_the_limit_of_a_body(client: httpx.Client) -> None:
    line = (
        b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"], "padding": "'
        + b"x" * 1_000_000
        + b'"}}}\n'
    )
    assert lines(client, line * 20) == ["v2"] * 20


def test_curl_sends_a_stream_from_its_input(server: Server, run: Callable[..., Done]) -> None:
    arguments = (
        "-sS",
        f"{server.url}/v1/decisions/batch",
        "-H",
        "content-type: application/x-ndjson",
        "--data-binary",
        "@-",
    )
    done = run(*arguments, program="curl", stdin=QWEN + b"\n" + OPT + b"\n")
    assert (done.code, [short_form(json.loads(line)) for line in done.out.splitlines()]) == (0, ["v2", "v1"])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def read_until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        data = connection.recv(65536)
        assert data, found
        found += data
    return found


HEAD = (
    b"POST /v1/decisions/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def test_a_line_is_answered_before_the_next_one_is_sent(server: Server) -> None:
    with server.connection() as connection:
        connection.sendall(HEAD)
        for number, runner in enumerate([b"v2", b"v1", b"v2"]):
            connection.sendall(chunk((OPT if runner == b"v1" else QWEN) + b"\n"))
            answer = read_until(connection, b"}\n\r\n")
            assert b'"runner":"%b"' % runner in answer
            assert (b"HTTP/1.1 200 OK" in answer) == (number == 0)
        connection.sendall(b"0\r\n\r\n")
        assert read_until(connection, b"0\r\n\r\n") == b"0\r\n\r\n"


def test_an_overlong_line_is_answered_before_it_ends(server: Server) -> None:
    with server.connection() as connection:
        connection.sendall(HEAD + chunk(b"[" * (LIMIT + 1)))
        assert b"urn:runner-policy:problem:too-large" in read_until(connection, b"}\n\r\n")
        connection.sendall(chunk(b"]" * LIMIT) + chunk(b"]\n" + QWEN + b"\n"))
        assert b'"runner":"v2"' in read_until(connection, b"}\n\r\n")


def test_a_client_that_disconnects_within_a_stream_is_dropped(server: Server, client: httpx.Client) -> None:
    with server.connection() as connection:
        connection.sendall(HEAD + chunk(QWEN + b"\n"))
        read_until(connection, b"}\n\r\n")
    assert short_form(client.post("/v1/decisions", content=QWEN).json()) == "v2"
    assert "Traceback" not in server.log.read_text()


def test_a_stream_does_not_keep_other_clients_waiting_until_its_end(server: Server, client: httpx.Client) -> None:
    with server.connection() as connection:
        connection.sendall(HEAD + chunk(QWEN + b"\n"))
        read_until(connection, b"}\n\r\n")
        assert short_form(client.post("/v1/decisions", content=OPT).json()) == "v1"
        connection.sendall(b"0\r\n\r\n")
        assert read_until(connection, b"0\r\n\r\n") == b"0\r\n\r\n"
