"""The application: FastAPI with the hot calls before its middleware.

Owns the putting together: settings and rules in, an ASGI application out; and what a process does by itself
while it serves: loading what is published, leaving its numbers, ending what is too slow.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib.metadata import version
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import FastAPI
from starlette.routing import Route

from policy.errors import PolicyError
from service.access import Access, read_tokens, scope_of
from service.calls import Batch, Decisions, DryRun, send_problem
from service.docs import add_docs
from service.metrics import Metrics
from service.models import Models
from service.openapi import document
from service.recording import Recorder
from service.reload import Folder, Reader, first
from service.reviews import MUTATE, VALIDATE, Admission
from service.routes import add_handlers, router
from service.served import Served
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from policy.intake.hub import Hub
    from service.log.writing import Log
    from service.reload import Published

log = logging.getLogger("runner_policy")
CALLS: Final = {"/v1/decisions": Decisions, "/v1/decisions/batch": Batch, "/v1/dry-run": DryRun, VALIDATE: Admission, MUTATE: Admission}
TICK: Final = 0.25
"""Seconds between two looks at what others left."""
TICKS: Final = 4
"""Looks between two sweeps and snapshots."""


class Application(FastAPI):
    """FastAPI whose deciding calls are answered before its middleware and routing.

    They are routes of the application as well, so that another method on them gets a 405.
    """

    calls: dict[str, ASGIApp]
    served: Served

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # type: ignore[override]  # a coroutine less to run
        """Answer a hot call directly, everything else by FastAPI."""
        if scope["type"] == "http":
            if scope["method"] == "POST":
                call = self.calls.get(scope["path"])
                if call is not None:
                    return call(scope, receive, send)
            return self.show(scope, receive, send)
        return super().__call__(scope, receive, send)

    async def show(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call that shows, to whom it may be shown."""
        began = perf_counter_ns()
        status = 500
        path = scope["path"]

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        needed = scope_of(path)
        try:
            if needed is not None:
                scope["caller"] = self.served.access.caller(scope["client"], dict(scope["headers"]), needed)
        except PolicyError as error:
            status = await send_problem(send, error)
        else:
            await super().__call__(scope, receive, noted)
        finally:
            self.served.done(scope, status, began, getattr(scope.get("route"), "path", "other"))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, the hot calls included."""
        if self.openapi_schema is None:
            self.openapi_schema = document(super().openapi(), self.served)
        return self.openapi_schema


def create_app(settings: Settings | None = None, published: Published | None = None) -> Application:
    """The service with its rules loaded: those that are ``published``, else those of the settings' folder.

    Raises:
        RulesInvalid: with every fault in the rules; nothing is served then.
        EngineFailed: the engine refuses the rules.
        UnknownRelease, NoVersion: the default release of the settings is none.
        TokensInvalid: the file of tokens cannot be used.
        NoStore: the decision log's URL is none.
        pydantic.ValidationError: a ``RUNNER_POLICY_…`` variable does not fit.
    """
    settings = settings or Settings()
    published = published or (Reader(settings.run).newest() if settings.run else None) or first(Folder(settings.rules))[0]
    program = version("runner-policy")
    metrics = Metrics(settings.run)
    labels = _labels(settings, program)
    recorder = Recorder(metrics, None, required=settings.log_required, stdout_labels=labels if settings.log_stdout else None)
    tokens = read_tokens(settings.tokens) if settings.tokens is not None else None
    served = Served(settings, published, Models(_hub(settings)), recorder, Access(tokens, settings.rate, metrics), program)
    app = Application(
        title="Runner Policy",
        summary="Which vLLM model runner a deployment gets, and why",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=_lifespan,
    )
    app.served = served
    app.state.served = served
    app.state.store = None
    app.calls = {path: call(served, path) for path, call in CALLS.items()}
    app.router.routes.extend(Route(path, call, methods=["POST"]) for path, call in app.calls.items())
    app.include_router(router)
    add_docs(app)
    add_handlers(app)
    return app


def _labels(settings: Settings, program: str) -> str:
    """The labels of every record: which instance of which version made it."""
    return msgspec.json.encode({"id": socket.gethostname(), "version": program, **settings.log_labels}).decode()


def _hub(settings: Settings) -> Hub | None:
    """The hub, where it is switched on; its library is not even imported otherwise."""
    if not settings.hub:
        return None
    from policy.intake.hub import Hub  # noqa: PLC0415  # only where it is switched on

    return Hub(settings.hub_time)


@asynccontextmanager
async def _lifespan(app: Application) -> AsyncIterator[None]:
    """The log is open and the process looks after itself for as long as it serves; at the end everything noted is safe."""
    served = app.served
    settings = served.settings
    kept = served.recorder.log = _log(app)
    looking = asyncio.create_task(_looking(served))
    try:
        yield
    finally:
        looking.cancel()
        if kept is not None:
            await kept.close(settings.stop_time)
        served.metrics.leave()


def _log(app: Application) -> Log | None:
    """The decision log, where one is kept."""
    settings = app.served.settings
    url = settings.log_url()
    if url is None:
        return None
    from service.log.keeper import Kept  # noqa: PLC0415  # a quarter of a second, and none of it where no log is kept
    from service.log.store import Store, read_url  # noqa: PLC0415  # as above
    from service.log.writing import Log  # noqa: PLC0415  # as above

    app.state.store = Store(read_url(url), settings.log_time, many=True)
    keep_seconds = None if settings.log_keep_days is None else timedelta(days=settings.log_keep_days).total_seconds()
    spill = str(settings.spill_folder())
    size, patience, required = settings.log_spill_size, settings.log_time, settings.log_required
    kept = Kept(url, spill, size, patience, required, keep_seconds, settings.log_keep_size, _labels(settings, app.served.version))
    return Log(kept, settings.log_queue)


async def _looking(served: Served) -> None:
    """Whatever is published is loaded, slow bodies are ended, the process's numbers are left for the others."""
    settings = served.settings
    reader = Reader(settings.run) if settings.run is not None else None
    parent = os.getppid()
    tokens = _modified(settings)
    tick = 0
    while True:
        await asyncio.sleep(TICK)
        tick += 1
        published = reader.newest() if reader is not None else None
        if published is not None and published != served.published:
            await _load(served, published)
        if tick % TICKS == 0:
            served.slow.sweep()
            served.metrics.leave()
            if settings.tokens is not None and (found := _modified(settings)) != tokens:
                tokens = found
                _read_tokens_again(served)
            if settings.workers > 1 and os.getppid() != parent:
                log.error("the parent process is gone; this worker ends")
                os.kill(os.getpid(), 15)


async def _load(served: Served, published: Published) -> None:
    if published.revision == served.answers.policy.revision:
        served.told_of(published)
        return
    try:
        answers = await asyncio.to_thread(served.made, published, served.answers)
    except PolicyError as error:
        log.error("published rules could not be loaded", extra={"error": str(error)})  # noqa: TRY400  # where it was raised says nothing
        return
    served.swap(published, answers)


def _modified(settings: Settings) -> int:
    try:
        return settings.tokens.stat().st_mtime_ns if settings.tokens is not None else 0
    except OSError:
        return 0


def _read_tokens_again(served: Served) -> None:
    """The tokens of the file hold from now on; a file that cannot be used leaves the ones before."""
    assert served.settings.tokens is not None
    try:
        served.access.tokens = read_tokens(served.settings.tokens)
    except PolicyError as error:
        log.error("the file of tokens was refused; the ones before hold", extra={"error": str(error)})  # noqa: TRY400  # as above
    else:
        log.info("tokens loaded", extra={"tokens": len(served.access.tokens or ())})
