"""The calls that decide, as plain ASGI: a body in, an answer out.

Owns the way of a request through the service. These calls carry the load, so nothing stands between
the server and them; what FastAPI adds to a route (parsing, threads, middleware) they do not need.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final

from policy import candidate, render
from policy.decision import encode
from policy.errors import MAX_FAULTS, Misfit, PolicyError, RequestInvalid, at, quoted
from service.access import DECIDE, DRY_RUN
from service.answers import PAUSE, Items, today
from service.candidates import MEMBERS, Candidate, read_candidate
from service.documents import NDJSON_TYPES, YAML_TYPES, Disconnected, Headers, decode, read_body, read_headers, read_lines, too_large
from service.forms import read_form
from service.problems import Refused, headers_of, problem_of
from service.queries import refuse_query
from service.recording import Asking

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from policy.request import Manifest, Request
    from service.answers import Answers
    from service.served import Served

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
NDJSON: Final = b"application/x-ndjson"
FORM: Final = b"multipart/form-data"
OK: Final = 200
FAILED: Final = 500
GONE: Final = 499
"""The status by which requests are counted whose client went away; it is the one of nginx, and is never sent."""


async def send_answer(send: Send, content_type: bytes, body: bytes) -> None:
    """One whole response."""
    await send({"type": "http.response.start", "status": OK, "headers": [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def send_problem(send: Send, error: PolicyError) -> int:
    """The problem that an error is, as a response; its status.

    What is left of a body that was too large is let go by unread: closing the connection under a client
    that is still sending would take the answer from it.
    """
    problem = problem_of(error)
    body = encode(problem)
    headers = [*headers_of(error, problem.status), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    return problem.status


class Call:
    """A call of the API as an ASGI application; a problem is answered, a vanished client is let go."""

    scope: ClassVar[str] = DECIDE
    """What a caller's token must allow."""
    any_query: ClassVar[bool] = False
    """Whether the address may have parameters, which then mean nothing here."""

    def __init__(self, served: Served, path: str) -> None:
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
            asking = Asking(self.path, self.caller(scope, headers), began)
            if scope["query_string"] and not self.any_query:
                refuse_query(scope["query_string"])
            await self.answer(scope, headers, receive, send, asking)
            status = OK
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
        return await send_problem(send, Refused("too-slow", f"the body took more than {self.settings.body_time:g} s to arrive; send it faster"))

    def arrived(self) -> None:
        """The body of this task's request is there: what comes now may take its time."""
        self.served.slow.reading.pop(current_task(), None)

    async def answer(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, asking: Asking) -> None:
        """Answer one request, or raise what is wrong with it."""
        raise NotImplementedError


class Turn:
    """Decides what arrived in one turn of the event loop, one after the other.

    Between two decisions no code of the server runs, which would push theirs out of the processor's caches.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Future[bytes | Request | Manifest], Answers, bytes, Asking]] = []

    def decision(self, answers: Answers, body: bytes, asking: Asking) -> asyncio.Future[bytes | Request | Manifest]:
        """The answer to a JSON body, or the error that there is instead, in this turn's end."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._end)
        future: asyncio.Future[bytes | Request | Manifest] = loop.create_future()
        self._waiting.append((future, answers, body, asking))
        return future

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, answers, body, asking in waiting:
            if future.cancelled():
                continue
            try:
                future.set_result(answers.decision(body, asking))
            except Exception as error:  # noqa: BLE001  # whoever waits has to learn of it
                future.set_exception(error)


class Decisions(Call):
    """``POST /v1/decisions``; what the others do step by step is one function here, which carries the load."""

    def __init__(self, served: Served, path: str) -> None:
        super().__init__(served, path)
        self.turn = Turn()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide one deployment."""
        began = perf_counter_ns()
        served, limit = self.served, self.settings.max_body
        reading, task = served.slow.reading, current_task()
        status, asking = FAILED, None
        try:
            reading[task] = began
            headers = dict(scope["headers"])
            client = scope["client"]
            caller = client[0] if served.access.is_open and client else served.access.caller(client, headers, DECIDE)
            if scope["query_string"]:
                refuse_query(scope["query_string"])
            wanted = read_headers(headers, limit)
            message = await receive()
            body = message["body"] if not message.get("more_body", True) else await read_body(receive, limit, message)
            del reading[task]
            if len(body) > limit:
                raise too_large(limit)
            answers = served.answers if b"if-match" not in headers else served.answers_for(headers)
            asking = Asking(self.path, caller, began)
            if wanted.wants_text or wanted.content_type in YAML_TYPES:
                content_type, answer = await self.odd(answers, wanted, body, asking)
            else:
                content_type, found = JSON, answers.kept(body, asking) or await self.turn.decision(answers, body, asking)
                answer = found if type(found) is bytes else encode(await answers.later(found, asking))  # type: ignore[arg-type]  # mypy takes bytes' subclasses for possible
            if asking.waiting is not None:
                await asking.safe()
            served.metrics.took.append(perf_counter_ns() - began)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type), (b"content-length", b"%d" % len(answer))]})
            await send({"type": "http.response.body", "body": answer})
            status = OK
        except (PolicyError, Disconnected, asyncio.CancelledError) as error:
            reading.pop(task, None)
            status = await self.failed(error, task, send)
        finally:
            if served.tells or status != OK:
                served.done(scope, status, began, None, asking)

    async def odd(self, answers: Answers, wanted: Headers, body: bytes, asking: Asking) -> tuple[bytes, bytes]:
        """The answer to a body in YAML or for a terminal, and its type."""
        decision = await answers.decide(decode(body, wanted.content_type), asking)
        return (TEXT, answers.text(decision)) if wanted.wants_text else (JSON, encode(decision))


class Batch(Call):
    """``POST /v1/decisions/batch``."""

    async def answer(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, asking: Asking) -> None:  # noqa: ARG002
        """Decide many deployments, as one document or as a stream of lines."""
        limit = self.settings.max_batch_body
        wanted = read_headers(headers, 1 << 62)
        if wanted.content_type in NDJSON_TYPES:
            await self.stream(self.served.answers_for(headers), receive, send, asking)
            return
        wanted = read_headers(headers, limit)
        body = await read_body(receive, limit)
        self.arrived()
        items = self.items(decode(body, wanted.content_type))
        answers = self.served.answers_for(headers)
        found = []
        for number, item in enumerate(items):
            found.append(encode(await answers.item(item, asking, f"/items/{number}")))
            if number % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
        await asking.safe()
        await send_answer(send, JSON, b'{"items":[' + b",".join(found) + b"]}")

    def items(self, document: Any) -> list[Any]:
        """The items of a batch's document.

        Raises:
            RequestInvalid: it is no batch, or a larger one than is taken.
        """
        if type(document) is not dict:
            raise RequestInvalid([Misfit("", f'{quoted(document)} is no batch; write {{"items": [{{"facts": {{}}}}]}}')])
        faults = [Misfit(at("", key), f"unknown member {quoted(key)}; legal: `items`") for key in list(document)[:MAX_FAULTS] if key != "items"]
        items = document.get("items")
        if type(items) is not list:
            faults.append(Misfit("/items", f"{quoted(items)} is no list of requests"))
        elif len(items) > self.settings.max_batch_items:
            faults.append(
                Misfit("/items", f"{len(items)} items are more than the {self.settings.max_batch_items} that are taken; send them as a stream of lines")
            )
        if faults:
            raise RequestInvalid(faults)
        return items  # type: ignore[return-value]  # what is no list has raised

    async def stream(self, answers: Answers, receive: Receive, send: Send, asking: Asking) -> None:
        """A request a line in, an answer a line out, as they come; all of them by one revision."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", NDJSON)]})
        async for lines in read_lines(receive, self.settings.max_body):
            self.arrived()
            for start in range(0, len(lines), PAUSE):
                found = [answers.line(line, asking) for line in lines[start : start + PAUSE]]
                whole = [each if isinstance(each, bytes) else await answers.later_line(each, asking) for each in found]
                try:
                    await asking.safe()
                except PolicyError as error:
                    whole = [encode(problem_of(error)) + b"\n"] * len(whole)
                await send({"type": "http.response.body", "body": b"".join(whole), "more_body": True})
                await asyncio.sleep(0)
            self.served.slow.reading[current_task()] = perf_counter_ns()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class DryRun(Call):
    """``POST /v1/dry-run``."""

    scope = DRY_RUN

    def __init__(self, served: Served, path: str) -> None:
        super().__init__(served, path)
        self.slots = asyncio.Semaphore(self.settings.candidate_slots)
        self.waiting = 0

    async def answer(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, asking: Asking) -> None:
        """Decide and explain, and with candidate rules say what they would change."""
        limit = self.settings.max_body
        wanted = read_headers(headers, limit)
        body = await read_body(receive, limit)
        self.arrived()
        answers = self.served.answers_for(headers)
        if wanted.content_type == FORM:
            asked = await read_form(scope, body)
            pointer = ""
        else:
            document = decode(body, wanted.content_type)
            asked, pointer = Candidate(document), ""
            if type(document) is dict and not document.keys().isdisjoint(MEMBERS):
                asked = read_candidate(document)
                pointer = "/request"
        document, rules, remove = asked.document, asked.rules, asked.remove
        current = await answers.decide(document, asking if self.settings.log_dry_runs else None, pointer, explain=True)
        await asking.safe()
        if not rules and not remove:
            await self.send(send, answers, wanted, current)
        elif isinstance(current, Items):
            place = f"{pointer}/manifest" if "manifest" in document else pointer
            raise RequestInvalid([Misfit(place, "candidate rules are tried on one deployment; send `facts` or a `deployment`")])
        else:
            await self.send(send, answers, wanted, await self.tried(answers, current, answers.whole(document), asked))

    async def send(self, send: Send, answers: Answers, wanted: Headers, answer: Any) -> None:
        """The answer as the client wants it."""
        if not wanted.wants_text:
            await send_answer(send, JSON, encode(answer))
            return
        if isinstance(answer, candidate.Comparison | candidate.ComparisonOfAll):
            picture = render.comparison(answer) if isinstance(answer, candidate.Comparison) else render.comparison_of_all(answer)
            await send_answer(send, TEXT, render.as_text(picture).encode())
        else:
            await send_answer(send, TEXT, answers.text(answer))

    async def tried(self, answers: Answers, current: Any, document: Any, asked: Candidate) -> candidate.Comparison | candidate.ComparisonOfAll:
        """What the candidate rules would change, tried in a process of its own with bounded time.

        Raises:
            Refused: too many such runs are waiting, or this one took too long.
            RulesInvalid, RequestInvalid: the candidate is refused.
        """
        seconds = self.settings.candidate_time
        request = {**document, "explain": True}
        default = answers.policy.releases.default
        job = candidate.Job(answers.texts, asked.rules, asked.remove, request, default, today(), int(seconds) + 1, asked.for_all)
        if self.waiting >= self.settings.candidate_slots * 8:
            raise Refused("too-many", "too many dry runs with candidate rules are waiting; try again in a few seconds")
        self.waiting += 1
        try:
            async with self.slots:
                output = await _run(candidate.encode(job), seconds)
        finally:
            self.waiting -= 1
        return candidate.compare(current, candidate.read_tried(output))


async def _run(job: bytes, seconds: float) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*candidate.COMMAND, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL)
    try:
        output, _ = await asyncio.wait_for(process.communicate(job), seconds)
    except TimeoutError as error:
        raise Refused("rules-stopped", candidate.too_slow(seconds)) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise Refused("rules-stopped", candidate.stopped(process.returncode, seconds))
    return output
