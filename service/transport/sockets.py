"""The listening sockets: the handshake timeout, and closing without losing accepted connections.

Not here: the connections themselves (``connection``).
"""

from __future__ import annotations

import os
import socket
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


class Loop(uvloop.Loop):
    """uvloop's event loop with a TLS handshake timeout of ``HANDSHAKE_TIMEOUT`` seconds instead of a minute."""

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *arguments: Any, **more: Any
    ) -> Any:
        """Listen; return a ``Listener``."""
        if more.get("ssl") is not None:
            more["ssl_handshake_timeout"] = HANDSHAKE_TIMEOUT
        server = await super().create_server(protocol_factory, *arguments, **more)
        return Listener(self, server, protocol_factory, more.get("ssl"))


class Listener:
    """uvloop's server, which on closing accepts the connections in the system's backlog.

    They would be reset otherwise, with the requests that their clients have sent.
    """

    def __init__(
        self,
        loop: uvloop.Loop,
        server: Any,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop, self._server = loop, server
        self._protocol_factory, self._context = protocol_factory, context
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def sockets(self) -> Any:
        """The listening sockets."""
        return self._server.sockets

    def close(self) -> None:
        """Stop listening; the connections of this process, and those accepted now, are about to close."""
        Connection.ending, Connection.ending_since = True, time.monotonic()
        copies = [socket.socket(fileno=os.dup(each.fileno())) for each in self._server.sockets]
        self._server.close()
        for copy in copies:
            with copy:
                copy.setblocking(False)
                self._accept_waiting(copy)

    def _accept_waiting(self, listening: socket.socket) -> None:
        while True:
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


class Supervisor(Multiprocess):
    """uvicorn's supervisor of processes, which stops listening before they end, as it answers no requests itself."""

    def terminate_all(self) -> None:
        """Stop listening, and tell every process to end."""
        for each in self.sockets:
            each.close()
        super().terminate_all()
