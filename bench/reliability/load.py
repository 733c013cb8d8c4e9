"""Load while rules change: no errors, no answers that mix two revisions, no growing memory."""

from __future__ import annotations

import asyncio
import os
import signal
from statistics import median
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.client import Client
from bench.reliability.editing import TEXTS, rewrite_rule
from bench.reliability.service import service
from bench.reliability.traffic import SHARE, decode, maximum_rate, requests, send
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from bench.reliability.service import Service

RETAINED: Final = 256 << 20
"""Bytes of records that are kept: old ones are deleted from the first minute on, as after weeks of service."""
QUEUE: Final = 10_000
"""The records that may wait for the log process."""


class Revisions:
    """The texts in the answers of each revision; ``mixed`` counts those of a revision with several texts."""

    def __init__(self) -> None:
        self.texts: dict[str, set[str]] = {}
        self.mixed = 0

    def on_answer(self, body: bytes) -> None:
        """Record the text of an answer."""
        answer = decode(body)
        text = next((text for text in TEXTS if text in answer.summary), None)
        if text is not None:
            seen = self.texts.setdefault(answer.policy["revision"], set())
            seen.add(text)
            self.mixed += len(seen) > 1


def check(minutes: float) -> None:
    """Run at 70 % of the maximum load with reloads, some of them broken; check memory, errors and mixed revisions.

    The rules are reloaded every second, and every tenth rule set is broken. Old records are deleted meanwhile. The
    log's queue is filled first, so that what a busy machine adds to it later takes no more memory.
    """
    with service(log_retention_bytes=str(RETAINED), log_queue_size=str(QUEUE)) as server:
        uvloop.run(_run(server, minutes))


async def _run(server: Service, minutes: float) -> None:
    max_rate = await maximum_rate(server.port)
    rate = SHARE * max_rate
    revisions = Revisions()
    client = Client(server.port, requests(server.port), on_answer=revisions.on_answer)
    await _fill_queue(server, rate)
    stop = asyncio.Event()
    edits = asyncio.create_task(rewrite_rule(server.rules, 1.0, 10, stop))
    memory = []
    parts = max(2, round(minutes))
    for number in range(parts):
        await client.send(rate, 60 * minutes / parts)
        memory.append(server.resident())
        print(f"      minute {number + 1}: {len(client.results.latencies):,} answers, {memory[-1]:.0f} MB", flush=True)
    stop.set()
    written = await edits
    await client.close()
    results = client.results
    accepted = [
        line for line in str(server.get("/metrics")).splitlines() if line.startswith("runner_policy_reloads_total")
    ]
    print(
        f"      {max_rate:,.0f}/s maximum, {rate:,.0f}/s sent for {minutes:g} min, {written}, {len(revisions.texts)} "
        f"revisions answered, {accepted}"
    )
    print(f"      p50 {results.percentile(0.5):.2f} ms, p99 {results.percentile(0.99):.2f} ms, late {results.late}")
    expect(not results.faults, f"no error in {len(results.latencies):,} answers {results.faults or ''}")
    expect(revisions.mixed == 0, f"each revision answers with a single text ({len(revisions.texts)} revisions)")
    early, late = median(memory[1 : 1 + len(memory) // 3] or memory), median(memory[-(len(memory) // 3) or -1 :])
    expect(late <= early * 1.05, f"memory {early:.0f} MB early, {late:.0f} MB late")


async def _fill_queue(server: Service, rate: float) -> None:
    """Send while the log process is stopped, until its queue is full."""
    log = next(process for process, command in server.processes().items() if "service.log" in command)
    os.kill(log, signal.SIGSTOP)
    try:
        await send(server.port, rate, 1.2 * QUEUE / rate)
    finally:
        os.kill(log, signal.SIGCONT)
