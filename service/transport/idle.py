"""Closing of the inactive connections of a process."""

from __future__ import annotations

import time

from service.transport.connection import Connection


class IdleReaper:
    """Closes connections that send no complete request headers, or read nothing of their response, for too long.

    Connections that are idle after a request are not affected: the server's keep-alive timeout is longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[Connection, float] = {}
        """Since when each connection has been waiting for its first request."""
        self._unread: dict[Connection, tuple[int, float]] = {}
        """The unsent bytes of each connection, and when their number last decreased."""

    def sweep(self) -> None:
        """Close connections that have been inactive for too long; to be called about every second."""
        now = time.monotonic()
        self._waiting = {
            connection: self._waiting.get(connection, now)
            for connection in Connection.open_connections
            if connection.is_waiting and connection.timeout_keep_alive_task is None
        }
        for connection, since in self._waiting.items():
            if now - since > self._seconds:
                connection.transport.close()
        left = {connection: connection.transport.get_write_buffer_size() for connection in Connection.open_connections}
        self._unread = {
            connection: self._unread_since(connection, size, now) for connection, size in left.items() if size
        }
        for connection, (_, since) in self._unread.items():
            if now - since > self._seconds:
                connection.transport.abort()

    def _unread_since(self, connection: Connection, size: int, now: float) -> tuple[int, float]:
        before, since = self._unread.get(connection, (size, now))
        return size, since if size >= before else now
