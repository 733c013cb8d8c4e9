"""Counting and logging of decisions, after they are made and before they are answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from policy.decision.decision import id_of
from service.log.stdout import BYTES_AT_ONCE, Printer
from service.telemetry.metrics import DEFECTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from policy.decision.evaluation import EncodedDecision
    from policy.policy import Policy
    from policy.request.request import Request
    from service.jobs.messages import JobResult
    from service.log.client import LogClient
    from service.log.record import LogEntry
    from service.request_context import RequestContext
    from service.telemetry.metrics import Metrics


LINES_AT_ONCE: Final = 64
"""Lines of a worker process recorded in one turn of the event loop."""


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
        """Log to ``log``, and with ``stdout_labels`` also print records.

        With ``required`` a request's decisions must be recorded before it is answered. With ``collects_ids`` a
        request's context gets the ids of its decisions.
        """
        self.metrics = metrics
        self._required = required
        self._collects_ids = collects_ids
        self._printer = Printer(stdout_labels) if stdout_labels is not None else None
        self.log = log

    @property
    def log(self) -> LogClient | None:
        """The decision log, or ``None`` if it is off."""
        return self._log

    @log.setter
    def log(self, log: LogClient | None) -> None:
        self._log = log
        self.is_silent = log is None and self._printer is None and not self._collects_ids

    @property
    def stdout_dropped(self) -> int:
        """Records dropped because standard output was not read."""
        return self._printer.dropped if self._printer is not None else 0

    def record(
        self,
        answer: EncodedDecision,
        request: Request,
        policy: Policy,
        context: RequestContext,
        body: bytes | None = None,
    ) -> None:
        """Count and log a decision. ``body`` is the body of the request."""
        if not self.is_silent:
            self.log_decision(answer, request, context, body)
        self.metrics.count_decision(request, answer.evaluation, policy)

    def log_decision(
        self, answer: EncodedDecision, request: Request, context: RequestContext, body: bytes | None
    ) -> None:
        """Log a decision."""
        if self._collects_ids:
            context.add_decision(id_of(answer.json))
        self._log_entry(context.log_entry(answer, request, body), context)

    @property
    def is_logging(self) -> bool:
        """Whether decisions are logged or printed."""
        return self._log is not None or self._printer is not None

    async def log_job_decisions(self, found: JobResult, output: BinaryIO | None, context: RequestContext) -> None:
        """Count and log the decisions of a worker process, whose large answers are in ``output``.

        This is done in parts, between which other tasks run; if the log or the queue of standard output is full, it
        waits.
        """
        for labels, number in found.counts:
            self.metrics.count_job_decisions(labels, number)
        for rule, number in found.matches:
            self.metrics.count_job_matches(rule, number)
        for labels, number in found.checks:
            self.metrics.count_check(labels, number)
        self.metrics.count(DEFECTS, by=found.defects)
        if self._collects_ids:
            for decision_id in found.ids:
                context.add_decision(decision_id)
        size = 0
        for number, entry in enumerate(_lines(found, output)):
            if number % LINES_AT_ONCE == LINES_AT_ONCE - 1 or size >= BYTES_AT_ONCE:
                size = 0
                await asyncio.sleep(0)
                if self._log is not None:
                    await self._log.wait_for_room()
                if self._printer is not None:
                    await self._printer.wait_for_room()
            self._log_entry(entry, context)
            size += len(entry)

    def _log_entry(self, entry: LogEntry | bytes, context: RequestContext) -> None:
        if self._printer is not None:
            self._printer.note(entry)
        log = self._log
        if log is None:
            return
        if not self._required:
            log.note(entry)
        elif context.waiting is None:
            context.waiting = [log.record(entry)]
        else:
            context.waiting.append(log.record(entry))

    async def close(self) -> None:
        """Print the queued records, within the time that ``Printer.close`` allows."""
        if self._printer is not None:
            await asyncio.to_thread(self._printer.close)


def _lines(found: JobResult, output: BinaryIO | None) -> Iterator[bytes]:
    """The lines for the log, from the result, or from the file where they follow the answer."""
    if found.spooled is None or output is None:
        yield from found.lines
        return
    output.seek(found.spooled)
    for size in found.spooled_lines:
        yield output.read(size)
