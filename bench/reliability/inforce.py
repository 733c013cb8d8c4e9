"""Measure how soon a changed rule decides: from the write of its file to the first answer by the new revision."""

from __future__ import annotations

import asyncio
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.client import Client
from bench.reliability.service import service
from bench.reliability.traffic import SHARE, maximum, requests
from bench.reliability.verdict import expect
from policy.rules.catalogue import revision_of
from policy.rules.loader import read_folder

if TYPE_CHECKING:
    from bench.reliability.service import Service

PROMISED: Final = 5.0
"""Seconds from the write of a rule file to the first answer by its revision."""
PAUSE: Final = 3.0
"""Seconds between a revision's first answer and the next edit."""
PATIENCE: Final = 60.0
RULE: Final = "house/kv-connector-fallback.yaml"
TITLE: Final = "title: KV connectors stay on V1"


class Awaited:
    """The revision that is awaited, and when its first answer came."""

    def __init__(self) -> None:
        self.revision = b""
        self.answered = asyncio.Event()
        self.at = 0.0

    def expect(self, revision: str) -> None:
        """Wait for an answer by this revision from now on."""
        self.revision = revision.encode()
        self.answered.clear()

    def look(self, body: bytes) -> None:
        """Note the time of the first answer by the awaited revision."""
        if not self.answered.is_set() and self.revision and self.revision in body:
            self.at = perf_counter()
            self.answered.set()


def check(edits: int) -> None:
    """Measure how soon each of ``edits`` to a rule decides, on one worker at 70 % of its maximum load."""
    with service() as made:
        uvloop.run(_edited(made, edits))


async def _edited(made: Service, edits: int) -> None:
    best = await maximum(made.port)
    awaited = Awaited()
    client = Client(made.port, requests(made.port), look=awaited.look)
    load = asyncio.create_task(client.send(SHARE * best, edits * (PATIENCE + PAUSE)))
    await asyncio.sleep(PAUSE)
    taken = []
    for number in range(edits):
        _edit(made, f"{TITLE} ({number})", awaited)
        written = perf_counter()
        try:
            await asyncio.wait_for(awaited.answered.wait(), PATIENCE)
            taken.append(awaited.at - written)
        except TimeoutError:
            taken.append(PATIENCE)
        await asyncio.sleep(PAUSE)
    load.cancel()
    await asyncio.gather(load, return_exceptions=True)
    await client.close()
    heard = client.heard
    print(
        f"      {best:,.0f}/s at most, {SHARE * best:,.0f}/s sent, p99 {heard.percentile(0.99):.1f} ms, late "
        f"{heard.late}"
    )
    expect(not heard.faults, f"no error in {len(heard.latencies):,} answers {heard.faults or ''}")
    figures = f"{median(taken):.2f} s in the median, {max(taken):.2f} s at most"
    expect(max(taken) <= PROMISED, f"{edits} edits in force after {figures}; promised are {PROMISED:g} s")


def _edit(made: Service, title: str, awaited: Awaited) -> None:
    """Write the rule with another title, and expect its revision."""
    path = made.rules / RULE
    lines = path.read_text().splitlines(keepends=True)
    text = "".join(f"{title}\n" if line.startswith("title: ") else line for line in lines)
    awaited.expect(revision_of({**read_folder(made.rules).rules, RULE: text}))
    path.write_text(text)
