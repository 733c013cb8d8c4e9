"""The calls that decide, as plain ASGI: a body in, an answer out.

Owns the way of a request through the service. What is small and asks for one decision is decided here, in the event
loop; everything else by a worker process (``pool``). These calls carry the load, so nothing stands between the server
and them; what FastAPI adds to a route (parsing, threads, middleware) they do not need.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar, Final

from policy.checks import candidate
from policy.checks.comparison import answer_of, read_result
from policy.decision.decision import encode
from policy.errors import PolicyError
from service.auth.access import DECIDE, DRY_RUN
from service.documents.body import (
    NDJSON_TYPES,
    YAML_TYPES,
    Disconnected,
    Headers,
    read_body,
    read_headers,
    read_lines,
    too_large,
)
from service.documents.query import refuse_query
from service.jobs.messages import Job, JobKind, JobResult
from service.jobs.pool import unless_gone
from service.jobs.worker import JSON, OK
from service.limits.slots import Slots
from service.problems import AGAIN, MEDIA_TYPE, Refused, headers_of, problem_of
from service.request_context import RequestContext
from service.state.answers import today

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from service.state.answers import Answers
    from service.state.state import ServiceState

NDJSON: Final = b"application/x-ndjson"
FAILED: Final = 500
GONE: Final = 499
"""The status by which requests are counted whose client went away; it is the one of nginx, and is never sent."""
TURN: Final = 5_000_000
"""Nanoseconds that decisions may take before others have their turn in the event loop."""
LINES: Final = 32
"""Lines of a stream that are answered together."""
PIECE: Final = 1 << 20
"""Bytes of a large answer that are sent at once."""
WAITING: Final = 16
"""Dry runs with candidate rules of one caller that may wait."""


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


class DecisionBatcher:
    """Decides what arrived in one turn of the event loop, one after the other.

    Between two decisions no code of the server runs, which would push theirs out of the processor's caches.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Future[bytes | None], Answers, bytes, RequestContext]] = []

    def decision(self, answers: Answers, body: bytes, asking: RequestContext) -> asyncio.Future[bytes | None]:
        """The answer to a JSON body, or the error that there is instead, in this turn's end; ``None`` as ``Answers`` has it."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._end)
        future: asyncio.Future[bytes | None] = loop.create_future()
        self._waiting.append((future, answers, body, asking))
        return future

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        ends = perf_counter_ns() + TURN
        for place, (future, answers, body, asking) in enumerate(waiting):
            if perf_counter_ns() > ends:  # who comes next in the loop must not wait for all of them
                self._waiting = waiting[place:]
                asyncio.get_running_loop().call_soon(self._end)
                return
            if future.cancelled():
                continue
            try:
                future.set_result(answers.decision(body, asking))
            except Exception as error:  # noqa: BLE001  # whoever waits has to learn of it
                future.set_exception(error)


class DecisionEndpoint(Endpoint):
    """``POST /v1/decisions``; what the others do step by step is one function here, which carries the load."""

    def __init__(self, served: ServiceState, path: str) -> None:
        super().__init__(served, path)
        self.turn = DecisionBatcher()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide one deployment."""
        began = perf_counter_ns()
        served, limit = self.served, self.settings.max_body
        reading, task = served.slow.reading, current_task()
        status, asking, held = FAILED, None, None
        try:
            reading[task] = began
            headers = dict(scope["headers"])
            client = scope["client"]
            caller = client[0] if served.access.is_open and client else served.access.caller(client, headers, DECIDE)
            if scope["query_string"]:
                refuse_query(scope["query_string"])
            wanted = read_headers(headers, limit)
            message = await receive()
            if message.get("more_body", True):
                held = served.memory.hold()
                body = await read_body(receive, limit, held, message)
            else:
                body = message["body"]
            del reading[task]
            if len(body) > limit:
                raise too_large(limit)
            answers = served.answers if b"if-match" not in headers else served.answers_for(headers)
            asking = RequestContext(self.path, caller, began)
            answer = None
            if not wanted.wants_text and wanted.content_type not in YAML_TYPES:
                answer = answers.kept(body, asking) or await self.turn.decision(answers, body, asking)
            if answer is None:
                status = await self.send_worked(JobKind.DECISION, answers, body, wanted, asking, receive, send)
                if status == OK:
                    served.metrics.took.append(perf_counter_ns() - began)
                return
            if asking.waiting is not None:
                await asking.safe()
            served.metrics.took.append(perf_counter_ns() - began)
            length = (b"content-length", b"%d" % len(answer))
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON), length]})
            await send({"type": "http.response.body", "body": answer})
            status = OK
        except (PolicyError, Disconnected, asyncio.CancelledError) as error:
            reading.pop(task, None)
            status = await self.failed(error, task, send)
        finally:
            if held is not None:
                held.release()
            if served.tells or status != OK:
                served.done(scope, status, began, None, asking)


class BatchEndpoint(Endpoint):
    """``POST /v1/decisions/batch``."""

    def __init__(self, served: ServiceState, path: str) -> None:
        super().__init__(served, path)
        self.turn = asyncio.Lock()
        """Whose turn it is among the streams of lines: one of them works at a time, so that others wait for one turn only."""

    async def answer(
        self,
        scope: Scope,  # noqa: ARG002
        headers: dict[bytes, bytes],
        receive: Receive,
        send: Send,
        asking: RequestContext,
    ) -> int:
        """Decide many deployments, as one document or as a stream of lines."""
        limit = self.settings.max_batch_body
        wanted = read_headers(headers, 1 << 62)
        if wanted.content_type in NDJSON_TYPES:
            answers = self.served.answers_for(headers)
            with self.served.streams.place(asking.caller):
                return await self.stream(answers, wanted, receive, send, asking)
        wanted = read_headers(headers, limit)
        with self.served.memory.hold() as held:
            body = await read_body(receive, limit, held)
            self.arrived()
            return await self.send_worked(
                JobKind.BATCH, self.served.answers_for(headers), body, wanted, asking, receive, send
            )

    async def stream(
        self, answers: Answers, wanted: Headers, receive: Receive, send: Send, asking: RequestContext
    ) -> int:
        """A request a line in, an answer a line out, as they come; all of them by one revision."""
        await send({"type": "http.response.start", "status": OK, "headers": [(b"content-type", NDJSON)]})
        async for lines in read_lines(receive, self.settings.max_body):
            self.arrived()
            if not lines:
                await asyncio.sleep(0)
            for start in range(0, len(lines), LINES):
                await self.answer_lines(lines[start : start + LINES], answers, wanted, send, asking)
            self.served.slow.reading[current_task()] = perf_counter_ns()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return OK

    async def answer_lines(
        self, lines: list[bytes | Refused], answers: Answers, wanted: Headers, send: Send, asking: RequestContext
    ) -> None:
        """The answers to some lines of a stream, slowed down to the caller's rate."""
        found: list[bytes] = []
        while len(found) < len(lines):
            async with self.turn:
                is_large = _answer_small(answers, lines, asking, found)
                await asyncio.sleep(0)
            if is_large:
                line = lines[len(found)]
                assert isinstance(line, bytes)  # INVARIANT: a line that was refused has its answer
                found.append(await self.worked_line(answers, line, wanted, asking))
        try:
            await asking.safe()
        except PolicyError as error:
            found = [encode(problem_of(error)) + b"\n"] * len(found)
        await send({"type": "http.response.body", "body": b"".join(found), "more_body": True})
        await asyncio.sleep(self.served.access.charge(asking.caller, len(lines)))

    async def worked_line(self, answers: Answers, line: bytes, wanted: Headers, asking: RequestContext) -> bytes:
        """The answer of a worker process to one line."""
        try:
            found, output = await self.worked(JobKind.DECISION, answers, line, wanted, asking, None)
        except PolicyError as error:
            return encode(problem_of(error)) + b"\n"
        if output is None or found.spooled is None:
            return found.body + b"\n"
        try:
            return await asyncio.to_thread(output.read_bytes) + b"\n"
        finally:
            output.unlink(missing_ok=True)


def _answer_small(answers: Answers, lines: list[bytes | Refused], asking: RequestContext, found: list[bytes]) -> bool:
    """Answer the lines that have no answer in ``found`` yet, until the turn is over; whether the next one is for a worker process."""
    ends = perf_counter_ns() + TURN
    for line in lines[len(found) :]:
        answer = answers.line(line, asking)
        if answer is None:
            return True
        found.append(answer)
        if perf_counter_ns() > ends:
            break
    return False


class DryRunEndpoint(Endpoint):
    """``POST /v1/dry-run``."""

    scope = DRY_RUN

    def __init__(self, served: ServiceState, path: str) -> None:
        super().__init__(served, path)
        self.slots = Slots(self.settings.candidate_concurrency, WAITING, "dry-run-busy")

    async def answer(
        self,
        scope: Scope,  # noqa: ARG002
        headers: dict[bytes, bytes],
        receive: Receive,
        send: Send,
        asking: RequestContext,
    ) -> int:
        """Decide and explain, and with candidate rules say what they would change."""
        limit = self.settings.max_body
        wanted = read_headers(headers, limit)
        with self.served.memory.hold() as held:
            body = await read_body(receive, limit, held)
            self.arrived()
            answers = self.served.answers_for(headers)
            found, output = await self.worked(JobKind.DRY_RUN, answers, body, wanted, asking, receive)
            if found.candidate is not None:
                tried = await unless_gone(receive, self.tried(found.candidate, asking.caller))
                found = JobResult(OK, found.content_type, answer_of(read_result(tried)))
            try:
                return await send_result(send, found, output)
            finally:
                if output is not None:
                    output.unlink(missing_ok=True)

    async def tried(self, job: bytes, caller: str) -> bytes:
        """What comes of candidate rules, tried in a process of its own with bounded time.

        Raises:
            Refused: too many such runs are waiting, or this one took too long.
        """
        async with self.slots.place(caller):
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
