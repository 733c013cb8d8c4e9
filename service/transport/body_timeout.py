"""Limit how long a body may take to arrive, at almost no cost for fast clients.

Owns the requests whose bodies are being read, by task, and cancels those that take too long.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Task


class BodyTimeouts:
    """The requests of one process whose bodies are being received.

    ``reading`` maps a task to the time (ns) since which it has been waiting for its body, or for the next part of a
    stream. Endpoints write to it directly, because a method call would cost more than the bookkeeping itself.
    """

    def __init__(self, seconds: float) -> None:
        """``seconds`` is how long a body, or the next part of a stream, may take."""
        self._nanoseconds = round(seconds * 1e9)
        self.reading: dict[Task[Any] | None, int] = {}
        self._timed_out: set[Task[Any] | None] = set()

    def timed_out(self, task: Task[Any] | None) -> bool:
        """Return whether the task was cancelled because its body took too long, and undo that cancellation."""
        if task is None or task not in self._timed_out:
            return False
        self._timed_out.discard(task)
        task.uncancel()
        return True

    def sweep(self) -> None:
        """Cancel requests that take too long; to be called about every second."""
        before = perf_counter_ns() - self._nanoseconds
        for task, since in list(self.reading.items()):
            if since < before and task is not None:
                del self.reading[task]
                self._timed_out.add(task)
                task.cancel()
