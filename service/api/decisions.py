"""``POST /v1/decisions``.

A small request is decided in the event loop, any other by a worker process (``service.jobs``).
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from service.api.endpoint import INTERNAL_SERVER_ERROR, MAX_TURN, Endpoint
from service.auth.tokens import DECIDE
from service.documents.accept import headers_of
from service.documents.body import YAML_TYPES, read_body, read_headers, too_large
from service.documents.query import refuse_query
from service.jobs.messages import JSON, OK, JobKind
from service.limits.slots import HeldBody
from service.problems import VARY
from service.request_context import RequestContext
from service.state.answers import GROUP
from service.transport.disconnection import connection_of
from service.transport.response_writer import head_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from service.state.answers import Answers
    from service.state.state import ServiceState

    Waiting = tuple[asyncio.Future[bytes | None], Answers, bytes, RequestContext]

MAX_WAIT: Final = 1_000_000
"""Nanoseconds from the start of a group's first request until the group is decided; 16 requests arrive in less."""
MAX_GROUP: Final = 64 << 10
"""Bytes of the bodies of a group: 32 of a common size, or four of the largest, which take 3 ms each."""
HEAD: Final = head_of([(b"content-type", JSON), (b"content-length", b"%d"), VARY])
"""The headers of a decision, as lines."""


async def send_messages(send: Send, answer: bytes) -> None:
    """Send a decision as messages."""
    headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(answer)), VARY]
    await send({"type": "http.response.start", "status": OK, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


class DecisionBatcher:
    """Decides requests in a row: those that arrived until a turn of the event loop brought no further one.

    No server code runs between two decisions, which would evict the engine from the processor's caches. Over HTTP on 16
    connections this saves 20 of 170 µs of processor time for a request. At the end of the first turn, seven requests
    wait on average. After a turn that brings none, 15 wait, which saves another 14 of 99 µs.
    """

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []
        self._before = 0
        """How many requests waited at the end of the turn before this one."""

    def decision(self, answers: Answers, body: bytes, context: RequestContext) -> asyncio.Future[bytes | None]:
        """The answer to a JSON body, or its error, in one of the next turns; ``None`` as in ``Answers.decision``."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._end_turn)
        future: asyncio.Future[bytes | None] = loop.create_future()
        self._waiting.append((future, answers, body, context))
        return future

    def _end_turn(self) -> None:
        """Decide the waiting requests, unless this turn brought further ones to a group that is neither full nor old.

        A turn may take ``MAX_TURN`` while streams are decided, and each may bring a request.
        """
        number = len(self._waiting)
        waited = perf_counter_ns() - self._waiting[0][3].began
        if self._before < number < GROUP and waited < MAX_WAIT:
            self._before = number
            asyncio.get_running_loop().call_soon(self._end_turn)
        else:
            self._before = 0
            self._decide()

    def _decide(self) -> None:
        waiting, self._waiting = self._waiting, []
        ends = perf_counter_ns() + MAX_TURN
        start = 0
        while start < len(waiting):
            group = _group(waiting, start)
            current = group[0][1]  # the same for all unless rules were just loaded
            evaluations = current.evaluate_common([body for _, _, body, _ in group])
            for place, ((future, answers, body, context), evaluation) in enumerate(
                zip(group, evaluations, strict=True), start
            ):
                if place > start and perf_counter_ns() > ends:  # other tasks of the loop must not wait for all of them
                    self._waiting = waiting[place:]
                    asyncio.get_running_loop().call_soon(self._decide)
                    return
                if future.cancelled():
                    continue
                try:
                    future.set_result(answers.decision(body, context, evaluation if answers is current else None))
                except Exception as error:  # noqa: BLE001  # the waiting request has to get it
                    future.set_exception(error)
            start += len(group)


def _group(waiting: list[Waiting], start: int) -> list[Waiting]:
    """The requests that are decided together, from one on: at least that one, and others within the bounds."""
    size, end = 0, start
    for _, _, body, _ in waiting[start : start + GROUP]:
        size += len(body)
        if size > MAX_GROUP and end > start:
            break
        end += 1
    return waiting[start:end]


class DecisionEndpoint(Endpoint):
    """``POST /v1/decisions``, in one function for speed."""

    def __init__(self, service: ServiceState, path: str) -> None:
        super().__init__(service, path)
        self.batcher = DecisionBatcher()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide one deployment."""
        began = perf_counter_ns()
        service, limit, reading = self.service, self.settings.max_body, self.service.body_timeouts.reading
        status, context, held, task = INTERNAL_SERVER_ERROR, None, None, None
        try:
            connection = connection_of(scope)
            if connection is None or connection.awaits_body:  # of most requests the whole body has arrived
                task = current_task()
                reading[task] = began
            headers = headers_of(scope)
            client = scope["client"]
            caller = client[0] if service.access.is_open and client else service.access.caller(client, headers, DECIDE)
            if scope["query_string"]:
                refuse_query(scope["query_string"])
            wanted = read_headers(headers, limit)
            message = await receive()
            if message.get("more_body", True):
                held = service.memory.hold(caller)
                body = await read_body(receive, limit, held, message)
            else:
                body = message["body"]
            if task is not None:
                del reading[task]
            if len(body) > limit:
                raise too_large(limit)  # noqa: TRY301  # it is answered below
            answers = service.answers if b"if-match" not in headers else service.answers_for(headers)
            context = RequestContext(self.path, caller, began)
            answer = None
            if not wanted.wants_text and wanted.content_type not in YAML_TYPES:
                answer = answers.cached_answer(body, context) or await self.batcher.decision(answers, body, context)
            if answer is None:
                whole, body = held or HeldBody(None, content=body), b""
                status = await self.send_job_result(JobKind.DECISION, answers, whole, wanted, context, receive, send)
                if status == OK:
                    service.metrics.latencies.append(perf_counter_ns() - began)
                return
            if context.waiting is not None:
                await context.wait_recorded()
            service.metrics.latencies.append(perf_counter_ns() - began)
            if connection is None or not connection.respond(send, HEAD % len(answer), answer):
                await send_messages(send, answer)
            status = OK
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # a defect may raise anything
            reading.pop(task, None)
            status = await self.answer_error(error, task, scope, send)
        finally:
            if held is not None:
                held.release()
            if service.logs_requests or status != OK:
                service.request_done(scope, status, began, None, context)
