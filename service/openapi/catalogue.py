"""The read endpoints in the OpenAPI document: FastAPI's description, with parameters, answers and problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from policy.decision.decision import encode
from service.auth.access import OPEN_PATHS, scope_of
from service.auth.tokens import READ
from service.openapi import parameters
from service.openapi.examples import METRICS_EXAMPLE, RULE_EXAMPLE, example_decision, record_example
from service.openapi.responses import ASKS_WHO, FULL, LARGE, STOPPING, problems, security
from service.openapi.schemas import ref
from service.state.landing import EXAMPLE, landing_document

if TYPE_CHECKING:
    from service.state.state import ServiceState

JSON, TEXT = "application/json", "text/plain"
TAG: Final = {"ETag": {"description": "the loaded revision, in quotes", "required": True, "schema": {"type": "string"}}}
QUERY_PROBLEMS: Final = ("invalid-request",)
"""The problem of an unknown or repeated query parameter."""
RELEASE_PROBLEMS: Final = (*QUERY_PROBLEMS, "unknown-release")
LOG_PROBLEMS: Final = (*QUERY_PROBLEMS, "not-found", "log-unavailable", "busy")


class ReadOperation(Struct, frozen=True):
    """A read endpoint in the document: its name, its answer as bytes, and its problems."""

    name: str
    body: bytes
    kinds: tuple[str, ...] = ()
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    media_type: str = JSON
    also: tuple[str, ...] = ()
    """The other media types of the answer."""


LANDING: Final = {
    "summary": "Landing Page",
    "description": "What the service is, the loaded rules, and links: a page, text by default, or JSON.",
}


def read_paths(calls: dict[str, Any], service: ServiceState) -> dict[str, Any]:
    """FastAPI's endpoints by path, completed, and the landing page."""
    shown = _operations(service)
    calls = {**calls, "/": {"get": LANDING}}
    return {path: {"get": _call(path, item["get"], shown[path], service)} for path, item in calls.items()}


def _operations(service: ServiceState) -> dict[str, ReadOperation]:
    answers = service.answers
    record = encode(record_example(answers))
    landing = landing_document(answers.policy, example_decision(answers, EXAMPLE), service.version)
    text = {"type": "string"}
    state = {
        "type": "object",
        "required": ["status", "revision"],
        "properties": {"status": {"const": "ready"}, "revision": text},
    }
    return {
        "/v1/policy": ReadOperation("policy", answers.policy_document(service.published), QUERY_PROBLEMS),
        "/v1/rules": ReadOperation("rules", answers.rules_document, RELEASE_PROBLEMS),
        "/v1/rules/{rule_id}": ReadOperation(
            "rule", answers.rule_document(RULE_EXAMPLE), ("not-found", *RELEASE_PROBLEMS)
        ),
        "/v1/releases": ReadOperation("releases", answers.releases_document, QUERY_PROBLEMS),
        "/v1/facts": ReadOperation("facts", answers.facts_document, QUERY_PROBLEMS),
        "/v1/log": ReadOperation("log", b'{"items":[%b],"next":null}' % record, LOG_PROBLEMS, ref("Page")),
        "/v1/decisions/{decision_id}": ReadOperation("decision", record, LOG_PROBLEMS, ref("Record")),
        "/metrics": ReadOperation("metrics", encode(METRICS_EXAMPLE), (), text, TEXT),
        "/livez": ReadOperation("livez", b'"ok\\n"', (), {"const": "ok\n"}, TEXT),
        "/": ReadOperation("landing", encode(landing), also=("text/html", TEXT)),
        "/readyz": ReadOperation("readyz", answers.ready_document, ("log-unavailable",), state),
    }


def _call(path: str, call: dict[str, Any], shown: ReadOperation, service: ServiceState) -> dict[str, Any]:
    needed = READ if path == "/readyz" else scope_of(path)
    content = {shown.media_type: {"example": _shortened(msgspec.json.decode(shown.body)), "schema": shown.schema}}
    content |= {media_type: {"schema": {"type": "string"}} for media_type in shown.also}
    also = (*(ASKS_WHO if needed else ()), *shown.kinds, LARGE, *(() if path in OPEN_PATHS else (FULL, STOPPING)))
    responses: dict[str, Any] = {"200": {"description": "as shown", "content": content}, **problems(*also)}
    if path == "/v1/policy":
        responses["200"]["headers"] = TAG
        responses["304"] = {"description": "the revision in `If-None-Match` is the loaded one", "headers": TAG}
    found = {
        **call,
        "operationId": shown.name,
        **security(service, needed, always=path != "/readyz"),
        "responses": responses,
    }
    found.pop("parameters", None)
    return {**found, "parameters": legal} if (legal := parameters.of(path, service.answers.policy.releases)) else found


def _shortened(document: Any) -> Any:
    """The document with each list cut to its first item, except ``effects``, which is only useful as a whole."""
    if not isinstance(document, dict):
        return document
    return {
        key: value[:1] if isinstance(value, list) and key != "effects" else value for key, value in document.items()
    }
