"""The decision log as the service writes it: off the request's path, in batches, and never in its way.

Owns what waits to be kept: decisions that were noted, and batches that the keeper, a process of its own, has not
said are safe. A keeper that ends is replaced, and given those again; a row that was there before counts once.
All of it is part of the event loop, so there is nothing to lock and no thread that takes the interpreter.
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

from service.log.record import line
from service.log.worker import Ack, Counts
from service.problems import LogUnavailable

if TYPE_CHECKING:
    from service.log.record import LogEntry
    from service.log.worker import LogConfig

LINGER: Final = 0.02
"""Seconds that a decision waits for others to be sent with, where nobody waits for it."""
SWEEP: Final = 1.0
"""Seconds between two looks for those who have waited too long."""
TURNS: Final = 2
"""How many times the store's patience somebody waits: once for the store, and as long again for all else."""
AGAIN: Final = 1.0
"""Seconds between two starts of a keeper."""
SIZE: Final = 64 << 20
"""Bytes of batches that may wait to be safe."""
COMMAND: Final = (sys.executable, "-P", "-m", "service.log")
CUMULATIVE: Final = ("written", "spilled", "taken_in", "lost", "deleted", "lost_files", "lost_file_records")
TOO_MANY: Final = "too many decisions wait to be recorded"

log = logging.getLogger("runner_policy")


class _SentBatch(Struct):
    """A batch that the keeper has, how many decisions are in it, who waits for it, and since when."""

    data: bytes
    number: int
    waiting: list[asyncio.Future[None]]
    since: float


class LogClient(asyncio.Protocol):
    """The decision log of one process; to be made and used in its event loop."""

    def __init__(self, config: LogConfig, max_waiting: int) -> None:
        """``bound`` is how many decisions may wait to be safe."""
        self._config, self._max_waiting = config, max_waiting
        self.overflowed = 0
        """Decisions that are lost because too many waited."""
        self.waiting = 0
        """Decisions that are not known to be safe."""
        self._counts = self._before = Counts()
        self._entries: list[LogEntry | bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._sent: dict[int, _SentBatch] = {}
        self._size = 0
        self._sweeping = False
        self._number = 0
        self._loop = asyncio.get_running_loop()
        self._flushing: asyncio.Handle | None = None
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._closing = False
        self._acknowledged = asyncio.Event()
        self._decode = msgspec.json.Decoder(Ack).decode
        self._starting = self._loop.create_task(self._start_worker())

    @property
    def counts(self) -> Counts:
        """What became of the decisions so far."""
        before, counts = self._before, self._counts
        added = {name: getattr(before, name) + getattr(counts, name) for name in CUMULATIVE}
        return msgspec.structs.replace(counts, last_lost_file=counts.last_lost_file or before.last_lost_file, **added)

    @property
    def can_record(self) -> bool:
        """Whether the keeper has said that the store or the disk takes records, and nothing else since."""
        return self._counts.can_record

    def state(self) -> dict[str, Any]:
        """All that there is to say of it."""
        return {**asdict(self.counts), "overflowed": self.overflowed, "waiting": self.waiting}

    def note(self, entry: LogEntry | bytes) -> None:
        """The decision will be kept, unless it is dropped, which is counted."""
        if self.waiting >= self._max_waiting:
            self.overflowed += 1
            return
        self.waiting += 1
        self._entries.append(entry)
        if self._flushing is None:
            self._flushing = self._loop.call_later(LINGER, self._flush)

    def recorded(self, entry: LogEntry | bytes) -> asyncio.Future[None]:
        """The decision is in the store or on the local disk when the future is done; it raises ``LogUnavailable`` where it is not."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self.waiting >= self._max_waiting:
            self.overflowed += 1
            future.set_exception(LogUnavailable(TOO_MANY))
            return future
        self.waiting += 1
        self._entries.append(entry)
        self._waiters.append(future)
        if len(self._waiters) == 1:
            self._loop.call_soon(self._flush)  # with all that this turn of the loop still decides
        return future

    async def room(self) -> None:
        """At most half of the decisions that may wait do, or the store's patience has passed."""
        ends = self._loop.time() + self._config.patience
        while 2 * self.waiting > self._max_waiting and self._loop.time() < ends:
            self._flush()
            await asyncio.sleep(LINGER)

    async def close(self, seconds: float) -> None:
        """Everything that was noted is safe, or ``seconds`` have passed."""
        ends = self._loop.time() + seconds
        self._flush()
        self._acknowledged.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._sent:
                    await self._acknowledged.wait()
                    self._acknowledged.clear()
        if self._sent:
            log.error(
                "the service stops before the log has confirmed all decisions",
                extra={"decisions": self.waiting},
            )
        self._closing = True
        self._starting.cancel()
        if self._transport is not None:
            self._transport.close()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, max(0.1, ends - self._loop.time()))

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._entries:
            return
        self._number += 1
        pieces = [b"[%d," % self._number]
        for entry in self._entries:  # one after the other costs a third of each by itself
            pieces.append(b",")
            pieces += line(entry)
        pieces[1] = b"["
        pieces.append(b"]]\n")
        data = b"".join(pieces)
        number, waiters = len(self._entries), self._waiters
        self._entries, self._waiters = [], []
        if self._size + len(data) > SIZE:
            self.overflowed += number
            self.waiting -= number
            _resolve(waiters, TOO_MANY)
            return
        self._size += len(data)
        self._sent[self._number] = _SentBatch(data, number, waiters, self._loop.time())
        if waiters and not self._sweeping:
            self._sweeping = True
            self._loop.call_later(SWEEP, self._sweep)
        if self._transport is not None:
            self._transport.write(data)

    def _sweep(self) -> None:
        """Whoever has waited too long waits no longer; the decision may be safe after all."""
        late = self._loop.time() - TURNS * self._config.patience - SWEEP
        for batch in self._sent.values():
            if batch.since < late:
                _resolve(batch.waiting, "the log does not answer")
        self._sweeping = any(batch.waiting for batch in self._sent.values())
        if self._sweeping:
            self._loop.call_later(SWEEP, self._sweep)

    async def _start_worker(self) -> None:
        """A keeper that has what the one before did not say is safe."""
        if self._process is not None:
            self._process.poll()
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220, S603  # it only starts it; our own module, by our own interpreter
                [*COMMAND, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
            self._transport, _ = await self._loop.create_connection(lambda: self, sock=ours)
        except OSError as error:
            ours.close()
            self._set_unavailable(f"the log process could not be started: {error}")
            return
        finally:
            theirs.close()
        self._transport.write(msgspec.json.encode(self._config) + b"\n")
        for batch in self._sent.values():
            self._transport.write(batch.data)

    def data_received(self, data: bytes) -> None:
        """Settle what the keeper says is safe."""
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
        """Another keeper is needed."""
        self._transport, self._buffer = None, b""
        self._before = self.counts
        if not self._closing:
            log.error("the decision log's process ended; starting another")
        self._set_unavailable("the log process ended")

    def _set_unavailable(self, error: str) -> None:
        self._counts = Counts(store_up=False, last_error=error)
        if not self._closing:
            self._loop.call_later(AGAIN, self._restart_worker)

    def _restart_worker(self) -> None:
        if not self._closing:
            self._starting = self._loop.create_task(self._start_worker())


def _resolve(waiting: list[asyncio.Future[None]], error: str | None) -> None:
    """Whoever waits hears that the decision is safe, or why not."""
    for future in waiting:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(LogUnavailable(f"the decision could not be recorded: {error}"))
