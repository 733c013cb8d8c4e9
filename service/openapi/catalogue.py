"""The read endpoints in the OpenAPI document: FastAPI's description, with parameters, answers and problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policy.decision.decision import encode
from policy.errors import INTERNAL_ERROR
from service.auth.access import OPEN_PATHS, scope_of
from service.auth.tokens import READ
from service.openapi.examples import METRICS_EXAMPLE, record_example, request_examples
from service.openapi.parameters import parameters_of
from service.openapi.responses import ACCESS_PROBLEMS, FULL, LARGE, STOPPING, problems, security
from service.openapi.shapes import ref
from service.openapi.tags import LOG, OPERATIONS, RULES
from service.state.answers import today
from service.state.landing import landing_forms

if TYPE_CHECKING:
    from service.state.state import ServiceState

JSON, TEXT = "application/json", "text/plain"
TAG: Final = {"ETag": {"description": "the loaded revision, in quotes", "required": True, "schema": {"type": "string"}}}
ARGUMENTS_TAG: Final = {"ETag": {**TAG["ETag"], "description": "a digest of the answer, in quotes"}}
QUERY_PROBLEMS: Final = ("invalid-request",)
"""The problem of an unknown or repeated query parameter."""
METRICS: Final = "The text format of Prometheus."
LOG_PROBLEMS: Final = (*QUERY_PROBLEMS, "not-found", "log-unavailable", "busy")


class ReadOperation(Struct, frozen=True):
    """A read endpoint in the document: its name, its answer with an example as bytes, and its problems."""

    tag: str
    name: str
    result: str
    schema: dict[str, Any]
    body: bytes
    kinds: tuple[str, ...] = ()
    media_type: str = JSON
    also: dict[str, dict[str, Any]] = {}
    """The schemas of the other media types of the answer."""


LANDING_OPERATION: Final = {
    "summary": "Landing Page",
    "description": "What the service is, the loaded rules, and links: a page, text by default, or JSON.",
}


def paths_of_read_endpoints(described: dict[str, Any], service: ServiceState) -> dict[str, Any]:
    """The endpoints that FastAPI describes, completed, and the landing page, by path."""
    operations = _operations(service)
    described = {**described, "/": {"get": LANDING_OPERATION}}
    return {path: {"get": _operation(path, item["get"], operations[path], service)} for path, item in described.items()}


def _operations(service: ServiceState) -> dict[str, ReadOperation]:
    answers = service.answers
    record = encode(record_example(answers))
    landing = landing_forms(answers.policy, today(), service.version)[b"text/plain"].decode()
    page = b'{"items":[%b],"next":null}' % record
    loaded = answers.policy_document(service.published)
    rule = answers.rule_document(request_examples(answers.policy).rule)
    metrics = encode(METRICS_EXAMPLE)
    text = {"type": "string"}

    def rules_operation(name: str, result: str, schema: str, body: bytes, *kinds: str) -> ReadOperation:
        return ReadOperation(RULES, name, result, ref(schema), body, (*QUERY_PROBLEMS, *kinds))

    return {
        "/v1/policy": rules_operation("getPolicy", "the loaded rules", "LoadedPolicy", loaded),
        "/v1/rules": rules_operation(
            "listRules", "the rules", "RuleCatalogue", answers.rules_document, "unknown-release"
        ),
        "/v1/rules/{rule_id}": replace(
            rules_operation("getRule", "the rule", "RuleFile", rule, "not-found", "unknown-release"),
            schema={"anyOf": [ref("RuleFile"), ref("RequestRuleFile"), ref("ConditionFile")]},
        ),
        "/v1/releases": rules_operation("listReleases", "the releases", "ReleaseList", answers.releases_document),
        "/v1/images": rules_operation("listImages", "the images", "ImageList", answers.images_document),
        "/v1/arguments": rules_operation(
            "listArguments",
            "the flags and variables",
            "ArgumentList",
            answers.arguments_document("--max-model-len"),
            "not-found",
            "unknown-release",
        ),
        "/v1/schemas/{name}": rules_operation(
            "getSchema", "the schema", "FileSchema", answers.schema_document("cases"), "not-found"
        ),
        "/v1/facts": rules_operation("listFacts", "the facts", "Vocabulary", answers.facts_document),
        "/v1/log": ReadOperation(LOG, "queryLog", "a page of records", ref("LogPage"), page, LOG_PROBLEMS),
        "/v1/decisions/{decision_id}": ReadOperation(
            LOG, "getDecision", "the record of the decision", ref("LogRecord"), record, LOG_PROBLEMS
        ),
        "/metrics": ReadOperation(
            OPERATIONS, "getMetrics", "the metrics", {**text, "description": METRICS}, metrics, (), TEXT
        ),
        "/livez": ReadOperation(
            OPERATIONS, "getLiveness", "the process answers", {**text, "const": "ok\n"}, b'"ok\\n"', (), TEXT
        ),
        "/readyz": ReadOperation(
            OPERATIONS,
            "getReadiness",
            "requests are decided",
            ref("Readiness"),
            answers.ready_document,
            ("log-unavailable",),
        ),
        "/": ReadOperation(
            OPERATIONS,
            "getLanding",
            "what the service is",
            text,
            encode(landing),
            media_type=TEXT,
            also={"text/html": text, JSON: ref("Landing")},
        ),
    }


def _operation(path: str, call: dict[str, Any], operation: ReadOperation, service: ServiceState) -> dict[str, Any]:
    needed = READ if path == "/readyz" else scope_of(path)
    content = {
        operation.media_type: {"example": _shorten(msgspec.json.decode(operation.body)), "schema": operation.schema}
    }
    content |= {media_type: {"schema": schema} for media_type, schema in operation.also.items()}
    also = (
        *(ACCESS_PROBLEMS if needed else ()),
        *operation.kinds,
        LARGE,
        *(() if path in OPEN_PATHS else (FULL, STOPPING)),
        INTERNAL_ERROR,
    )
    responses: dict[str, Any] = {"200": {"description": operation.result, "content": content}, **problems(*also)}
    if path == "/v1/policy":
        responses["200"]["headers"] = TAG
        responses["304"] = {"description": "the revision in `If-None-Match` is the loaded one", "headers": TAG}
    if path == "/v1/arguments":
        responses["200"]["headers"] = ARGUMENTS_TAG
        responses["304"] = {"description": "the answer is the one in `If-None-Match`", "headers": ARGUMENTS_TAG}
    elif path == "/":
        responses["304"] = {"description": "for a browser: the page is the one in `If-None-Match`"}
    return {
        "tags": [operation.tag],
        "operationId": operation.name,
        "summary": call["summary"],
        "description": call["description"],
        "parameters": parameters_of(path, service.answers.policy),
        **security(service, needed, always=path != "/readyz"),
        "responses": responses,
    }


def _shorten(document: Any) -> Any:
    """The document with each list cut to its first item, except ``effects``, which is only useful as a whole."""
    if not isinstance(document, dict):
        return document
    return {
        key: value[:1] if isinstance(value, list) and key != "effects" else value for key, value in document.items()
    }
