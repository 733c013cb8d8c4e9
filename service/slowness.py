"""How long a body may take to arrive: who sends it too slowly is turned away, whoever waits for nothing pays next to nothing.

Owns the requests whose bodies are being read, each by its task, and the ending of those that take too long.
"""

from __future__ import annotations

import asyncio
from time import monotonic


class Slowness:
    """The requests of one process whose bodies are on their way."""

    def __init__(self, seconds: float) -> None:
        """``seconds`` is how long a body, or the next part of a stream, may take."""
        self._seconds = seconds
        self._since: dict[asyncio.Task[object], float] = {}
        self._ended: set[asyncio.Task[object]] = set()

    def begin(self) -> asyncio.Task[object]:
        """The body of this task's request is on its way, or the next part of it."""
        task = asyncio.current_task()
        assert task is not None  # INVARIANT: a server runs each request in a task
        self._since[task] = monotonic()
        return task

    def arrived(self, task: asyncio.Task[object]) -> None:
        """The body is there, or nobody waits for it any more."""
        self._since.pop(task, None)

    def ended(self, task: asyncio.Task[object]) -> bool:
        """Whether the task was ended because its body took too long; it goes on, then."""
        if task not in self._ended:
            return False
        self._ended.discard(task)
        task.uncancel()
        return True

    def sweep(self) -> None:
        """End what takes too long; to be called about every second."""
        before = monotonic() - self._seconds
        for task, since in list(self._since.items()):
            if since < before:
                del self._since[task]
                self._ended.add(task)
                task.cancel()
