"""``POST /v1/decisions/batch``: many deployments, in one document or one per line of a stream."""

from __future__ import annotations

import asyncio
from asyncio import current_task
from time import perf_counter_ns
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

from policy.decision.decision import encode
from policy.errors import PolicyError
from service.api.endpoint import MAX_TURN, Endpoint, send_last_line
from service.documents.body import JSON_HEADERS, NDJSON_TYPES, read_body, read_headers, read_lines
from service.jobs.messages import OK, JobKind
from service.limits.slots import HeldBody
from service.problems import Refused, problem_of
from service.request_context import RequestContext
from service.state.answers import GROUP
from service.transport.disconnection import until_gone

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from service.auth.access import Permission
    from service.jobs.messages import JobResult
    from service.state.answers import Answers
    from service.state.state import ServiceState

NDJSON: Final = b"application/x-ndjson"
LINES_AT_ONCE: Final = 32
"""Lines of a stream that are answered together."""


class BatchEndpoint(Endpoint):
    """``POST /v1/decisions/batch``."""

    kind: ClassVar = JobKind.BATCH
    line_kind: ClassVar = JobKind.DECISION
    """The job for a line of a stream."""

    def __init__(self, service: ServiceState, path: str) -> None:
        super().__init__(service, path)
        self.turn = asyncio.Lock()
        """Held by the stream that is deciding: one at a time, so that other requests wait for one turn at most."""

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Decide many deployments, as one document or as a stream of lines."""
        limit = self.settings.max_batch_body
        wanted = read_headers(headers, 1 << 62)
        if wanted.content_type in NDJSON_TYPES:
            answers = self.service.answers_for(headers)
            permission = self.service.access.permission(headers, self.scope)
            with self.service.streams.slot(context.caller):
                async with until_gone(context.connection):
                    return await self.stream(answers, permission, receive, send, context)
        wanted = read_headers(headers, limit)
        with self.service.memory.hold(context.caller) as held:
            await read_body(receive, limit, held)
            self.body_arrived()
            return await self.send_job_result(
                self.kind, self.service.answers_for(headers), held, wanted, context, receive, send
            )

    async def stream(
        self, answers: Answers, permission: Permission, receive: Receive, send: Send, context: RequestContext
    ) -> int:
        """Answer a stream line by line as it arrives, all lines by one revision; each answer is JSON.

        Undecided lines are dropped when the client disconnects. If the stream loses its permission, that problem is
        its last line.
        """
        await send({"type": "http.response.start", "status": OK, "headers": [(b"content-type", NDJSON)]})
        async for lines in read_lines(receive, self.settings.max_body):
            self.body_arrived()
            if not lines:
                await asyncio.sleep(0)
            for start in range(0, len(lines), LINES_AT_ONCE):
                refused = await self.answer_lines(
                    lines[start : start + LINES_AT_ONCE], answers, permission, send, context
                )
                if refused is not None:
                    return await send_last_line(send, refused)
            self.service.body_timeouts.reading[current_task()] = perf_counter_ns()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return OK

    async def answer_lines(
        self,
        lines: list[bytes | Refused],
        answers: Answers,
        permission: Permission,
        send: Send,
        context: RequestContext,
    ) -> Refused | None:
        """Answer lines of a stream within the caller's rate limit; return why the rest is refused, if it is."""
        decided: list[bytes] = []
        refused = None
        while len(decided) < len(lines):
            async with self.turn:
                if (refused := self.refusal(permission)) is not None:
                    break
                is_large = self.answer_small_lines(answers, lines, context, decided)
                await asyncio.sleep(0)
            if is_large:
                line = lines[len(decided)]
                assert isinstance(line, bytes)  # INVARIANT: a refused line is answered already
                decided.append(await self.answer_line_in_worker(answers, line, context))
        try:
            await context.wait_recorded()
        except PolicyError as error:
            decided = [encode(problem_of(error)) + b"\n"] * len(decided)
        await send({"type": "http.response.body", "body": b"".join(decided), "more_body": True})
        if refused is None:
            await asyncio.sleep(self.service.access.charge(context.caller, len(lines)))
        return refused

    def refusal(self, permission: Permission) -> Refused | None:
        """Why the stream's permission has ended; ``None`` if it has not."""
        try:
            self.service.access.check_again(permission)
        except Refused as error:
            return error
        return None

    def answer_small_lines(
        self, answers: Answers, lines: list[bytes | Refused], context: RequestContext, answered: list[bytes]
    ) -> bool:
        """Answer further lines until the turn is over; return whether the next one needs a worker process."""
        return _decide_small_lines(answers, lines, context, answered)

    async def answer_line_in_worker(self, answers: Answers, line: bytes, context: RequestContext) -> bytes:
        """The answer to one line, decided in a worker process.

        The line has a context of its own: in the stream's one, the records of the lines before it are waited for.
        """
        own = RequestContext(context.path, context.caller, context.began)
        try:
            body = HeldBody(None, content=line)
            async with self.run_job(self.line_kind, answers, body, JSON_HEADERS, own, None) as (result, output):
                return await self.read_line(result, output)
        except PolicyError as error:
            return encode(problem_of(error)) + b"\n"
        finally:
            for decision_id in own.decisions or ():
                context.add_decision(decision_id)

    async def read_line(self, result: JobResult, output: BinaryIO | None) -> bytes:
        """The line of a worker process's answer."""
        if output is None or result.spooled is None:
            return result.body + b"\n"
        return await asyncio.to_thread(output.read, result.spooled) + b"\n"


def _decide_small_lines(
    answers: Answers, lines: list[bytes | Refused], context: RequestContext, decided: list[bytes]
) -> bool:
    """Answer further lines until the turn is over; return whether the next one needs a worker process."""
    ends = perf_counter_ns() + MAX_TURN
    for start in range(len(decided), len(lines), GROUP):
        group = lines[start : start + GROUP]
        for line, evaluation in zip(group, answers.evaluate_common(group), strict=True):
            answer = answers.line(line, context, evaluation)
            if answer is None:
                return True
            decided.append(answer)
            if perf_counter_ns() > ends:
                return False
    return False
