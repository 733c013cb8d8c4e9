"""More incomplete request heads than allowed connections, and unfinished bodies, do not delay other requests."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.service import service
from bench.reliability.traffic import send
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
    with service(body_timeout="5", max_connections=str(CONNECTIONS)) as server:
        uvloop.run(_send_beside(server, seconds))


async def _send_beside(server: Service, seconds: float) -> None:
    undisturbed = await send(server.port, RATE, seconds)
    bodies = [_half_request(server.port, BODY) for _ in range(BODIES)]
    heads = [_half_request(server.port, HEAD) for _ in range(HEADS)]
    await asyncio.sleep(1.5)  # a connection may wait for a second if all are in use
    results = await send(server.port, RATE, seconds)
    answered = sum(map(_is_refused, bodies))
    for connection in heads:
        connection.close()
    setup = f"{HEADS} unfinished heads with {CONNECTIONS} connections allowed, {BODIES} unfinished bodies"
    expect(
        not results.faults, f"{setup}: no error in {len(results.latencies):,} answers to others {results.faults or ''}"
    )
    expect(answered == BODIES, f"{answered} of {BODIES} unfinished bodies got a 408")
    p99 = results.percentile(0.99), undisturbed.percentile(0.99)
    expect(p99[0] <= 2 * p99[1] + 1, f"p99 {p99[0]:.2f} ms meanwhile, {p99[1]:.2f} ms without")


def _half_request(port: int, data: bytes) -> socket.socket:
    """A connection that has sent only these bytes."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(False)
    connection.send(data)
    return connection


def _is_refused(connection: socket.socket) -> bool:
    """Whether a connection was answered with a 408; it is closed afterwards."""
    try:
        return b" 408 " in connection.recv(65536)
    except OSError:
        return False
    finally:
        connection.close()
