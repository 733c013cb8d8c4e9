"""The requests sent to the service, and their rate.

Owns the requests, and the share of the maximum rate at which the load checks send.
"""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from bench.documents import documents, encode
from bench.reliability.client import Client, post

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.reliability.client import ClientResults

SHARE: Final = 0.7


class Answer(msgspec.Struct):
    """The fields of an answer that are checked."""

    decision_id: str
    summary: str
    policy: dict[str, str]


decode = msgspec.json.Decoder(Answer).decode


def requests(port: int, seed: int = 1) -> Iterator[bytes]:
    """An endless sequence of requests of 5,000 kinds, each with its own id.

    The bodies are made before it returns, because a client that made them while it sends would send late.
    """
    bodies = [
        encode(document) for document, _ in zip(documents(seed, (None, "0.22.1", "0.33.0")), range(5000), strict=False)
    ]
    return _endless(port, bodies)


def _endless(port: int, bodies: list[bytes]) -> Iterator[bytes]:
    for number in count():
        body = bodies[number % len(bodies)]
        yield post(port, body[:-1] + b',"beyond_verified":"nearest"}' if number // len(bodies) % 2 else body)


async def send(port: int, rate: float, seconds: float) -> ClientResults:
    """Send ``rate`` requests per second for ``seconds``, and return the answers' latencies and faults."""
    client = Client(port, requests(port))
    await client.send(rate, seconds)
    await client.close()
    return client.results


async def maximum_rate(port: int, seconds: float = 10) -> float:
    """Answers per second when each request is sent as soon as the last one is answered."""
    client = Client(port, requests(port))
    began = time.perf_counter()
    await client.send(1e6, seconds)
    rate = len(client.results.latencies) / (time.perf_counter() - began)
    await client.close()
    return rate
