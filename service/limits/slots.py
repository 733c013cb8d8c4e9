"""Slots for long work: a limited number, of which no caller gets all.

Callers are distinguished as in the log, by the name of their token or by their address.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class _Caller(Struct):
    """A caller's own slots, and how many of its requests have or want one."""

    slots: asyncio.Semaphore
    requests: int = 0


class Slots:
    """At most ``total`` jobs at once.

    One caller has all but one of the slots, or the only one, and at most ``waiting`` of its requests wait. Slots are
    given in the order of the requests.
    """

    def __init__(self, total: int, waiting: int, kind: str) -> None:
        """``kind`` is the problem answered above the limit."""
        self._share = max(1, total - 1)
        self._most = self._share + waiting
        self._kind = kind
        self._slots = asyncio.Semaphore(total)
        self._callers: dict[str, _Caller] = {}

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Hold a slot for the block.

        Raises:
            Refused: too many of the caller's requests are waiting.
        """
        own = self._callers.get(caller) or self._callers.setdefault(caller, _Caller(asyncio.Semaphore(self._share)))
        if own.requests >= self._most:
            raise Refused(
                self._kind,
                f"{own.requests} such requests of this caller are in progress or waiting; send fewer at once",
            )
        own.requests += 1
        try:
            async with own.slots, self._slots:
                yield
        finally:
            own.requests -= 1
            if not own.requests:
                del self._callers[caller]


class StreamLimit:
    """At most ``total`` streams at once, at most half of them by one caller; further ones are refused."""

    def __init__(self, total: int, kind: str) -> None:
        """``kind`` is the problem answered above the limit."""
        self._total = total
        self._share = max(1, total // 2)
        self._kind = kind
        self._callers: dict[str, int] = {}

    @contextmanager
    def slot(self, caller: str) -> Iterator[None]:
        """Hold one of the streams for the block.

        Raises:
            Refused: the total or the caller's share is reached.
        """
        own, count = self._callers.get(caller, 0), sum(self._callers.values())
        if own >= self._share or count >= self._total:
            raise Refused(
                self._kind,
                f"{count} of at most {self._total} are open, "
                f"{own} of them by this caller, which may have {self._share}; "
                "end one and try again",
            )
        self._callers[caller] = own + 1
        try:
            yield
        finally:
            left = self._callers[caller] - 1
            if left:
                self._callers[caller] = left
            else:
                del self._callers[caller]


class BodyMemory:
    """The bytes of bodies held by a process, including those still arriving."""

    def __init__(self, most: int) -> None:
        """At most ``most`` bytes."""
        self._most = most
        self._held = 0

    def hold(self) -> HeldMemory:
        """The memory of a body that is about to arrive, empty yet."""
        return HeldMemory(self)

    def take(self, size: int) -> None:
        """Reserve ``size`` more bytes.

        Raises:
            Refused: the limit would be exceeded.
        """
        if self._held + size > self._most:
            raise Refused("busy", f"the bodies in progress take {self._held} of at most {self._most} bytes; try again")
        self._held += size

    def give_back(self, size: int) -> None:
        """Release ``size`` bytes."""
        self._held -= size


class HeldMemory:
    """The bytes of one body; released at the end of a ``with`` block, or by ``release``."""

    __slots__ = ("_memory", "_size")

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._size = 0

    def add(self, size: int) -> None:
        """Add a part of the body.

        Raises:
            Refused: the process has reached its limit.
        """
        self._memory.take(size)
        self._size += size

    def release(self) -> None:
        """Release the bytes of the body."""
        self._memory.give_back(self._size)
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
