"""``POST /v1/dry-run``: a decision explained, and candidate rules run in a process of their own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from policy.checks import candidate
from policy.checks.comparison import answer_of, read_result
from service.api.endpoint import Endpoint, send_result
from service.auth.tokens import DRY_RUN
from service.documents.body import read_body, read_headers
from service.jobs.messages import OK, JobKind, JobResult
from service.jobs.pool import unless_gone
from service.limits.slots import Slots
from service.problems import Refused

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from service.request_context import RequestContext
    from service.state.state import ServiceState

WAITING: Final = 16
"""Waiting dry runs with candidate rules per caller."""


class DryRunEndpoint(Endpoint):
    """``POST /v1/dry-run``."""

    scope = DRY_RUN

    def __init__(self, service: ServiceState, path: str) -> None:
        super().__init__(service, path)
        self.slots = Slots(self.settings.candidate_concurrency, WAITING, "dry-run-busy")

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Decide and explain; with candidate rules, compare."""
        limit = self.settings.max_body
        wanted = read_headers(headers, limit)
        with self.service.memory.hold() as held:
            body = await read_body(receive, limit, held)
            self.body_arrived()
            answers = self.service.answers_for(headers)
            async with self.run_job(JobKind.DRY_RUN, answers, body, wanted, context, receive) as (result, output):
                if result.candidate is None:
                    return await send_result(send, result, output)
                comparison = await unless_gone(receive, self.run_candidate(result.candidate, context.caller))
                compared = JobResult(OK, result.content_type, answer_of(read_result(comparison)))
                return await send_result(send, compared, None)

    async def run_candidate(self, job: bytes, caller: str) -> bytes:
        """Run candidate rules in a process of their own with a timeout; return its output.

        Raises:
            Refused: too many runs are waiting, or this one took too long.
        """
        async with self.slots.slot(caller):
            return await _run(job, self.settings.candidate_timeout)


async def _run(job: bytes, seconds: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *candidate.COMMAND, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(job), seconds)
    except TimeoutError as error:
        raise Refused("candidate-aborted", candidate.timeout_message(seconds)) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise Refused("candidate-aborted", candidate.exit_reason(process.returncode, seconds))
    return output
