"""Pauses of a thread that works beside the event loop, so that requests do not wait for it."""

from __future__ import annotations

from time import sleep, thread_time
from typing import Final

IDLE_RATIO: Final = 9
"""The time that a thread beside the event loop pauses, divided by the time that it works."""
MIN_WORK: Final = 0.001
"""Seconds of work before a pause; after each pause, the thread takes the interpreter from the event loop again."""


class Pauses:
    """Pauses of a thread beside the event loop, each nine times as long as the thread has worked since the last one.

    Without them it would take half of the interpreter's time: at 4,100 requests a second, 70 % of the maximum, requests
    waited for up to 165 ms at each reload, and with them for up to 40 ms.
    """

    def __init__(self) -> None:
        self._worked = thread_time()

    def __call__(self) -> None:
        """Pause before further work, unless the thread has worked for less than ``MIN_WORK`` since the last pause."""
        worked = thread_time() - self._worked
        if worked >= MIN_WORK:
            sleep(IDLE_RATIO * worked)
            self._worked = thread_time()
