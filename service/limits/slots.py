"""Places for work that takes long: a number of them at once, of which no caller gets all.

Owns the waiting for a place. Callers are told apart as the log does it, by the name of their token or by their address.
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
    """A caller's own places, and how many of its requests have or want one."""

    places: asyncio.Semaphore
    requests: int = 0


class Slots:
    """At most ``total`` pieces of work at once.

    One caller has all but one of the places, or the only one, and at most ``waiting`` of its requests wait. Places are
    given in the order in which they were asked for.
    """

    def __init__(self, total: int, waiting: int, kind: str) -> None:
        """``kind`` is the problem that a request too many is answered."""
        self._share = max(1, total - 1)
        self._most = self._share + waiting
        self._kind = kind
        self._places = asyncio.Semaphore(total)
        self._callers: dict[str, _Caller] = {}

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """A place for as long as the block lasts.

        Raises:
            Refused: as many of the caller's requests wait as may.
        """
        own = self._callers.get(caller) or self._callers.setdefault(caller, _Caller(asyncio.Semaphore(self._share)))
        if own.requests >= self._most:
            raise Refused(
                self._kind, f"{own.requests} such requests of this caller are under way or wait; send fewer at once"
            )
        own.requests += 1
        try:
            async with own.places, self._places:
                yield
        finally:
            own.requests -= 1
            if not own.requests:
                del self._callers[caller]


class StreamLimit:
    """At most ``total`` of a thing at once, of which one caller has at most half; one too many is refused and never waits."""

    def __init__(self, total: int, kind: str) -> None:
        """``kind`` is the problem that one too many is answered."""
        self._total = total
        self._share = max(1, total // 2)
        self._kind = kind
        self._callers: dict[str, int] = {}

    @contextmanager
    def place(self, caller: str) -> Iterator[None]:
        """One of them for as long as the block lasts.

        Raises:
            Refused: there are as many as may be, or the caller has its share.
        """
        own, all_of_them = self._callers.get(caller, 0), sum(self._callers.values())
        if own >= self._share or all_of_them >= self._total:
            of_all = f"{all_of_them} of at most {self._total} are open, {own} of them by this caller, which may have {self._share}"
            raise Refused(self._kind, f"{of_all}; end one and try again")
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
    """The bytes of bodies that a process holds, those that are still arriving included."""

    def __init__(self, most: int) -> None:
        """``most`` is how many bytes."""
        self._most = most
        self._held = 0

    def hold(self) -> HeldMemory:
        """Nothing yet of a body that is about to arrive."""
        return HeldMemory(self)

    def take(self, size: int) -> None:
        """``size`` more bytes are held.

        Raises:
            Refused: they would be too many.
        """
        if self._held + size > self._most:
            raise Refused("busy", f"the bodies under way have {self._held} of at most {self._most} bytes; try again")
        self._held += size

    def give_back(self, size: int) -> None:
        """``size`` bytes are held no more."""
        self._held -= size


class HeldMemory:
    """The bytes of one body; released at the end of a ``with`` block, or by ``release``."""

    __slots__ = ("_memory", "_size")

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self._size = 0

    def add(self, size: int) -> None:
        """A part of the body has come.

        Raises:
            Refused: the process holds as many bytes as it may.
        """
        self._memory.take(size)
        self._size += size

    def release(self) -> None:
        """The body is needed no more."""
        self._memory.give_back(self._size)
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
