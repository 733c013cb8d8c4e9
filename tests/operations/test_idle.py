"""When a connection that waits for a request, or for the rest of one, is closed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from operations.test_response_writer import GET, Transport
from uvicorn import Config
from uvicorn.server import ServerState

from service.transport.connection import Connection
from service.transport.idle import IdleReaper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

KEEP_ALIVE = 75
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n"


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Transport]]:
    config = Config(app, http=Connection, ws="none", log_level="critical", timeout_keep_alive=KEEP_ALIVE)
    config.load()
    transport, state = Transport(), ServerState()
    connection = Connection(config, state, {})
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
