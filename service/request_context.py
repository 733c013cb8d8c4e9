"""The context of a request: its caller, its start, and what must be recorded before it is answered."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from starlette.types import Send

    from policy.decision.evaluation import EncodedDecision
    from policy.request.request import Request
    from service.log.record import LogEntry

MAX_LOGGED_IDS: Final = 100
"""Ids of decisions in a line of the access log."""


class RequestConnection(Protocol):
    """The connection of a request that is being answered."""

    @property
    def awaits_body(self) -> bool:
        """Whether a part of the request's body has not arrived yet."""

    @property
    def is_gone(self) -> bool:
        """Whether the client disconnected."""

    @property
    def response_started(self) -> bool:
        """Whether the response has started."""

    @property
    def response_chunked(self) -> bool:
        """Whether the started response has no announced length."""

    def respond(self, send: Send, head: bytes, body: bytes) -> bool:
        """Send a response with status 200 in one step, if possible; otherwise return false and send nothing."""

    def abort(self) -> None:
        """Close the connection in the middle of a response."""


class RequestContext(Struct, gc=False):
    """A request: its ``path`` without the first slash, its caller, when it began (ns), and its unconfirmed log entries.

    ``decisions`` has the ids of its first decisions, if the access log is on. ``user`` is the user of a review, whose
    work is counted apart from that of the caller's other reviews. ``connection`` is not set for
    `/v1/decisions`, which needs none.
    """

    path: str
    caller: str
    began: int
    waiting: list[asyncio.Future[None]] | None = None
    decisions: list[str] | None = None
    connection: RequestConnection | None = None
    user: str = ""

    def log_entry(self, answer: EncodedDecision, request: Request, body: bytes | None) -> LogEntry:
        """The log entry of a decision made now."""
        return answer, request, self.path, self.caller, perf_counter_ns() - self.began, body

    def add_decision(self, decision_id: str) -> None:
        """Add the id of a decision."""
        if self.decisions is None:
            self.decisions = []
        if len(self.decisions) < MAX_LOGGED_IDS:
            self.decisions.append(decision_id)

    async def wait_recorded(self) -> None:
        """Wait until every decision of the request is recorded, if that is required.

        Raises:
            LogUnavailable: a decision could not be recorded.
        """
        waiting, self.waiting = self.waiting or (), None
        for future in waiting:
            if not future.done():  # most are done as soon as the first one of their batch is
                await asyncio.wait({future})
        for future in waiting:
            future.result()
