"""What a connection writes to its transport at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from service.transport.connection import Connection
from service.transport.disconnection import connection_of
from service.transport.response_writer import MAX_JOINED, head_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEAD = b"HTTP/1.1 200 OK\r\n"
SMALL, LARGE = b"x" * 10, b"x" * (MAX_JOINED + 1)


class Transport(asyncio.Transport):
    """Collects what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = self.aborted = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

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

    return written_by(app, request)


def written_by(app: ASGIApp, request: bytes, date: bytes = b"") -> list[bytes]:
    """What an application writes; with ``date`` the server adds this header."""

    async def run() -> list[bytes]:
        served: Any = app  # uvicorn's and Starlette's ASGI types differ
        config = Config(served, http=Connection, interface="asgi3", ws="none", lifespan="off", log_level="critical")
        config.load()
        transport = Transport()
        state = ServerState()
        state.default_headers = [(b"date", date)] if date else []
        connection = Connection(config, state, {})
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


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
OLD = POST.replace(b"HTTP/1.1", b"HTTP/1.0")
LAST = POST.replace(b"\r\nContent", b"\r\nConnection: close\r\nContent")


@pytest.mark.parametrize(
    ("request_", "body", "steps"),
    [
        (POST, SMALL, [True]),
        (POST, b"", [True]),
        (POST, LARGE, [False]),
        (POST + POST, SMALL, [True, True]),
        (EXPECTS, SMALL, [True]),
        (OLD, SMALL, [False]),
        (LAST, SMALL, [False]),
    ],
    ids=["small", "empty", "large", "pipelined", "100-continue", "HTTP/1.0", "close"],
)
@pytest.mark.parametrize("is_watched", [False, True], ids=["plain", "watched"])
def test_a_response_in_one_step_is_the_same_bytes_as_one_of_messages(
    request_: bytes, body: bytes, steps: list[bool], *, is_watched: bool
) -> None:
    headers = [(b"content-type", b"text/plain"), *length(body)]
    taken: list[bool] = []
    seen: list[Message] = []

    def app(*, in_one_step: bool) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            async def watched(message: Message) -> None:
                seen.append(message)
                await send(message)

            sends = watched if is_watched else send
            await receive()
            connection = connection_of(scope)
            assert connection is not None
            if in_one_step:
                taken.append(connection.respond(sends, head_of(headers), body))
                if taken[-1]:
                    assert connection.response_started
                    return
            await sends({"type": "http.response.start", "status": 200, "headers": headers})
            await sends({"type": "http.response.body", "body": body})

        return answer

    messages = written_by(app(in_one_step=False), request_, b"today")
    assert written_by(app(in_one_step=True), request_, b"today") == messages
    assert b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-type: text/plain\r\n" in messages[-1 if body is not LARGE else 0]
    assert taken == ([False] * len(steps) if is_watched else steps)
    assert len(seen) == (4 * len(steps) if is_watched else 0)
