"""The listening sockets: the handshake timeout, accepting while connections are busy, and closing without a loss.

Not here: the connections themselves (``connection``).
"""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import uvloop
from uvicorn.supervisors import Multiprocess

from service.transport.connection import Connection

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable

HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the TLS handshake, during which a connection is not counted."""
CONNECTIONS_PER_ACCEPT: Final = 8
"""For each so many open connections, a turn of the event loop accepts one connection more."""


class Loop(uvloop.Loop):
    """uvloop's event loop with a TLS handshake timeout of ``HANDSHAKE_TIMEOUT`` seconds instead of a minute."""

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *arguments: Any, **more: Any
    ) -> Any:
        """Listen; return a ``Listener``."""
        if more.get("ssl") is not None:
            more["ssl_handshake_timeout"] = HANDSHAKE_TIMEOUT
        listener = Listener(self, protocol_factory, more.get("ssl"))
        listener.serve(await super().create_server(listener.on_accept, *arguments, **more))
        return listener


class Listener:
    """uvloop's server, except that it accepts more connections at once if more are open, and accepts all when closing.

    uvloop accepts one connection in each turn of its event loop, in which every open connection may have a request
    answered: a new connection would wait for as many turns as others wait before it. On closing, the waiting ones would
    be reset, and the requests that their clients have sent would be lost.
    """

    _server: Any

    def __init__(
        self,
        loop: uvloop.Loop,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop = loop
        self._protocol_factory, self._context = protocol_factory, context
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def serve(self, server: Any) -> None:
        """Accept the connections of uvloop's server."""
        self._server = server
        self._listening = [_copy(each) for each in server.sockets]

    def on_accept(self) -> asyncio.BaseProtocol:
        """Accept further waiting connections; return the protocol of the one that uvloop has accepted."""
        more = len(Connection.open_connections) // CONNECTIONS_PER_ACCEPT
        for each in self._listening if more else ():
            self._accept_waiting(each, more)
        return self._protocol_factory()

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
                self._accept_waiting(listening, sys.maxsize)

    def _accept_waiting(self, listening: socket.socket, most: int) -> None:
        for _ in range(most):
            try:
                connection, _ = listening.accept()
            except OSError:  # the backlog is empty, or no file descriptor is left
                return
            connection.setblocking(False)
            timeout = HANDSHAKE_TIMEOUT if self._context is not None else None
            connecting = self._loop.connect_accepted_socket(
                self._protocol_factory, connection, ssl=self._context, ssl_handshake_timeout=timeout
            )
            task = self._loop.create_task(connecting)
            self._tasks.add(task)
            task.add_done_callback(self._forget)

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
