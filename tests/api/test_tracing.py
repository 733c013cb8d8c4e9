"""Traces: off unless a variable of OpenTelemetry asks for them; then a span for each request, sent to a collector."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.telemetry.logging import JsonFormatter, TextFormatter
from service.telemetry.tracing import set_up

from .conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from starlette.types import Scope

    from service.telemetry.tracing import Tracing

    from .conftest import Server

BODY = {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SERVER_SPAN = 2


class Collector(ThreadingHTTPServer):
    """Receives what OTLP exporters send."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        super().__init__(("127.0.0.1", 0), CollectorHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[dict[str, Any]]:
        """Every span, as a document."""
        return [
            {
                "name": span.name,
                "kind": span.kind,
                "trace": span.trace_id.hex(),
                "parent": span.parent_span_id.hex(),
                "id": span.span_id.hex(),
                "failed": span.status.code == 2,
                "attributes": attributes(span.attributes),
            }
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class CollectorHandler(BaseHTTPRequestHandler):
    server: Collector
    protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]  # the base has it as a plain attribute

    def do_POST(self) -> None:  # the base's name
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        found = ExportTraceServiceRequest()
        found.ParseFromString(body)
        self.server.requests.append(found)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


@pytest.fixture
def tracing(
    serve: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> Callable[..., AbstractContextManager[Server]]:
    """Starts a server that sends its traces to the collector."""

    @contextmanager
    def start(*arguments: str, **variables: str) -> Iterator[Server]:
        given = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **variables}
        with serve(*arguments, **given) as server:
            yield server

    return start


def started(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Tracing | None:
    """The traces of a service with these variables, in this process."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return set_up(lambda: "sha256:any")


def test_a_decision_is_a_server_span_below_the_caller_s(
    tracing: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> None:
    with tracing() as server, server.client() as client:
        revision = client.get("/v1/policy").json()["revision"]
        answer = client.post(
            "/v1/decisions",
            json=BODY,
            headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "user-agent": "a-test token=x"},
        ).json()
    (span,) = [span for span in collector.spans() if span["name"] == "POST /v1/decisions"]
    assert len(span.pop("id")) == 16
    assert span == {
        "name": "POST /v1/decisions",
        "kind": SERVER_SPAN,
        "trace": TRACE,
        "parent": PARENT,
        "failed": False,
        "attributes": {
            "http.request.method": "POST",
            "http.route": "/v1/decisions",
            "http.response.status_code": 200,
            "url.path": "/v1/decisions",
            "url.scheme": "http",
            "network.protocol.version": "1.1",
            "client.address": "127.0.0.1",
            "user_agent.original": "a-test token=…",
            "runner_policy.revision": revision,
            "runner_policy.decision_id": answer["decision_id"],
        },
    }


def test_every_endpoint_has_a_span_and_all_are_sent_before_the_service_stops(
    tracing: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> None:
    with tracing() as server, server.client() as client:
        client.post("/v1/decisions", content=b"{")
        client.post("/v1/decisions/batch", json={"items": [BODY, BODY]})
        client.post("/v1/dry-run", json=BODY)
        client.post("/v1/admission", json={})
        client.get("/v1/rules/kv-connector-fallback")
        client.get("/v1/rules/no-such-rule")
        client.get("/nothing/token=Zq8JbhpkJG4rt")
        client.request("PROPFIND", "/livez")
    spans = [span for span in collector.spans() if span["attributes"]["url.path"] != "/readyz"]
    assert [
        (
            span["name"],
            span["attributes"]["http.response.status_code"],
            "runner_policy.decision_id" in span["attributes"],
        )
        for span in spans
    ] == [
        ("POST /v1/decisions", 400, False),
        ("POST /v1/decisions/batch", 200, False),
        ("POST /v1/dry-run", 200, True),
        ("POST /v1/admission", 422, False),
        ("GET /v1/rules/{rule_id}", 200, False),
        ("GET /v1/rules/{rule_id}", 404, False),
        ("GET", 404, False),
        ("HTTP /livez", 405, False),
    ]
    assert len({span["trace"] for span in spans}) == len(spans)
    assert {span["parent"] for span in spans} == {""}
    assert spans[-1]["attributes"]["http.request.method_original"] == "PROPFIND"
    assert spans[-2]["attributes"]["url.path"] == "/nothing/token=…"


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "runner-policy"),
        ({"OTEL_SERVICE_NAME": "policy"}, "policy"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=other"}, "other"),
    ],
)
def test_the_service_name_can_be_configured(
    monkeypatch: pytest.MonkeyPatch, collector: Collector, variables: dict[str, str], name: str
) -> None:
    traced = started(monkeypatch, OTEL_TRACES_EXPORTER="otlp", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **variables)
    assert traced is not None

    async def app(*_: Any) -> None:
        return

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/livez",
        "scheme": "http",
        "http_version": "1.1",
        "headers": [],
        "client": None,
    }

    async def ask() -> None:
        await traced.wrap(app)(scope, nothing, nothing)

    asyncio.run(ask())
    traced.stop(PATIENCE)
    resources = [
        attributes(resource.resource.attributes)
        for request in collector.requests
        for resource in request.resource_spans
    ]
    assert {resource["service.name"] for resource in resources} == {name}
    assert all(
        resource["service.version"] and resource["telemetry.sdk.name"] == "opentelemetry" for resource in resources
    )


def test_the_configured_sampler_is_used(
    tracing: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> None:
    with tracing(OTEL_TRACES_SAMPLER="parentbased_always_off") as server, server.client() as client:
        client.post("/v1/decisions", json=BODY)
        client.post("/v1/decisions", json=BODY, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    assert [(span["trace"], span["parent"]) for span in collector.spans()] == [(TRACE, PARENT)]


@pytest.mark.slow
def test_every_worker_sends_its_own_spans(
    tracing: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> None:
    with tracing("--workers", "2") as server:
        for _ in range(20):
            with server.client() as client:
                assert client.post("/v1/decisions", json=BODY).status_code == 200
    assert sum(span["name"] == "POST /v1/decisions" for span in collector.spans()) == 20


def test_spans_go_to_the_console_if_configured(serve: Callable[..., AbstractContextManager[Server]]) -> None:
    with serve(OTEL_TRACES_EXPORTER="console") as server, server.client() as client:
        client.post("/v1/decisions", json=BODY)
    assert '"name": "POST /v1/decisions"' in server.log.read_text()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": ""},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"},
    ],
    ids=["not set", "empty", "none", "disabled"],
)
def test_there_are_no_traces_unless_they_are_switched_on(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    assert started(monkeypatch, **variables) is None


def test_nothing_is_sent_or_imported_unless_traces_are_switched_on(
    serve: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> None:
    variables = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}
    with (
        serve(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, PYTHONPROFILEIMPORTTIME="1", **variables) as server,
        server.client() as client,
    ):
        client.post("/v1/decisions", json=BODY)
    message = server.log.read_text()
    # The SDK alone: FastAPI imports OpenTelemetry's API.
    assert (collector.requests, "service.app" in message, "opentelemetry.sdk" in message) == (
        [],
        True,
        False,
    )


INVALID: list[tuple[dict[str, str], str]] = [
    (
        {"OTEL_TRACES_EXPORTER": "jaeger"},
        "OTEL_TRACES_EXPORTER: unknown exporter `jaeger`; legal: `otlp`, `console`, `none`",
    ),
    (
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        "OTEL_EXPORTER_OTLP_PROTOCOL: unsupported protocol `grpc`; legal: `http/protobuf`",
    ),
    (
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"},
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: unsupported protocol `http/json`; legal: `http/protobuf`",
    ),
    ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "0"}, "max_export_batch_size must be a positive integer"),
]


@pytest.mark.parametrize(
    ("variables", "message"), INVALID, ids=lambda value: next(iter(value)) if isinstance(value, dict) else None
)
def test_an_invalid_value_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variables: dict[str, str], message: str
) -> None:
    monkeypatch.setattr(logging.getLogger("runner_policy"), "propagate", True)
    assert started(monkeypatch, **{"OTEL_TRACES_EXPORTER": "otlp", **variables}) is None
    told = [
        (line.message, message in str(getattr(line, "error", "")))
        for line in caplog.records
        if line.name == "runner_policy"
    ]
    assert told == [("traces are off: invalid OpenTelemetry variable", True)]


def test_an_invalid_value_does_not_stop_the_service(
    tracing: Callable[..., AbstractContextManager[Server]], collector: Collector
) -> None:
    variables, message = INVALID[0]
    with tracing(**variables) as server, server.client() as client:
        assert client.post("/v1/decisions", json=BODY).status_code == 200
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    told = [line["error"] for line in lines if line["message"] == "traces are off: invalid OpenTelemetry variable"]
    assert ([message in error for error in told], collector.requests) == ([True], [])


def test_an_unreachable_collector_delays_no_request(tracing: Callable[..., AbstractContextManager[Server]]) -> None:
    with (
        tracing(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", RUNNER_POLICY_SHUTDOWN_TIMEOUT="2") as server,
        server.client() as client,
    ):
        assert client.post("/v1/decisions", json=BODY).status_code == 200
    assert server.process.returncode == 0


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_line_of_opentelemetry_s_shows_no_secret(formatter: logging.Formatter) -> None:
    arguments = ("api_key=Zq8JbhpkJG4r",)
    name = "opentelemetry.baggage.propagation"
    line = formatter.format(logging.LogRecord(name, logging.WARNING, "", 1, "Invalid entry: `%s`", arguments, None))
    assert "Invalid entry: `api_key=\u2026`" in line


def test_headers_of_traces_are_not_logged(tracing: Callable[..., AbstractContextManager[Server]]) -> None:
    parent = f"00-{TRACE}-{PARENT}-01"
    headers = (
        *({"baggage": text * (30_000 // len(text))} for text in ("=;,", ",", '"', "x")),
        *({"baggage": text * (8_000 // len(text))} for text in ("=;,", '"', "a,")),
        *({"traceparent": parent, "tracestate": text} for text in ("x" * 8_000, "x=" + '"' * 8_000, "X=1," * 2_000)),
        {"traceparent": "x" * 8_000},
    )
    with tracing() as server, server.client() as client:
        before = server.log.stat().st_size
        assert [client.get("/livez", headers=each).status_code for each in headers] == [200] * len(headers)
        assert server.log.read_text()[before:] == ""


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_line_of_opentelemetry_s_is_short(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("opentelemetry.sdk", logging.ERROR, "", 1, "Failed: %s", ('"\x01' * 50_000,), None)
    assert len(formatter.format(record)) < 8_000
