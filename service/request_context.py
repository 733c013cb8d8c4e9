"""A request on its way through the service: who asks, when it began, and what must be recorded before it is answered."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from policy.decision.evaluation import EncodedDecision
    from policy.request.request import Request
    from service.log.record import LogEntry

MOST: Final = 100
"""Ids of decisions in a line of the log of requests."""


class RequestContext(Struct, gc=False):
    """A request on its way: its ``path`` without the first slash, who asks, when it began (ns), what must be safe before it is answered.

    ``decisions`` has the ids of the first that were made for it, where each request is logged.
    """

    path: str
    caller: str
    began: int
    waiting: list[asyncio.Future[None]] | None = None
    decisions: list[str] | None = None

    def log_entry(self, answer: EncodedDecision, request: Request, body: bytes | None) -> LogEntry:
        """What the log takes of a decision that was made just now."""
        return answer, request, self.path, self.caller, perf_counter_ns() - self.began, body

    def add_decision(self, decision_id: str) -> None:
        """A decision was made for it."""
        if self.decisions is None:
            self.decisions = []
        if len(self.decisions) < MOST:
            self.decisions.append(decision_id)

    async def wait_recorded(self) -> None:
        """Every decision of the request is recorded where it must be.

        Raises:
            LogUnavailable: one is not.
        """
        waiting, self.waiting = self.waiting or (), None
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            if outcome is not None:
                raise outcome
