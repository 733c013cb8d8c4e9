"""Bounds on what one caller may take: time, connections, silence. The others are answered meanwhile."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from doors.conftest import PATIENCE

from .conftest import QWEN, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Service


def connected(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), PATIENCE)


def everything(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
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
    return b"\r\n".join([b"POST %b HTTP/1.1" % path.encode(), b"Host: x", b"Content-Length: %d" % length, *lines, b"", body])


def test_bodies_that_come_too_slowly_are_turned_away_while_others_are_answered(serve: Callable[..., Any]) -> None:
    paths = ("/v1/decisions", "/v1/decisions/batch", "/v1/dry-run", "/v1/admission", "/v1/admission/mutate")
    with serve(BODY_TIME="3") as service, service.client() as client, ExitStack() as stack:
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
    assert {path: answer.split(b"\r\n")[0] for path, answer in answers.items()} == dict.fromkeys(paths, b"HTTP/1.1 408 Request Timeout")
    problem = json.loads(answers["/v1/decisions"].partition(b"\r\n\r\n")[2])
    assert (problem["type"], problem["detail"]) == ("urn:runner-policy:problem:too-slow", "the body took more than 3 s to arrive; send it faster")
    assert b"connection: close" in answers["/v1/decisions"]
    assert (codes, after) == ({200}, 200)


def series(path: str, status: int) -> str:
    return f'runner_policy_requests_total{{path="{path}",status="{status}"}}'


def test_a_stream_lasts_as_long_as_its_parts_come(serve: Callable[..., Any]) -> None:
    line = json.dumps(QWEN).encode() + b"\n"
    head = b"POST /v1/decisions/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serve(BODY_TIME="2") as service, connected(service) as connection:
        connection.sendall(head)
        began = time.monotonic()
        sent = 0
        while time.monotonic() - began < 4.5:
            connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))
            sent += 1
            time.sleep(0.2)  # slower than nothing, faster than the bound
        found = everything(connection)
    assert (found.startswith(b"HTTP/1.1 200 OK"), found.count(b'"decision_id"')) == (True, sent)


def test_connections_that_are_too_many_are_turned_away_and_probes_are_not(serve: Callable[..., Any]) -> None:
    with serve(MAX_CONNECTIONS="3") as service, ExitStack() as stack:
        clients = [stack.enter_context(service.client()) for _ in range(3)]
        assert [client.post("/v1/decisions", json=QWEN).status_code for client in clients] == [200] * 3
        with service.client() as client:
            answer = client.post("/v1/decisions", json=QWEN)
        with service.client() as client:
            probes = [client.get(path).status_code for path in ("/livez", "/readyz")]
        again = [client.post("/v1/decisions", json=QWEN).status_code for client in clients]
        denied = clients[0].get("/metrics").text
        clients[2].close()
        until(lambda: service.client().post("/v1/decisions", json=QWEN).status_code == 200)
    assert (answer.status_code, answer.headers["content-type"], answer.headers["connection"]) == (503, "application/problem+json", "close")
    assert (answer.headers["retry-after"], answer.json()["detail"]) == ("1", "this process holds as many as it may; close what is not needed, and try again")
    assert (probes, again) == ([200, 200], [200] * 3)
    assert 'runner_policy_access_denied_total{reason="connections"} 2.0' in denied


def test_connections_on_which_no_request_comes_are_closed(serve: Callable[..., Any]) -> None:
    with serve(BODY_TIME="1") as service, service.client() as client, ExitStack() as stack:
        silent = {sent: stack.enter_context(connected(service)) for sent in (b"", b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nX-Slow: ")}
        for sent, connection in silent.items():
            connection.sendall(sent)
        until(lambda: client.get("/livez").text == "ok\n")
        assert {sent: everything(connection) for sent, connection in silent.items()} == dict.fromkeys(silent, b"")
        assert client.post("/v1/decisions", json=QWEN).status_code == 200
