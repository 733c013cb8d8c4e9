"""What is noted of each decision: it is counted, and it is logged.

Owns the moment after a decision was made and before it is answered.
"""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.decision import id_of
from service.log.printing import Printer

if TYPE_CHECKING:
    from policy.policy import Answer, Policy
    from policy.request import Request
    from service.log.writing import Log
    from service.metrics import Decided, Metrics


MOST: Final = 100
"""Ids of decisions in a line of the log of requests."""


class Asking(Struct, gc=False):
    """A request on its way: its ``path`` without the first slash, who asks, when it began (ns), what must be safe before it is answered.

    ``decisions`` has the ids of the first that were made for it, where each request is logged.
    """

    path: str
    caller: str
    began: int
    waiting: list[asyncio.Future[None]] | None = None
    decisions: list[str] | None = None

    def made(self, decision_id: str) -> None:
        """A decision was made for it."""
        if self.decisions is None:
            self.decisions = []
        if len(self.decisions) < MOST:
            self.decisions.append(decision_id)

    async def safe(self) -> None:
        """Every decision of the request is recorded where it must be.

        Raises:
            LogUnavailable: one is not.
        """
        waiting, self.waiting = self.waiting or (), None
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            if outcome is not None:
                raise outcome


class Recorder:
    """Counts and logs decisions."""

    def __init__(self, metrics: Metrics, log: Log | None = None, *, required: bool = False, stdout_labels: str | None = None, tells: bool = False) -> None:
        """With ``required`` a request's decisions must be safe before it is answered; with ``stdout_labels`` records are printed as well.

        With ``tells`` a request gets the ids of its decisions.
        """
        self.metrics = metrics
        self._required = required
        self._tells = tells
        self._printer = Printer(stdout_labels) if stdout_labels is not None else None
        self.log = log

    @property
    def log(self) -> Log | None:
        """The decision log, where one is kept."""
        return self._log

    @log.setter
    def log(self, log: Log | None) -> None:
        self._log = log
        self.silent = log is None and self._printer is None and not self._tells

    @property
    def unprinted(self) -> int:
        """Records that nobody took from the standard output."""
        return self._printer.dropped if self._printer is not None else 0

    def note(self, answer: Answer, request: Request, policy: Policy, asking: Asking, body: bytes | None = None) -> Decided:
        """The decision is counted, and on its way to the log; where it was counted, to be counted there again. ``body`` is the request's own."""
        if not self.silent:
            self.log_it(answer, request, asking, body)
        return self.metrics.decided(request, answer.weighed, policy)

    def log_it(self, answer: Answer, request: Request, asking: Asking, body: bytes | None) -> None:
        """The decision is on its way to the log."""
        if self._tells:
            asking.made(id_of(answer.json))
        noted = answer, request, asking.path, asking.caller, perf_counter_ns() - asking.began, body
        if self._printer is not None:
            self._printer.note(noted)
        log = self._log
        if log is None:
            return
        if not self._required:
            log.note(noted)
        elif asking.waiting is None:
            asking.waiting = [log.recorded(noted)]
        else:
            asking.waiting.append(log.recorded(noted))

    async def close(self) -> None:
        """What is to be printed is printed, or nobody took it for a while."""
        if self._printer is not None:
            await asyncio.to_thread(self._printer.close)
