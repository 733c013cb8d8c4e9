"""When a connection that waits for a request, or for the rest of one, is closed."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from api.conftest import PATIENCE
from operations.test_response_writer import GET, Transport
from uvicorn import Config
from uvicorn.server import ServerState

from service.transport import connection as connections
from service.transport.connection import Connection
from service.transport.idle import IdleReaper
from service.transport.room import Room
from service.transport.sockets import Loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from shared_services import SharedServices
    from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE = 75
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


def unconnected(app: ASGIApp = app) -> Connection:
    config = Config(app, http=Connection, ws="none", log_level="critical", timeout_keep_alive=KEEP_ALIVE)
    config.load()
    return Connection(config, ServerState(), {})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Transport]]:
    transport, connection = Transport(), unconnected()
    connection.connection_made(transport)
    yield connection, transport
    connection.connection_lost(None)


async def receive(connection: Connection, data: bytes) -> None:
    connection.data_received(data)
    while connection.tasks:
        await asyncio.gather(*connection.tasks)


@pytest.mark.parametrize(
    ("requests", "idle", "further", "closed"),
    [
        ([GET], KEEP_ALIVE - 1, b"", False),
        ([GET], KEEP_ALIVE + 1, b"", True),
        ([GET, GET], KEEP_ALIVE + 1, b"", True),
        ([GET + GET], KEEP_ALIVE + 1, b"", True),
        ([GET], KEEP_ALIVE + 1, GET, False),
        ([GET], KEEP_ALIVE + 1, GET[:10], False),
    ],
    ids=["not yet", "once", "after two", "after two pipelined", "while answering another", "while receiving another"],
)
def test_a_connection_is_closed_when_it_was_idle_for_too_long(
    requests: list[bytes], idle: int, further: bytes, *, closed: bool
) -> None:
    async def run() -> bool:
        async with connected() as (connection, transport):
            for request in requests:
                await receive(connection, request)
            assert connection.idle_since is not None
            connection.idle_since -= idle
            if further:
                connection.data_received(further)
            IdleReaper(KEEP_ALIVE).sweep()
            found = transport.closed
            await asyncio.gather(*connection.tasks)
        return found

    assert asyncio.run(run()) is closed


@pytest.mark.parametrize(
    ("parts", "closed"),
    [
        ([GET], False),
        ([GET + b"\r\n"], False),
        ([GET + GET[:1]], True),
        ([GET + GET[:-1]], True),
        ([GET, GET[:10]], True),
        ([GET + GET + GET[:10]], True),
        ([GET + GET[:10], GET[10:]], False),
        ([GET + GET[:10], GET[10:] + GET[:10]], True),
        ([POST], True),
        ([GET + POST + b"{"], True),
        ([POST + b"{    "], False),
        ([POST + b"{    " + GET[:10]], True),
    ],
)
def test_the_rest_of_a_request_has_the_time_of_a_body_also_after_other_requests_in_its_segment(
    parts: list[bytes], *, closed: bool
) -> None:
    async def run() -> bool:
        async with connected() as (connection, transport):
            for part in parts:
                await receive(connection, part)
            reaper = IdleReaper(0)
            reaper.sweep()
            assert not transport.closed
            reaper.sweep()
            return transport.closed

    assert asyncio.run(run()) is closed


def test_each_unfinished_request_has_that_time_by_itself() -> None:
    async def run() -> list[bool]:
        found = []
        reaper = IdleReaper(0)
        async with connected() as (connection, transport):
            await receive(connection, GET + GET[:10])
            for _ in range(3):
                reaper.sweep()
                found.append(transport.closed)
                await receive(connection, GET[10:] + GET[:10])
            reaper.sweep()
            reaper.sweep()
            return [*found, transport.closed]

    assert asyncio.run(run()) == [False, False, False, True]


@pytest.mark.parametrize(("trailer", "closed"), [(b"Connection: close", True), (b"X-Digest: 0", False)])
def test_a_trailer_field_after_the_answer_may_close_the_connection(trailer: bytes, *, closed: bool) -> None:
    async def run() -> bool:
        async with connected() as (connection, transport):
            await receive(connection, b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            await receive(connection, b"0\r\n" + trailer + b"\r\n\r\n")
            return transport.closed

    assert asyncio.run(run()) is closed


@pytest.mark.parametrize(
    ("idle", "further", "slow", "closed"),
    [(0, b"", 0, False), (60, b"", 0, True), (60, GET[:10], 0, False), (60, GET[:10], 60, True)],
    ids=["not idle for long", "idle for long", "begins a request", "sends it slowly"],
)
def test_a_connection_that_just_began_a_request_is_not_closed_for_another(
    monkeypatch: pytest.MonkeyPatch, idle: int, further: bytes, slow: int, *, closed: bool
) -> None:
    monkeypatch.setattr(Room, "_idle", [])
    monkeypatch.setattr(Room, "_last_scan", 0.0)

    async def run() -> tuple[bool, bool]:
        async with connected() as (connection, transport):
            connection.since -= 600
            await receive(connection, GET)
            assert connection.idle_since is not None
            connection.idle_since -= idle
            for byte in further:
                connection.data_received(bytes([byte]))
            connection.since -= slow
            return Room.close_longest_idle(time.monotonic()), transport.closed

    assert asyncio.run(run()) == (closed, closed)


LARGE = b"x" * 50_000
"""More than the small buffers of two sockets hold, and less than makes uvloop pause its TLS."""


async def large(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(LARGE))]})
    await send({"type": "http.response.body", "body": LARGE})


@asynccontextmanager
async def answered_over_tls(shared_services: SharedServices) -> AsyncIterator[tuple[Connection, ssl.SSLSocket]]:
    """A connection whose client has read nothing of its large answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*shared_services.certificate)
    connection = unconnected(large)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as plain:
        plain.settimeout(PATIENCE)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(listening.getsockname())
        accepted, _ = listening.accept()
        accepted.setblocking(False)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client, _ = await asyncio.gather(
            asyncio.to_thread(shared_services.client_context.wrap_socket, plain, server_hostname="127.0.0.1"),
            asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted, ssl=context),
        )
        with client:
            client.sendall(GET)
            while connection.idle_since is None:  # noqa: ASYNC110  # nothing signals it
                await asyncio.sleep(0.01)
            yield connection, client


def test_a_client_that_ends_tls_and_does_not_read_its_answer_keeps_no_connection(
    shared_services: SharedServices,
) -> None:
    """uvloop then considers TLS as ended, and waits without a limit until the client has read what is encrypted."""

    async def run() -> None:
        async with answered_over_tls(shared_services) as (connection, client):
            client.setblocking(False)
            with suppress(ssl.SSLError):
                client.unwrap()
            while not connection.transport.is_closing():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            reaper = IdleReaper(0)
            reaper.sweep()
            await asyncio.sleep(0.1)
            assert connection in connection.connections
            reaper.sweep()
            await asyncio.sleep(0.1)
            assert connection not in connection.connections

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(asyncio.wait_for(run(), PATIENCE))


def test_a_client_that_reads_its_answer_slowly_gets_it_over_tls_when_the_service_ends(
    shared_services: SharedServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that has read it and does not end TLS is not waited for."""
    monkeypatch.setattr(connections, "LAST_REQUESTS_TIME", 0.0)
    monkeypatch.setattr(connections, "CLOSE_INTERVAL", 0.01)

    async def run() -> None:
        async with answered_over_tls(shared_services) as (connection, client):
            connection.shutdown()
            while not connection.transport.is_closing():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert connection in connection.connections
            read = b""
            while not read.endswith(LARGE):
                read += await asyncio.to_thread(client.recv, 65536)
            while connection in connection.connections:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(asyncio.wait_for(run(), PATIENCE))


def test_a_closing_connection_has_the_time_of_a_body_from_when_it_closes() -> None:
    async def run() -> list[bool]:
        found = []
        async with connected() as (connection, transport):
            await receive(connection, GET)
            transport.close()
            for reaper in (IdleReaper(KEEP_ALIVE), IdleReaper(0)):
                for _ in range(2):
                    reaper.sweep()
                    found.append(transport.aborted)
        return found

    assert asyncio.run(run()) == [False, False, False, True]
