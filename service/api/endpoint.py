"""What every deciding endpoint does: check the caller, read the body, answer, count.

The deciding endpoints are plain ASGI applications. They carry the load, and what FastAPI adds to a route (parsing,
threads, middleware) costs more than the decision.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar, Final

from policy.decision.decision import encode
from policy.errors import PolicyError
from service.auth.access import DECIDE
from service.documents.body import Disconnected, Headers
from service.documents.query import refuse_query
from service.jobs.messages import Job, JobKind, JobResult
from service.jobs.pool import unless_gone
from service.problems import AGAIN, MEDIA_TYPE, Refused, headers_of, problem_of
from service.request_context import RequestContext
from service.state.answers import today

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from service.state.answers import Answers
    from service.state.state import ServiceState

FAILED: Final = 500
GONE: Final = 499
"""The status by which requests are counted whose client went away; it is the one of nginx, and is never sent."""
TURN: Final = 5_000_000
"""Nanoseconds that decisions may take before others have their turn in the event loop."""
PIECE: Final = 1 << 20
"""Bytes of a large answer that are sent at once."""


async def send_problem(send: Send, error: PolicyError) -> int:
    """The problem that an error is, as a response; its status.

    What is left of a body that was too large is ignored: closing the connection under a client that is still sending
    would take the answer from it.
    """
    problem = problem_of(error)
    body = encode(problem)
    headers = [*headers_of(error, problem.status), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    return problem.status


async def send_result(send: Send, found: JobResult, output: Path | None) -> int:
    """The answer of a worker process as a response; its status. One that lies in a file is sent piece by piece."""
    size = len(found.body) if found.spooled is None else found.spooled
    headers = [(b"content-type", found.content_type or MEDIA_TYPE.encode()), (b"content-length", b"%d" % size)]
    if found.status in AGAIN:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": found.status, "headers": headers})
    if found.spooled is None or output is None:
        await send({"type": "http.response.body", "body": found.body})
        return found.status
    with output.open("rb") as file:
        while size:
            piece = file.read(min(size, PIECE))
            size -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": bool(size)})
    return found.status


class Endpoint:
    """A call of the API as an ASGI application; a problem is answered, a vanished client is let go."""

    scope: ClassVar[str] = DECIDE
    """What a caller's token must allow."""
    model_seconds: float | None = None
    """How long a request may wait for models of the hub, all together."""
    any_query: ClassVar[bool] = False
    """Whether the address may have parameters, which then mean nothing here."""

    def __init__(self, served: ServiceState, path: str) -> None:
        self.served = served
        self.settings = served.settings
        self.path = path[1:]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began = perf_counter_ns()
        served = self.served
        status = FAILED
        task = current_task()
        served.slow.reading[task] = began
        asking = None
        try:
            headers = dict(scope["headers"])
            asking = RequestContext(self.path, self.caller(scope, headers), began)
            if scope["query_string"] and not self.any_query:
                refuse_query(scope["query_string"])
            status = await self.answer(scope, headers, receive, send, asking)
        except (PolicyError, Disconnected, asyncio.CancelledError) as error:
            status = await self.failed(error, task, send)
        finally:
            served.slow.reading.pop(task, None)
            served.done(scope, status, began, None, asking)

    def caller(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """Who asks.

        Raises:
            Refused: nobody who may.
        """
        return self.served.access.caller(scope["client"], headers, self.scope)

    async def failed(self, error: BaseException, task: asyncio.Task[object] | None, send: Send) -> int:
        """The problem is answered, or nothing to a client that is gone; the status for the counts."""
        if isinstance(error, PolicyError):
            return await send_problem(send, error)
        if isinstance(error, Disconnected):
            return GONE
        if not self.served.slow.ended(task):
            raise error
        return await send_problem(
            send,
            Refused(
                "request-timeout", f"the body took more than {self.settings.body_timeout:g} s to arrive; send it faster"
            ),
        )

    def arrived(self) -> None:
        """The body of this task's request is there: what comes now may take its time."""
        self.served.slow.reading.pop(current_task(), None)

    async def answer(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, asking: RequestContext
    ) -> int:
        """Answer one request, or raise what is wrong with it; the status of the answer."""
        raise NotImplementedError

    async def worked(
        self,
        kind: JobKind,
        answers: Answers,
        body: bytes,
        wanted: Headers,
        asking: RequestContext,
        receive: Receive | None,
    ) -> tuple[JobResult, Path | None]:
        """The answer of a worker process, its decisions counted, logged and charged; and the file in which it may lie.

        Where there is a ``receive``, the work ends when the client goes away.

        Raises:
            Refused: it takes too long, or too many such requests are under way.
            Disconnected: the client went away.
            LogUnavailable: a decision could not be recorded where it must be.
        """
        served = self.served
        output = served.pool.output()
        job = Job(
            kind,
            answers.policy.revision,
            body,
            wanted.content_type if kind is not JobKind.DRY_RUN else wanted.whole_type,
            wanted.wants_text,
            asking.path,
            asking.caller,
            asking.began,
            served.job_settings(),
            str(output) if output is not None else None,
        )
        work = served.pool.result(job, answers.texts, today(), self.model_seconds)
        try:
            found = await (work if receive is None else unless_gone(receive, work))
            if found.decisions > 1:
                served.access.charge(asking.caller, found.decisions - 1)
            await served.recorder.log_made_elsewhere(found, output, asking)
            await asking.safe()
        except BaseException:
            if output is not None:
                output.unlink(missing_ok=True)
            raise
        return found, output

    async def send_worked(
        self,
        kind: JobKind,
        answers: Answers,
        body: bytes,
        wanted: Headers,
        asking: RequestContext,
        receive: Receive,
        send: Send,
    ) -> int:
        """Answer a request by a worker process; the status."""
        found, output = await self.worked(kind, answers, body, wanted, asking, receive)
        try:
            return await send_result(send, found, output)
        finally:
            if output is not None:
                output.unlink(missing_ok=True)
