"""The listening sockets: accepting while connections are busy or too many, and closing without a loss.

Not here: the connections themselves (``connection``), and which of them ends for a new one (``room``).
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import uvloop
from uvicorn.supervisors import Multiprocess

from service.transport.connection import Connection
from service.transport.room import Room

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the TLS handshake."""
BACKLOG: Final = 100
"""Connections that may wait to be accepted, if a server says nothing else."""
CONNECTIONS_PER_ACCEPT: Final = 8
"""For each so many open connections, a turn of the event loop accepts one connection more."""
REPLACED_AT_ONCE: Final = 16
"""Connections that a turn of the event loop accepts above the limit; those that they replace are closed after it."""
NO_FILES_PAUSE: Final = 0.1
"""Seconds without accepting if no file descriptor is left."""


class Loop(uvloop.Loop):
    """uvloop's event loop with servers that accept as ``Listener`` does."""

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *arguments: Any, **more: Any
    ) -> Any:
        """Listen; return a ``Listener``."""
        context = more.pop("ssl", None)
        server = await super().create_server(protocol_factory, *arguments, **more, start_serving=False)
        return Listener(self, server, protocol_factory, context, more.get("backlog", BACKLOG))


class Listener:
    """A server that accepts more connections at once if more are open, and accepts all when closing.

    uvloop's accepts one connection in each turn of its event loop, in which every open connection may have a request
    answered: a new connection would wait for as many turns as others wait before it. On closing, the waiting ones would
    be reset, and the requests that their clients have sent would be lost. It counts no connection whose TLS handshake
    is not complete, and nothing could end one for another. Here each has a task, which ends it when it is cancelled.
    """

    def __init__(
        self,
        loop: uvloop.Loop,
        server: Any,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None,
        backlog: int,
    ) -> None:
        """``server`` is uvloop's, with bound sockets that it does not listen on."""
        self._loop, self._server = loop, server
        self._protocol_factory, self._context = protocol_factory, context
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listening = [_copy(each) for each in server.sockets]
        for each in self._listening:
            each.listen(backlog)
            loop.add_reader(each, self._accept, each)

    @property
    def sockets(self) -> Any:
        """The listening sockets."""
        return self._server.sockets

    def close(self) -> None:
        """Stop listening; the connections of this process, and those accepted now, are about to close."""
        Connection.ending, Connection.ending_since = True, time.monotonic()
        self._server.close()
        while self._listening:
            with self._listening.pop() as listening:
                self._loop.remove_reader(listening)
                self._accept_waiting(listening, sys.maxsize)

    def _accept(self, listening: socket.socket) -> None:
        if not self._accept_waiting(listening, 1 + len(Room.open_connections) // CONNECTIONS_PER_ACCEPT):
            # The socket stays readable.
            self._loop.remove_reader(listening)
            self._loop.call_later(NO_FILES_PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept_waiting(self, listening: socket.socket, most: int) -> bool:
        """Accept waiting connections, above the limit in place of others; return whether more can be accepted soon."""
        replaced = 0
        for _ in range(most):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, ConnectionError):
                return True
            except OSError:
                return Room.abort_least_needed()
            if not Room.is_full():
                self._start(connection)
                continue
            if Room.abort_least_needed():
                self._start(connection)
            else:
                Connection.rejected += 1
                connection.close()
            replaced += 1
            if replaced == REPLACED_AT_ONCE:
                return True
        return True

    def _start(self, connection: socket.socket) -> None:
        """Begin to serve a connection."""
        connection.setblocking(False)
        protocol = self._protocol_factory()
        Room.taken.add(protocol)
        task = self._loop.create_task(self._connect(protocol, connection))
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    async def _connect(self, protocol: asyncio.BaseProtocol, connection: socket.socket) -> None:
        """Connect the protocol, with TLS once the handshake is complete."""
        task = asyncio.current_task()
        assert task is not None  # INVARIANT: ``_start`` runs it as a task

        def abort() -> bool:
            Connection.rejected += 1
            Room.taken.discard(protocol)
            return task.cancel()

        timeout = None
        if self._context is not None:
            timeout = HANDSHAKE_TIMEOUT
            Room.newcomers[protocol] = abort
        is_open = False
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=timeout
            )
            is_open = not transport.is_closing()  # type: ignore[attr-defined]  # uvloop's types have the two in the other order
        finally:
            if not is_open:
                Room.taken.discard(protocol)
                made = Room.newcomers.pop(protocol, abort)
                if made is not abort:
                    made()  # its handshake was completed after it was cancelled; its client may not end TLS

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a failed handshake of a client is not an error of the service

    async def wait_closed(self) -> None:
        """Wait until the server is closed."""
        await self._server.wait_closed()


def _copy(listening: Any) -> socket.socket:
    """The same socket with another file descriptor, as a socket that does not block."""
    copy = socket.socket(fileno=os.dup(listening.fileno()))
    copy.setblocking(False)
    return copy


class Supervisor(Multiprocess):
    """uvicorn's supervisor of processes, which stops listening before they end, as it answers no requests itself."""

    def terminate_all(self) -> None:
        """Stop listening, and tell every process to end."""
        for each in self.sockets:
            each.close()
        super().terminate_all()
