"""Records printed on standard output, one line of JSON for each.

No request waits for the reader: unread lines are queued up to a limit, and then dropped. Lines of several processes are
not interleaved as long as none is longer than a pipe accepts in one write.
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

from policy.escaping import escape_lines
from service.log.record import record_json

if TYPE_CHECKING:
    from service.log.record import LogEntry

LINGER: Final = 0.02
"""Seconds a record waits to be printed with others."""
MAX_QUEUED: Final = 16 << 20
"""Bytes that may be queued."""
CLOSE_TIMEOUT: Final = 2.0
"""Seconds to print the queued records when the service stops."""

log = logging.getLogger("runner_policy")


class Printer:
    """Prints records in the order in which they are queued in the event loop."""

    def __init__(self, labels: str) -> None:
        """``labels`` are the labels of every record, as JSON."""
        self.dropped = 0
        """Records that were not read in time."""
        self._labels = labels
        self._entries: list[LogEntry | bytes] = []
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._queued = self._written = 0  # bytes; the event loop writes one, the thread the other
        self._is_dropping = False
        self._thread: threading.Thread | None = None

    def note(self, entry: LogEntry | bytes) -> None:
        """Queue a record; above the limit it is dropped and counted."""
        if not self._entries:
            asyncio.get_running_loop().call_later(LINGER, self._flush)
        self._entries.append(entry)

    def close(self) -> None:
        """Wait until the queued records are printed, at most ``CLOSE_TIMEOUT`` seconds."""
        self._flush()
        ends = time.monotonic() + CLOSE_TIMEOUT
        while self._written < self._queued and time.monotonic() < ends:
            time.sleep(LINGER)

    def _flush(self) -> None:
        if self._thread is None:
            # A blocked thread must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="printer", daemon=True)
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
            log.error("decisions are not printed: standard output is not being read", extra={"dropped": self.dropped})
        self._is_dropping = True

    def _run(self) -> None:
        target = sys.stdout.fileno()
        is_terminal = os.isatty(target)
        while True:
            queued = self._lines.get()
            line = escape_lines(queued.decode()).encode() if is_terminal else queued
            written = 0
            try:
                while written < len(line):
                    written += os.write(target, line[written:])
            except OSError as error:
                log.error("decisions are not printed any more", extra={"error": error.strerror})  # noqa: TRY400  # the traceback adds nothing
                return
            self._written += len(queued)
