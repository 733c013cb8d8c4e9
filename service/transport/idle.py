"""Closes the connections of a process on which nothing moves."""

from __future__ import annotations

import time

from service.transport.connection import Connection


class IdleReaper:
    """The connections on which nothing moves: no request comes, nor the rest of its head, or nothing of an answer is read.

    They are closed after a while; those that had a request and have been idle since are the server's, which keeps them for longer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._silent: dict[Connection, float] = {}
        """Since when each that says nothing was seen to."""
        self._deaf: dict[Connection, tuple[int, float]] = {}
        """How many bytes of each one's answers wait to be sent, and since when they have not become fewer."""

    def sweep(self) -> None:
        """Close what has been silent or deaf for too long; to be called about every second."""
        now = time.monotonic()
        self._silent = {
            each: self._silent.get(each, now)
            for each in Connection.known
            if each.is_waiting and each.timeout_keep_alive_task is None
        }
        for connection, since in self._silent.items():
            if now - since > self._seconds:
                connection.transport.close()
        left = {each: each.transport.get_write_buffer_size() for each in Connection.known}
        self._deaf = {each: self._moved(each, size, now) for each, size in left.items() if size}
        for deaf, (_, since) in self._deaf.items():
            if now - since > self._seconds:
                deaf.transport.abort()

    def _moved(self, each: Connection, size: int, now: float) -> tuple[int, float]:
        before, since = self._deaf.get(each, (size, now))
        return size, since if size >= before else now
