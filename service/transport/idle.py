"""Closing of the inactive connections of a process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from service.transport.room import Room

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from service.transport.connection import Connection


class IdleReaper:
    """Closes connections whose clients do not send the whole of a request, read nothing of a response, or do not end.

    Those that are idle after a whole request have longer, the server's keep-alive timeout.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[Connection, tuple[RequestResponseCycle, float]] = {}
        """The connections that wait for the rest of a request, each with its last request so far and since when."""
        self._unread: dict[Connection, tuple[int, float]] = {}
        """The unsent bytes of each connection, and when their number last decreased."""
        self._closing: dict[Connection, float] = {}
        """The connections that are closing without unsent bytes of their own, and since when.

        Over TLS these are the transport's below; it ends only when the client has read them, and nothing limits that.
        """

    def sweep(self) -> None:
        """Close connections that have been inactive for too long; to be called about every second."""
        now = time.monotonic()
        for connection in Room.open_connections:
            idle_since = connection.idle_since
            if idle_since is not None and now - idle_since > connection.timeout_keep_alive:
                connection.transport.close()
        self._waiting = {
            connection: self._waiting_since(connection, now)
            for connection in Room.open_connections
            if connection.awaits_rest
        }
        for connection, (_, since) in self._waiting.items():
            if now - since > self._seconds:
                connection.transport.close()
        left = {connection: connection.transport.get_write_buffer_size() for connection in Room.open_connections}
        self._unread = {
            connection: self._unread_since(connection, size, now) for connection, size in left.items() if size
        }
        for connection, (_, since) in self._unread.items():
            if now - since > self._seconds:
                connection.transport.abort()
        self._closing = {
            connection: self._closing.get(connection, now)
            for connection, size in left.items()
            if not size and connection.transport.is_closing()
        }
        for connection, since in self._closing.items():
            if now - since > self._seconds:
                connection.transport.abort()

    def _waiting_since(self, connection: Connection, now: float) -> tuple[RequestResponseCycle, float]:
        last, since = self._waiting.get(connection, (connection.cycle, now))
        return connection.cycle, since if last is connection.cycle else now

    def _unread_since(self, connection: Connection, size: int, now: float) -> tuple[int, float]:
        before, since = self._unread.get(connection, (size, now))
        return size, since if size >= before else now
