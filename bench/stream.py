"""The generator of a stream: all documents as lines of one chunked request, answers read while it is being sent.

Runs as a separate process, like ``load``. Every document must be answered with a decision.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Final, cast

import uvloop
from httptools import HttpResponseParser
from msgspec import json

from bench.job import Job, LoadFailed, Measurement, head, lines
from bench.servers import HOST

CHUNK_SIZE: Final = 64 * 1024
OK: Final = 200


class Stream(asyncio.Protocol):
    """The connection: a writer that waits for a slow server, and a reader that collects the answers."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.parser = HttpResponseParser(self)
        self.pieces: list[bytes] = []
        self.writable = asyncio.Event()
        self.writable.set()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's transport is not a subclass

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.writable.set()
        if not self.ended.done():
            self.ended.set_exception(LoadFailed(f"the server closed the connection: {exc}"))


async def run(job: Job) -> Measurement:
    """Send the job's documents as one stream, and return the measurement."""
    body = b"".join(line + b"\n" for line in lines(job, Path(job.file)))
    pieces = [body[start : start + CHUNK_SIZE] for start in range(0, len(body), CHUNK_SIZE)]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces] + [b"0\r\n\r\n"]
    _, stream = await asyncio.get_running_loop().create_connection(Stream, HOST, job.port)
    began, used = perf_counter(), process_time()
    stream.transport.write(head(job, "Transfer-Encoding: chunked").encode())
    for chunk in chunks:
        await stream.writable.wait()
        stream.transport.write(chunk)
    await stream.ended
    seconds = perf_counter() - began
    busy = (process_time() - used) / seconds
    stream.transport.close()
    answers = b"".join(stream.pieces).splitlines()
    decided = sum(answer.startswith(b'{"decision_id":') for answer in answers)
    if stream.parser.get_status_code() != OK or decided != job.count:
        raise LoadFailed(f"answered {stream.parser.get_status_code()}, {decided} decisions for {job.count} documents")
    return Measurement(decided, seconds, 0.0, 0.0, busy)


if __name__ == "__main__":
    sys.stdout.buffer.write(json.encode(uvloop.run(run(json.decode(sys.argv[1], type=Job)))))
