"""Measure how soon an edited rule is in force: from writing its file to the first answer by the new revision."""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.client import Client
from bench.reliability.service import service
from bench.reliability.traffic import SHARE, maximum_rate, requests
from bench.reliability.verdict import expect
from policy.rules.catalogue import revision_of
from policy.rules.loader import read_folder

if TYPE_CHECKING:
    from bench.reliability.service import Service

MAX_DELAY: Final = 5.0
"""The maximum number of seconds from writing a rule file to the first answer by its revision."""
PAUSE: Final = 3.0
"""Seconds between a revision's first answer and the next edit."""
TIMEOUT: Final = 60.0
RULE: Final = "house/kv-connector-fallback.yaml"
TITLE: Final = "title: KV connectors stay on V1"


class RevisionWatch:
    """Watches for the first answer by a revision, and records its time."""

    def __init__(self) -> None:
        self.revision = b""
        self.answered = asyncio.Event()
        self.at = 0.0

    def expect(self, revision: str) -> None:
        """Watch for this revision from now on."""
        self.revision = revision.encode()
        self.answered.clear()

    def on_answer(self, body: bytes) -> None:
        """Record the time if this is the first answer by the revision."""
        if not self.answered.is_set() and self.revision and self.revision in body:
            self.at = perf_counter()
            self.answered.set()


def check(edits: int) -> None:
    """Measure how soon each of ``edits`` to a rule is in force, on one worker at 70 % of its maximum load."""
    with service() as server:
        uvloop.run(_measure(server, edits))


async def _measure(server: Service, edits: int) -> None:
    max_rate = await maximum_rate(server.port)
    watch = RevisionWatch()
    client = Client(server.port, requests(server.port), on_answer=watch.on_answer)
    load = asyncio.create_task(client.send(SHARE * max_rate, edits * (TIMEOUT + PAUSE)))
    await asyncio.sleep(PAUSE)
    delays = []
    for number in range(edits):
        _edit(server, f"{TITLE} ({number})", watch)
        written = perf_counter()
        try:
            await asyncio.wait_for(watch.answered.wait(), TIMEOUT)
            delays.append(watch.at - written)
        except TimeoutError:
            delays.append(TIMEOUT)
        await asyncio.sleep(PAUSE)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    await client.close()
    results = client.results
    print(
        f"      {max_rate:,.0f}/s maximum, {SHARE * max_rate:,.0f}/s sent, p99 {results.percentile(0.99):.1f} ms, late "
        f"{results.late}"
    )
    expect(not results.faults, f"no error in {len(results.latencies):,} answers {results.faults or ''}")
    figures = f"{median(delays):.2f} s in the median, {max(delays):.2f} s at most"
    expect(max(delays) <= MAX_DELAY, f"{edits} edits in force after {figures}; allowed are {MAX_DELAY:g} s")


def _edit(server: Service, title: str, watch: RevisionWatch) -> None:
    """Write the rule with another title, and watch for its revision."""
    path = server.rules / RULE
    lines = path.read_text().splitlines(keepends=True)
    text = "".join(f"{title}\n" if line.startswith("title: ") else line for line in lines)
    watch.expect(revision_of({**read_folder(server.rules).rules, RULE: text}))
    path.write_text(text)
