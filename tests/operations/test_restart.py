"""Shutdowns and restarts with open connections: no request of a client that follows HTTP is lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import PATIENCE
from ports import port_of_nobody

from service.transport.connection import Connection
from service.transport.room import Room
from service.transport.sockets import Loop

from .conftest import QWEN, until
from .test_limits import connected, everything, post

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Service

BODY = json.dumps(QWEN).encode()
REQUEST = post("/v1/decisions", BODY, len(BODY))
CLOSE = b"connection: close"


def answer(connection: socket.socket) -> bytes:
    """The head of one answer, once its body has arrived; what was received if the connection ends before."""
    found = b""
    while b"\r\n\r\n" not in found or len(found) < length(found):
        part = connection.recv(65536)
        if not part:
            return found
        found += part
    return found.partition(b"\r\n\r\n")[0]


def length(answer: bytes) -> int:
    head, _, _ = answer.partition(b"\r\n\r\n")
    (line,) = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
    return len(head) + 4 + int(line.partition(b":")[2])


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_open_connections_get_one_more_answer_and_are_closed(serve: Callable[..., Any], workers: str) -> None:
    with serve("--workers", workers, SHUTDOWN_TIMEOUT="60") as service, ExitStack() as stack:
        busy, silent, fresh, *idle = (stack.enter_context(connected(service)) for _ in range(8))
        for connection in (silent, *idle):
            connection.sendall(REQUEST)
            assert CLOSE not in answer(connection)
        busy.sendall(REQUEST[:-5])
        service.client().get("/livez").raise_for_status()
        os.kill(service.process.pid, signal.SIGTERM)
        until(lambda: not listens(service.port))
        for connection in idle:
            connection.sendall(REQUEST)
        assert [answer(connection).startswith(b"HTTP/1.1 200 OK\r\n") for connection in idle] == [True] * len(idle)
        assert [everything(connection) for connection in (*idle, silent, fresh)] == [b""] * (len(idle) + 2)
        assert service.process.poll() is None
        busy.sendall(REQUEST[-5:])
        head = answer(busy)
        assert (head.startswith(b"HTTP/1.1 200 OK\r\n"), CLOSE in head, everything(busy)) == (True, True, b"")
        assert service.process.wait(PATIENCE) == 0


def test_the_last_answer_of_a_connection_announces_its_end(serve: Callable[..., Any]) -> None:
    with serve() as service, connected(service) as connection:
        connection.sendall(REQUEST)
        answer(connection)
        os.kill(service.process.pid, signal.SIGTERM)
        until(lambda: not listens(service.port))
        connection.sendall(REQUEST)
        assert CLOSE in answer(connection)


def test_the_first_request_of_a_connection_may_offer_another_protocol_while_the_service_stops(
    serve: Callable[..., Any],
) -> None:
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA")
    with serve() as service, connected(service) as connection:
        service.client().get("/livez").raise_for_status()  # the connection before it was accepted
        os.kill(service.process.pid, signal.SIGTERM)
        until(lambda: not listens(service.port))
        connection.sendall(post("/v1/decisions", BODY, len(BODY), *offer))
        head = answer(connection)
        assert (head.startswith(b"HTTP/1.1 200 OK\r\n"), CLOSE in head) == (True, True)


class Client(threading.Thread):
    """Sends requests one after the other, and never repeats one."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.ended = threading.Event()
        self.answered = self.lost = 0

    def run(self) -> None:
        connection = None
        while not self.ended.is_set():
            if connection is None:
                try:
                    connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
                except ConnectionRefusedError:
                    self.ended.wait(0.01)
                    continue
            head = self.ask(connection)
            if CLOSE in head or not head:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def ask(self, connection: socket.socket) -> bytes:
        try:
            connection.sendall(REQUEST)
            head = answer(connection)
        except ConnectionError:
            head = b""
        if head.startswith(b"HTTP/1.1 200 OK"):
            self.answered += 1
        else:
            self.lost += 1
        return head


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_restart_loses_no_request(serve: Callable[..., Any], workers: str) -> None:
    port = port_of_nobody()
    clients = [Client(port) for _ in range(4)]
    try:
        for number in range(2):
            with serve("--workers", workers, PORT=str(port)) as service:
                if number == 0:
                    for client in clients:
                        client.start()
                before = [client.answered for client in clients]
                until(
                    lambda before: all(
                        client.answered > answered + 20 for client, answered in zip(clients, before, strict=True)
                    ),
                    before,
                )
                stop(service)
    finally:
        for client in clients:
            client.ended.set()
            client.join(PATIENCE)
    assert [client.lost for client in clients] == [0] * len(clients)


def stop(service: Service) -> None:
    service.process.terminate()
    assert service.process.wait(PATIENCE) == 0


class Echo(asyncio.Protocol):
    """Sends back what it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]  # asyncio's types have no transport of both kinds here


def test_a_connection_that_was_accepted_before_the_socket_closed_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connection, "ending", False)

    async def ask() -> tuple[list[bytes], bool]:
        server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        # The loop does not run while they connect.
        waiting = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(5)]
        for each in waiting:
            each.sendall(b"sent")
        server.close()
        found = [await asyncio.to_thread(each.recv, 10) for each in waiting]
        for each in waiting:
            each.close()
        await asyncio.sleep(0.1)
        return found, listens(port)

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(ask()) == ([b"sent"] * 5, False)


def turns_to_accept(waiting: int, open_connections: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The turns of the event loop until connections that waited together are accepted."""
    monkeypatch.setattr(Room, "open_connections", set(range(open_connections)))

    async def accept() -> int:
        loop = asyncio.get_running_loop()
        made = 0

        class Counted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                nonlocal made
                made += not transport.is_closing()

        server = await loop.create_server(Counted, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        clients = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(waiting)]
        turns = 0
        while made < waiting:
            await asyncio.sleep(0)
            turns += 1
        for each in clients:
            each.close()
        server.close()
        return turns

    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(accept())


def test_the_more_connections_are_open_the_more_are_accepted_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "ending", False)
    monkeypatch.setattr(Connection, "ending_since", None)
    turns = [turns_to_accept(80, count, monkeypatch) for count in (0, 80, 400)]
    assert turns[0] >= 80
    assert turns[1] <= 16
    assert turns[2] <= 8
