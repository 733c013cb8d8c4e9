"""Room for new connections: how many a process holds at most, and which of them ends for a new one.

Not here: the limit above which requests are refused (``connection``).
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Callable

RESERVE: Final = 64
"""Connections above the limit, for probes, for requests that are answered 503, and for those that send nothing yet."""


class Room:
    """The places of this process for connections, including those in their TLS handshake."""

    most: ClassVar[int] = sys.maxsize
    """The number of places; known from the first connection on."""
    taken: ClassVar[set[object]] = set()
    """The protocols of the connections that are open and not being aborted."""
    newcomers: ClassVar[OrderedDict[object, Callable[[], bool]]] = OrderedDict()
    """How to abort each connection that had no request when it was last looked at, or no complete handshake; the oldest
    first. The function returns whether it did; it does nothing if the connection has had a request since."""

    @classmethod
    def is_full(cls) -> bool:
        """Whether all places are taken."""
        return len(cls.taken) >= cls.most

    @classmethod
    def abort_newcomer(cls) -> bool:
        """Abort the oldest connection that has had no request yet; return whether there was one."""
        while cls.newcomers:
            _, abort = cls.newcomers.popitem(last=False)
            if abort():
                return True
        return False
