"""How long a body may take to arrive: who sends it too slowly is turned away, whoever is quick pays next to nothing.

Owns the requests whose bodies are being read, each by its task, and the ending of those that take too long.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Task


class BodyTimeouts:
    """The requests of one process whose bodies are on their way.

    ``reading`` has since when (ns) each task waits for its body, or for the next part of a stream; who
    begins and ends to wait writes it there, because a call would cost more than all of it.
    """

    def __init__(self, seconds: float) -> None:
        """``seconds`` is how long a body, or the next part of a stream, may take."""
        self._nanoseconds = round(seconds * 1e9)
        self.reading: dict[Task[Any] | None, int] = {}
        self._timed_out: set[Task[Any] | None] = set()

    def timed_out(self, task: Task[Any] | None) -> bool:
        """Whether the task was ended because its body took too long; it goes on, then."""
        if task is None or task not in self._timed_out:
            return False
        self._timed_out.discard(task)
        task.uncancel()
        return True

    def sweep(self) -> None:
        """End what takes too long; to be called about every second."""
        before = perf_counter_ns() - self._nanoseconds
        for task, since in list(self.reading.items()):
            if since < before and task is not None:
                del self.reading[task]
                self._timed_out.add(task)
                task.cancel()
