"""Connections that send half a head, or a body that never ends: others are answered as before."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.service import service
from bench.reliability.traffic import sent
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from bench.reliability.service import Service

RATE: Final = 1000
LINES: Final = 200
HALVES: Final = (b"POST /v1/dec", b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
"""A head and a body that do not go on."""


def check(seconds: float) -> None:
    """Clients that send their bodies a byte at a time, or nothing at all, beside others."""
    with service(body_time="5") as made:
        uvloop.run(_beside(made, seconds))


async def _beside(made: Service, seconds: float) -> None:
    quiet = await sent(made.port, RATE, seconds)
    lines = [_line(made.port, HALVES[number % 2]) for number in range(LINES)]
    heard = await sent(made.port, RATE, seconds)
    answered = sum(map(_is_refused, lines))
    expect(not heard.faults, f"{LINES} slow connections: no error in {len(heard.latencies):,} answers to others {heard.faults or ''}")
    expect(answered == LINES // 2, f"{answered} of {LINES // 2} unfinished bodies got a 408")
    p99 = heard.percentile(0.99), quiet.percentile(0.99)
    expect(p99[0] <= 2 * p99[1] + 1, f"p99 {p99[0]:.2f} ms beside them, {p99[1]:.2f} ms without")


def _line(port: int, half: bytes) -> socket.socket:
    """A connection that has sent this and waits."""
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
