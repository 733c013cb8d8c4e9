"""The processes among which a command divides its work."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def available_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool(processes: int, start: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """A pool of new processes, each of which calls ``start`` first; they end with this process.

    They are not copies of this one, which would have the locks of its threads: those of the engine and of the progress.
    """
    return ProcessPoolExecutor(processes, get_context("spawn"), _start, (start, arguments))


def end_with_parent() -> None:
    """End this process, whatever it does, as soon as the one that started it has ended."""
    Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _start(start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    start(*arguments)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # the result of the other thread's work is no longer needed
