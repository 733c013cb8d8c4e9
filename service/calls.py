"""The calls that decide, as plain ASGI: a body in, an answer out.

Owns the way of a request through the service. These calls carry the load, so nothing stands between
the server and them; what FastAPI adds to a route (parsing, threads, middleware) they do not need.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from policy import candidate, render
from policy.decision import encode
from policy.errors import MAX_FAULTS, Misfit, PolicyError, RequestInvalid, at, quoted
from service.answers import PAUSE, Items, today
from service.candidates import MEMBERS, Candidate, read_candidate
from service.documents import NDJSON_TYPES, YAML_TYPES, Disconnected, Headers, decode, read_body, read_headers, read_lines, too_large
from service.forms import read_form
from service.problems import MEDIA_TYPE, Refused, problem_of

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from policy.request import Manifest, Request
    from service.answers import Answers

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
NDJSON: Final = b"application/x-ndjson"
FORM: Final = b"multipart/form-data"


async def send_answer(send: Send, status: int, content_type: bytes, body: bytes) -> None:
    """One whole response."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_problem(send: Send, error: PolicyError) -> None:
    """The problem that an error is, as a response.

    What is left of a body that was too large is let go by unread: closing the connection under a client
    that is still sending would take the answer from it.
    """
    problem = problem_of(error)
    await send_answer(send, problem.status, MEDIA_TYPE.encode(), encode(problem))


class Call:
    """A call of the API as an ASGI application; a problem is answered, a vanished client is let go."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.settings = answers.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await self.answer(scope, receive, send)
        except PolicyError as error:
            await send_problem(send, error)
        except Disconnected:
            return

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or raise what is wrong with it."""
        raise NotImplementedError


class Turn:
    """Decides what arrived in one turn of the event loop, one after the other.

    Between two decisions no code of the server runs, which would push theirs out of the processor's caches.
    """

    def __init__(self, answers: Answers) -> None:
        self._decide = answers.decision
        self._waiting: list[tuple[asyncio.Future[bytes | Request | Manifest], bytes]] = []

    def decision(self, body: bytes) -> asyncio.Future[bytes | Request | Manifest]:
        """The answer to a JSON body, or the error that there is instead, in this turn's end."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._end)
        future: asyncio.Future[bytes | Request | Manifest] = loop.create_future()
        self._waiting.append((future, body))
        return future

    def _end(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, body in waiting:
            if future.cancelled():
                continue
            try:
                future.set_result(self._decide(body))
            except Exception as error:  # noqa: BLE001  # whoever waits has to learn of it
                future.set_exception(error)


class Decisions(Call):
    """``POST /v1/decisions``."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.turn = Turn(answers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide one deployment."""
        limit = self.settings.max_body
        try:
            headers = read_headers(scope, limit)
            message = await receive()
            body = message["body"] if not message.get("more_body", True) else await read_body(receive, limit, message)
            if len(body) > limit:
                raise too_large(limit)
            if headers.wants_text or headers.content_type in YAML_TYPES:
                content_type, answer = await self.odd(headers, body)
            else:
                content_type, found = JSON, self.answers.kept(body) or await self.turn.decision(body)
                answer = found if type(found) is bytes else encode(await self.answers.later(found))  # type: ignore[arg-type]  # mypy takes bytes' subclasses for possible
        except PolicyError as error:
            await send_problem(send, error)
        except Disconnected:
            return
        else:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", content_type), (b"content-length", b"%d" % len(answer))]})
            await send({"type": "http.response.body", "body": answer})

    async def odd(self, headers: Headers, body: bytes) -> tuple[bytes, bytes]:
        """The answer to a body in YAML or for a terminal, and its type."""
        decision = await self.answers.decide(decode(body, headers.content_type))
        return (TEXT, self.answers.text(decision)) if headers.wants_text else (JSON, encode(decision))


class Batch(Call):
    """``POST /v1/decisions/batch``."""

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide many deployments, as one document or as a stream of lines."""
        limit = self.settings.max_batch_body
        headers = read_headers(scope, 1 << 62)
        if headers.content_type in NDJSON_TYPES:
            await self.stream(receive, send)
            return
        headers = read_headers(scope, limit)
        items = self.items(decode(await read_body(receive, limit), headers.content_type))
        answers = []
        for number, item in enumerate(items):
            answers.append(encode(await self.answers.item(item, f"/items/{number}")))
            if number % PAUSE == PAUSE - 1:
                await asyncio.sleep(0)
        await send_answer(send, 200, JSON, b'{"items":[' + b",".join(answers) + b"]}")

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

    async def stream(self, receive: Receive, send: Send) -> None:
        """A request a line in, an answer a line out, as they come."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", NDJSON)]})
        line = self.answers.line
        async for lines in read_lines(receive, self.settings.max_body):
            for start in range(0, len(lines), PAUSE):
                answers = list(map(line, lines[start : start + PAUSE]))
                whole = [each if isinstance(each, bytes) else await self.answers.later_line(each) for each in answers]
                await send({"type": "http.response.body", "body": b"".join(whole), "more_body": True})
                await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class DryRun(Call):
    """``POST /v1/dry-run``."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.slots = asyncio.Semaphore(self.settings.candidate_slots)
        self.waiting = 0

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide and explain, and with candidate rules say what they would change."""
        limit = self.settings.max_body
        headers = read_headers(scope, limit)
        body = await read_body(receive, limit)
        if headers.content_type == FORM:
            asked = await read_form(scope, body)
            pointer = ""
        else:
            document = decode(body, headers.content_type)
            asked, pointer = Candidate(document), ""
            if type(document) is dict and not document.keys().isdisjoint(MEMBERS):
                asked = read_candidate(document)
                pointer = "/request"
        document, rules, remove = asked.document, asked.rules, asked.remove
        current = await self.answers.decide(document, pointer, explain=True)
        if not rules and not remove:
            await self.send(send, headers, current)
        elif isinstance(current, Items):
            place = f"{pointer}/manifest" if "manifest" in document else pointer
            raise RequestInvalid([Misfit(place, "candidate rules are tried on one deployment; send `facts` or a `deployment`")])
        else:
            await self.send(send, headers, await self.tried(current, self.answers.whole(document), asked))

    async def send(self, send: Send, headers: Headers, answer: Any) -> None:
        """The answer as the client wants it."""
        if not headers.wants_text:
            await send_answer(send, 200, JSON, encode(answer))
            return
        if isinstance(answer, candidate.Comparison | candidate.ComparisonOfAll):
            picture = render.comparison(answer) if isinstance(answer, candidate.Comparison) else render.comparison_of_all(answer)
            await send_answer(send, 200, TEXT, render.as_text(picture).encode())
        else:
            await send_answer(send, 200, TEXT, self.answers.text(answer))

    async def tried(self, current: Any, document: Any, asked: Candidate) -> candidate.Comparison | candidate.ComparisonOfAll:
        """What the candidate rules would change, tried in a process of its own with bounded time.

        Raises:
            Refused: too many such runs are waiting, or this one took too long.
            RulesInvalid, RequestInvalid: the candidate is refused.
        """
        answers = self.answers
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
