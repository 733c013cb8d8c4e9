"""HTTP/1.1 connections: the limits on unread data, and how they end when the service stops.

Not here: which of them ends for a new one (``room``), the responses above a limit (``rejections``), the certificate
(``tls``), inactive connections (``idle``), and how long a body may take (``body_timeout``).
"""

from __future__ import annotations

import fcntl
import select
import sys
import termios
import time
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.documents.accept import headers_of
from service.transport.disconnection import CONNECTION
from service.transport.flow_control import Flow
from service.transport.rejections import head_too_large, reject_requests
from service.transport.response_writer import MAX_JOINED, OK, ResponseWriter, head_of
from service.transport.room import RESERVE, Room

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from starlette.types import Send
    from uvicorn import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

MAX_HEAD: Final = 65_536
"""Bytes a connection may send before the first part of a body or the end of a request."""
MAX_HEADERS: Final = 200
HEAD_TOO_LARGE: Final = head_too_large(MAX_HEAD, MAX_HEADERS)
MAX_WAITING: Final = 8
"""Requests of a connection that may wait for earlier ones: uvicorn allocates some kilobytes for each."""
MAX_WAITING_BODY: Final = 65_536
"""Bytes of a body that are read before the earlier requests are answered; a chunk may follow."""
CHUNK_SIZE: Final = 4096
"""Bytes parsed at once; they may hold a hundred requests."""
MAX_TURN: Final = 16_384
"""Bytes of a connection parsed before other connections get their turn; they may hold thousands of chunks."""
CONNECT: Final = b"CONNECT"
VERSIONS: Final = frozenset({"1.0", "1.1"})
HALF_OPEN_TIMEOUT: Final = 1.0
"""Seconds each response to a client that closed its sending half may take to start."""
CLOSE_INTERVAL: Final = 0.1
"""Seconds until a stopping service looks again whether a connection has become idle."""
LAST_REQUESTS_TIME: Final = 1.0
"""Seconds for which a stopping service answers on open connections, each time with `connection: close`."""

# Called for each request; `super()` would cost more than the rest of the method.
_on_headers_complete: Final = HttpToolsProtocol.on_headers_complete
_on_body: Final = HttpToolsProtocol.on_body
_on_message_complete: Final = HttpToolsProtocol.on_message_complete
_start_task: Final = HttpToolsProtocol._start_asgi_task  # noqa: SLF001  # its method, as above


class Connection(HttpToolsProtocol):
    """An HTTP/1.1 connection.

    Above the limit of connections a request is answered 503 and the connection closed, unless it is a probe. The size
    of a request's headers is limited, which neither uvicorn nor its parser does. An offered protocol upgrade (RFC 9110,
    section 7.8) is ignored; the parser would take the body for the other protocol.
    """

    rejected: ClassVar[int] = 0
    """The connections above the limit, and those that had no place, or lost it during their TLS handshake."""
    ending: ClassVar[bool] = False
    """Whether the process has stopped listening."""
    ending_since: ClassVar[float | None] = None
    """When it stopped listening, by the monotonic clock."""

    def __init__(self, config: Config, *arguments: Any, **more: Any) -> None:
        super().__init__(config, *arguments, **more)
        # uvicorn's own response above the limit is not problem+json, and also rejects probes
        self.max_connections, self.limit_concurrency = self.limit_concurrency, None
        Room.most = sys.maxsize if self.max_connections is None else self.max_connections + RESERVE
        self.is_rejected = False
        self.headers = []
        self.since = 0.0
        """When data arrived after it was idle, or it was opened if it was not idle yet."""
        self.idle_since: float | None = None
        """When its last request was answered; ``None`` if data arrived since, and before the first answer."""
        self.unread = 0
        """Bytes of headers, or after a body, that the parser may hold."""
        self.held = b""
        """Data that was read and is not parsed yet."""
        self.answering: RequestResponseCycle | None = None
        """The request that is being answered; ``cycle`` is the last one that arrived."""
        self.refuse: Callable[[], None] | None = None
        """Answers a request that cannot be parsed, and closes, once the earlier requests are answered."""
        self.reference = weakref.ref(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Serve the connection, or reject it above the limit."""
        super().connection_made(transport)
        self.flow: Flow = Flow(self)
        self.writer: Any = ResponseWriter(transport)  # uvicorn wants a transport; it only writes and closes
        Room.open_connections = self.connections
        self.since = time.monotonic()
        Room.newcomers[self] = self._abort_without_request
        if (
            self.max_connections is not None
            and len(self.connections) > self.max_connections
            and not Room.close_longest_idle(self.since)
        ):
            Connection.rejected += 1
            self.is_rejected = True
            self.app = reject_requests(self.app)
        if Connection.ending:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request that is being answered, even if others arrived after it."""
        Room.taken.discard(self)
        Room.newcomers.pop(self, None)
        if self.answering is not None and not self.answering.response_complete:
            self.answering.disconnected = True
            self.answering.message_event.set()
        self.answering = None
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.answering = cycle
        self.writer.starting = cycle
        cycle.transport = self.writer
        _start_task(self, cycle, app)

    @property
    def awaits_body(self) -> bool:
        """Whether a part of the body of the request that is being answered has not arrived yet."""
        return self.answering is not None and self.answering.more_body

    @property
    def is_gone(self) -> bool:
        """Whether the client disconnected.

        If its data is not read, only the socket shows that. A client that closed only its sending half looks connected
        until a response is sent to it.
        """
        if self.transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), 0)  # errors and resets are always reported
        return bool(poll.poll(0))

    @property
    def response_started(self) -> bool:
        """Whether the response to the request that is being answered has started."""
        return self.answering is not None and self.answering.response_started

    @property
    def response_chunked(self) -> bool:
        """Whether that response has no announced length."""
        return self.answering is not None and bool(self.answering.chunked_encoding)

    def respond(self, send: Send, head: bytes, body: bytes) -> bool:
        """Send a response with status 200 that ``send`` would send, given the lines of its headers, in one step.

        Return whether it was sent. It is not if the connection ends with it, the client reads too slowly, or ``send``
        is not uvicorn's own but a wrapper that sees what is sent: then the response has to be sent as messages. uvicorn
        checks, copies and counts each header and part of a response; this saves 6 of 88 µs of processor time for a
        request if all requests differ.
        """
        cycle = self.answering
        if (
            cycle is None
            or send != cycle.send
            or not cycle.keep_alive
            or cycle.disconnected
            or cycle.response_started
            or self.flow.write_paused
            or len(body) > MAX_JOINED
        ):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = cycle.chunked_encoding = False
        self.writer.write_whole(b"".join((OK, head_of(cycle.default_headers), head, b"\r\n", body)))
        cycle.message_event.set()
        cycle.on_response()
        return True

    def abort(self) -> None:
        """Close the connection in the middle of a response; what is not sent yet is dropped."""
        if self.answering is not None:
            self.answering.disconnected = True
        self.transport.abort()

    def shutdown(self) -> None:
        """Answer further requests with `connection: close`, and close after ``LAST_REQUESTS_TIME`` seconds without one.

        The header tells a client to reconnect before its next request (RFC 9112, section 9.6). Closing at once would
        lose a request that is being sent, and closing for writing would leave it unanswered. If a response has started
        without the header, the next one carries it.
        """
        if not self.is_waiting and not self.cycle.response_started:
            self.cycle.keep_alive = False
        self.loop.call_later(self._last_requests_time, self._close_idle)

    @property
    def _last_requests_time(self) -> float:
        grace = self.config.timeout_graceful_shutdown
        return LAST_REQUESTS_TIME if grace is None else min(LAST_REQUESTS_TIME, grace / 3)

    def _close_idle(self) -> None:
        """Close if no request is in progress; one in progress has the shutdown timeout like all others."""
        if self.transport.is_closing():
            if self.scheme == "https":
                self.loop.call_later(self._last_requests_time, self._end_tls)
            return
        is_idle = self.idle_since is not None or (self.is_waiting and not self.unread)
        if is_idle and not self.held and not self.receives_head and not self._has_unread():
            self.transport.close()
        self.loop.call_later(CLOSE_INTERVAL, self._close_idle)

    def _end_tls(self, looks: int = 2) -> None:
        """Abort if the client has received everything and has not ended TLS, for which uvloop would wait 30 s.

        At the first of two looks, what is sent next may not have reached the socket yet.
        """
        if self not in self.connections:
            return
        if self._has_unsent():
            self.loop.call_later(CLOSE_INTERVAL, self._end_tls)
        elif looks > 1:
            self.loop.call_later(CLOSE_INTERVAL, self._end_tls, looks - 1)
        else:
            self.transport.abort()

    def _has_unsent(self) -> bool:
        """Whether anything that was written has not arrived at the client's system."""
        size = bytearray(4)
        found = self.transport.get_extra_info("socket")
        if found is None:  # the connection has just been lost
            return False
        with suppress(OSError):
            fcntl.ioctl(found.fileno(), termios.TIOCOUTQ, size)
        return any(size) or self.transport.get_write_buffer_size() > 0

    def _has_unread(self) -> bool:
        """Whether the socket has unread bytes."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def receives_head(self) -> bool:
        """Whether it has part of the headers of a further request, which may have come with the one before."""
        return self.cycle is not None and self.scope is not self.cycle.scope

    @property
    def awaits_rest(self) -> bool:
        """Whether no request is being answered, and the last one, or a further one, has not wholly arrived."""
        return self.is_waiting and (self.idle_since is None or self.receives_head or self.cycle.more_body)

    @property
    def waits_since(self) -> float:
        """When it became idle, or stopped being so; when it was opened, before the first answer."""
        return self.since if self.idle_since is None else self.idle_since

    def _abort_without_request(self) -> bool:
        """Abort unless it has had a request; return whether it was aborted."""
        has_none = self.cycle is None
        if has_none:
            Room.abort(self)
        return has_none

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio's signature, which uvicorn narrows
        """Stay open if a request is complete: its client may have closed only its sending half.

        TLS has no half-closed connections. A client that has disconnected looks the same until data is sent to it, so
        the connection is closed if a response does not start soon after the one before.
        """
        cycle = self.cycle
        if self.is_waiting or (cycle.more_body and cycle is self.answering) or self.scheme == "https":
            return None
        if cycle.more_body:
            self._end_with(self.transport.close)  # the rest of its body will not arrive
        elif self.refuse is None:
            cycle.keep_alive = False
        self.loop.call_later(HALF_OPEN_TIMEOUT, self._close_unless_answering, self.answering)
        return True

    def _close_unless_answering(self, before: RequestResponseCycle | None) -> None:
        """Close if the response to the request that was being answered before has not started since.

        ``cycle`` is the last request, even if it waits; once its response has started, there is nothing to watch.
        """
        if self.cycle.response_started or self.transport.is_closing():
            return
        if self.answering is before and not self.response_started:
            self.transport.close()
        else:
            self.loop.call_later(HALF_OPEN_TIMEOUT, self._close_unless_answering, self.answering)

    def on_response_complete(self) -> None:
        """Answer the next request if it has arrived, or refuse it; otherwise the connection is idle from now on.

        uvicorn starts a timer at each response and cancels it at the next request. ``idle`` closes idle connections
        without timers, which saves 2 of 52 µs of processor time for a repeated request.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.refuse is not None and not self.pipeline:
            self.refuse()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self.idle_since = time.monotonic()

    def data_received(self, data: bytes) -> None:
        """Read data within the limits."""
        self._end_idleness()
        if self.held:
            self.held += data
        elif len(data) <= CHUNK_SIZE and not self.pipeline and not self.flow.read_paused:
            self._parse(data)
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        """Parse in pieces, and hold the rest.

        It is held until other connections had their turn, an earlier request is answered, or the received part of a
        body is read, which happens at the latest when the response ends.
        """
        for at in range(0, len(data), CHUNK_SIZE):
            if at >= MAX_TURN or self._is_full():
                self.held = data[at:]
                self.flow.hold()
                self.loop.call_soon(self.read_held)
                return
            self._parse(data if len(data) <= CHUNK_SIZE else data[at : at + CHUNK_SIZE])
            if self.transport.is_closing():
                return

    def _end_idleness(self) -> None:
        """Note that data arrived: from now on the connection counts as one that began a request."""
        if self.idle_since is not None:
            self.since, self.idle_since = time.monotonic(), None

    def _is_full(self) -> bool:
        """Whether the limit of waiting requests, or of unread bytes of a body, is reached.

        ``read_paused`` says nothing about a waiting request: any ``receive`` of the one before resets it.
        """
        if len(self.pipeline) >= MAX_WAITING or self.flow.read_paused:
            return True
        return bool(self.pipeline) and len(self.pipeline[0][0].body) > MAX_WAITING_BODY

    def read_held(self) -> None:
        """Parse some of the held data, if the limits allow it."""
        if not self.held or self._is_full() or self.transport.is_closing():
            return
        data, self.held = self.held, b""
        self._end_idleness()
        self._read(data)
        if not self.held:
            self.flow.release()

    def _parse(self, data: bytes) -> None:
        if self.refuse is not None:
            return  # what follows a request that cannot be parsed means nothing
        self.unread += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offered:
            self._ignore_upgrade(data, offered)
        except httptools.HttpParserError:
            self._send_bad_request()
        if self.unread > MAX_HEAD or len(self.headers) > MAX_HEADERS:
            self._end_with(self._send_head_too_large)

    def on_headers_complete(self) -> None:
        """Start answering the request.

        Trailer fields after the body are not headers (RFC 9110, section 6.5.1): no proxy on the way has checked them
        as such. They are collected in a list that is never read.
        """
        if len(self.headers) > MAX_HEADERS or (self.unread > MAX_HEAD and self._head_size() > MAX_HEAD):
            raise httptools.HttpParserError("the headers are too large")
        self.unread = 0
        distinct = headers_of(self.scope)  # type: ignore[arg-type]  # uvicorn's and Starlette's ASGI types differ
        if len(distinct) != len(self.headers) or b"host" not in distinct:
            self._check_hosts()
        if self.url[:1] != b"/":
            self._check_target(distinct.get(b"host", b""))
        self.scope[CONNECTION] = self.reference  # type: ignore[typeddict-unknown-key]  # ASGI allows further keys
        if b"transfer-encoding" in distinct:
            self._check_encodings()
        version = self.parser.get_http_version()
        if version not in VERSIONS:
            raise httptools.HttpParserError("an unsupported version of HTTP")
        if version == "1.0":
            self.expect_100_continue = False  # such a client knows no `100 Continue` (RFC 9110, section 10.1.1)
        _on_headers_complete(self)
        self.headers = []
        if Connection.ending and self.cycle is not None and self.cycle.scope is self.scope:
            self.cycle.keep_alive = False  # otherwise it is the one before a request that is parsed again

    def _head_size(self) -> int:
        """Bytes of the headers, with separators."""
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _check_hosts(self) -> None:
        """Check that an HTTP/1.1 request has one `Host` (RFC 9112, section 3.2), an HTTP/1.0 one at most one.

        Raises:
            HttpParserError: the number of `Host` headers is wrong.
        """
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and self.parser.get_http_version() != "1.0"):
            raise httptools.HttpParserError(f"expected one `Host`, got {len(hosts)}")

    def _check_target(self, host: bytes) -> None:
        """Check that the host of an absolute request target is the one in `Host`.

        It replaces `Host` (RFC 9112, section 3.2.2), which is what the service and proxies before it check.

        Raises:
            HttpParserError: the hosts differ.
        """
        _, separator, rest = self.url.partition(b"://")
        authority = rest.partition(b"/")[0].partition(b"?")[0].partition(b"#")[0]
        if separator and authority.lower() != host.strip().lower():
            raise httptools.HttpParserError("the hosts of the target and of `Host` differ")

    def _check_encodings(self) -> None:
        """Check that the body is only chunked (RFC 9112, section 6.1): the parser accepts further encodings before it.

        Raises:
            HttpParserError: it has another encoding.
        """
        encodings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if encodings != [b"chunked"]:
            raise httptools.HttpParserError(f"unsupported transfer encodings {encodings}")

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body if an endpoint may read it."""
        self.unread = 0
        if self.scope["method"] == "POST":
            _on_body(self, body)

    def on_message_complete(self) -> None:
        """End the connection with this request if a trailer field says so: the parser discards all that follows."""
        _on_message_complete(self)
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope or self.parser.should_keep_alive():
            return
        cycle.keep_alive = False
        if cycle.response_complete:
            self.transport.close()

    def _should_upgrade(self) -> bool:
        """Whether to parse the request again without its upgrade; uvicorn then does not answer the offer.

        ``CONNECT`` offers nothing, and is answered.
        """
        return bool(self.parser.get_method() != CONNECT)

    def _ignore_upgrade(self, data: bytes, offered: httptools.HttpParserUpgrade) -> None:
        """Parse what follows an offered upgrade, and any further one."""
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
            self._end_with(partial(self.send_400_response, "Invalid HTTP request received."))

    def _send_head_too_large(self) -> None:
        self.transport.write(HEAD_TOO_LARGE)
        self.transport.close()

    def _end_with(self, refuse: Callable[[], None]) -> None:
        """Refuse the request that is being received once the earlier ones are answered, and close.

        If its answer has started already, it ends there.
        """
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if self.is_waiting:
            refuse()
        elif not cycle.more_body:
            self.refuse = refuse
        elif cycle is not self.answering:
            self.pipeline.popleft()  # its body cannot be parsed
            assert self.answering is not None  # INVARIANT: waiting requests wait for it
            self.cycle = self.pipeline[0][0] if self.pipeline else self.answering
            self.refuse = refuse
        elif cycle.response_started:
            self.transport.close()
        else:
            refuse()
