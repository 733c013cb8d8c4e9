"""Limits on the time, the connections and the idle time of one caller, while others are answered."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import PATIENCE

from service.run import KEEP_ALIVE
from service.transport.connection import CHUNK_SIZE, MAX_WAITING_BODY

from .conftest import QWEN, until
from .test_idle import unconnected
from .test_response_writer import GET, Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from .conftest import Service


def connected(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), PATIENCE)


def everything(connection: socket.socket) -> bytes:
    """All bytes until the other side closes the connection."""
    found = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def post(path: str, body: bytes, length: int, *lines: bytes) -> bytes:
    return b"\r\n".join(
        [b"POST %b HTTP/1.1" % path.encode(), b"Host: localhost", b"Content-Length: %d" % length, *lines, b"", body]
    )


@pytest.mark.slow
def test_requests_that_wait_for_earlier_ones_take_little_memory(serve: Callable[..., Any]) -> None:
    def resident(service: Service) -> int:
        return int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve() as service, service.client() as client, connected(service) as connection:
        assert client.get("/livez").text == "ok\n"
        before = resident(service)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # so that few answers fill it
        connection.settimeout(2)
        sent = 0
        with suppress(TimeoutError):
            while sent < 64 << 20:
                sent += connection.send(request * 1000)
        assert resident(service) - before < 40 << 20
        assert client.get("/livez").text == "ok\n"
        assert connection.recv(15) == b"HTTP/1.1 200 OK"


def test_a_body_that_waits_for_an_earlier_answer_is_read_up_to_a_limit_and_then_wholly() -> None:
    """The earlier request notices the end of its client by receiving again and again."""
    sizes = []
    body = b"x" * 300_000
    connection: Any = None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            for _ in range(100):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await receive()
            sizes.append(len(connection.cycle.body))
        else:
            found, more = b"", True
            while more:
                message = await receive()
                found, more = found + message["body"], message["more_body"]
            sizes.append(len(found))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async def run() -> None:
        nonlocal connection
        connection = unconnected(app)
        connection.connection_made(Transport())
        connection.data_received(GET + post("/", body, len(body)))
        while connection.tasks:
            await asyncio.gather(*connection.tasks)
        connection.connection_lost(None)

    asyncio.run(run())
    assert sizes[0] <= MAX_WAITING_BODY + CHUNK_SIZE
    assert sizes[1:] == [len(body)]


@pytest.mark.slow
def test_bodies_that_arrive_too_slowly_are_refused_while_others_are_answered(serve: Callable[..., Any]) -> None:
    paths = ("/v1/decisions", "/v1/decisions/batch", "/v1/dry-run", "/v1/admission", "/v1/admission/mutate")
    with serve(BODY_TIMEOUT="3") as service, service.client() as client, ExitStack() as stack:
        slow = {path: stack.enter_context(connected(service)) for path in paths}
        for path, connection in slow.items():
            connection.sendall(post(path, b"{", 100))
        stop = threading.Event()
        codes: set[int] = set()

        def drip() -> None:
            while not stop.wait(0.2):
                for connection in slow.values():
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        continue

        thread = threading.Thread(target=drip)
        thread.start()
        while not service.metrics().get(series("/v1/admission", 408)):
            codes.add(client.post("/v1/decisions", json=QWEN).status_code)
            time.sleep(0.05)
        stop.set()
        thread.join()
        answers = {path: everything(connection) for path, connection in slow.items()}
        after = client.post("/v1/decisions", json=QWEN).status_code
        until(lambda: [service.metrics().get(series(path, 408)) for path in paths] == [1] * len(paths))
    assert {path: answer.split(b"\r\n")[0] for path, answer in answers.items()} == dict.fromkeys(
        paths, b"HTTP/1.1 408 Request Timeout"
    )
    problem = json.loads(answers["/v1/decisions"].partition(b"\r\n\r\n")[2])
    assert (problem["type"], problem["detail"]) == (
        "urn:runner-policy:problem:request-timeout",
        "the body took more than 3 s to arrive; send it faster",
    )
    assert b"connection: close" in answers["/v1/decisions"]
    assert (codes, after) == ({200}, 200)


def series(path: str, status: int) -> str:
    return f'runner_policy_requests_total{{path="{path}",status="{status}"}}'


@pytest.mark.slow
def test_a_stream_lasts_as_long_as_its_parts_arrive(serve: Callable[..., Any]) -> None:
    line = json.dumps(QWEN).encode() + b"\n"
    head = (
        b"POST /v1/decisions/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    with serve(BODY_TIMEOUT="2") as service, connected(service) as connection:
        connection.sendall(head)
        began = time.monotonic()
        sent = 0
        while time.monotonic() - began < 4.5:
            connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))
            sent += 1
            time.sleep(0.2)  # each part arrives within the timeout
        found = everything(connection)
    assert (found.startswith(b"HTTP/1.1 200 OK"), found.count(b'"decision_id"')) == (True, sent)


def test_connections_beyond_the_limit_are_refused_and_probes_are_not(serve: Callable[..., Any]) -> None:
    body = json.dumps(QWEN).encode()
    with serve(MAX_CONNECTIONS="3", BODY_TIMEOUT="300") as service, ExitStack() as stack:
        busy = [stack.enter_context(connected(service)) for _ in range(3)]
        for connection in busy:
            connection.sendall(post("/v1/decisions", body[:1], len(body), b"Connection: close"))
        with service.client() as client:
            until(lambda: client.get("/livez").text == "ok\n")
            answer = client.post("/v1/decisions", json=QWEN)
        with service.client() as client:
            probes = [client.get(path).status_code for path in ("/livez", "/readyz")]
        for connection in busy:
            connection.sendall(body[1:])
        answered = [everything(connection).split(b"\r\n")[0] for connection in busy]
        until(lambda: service.client().post("/v1/decisions", json=QWEN).status_code == 200)
        denied = service.metrics()['runner_policy_access_denied_total{reason="connections"}']
    assert (answer.status_code, answer.headers["content-type"], answer.headers["connection"]) == (
        503,
        "application/problem+json",
        "close",
    )
    assert (answer.headers["retry-after"], answer.json()["detail"]) == (
        "1",
        "this process has reached its limit of connections; close unused ones, and try again",
    )
    assert (probes, answered) == ([200, 200], [b"HTTP/1.1 200 OK"] * 3)
    assert denied >= 2


@pytest.mark.slow
def test_waiting_connections_are_closed_for_those_with_a_request(serve: Callable[..., Any]) -> None:
    """Connections without a complete request block no other client.

    They have sent nothing or a part of a head, are idle after an answer, or have sent a part of the next head.
    """
    partial = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
    complete = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve(MAX_CONNECTIONS="8", BODY_TIMEOUT="300") as service, ExitStack() as stack:
        waiting = [stack.enter_context(connected(service)) for _ in range(8)]
        for connection, sent in zip(waiting, (b"", partial, complete, complete) * 2, strict=True):
            connection.sendall(sent)
        for number, connection in enumerate(waiting):
            if number % 4 > 1:
                while not connection.recv(65536).endswith(b"ok\n"):
                    pass
            if number % 4 > 2:
                connection.sendall(partial)
        time.sleep(1.5)  # longer than one may wait in a full process
        clients = [stack.enter_context(service.client()) for _ in range(8)]
        assert [client.post("/v1/decisions", json=QWEN).status_code for client in clients] == [200] * 8
        assert [everything(connection) for connection in waiting] == [b""] * 8


@pytest.mark.slow
def test_connections_without_a_whole_request_are_closed(serve: Callable[..., Any]) -> None:
    whole, part = (
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    )
    answered = {b"": 0, part: 0, whole + part: 1, whole * 3 + part: 3, post("/nowhere", b"{", 100): 1}
    with serve(BODY_TIMEOUT="1") as service, service.client() as client, ExitStack() as stack:
        silent = {sent: stack.enter_context(connected(service)) for sent in answered}
        for sent, connection in silent.items():
            connection.settimeout(KEEP_ALIVE / 2)  # an idle connection is not closed by then
            connection.sendall(sent)
        until(lambda: client.get("/livez").text == "ok\n")
        found = {sent: everything(connection).count(b"HTTP/1.1 ") for sent, connection in silent.items()}
        assert found == answered
        assert client.post("/v1/decisions", json=QWEN).status_code == 200


HEADS = {
    "an address": (b"GET /", b"x" * 4096),
    "a header": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ", b"x" * 4096),
    "many headers": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n", b"a:b\r\n" * 1000),
    "headers of a kept connection": (
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\n",
        b"a:b\r\n" * 1000,
    ),
    "headers after a body": (
        b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"a:b\r\n" * 1000,
    ),
    "one header after a body": (
        b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"x" * 4096,
    ),
    "an extension of a chunk": (
        b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"x" * 4096,
    ),
}


@pytest.mark.parametrize("head", HEADS)
def test_an_endless_head_is_refused_before_it_is_large(shared: Callable[..., Any], head: str) -> None:
    begin, more = HEADS[head]
    with shared("open") as service, service.client() as client, connected(service) as connection:
        client.get("/livez")
        connection.sendall(begin)
        sent = 0
        with suppress(OSError):
            while sent < 50_000_000:
                connection.sendall(more)
                sent += len(more)
        found = everything(connection)
        alive = client.post("/v1/decisions", json=QWEN).status_code
    assert sent < 50_000_000
    assert alive == 200
    if "body" not in head and "chunk" not in head and found:  # data sent after the answer can discard it
        answer = found[found.index(b"HTTP/1.1 431") :]
        assert b"connection: close" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "urn:runner-policy:problem:headers-too-large"


def test_a_head_that_is_too_large_gets_a_problem(shared: Callable[..., Any]) -> None:
    begin = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
    with shared("open") as service:
        for parts in (
            (begin, b"X: " + b"x" * 70_000),
            (begin, b"a:b\r\n" * 201),
            (begin + b"a:b\r\n" * 200 + b"\r\n",),
        ):
            with connected(service) as connection:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(0.2)  # so that it arrives separately
                head, _, body = everything(connection).partition(b"\r\n\r\n")
                assert (head.split(b"\r\n")[0], json.loads(body)["detail"]) == (
                    b"HTTP/1.1 431 Request Header Fields Too Large",
                    "the request headers are too large; at most 65,536 bytes and 200 headers are accepted",
                )


def test_an_offer_of_another_protocol_is_ignored_and_the_body_is_read(shared: Callable[..., Any]) -> None:
    """Java's client and curl offer HTTP/2 without TLS like this (RFC 9110, section 7.8)."""
    offers = (
        (
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
        ),
        (
            b"Connection: Upgrade",
            b"Upgrade: websocket",
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
        ),
    )
    body = json.dumps(QWEN).encode()
    with shared("open") as service:
        for offer in offers:
            request = post("/v1/decisions", body, len(body), *offer)
            for split in (len(request), len(request) - len(body), len(request) - 5, 60):
                with connected(service) as connection:
                    for part in filter(None, (request[:split], request[split:])):
                        connection.sendall(part)
                        time.sleep(0.05)
                    connection.sendall(post("/v1/decisions", body, len(body), b"Connection: close"))
                    found = everything(connection)
                    assert (found.count(b"HTTP/1.1 200 OK"), found.count(b'"decision_id"')) == (2, 2), split
        with connected(service) as connection:
            connection.sendall(b"CONNECT x:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert everything(connection).startswith(b"HTTP/1.1 4")
        assert "WebSocket" not in service.log.read_text()


@pytest.mark.slow
def test_a_process_raises_its_limit_of_open_files_for_its_connections(serve: Callable[..., Any]) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with serve(MAX_CONNECTIONS="500", files=f"512, {hard}") as service:
        (line,) = [
            line
            for line in Path(f"/proc/{service.process.pid}/limits").read_text().splitlines()
            if line.startswith("Max open files")
        ]
    assert int(line.split()[3]) == min(4 * 500 + 256, hard if hard != resource.RLIM_INFINITY else 1 << 30)


@pytest.mark.slow
def test_too_few_open_files_for_the_connections_are_reported_at_the_start(serve: Callable[..., Any]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    warnings = {}
    for connections in ("256", "257"):
        with serve(MAX_CONNECTIONS=connections, LOG_FORMAT="json", files="512, 512") as service:
            warnings[connections] = [line for line in service.log_lines() if "files_allowed" in line]
            assert service.get("/readyz")["status"] == "ready"
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
    (line,) = warnings["257"]
    assert (warnings["256"], line["level"]) == ([], "warning")
    assert (line["max_connections"], line["files_needed"], line["files_allowed"]) == (257, 513, 512)
    assert all(word in line["message"] for word in ("ulimit -Hn", "LimitNOFILE", "RUNNER_POLICY_MAX_CONNECTIONS"))


def sockets(service: Service) -> int:
    """The number of open sockets of the service's process."""
    found = 0
    for file in Path(f"/proc/{service.process.pid}/fd").iterdir():
        with suppress(OSError):  # closed in the meantime
            found += str(file.readlink()).startswith("socket:")
    return found


@pytest.mark.slow
def test_connections_whose_answers_are_not_read_are_closed(serve: Callable[..., Any]) -> None:
    line = json.dumps(QWEN).encode() + b"\n"
    stream = (
        b"POST /v1/decisions/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with serve(BODY_TIMEOUT="2") as service, ExitStack() as stack:
        before = sockets(service)
        unread = [stack.enter_context(socket.socket()) for _ in range(2)]
        for connection in unread:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", service.port))
            connection.setblocking(False)
        with suppress(BlockingIOError):
            unread[0].send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
            unread[1].send(stream)
            for _ in range(100_000):
                unread[1].send(b"%x\r\n%b\r\n" % (len(line), line))
        until(lambda: sockets(service) == before)
        assert service.client().post("/v1/decisions", json=QWEN).status_code == 200


@pytest.mark.slow
def test_an_idle_connection_is_kept_for_longer_than_clients_keep_it(serve: Callable[..., Any]) -> None:
    with serve(BODY_TIMEOUT="1") as service, connected(service) as connection:
        for pause in (0, 7):
            time.sleep(pause)
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while not (found := connection.recv(65536)).endswith(b"ok\n"):
                assert found


def sent_and_half_closed(service: Service, data: bytes) -> bytes:
    """The bytes received until the service closes, if the client sends nothing after the data."""
    with connected(service) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return everything(connection)


def test_a_client_that_closes_its_sending_half_is_answered(serve: Callable[..., Any]) -> None:
    body = json.dumps(QWEN).encode()
    batch = json.dumps({"items": [QWEN] * 50}).encode()
    one = post("/v1/decisions", body, len(body))
    with serve() as service, service.client() as client:
        # An answer must start in a second; a worker process takes longer.
        client.post("/v1/decisions/batch", content=batch)
        for data in (
            one,
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
            post("/v1/decisions/batch", batch, len(batch)),
        ):
            assert sent_and_half_closed(service, data).startswith(b"HTTP/1.1 200 OK")
        assert sent_and_half_closed(service, one * 5).count(b"HTTP/1.1 200 OK") == 5
        lines = b"\n".join([body] * 300)
        stream = post("/v1/decisions/batch", lines, len(lines), b"Content-Type: application/x-ndjson")
        assert sent_and_half_closed(service, stream).count(b"decision_id") == 300


def test_all_requests_before_a_half_close_are_answered_however_long_they_take_together(
    serve: Callable[..., Any],
) -> None:
    lines = b"\n".join([json.dumps(QWEN).encode()] * 30)  # the rate limit makes it take two seconds
    slow = post("/v1/decisions/batch", lines, len(lines), b"Content-Type: application/x-ndjson")
    further = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 30
    with serve(RATE_LIMIT="10") as service:
        found = sent_and_half_closed(service, slow + further + post("/v1/decisions", b"{", 100))
    assert found.count(b"HTTP/1.1 200 OK") == found.count(b"HTTP/1.1 ") == 31
    assert found.count(b"decision_id") == 30


def test_a_client_that_closes_its_sending_half_early_gets_no_answer(serve: Callable[..., Any]) -> None:
    body = json.dumps(QWEN).encode()
    with serve(BODY_TIMEOUT="3600") as service:
        for data in (b"", b"GET /livez HTTP/1.1\r\nHost", post("/v1/decisions", body[:5], len(body))):
            assert sent_and_half_closed(service, data) == b""
