"""More half-sent heads than connections are allowed, and bodies that never end: others are answered as before."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.service import service
from bench.reliability.traffic import sent
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from bench.reliability.service import Service

RATE: Final = 1000
CONNECTIONS: Final = 200
"""The maximum number of connections of the service."""
HEADS: Final = 300
BODIES: Final = 100
HEAD: Final = b"POST /v1/dec"
BODY: Final = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"


def check(seconds: float) -> None:
    """Run clients that begin a request and never finish it, together with others."""
    with service(body_timeout="5", max_connections=str(CONNECTIONS)) as made:
        uvloop.run(_beside(made, seconds))


async def _beside(made: Service, seconds: float) -> None:
    quiet = await sent(made.port, RATE, seconds)
    bodies = [_line(made.port, BODY) for _ in range(BODIES)]
    heads = [_line(made.port, HEAD) for _ in range(HEADS)]
    await asyncio.sleep(1.5)  # a connection may wait for a second where all are taken
    heard = await sent(made.port, RATE, seconds)
    answered = sum(map(_is_refused, bodies))
    for line in heads:
        line.close()
    beside = f"{HEADS} unfinished heads with {CONNECTIONS} connections allowed, {BODIES} unfinished bodies"
    expect(not heard.faults, f"{beside}: no error in {len(heard.latencies):,} answers to others {heard.faults or ''}")
    expect(answered == BODIES, f"{answered} of {BODIES} unfinished bodies got a 408")
    p99 = heard.percentile(0.99), quiet.percentile(0.99)
    expect(p99[0] <= 2 * p99[1] + 1, f"p99 {p99[0]:.2f} ms beside them, {p99[1]:.2f} ms without")


def _line(port: int, half: bytes) -> socket.socket:
    """A connection that has sent these bytes and waits."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setblocking(False)
    line.send(half)
    return line


def _is_refused(line: socket.socket) -> bool:
    """Whether a connection, which is closed afterwards, was answered with a 408."""
    try:
        return b" 408 " in line.recv(65536)
    except OSError:
        return False
    finally:
        line.close()
