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

TURNS: Final = 5
EVERY: Final = 10.0
"""Seconds between two edits."""
PAUSE: Final = 5.0
"""Seconds without requests after a run with reloads, in which the restored rule is loaded."""
MAXIMUM: Final = 5.0
"""Seconds in which the maximum is measured."""


def check(seconds: float) -> None:
    """Compare the p99 with a reload every 10 s and without reloads: the median ratio of five turns.

    A turn is a run of each case, and measures the maximum anew, because the processor time of a request varies within
    minutes on a machine that is shared. Which case comes first alternates.
    """
    with service() as server:
        uvloop.run(_compare(server, seconds))


async def _compare(server: Service, seconds: float) -> None:
    rates: list[float] = []
    found: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(TURNS):
        rates.append(SHARE * await maximum_rate(server.port, MAXIMUM))
        for editing in (False, True) if turn % 2 == 0 else (True, False):
            found[editing].append(await _p99(server, rates[-1], seconds, editing=editing))
        print(
            f"      {rates[-1]:,.0f}/s: p99 {found[True][-1]:.2f} ms with reloads, {found[False][-1]:.2f} ms without",
            flush=True,
        )
    ratio = median(on / off for on, off in zip(found[True], found[False], strict=True))
    expect(
        ratio <= 2,
        f"p99 {median(found[True]):.2f} ms with a reload every {EVERY:g} s, {median(found[False]):.2f} ms without; the "
        f"median ratio of the turns is {ratio:.2f} at {median(rates):,.0f}/s",
    )


async def _p99(server: Service, rate: float, seconds: float, *, editing: bool) -> float:
    """The p99 of a run, in milliseconds."""
    stop = asyncio.Event()
    edits = asyncio.create_task(rewrite_rule(server.rules, EVERY, 0, stop)) if editing else None
    results = await send(server.port, rate, seconds)
    if edits is not None:
        stop.set()
        await edits
        await asyncio.sleep(PAUSE)
    expect(not results.faults, f"no error in {len(results.latencies):,} answers {results.faults or ''}")
    return results.percentile(0.99)
