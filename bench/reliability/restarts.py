"""The service is restarted under load: a client that follows HTTP loses no request.

Such a client may send again what it could not send, because nobody listened or because the answer before announced the
end of the connection. It may not send again a request that it sent and got no answer to: that one is lost.
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
    """Connections whose last answer said that they end."""
    refused: int = 0
    """Attempts to connect while nothing listened."""


@dataclass(slots=True)
class Answer:
    """What is known of a response while it is parsed."""

    closes: bool = False
    complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header."""
        self.closes |= name.lower() == b"connection" and value.lower() == b"close"

    def on_message_complete(self) -> None:
        """Note that the response is complete."""
        self.complete = True


def check(number: int) -> None:
    """Send a number of requests on 32 connections while the service is restarted ten times: none is lost."""
    with service() as made:
        count = uvloop.run(_through(made, number))
        made.stop()
        with closing(sqlite3.connect(f"file:{made.log}?mode=ro", uri=True)) as log:
            kept = log.execute("SELECT count(*) FROM decisions").fetchone()[0]
    reconnected = (
        f"{count.announced} connections ended after an answer that said so, {count.refused} tries to connect were "
        "refused"
    )
    expect(
        count.lost == 0 and count.other == 0,
        f"{RESTARTS} restarts: {count.lost} of {count.answered:,} requests lost, {count.other} not 200; {reconnected}",
    )
    expect(kept == count.answered, f"{kept:,} of {count.answered:,} decisions are in the log")


async def _through(made: Service, number: int) -> Count:
    """Count the results of ``number`` requests while the service is restarted each time a share of them is answered."""
    count = Count()
    sent = iter(range(number))
    clients = [
        asyncio.create_task(_client(made.port, requests(made.port, seed), sent, count)) for seed in range(CONNECTIONS)
    ]
    for restart in range(1, RESTARTS + 1):
        while count.answered < number * restart // (RESTARTS + 1):  # noqa: ASYNC110  # a client that is measured does nothing else for it
            await asyncio.sleep(PAUSE)
        await asyncio.to_thread(made.stop)
        await asyncio.to_thread(made.start)
        print(f"      restart {restart}: {count.answered:,} answered, {count.lost} lost", flush=True)
    await asyncio.gather(*clients)
    return count


async def _client(port: int, bodies: Iterator[bytes], left: Iterator[int], count: Count) -> None:
    """Send one request after the other, on one connection as long as it lasts."""
    streams = None
    for _ in left:
        while streams is None or streams[0].at_eof():  # an idle connection that has been closed is seen to be
            if streams is not None:
                streams[1].close()
            streams = await _connected(port, count)
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


async def _connected(port: int, count: Count) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, as soon as the port accepts one."""
    while True:
        try:
            streams = await asyncio.open_connection(HOST, port)
        except OSError:
            count.refused += 1
            await asyncio.sleep(PAUSE)
        else:
            return streams
