"""Records printed on standard output, one line of JSON for each.

No single decision waits for the reader: records and unread lines are queued up to a limit, and then dropped. The lines
of a batch wait a limited time for room in the queue. A line that cannot be written is dropped too, after which the next
ones are tried. Lines of several processes are not interleaved as long as none is longer than a pipe accepts in one
write.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from policy.escaping import escape_lines
from service.log.record import record_json

if TYPE_CHECKING:
    from service.log.record import LogEntry

LINGER: Final = 0.02
"""Seconds a record waits to be printed with others."""
ENTRIES_AT_ONCE: Final = 64
"""Records that wait at most; then they are encoded at once, so that no load adds more than are encoded.

This is done in the event loop, so that no thread competes for the interpreter.
"""
BYTES_AT_ONCE: Final = 256 << 10
"""Bytes after which no further record is encoded in a row; this many take about 3 ms."""
MAX_QUEUED: Final = 16 << 20
"""Bytes that may be queued, including those of records that are not encoded yet."""
ROOM_TIMEOUT: Final = 5.0
"""Seconds that a batch waits for room in the queue."""
PAUSE: Final = 0.1
"""Seconds to the next line if the disk is full: meanwhile the lines are queued instead of dropped."""
DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
CLOSE_TIMEOUT: Final = 2.0
"""Seconds to print the queued records when the service stops."""

log = logging.getLogger("runner_policy")


class Printer:
    """Prints records in the order in which they are queued in the event loop."""

    def __init__(self, labels: str) -> None:
        """``labels`` are the labels of every record, as JSON."""
        self._unread = self._failed = 0  # records; the event loop writes one, the thread the other
        self._labels = labels
        self._entries: deque[LogEntry | bytes] = deque()
        self._waiting = 0  # bytes of the entries
        self._next: asyncio.Handle | None = None  # prints the entries
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        self._queued = self._written = 0  # bytes; the event loop writes one, the thread the other
        self._waits_from = 0  # how many bytes must be written until a batch waits for room again
        self._is_dropping = False
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        """Records that were not read in time, or could not be written."""
        return self._unread + self._failed

    def note(self, entry: LogEntry | bytes) -> None:
        """Queue a record; above the limit it is dropped and counted."""
        size = self._size_of(entry)
        if self._waiting + self._queued - self._written + size > MAX_QUEUED:
            self._drop()
            return
        self._entries.append(entry)
        self._waiting += size
        if len(self._entries) >= ENTRIES_AT_ONCE:
            self._flush()
        elif self._next is None:
            self._next = asyncio.get_running_loop().call_later(LINGER, self._flush)

    async def wait_for_room(self) -> None:
        """Wait until at most half of the queue is used, or for ``ROOM_TIMEOUT``; then not until half of it is written.

        A reader that has ended or hangs is thus waited for once. Records that wait when it begins are encoded before.
        """
        ends = time.monotonic() + ROOM_TIMEOUT
        left = len(self._entries)
        while left > 0 and self._entries and time.monotonic() < ends:
            left -= self._encode()
            await asyncio.sleep(0)
        while 2 * (self._queued - self._written) > MAX_QUEUED and self._written >= self._waits_from:
            if time.monotonic() >= ends:
                self._waits_from = self._written + MAX_QUEUED // 2
            else:
                await asyncio.sleep(LINGER)

    def close(self) -> None:
        """Wait until the queued records are printed, at most ``CLOSE_TIMEOUT`` seconds."""
        ends = time.monotonic() + CLOSE_TIMEOUT
        while self._encode() and time.monotonic() < ends:
            pass
        while self._written < self._queued and time.monotonic() < ends:
            time.sleep(LINGER)

    def _size_of(self, entry: LogEntry | bytes) -> int:
        """About the bytes of an entry's line."""
        size = len(entry) if isinstance(entry, bytes) else len(entry[0].json) + len(entry[5] or b"")
        return size + len(self._labels)

    def _flush(self) -> None:
        """Queue the lines of some entries now, and those of the others in the next turns of the event loop."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._encode()
        if self._entries:
            self._next = asyncio.get_running_loop().call_soon(self._flush)

    def _encode(self) -> int:
        """Queue the lines of some entries; return how many."""
        if self._thread is None:
            # A blocked thread must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="printer", daemon=True)
            self._thread.start()
            atexit.register(self.close)
        size = number = 0
        while size < BYTES_AT_ONCE:
            try:
                entry = self._entries.popleft()
            except IndexError:  # `close` may take them too, in another thread
                break
            self._waiting -= self._size_of(entry)
            line = record_json(entry, self._labels) + b"\n"
            self._queue(line)
            size += len(line)
            number += 1
        return number

    def _queue(self, line: bytes) -> None:
        """Queue a line, or drop it if there is no room."""
        if self._queued - self._written + len(line) > MAX_QUEUED:
            self._drop()
            return
        self._is_dropping = False
        self._queued += len(line)
        self._lines.put(line)

    def _drop(self) -> None:
        self._unread += 1
        if not self._is_dropping:
            log.error("decisions are not printed: standard output is not being read", extra={"dropped": self.dropped})
        self._is_dropping = True

    def _run(self) -> None:
        target = sys.stdout.fileno()
        is_terminal = os.isatty(target)
        output = _Output(target)
        is_failing = False
        while True:
            queued = self._lines.get()
            try:
                output.write(escape_lines(queued.decode()).encode() if is_terminal else queued)
            except OSError as error:
                self._failed += 1
                if not is_failing:
                    message = "decisions are not printed: standard output cannot be written"
                    log.error(message, extra={"error": error.strerror})  # noqa: TRY400  # the traceback adds nothing
                is_failing = True
                if error.errno in DISK_FULL:
                    time.sleep(PAUSE)
            else:
                if is_failing:
                    log.info("decisions are printed again", extra={"dropped": self.dropped})
                is_failing = False
            self._written += len(queued)


class _Output:
    """Lines written to a file descriptor, each on a line of its own, also after one that was written in part."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._is_within_line = False
        self._writable = select.poll()
        self._writable.register(target, select.POLLOUT)

    def write(self, line: bytes) -> None:
        """Write a line with its end; wait for the reader even if the descriptor does not block.

        Raises:
            OSError: it is not written, or only in part.
        """
        rest = b"\n" + line if self._is_within_line else line
        while rest:
            try:
                written = os.write(self._target, rest)
            except BlockingIOError:
                self._writable.poll()
                continue
            self._is_within_line = not rest[:written].endswith(b"\n")
            rest = rest[written:]
