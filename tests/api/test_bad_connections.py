"""Faults below the request: slow, broken and vanished clients, and unusual HTTP. The service keeps working."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

    from .conftest import Done, Server

BODY = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}'
LIMIT = 1 << 20
CHUNKED = (b"Transfer-Encoding: chunked",)


def head(*lines: bytes, method: bytes = b"POST", path: bytes = b"/v1/decisions", version: bytes = b"1.1") -> bytes:
    return b"\r\n".join([b"%b %b HTTP/%b" % (method, path, version), b"Host: localhost", *lines, b"", b""])


def post(body: bytes = BODY, *lines: bytes, path: bytes = b"/v1/decisions", version: bytes = b"1.1") -> bytes:
    return head(*lines, b"Content-Length: %d" % len(body), path=path, version=version) + body


def read(connection: socket.socket) -> tuple[int, Any]:
    """One whole response: its status and document; status 0 if the connection ended first."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return 0, None
        data += more
    top, _, body = data.partition(b"\r\n\r\n")
    lines = top.decode().lower().split("\r\n")
    length = int(next(line.partition(":")[2] for line in lines if line.startswith("content-length:")))
    while len(body) < length:
        body += connection.recv(65536)
    return int(lines[0].split()[1]), json.loads(body) if "json" in top.decode() else body


def short_form(answer: tuple[int, Any]) -> tuple[int, Any]:
    """A short form of a response: its runner, or the kind of problem."""
    status, document = answer
    return status, document.get("runner", document.get("type", "").rpartition(":")[2]) if isinstance(
        document, dict
    ) else document


def ended(connection: socket.socket) -> bool:
    """Whether the server has closed the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def connection(server: Server) -> Iterator[socket.socket]:
    """A raw connection; afterwards a new one is answered, and no internal error has been logged."""
    with server.connection() as found:
        yield found
    with server.connection() as other:
        other.sendall(post())
        assert short_form(read(other)) == (200, "v2")
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    "request_",
    [
        post(),
        post(BODY, b"Accept: \xff\xfe", b"Content-Type: \xff", b"X-Odd: \x80"),
        post(BODY, b"Accept:"),
        post(BODY, *(b"X-Header-%d: value" % number for number in range(190))),
        post(BODY, b"X-Long: " + b"x" * 30_000),
        post(BODY, b"Expect: 200-ok"),
        head(b"Content-Length:\t %d \t" % len(BODY)) + BODY,
        head(*CHUNKED) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
        head(*CHUNKED) + b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n",
        head(*CHUNKED) + b"%x;name=value\r\n%b\r\n0\r\nX-Trailer: x\r\n\r\n" % (len(BODY), BODY),
    ],
    ids=[
        "plain",
        "odd headers",
        "empty header",
        "190 headers",
        "long header",
        "expect",
        "blanks around the length",
        "one chunk",
        "one byte per chunk",
        "trailers",
    ],
)
def test_an_unusual_request_is_answered_and_so_is_the_next_on_its_connection(
    connection: socket.socket, request_: bytes
) -> None:
    for sent in (request_, post()):
        connection.sendall(sent)
        assert short_form(read(connection)) == (200, "v2")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_request_in_slow_pieces_is_answered(connection: socket.socket, size: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = post()
    for start in range(0, len(request), size):
        connection.sendall(request[start : start + size])
    assert short_form(read(connection)) == (200, "v2")


def test_several_requests_at_once_are_answered_in_their_order(connection: socket.socket) -> None:
    bad = post(b"{")
    connection.sendall(post() + bad + post() + bad + post())
    data = b""
    while data.count(b"HTTP/1.1 ") < 5 or not data.endswith(b"}"):
        data += connection.recv(65536)
    assert [part[:3] for part in data.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400", b"200", b"400", b"200"]


def test_valid_and_invalid_bodies_sent_at_once_each_get_their_own_answer(server: Server) -> None:
    usual = [
        b'{"request_id": "%d", "facts": {"lora_config": {}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "%d"}}}'
        % (number, number % 2)
        for number in range(20)
    ]
    unknown = [b'{"request_id": "%d", "facts": {"odd_%d": 1}}' % (number, number) for number in range(20)]
    malformed = [b"{" + b" " * number for number in range(20)]
    yaml = [post(b"request_id: y%d\nfacts: {}" % number, b"Content-Type: application/yaml") for number in range(20)]
    asked = [
        request
        for each in zip(map(post, usual), map(post, malformed), yaml, map(post, unknown), strict=True)
        for request in each
    ]

    def answer(connection: socket.socket) -> tuple[int, Any]:
        status, document = read(connection)
        return status, {name: value for name, value in document.items() if name != "decision_id"}

    with ExitStack() as stack:
        connections = [stack.enter_context(server.connection()) for _ in asked]
        alone = []
        for connection, request in zip(connections, asked, strict=True):
            connection.sendall(request)
            alone.append(answer(connection))
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            for connection, request in zip(connections, asked, strict=True):
                connection.sendall(request)
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        assert [answer(connection) for connection in connections] == alone
    assert [status for status, _ in alone] == [200, 400, 200, 422] * 20
    assert [document.get("request_id") for _, document in alone[::4]] == [str(number) for number in range(20)]


@pytest.mark.parametrize("lines", [(), (b"Connection: close",)])
def test_http_1_0_is_answered_and_closed(connection: socket.socket, lines: tuple[bytes, ...]) -> None:
    connection.sendall(post(BODY, *lines, version=b"1.0"))
    assert short_form(read(connection)) == (200, "v2")
    assert ended(connection)


def test_a_client_that_expects_100_continue_gets_it_before_it_sends(connection: socket.socket) -> None:
    connection.sendall(head(b"Expect: 100-continue", b"Content-Length: %d" % len(BODY)))
    assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(BODY)
    assert short_form(read(connection)) == (200, "v2")


def test_a_client_of_http_1_0_gets_no_100_continue(connection: socket.socket) -> None:
    connection.sendall(post(BODY, b"Expect: 100-continue", version=b"1.0"))
    assert short_form(read(connection)) == (200, "v2")
    assert ended(connection)


@pytest.mark.parametrize("path", [b"/v1/decisions", b"/v1/decisions/batch", b"/v1/dry-run"])
def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_sent(
    connection: socket.socket, path: bytes
) -> None:
    connection.sendall(head(b"Expect: 100-continue", b"Content-Length: %d" % (50 << 20), path=path))
    assert short_form(read(connection)) == (413, "too-large")


def test_a_chunked_body_is_refused_once_it_is_too_large(connection: socket.socket) -> None:
    connection.sendall(head(*CHUNKED) + b"%x\r\n%b\r\n" % (LIMIT + 1, b" " * (LIMIT + 1)))
    assert short_form(read(connection)) == (413, "too-large")


@pytest.mark.parametrize(
    ("lines", "version", "status"),
    [
        ((), b"1.1", 400),
        ((b"Host: localhost", b"Host: localhost"), b"1.1", 400),
        ((b"Host: evil.example", b"Host: localhost"), b"1.0", 400),
        ((), b"1.0", 200),
    ],
)
def test_a_request_has_one_host(
    connection: socket.socket, lines: tuple[bytes, ...], version: bytes, status: int
) -> None:
    connection.sendall(b"\r\n".join([b"GET /livez HTTP/%b" % version, *lines, b"", b""]))
    assert b" %d " % status in connection.recv(100)


@pytest.mark.parametrize(
    ("target", "lines", "version", "status"),
    [
        (b"http://evil.example/livez", (b"Host: localhost",), b"1.1", 400),
        (b"http://evil.example/livez", (), b"1.0", 400),
        (b"HTTPS://evil.example/livez", (b"Host: localhost",), b"1.1", 400),
        (b"http://evil.example?/localhost", (b"Host: localhost",), b"1.1", 400),
        (b"http://localhost:81/livez", (b"Host: localhost",), b"1.1", 400),
        (b"http://localhost@evil.example/livez", (b"Host: localhost",), b"1.1", 400),
        (b"http://LOCALHOST/livez", (b"Host: localhost",), b"1.1", 200),
        (b"http://localhost:81/livez?verbose", (b"Host: localhost:81",), b"1.1", 200),
    ],
)
def test_an_absolute_target_has_the_host_of_the_request(
    connection: socket.socket, target: bytes, lines: tuple[bytes, ...], version: bytes, status: int
) -> None:
    connection.sendall(b"\r\n".join([b"GET %b HTTP/%b" % (target, version), *lines, b"", b""]))
    assert b" %d " % status in connection.recv(100)


def test_headers_that_arrive_at_once_are_limited_too(connection: socket.socket) -> None:
    connection.sendall(head(b"X: %b" % (b"x" * 66_000), method=b"GET", path=b"/livez"))
    assert b" 431 " in connection.recv(100)


TRAILED = b"44\r\n" + BODY + b"\r\n0\r\n"


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize(
    "trailer",
    [
        b"content-type: application/yaml",
        b"accept: text/plain",
        b"if-match: x",
        b"content-encoding: gzip",
        b"host: evil.example",
        b"origin: http://evil",
    ],
)
def test_trailer_fields_are_not_headers(connection: socket.socket, trailer: bytes, *, slowly: bool) -> None:
    for part in (
        (head(*CHUNKED), TRAILED, trailer + b"\r\n\r\n")
        if slowly
        else (head(*CHUNKED) + TRAILED + trailer + b"\r\n\r\n",)
    ):
        connection.sendall(part)
    assert short_form(read(connection)) == (200, "v2")
    connection.sendall(post())
    assert short_form(read(connection)) == (200, "v2")


@pytest.mark.parametrize("slowly", [False, True])
def test_a_trailer_field_may_close_the_connection(connection: socket.socket, *, slowly: bool) -> None:
    """The parser then discards what follows, so its client has to learn that nothing more is answered."""
    parts = (head(*CHUNKED), TRAILED, b"connection: close\r\n\r\n" + post())
    for part in parts if slowly else (b"".join(parts),):
        connection.sendall(part)
    data = b""
    while more := connection.recv(65536):
        data += more
    assert (data.count(b"HTTP/1.1 200 OK"), data.count(b"HTTP/1.1 "), data.count(b"connection: close")) == (1, 1, 1)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (post(b"{"), (400, "malformed")),
        (post(b""), (400, "malformed")),
        (post(b"{}"), (422, "invalid-request")),
        (post(BODY, b"Content-Encoding: gzip"), (415, "unsupported-encoding")),
        (post(b" " * (LIMIT + 1)), (413, "too-large")),
        (
            head(*CHUNKED) + b"%x\r\n%b\r\n" % (LIMIT + 1, b" " * (LIMIT + 1)) + b"5\r\nabcde\r\n0\r\n\r\n",
            (413, "too-large"),
        ),
        (post(b"[" * 100_000), (400, "malformed")),
        (post(BODY, path=b"/nowhere"), (404, "not-found")),
        (post(BODY, path=b"/v1/policy"), (405, "method-not-allowed")),
        (head(b"Content-Length: 0"), (400, "malformed")),
    ],
    ids=[
        "malformed",
        "empty",
        "misfit",
        "encoded",
        "too large",
        "too large in chunks",
        "deep",
        "nowhere",
        "other method",
        "no body",
    ],
)
def test_after_a_problem_the_same_connection_is_answered(
    connection: socket.socket, request_: bytes, answer: tuple[int, str]
) -> None:
    connection.sendall(request_)
    assert short_form(read(connection)) == answer
    connection.sendall(post())
    assert short_form(read(connection)) == (200, "v2")


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03hello\r\n\r\n",
    b"hello\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/decisions HTTP/9.9\r\n\r\n",
    b"NONSENSE /v1/decisions HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/rules/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    head(b"Content-Length: -5"),
    head(b"Content-Length: five"),
    head(b"Content-Length: 3", b"Content-Length: 4") + b"abc",
    head(b"Content-Length: 99999999999999999999999"),
    head(b"Content-Length: 5", *CHUNKED) + b"0\r\n\r\n",
    head(*CHUNKED) + b"zz\r\n",
    head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    head(b"Transfer-Encoding: gzip", *CHUNKED) + b"0\r\n\r\n",
    head(b"Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    head(b"Transfer-Encoding: identity") + b"0\r\n\r\n",
    *(b"GET /livez HTTP/%b\r\nHost: localhost\r\n\r\n" % version for version in (b"0.9", b"1.2", b"2.0", b"3.0")),
    head(b"No colon here"),
    head(b" folded: x"),
    b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("request_", MALFORMED, ids=lambda request: repr(request[:50]))
def test_malformed_http_is_a_400_and_closes_the_connection(connection: socket.socket, request_: bytes) -> None:
    connection.sendall(request_)
    assert read(connection)[0] == 400
    assert ended(connection)


def statuses(connection: socket.socket) -> list[int]:
    """The statuses of all responses until the connection ends."""
    data = b""
    while more := connection.recv(65536):
        data += more
    return [int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]]


LARGE_HEAD = head(b"X: %b" % (b"x" * 70_000), method=b"GET", path=b"/livez")
UNFINISHED = head(b"Content-Length: 5") + b"{"


@pytest.mark.parametrize("requests", [1, 3])
@pytest.mark.parametrize(
    ("last", "status"),
    [*((each, 400) for each in MALFORMED), (LARGE_HEAD, 431), (b"GET /" + b"x" * 70_000, 431)],
    ids=lambda value: repr(value[:50]) if isinstance(value, bytes) else str(value),
)
def test_requests_before_a_malformed_one_are_answered_first(
    connection: socket.socket, last: bytes, status: int, requests: int
) -> None:
    connection.sendall(post() * requests + last + post())
    assert statuses(connection) == [200] * requests + [status]


@pytest.mark.parametrize(("last", "expected"), [(MALFORMED[0], [200, 400]), (UNFINISHED, [200]), (b"GET /", [200])])
def test_a_request_before_a_malformed_or_incomplete_one_is_answered_if_nothing_follows(
    connection: socket.socket, last: bytes, expected: list[int]
) -> None:
    connection.sendall(post() + last)
    connection.shutdown(socket.SHUT_WR)
    assert statuses(connection) == expected


def test_a_malformed_request_after_one_that_closes_the_connection_is_not_answered(connection: socket.socket) -> None:
    connection.sendall(post(BODY, b"Connection: close") + MALFORMED[0])
    assert statuses(connection) == [200]


def test_a_stream_that_breaks_in_the_middle_ends_without_another_response(connection: socket.socket) -> None:
    line = BODY + b"\n"
    connection.sendall(head(b"Content-Type: application/x-ndjson", *CHUNKED, path=b"/v1/decisions/batch"))
    connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))
    data = connection.recv(65536)
    while b'"runner"' not in data:
        data += connection.recv(65536)
    connection.sendall(b"zz\r\n")
    while more := connection.recv(65536):
        data += more
    assert (data.count(b"HTTP/1.1 "), data.endswith(b"0\r\n\r\n")) == (1, False)


@pytest.mark.parametrize("path", [b"/v1/decisions", b"/v1/decisions/batch", b"/v1/dry-run", b"/v1/policy"])
@pytest.mark.parametrize(
    "lines", [(b"Content-Length: 1000",), CHUNKED, (b"Content-Length: 1000", b"Content-Type: application/x-ndjson")]
)
@pytest.mark.parametrize("rude", [False, True], ids=["closed", "reset"])
def test_a_client_that_disconnects_within_its_body_is_dropped(
    server: Server, connection: socket.socket, path: bytes, lines: tuple[bytes, ...], *, rude: bool
) -> None:
    with server.connection() as leaving:
        leaving.sendall(head(*lines, path=path) + (b"5\r\n{\n\n\n" if lines == CHUNKED else b"{\n\n"))
        if rude:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.sendall(post())
    assert short_form(read(connection)) == (200, "v2")


@pytest.mark.parametrize("rude", [False, True], ids=["closed", "reset"])
def test_a_client_that_does_not_wait_for_its_answer_is_dropped(
    server: Server, connection: socket.socket, *, rude: bool
) -> None:
    for request in (
        post(),
        post(b"{"),
        post(b'{"request": {"facts": {}}, "remove": ["kv-connector-fallback"]}', path=b"/v1/dry-run"),
    ):
        with server.connection() as leaving:
            leaving.sendall(request)
            if rude:
                leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.sendall(post())
    assert short_form(read(connection)) == (200, "v2")


def test_idle_clients_do_not_block_others(server: Server, connection: socket.socket) -> None:
    idle = [server.connection() for _ in range(100)]
    try:
        for number, waiting in enumerate(idle):
            waiting.sendall(head(b"Content-Length: 1000")[: number * 2])
        connection.sendall(post())
        assert short_form(read(connection)) == (200, "v2")
    finally:
        for waiting in idle:
            waiting.close()


def test_web_sockets_are_not_supported(connection: socket.socket) -> None:
    lines = (
        b"Connection: Upgrade",
        b"Upgrade: websocket",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    connection.sendall(head(*lines, method=b"GET"))
    assert short_form(read(connection)) == (405, "method-not-allowed")


def test_curl_that_sends_50_mb_gets_the_problem(server: Server, run: Callable[..., Done]) -> None:
    done = run("-sS", f"{server.url}/v1/decisions", "--data-binary", "@-", program="curl", stdin=b" " * (50 << 20))
    assert (done.code, json.loads(done.out)["status"]) == (0, 413)


def test_no_request_so_far_caused_an_internal_error(client: httpx.Client, server: Server) -> None:
    assert client.get("/livez").text == "ok\n"
    assert "Exception in ASGI application" not in server.log.read_text()
