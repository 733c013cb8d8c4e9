"""Traces for OpenTelemetry: a server span for each request, with its decision's id.

Owns the spans and their attributes (HTTP semantic conventions 1.23 and later). Everything is configured by
OpenTelemetry's own variables ``OTEL_…``. Without an exporter in ``OTEL_TRACES_EXPORTER`` nothing is imported, and no
endpoint is wrapped.
"""

from __future__ import annotations

import logging
import os
from importlib.metadata import version
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from policy.decision.decision import ID_START, id_of
from policy.masking import masked_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("runner_policy")
NAME: Final = "runner-policy"
EXPORTER, PROTOCOL = "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"
HTTP: Final = "http/protobuf"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"})
FIRST_SERVER_ERROR: Final = 500


class InvalidTracingSetting(Exception):
    """A variable has an invalid value; the message names both."""


def exporter_names() -> list[str]:
    """The names of the configured exporters; none if traces are off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    names = [name.strip().lower() for name in os.environ.get(EXPORTER, "").split(",")]
    return [name for name in names if name not in {"", "none"}]


def set_up(revision: Callable[[], str]) -> Tracing | None:
    """The traces of this process, or ``None`` if they are off; ``revision`` returns the loaded revision of the rules.

    An invalid value is logged and turns traces off; the service runs without them. If the SDK itself falls back to a
    default (unknown timeout, compression or sampler), it logs that.
    """
    names = exporter_names()
    if not names:
        return None
    try:
        return Tracing(_provider(names), revision)
    except (InvalidTracingSetting, ValueError, TypeError, ImportError) as error:  # the SDK raises the last three
        log.error("traces are off: invalid OpenTelemetry variable", extra={"error": str(error)})  # noqa: TRY400  # the traceback adds nothing
        return None


def _provider(names: list[str]) -> TracerProvider:
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # only if traces are on
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # as above

    exporters = [_exporter(name) for name in dict.fromkeys(names)]
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter(name: str) -> SpanExporter:
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415  # only if it is configured

        return ConsoleSpanExporter()
    if name != "otlp":
        raise InvalidTracingSetting(f"{EXPORTER}: unknown exporter `{name}`; legal: `otlp`, `console`, `none`")
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", PROTOCOL):
        protocol = os.environ.get(variable, "").strip()
        if protocol not in {"", HTTP}:
            raise InvalidTracingSetting(f"{variable}: unsupported protocol `{protocol}`; legal: `{HTTP}`")
        if protocol:
            break
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # as above

    return OTLPSpanExporter()


def _resource() -> Resource:
    """The resource from the variables, with our service name as the default."""
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource  # noqa: PLC0415  # as above

    found = Resource({SERVICE_VERSION: version(NAME)}).merge(Resource.create())
    is_named = not str(found.attributes[SERVICE_NAME]).startswith("unknown_service")
    return found if is_named else found.merge(Resource({SERVICE_NAME: NAME}))


class Tracing:
    """Wraps endpoints in spans."""

    def __init__(self, provider: TracerProvider, revision: Callable[[], str]) -> None:
        """Spans go to the provider.

        Raises:
            ValueError: ``OTEL_PROPAGATORS`` names an unknown propagator.
        """
        from opentelemetry.propagate import extract  # noqa: PLC0415  # only if traces are on
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415  # as above

        self._provider = provider
        self._revision = revision
        self._extract, self._kind, self._failed = extract, SpanKind.SERVER, Status(StatusCode.ERROR)
        self._tracer = provider.get_tracer(NAME, version(NAME))

    def wrap(self, endpoint: ASGIApp, route: str | None = None) -> ASGIApp:
        """Wrap an endpoint in a span for each request; without ``route`` the matched route is used."""

        async def with_span(scope: Scope, receive: Receive, send: Send) -> None:
            span = self._start_span(scope, route)
            status = 0

            async def send_and_note(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                elif (
                    span.is_recording()
                    and not message.get("more_body", False)
                    and message.get("body", b"").startswith(ID_START)
                ):
                    span.set_attribute("runner_policy.decision_id", id_of(message["body"]))
                await send(message)

            try:
                await endpoint(scope, receive, send_and_note)
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(self._failed)
                raise
            finally:
                self._end_span(span, scope, route, status)

        return with_span

    def _start_span(self, scope: Scope, route: str | None) -> Span:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        found: dict[str, Any] = {
            "http.request.method": method,
            "url.path": masked_start(scope["path"]),
            "url.scheme": scope["scheme"],
            "network.protocol.version": scope["http_version"],
            "runner_policy.revision": self._revision(),
        }
        if method != scope["method"]:
            found["http.request.method_original"] = scope["method"]
        if route is not None:
            found["http.route"] = route
        if scope["client"]:
            found["client.address"] = scope["client"][0]
        if "user-agent" in headers:
            found["user_agent.original"] = masked_start(headers["user-agent"])
        return self._tracer.start_span(_name(method, route), self._extract(headers), self._kind, found)

    def _end_span(self, span: Span, scope: Scope, route: str | None, status: int) -> None:
        found = getattr(scope.get("route"), "path", None) if route is None else None
        if found is not None:
            span.set_attribute("http.route", found)
            span.update_name(_name(scope["method"] if scope["method"] in METHODS else "_OTHER", found))
        if status:
            span.set_attribute("http.response.status_code", status)
        if status >= FIRST_SERVER_ERROR:
            span.set_attribute("error.type", str(status))
            span.set_status(self._failed)
        span.end()

    def stop(self, seconds: float) -> None:
        """Send what is queued, for at most ``seconds``."""
        # a daemon thread: a collector that hangs must not keep the process running
        shutdown = Thread(target=self._provider.shutdown, name="traces", daemon=True)
        shutdown.start()
        shutdown.join(seconds)


def _name(method: str, route: str | None) -> str:
    method = "HTTP" if method == "_OTHER" else method
    return method if route is None else f"{method} {route}"
