"""The application: FastAPI, with the deciding endpoints before its middleware.

Owns the composition of the application from settings and rules, and the resources that are open while it serves.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from time import monotonic, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import FastAPI
from starlette.routing import Match, Mount, Route

from policy.errors import PolicyError
from service.api.admission import MUTATE, VALIDATE, AdmissionEndpoint
from service.api.batch import BatchEndpoint
from service.api.catalogue import add_handlers, router
from service.api.decisions import DecisionEndpoint
from service.api.docs import add_docs
from service.api.dry_run import DryRunEndpoint
from service.api.endpoint import end_response, send_problem, shutdown_error
from service.api.impact import ImpactEndpoint
from service.api.landing import add_landing
from service.api.page import Page, add_page, is_page
from service.api.request_check import RequestCheckBatchEndpoint, RequestCheckEndpoint
from service.auth.access import Access, scope_of
from service.auth.browsers import guard_of
from service.auth.proxies import trust_proxies
from service.auth.tokens import TokenFile
from service.documents.accept import headers_of
from service.documents.query import check_size
from service.housekeeping import Housekeeping
from service.log.messages import LogConfig
from service.models import HubModels
from service.openapi import document
from service.problems import Refused
from service.recorder import Recorder
from service.reload.reload import RulesFolder, load_at_start, newest
from service.settings import Settings
from service.state.answers import today
from service.state.state import ServiceState
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import set_up
from service.transport.connection import Connection
from service.transport.disconnection import connection_of
from service.transport.path_prefix import redirect, without_prefix

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from datetime import date

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from policy.intake.model.hub import Hub
    from service.auth.browsers import BrowserGuard
    from service.broadcast import Shared
    from service.log.client import LogClient
    from service.reload.reload import Published
    from service.state.answers import Answers

log = logging.getLogger("runner_policy")
EXIT_FAILED: Final = 1
"""The exit code of a worker process that cannot start; with uvicorn's own code, the whole service would end."""
MIN_STOP_TIME: Final = 0.1
"""The minimum time for the log and the traces to end, in seconds."""
RETRY: Final = 0.01
"""Seconds until a worker process tries again to receive the rules."""
ATTEMPTS: Final = 500
SWITCH_INTERVAL: Final = 0.001
"""The interpreter's switch interval in seconds, short because a thread builds rules beside the event loop."""
YOUNG_OBJECTS: Final = 20_000
"""How many objects may be made and not freed since the last garbage collection until the next one."""
ENDPOINTS: Final = {
    "/v1/decisions": DecisionEndpoint,
    "/v1/decisions/batch": BatchEndpoint,
    "/v1/dry-run": DryRunEndpoint,
    "/v1/impact": ImpactEndpoint,
    "/v1/requests/check": RequestCheckEndpoint,
    "/v1/requests/check/batch": RequestCheckBatchEndpoint,
    VALIDATE: AdmissionEndpoint,
    MUTATE: AdmissionEndpoint,
}


class Application(FastAPI):
    """FastAPI whose deciding endpoints are called before its middleware and routing.

    They are routes of the application as well, so that other methods get a 405.
    """

    endpoints: dict[str, ASGIApp]
    read_app: ASGIApp
    service: ServiceState
    file: TokenFile | None
    shared: Shared | None
    guard: BrowserGuard | None
    prefix: str = ""
    """The path prefix under which proxies show the service; empty if there is none."""
    described: tuple[Answers, date] | None = None
    """The answers and the day from which ``document_json`` was made."""
    document_json: bytes = b""
    document_lock: asyncio.Lock
    """Held while ``document_json`` is made."""

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # type: ignore[override]  # saves a coroutine
        """Call a deciding endpoint directly, and FastAPI for everything else."""
        if scope["type"] == "http":
            if self.prefix:
                below = without_prefix(scope, self.prefix)
                if below is None:
                    return redirect(self.prefix, send)
                scope = below
            try:
                check_size(scope["query_string"])
                if self.guard is not None:
                    self.guard.check(scope)
            except Refused as error:
                return self.refuse(scope, send, error)
            if scope["method"] == "POST":
                endpoint = self.endpoints.get(scope["path"])
                if endpoint is not None:
                    return endpoint(scope, receive, send)
            return self.read_app(scope, receive, send)
        return super().__call__(scope, receive, send)

    async def refuse(self, scope: Scope, send: Send, error: Refused) -> None:
        """Answer a request that was refused for its query, its host or its origin."""
        began = perf_counter_ns()
        status = await send_problem(scope, send, error)
        self.service.request_done(scope, status, began, self.path_label(scope))

    async def answer_read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a read endpoint, after checking the caller's token."""
        began = perf_counter_ns()
        status = 500
        is_complete = False
        path = scope["path"]

        async def send_and_note(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                is_complete = not message.get("more_body", False)
            await send(message)

        needed = None if is_page(scope) else scope_of(path)
        try:
            if needed is not None:
                scope["caller"] = self.service.access.caller(scope["client"], headers_of(scope), needed)
        except PolicyError as error:
            status = await send_problem(scope, send, error)
        else:
            try:
                await super().__call__(scope, receive, send_and_note)
            except asyncio.CancelledError:
                status = await end_response(scope, send, shutdown_error())
            except Exception:  # noqa: BLE001  # `add_handlers` has a handler that logs and answers it
                connection = connection_of(scope)
                if connection is not None and not is_complete:
                    connection.abort()
        finally:
            self.service.request_done(scope, status, began, self.path_label(scope))

    def path_label(self, scope: Scope) -> str:
        """The path of the matching route for metrics, so that callers cannot create new label values."""
        plain = {"type": "http", "method": scope["method"], "path": scope["path"]}
        known = (route for route in (*router.routes, *self.routes) if isinstance(route, Route | Mount))
        return next((route.path for route in known if route.matches(plain)[0] is not Match.NONE), "other")

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document with the deciding endpoints; its examples use the loaded rules."""
        self.openapi_schema = None
        found = document(super().openapi(), self.service)
        return {**found, "servers": [{"url": self.prefix}]} if self.prefix else found

    async def openapi_json(self) -> bytes:
        """The OpenAPI document as JSON, made once for each revision and day, in a thread, as it takes about 50 ms."""
        async with self.document_lock:  # of concurrent requests, one makes it
            current = self.service.answers, today()
            if self.described != current:
                found = await asyncio.to_thread(self.openapi)
                self.document_json, self.described = msgspec.json.encode(found), current
            return self.document_json


def create_app(
    settings: Settings | None = None, published: Published | None = None, shared: Shared | None = None
) -> Application:
    """Build the service with the ``published`` rules, or those of the settings' folder.

    While it serves, it loads the rules that are published in ``shared``.

    Raises:
        RulesInvalid: with every fault in the rules.
        EngineFailed: the engine refuses the rules.
        UnknownRelease, InvalidVersion: the default release of the settings is unknown or invalid.
        TokensInvalid: the token file cannot be used.
        InvalidStoreUrl: the decision log's URL is invalid.
        pydantic.ValidationError: a ``RUNNER_POLICY_…`` variable is invalid.
    """
    settings = settings or Settings()
    published = published or load_at_start(RulesFolder(settings.rules))[0]
    program = version("runner-policy")
    metrics = Metrics(settings.run)
    labels = _labels(settings, program)
    recorder = Recorder(
        metrics,
        None,
        required=settings.log_required,
        stdout_labels=labels if settings.log_stdout else None,
        collects_ids=settings.access_log,
    )
    file = TokenFile(settings.tokens, settings.run) if settings.tokens is not None else None
    access = Access(file.read_at_start() if file is not None else None, settings.rate_limit, metrics)
    service = ServiceState(settings, published, HubModels(_hub(settings)), recorder, access, program)
    app = Application(
        title="Runner Policy",
        summary="Which vLLM model runner a deployment gets, and why",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    app.service, app.file, app.shared = service, file, shared
    app.document_lock = asyncio.Lock()
    app.prefix = settings.root_path
    app.guard = guard_of(settings, (VALIDATE, MUTATE), metrics)
    app.state.service = service
    app.state.store = None
    app.endpoints = {path: endpoint(service, path) for path, endpoint in ENDPOINTS.items()}
    app.router.routes.extend(Route(path, endpoint, methods=["POST"]) for path, endpoint in app.endpoints.items())
    app.read_app = app.answer_read
    app.include_router(router)
    page = Page()
    add_landing(app, program, page)
    add_page(app, page)
    add_docs(app, app.openapi_json)
    add_handlers(app)
    return app


def create_server_app(shared: Shared) -> ASGIApp:
    """Build the service in one of several worker processes, from the settings in the environment.

    It has the rules that were published last, whatever their source has now. If it cannot be built, for example because
    the tokens are invalid and the copy of the last valid ones was deleted, the process ends, and is replaced.
    """
    settings = Settings()
    for _ in range(ATTEMPTS):
        published = newest(shared.rules)
        if published is not None:
            break
        sleep(RETRY)  # they are being replaced, which takes less than a millisecond
    else:
        raise SystemExit(EXIT_FAILED)
    try:
        return served_app(settings, create_app(settings, published, shared))
    except PolicyError as error:
        log.error("this worker cannot start; another one is started", extra={"error": str(error)})  # noqa: TRY400  # the traceback adds nothing
        raise SystemExit(EXIT_FAILED) from error


def served_app(settings: Settings, app: Application) -> ASGIApp:
    """The application as it is served.

    Existing objects are excluded from garbage collection: nothing is answered during one, and a full one took 55 ms.
    Few objects of a request are in cycles, so the young ones are collected more rarely than by default: this saves 4 of
    100 µs of processor time for a request if all requests differ.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    return trust_proxies(settings.trusted_proxies, app)


def _labels(settings: Settings, program: str) -> str:
    """The labels of every record: the instance, its version, and those of the settings."""
    return msgspec.json.encode({"id": socket.gethostname(), "version": program, **settings.log_labels}).decode()


def _hub(settings: Settings) -> Hub | None:
    """The hub, if it is switched on; otherwise its library is not imported."""
    if not settings.hub:
        return None
    from policy.intake.model.hub import Hub  # noqa: PLC0415  # only if it is switched on

    return Hub(settings.hub_timeout)


@asynccontextmanager
async def _lifespan(app: Application) -> AsyncIterator[None]:
    """Run the log and the housekeeping while serving; at the end, wait until the log is written."""
    service = app.service
    settings = service.settings
    sys.setswitchinterval(SWITCH_INTERVAL)
    tracing = set_up(lambda: service.answers.policy.revision)
    if tracing is not None:
        app.endpoints = {path: tracing.wrap(endpoint, path) for path, endpoint in app.endpoints.items()}
        app.read_app = tracing.wrap(app.answer_read)
    log = service.recorder.log = _log(app)
    housekeeping = asyncio.create_task(Housekeeping(service, app.file, app.shared).run())
    try:
        yield
    finally:
        housekeeping.cancel()
        service.pool.close()
        if log is not None:
            await log.close(_time_left(settings))
        await service.recorder.close()
        if tracing is not None:
            await asyncio.to_thread(tracing.stop, _time_left(settings))
        service.metrics.snapshot()


def _time_left(settings: Settings) -> float:
    """Seconds left to shut down the log or tracing."""
    since = Connection.ending_since
    passed = 0.0 if since is None else monotonic() - since
    return max(MIN_STOP_TIME, settings.log_stop_time - passed)


def _log(app: Application) -> LogClient | None:
    """The decision log, or ``None`` if it is off."""
    settings = app.service.settings
    url = settings.log_url()
    if url is None:
        return None
    from service.log.client import LogClient  # noqa: PLC0415  # not needed without a log
    from service.log.store import Store, read_url  # noqa: PLC0415  # it takes a quarter of a second, and is not needed without a log

    # a query that the store does not answer must not delay the end of the service
    app.state.store = Store(read_url(url), min(settings.log_timeout, settings.request_stop_time))
    keep_seconds = (
        None if settings.log_retention_days is None else timedelta(days=settings.log_retention_days).total_seconds()
    )
    spill = str(settings.spill_folder())
    size, timeout, required = settings.log_spill_size, settings.log_timeout, settings.log_required
    log = LogConfig(
        url,
        spill,
        size,
        timeout,
        required,
        keep_seconds,
        settings.log_retention_bytes,
        _labels(settings, app.service.version),
    )
    return LogClient(log, settings.log_queue_size)
