"""The thread in which the log worker uses the store, which may hang."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable


class TaskResult(Struct):
    """The result of a task of the store: rows refused, replayed, lost and deleted; whether there is more to do."""

    refused: int = 0
    replayed: int = 0
    lost: int = 0
    deleted: int = 0
    more: bool = False


class StoreThread:
    """A thread that runs one task after the other; it is a daemon, so that a hanging task cannot keep the process."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[TaskResult], Callable[..., TaskResult], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._run, name="store", daemon=True).start()

    def submit(self, task: Callable[..., TaskResult], *arguments: Any) -> Future[TaskResult]:
        """Queue a task; return its future."""
        future: Future[TaskResult] = Future()
        self._tasks.put((future, task, arguments))
        return future

    def _run(self) -> None:
        while True:
            future, task, arguments = self._tasks.get()
            try:
                future.set_result(task(*arguments))
            except Exception as error:  # noqa: BLE001  # the waiting thread has to get it
                future.set_exception(error)
