"""What is noted of each decision: it is counted, and it is logged.

Owns the moment after a decision was made and before it is answered.
"""

from __future__ import annotations

import asyncio
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING

from msgspec import Struct

from service.log.record import Entry, record, row

if TYPE_CHECKING:
    from policy.policy import Answer, Policy
    from policy.request import Request
    from service.log.writing import Log
    from service.metrics import Metrics


class Asking(Struct):
    """A request on its way: its ``path`` without the first slash, who asks, when it began (ns), and what must be safe before it is answered."""

    path: str
    caller: str
    began: int
    waiting: list[asyncio.Future[None]] = []

    async def safe(self) -> None:
        """Every decision of the request is recorded where it must be.

        Raises:
            LogUnavailable: one is not.
        """
        waiting, self.waiting = self.waiting, []
        for outcome in await asyncio.gather(*waiting, return_exceptions=True) if waiting else ():
            if outcome is not None:
                raise outcome


class Recorder:
    """Counts and logs decisions."""

    def __init__(self, metrics: Metrics, log: Log | None = None, *, required: bool = False, stdout_labels: str | None = None) -> None:
        """With ``required`` a request's decisions must be safe before it is answered; with ``stdout_labels`` records are printed as well."""
        self.metrics = metrics
        self.log = log
        self._required = required
        self._stdout_labels = stdout_labels

    def note(self, answer: Answer, request: Request, policy: Policy, asking: Asking) -> None:
        """The decision is counted, and on its way to the log."""
        self.metrics.decided(request, answer.weighed, policy.ruleset(request.release.decided_as).rules)
        if self.log is None and self._stdout_labels is None:
            return
        entry = Entry(answer, request, policy.revision, asking.path, asking.caller, perf_counter_ns() - asking.began)
        if self._stdout_labels is not None:
            sys.stdout.buffer.write(record_line(entry, self._stdout_labels))
            sys.stdout.buffer.flush()
        if self.log is None:
            return
        if self._required:
            asking.waiting.append(self.log.recorded(entry))
        else:
            self.log.note(entry)


def record_line(entry: Entry, labels: str) -> bytes:
    """A record as a line of JSON."""
    from policy.decision import encode  # noqa: PLC0415

    return encode(record(row(entry, labels))) + b"\n"
