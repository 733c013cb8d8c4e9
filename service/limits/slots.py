"""A limited number of slots for long work; no caller gets all of them.

Callers are distinguished by the name of their token or by their address; an IPv6 address counts as its /64 network.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from service.limits.share import share_of, share_of_user
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


HALF_LIFE: Final = 60.0
"""Seconds after which the time that a caller had slots for counts half."""
DELAY_PER_BYTE: Final = 30.0 / (1 << 20)
"""Seconds by which a request comes later in its turn for each byte of its body."""
MAX_CALLERS: Final = 10_000
"""Callers whose time is remembered, and as many users."""
MAX_REVIEWS: Final = 512
"""Requests with a user that one caller may have waiting: more than an API server reviews at once, and less than the
connections of a process."""
SMALL_BODY: Final = 1 << 20
"""Bytes of a body that may take the memory that is reserved for such bodies."""
RESERVE: Final = 8
"""The part of the memory for bodies that is reserved for small ones, as a divisor."""


class _Caller(Struct):
    """How many of a caller's requests have or want a slot, how many have one, and how many of these are long."""

    requests: int = 0
    running: int = 0
    long: int = 0


class _Waiter(Struct, frozen=True, eq=False):
    """A request that waits for a slot; ``ready`` is done when it has one, or no longer waits.

    ``turn`` is the time since which it waits, and later the larger its body is.
    """

    caller: str
    user: str
    is_short: bool
    turn: float
    ready: asyncio.Future[None]


class Slots:
    """At most ``total`` long jobs at once, and ``reserved`` more short ones; short jobs may use any slot.

    One caller's long jobs may use all but one of the ``total``, or the only one; its short jobs ``reserved`` more.
    At most ``waiting`` of its requests wait. A free slot goes to the caller that has the fewest; among these it goes to
    the request whose caller had slots for the least time recently, less the time that the request has waited: a caller
    that sends little comes before one that sends much, and no request waits forever, however many callers there are.
    A body counts as a wait that began later, so a small request does not wait for large ones of the same caller.
    A caller that acts for users, such as the API server, divides its slots among them in the same way.
    """

    def __init__(self, total: int, waiting: int, kind: str, reserved: int = 0) -> None:
        """``kind`` is the problem answered above the limit."""
        self._total = total
        self._free = total + reserved
        self._long = 0
        self._share = max(1, total - 1)
        self._reserved = reserved
        self._waiting = waiting
        self._kind = kind
        self._callers: dict[str, _Caller] = {}
        self._users: Counter[str] = Counter()
        """How many slots each user of a caller has; a caller that acts for none counts as its own user."""
        self._waiters: list[_Waiter] = []
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The seconds that callers had slots for, and when that was counted."""
        self._used_by_users: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The same for users, of whom a caller may have so many that others would be forgotten."""

    @asynccontextmanager
    async def slot(self, caller: str, *, user: str = "", is_short: bool = False, size: int = 0) -> AsyncIterator[None]:
        """Hold a slot for the block; ``size`` is that of the request's body in bytes.

        With a ``user`` for whom the caller acts, ``MAX_REVIEWS`` of the caller's requests may wait.

        Raises:
            Refused: too many of the caller's requests are waiting.
        """
        user, waiting = share_of_user(caller, user), MAX_REVIEWS if user else self._waiting
        caller = share_of(caller)
        own = self._callers.get(caller) or self._callers.setdefault(caller, _Caller())
        if own.requests >= self._share + waiting:
            raise Refused(
                self._kind,
                f"{own.requests} such requests of this caller are in progress or waiting; send fewer at once",
            )
        own.requests += 1
        try:
            await self._wait(caller, user, is_short=is_short, size=size)
            began = monotonic()
            try:
                yield
            finally:
                _count_time(self._used, caller, monotonic() - began)
                _count_time(self._used_by_users, user, monotonic() - began)
                self._release(caller, user, is_short=is_short)
        finally:
            own.requests -= 1
            if not own.requests:
                del self._callers[caller]

    async def _wait(self, caller: str, user: str, *, is_short: bool, size: int) -> None:
        """Wait for a slot and take it."""
        turn = monotonic() + size * DELAY_PER_BYTE
        waiter = _Waiter(caller, user, is_short, turn, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._assign()
        try:
            await waiter.ready
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            else:  # it got a slot at the same time
                self._release(caller, user, is_short=is_short)
            raise

    def _assign(self) -> None:
        """Give free slots to waiting requests."""
        while self._free:
            possible: dict[str, list[_Waiter]] = {}
            for waiter in self._waiters:
                if self._may_start(waiter):
                    possible.setdefault(waiter.caller, []).append(waiter)
            if not possible:
                return
            chosen = min((min(each, key=self._turn_within_caller) for each in possible.values()), key=self._turn_of)
            self._waiters.remove(chosen)
            self._count(chosen.caller, chosen.user, 1, is_short=chosen.is_short)
            chosen.ready.set_result(None)

    def _may_start(self, waiter: _Waiter) -> bool:
        if waiter.ready.done():  # it was cancelled, and its task has not run since
            return False
        own = self._callers[waiter.caller]
        if waiter.is_short:
            return own.running < self._share + self._reserved
        return own.long < self._share and self._long < self._total

    def _turn_within_caller(self, waiter: _Waiter) -> tuple[int, float]:
        """The key by which waiting requests of one caller are ordered; the lowest is next."""
        waited = monotonic() - waiter.turn
        return self._users[waiter.user], _time_of(self._used_by_users, waiter.user) - waited

    def _turn_of(self, waiter: _Waiter) -> tuple[int, float]:
        """The key by which waiting requests of different callers are ordered; the lowest is next."""
        waited = monotonic() - waiter.turn
        return self._callers[waiter.caller].running, _time_of(self._used, waiter.caller) - waited

    def _count(self, caller: str, user: str, number: int, *, is_short: bool) -> None:
        """Count a slot that a caller got, or with -1 gave back."""
        own = self._callers[caller]
        own.running += number
        self._users[user] += number
        if not self._users[user]:
            del self._users[user]
        self._free -= number
        if not is_short:
            own.long += number
            self._long += number

    def _release(self, caller: str, user: str, *, is_short: bool) -> None:
        self._count(caller, user, -1, is_short=is_short)
        self._assign()


def _time_of(used: OrderedDict[str, tuple[float, float]], name: str) -> float:
    """The seconds for which a caller or user had slots recently."""
    seconds, counted = used.get(name, (0.0, 0.0))
    return float(seconds * 0.5 ** ((monotonic() - counted) / HALF_LIFE))


def _count_time(used: OrderedDict[str, tuple[float, float]], name: str, seconds: float) -> None:
    used[name] = (_time_of(used, name) + seconds, monotonic())
    used.move_to_end(name)
    if len(used) > MAX_CALLERS:
        used.popitem(last=False)


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
        caller = share_of(caller)
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
    """The bytes of bodies held by a process, including those still arriving.

    A caller has at most half of them, or one body. Bodies of more than ``SMALL_BODY`` leave ``1 / RESERVE`` of them to
    others, which are most reviews and decisions, unless the largest allowed body needs more.
    """

    def __init__(self, limit: int, largest: int = 0) -> None:
        """At most ``limit`` bytes; the largest allowed body has ``largest``."""
        self._limit = limit
        self._share = limit // 2
        self._limit_of_large = max(limit - limit // RESERVE, min(limit, largest))
        self._held = 0
        self._callers: dict[str, int] = {}

    def hold(self, caller: str) -> HeldBody:
        """The memory of a body of the caller that is about to arrive; empty so far."""
        return HeldBody(self, share_of(caller))

    def reserve(self, caller: str, held: int, size: int) -> None:
        """Reserve ``size`` more bytes for a body of which ``held`` are reserved.

        Raises:
            Refused: a limit would be exceeded.
        """
        limit = self._limit if held + size <= SMALL_BODY else self._limit_of_large
        if self._held + size > limit:
            raise Refused("busy", f"the bodies in progress take {self._held} of at most {limit} bytes; try again")
        own = self._callers.get(caller, 0)
        if own > held and own + size > self._share:
            raise Refused(
                "busy",
                f"the bodies of this caller in progress take {own} of at most {self._share} bytes; send fewer at once",
            )
        self._held += size
        self._callers[caller] = own + size

    def release(self, caller: str, size: int) -> None:
        """Release ``size`` bytes of a caller."""
        self._held -= size
        left = self._callers.get(caller, 0) - size
        if left:
            self._callers[caller] = left
        else:
            self._callers.pop(caller, None)


class HeldBody:
    """A body and the memory that it takes; released at the end of a ``with`` block, or by ``release``."""

    __slots__ = ("_caller", "_memory", "_size", "content")

    def __init__(self, memory: BodyMemory | None, caller: str = "", content: bytes = b"") -> None:
        """Without ``memory`` it is not counted, as for a line of a stream, or a body that arrived at once."""
        self._memory = memory
        self._caller = caller
        self._size = 0
        self.content = content
        """The whole body, once it has arrived; empty after it was released."""

    def add(self, size: int) -> None:
        """Add a part of the body.

        Raises:
            Refused: the process or the caller has reached its limit.
        """
        if self._memory is not None:
            self._memory.reserve(self._caller, self._size, size)
            self._size += size

    def release(self) -> None:
        """Release the body."""
        self.content = b""
        if self._memory is not None:
            self._memory.release(self._caller, self._size)
            self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
