"""A request that causes as much work as possible, sent repeatedly, does not delay others."""

from __future__ import annotations

import asyncio
import sys
from itertools import repeat
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability import attacks
from bench.reliability.client import HOST, Client, post
from bench.reliability.service import service
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from bench.reliability.client import ClientResults

RATE: Final = 100
"""Requests per second to ``/livez``, and as many decisions."""
CONNECTIONS: Final = 8
MAX_P99: Final = 100.0
"""The maximum p99 in milliseconds."""
FIRST_SERVER_ERROR: Final = 500
SMALL_REQUEST: Final = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}'


def check(seconds: float) -> None:
    """Send each expensive request along with plain decisions and ``/livez``."""
    with service() as server:
        for name in attacks.ATTACKS:
            uvloop.run(_beside(server.port, name, seconds))


async def _beside(port: int, name: str, seconds: float) -> None:
    live = b"GET /livez HTTP/1.1\r\nHost: %b:%d\r\n\r\n" % (HOST.encode(), port)
    clients = [Client(port, repeat(request), CONNECTIONS) for request in (live, post(port, SMALL_REQUEST))]
    command = (
        sys.executable,
        "-m",
        attacks.__name__,
        str(port),
        name,
    )  # a separate process, so that it does not delay the measurement
    attacking = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert attacking.stdout is not None
    await attacking.stdout.readline()  # until it is ready
    await asyncio.gather(*(client.send(RATE, seconds) for client in clients))
    attacking.terminate()
    statuses = [int(line) for line in (await attacking.stdout.read()).split()]
    await attacking.wait()
    for client in clients:
        await client.close()
    livez, decisions = (client.results for client in clients)
    ended = f"answered {len(statuses)} times with {sorted(set(statuses))}" if statuses else "not answered yet"
    expect(
        all(map(_is_prompt, (livez, decisions))) and all(status < FIRST_SERVER_ERROR for status in statuses),
        (
            f"{name}, {ended}: p99 of /livez {livez.percentile(0.99):.1f} ms, of a decision "
            f"{decisions.percentile(0.99):.1f} ms"
        )
        + "".join(f", {results.faults}" for results in (livez, decisions) if results.faults),
    )


def _is_prompt(results: ClientResults) -> bool:
    return not results.faults and results.percentile(0.99) < MAX_P99
