"""The read endpoints: policy, rules, releases, vocabulary, log, metrics and health.

Owns their routes, and the answers to unknown paths and methods. Not here: the description of their parameters
(``service.openapi.parameters``).
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID  # noqa: TC003  # FastAPI reads the annotations

import msgspec
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from policy.decision.decision import encode
from policy.defects import defect_fault
from policy.errors import INVALID_REQUEST, PolicyError, RequestFault, RequestInvalid
from policy.escaping import escape_line
from policy.messages import nearest, quoted
from policy.render import compact
from policy.request.request import UNKNOWN_RELEASE
from policy.rules.documents import rules_document
from policy.rules.releases import InvalidVersion, UnknownRelease
from service.api.endpoint import CHUNK_SIZE, CLIENT_CLOSED_REQUEST
from service.auth.tokens import READ
from service.documents.accept import headers_of, known_tags, wants_text
from service.documents.body import Disconnected
from service.documents.query import parameter, read_query
from service.problems import Refused, problem_of, response_of
from service.telemetry.metrics import CONTENT_TYPE
from service.transport.disconnection import connection_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from service.log.store import Store
    from service.problems import ProblemResponse
    from service.state.answers import Answers
    from service.state.state import ServiceState

router = APIRouter()
T = TypeVar("T")
SEND_TIME: Final = 60.0
"""Seconds a client may take to read a page of logged records, which has 8 MiB at most."""
MAX_WAIT: Final = 20.0
"""Seconds a request for logged records may wait for its slot."""


def _service(request: Request) -> ServiceState:
    service: ServiceState = request.app.state.service
    return service


def _answers(request: Request) -> Answers:
    return _service(request).answers


def _json(body: bytes, **headers: str) -> Response:
    return Response(body, media_type="application/json", headers=headers)


@router.get("/v1/policy")
async def policy(request: Request) -> Response:
    """The loaded rules: revision, layers, counts, source and load time. `ETag` is the revision."""
    parameter(request.query_params.multi_items())
    answers = _answers(request)
    if not known_tags(request.scope).isdisjoint({answers.etag.encode(), b"*"}):
        return Response(status_code=304, headers={"etag": answers.etag})
    return _json(answers.policy_document(_service(request).published), etag=answers.etag)


@router.get("/v1/rules")
async def rules(request: Request) -> Response:
    """The catalogue in order of precedence, or the rules of one release."""
    answers = _answers(request)
    vllm_version = parameter(request.query_params.multi_items(), "vllm_version")
    if vllm_version is None:
        return _json(answers.rules_document)
    return _json(encode(rules_document(answers.policy.catalogue, _release(answers, vllm_version))))


@router.get("/v1/rules/{rule_id}")
async def rule(request: Request, rule_id: str) -> Response:
    """One rule with its history, or as one release has it, with the text of its file and its cases; or a condition."""
    answers = _answers(request)
    vllm_version = parameter(request.query_params.multi_items(), "vllm_version")
    return _json(answers.rule_document(rule_id, None if vllm_version is None else _release(answers, vllm_version)))


@router.get("/v1/releases")
async def releases(request: Request) -> Response:
    """The releases whose decisions were checked against vLLM itself, and the default one."""
    parameter(request.query_params.multi_items())
    return _json(_answers(request).releases_document)


@router.get("/v1/images")
async def images(request: Request) -> Response:
    """The container images that contain vLLM: their names, the releases of their tags, platform and entry point."""
    parameter(request.query_params.multi_items())
    return _json(_answers(request).images_document)


@router.get("/v1/arguments")
async def arguments(request: Request) -> Response:
    """Flags and environment variables of vLLM: the releases that have each, and its values there.

    `name` is a flag, with or without its dashes, or a variable. `ETag` is that of the answer.
    """
    # In a thread: the first one takes 50 ms, and all of a release 5 ms.
    body = await asyncio.to_thread(_answers(request).arguments_document, *_arguments_query(request))
    etag = f'"{hashlib.sha256(body).hexdigest()}"'
    if not known_tags(request.scope).isdisjoint({etag.encode(), b"*"}):
        return Response(status_code=304, headers={"etag": etag})
    return _json(body, etag=etag)


def _arguments_query(request: Request) -> tuple[str | None, str | None]:
    """The name, and the known release, of a query for flags and variables."""
    faults: list[RequestFault] = []
    found = read_query(request.query_params.multi_items(), ("name", "vllm_version"), faults)
    if faults:
        raise RequestInvalid(faults)
    name, version = (found.get(key, [None])[0] for key in ("name", "vllm_version"))
    return name, None if version is None else _release(_answers(request), version)


@router.get("/v1/facts")
async def facts(request: Request) -> Response:
    """The vocabulary: every fact with its type, legal values, default, meaning and the releases that read it."""
    parameter(request.query_params.multi_items())
    return _json(_answers(request).facts_document)


@router.get("/v1/schemas/{name}")
async def schema(request: Request, name: str) -> Response:
    """The JSON Schema of a kind of file in a rules folder, for editors: `rule`, `house-rule`, `cases` and others."""
    parameter(request.query_params.multi_items())
    return _json(_answers(request).schema_document(name))


@router.get("/livez")
async def livez() -> Response:
    """The process answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/readyz")
async def readyz(request: Request, verbose: str | None = None) -> Response:
    """Rules are loaded, requests are decided, and decisions can be recorded if that is required.

    `?verbose` adds details; if tokens are required, it needs one with the scope `read`.
    """
    service = _service(request)
    if verbose is not None and service.access.tokens is not None:
        service.access.caller(request.scope["client"], headers_of(request.scope), READ)
    fault = service.log_fault()
    if fault is not None:
        state = service.state() if verbose is not None else {}
        return _not_ready(Refused("log-unavailable", fault), state, as_text=wants_text(request.scope))
    return _json(service.answers.ready_document if verbose is None else encode(service.state()))


def _not_ready(error: Refused, state: dict[str, Any], *, as_text: bool) -> Response:
    """The problem with the state; its fields take precedence over those of the state."""
    response = response_of(error, as_text=as_text)
    fields = msgspec.structs.asdict(problem_of(error))
    if as_text:
        lines = "".join(
            escape_line(f"{name}: {compact(value)}") + "\n" for name, value in state.items() if name not in fields
        )
        body = response.body + lines.encode()
    else:
        body = encode({**state, **fields})
    return _response(msgspec.structs.replace(response, body=body))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """The metrics of all processes of the service, for Prometheus."""
    return Response(await asyncio.to_thread(_service(request).metrics.text), media_type=CONTENT_TYPE)


@router.get("/v1/log")
async def log(request: Request) -> Response:
    """Logged decisions, the newest first, one page at a time; `next` is the `until` of the next page."""
    from service.log.query import EMPTY_PAGE, encode_page, read_filter  # noqa: PLC0415  # the log's library takes a quarter of a second to import

    store = _store(request)
    log_filter = read_filter(request.query_params.multi_items())
    async with AsyncExitStack() as slot:
        await take_log_slot(request, slot)
        body = await _from_store(encode_page, store, log_filter)
        return RecordsResponse(EMPTY_PAGE if body is None else body, slot.pop_all())


@router.get("/v1/decisions/{decision_id:uuid}")
async def logged(request: Request, decision_id: UUID) -> Response:
    """One logged decision."""
    from service.log.query import encode_record  # noqa: PLC0415  # as above

    parameter(request.query_params.multi_items())
    store = _store(request)
    async with AsyncExitStack() as slot:
        await take_log_slot(request, slot)
        body = await _from_store(encode_record, store, str(decision_id))
        if body is None:
            raise Refused(
                "not-found",
                f"no decision {quoted(str(decision_id))} is logged; one that was made just now may appear later",
            )
        return RecordsResponse(body, slot.pop_all())


class RecordsResponse(Response):
    """Logged records, sent in pieces; their slot is released afterwards, so that few such answers are in memory.

    A connection whose client takes longer than ``SEND_TIME`` to read them is closed: others wait for the slot.
    """

    media_type = "application/json"

    def __init__(self, body: bytes, slot: AsyncExitStack) -> None:
        super().__init__(body)
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # ASGI's signature
        """Send the answer."""
        async with self._slot:
            try:
                async with asyncio.timeout(SEND_TIME):
                    await self._send(send)
            except TimeoutError:
                connection = connection_of(scope)
                if connection is not None:
                    connection.abort()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for start in range(0, len(self.body), CHUNK_SIZE):
            piece, is_last = self.body[start : start + CHUNK_SIZE], start + CHUNK_SIZE >= len(self.body)
            await send({"type": "http.response.body", "body": piece, "more_body": not is_last})


async def take_log_slot(request: Request, slot: AsyncExitStack) -> None:
    """Take a slot for logged records, until ``slot`` is closed.

    Raises:
        Refused: no slot becomes free in time, or too many requests of the caller wait.
        Disconnected: the client disconnected while it waited.
    """
    try:
        async with asyncio.timeout(MAX_WAIT):
            await slot.enter_async_context(_service(request).log_slots.slot(request.scope["caller"]))
    except TimeoutError as error:
        raise Refused("busy", "others are reading the log; send the request again") from error
    connection = connection_of(request.scope)
    if connection is not None and connection.is_gone:
        raise Disconnected


def _store(request: Request) -> Store:
    store: Store | None = request.app.state.store
    if store is None:
        raise Refused("not-found", "decisions are not logged here; set RUNNER_POLICY_LOG to log them")
    return store


async def _from_store(read: Callable[..., T], *arguments: Any) -> T | None:
    """The result of a query; ``None`` if nothing was ever written to the store."""
    from service.log.store import StoreFailed, StoreNotCreated  # noqa: PLC0415  # as above

    try:
        return await asyncio.to_thread(read, *arguments)
    except StoreNotCreated:
        return None
    except StoreFailed as error:
        raise Refused("log-unavailable", f"the decision log cannot be read: {error}") from error


def _release(answers: Answers, version: str) -> str:
    """The known release whose rules decide a version given in a query."""
    try:
        return answers.policy.releases.resolve(version).decided_as
    except (UnknownRelease, InvalidVersion) as error:
        kind = UNKNOWN_RELEASE if isinstance(error, UnknownRelease) else INVALID_REQUEST
        raise RequestInvalid([RequestFault("", f"vllm_version: {error}")], kind) from error


def add_handlers(app: FastAPI) -> None:
    """Answer every error as a problem."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, PolicyError)
        return _problem(request, error)

    async def not_routed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers: dict[str, Any] = dict(error.headers or {})
        if error.status_code == 405:  # noqa: PLR2004  # the status that Starlette raises
            legal = ", ".join(sorted(headers.get("Allow", "POST").split(", ")))
            message = f"{request.method} is not allowed here; legal: {legal}"
            return _problem(request, Refused("method-not-allowed", message), headers | {"Allow": legal})
        routes = [route for route in (*router.routes, *app.routes) if isinstance(route, Route)]
        paths = [route.path for route in routes if route.path != "/"]  # similar to every short path
        message = f"unknown path {quoted(request.url.path)}{nearest(request.url.path, paths)}"
        return _problem(request, Refused("not-found", message), headers)

    async def disconnected(_: Request, __: Exception) -> Response:
        return Response(status_code=CLIENT_CLOSED_REQUEST)

    async def failed(request: Request, error: Exception) -> Response:
        return _problem(request, RequestInvalid([defect_fault(error)]))

    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(PolicyError, refused)
    app.add_exception_handler(Disconnected, disconnected)
    app.add_exception_handler(HTTPException, not_routed)


def _problem(request: Request, error: PolicyError, headers: dict[str, str] | None = None) -> Response:
    return _response(response_of(error, as_text=wants_text(request.scope)), headers)


def _response(problem: ProblemResponse, headers: dict[str, str] | None = None) -> Response:
    """The problem as a response with further headers; Starlette sets its length."""
    own = {name.decode(): value.decode() for name, value in problem.headers if name != b"content-length"}
    return Response(problem.body, problem.status, own | (headers or {}))
