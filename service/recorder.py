"""What is noted of each decision: it is counted, and it is logged.

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
"""Lines of a worker process that are noted in one turn of the event loop."""


class Recorder:
    """Counts and logs decisions."""

    def __init__(
        self,
        metrics: Metrics,
        log: LogClient | None = None,
        *,
        required: bool = False,
        stdout_labels: str | None = None,
        tells: bool = False,
    ) -> None:
        """With ``required`` a request's decisions must be safe before it is answered; with ``stdout_labels`` records are printed as well.

        With ``tells`` a request gets the ids of its decisions.
        """
        self.metrics = metrics
        self._required = required
        self._tells = tells
        self._printer = Printer(stdout_labels) if stdout_labels is not None else None
        self.log = log

    @property
    def log(self) -> LogClient | None:
        """The decision log, where one is kept."""
        return self._log

    @log.setter
    def log(self, log: LogClient | None) -> None:
        self._log = log
        self.silent = log is None and self._printer is None and not self._tells

    @property
    def unprinted(self) -> int:
        """Records that nobody took from the standard output."""
        return self._printer.dropped if self._printer is not None else 0

    def note(
        self,
        answer: EncodedDecision,
        request: Request,
        policy: Policy,
        asking: RequestContext,
        body: bytes | None = None,
    ) -> DecisionCounter:
        """The decision is counted, and on its way to the log; where it was counted, to be counted there again. ``body`` is the request's own."""
        if not self.silent:
            self.log_it(answer, request, asking, body)
        return self.metrics.decided(request, answer.evaluation, policy)

    def log_it(self, answer: EncodedDecision, request: Request, asking: RequestContext, body: bytes | None) -> None:
        """The decision is on its way to the log."""
        if self._tells:
            asking.made(id_of(answer.json))
        self._log_noted(asking.noted(answer, request, body), asking)

    @property
    def keeps(self) -> bool:
        """Whether records are kept or printed."""
        return self._log is not None or self._printer is not None

    async def log_made_elsewhere(self, found: JobResult, output: Path | None, asking: RequestContext) -> None:
        """The decisions of a worker process, whose large answers are in ``output``, are counted and on their way to the log.

        They come in parts: others have their turn in between, and where the log is full, it is waited for.
        """
        for counted, number in found.counts:
            self.metrics.count_decisions(counted, number)
        if self._tells:
            for decision_id in found.ids:
                asking.made(decision_id)
        for number, made in enumerate(_lines(found, output)):
            if number % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
                if self._log is not None:
                    await self._log.room()
            self._log_noted(made, asking)

    def _log_noted(self, noted: LogEntry | bytes, asking: RequestContext) -> None:
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


def _lines(found: JobResult, output: Path | None) -> Iterator[bytes]:
    """The lines for the log, from the result or from the file in which they lie behind the answer."""
    if found.spooled is None or output is None:
        yield from found.lines
        return
    with output.open("rb") as file:
        file.seek(found.spooled)
        for size in found.spooled_lines:
            yield file.read(size)
