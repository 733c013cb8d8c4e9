"""A client that sends at a fixed rate, whatever the answers, and records their latencies and faults.

Owns the pacing and the connections, which are reopened when they are lost. A request that is due is sent as soon as a
connection is free. A latency is measured from the time when the request was due, so that a server that stalls is also
charged for requests that it delayed.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

from httptools import HttpResponseParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST: Final = "127.0.0.1"
TICK: Final = 0.002
OK: Final = 200


@dataclass(slots=True)
class ClientResults:
    """The results of a run.

    ``latencies`` are those of 200s, in seconds; ``faults`` is the number of other answers by status or fault, and
    ``late`` how often no connection was free.
    """

    latencies: array[float] = field(default_factory=lambda: array("d"))
    faults: dict[str, int] = field(default_factory=dict)
    late: int = 0

    def fault(self, name: str) -> None:
        """Count a fault."""
        self.faults[name] = self.faults.get(name, 0) + 1

    def percentile(self, share: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class _Connection(asyncio.Protocol):
    def __init__(self, client: Client) -> None:
        self.client = client
        self.parser = HttpResponseParser(self)
        self.transport: asyncio.Transport | None = None
        self.due = 0.0
        self.busy = False
        self.body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.client.idle.append(self)

    def send(self, request: bytes, due: float) -> None:
        assert self.transport is not None
        self.busy, self.due, self.body = True, due, []
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        results = self.client.results
        status = self.parser.get_status_code()
        if status == OK:
            results.latencies.append(perf_counter() - self.due)
            if self.client.on_answer is not None:
                self.client.on_answer(b"".join(self.body))
        else:
            results.fault(str(status))
        self.busy = False
        self.parser = HttpResponseParser(self)
        self.client.idle.append(self)
        self.client.send_due()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        if self.busy:
            self.client.results.fault("connection lost")
        self.transport = None
        with suppress(ValueError):
            self.client.idle.remove(self)
        self.client.replace_connection()


class Client:
    """A number of connections to a port, which together send requests at a rate."""

    def __init__(
        self,
        port: int,
        requests: Iterator[bytes],
        connections: int = 32,
        on_answer: Callable[[bytes], None] | None = None,
    ) -> None:
        self.port, self.requests, self.wanted, self.on_answer = port, requests, connections, on_answer
        self.results = ClientResults()
        self.idle: deque[_Connection] = deque()
        self._open = 0
        self._ended = False
        self._rate = 0.0
        self._began = 0.0
        self._sent = 0

    def replace_connection(self) -> None:
        """Replace a connection that was closed."""
        self._open -= 1
        if not self._ended:
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(self._connect()))

    async def _connect(self) -> None:
        if self._ended or self._open >= self.wanted:
            return
        self._open += 1
        try:
            await asyncio.get_running_loop().create_connection(lambda: _Connection(self), HOST, self.port)
        except OSError:
            self.replace_connection()

    async def send(self, rate: float, seconds: float) -> None:
        """Send ``rate`` requests per second for ``seconds``."""
        for _ in range(self.wanted - self._open):
            await self._connect()
        self._rate, self._began, self._sent = rate, perf_counter(), 0
        while perf_counter() < self._began + seconds:
            self.results.late += not self.send_due()
            await asyncio.sleep(TICK)
        self._rate = 0.0

    def send_due(self) -> bool:
        """Send the requests that are due as far as connections are free; return whether all were sent."""
        due = (perf_counter() - self._began) * self._rate
        while self.idle and self._sent < due:
            self.idle.popleft().send(next(self.requests), self._began + self._sent / self._rate)
            self._sent += 1
        return self._sent >= due

    async def close(self) -> None:
        """Wait briefly for requests in progress, and close all connections."""
        ends = perf_counter() + 5
        while len(self.idle) < self._open and perf_counter() < ends:  # noqa: ASYNC110  # polling is enough here
            await asyncio.sleep(0.01)
        self._ended = True
        for connection in list(self.idle):
            if connection.transport is not None:
                connection.transport.close()
        await asyncio.sleep(0.05)


def post(port: int, body: bytes, path: str = "/v1/decisions") -> bytes:
    """A request as sent over the connection."""
    return b"POST %b HTTP/1.1\r\nHost: %b:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        HOST.encode(),
        port,
        len(body),
        body,
    )
