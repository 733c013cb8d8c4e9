"""HTTP/1.1 connections: how many a process has, how much of one it reads, and how it ends when the service ends.

Not here: the certificate (``tls``), connections on which nothing moves (``idle``), and how long a body may take
(``body_timeout``).
"""

from __future__ import annotations

import select
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from policy.decision.decision import encode
from service.auth.access import OPEN_PATHS
from service.problems import MEDIA_TYPE, Refused, headers_of, problem_of

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Receive, Scope, Send
    from uvicorn import Config

TOO_MANY: Final = 503
MAX_HEAD: Final = 65_536
"""Bytes that a connection may send without a part of a body, or a request's end, among them."""
MAX_HEADERS: Final = 200
MAX_WAITING: Final = 8
"""Requests of a connection that may wait for earlier ones; uvicorn makes an object of some kilobytes of each, however many there are."""
PIECE: Final = 4096
"""Bytes that are parsed at once, where they may be a hundred requests."""
MAX_TURN: Final = 16_384
"""Bytes of a connection that are parsed before others have their turn: they may be thousands of a body's chunks."""
CONNECT: Final = b"CONNECT"
HALF_OPEN: Final = 5.0
"""Seconds for which the answer to a client that sends nothing more may take to begin."""
GRACE: Final = 1.0
"""Seconds that a connection may wait though the process has as many as it may."""
SCAN_INTERVAL: Final = 0.1
"""Seconds between two looks for those."""
_on_headers_complete: Final = (
    HttpToolsProtocol.on_headers_complete
)  # each request comes by here, and `super()` costs more than all else of it
_on_body: Final = HttpToolsProtocol.on_body

LAST_REQUESTS: Final = 1.0
"""Seconds for which a service that ends still answers on connections that are open, each answer with `connection: close`."""


class Flow(FlowControl):
    """uvicorn's, for a connection that may hold what was read: that comes first, before more is read."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.transport)
        self._connection = connection

    def resume_reading(self) -> None:
        """Read on, once nothing is held any more."""
        if self._connection.held:
            self.read_paused = False
            self._connection.loop.call_soon(self._connection.read_held)
        else:
            super().resume_reading()

    def hold(self) -> None:
        """Nothing more comes from the transport; ``resume_reading`` says when it may again."""
        self._transport.pause_reading()

    def release(self) -> None:
        """What was held is parsed: the transport reads on, unless a body waits to be taken."""
        if not self.read_paused:
            self._transport.resume_reading()


class Connection(HttpToolsProtocol):
    """A connection; one too many is answered 503 and closed, unless it asks whether the process lives.

    A request's head is bounded, which neither uvicorn nor its parser does. Another protocol that is offered (RFC 9110, section 7.8) is passed
    over, where the parser would take the body for it.
    """

    open_connections: ClassVar[set[Any]] = set()
    """The open ones of this process."""
    idle: ClassVar[list[Connection]] = []
    """Those that waited at the last look, the longest at the end."""
    last_scan: ClassVar[float] = 0.0
    rejected: ClassVar[int] = 0
    ending: ClassVar[bool] = False
    """Whether the process listens no more."""
    ending_since: ClassVar[float | None] = None
    """Since when (of the monotonic clock) it does not."""

    def __init__(self, config: Config, *arguments: Any, **more: Any) -> None:
        super().__init__(config, *arguments, **more)
        self.max_connections, self.limit_concurrency = (
            self.limit_concurrency,
            None,
        )  # uvicorn's own answer is no problem, and meets the probes too
        self.headers = []
        self.since = 0.0
        self.unread = 0
        """Bytes of a head, or after a body, that the parser may hold."""
        self.held = b""
        """What was read and is not parsed yet."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Serve it, or turn it away."""
        super().connection_made(transport)
        self.flow: Flow = Flow(self)
        Connection.open_connections = self.connections
        self.since = time.monotonic()
        if (
            self.max_connections is not None
            and len(self.connections) > self.max_connections
            and not self._close_idle_connection()
        ):
            Connection.rejected += 1
            self.app = _reject_requests(self.app)
        if Connection.ending:
            self.shutdown()

    def shutdown(self) -> None:
        """Answer what still comes with `connection: close`, and close when nothing has come for ``LAST_REQUESTS`` seconds.

        A client learns so that it has to connect anew before it sends again (RFC 9112, section 9.6); a connection that
        is closed at once takes a request that is on its way with it. It is not closed for writing first, as no answer
        could be sent then. Where an answer has begun without the header, the next one has it.
        """
        if not self.is_waiting and not self.cycle.response_started:
            self.cycle.keep_alive = False
        grace = self.config.timeout_graceful_shutdown
        self.loop.call_later(LAST_REQUESTS if grace is None else min(LAST_REQUESTS, grace / 2), self._close_idle)

    def _close_idle(self) -> None:
        """Close where no request is on its way; one that is has the time that all of them have."""
        if self.transport.is_closing():
            return
        is_idle = not self.held and (self.timeout_keep_alive_task is not None or (self.is_waiting and not self.unread))
        if is_idle and not self._has_unread():
            self.transport.close()
        else:
            self.loop.call_later(SCAN_INTERVAL, self._close_idle)

    def _has_unread(self) -> bool:
        """Whether the system has bytes of the client that were not read yet."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_since(self) -> float:
        """Since when it has been idle; since its beginning where it is not, or had no request."""
        idle = self.timeout_keep_alive_task
        return self.since if idle is None else idle.when() - self.timeout_keep_alive

    def _close_idle_connection(self) -> bool:
        """Whether another connection was closed that has been waiting, so that who holds connections and asks nothing keeps nobody out."""
        before = self.since - GRACE
        idle = Connection.idle
        if not idle and self.since - Connection.last_scan > SCAN_INTERVAL:
            Connection.last_scan = self.since
            idle += sorted(
                (each for each in Connection.open_connections if each.is_waiting),
                key=lambda each: each.waits_since,
                reverse=True,
            )
        while idle:
            longest = idle.pop()
            if longest.is_waiting and longest.waits_since < before and not longest.transport.is_closing():
                longest.transport.close()
                return True
        return False

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio's signature, which uvicorn narrows
        """Stay open where the last request came whole: its client may have closed its sending half alone, and is answered.

        TLS has no such half. A client that has gone looks alike until something is sent to it, so an answer that has
        not begun after ``HALF_OPEN`` seconds is not waited for.
        """
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body or self.scheme == "https":
            return None
        cycle.keep_alive = False
        self.loop.call_later(HALF_OPEN, self._close_unless_answering)
        return True

    def _close_unless_answering(self) -> None:
        if self.pipeline or not self.cycle.response_started:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Read on, within the bounds."""
        self._unset_keepalive_if_required()
        if self.held:
            self.held += data
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Parse piece by piece, and hold the rest.

        It is held until others had their turn, an earlier request is answered, or somebody takes what is there of a
        body, which the response does at its end.
        """
        for at in range(0, len(data), PIECE):
            if at >= MAX_TURN or self._is_full():
                self.held = data[at:]
                self.flow.hold()
                self.loop.call_soon(self.read_held)
                return
            self._parse(data if len(data) <= PIECE else data[at : at + PIECE])
            if self.transport.is_closing():
                return

    def _is_full(self) -> bool:
        """Whether as many requests wait for earlier ones, or as many bytes of a body, as may."""
        return len(self.pipeline) >= MAX_WAITING or self.flow.read_paused

    def read_held(self) -> None:
        """Parse some of what is held, where that may go on."""
        if not self.held or self._is_full() or self.transport.is_closing():
            return
        data, self.held = self.held, b""
        self._unset_keepalive_if_required()
        self._read(data)
        if not self.held:
            self.flow.release()

    def _parse(self, data: bytes) -> None:
        self.unread += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offered:
            self._ignore_upgrade(data, offered)
        except httptools.HttpParserError:
            self._send_bad_request()
        if self.unread > MAX_HEAD or len(self.headers) > MAX_HEADERS:
            self._send_head_too_large()

    def on_headers_complete(self) -> None:
        """Answer the request.

        Fields that come behind the body, as trailers of chunks, are no headers (RFC 9110, section 6.5.1): nobody that
        stands between has seen them as such. They go to a list that nobody reads.
        """
        if len(self.headers) > MAX_HEADERS or (self.unread > MAX_HEAD and self._head_size() > MAX_HEAD):
            raise httptools.HttpParserError("a larger head than is taken")
        self.unread = 0
        if [name for name, _ in self.headers].count(b"host") != 1:
            self._check_hosts()
        _on_headers_complete(self)
        self.headers = []
        if Connection.ending:
            self.cycle.keep_alive = False

    def _head_size(self) -> int:
        """Bytes of the head that has been read, with what separates its parts."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _check_hosts(self) -> None:
        """A request of HTTP/1.1 has one `Host` (RFC 9112, section 3.2), one of HTTP/1.0 at most.

        Raises:
            HttpParserError: it has another number of them.
        """
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or self.parser.get_http_version() != "1.0":
            raise httptools.HttpParserError(f"{len(hosts)} hosts")

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, where somebody will ask for it."""
        self.unread = 0
        if self.scope["method"] == "POST":
            _on_body(self, body)

    def _should_upgrade(self) -> bool:
        """Whether the request is to be read again without what it offers; uvicorn does not answer it then. ``CONNECT`` offers nothing, and is answered."""
        return bool(self.parser.get_method() != CONNECT)

    def _ignore_upgrade(self, data: bytes, offered: httptools.HttpParserUpgrade) -> None:
        """Read what comes after an offer, and after the next ones."""
        rest = memoryview(data)
        while self._should_upgrade():
            rest = rest[offered.args[0] :]
            try:
                self._read_head_again()
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as another:
                offered = another
            except httptools.HttpParserError:
                self._send_bad_request()
                return
            else:
                return

    def _read_head_again(self) -> None:
        version = self.parser.get_http_version().encode()
        lines = [
            b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version),
            *(b"%b: %b" % header for header in self.scope["headers"] if header[0] != b"upgrade"),
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def _send_bad_request(self) -> None:
        if len(self.headers) <= MAX_HEADERS and self.unread <= MAX_HEAD:
            self.send_400_response("Invalid HTTP request received.")

    def _send_head_too_large(self) -> None:
        """Answer 431 where no other answer is under way, and close."""
        if not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(HEAD_TOO_LARGE)
            self.transport.close()


def _head_too_large() -> bytes:
    detail = f"the request's head is too large; at most {MAX_HEAD:,} bytes and {MAX_HEADERS} headers are accepted"
    problem = problem_of(Refused("headers-too-large", detail))
    body = encode(problem)
    status = HTTPStatus(problem.status)
    lines = [
        b"HTTP/1.1 %d %b" % (status, status.phrase.encode()),
        b"content-type: " + MEDIA_TYPE.encode(),
        b"content-length: %d" % len(body),
    ]
    return b"\r\n".join([*lines, b"connection: close", b"", body])


HEAD_TOO_LARGE: Final = _head_too_large()


def _reject_requests(app: ASGIApp) -> ASGIApp:
    error = Refused(
        "too-many-connections", "this process holds as many connections as it may; close unused ones, and try again"
    )
    body = encode(problem_of(error))
    headers = [*headers_of(error, TOO_MANY), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": TOO_MANY, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse
