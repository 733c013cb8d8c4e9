"""The sockets on which the service listens: how long a handshake may take, and that no connection is lost when they are closed.

Not here: the connections themselves, which are ``listening``'s.
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

HANDSHAKE: Final = 10.0
"""Seconds for TLS' first words, in which a connection is in no count."""


class Loop(uvloop.Loop):
    """uvloop's, which gives a client a minute for TLS' first words; here it has ``HANDSHAKE`` seconds."""

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], *arguments: Any, **more: Any
    ) -> Any:
        """Listen."""
        if more.get("ssl") is not None:
            more["ssl_handshake_timeout"] = HANDSHAKE
        server = await super().create_server(protocol_factory, *arguments, **more)
        return Listener(self, server, protocol_factory, more.get("ssl"))


class Listener:
    """uvloop's server, which when it is closed takes the connections that the system has accepted for it.

    They would be reset otherwise, with requests that their clients have sent.
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
        """The listening ones."""
        return self._server.sockets

    def close(self) -> None:
        """Listen no more; the connections of this process, and those that it takes now, are about to end."""
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
            except OSError:  # there are no more, or no file is left for one
                return
            connection.setblocking(False)
            timeout = HANDSHAKE if self._context is not None else None
            connecting = self._loop.connect_accepted_socket(
                self._protocol_factory, connection, ssl=self._context, ssl_handshake_timeout=timeout
            )
            task = self._loop.create_task(connecting)
            self._tasks.add(task)
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a client whose handshake fails is nobody's business

    async def wait_closed(self) -> None:
        """It listens no more."""
        await self._server.wait_closed()


class Supervisor(Multiprocess):
    """uvicorn's keeper of several processes, which stops listening before they end: nobody would answer what this one accepts."""

    def terminate_all(self) -> None:
        """Tell every process to end."""
        for each in self.sockets:
            each.close()
        super().terminate_all()
