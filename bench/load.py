"""The load generator: keep-alive connections that each send a request as soon as the last one is answered.

Runs as a separate process with its job as the argument, and prints the measurement. Requests are encoded before the
clock starts, and answers are parsed in C, so that the generator is faster than the servers.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Final, cast

import uvloop
from httptools import HttpResponseParser
from msgspec import json

from bench.job import Job, LoadFailed, Measurement, head, lines
from bench.servers import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

OK: Final = 200


class Run:
    """A job in progress: the requests still to send, and the latencies so far."""

    def __init__(self, requests: list[bytes]) -> None:
        self.left: Iterator[bytes] = iter(requests)
        self.latencies = array("d")
        self.open = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, reason: str) -> None:
        """Stop the job with an error."""
        if not self.ended.done():
            self.ended.set_exception(LoadFailed(reason))

    def finish_connection(self) -> None:
        """Count a connection that has nothing more to send as finished."""
        self.open -= 1
        if not self.open and not self.ended.done():
            self.ended.set_result(None)


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    transport: asyncio.Transport

    def __init__(self, run: Run) -> None:
        self.run = run
        self.parser = HttpResponseParser(self)
        self.sent = 0.0
        self.idle = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport is not a subclass

    def send(self) -> None:
        """Send the next request, if there is one."""
        request = next(self.run.left, None)
        self.idle = request is None
        if request is None:
            self.run.finish_connection()
            return
        self.sent = perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.run.latencies.append(perf_counter() - self.sent)
        if self.parser.get_status_code() != OK:
            self.run.fail(f"answered {self.parser.get_status_code()}")
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.idle:
            self.run.fail(f"the server closed a connection: {exc}")


async def run(job: Job) -> Measurement:
    """Send the job's requests, and return the measurement."""
    requests = [head(job, f"Content-Length: {len(body)}").encode() + body for body in lines(job, Path(job.file))]
    state = Run(requests)
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: Connection(state), HOST, job.port))[1] for _ in range(job.connections)
    ]
    state.open = len(connections)
    began, used = perf_counter(), process_time()
    for connection in connections:
        connection.send()
    await state.ended
    seconds = perf_counter() - began
    busy = (process_time() - used) / seconds
    for connection in connections:
        connection.transport.close()
    ordered = sorted(state.latencies)
    return Measurement(
        len(ordered), seconds, 1000 * ordered[len(ordered) // 2], 1000 * ordered[len(ordered) * 99 // 100], busy
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(json.encode(uvloop.run(run(json.decode(sys.argv[1], type=Job)))))
