"""What every deciding endpoint does: check the caller, read the body, answer, count.

The deciding endpoints are plain ASGI applications. They serve most requests, and what FastAPI adds to a route (parsing,
threads, middleware) costs more than the decision.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from contextlib import asynccontextmanager, nullcontext, suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

from policy.decision.decision import encode
from policy.defects import defect_fault
from policy.errors import PolicyError, RequestInvalid
from service import run_folder
from service.auth.tokens import DECIDE
from service.documents.accept import headers_of, wants_text
from service.documents.body import Disconnected, Headers
from service.documents.query import refuse_query
from service.jobs.messages import Job, JobKind, JobResult
from service.jobs.pool import until_disconnect
from service.limits.share import share_of_user
from service.problems import RETRYABLE_STATUSES, VARY, Refused, problem_of, response_of
from service.request_context import RequestContext
from service.state.answers import today
from service.transport.disconnection import connection_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from service.limits.slots import HeldBody
    from service.state.answers import Answers
    from service.state.state import ServiceState

INTERNAL_SERVER_ERROR: Final = 500
CLIENT_CLOSED_REQUEST: Final = 499
"""The status counted for requests whose client disconnected, as in nginx; it is never sent."""
MAX_TURN: Final = 5_000_000
"""Nanoseconds of decisions in a row before other tasks of the event loop run."""
CHUNK_SIZE: Final = 1 << 20
"""Bytes of a large answer that are sent at once."""


async def send_problem(scope: Scope, send: Send, error: PolicyError) -> int:
    """Send an error as a problem, in the form that the client of the request prefers; return its status.

    The rest of a body that was too large is ignored: closing the connection while the client is still sending would
    lose the response.
    """
    response = response_of(error, as_text=wants_text(scope))
    await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
    await send({"type": "http.response.body", "body": response.body})
    return response.status


async def end_response(scope: Scope, send: Send, error: PolicyError) -> int:
    """End a request whose task was cancelled or has failed; return the status to count.

    A stream that has started ends with the problem as its last line. Another response that has started cannot be
    completed: its connection is closed, as is one whose client does not read.
    """
    connection = connection_of(scope)
    if connection is None or not connection.response_started:
        ended = send_problem(scope, send, error)
    elif connection.response_chunked:
        ended = send_last_line(send, error)
    else:
        connection.abort()
        return problem_of(error).status
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            return await ended
    if connection is not None:
        connection.abort()
    return problem_of(error).status


async def send_last_line(send: Send, error: PolicyError) -> int:
    """End a stream with a problem as its last line; return its status."""
    problem = problem_of(error)
    await send({"type": "http.response.body", "body": encode(problem) + b"\n", "more_body": False})
    return problem.status


async def send_result(send: Send, result: JobResult, output: BinaryIO | None) -> int:
    """Send the answer of a worker process; return its status. An answer in the file ``output`` is sent in pieces."""
    size = len(result.body) if result.spooled is None else result.spooled
    headers = [(b"content-type", result.content_type), (b"content-length", b"%d" % size), VARY]
    if result.status in RETRYABLE_STATUSES:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": result.status, "headers": headers})
    if result.spooled is None or output is None:
        await send({"type": "http.response.body", "body": result.body})
        return result.status
    output.seek(0)
    while size:
        piece = output.read(min(size, CHUNK_SIZE))
        size -= len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": bool(size)})
    return result.status


def shutdown_error() -> Refused:
    """The error of a request that is still in progress at the end of the shutdown's time for requests."""
    return Refused("stopping", "the request was not finished when the service stopped; send it again")


class Endpoint:
    """An endpoint as an ASGI application; errors are answered as problems, disconnected clients are dropped."""

    scope: ClassVar[str] = DECIDE
    """The scope that a caller's token needs."""
    model_seconds: float | None = None
    """Seconds a request may wait for models of the hub, all together."""
    any_query: ClassVar[bool] = False
    """Whether the URL may have parameters, which are then ignored."""

    def __init__(self, service: ServiceState, path: str) -> None:
        self.service = service
        self.settings = service.settings
        self.path = path[1:]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began = perf_counter_ns()
        service = self.service
        status = INTERNAL_SERVER_ERROR
        task = current_task()
        service.body_timeouts.reading[task] = began
        context = None
        try:
            headers = headers_of(scope)
            caller = self.caller(scope, headers)
            context = RequestContext(self.path, caller, began, connection=connection_of(scope))
            if scope["query_string"] and not self.any_query:
                refuse_query(scope["query_string"])
            status = await self.answer(headers, receive, send, context)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # a defect may raise anything
            status = await self.answer_error(error, task, scope, send)
        finally:
            service.body_timeouts.reading.pop(task, None)
            service.request_done(scope, status, began, None, context)

    def caller(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """The caller's name.

        Raises:
            Refused: the caller may not use the endpoint.
        """
        return self.service.access.caller(scope["client"], headers, self.scope)

    async def answer_error(
        self, error: BaseException, task: asyncio.Task[object] | None, scope: Scope, send: Send
    ) -> int:
        """Send the problem, or nothing to a disconnected client; return the status to count."""
        if isinstance(error, PolicyError):
            return await send_problem(scope, send, error)
        if isinstance(error, Disconnected):
            connection = connection_of(scope)
            if connection is not None:
                connection.abort()  # the server may not have noticed yet, and would log a response that is missing
            return CLIENT_CLOSED_REQUEST
        if isinstance(error, Exception):
            return await end_response(scope, send, RequestInvalid([defect_fault(error)]))
        if not self.service.body_timeouts.timed_out(task):
            return await end_response(scope, send, shutdown_error())
        seconds = self.settings.body_timeout
        return await end_response(
            scope, send, Refused("request-timeout", f"the body took more than {seconds:g} s to arrive; send it faster")
        )

    def body_arrived(self) -> None:
        """End the timeout of the body, as the whole body of this task's request has arrived."""
        self.service.body_timeouts.reading.pop(current_task(), None)

    async def answer(self, headers: dict[bytes, bytes], receive: Receive, send: Send, context: RequestContext) -> int:
        """Answer one request; return the status.

        Raises:
            PolicyError: the request is invalid or cannot be answered.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def run_job(
        self,
        kind: JobKind,
        answers: Answers,
        body: HeldBody,
        wanted: Headers,
        context: RequestContext,
        receive: Receive | None,
    ) -> AsyncIterator[tuple[JobResult, BinaryIO | None]]:
        """Run a job in a worker process; yield its result, and the file of a large answer.

        The decisions of the job are counted, logged and charged first. The file is open, and has no name any more, so
        that nobody can delete or replace it. With ``receive``, the job is cancelled when the client disconnects. The
        body is released as soon as the job is done, unless candidate rules run next: a client may take long to read.

        Raises:
            Refused: it takes too long, or too many such requests are in progress.
            Disconnected: the client disconnected.
            LogUnavailable: a decision must be recorded, and could not be.
        """
        service = self.service
        output = service.pool.output()
        job = Job(
            kind,
            answers.policy.revision,
            body.content,
            wanted.content_type if kind is not JobKind.DRY_RUN else wanted.whole_type,
            wanted.wants_text,
            context.path,
            context.caller,
            context.began,
            service.job_settings(),
            str(output) if output is not None else None,
            user=context.user,
        )
        work = service.pool.result(job, answers.texts, today(), self.model_seconds)
        del job
        try:
            result = await (work if receive is None else until_disconnect(receive, work))
            file = _opened(result, output)
        finally:
            if output is not None:
                run_folder.remove(output)
        if result.candidate is None:
            body.release()
        with file or nullcontext():
            if result.decisions > 1:
                service.access.charge(share_of_user(context.caller, context.user), result.decisions - 1)
            await service.recorder.log_job_decisions(result, file, context)
            await context.wait_recorded()
            yield result, file

    async def send_job_result(
        self,
        kind: JobKind,
        answers: Answers,
        body: HeldBody,
        wanted: Headers,
        context: RequestContext,
        receive: Receive,
        send: Send,
    ) -> int:
        """Answer a request in a worker process; return the status."""
        async with self.run_job(kind, answers, body, wanted, context, receive) as (result, output):
            return await send_result(send, result, output)


def _opened(result: JobResult, output: Path | None) -> BinaryIO | None:
    """The file of a large answer; ``None`` if the result has the answer.

    Raises:
        Refused: the file was deleted.
    """
    if result.spooled is None or output is None:
        return None
    try:
        return run_folder.read(output)
    except OSError as error:
        raise Refused("busy", "its answer was deleted before it could be sent; send the request again") from error
