"""The service is restarted under load: a client that follows HTTP loses no request.

Such a client may retry a request that it could not send, because nothing listened or the previous answer announced the
end of the connection. It may not retry a request that was sent and not answered: that one is lost.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import uvloop
from httptools import HttpResponseParser

from bench.reliability.client import HOST, OK
from bench.reliability.service import service
from bench.reliability.traffic import requests
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.reliability.service import Service

CONNECTIONS: Final = 32
RESTARTS: Final = 10
PAUSE: Final = 0.01
"""Seconds before another attempt to connect."""


@dataclass(slots=True)
class Count:
    """How many requests were answered, lost or refused."""

    answered: int = 0
    other: int = 0
    """Answers that were not 200."""
    lost: int = 0
    announced: int = 0
    """Connections whose last answer had ``connection: close``."""
    refused: int = 0
    """Attempts to connect while nothing listened."""


@dataclass(slots=True)
class Answer:
    """The state of a response while it is parsed."""

    closes: bool = False
    complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header."""
        self.closes |= name.lower() == b"connection" and value.lower() == b"close"

    def on_message_complete(self) -> None:
        """Record that the response is complete."""
        self.complete = True


def check(number: int) -> None:
    """Send a number of requests on 32 connections while the service is restarted ten times: none is lost."""
    with service() as server:
        count = uvloop.run(_send_through_restarts(server, number))
        server.stop()
        with closing(sqlite3.connect(f"file:{server.log}?mode=ro", uri=True)) as log:
            logged = log.execute("SELECT count(*) FROM decisions").fetchone()[0]
    reconnected = (
        f"{count.announced} connections ended after an answer with `connection: close`, {count.refused} attempts to "
        "connect were refused"
    )
    expect(
        count.lost == 0 and count.other == 0,
        f"{RESTARTS} restarts: {count.lost} of {count.answered:,} requests lost, {count.other} not 200; {reconnected}",
    )
    expect(logged == count.answered, f"{logged:,} of {count.answered:,} decisions are in the log")


async def _send_through_restarts(server: Service, number: int) -> Count:
    """Count the results of ``number`` requests; after each equal share of answers the service is restarted."""
    count = Count()
    sent = iter(range(number))
    clients = [
        asyncio.create_task(_client(server.port, requests(server.port, seed), sent, count))
        for seed in range(CONNECTIONS)
    ]
    for restart in range(1, RESTARTS + 1):
        while count.answered < number * restart // (RESTARTS + 1):  # noqa: ASYNC110  # polling is enough here
            await asyncio.sleep(PAUSE)
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        print(f"      restart {restart}: {count.answered:,} answered, {count.lost} lost", flush=True)
    await asyncio.gather(*clients)
    return count


async def _client(port: int, bodies: Iterator[bytes], remaining: Iterator[int], count: Count) -> None:
    """Send one request after another, on the same connection as long as it lasts."""
    streams = None
    for _ in remaining:
        while streams is None or streams[0].at_eof():  # detects that an idle connection was closed
            if streams is not None:
                streams[1].close()
            streams = await _connect(port, count)
        streams[1].write(next(bodies))
        answer = Answer()
        parser = HttpResponseParser(answer)
        try:
            while not answer.complete and (data := await streams[0].read(65536)):
                parser.feed_data(data)
        except ConnectionError:
            pass
        if not answer.complete:
            count.lost += 1
        elif parser.get_status_code() == OK:
            count.answered += 1
        else:
            count.other += 1
        if answer.closes or not answer.complete:
            count.announced += answer.closes
            streams[1].close()
            streams = None
    if streams is not None:
        streams[1].close()


async def _connect(port: int, count: Count) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, as soon as the port accepts one."""
    while True:
        try:
            streams = await asyncio.open_connection(HOST, port)
        except OSError:
            count.refused += 1
            await asyncio.sleep(PAUSE)
        else:
            return streams
