"""The endpoints that check requests, in the OpenAPI document: their paths and the schemas of their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy import render, render_requests
from policy.request.request import Request
from policy.rules.request_rule import Verdict
from policy.sampling.check import RequestCheck, RequestChecker, read_check_request
from policy.sampling.fields import is_checked
from service.auth.tokens import DECIDE
from service.openapi.examples import as_lines
from service.openapi.responses import DECISION_PROBLEMS, security
from service.openapi.shapes import TEXT, Schema, list_of, object_of, ref
from service.openapi.tags import REQUESTS
from service.state.answers import today

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.policy import Policy
    from service.state.state import ServiceState

JSON, YAML, PLAIN, NDJSON = "application/json", "application/yaml", "text/plain", "application/x-ndjson"
PARAMETERS: Final = {"min_tokens": 3, "stop_token_ids": list(range(100, 228)), "temperature": 0.7}
"""A request with so many stop tokens that an engine with V2 ends."""
FORMS: Final = ("FactsRequest", "DeploymentRequest", "ManifestRequest")


def check_paths(service: ServiceState, post: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The endpoints by path; ``post`` describes one."""
    document = _document(service.answers.policy)
    found = _answer(service.answers.policy, document)
    example = msgspec.to_builtins(found)
    table = {"schema": ref("Table"), "example": render.as_text(render_requests.request_check(found))}
    return {
        "/v1/requests/check": post(
            REQUESTS,
            "checkRequest",
            "Check whether a deployment's runner takes a request",
            "A decision's request with `request`: sampling parameters by vLLM's names, or the body of an OpenAI-style "
            "call. Nothing is recorded.",
            {
                JSON: {
                    "schema": ref("RequestCheckRequest"),
                    "examples": {"stop-tokens": {"summary": "many stop tokens", "value": document}},
                },
                YAML: {"schema": ref("RequestCheckRequest")},
            },
            "what becomes of the request; for a manifest, for each engine in it",
            {JSON: {"schema": ref("RequestCheckAnswer"), "example": example}, PLAIN: table},
            DECISION_PROBLEMS,
            security(service, DECIDE),
        ),
        "/v1/requests/check/batch": post(
            REQUESTS,
            "checkRequests",
            "Check many requests",
            "In order; an invalid item does not affect the others. "
            "As `application/x-ndjson`, one request per line in and one answer per line out, streamed, of any length.",
            {
                JSON: {
                    "schema": ref("RequestCheckBatch"),
                    "examples": {"one": {"summary": "one request", "value": {"items": [document]}}},
                },
                YAML: {"schema": ref("RequestCheckBatch")},
                NDJSON: {"schema": ref("RequestCheckLines"), "example": as_lines([document])},
            },
            "the answers in the order of the requests; as a stream if the request is one",
            {
                JSON: {"schema": ref("RequestCheckBatchAnswer"), "example": {"items": [example]}},
                NDJSON: {"schema": ref("RequestCheckAnswerLines"), "example": as_lines([example])},
            },
            ("too-much-work", "too-many-streams", "log-unavailable", "engine-failed"),
            security(service, DECIDE),
        ),
    }


def _document(policy: Policy) -> dict[str, Any]:
    """A request to check in a release that the rules know, and in which requests are checked."""
    known = [release for release in policy.releases.known if is_checked(release)]
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}
    return {"vllm_version": known[-1] if known else "0.33.0", "facts": facts, "request": PARAMETERS}


def _answer(policy: Policy, document: dict[str, Any]) -> RequestCheck:
    request = read_check_request({**document, "beyond_verified": "nearest"}, policy.releases)
    assert isinstance(request.deployment, Request)  # INVARIANT: the document states facts
    return RequestChecker(policy).check(request.deployment, request.document, request.pointer, today())


def check_requests(decision_requests: dict[str, Schema]) -> dict[str, Schema]:
    """The schemas of the bodies, from those of ``decision_requests``."""
    parameters = {
        **ref("RequestParameters"),
        "description": "sampling or pooling parameters by vLLM's names, or the body of an OpenAI-style call",
    }
    forms = {
        f"{form.removesuffix('Request')}CheckRequest": {
            **decision_requests[form],
            "description": "A request to check, with " + decision_requests[form]["description"].lower(),
            "required": [*decision_requests[form]["required"], "request"],
            "properties": {**decision_requests[form]["properties"], "request": parameters},
        }
        for form in FORMS
    }
    return {
        **forms,
        "RequestParameters": {
            "type": "object",
            "description": "The parameters of a request to an engine.",
            "additionalProperties": True,
        },
        "RequestCheckRequest": {
            "description": "A deployment, and a request to its engine.",
            "anyOf": [ref(name) for name in forms],
        },
        "RequestCheckBatch": {
            **object_of(
                "Many requests to check.",
                items=list_of(ref("RequestCheckRequest"), "the requests; the answers have the same order"),
            ),
            "additionalProperties": False,
        },
        "RequestCheckLines": {
            **TEXT,
            "description": "A `RequestCheckRequest` as JSON on each line.",
            "contentMediaType": NDJSON,
        },
    }


def check_answers() -> dict[str, Schema]:
    """The schemas of the answers that have no type of their own."""
    verdicts = [str(verdict) for verdict in Verdict]
    return {
        "Verdict": {"type": "string", "description": "What becomes of a request, the best first", "enum": verdicts},
        "RequestCheckAnswer": {
            "description": "What becomes of the request; for a manifest, for each engine in it.",
            "anyOf": [ref("RequestCheck"), ref("EngineChecks")],
        },
        "RequestCheckBatchAnswer": object_of(
            "The answers to a batch of requests to check.",
            items=list_of(ref("RequestCheckItemAnswer"), "the answers, in the order of the requests"),
        ),
        "RequestCheckItemAnswer": {
            "description": "The answer to one request of a batch, or the problem with it.",
            "anyOf": [ref("RequestCheck"), ref("EngineChecks"), ref("Problem")],
        },
        "RequestCheckAnswerLines": {
            **TEXT,
            "description": "A `RequestCheckItemAnswer` as JSON on each line, in the order of the requests.",
            "contentMediaType": NDJSON,
        },
    }
