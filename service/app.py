"""The application: FastAPI with the hot calls before its middleware.

Owns the putting together: settings and rules in, an ASGI application out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Route

from policy.catalogue import load
from policy.folder import read_folder
from policy.policy import Policy
from service.answers import Answers
from service.calls import Batch, Decisions, DryRun
from service.docs import add_docs
from service.models import Models
from service.openapi import document
from service.routes import add_handlers, router
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from policy.intake.hub import Hub


class Application(FastAPI):
    """FastAPI whose deciding calls are answered before its middleware and routing.

    They are routes of the application as well, so that another method on them gets a 405.
    """

    calls: dict[str, ASGIApp]

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:  # type: ignore[override]  # a coroutine less to run
        """Answer a hot call directly, everything else by FastAPI."""
        if scope["type"] == "http" and scope["method"] == "POST":
            call = self.calls.get(scope["path"])
            if call is not None:
                return call(scope, receive, send)
        return super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, the hot calls included."""
        if self.openapi_schema is None:
            self.openapi_schema = document(super().openapi(), self.state.answers)
        return self.openapi_schema


def create_app(settings: Settings | None = None) -> Application:
    """The service with its rules loaded.

    Raises:
        RulesInvalid: with every fault in the rules; nothing is served then.
        EngineFailed: the engine refuses the rules.
        UnknownRelease, NoVersion: the default release of the settings is none.
        pydantic.ValidationError: a ``RUNNER_POLICY_…`` variable does not fit.
    """
    settings = settings or Settings()
    sources = read_folder(settings.rules)
    models = Models(_hub(settings))
    answers = Answers(Policy(load(sources), settings.default_release, models.find), sources.rules, str(settings.rules), settings, models)
    app = Application(
        title="Runner Policy",
        summary="Which vLLM model runner a deployment gets, and why",
        version="1",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.answers = answers
    app.calls = {"/v1/decisions": Decisions(answers), "/v1/decisions/batch": Batch(answers), "/v1/dry-run": DryRun(answers)}
    app.router.routes.extend(Route(path, call, methods=["POST"]) for path, call in app.calls.items())
    app.include_router(router)
    add_docs(app)
    add_handlers(app)
    return app


def _hub(settings: Settings) -> Hub | None:
    """The hub, where it is switched on; its library is not even imported otherwise."""
    if not settings.hub:
        return None
    from policy.intake.hub import Hub  # noqa: PLC0415  # only where it is switched on

    return Hub(settings.hub_time)
