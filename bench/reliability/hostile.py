"""One request that causes as much work as possible, again and again: others are answered as before."""

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
    from bench.reliability.client import Heard

RATE: Final = 100
"""Requests a second to ``/livez``, and as many decisions."""
CONNECTIONS: Final = 8
MAX_P99: Final = 100.0
"""The maximum p99 in milliseconds."""
FAILED: Final = 500
PLAIN: Final = b'{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}'


def check(seconds: float) -> None:
    """Send requests that take long, each together with plain decisions and ``/livez``."""
    with service() as made:
        for name in attacks.ATTACKS:
            uvloop.run(_beside(made.port, name, seconds))


async def _beside(port: int, name: str, seconds: float) -> None:
    live = b"GET /livez HTTP/1.1\r\nHost: %b:%d\r\n\r\n" % (HOST.encode(), port)
    clients = [Client(port, repeat(request), CONNECTIONS) for request in (live, post(port, PLAIN))]
    command = (
        sys.executable,
        "-m",
        attacks.__name__,
        str(port),
        name,
    )  # another process: it must not hold up the one that measures
    attacking = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert attacking.stdout is not None
    await attacking.stdout.readline()  # it is ready
    await asyncio.gather(*(client.send(RATE, seconds) for client in clients))
    attacking.terminate()
    statuses = [int(line) for line in (await attacking.stdout.read()).split()]
    await attacking.wait()
    for client in clients:
        await client.close()
    lives, decides = (client.heard for client in clients)
    ended = f"ended {len(statuses)} times with {sorted(set(statuses))}" if statuses else "not ended yet"
    expect(
        all(map(_is_prompt, (lives, decides))) and all(status < FAILED for status in statuses),
        (
            f"{name}, {ended}: p99 of /livez {lives.percentile(0.99):.1f} ms, of a decision "
            f"{decides.percentile(0.99):.1f} ms"
        )
        + "".join(f", {heard.faults}" for heard in (lives, decides) if heard.faults),
    )


def _is_prompt(heard: Heard) -> bool:
    return not heard.faults and heard.percentile(0.99) < MAX_P99
