"""The decision log on the service's side: it sends batches to the log process, off the request's path.

Owns the unconfirmed decisions: queued entries, and batches that the log process has not acknowledged. A log process
that ends is replaced, and gets those batches again; a row written twice counts once. All of it runs in the event loop,
so there are no locks, and no thread that competes for the interpreter.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from service.log.messages import MAINTENANCE_INTERVAL, Ack, Counts
from service.log.record import line
from service.problems import LogUnavailable

if TYPE_CHECKING:
    from service.log.messages import LogConfig
    from service.log.record import LogEntry

LINGER: Final = 0.02
"""Seconds an entry waits to be sent with others, if no request waits for it."""
SWEEP_INTERVAL: Final = 1.0
"""Seconds between two checks for requests that have waited too long."""
STORE_TIMEOUTS: Final = 2
"""How many store timeouts a request waits: one for the store, and one for everything else."""
SILENCE_MARGIN: Final = 5.0
"""Seconds that a busy machine or disk may add to the longest silence of a log process that works."""
MAX_SILENCES: Final = 3
"""How many times as long as one that works a log process may be silent while batches wait; then it is replaced."""
RESTART_DELAY: Final = 1.0
"""Seconds between two starts of the log process."""
MAX_UNCONFIRMED: Final = 64 << 20
"""Bytes of batches that may be unconfirmed."""
MAX_PART: Final = 1 << 20
"""Bytes after which a batch gets no further entry, and a turn of the event loop sends no further batch."""
COMMAND: Final = (sys.executable, "-P", "-m", "service.log")
CUMULATIVE_COUNTS: Final = ("written", "spilled", "replayed", "lost", "deleted", "lost_files", "lost_file_records")
NOT_STARTED: Final = "the log process could not be started"
SILENT: Final = "the log process has not answered for {:.0f} s"
TOO_MANY: Final = "too many decisions wait to be recorded"

log = logging.getLogger("runner_policy")


class _SentBatch(Struct):
    """A batch sent to the log process: its number of decisions, the requests that wait for it, and when it was sent."""

    data: bytes
    number: int
    waiting: list[asyncio.Future[None]]
    since: float


class LogClient(asyncio.Protocol):
    """The decision log of one process; to be created and used in its event loop."""

    def __init__(self, config: LogConfig, max_waiting: int) -> None:
        """At most ``max_waiting`` decisions may be unconfirmed."""
        self._config, self._max_waiting = config, max_waiting
        self.overflowed = 0
        """Decisions dropped because too many were waiting."""
        self.waiting = 0
        """Unconfirmed decisions."""
        self._counts = self._before = Counts()
        self._entries: list[tuple[LogEntry | bytes, asyncio.Future[None] | None]] = []
        self._sent: dict[int, _SentBatch] = {}
        self._size = 0
        self._sweeping = False
        self._number = 0
        self._next = 1
        """The number of the next batch for this log process."""
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._flushing: asyncio.Handle | None = None
        self._flushing_soon: asyncio.Handle | None = None
        self._sending: asyncio.Handle | None = None
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._killed: subprocess.Popen[bytes] | None = None
        """The last log process that hung."""
        self._was_silent = False
        """Whether the log process was silent for too long at the last look."""
        self._buffer = b""
        self._closing = False
        self._acknowledged = asyncio.Event()
        self._decode = msgspec.json.Decoder(Ack).decode
        self._starting = self._loop.create_task(self._start_worker())

    @property
    def counts(self) -> Counts:
        """The counts of all log processes so far."""
        before, counts = self._before, self._counts
        added = {name: getattr(before, name) + getattr(counts, name) for name in CUMULATIVE_COUNTS}
        return msgspec.structs.replace(counts, last_lost_file=counts.last_lost_file or before.last_lost_file, **added)

    @property
    def can_record(self) -> bool:
        """Whether the store or the disk accepts records, as a log process that still answers last reported."""
        return self._counts.can_record and not self._is_silent()

    def state(self) -> dict[str, Any]:
        """The state of the log, for ``/readyz?verbose``."""
        fields = {**asdict(self.counts), "overflowed": self.overflowed, "waiting": self.waiting}
        if self._is_silent():
            fields |= {"can_record": False, "last_error": SILENT.format(self._loop.time() - self._heard)}
        return fields

    def _is_silent(self, times: int = 1) -> bool:
        """Whether the log process hangs: it was silent for longer than one that works, or that many times as long."""
        longest = MAINTENANCE_INTERVAL + self._config.timeout + SILENCE_MARGIN
        return self._transport is not None and self._loop.time() - self._heard > times * longest

    def note(self, entry: LogEntry | bytes) -> None:
        """Queue a decision; above the limit it is dropped and counted."""
        if self.waiting >= self._max_waiting:
            self.overflowed += 1
            return
        self.waiting += 1
        self._entries.append((entry, None))
        if self._flushing is None:
            self._flushing = self._loop.call_later(LINGER, self._flush)

    def record(self, entry: LogEntry | bytes) -> asyncio.Future[None]:
        """Queue a decision; the future is done when it is in the store or on the local disk, or raises."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self.waiting >= self._max_waiting:
            self.overflowed += 1
            _fail(future, TOO_MANY)
            return future
        self.waiting += 1
        self._entries.append((entry, future))
        self._flush_soon()  # together with the further decisions of this turn of the loop
        return future

    async def wait_for_room(self) -> None:
        """Wait until at most half of the queue is used, or for the store's timeout."""
        ends = self._loop.time() + self._config.timeout
        while 2 * self.waiting > self._max_waiting and self._loop.time() < ends:
            self._flush()
            await asyncio.sleep(LINGER)

    async def close(self, seconds: float) -> None:
        """Wait until everything is confirmed, for at most ``seconds``, and end the log process."""
        ends = self._loop.time() + seconds
        self._acknowledged.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._entries:
                    self._flush()
                    await asyncio.sleep(0)
                while self._sent:
                    await self._acknowledged.wait()
                    self._acknowledged.clear()
        if self._sent or self._entries:
            log.error(
                "the service is stopping, but the log has not confirmed all decisions",
                extra={"decisions": self.waiting},
            )
        self._closing = True
        self._starting.cancel()
        if self._transport is not None:
            self._transport.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, max(0.1, ends - self._loop.time()))

    def _flush_soon(self) -> None:
        """Send the entries in the next turn of the event loop."""
        if self._flushing_soon is None:
            self._flushing_soon = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send the first entries as a batch, and those beyond ``MAX_PART`` in the next turns of the event loop."""
        for handle in (self._flushing, self._flushing_soon):
            if handle is not None:
                handle.cancel()
        self._flushing = self._flushing_soon = None
        if not self._entries:
            return
        self._number += 1
        pieces = [b"[%d," % self._number]
        size = number = 0
        for entry, _ in self._entries:  # encoding them in a row takes a third of the time
            pieces.append(b",")
            pieces += (encoded := line(entry))
            size += sum(map(len, encoded))
            number += 1
            if size >= MAX_PART:
                break
        pieces[1] = b"["
        pieces.append(b"]]\n")
        data = b"".join(pieces)
        waiters = [future for _, future in self._entries[:number] if future is not None]
        del self._entries[:number]
        if self._entries:
            self._flush_soon()
        if self._size + len(data) > MAX_UNCONFIRMED:
            self.overflowed += number
            self.waiting -= number
            _resolve(waiters, TOO_MANY)
            return
        self._size += len(data)
        self._sent[self._number] = _SentBatch(data, number, waiters, self._loop.time())
        if not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP_INTERVAL, self._sweep)
        if self._sending is None:
            self._send()

    def _send(self) -> None:
        """Send the batches that this log process has not got yet, some of them in each turn of the event loop."""
        self._sending = None
        size = 0
        while self._transport is not None and self._next <= self._number:
            if size >= MAX_PART:
                self._sending = self._loop.call_soon(self._send)
                return
            batch = self._sent.get(self._next)
            self._next += 1
            if batch is not None:
                self._transport.write(batch.data)
                size += len(batch.data)

    def _sweep(self) -> None:
        """Fail requests that have waited too long, and kill a log process that hangs.

        Their decision may still be recorded.
        """
        late = self._loop.time() - STORE_TIMEOUTS * self._config.timeout - SWEEP_INTERVAL
        for batch in self._sent.values():
            if batch.since < late:
                _resolve(batch.waiting, "the log does not answer")
        was_silent, self._was_silent = self._was_silent, bool(self._sent) and self._is_silent(MAX_SILENCES)
        if was_silent and self._was_silent and self._process is not None:  # once, it may be that both were stopped
            self._kill(self._process)
        self._sweeping = bool(self._sent)
        if self._sweeping:
            self._loop.call_later(SWEEP_INTERVAL, self._sweep)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a log process that hangs, so that another one gets its batches as after any end of one."""
        if process is not self._killed:
            self._killed = process
            silence = round(self._loop.time() - self._heard)
            log.error("the decision log's process hangs; it is killed", extra={"seconds": silence})
            process.kill()

    async def _start_worker(self) -> None:
        """Start a log process, and send it the unconfirmed batches."""
        if self._process is not None:
            self._process.poll()
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            self._set_unavailable(f"{NOT_STARTED}: {error}")
            return
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603  # it does not wait; our own module, by our own interpreter
                [*COMMAND, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
            self._transport, _ = await self._loop.create_connection(lambda: self, sock=ours)
            self._heard = self._loop.time()
        except OSError as error:
            ours.close()
            self._set_unavailable(f"{NOT_STARTED}: {error}")
            return
        finally:
            theirs.close()
        self._transport.write(msgspec.json.encode(self._config) + b"\n")
        self._next = next(iter(self._sent), self._number + 1)
        if self._sending is None:
            self._send()

    def data_received(self, data: bytes) -> None:
        """Handle acknowledgements of the log process."""
        self._heard = self._loop.time()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for text in lines:
            ack = self._decode(text)
            self._update_counts(ack.counts)
            for number in ack.batches:
                batch = self._sent.pop(number, None)
                if batch is not None:
                    self._size -= len(batch.data)
                    self.waiting -= batch.number
                    _resolve(batch.waiting, ack.error)
        self._acknowledged.set()

    def _update_counts(self, counts: Counts) -> None:
        before, self._counts = self._counts, counts
        if before.store_up and not counts.store_up:
            log.error(
                "the decision log's store is unavailable; decisions are spilled to disk",
                extra={"error": counts.last_error},
            )
        elif counts.store_up and not before.store_up:
            log.info("the decision log's store is available again")
        if counts.lost > before.lost and before.lost == 0:
            log.error(
                "decisions are lost: neither the log's store nor the disk accepts them",
                extra={"error": counts.last_error},
            )
        if counts.lost_files > before.lost_files:
            records = counts.lost_file_records - before.lost_file_records
            log.error(
                "a file of the decision log was lost; a new one is created",
                extra={"error": counts.last_lost_file, "records": records},
            )

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """Start another log process, unless closing."""
        self._transport, self._buffer = None, b""
        self._before = self.counts
        if not self._closing:
            log.error("the decision log's process ended; starting another")
        self._set_unavailable("the log process ended")

    def _set_unavailable(self, error: str) -> None:
        self._counts = Counts(store_up=False, last_error=error)
        if not self._closing:
            self._loop.call_later(RESTART_DELAY, self._restart_worker)

    def _restart_worker(self) -> None:
        if not self._closing:
            self._starting = self._loop.create_task(self._start_worker())


def _resolve(waiting: list[asyncio.Future[None]], error: str | None) -> None:
    """Resolve the futures: recorded, or failed with an error."""
    for future in waiting:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                _fail(future, f"the decision could not be recorded: {error}")


def _fail(future: asyncio.Future[None], message: str) -> None:
    """Fail a future; its request may have ended, and asyncio would log an error that nobody has retrieved."""
    future.set_exception(LogUnavailable(message))
    future.exception()
