"""Bounded memories of answers of late, for questions that come again.

Owns what is kept and what is let go. ``memoize`` keeps what is small and often the same. In ``SecondHitCache``,
a question's answer is worth keeping once it is asked for the second time, so that a stream of different
questions costs and keeps nothing, and the oldest is let go for the newest.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MARKS: Final = 4096
REMEMBERED: Final = 256
SMALL: Final = 512  # characters

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


def memoize(kept: dict[Any, V], question: Any, answer: V, values: object) -> V:
    """``answer``, kept for the next time where the ``values`` that it is made of are small; a full memory starts anew."""
    try:
        small = len(repr(values)) <= SMALL
    except RecursionError:
        small = False
    if small:
        if len(kept) >= REMEMBERED:
            kept.clear()
        kept[question] = answer
    return answer


class SecondHitCache(Generic[K, V]):
    """At most ``size`` answers by their questions; any thread may use it."""

    __slots__ = ("_answers", "_lock", "_marks", "get", "size")

    def __init__(self, size: int) -> None:
        """``size`` may be 0, to keep nothing."""
        self.size = size
        self._answers: dict[K, V] = {}
        self._marks = [0] * MARKS
        self._lock = Lock()
        self.get: Callable[[K], V | None] = self._answers.get

    def comes_again(self, question: K) -> bool:
        """Whether a question came before in short order, so that its answer is worth keeping; it is noted that it came."""
        mark = hash(question)
        place = mark % MARKS
        if self._marks[place] == mark:
            return self.size > 0
        self._marks[place] = mark
        return False

    def keep(self, question: K, answer: V) -> None:
        """Keep the answer, in place of the oldest where there are enough."""
        with self._lock:
            if len(self._answers) >= self.size:
                del self._answers[next(iter(self._answers))]
            self._answers[question] = answer

    def clear(self) -> None:
        """Let everything go."""
        with self._lock:
            self._answers.clear()
