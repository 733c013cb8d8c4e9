"""What is entry of each decision: it is counted, and it is logged.

Owns the moment after a decision was made and before it is answered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from policy.decision.decision import id_of
from service.log.stdout import Printer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from policy.decision.evaluation import EncodedDecision
    from policy.policy import Policy
    from policy.request.request import Request
    from service.jobs.messages import JobResult
    from service.log.client import LogClient
    from service.log.record import LogEntry
    from service.request_context import RequestContext
    from service.telemetry.metrics import DecisionCounter, Metrics


PAUSE: Final = 64
"""Lines of a worker process that are entry in one turn of the event loop."""


class Recorder:
    """Counts and logs decisions."""

    def __init__(
        self,
        metrics: Metrics,
        log: LogClient | None = None,
        *,
        required: bool = False,
        stdout_labels: str | None = None,
        collects_ids: bool = False,
    ) -> None:
        """With ``required`` a request's decisions must be safe before it is answered; with ``stdout_labels`` records are printed as well.

        With ``tells`` a request gets the ids of its decisions.
        """
        self.metrics = metrics
        self._required = required
        self._collects_ids = collects_ids
        self._printer = Printer(stdout_labels) if stdout_labels is not None else None
        self.log = log

    @property
    def log(self) -> LogClient | None:
        """The decision log, where one is kept."""
        return self._log

    @log.setter
    def log(self, log: LogClient | None) -> None:
        self._log = log
        self.is_silent = log is None and self._printer is None and not self._collects_ids

    @property
    def stdout_dropped(self) -> int:
        """Records that nobody took from the standard output."""
        return self._printer.dropped if self._printer is not None else 0

    def record(
        self,
        answer: EncodedDecision,
        request: Request,
        policy: Policy,
        context: RequestContext,
        body: bytes | None = None,
    ) -> DecisionCounter:
        """The decision is counted, and on its way to the log; where it was counted, to be counted there again. ``body`` is the request's own."""
        if not self.is_silent:
            self.log_decision(answer, request, context, body)
        return self.metrics.count_decision(request, answer.weighed, policy)

    def log_decision(
        self, answer: EncodedDecision, request: Request, context: RequestContext, body: bytes | None
    ) -> None:
        """The decision is on its way to the log."""
        if self._collects_ids:
            context.add_decision(id_of(answer.json))
        self._log_entry(context.log_entry(answer, request, body), context)

    @property
    def is_logging(self) -> bool:
        """Whether records are kept or printed."""
        return self._log is not None or self._printer is not None

    async def log_job_decisions(self, found: JobResult, output: Path | None, context: RequestContext) -> None:
        """The decisions of a worker process, whose large answers are in ``output``, are counted and on their way to the log.

        They come in parts: others have their turn in between, and where the log is full, it is waited for.
        """
        for counted, number in found.counts:
            self.metrics.count_job_decisions(counted, number)
        if self._collects_ids:
            for decision_id in found.ids:
                context.add_decision(decision_id)
        for number, entry in enumerate(_lines(found, output)):
            if number % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
                if self._log is not None:
                    await self._log.room()
            self._log_entry(entry, context)

    def _log_entry(self, entry: LogEntry | bytes, context: RequestContext) -> None:
        if self._printer is not None:
            self._printer.note(entry)
        log = self._log
        if log is None:
            return
        if not self._required:
            log.note(entry)
        elif context.waiting is None:
            context.waiting = [log.recorded(entry)]
        else:
            context.waiting.append(log.recorded(entry))

    async def close(self) -> None:
        """What is to be printed is printed, or nobody took it for a while."""
        if self._printer is not None:
            await asyncio.to_thread(self._printer.close)


def _lines(found: JobResult, output: Path | None) -> Iterator[bytes]:
    """The lines for the log, from the result or from the file in which they lie behind the answer."""
    if found.spooled is None or output is None:
        yield from found.lines
        return
    with output.open("rb") as file:
        file.seek(found.spooled)
        for size in found.spooled_lines:
            yield file.read(size)
