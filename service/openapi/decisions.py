"""The deciding endpoints in the OpenAPI document: requests and answers.

They are not FastAPI routes, so everything about them is described here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy import render
from service.auth.tokens import DECIDE, DRY_RUN
from service.openapi.examples import (
    REVIEW_EXAMPLE,
    as_lines,
    example_decision,
    request_examples,
    review_example,
)
from service.openapi.impacts import impact_path
from service.openapi.request_checks import check_paths
from service.openapi.responses import (
    ACCESS_PROBLEMS,
    BODY_PROBLEMS,
    DECISION_PROBLEMS,
    FULL,
    LARGE,
    STOPPING,
    problems,
    security,
)
from service.openapi.shapes import ref
from service.openapi.tags import ADMISSION, DECISIONS, DRY_RUNS

if TYPE_CHECKING:
    from service.state.state import ServiceState

JSON, YAML, TEXT, NDJSON = "application/json", "application/yaml", "text/plain", "application/x-ndjson"
FORM: Final = "multipart/form-data"
IF_MATCH: Final = {
    "name": "if-match",
    "in": "header",
    "required": False,
    "description": "the accepted revisions, as in the `ETag` of `/v1/policy`; "
    "if another one is loaded, the answer is 412",
    "schema": {"type": "string"},
}


def decision_paths(service: ServiceState) -> dict[str, Any]:
    """The endpoints by path."""
    answers = service.answers
    examples = request_examples(answers.policy)
    first = examples.single["kv-connector"]["value"]
    one = example_decision(answers, first)
    explained = example_decision(answers, {**first, "explain": True})
    table = {"schema": ref("Table"), "example": render.as_text(render.decision(one))}
    items = [msgspec.to_builtins(example_decision(answers, item)) for item in examples.batch["items"]]
    return {
        "/v1/decisions": _post(
            DECISIONS,
            "decide",
            "Decide one deployment",
            "The runner, why, and what to do. A body is read as JSON unless its content type is YAML.",
            {
                JSON: {"schema": ref("DecisionRequest"), "examples": examples.single},
                YAML: {"schema": ref("DecisionRequest")},
            },
            "the decision; for a manifest, one for each engine in it",
            {JSON: {"schema": ref("DecisionAnswer"), "example": msgspec.to_builtins(one)}, TEXT: table},
            DECISION_PROBLEMS,
            security(service, DECIDE),
        ),
        "/v1/decisions/batch": _post(
            DECISIONS,
            "decideBatch",
            "Decide many deployments",
            "In order; an invalid item does not affect the others. "
            "As `application/x-ndjson`, one request per line in and one answer per line out, streamed, of any length.",
            {
                JSON: {
                    "schema": ref("BatchRequest"),
                    "examples": {"two": {"summary": "two deployments", "value": examples.batch}},
                },
                YAML: {"schema": ref("BatchRequest")},
                NDJSON: {"schema": ref("RequestLines"), "example": as_lines(examples.batch["items"])},
            },
            "the answers in the order of the requests; as a stream if the request is one",
            {
                JSON: {"schema": ref("BatchAnswer"), "example": {"items": items}},
                NDJSON: {"schema": ref("AnswerLines"), "example": as_lines(items)},
            },
            ("too-much-work", "too-many-streams", "log-unavailable", "engine-failed"),
            security(service, DECIDE),
        ),
        "/v1/dry-run": _post(
            DRY_RUNS,
            "dryRun",
            "Explain a decision, and try candidate rules",
            "Records nothing by default. With `rules` or `remove` it returns what the rules would change, with `cases` "
            "whether these hold; as a form, `curl -F deployment=@… -F rules=@…`.",
            {
                JSON: {
                    "schema": ref("DryRunRequest"),
                    "examples": {
                        **examples.single,
                        "candidate": {"summary": "what removing a rule would change", "value": examples.candidate},
                    },
                },
                YAML: {"schema": ref("DryRunRequest")},
                FORM: {"schema": ref("DryRunForm")},
            },
            "the explained decision; with candidate rules, both decisions and what differs",
            {JSON: {"schema": ref("DryRunAnswer"), "example": msgspec.to_builtins(explained)}, TEXT: table},
            (*DECISION_PROBLEMS, "rules-invalid", "candidate-aborted", "dry-run-busy"),
            security(service, DRY_RUN),
        ),
        **impact_path(service, _post),
        **check_paths(service, _post),
        **_reviews(service),
    }


def _reviews(service: ServiceState) -> dict[str, Any]:
    bodies = {
        JSON: {
            "schema": ref("AdmissionReviewRequest"),
            "examples": {"pod": {"summary": "a Pod that is created", "value": REVIEW_EXAMPLE}},
        }
    }
    needed = security(service, DECIDE, always=not service.settings.admission_allow_anonymous)

    def review(name: str, summary: str, description: str, result: str, *, mutating: bool) -> dict[str, Any]:
        answer = {
            "schema": ref("AdmissionReviewResponse"),
            "example": review_example(service, mutating=mutating),
        }
        kinds = ("too-much-work", "log-unavailable")
        return _post(ADMISSION, name, summary, description, bodies, result, {JSON: answer}, kinds, needed)

    return {
        "/v1/admission": review(
            "reviewAdmission",
            "Review an object for Kubernetes",
            "The endpoint of a `ValidatingWebhookConfiguration`: warns of what vLLM would do, "
            "and denies what would not start if that is switched on.",
            "the review's answer, with warnings",
            mutating=False,
        ),
        "/v1/admission/mutate": review(
            "mutateAdmission",
            "Set the variable in an object for Kubernetes",
            "The endpoint of a `MutatingWebhookConfiguration`: patches the variable that the policy decided, "
            "and never warns or denies.",
            "the review's answer, with a patch if there is something to set",
            mutating=True,
        ),
    }


def _post(
    tag: str,
    name: str,
    summary: str,
    description: str,
    bodies: dict[str, Any],
    result: str,
    answers: dict[str, Any],
    kinds: tuple[str, ...],
    needed: dict[str, Any],
) -> dict[str, Any]:
    return {
        "post": {
            "tags": [tag],
            "operationId": name,
            "summary": summary,
            "description": description,
            "parameters": [IF_MATCH],
            **needed,
            "requestBody": {"required": True, "content": bodies},
            "responses": {
                "200": {"description": result, "content": answers},
                **problems(*ACCESS_PROBLEMS, *BODY_PROBLEMS, *kinds, LARGE, FULL, STOPPING),
            },
        }
    }
