"""Room for new connections: how many a process holds at most, and which of them ends for a new one.

Not here: how a request above the limit is refused (``rejections``).
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

RESERVE: Final = 64
"""Connections above the limit, for probes, for requests that are answered 503, and for those that send nothing yet."""
GRACE: Final = 1.0
"""Seconds a connection may be idle when the process has reached its limit."""
SCAN_INTERVAL: Final = 0.1
"""Seconds between two scans of all connections."""


class ReplaceableConnection(Protocol):
    """A connection that may end for another."""

    transport: Any
    is_rejected: bool
    idle_since: float | None

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""

    @property
    def waits_since(self) -> float:
        """When it became idle, or stopped being so; when it was opened, before the first answer."""


class Room:
    """The places of this process for connections, including those in their TLS handshake."""

    most: ClassVar[int] = sys.maxsize
    """The number of places; known from the first connection on."""
    taken: ClassVar[set[object]] = set()
    """The protocols of the connections that are open and not being aborted."""
    open_connections: ClassVar[set[Any]] = set()
    """The open connections that are not in their TLS handshake."""
    newcomers: ClassVar[OrderedDict[object, Callable[[], bool]]] = OrderedDict()
    """How to abort each connection that had no request when it was last looked at, or no complete handshake; the oldest
    first. The function returns whether it did; it does nothing if the connection has had a request since."""
    _idle: ClassVar[list[ReplaceableConnection]] = []
    """The connections that were idle at the last scan for them, the longest idle at the end."""
    _last_scan: ClassVar[float] = 0.0
    _dispensable: ClassVar[list[ReplaceableConnection]] = []
    """The connections that could be aborted at the last scan for them, the longest idle at the end."""
    _last_vain_scan: ClassVar[float] = 0.0
    """When there was none at such a scan."""

    @classmethod
    def is_full(cls) -> bool:
        """Whether all places are taken."""
        return len(cls.taken) >= cls.most

    @classmethod
    def abort(cls, connection: ReplaceableConnection) -> None:
        """Abort a connection; its place is free at once."""
        cls.taken.discard(connection)
        connection.transport.abort()

    @classmethod
    def close_longest_idle(cls, now: float) -> bool:
        """Close the connection that has been idle the longest, for ``GRACE`` at least; return whether there was one."""
        if not cls._idle and now - cls._last_scan > SCAN_INTERVAL:
            cls._last_scan = now
            cls._idle += _longest_last(each for each in cls.open_connections if each.is_waiting)
        while cls._idle:
            longest = cls._idle.pop()
            if longest.is_waiting and longest.waits_since < now - GRACE and not longest.transport.is_closing():
                longest.transport.close()
                return True
        return False

    @classmethod
    def abort_least_needed(cls) -> bool:
        """Abort the connection that is needed least; return whether there was one.

        It is one that only waits for its client to end TLS, or is idle and above the limit, or has been waiting for
        longer than ``GRACE``. If there is none, it is the oldest without a request so far.
        """
        now = time.monotonic()
        if not cls._dispensable and now - cls._last_vain_scan > SCAN_INTERVAL:
            cls._dispensable += _longest_last(each for each in cls.open_connections if _is_dispensable(each, now))
            if not cls._dispensable:
                cls._last_vain_scan = now
        while cls._dispensable:
            longest = cls._dispensable.pop()
            if longest in cls.taken and _is_dispensable(longest, now):
                cls.abort(longest)
                return True
        return cls._abort_newcomer()

    @classmethod
    def _abort_newcomer(cls) -> bool:
        """Abort the oldest connection that has had no request yet; return whether there was one."""
        while cls.newcomers:
            _, abort = cls.newcomers.popitem(last=False)
            if abort():
                return True
        return False


def _is_dispensable(connection: ReplaceableConnection, now: float) -> bool:
    transport: asyncio.Transport = connection.transport
    if transport.is_closing():
        return not transport.get_write_buffer_size()
    is_idle_above_limit = connection.is_rejected and connection.idle_since is not None
    return connection.is_waiting and (is_idle_above_limit or connection.waits_since < now - GRACE)


def _longest_last(connections: Iterable[ReplaceableConnection]) -> list[ReplaceableConnection]:
    return sorted(connections, key=lambda each: each.waits_since, reverse=True)
