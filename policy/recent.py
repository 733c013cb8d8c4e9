"""A bounded memory of answers of late, for questions that come again.

Owns what is kept and what is let go: a question's answer is kept once it is asked for the second time,
so that a stream of different questions costs and keeps nothing, and the oldest is let go for the newest.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MARKS: Final = 4096

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most ``size`` answers by their questions; any thread may use it."""

    __slots__ = ("_answers", "_lock", "_marks", "get", "size")

    def __init__(self, size: int) -> None:
        """``size`` may be 0, to keep nothing."""
        self.size = size
        self._answers: dict[K, V] = {}
        self._marks = [0] * MARKS
        self._lock = Lock()
        self.get: Callable[[K], V | None] = self._answers.get

    def keep(self, question: K, answer: V) -> None:
        """Note that a question was answered; the second time in short order the answer is kept."""
        mark = hash(question)
        place = mark % MARKS
        if self._marks[place] != mark:
            self._marks[place] = mark
        elif self.size:
            with self._lock:
                if len(self._answers) >= self.size:
                    del self._answers[next(iter(self._answers))]
                self._answers[question] = answer

    def clear(self) -> None:
        """Let everything go."""
        with self._lock:
            self._answers.clear()
