"""Records printed on standard output, a line of JSON each.

Owns that nobody waits for whoever reads them: lines that are not taken are held, up to a bound, and then dropped.
Records of several processes are lines of their own for as long as they are not larger than a pipe takes at once.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from service.log.record import record_json

if TYPE_CHECKING:
    from service.log.record import LogEntry

LINGER: Final = 0.02
"""Seconds that a record waits for others to be made with."""
MAX_QUEUED: Final = 16 << 20
"""Bytes that may wait to be taken."""
LAST: Final = 2.0
"""Seconds that they have at the end."""

log = logging.getLogger("runner_policy")


class Printer:
    """Prints records, in the order in which they are noted in the event loop."""

    def __init__(self, labels: str) -> None:
        """``labels`` are every record's, as JSON."""
        self.dropped = 0
        """Records that nobody took in time."""
        self._labels = labels
        self._entries: list[LogEntry | bytes] = []
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._queued = self._written = 0  # bytes: one is the event loop's, the other the thread's
        self._is_dropping = False
        self._thread: threading.Thread | None = None

    def note(self, entry: LogEntry | bytes) -> None:
        """The record will be printed, unless it is dropped, which is counted."""
        if not self._entries:
            asyncio.get_running_loop().call_later(LINGER, self._flush)
        self._entries.append(entry)

    def close(self) -> None:
        """What was noted is printed, or nobody took it for a while."""
        self._flush()
        ends = time.monotonic() + LAST
        while self._written < self._queued and time.monotonic() < ends:
            time.sleep(LINGER)

    def _flush(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="printer", daemon=True
            )  # one that waits keeps no process from ending
            self._thread.start()
            atexit.register(self.close)
        entries, self._entries = self._entries, []
        for entry in entries:
            line = record_json(entry, self._labels) + b"\n"
            if self._queued - self._written + len(line) > MAX_QUEUED:
                self._drop()
                continue
            self._is_dropping = False
            self._queued += len(line)
            self._lines.put(line)

    def _drop(self) -> None:
        self.dropped += 1
        if not self._is_dropping:
            log.error("decisions are not printed: nobody takes standard output", extra={"dropped": self.dropped})
        self._is_dropping = True

    def _run(self) -> None:
        target = sys.stdout.fileno()
        while True:
            line = self._lines.get()
            written = 0
            try:
                while written < len(line):
                    written += os.write(target, line[written:])
            except OSError as error:
                log.error("decisions are not printed any more", extra={"error": error.strerror})  # noqa: TRY400  # where it was raised says nothing
                return
            self._written += len(line)
