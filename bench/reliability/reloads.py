"""Latency while rules are reloaded, compared with latency without."""

from __future__ import annotations

import asyncio
from statistics import median
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.editing import rewrite_rule
from bench.reliability.service import service
from bench.reliability.traffic import SHARE, maximum_rate, send
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from bench.reliability.service import Service


def check(seconds: float) -> None:
    """Compare the p99 with a reload every 10 s and without reloads: the medians of three alternating runs each."""
    with service() as server:
        uvloop.run(_compare(server, seconds))


TURNS: Final = 3


async def _compare(server: Service, seconds: float) -> None:
    rate = SHARE * await maximum_rate(server.port)
    found: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * TURNS):
        editing = number % 2 == 1
        stop = asyncio.Event()
        edits = asyncio.create_task(rewrite_rule(server.rules, 10.0, 0, stop)) if editing else None
        results = await send(server.port, rate, seconds)
        stop.set()
        if edits is not None:
            await edits
        found[editing].append(results.percentile(0.99))
        print(
            f"      {'with' if editing else 'without'} reloads: p99 {found[editing][-1]:.2f} ms {results.faults or ''}",
            flush=True,
        )
    with_reloads, without = median(found[True]), median(found[False])
    expect(
        with_reloads <= 2 * without,
        f"p99 {with_reloads:.2f} ms with a reload every 10 s, {without:.2f} ms without, {rate:,.0f}/s",
    )
