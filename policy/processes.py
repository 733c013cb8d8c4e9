"""The processes among which a command divides its work."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

P = ParamSpec("P")
T = TypeVar("T")
ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def available_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool(processes: int, start: Callable[..., None], *arguments: Any) -> ProcessPoolExecutor:
    """A pool of new processes, each of which calls ``start`` first; they end with this process.

    They are not copies of this one, which would have the locks of its threads: those of the engine and of the progress.
    """
    return _Pool(processes, get_context("spawn"), _start, (start, arguments))


class _Pool(ProcessPoolExecutor):
    """A pool whose new processes receive no signal that ends them before ``_start`` has set how they handle it.

    This process writes to a new one what it has to do, into a pipe of which it has both ends: if the new process ended
    before it has read everything, this one would wait forever.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit a call, which may start the processes."""
        resource_tracker.ensure_running()  # it would unblock the signals if it were started later
        with _blocked_signals():
            return super().submit(fn, *args, **kwargs)


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block the signals that end a process while the block runs, also for the processes that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """End this process, whatever it does, as soon as the one that started it has ended."""
    Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _start(start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.setpgid(0, 0)  # signals of a terminal or of `timeout` are for the first process, which ends the others
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # also one that arrived meanwhile
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which a pool ends its processes, also one that is starting
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
    end_with_parent()
    start(*arguments)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # the result of the other thread's work is no longer needed
