"""Bounded caches of recent results.

``memoize`` caches small values that repeat often. In a ``RecentCache`` a new value replaces the oldest.
``SecondHitCache`` caches a value when its key is seen for the second time, so that a stream of distinct keys stores
nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MARK_SLOTS: Final = 4096
MAX_MEMOIZED: Final = 256
MAX_MEMOIZED_CHARACTERS: Final = 512

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


def memoize(cache: dict[Any, V], key: Any, result: V, most: int = MAX_MEMOIZED) -> V:
    """Return ``result``, and cache it if ``key``, its inputs, is small; a cache with ``most`` is cleared first."""
    if _is_small(key):
        if len(cache) >= most:
            cache.clear()
        cache[key] = result
    return result


def _is_small(key: Any) -> bool:
    """Whether a key has few characters; the text of a long list is not made only to find that it is long."""
    parts = (key, *key) if type(key) is tuple and len(key) <= MAX_MEMOIZED_CHARACTERS else (key,)
    if any(type(part) in (str, tuple) and len(part) > MAX_MEMOIZED_CHARACTERS for part in parts):
        return False
    try:
        return len(repr(key)) <= MAX_MEMOIZED_CHARACTERS
    except RecursionError:
        return False


class RecentCache(Generic[K, V]):
    """A thread-safe cache of at most ``size`` values, the latest ones.

    A plain dict searches for its oldest key through all that were deleted before it, which takes 20 µs at 4096 values.
    """

    __slots__ = ("_lock", "_values", "get", "size")

    def __init__(self, size: int) -> None:
        """Create an empty cache."""
        self.size = size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()
        self.get: Callable[[K], V | None] = self._values.get

    def put(self, key: K, value: V) -> None:
        """Cache the value; if the cache is full, the oldest is dropped."""
        with self._lock:
            if key not in self._values and len(self._values) >= self.size:
                self._values.popitem(last=False)
            self._values[key] = value

    def clear(self) -> None:
        """Drop every value."""
        with self._lock:
            self._values.clear()


class SecondHitCache(RecentCache[K, V]):
    """A cache of values whose keys were seen before; with ``size`` 0 it caches nothing."""

    __slots__ = ("_marks",)

    def __init__(self, size: int) -> None:
        """Create an empty cache."""
        super().__init__(size)
        self._marks = [0] * MARK_SLOTS

    def seen_before(self, key: K) -> bool:
        """Whether a key was seen recently, so that its value is worth caching; the key is marked as seen."""
        mark = hash(key)
        slot = mark % MARK_SLOTS
        if self._marks[slot] == mark:
            return self.size > 0
        self._marks[slot] = mark
        return False
