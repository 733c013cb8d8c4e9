"""Load while rules change: no errors, no answers that mix two revisions, no growing memory."""

from __future__ import annotations

import asyncio
from statistics import median
from typing import TYPE_CHECKING

import uvloop

from bench.reliability.client import Client
from bench.reliability.editing import WORDS, rewriting
from bench.reliability.service import service
from bench.reliability.traffic import SHARE, maximum, read, requests
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from bench.reliability.service import Service


class Revisions:
    """The texts in each revision's answers; ``mixed`` counts the answers that had those of another."""

    def __init__(self) -> None:
        self.spoken: dict[str, set[str]] = {}
        self.mixed = 0

    def look(self, body: bytes) -> None:
        """Record an answer."""
        answer = read(body)
        words = next((word for word in WORDS if word in answer.summary), None)
        if words is not None:
            said = self.spoken.setdefault(answer.policy["revision"], set())
            said.add(words)
            self.mixed += len(said) > 1


def check(minutes: float) -> None:
    """Run at 70 % of the maximum load with reloads, some of them broken; check memory, errors and mixed revisions.

    The rules are reloaded every second, and every tenth rule set is broken.
    """
    with service() as made:
        uvloop.run(_loaded(made, minutes))


async def _loaded(made: Service, minutes: float) -> None:
    best = await maximum(made.port)
    rate = SHARE * best
    revisions = Revisions()
    client = Client(made.port, requests(made.port), look=revisions.look)
    stop = asyncio.Event()
    edits = asyncio.create_task(rewriting(made.rules, 1.0, 10, stop))
    memory = []
    parts = max(2, round(minutes))
    for number in range(parts):
        await client.send(rate, 60 * minutes / parts)
        memory.append(made.resident())
        print(f"      minute {number + 1}: {len(client.heard.latencies):,} answers, {memory[-1]:.0f} MB", flush=True)
    stop.set()
    done = await edits
    await client.close()
    heard = client.heard
    accepted = [
        line for line in str(made.get("/metrics")).splitlines() if line.startswith("runner_policy_reloads_total")
    ]
    print(
        f"      {best:,.0f}/s at most, {rate:,.0f}/s sent for {minutes:g} min, {done}, {len(revisions.spoken)} "
        f"revisions answered, {accepted}"
    )
    print(f"      p50 {heard.percentile(0.5):.2f} ms, p99 {heard.percentile(0.99):.2f} ms, late {heard.late}")
    expect(not heard.faults, f"no error in {len(heard.latencies):,} answers {heard.faults or ''}")
    expect(revisions.mixed == 0, f"each revision has its own words alone ({len(revisions.spoken)} revisions)")
    early, late = median(memory[1 : 1 + len(memory) // 3] or memory), median(memory[-(len(memory) // 3) or -1 :])
    expect(late <= early * 1.05, f"memory {early:.0f} MB early, {late:.0f} MB late")
