"""What a connection writes to its transport at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from service.transport.connection import Connection
from service.transport.exchange import MAX_JOINED

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

HEAD = b"HTTP/1.1 200 OK\r\n"
SMALL, LARGE = b"x" * 10, b"x" * (MAX_JOINED + 1)


class Transport(asyncio.Transport):
    """Collects what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def written(request: bytes, headers: list[tuple[bytes, bytes]], *bodies: bytes, fails: bool = False) -> list[bytes]:
    """What is written when an application sends ``headers`` and then ``bodies``."""

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if fails:
            raise RuntimeError("a fault of ours")
        for number, body in enumerate(bodies, 1):
            await send({"type": "http.response.body", "body": body, "more_body": number < len(bodies)})

    async def run() -> list[bytes]:
        config = Config(app, http=Connection, interface="asgi3", ws="none", lifespan="off", log_level="critical")
        config.load()
        transport = Transport()
        connection = Connection(config, ServerState(), {})
        connection.connection_made(transport)
        connection.data_received(request)
        while connection.tasks:
            await asyncio.gather(*connection.tasks)
        connection.connection_lost(None)
        return transport.written

    return asyncio.run(run())


def length(*bodies: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-length", b"%d" % sum(map(len, bodies)))]


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
EXPECTS = b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
SIZED = HEAD + b"content-length: %d\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "bodies", "expected"),
    [
        (GET, [SMALL], [SIZED % 10 + SMALL]),
        (GET, [b""], [SIZED % 0]),
        (GET, [SMALL, SMALL], [SIZED % 20 + SMALL, SMALL]),
        (GET, [LARGE, SMALL], [SIZED % len(LARGE + SMALL), LARGE, SMALL]),
        (GET.replace(b"GET", b"HEAD"), [SMALL], [SIZED % 10]),
        (EXPECTS, [SMALL], [CONTINUE, SIZED % 10 + SMALL]),
        (GET + GET, [SMALL], [SIZED % 10 + SMALL] * 2),
    ],
    ids=["small", "empty", "parts", "large", "HEAD", "100-continue", "pipelined"],
)
def test_a_head_is_written_with_its_body(request_: bytes, bodies: list[bytes], expected: list[bytes]) -> None:
    assert written(request_, length(*bodies), *bodies) == expected


def test_the_head_of_a_stream_is_written_at_once() -> None:
    assert written(GET, [], SMALL, b"") == [CHUNKED, b"a\r\n" + SMALL + b"\r\n", b"0\r\n\r\n"]


def test_a_head_whose_body_is_never_sent_is_written_before_the_connection_closes() -> None:
    assert written(GET, length(SMALL), fails=True) == [SIZED % 10]


FAILED = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 21\r\nconnection: close\r\n\r\nInternal Server Error"
)
OK = {"type": "http.response.start", "status": 200}
EMPTY = (b"content-length", b"0")


async def exchanged(app: Any, *parts: bytes, ends: bool = False) -> tuple[list[bytes], bool]:
    """What is written for a request that arrives in parts, and whether the connection was closed.

    With ``ends`` the client disconnects after the last part.
    """
    config = Config(app, http=Connection, interface="asgi3", ws="none", lifespan="off", log_level="critical")
    config.load()
    transport = Transport()
    connection = Connection(config, ServerState(), {})
    connection.connection_made(transport)
    for part in parts:
        connection.data_received(part)
        for _ in range(3):
            await asyncio.sleep(0)
    tasks = tuple(connection.tasks)
    if ends:
        connection.connection_lost(ConnectionResetError())
    await asyncio.gather(*tasks)
    return transport.written, transport.closed


def sending(*messages: dict[str, Any]) -> Any:
    """An application that sends these messages."""

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


@pytest.mark.parametrize(
    ("app", "expected"),
    [
        (sending(), [FAILED]),
        (sending({**OK, "headers": [(b"content-length", b"-1")]}), [FAILED]),
        (sending({**OK, "headers": [(b"x-name", b"a\r\nb: c")]}), [FAILED]),
        (sending({**OK, "headers": [(b"x name", b"a")]}), [FAILED]),
        (sending({**OK, "headers": length(SMALL)}), [SIZED % 10]),
        (sending({**OK, "headers": length(SMALL)}, {"type": "http.response.body", "body": SMALL * 2}), [SIZED % 10]),
        (
            sending({**OK, "headers": length(SMALL)}, {"type": "http.response.body", "body": SMALL[1:]}),
            [SIZED % 10 + SMALL[1:]],
        ),
        (
            sending({**OK, "headers": [*length(SMALL), (b"connection", b"close")]}, {"type": "x", "body": SMALL}),
            [HEAD + b"content-length: 10\r\nconnection: close\r\n\r\n" + SMALL],
        ),
    ],
    ids=["nothing", "length", "value", "name", "no body", "too long", "too short", "closes itself"],
)
def test_a_response_that_cannot_be_completed_is_an_error_and_closes_the_connection(
    app: Any, expected: list[bytes]
) -> None:
    assert asyncio.run(exchanged(app, GET)) == (expected, True)


@pytest.mark.parametrize(
    "messages",
    [[{**OK, "headers": [EMPTY]}, {"type": "http.response.body"}, {"type": "http.response.body"}]],
)
def test_what_is_sent_after_a_response_is_not_written(messages: list[dict[str, Any]]) -> None:
    assert asyncio.run(exchanged(sending(*messages), GET)) == ([SIZED % 0], False)


def test_a_status_without_a_body_has_no_transfer_encoding() -> None:
    messages = {**OK, "status": 204, "headers": []}, {"type": "http.response.body"}
    assert asyncio.run(exchanged(sending(*messages), GET)) == ([b"HTTP/1.1 204 No Content\r\n\r\n"], False)


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([POST + b"abcdef"], [(b"abcdef", False)]),
        ([POST, b"abc", b"def"], [(b"abc", True), (b"def", False)]),
        ([POST + b"ab", b"cd", b"ef"], [(b"ab", True), (b"cd", True), (b"ef", False)]),
    ],
    ids=["at once", "after the head", "in three parts"],
)
def test_a_body_is_received_as_it_arrives(parts: list[bytes], expected: list[tuple[bytes, bool]]) -> None:
    found = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            found.append((message["body"], more))
        await sending({**OK, "headers": [EMPTY]}, {"type": "http.response.body"})(_scope, receive, send)
        found.append((await receive())["type"])

    assert asyncio.run(exchanged(app, *parts)) == ([SIZED % 0], False)
    assert found == [*expected, "http.disconnect"]


def test_parts_of_a_body_that_nobody_has_received_yet_are_joined() -> None:
    found = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(20):  # in which the whole body arrives
            await asyncio.sleep(0)
        found.append(await receive())
        await sending({**OK, "headers": [EMPTY]}, {"type": "http.response.body"})(_scope, receive, send)

    asyncio.run(exchanged(app, POST, b"ab", b"cd", b"ef"))
    assert found == [{"type": "http.request", "body": b"abcdef", "more_body": False}]


def test_a_client_that_disconnects_ends_the_wait_for_its_body_and_gets_nothing() -> None:
    found = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        found.append(await receive())
        found.append(await receive())
        await sending({**OK, "headers": [EMPTY]}, {"type": "http.response.body"})(_scope, receive, send)

    assert asyncio.run(exchanged(app, POST, b"abc", ends=True)) == ([], False)
    assert found == [{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}]
