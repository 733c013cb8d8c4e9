"""When a connection that is idle after a request is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from operations.test_response_writer import GET, Transport
from uvicorn import Config
from uvicorn.server import ServerState

from service.transport.connection import Connection
from service.transport.idle import IdleReaper

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

KEEP_ALIVE = 75


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


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
        config = Config(app, http=Connection, ws="none", log_level="critical", timeout_keep_alive=KEEP_ALIVE)
        config.load()
        transport, state = Transport(), ServerState()
        connection = Connection(config, state, {})
        connection.connection_made(transport)
        for request in requests:
            connection.data_received(request)
            while connection.tasks:
                await asyncio.gather(*connection.tasks)
        assert connection.idle_since is not None
        connection.idle_since -= idle
        if further:
            connection.data_received(further)
        IdleReaper(KEEP_ALIVE).sweep()
        found = transport.closed
        await asyncio.gather(*connection.tasks)
        connection.connection_lost(None)
        return found

    assert asyncio.run(run()) is closed
