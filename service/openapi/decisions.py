"""The deciding endpoints in the OpenAPI document: requests and answers.

They are not FastAPI routes, so everything about them is described here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy import render
from service.auth.tokens import DECIDE, DRY_RUN
from service.openapi.examples import (
    BATCH_EXAMPLE,
    CANDIDATE_EXAMPLE,
    EXAMPLES,
    LINES_EXAMPLE,
    REVIEW_EXAMPLE,
    example_decision,
    review_example,
)
from service.openapi.responses import ASKS_WHO, DECIDES, FULL, LARGE, READS_BODY, STOPPING, problems, security
from service.openapi.schemas import ref

if TYPE_CHECKING:
    from service.state.state import ServiceState

JSON, YAML, TEXT, NDJSON = "application/json", "application/yaml", "text/plain", "application/x-ndjson"
IF_MATCH: Final = {
    "name": "if-match",
    "in": "header",
    "required": False,
    "description": "the revisions by one of which to decide, as in the `ETag` of `/v1/policy`; "
    "with another one loaded, the answer is 412",
    "schema": {"type": "string"},
}


def decision_paths(service: ServiceState) -> dict[str, Any]:
    """The endpoints by path."""
    answers = service.answers
    first = EXAMPLES["kv-connector"]["value"]
    one = example_decision(answers, first)
    explained = example_decision(answers, {**first, "explain": True})
    decision: dict[str, Any] = {"anyOf": [ref("Decision"), ref("ManifestDecisions")]}
    compared = {"anyOf": [*decision["anyOf"], ref("DryRunComparison"), ref("DryRunComparisonOfAll")]}
    asked = {"anyOf": [ref("Request"), ref("Candidate")]}
    tried = {**EXAMPLES, "candidate": {"summary": "what taking a rule away would change", "value": CANDIDATE_EXAMPLE}}
    table = {"schema": {"type": "string"}, "example": render.as_text(render.decision(one))}
    items = {"items": [example_decision(answers, item) for item in BATCH_EXAMPLE["items"]]}
    return {
        "/v1/decisions": _post(
            "decide",
            "Decide one deployment",
            "The runner, why, and what to do. A body is read as JSON unless its content type is YAML.",
            {JSON: {"schema": ref("Request"), "examples": EXAMPLES}, YAML: {"schema": ref("Request")}},
            {JSON: {"schema": decision, "example": msgspec.to_builtins(one)}, TEXT: table},
            DECIDES,
            security(service, DECIDE),
        ),
        "/v1/decisions/batch": _post(
            "decideBatch",
            "Decide many deployments",
            "In order; an invalid item does not affect the others. "
            "As `application/x-ndjson` a request a line in and an answer a line out, streamed, of any length.",
            {
                JSON: {
                    "schema": ref("Batch"),
                    "examples": {"two": {"summary": "two deployments", "value": BATCH_EXAMPLE}},
                },
                YAML: {"schema": ref("Batch")},
                NDJSON: {"schema": {"type": "string"}, "example": LINES_EXAMPLE},
            },
            {
                JSON: {"schema": ref("BatchAnswer"), "example": msgspec.to_builtins(items)},
                NDJSON: {"schema": {"type": "string"}},
            },
            ("log-unavailable", "engine-failed"),
            security(service, DECIDE),
        ),
        "/v1/dry-run": _post(
            "dryRun",
            "Explain a decision, and try candidate rules",
            "Records nothing by default. With `rules` or `remove` it answers what the rules would change; "
            "as a form, `curl -F deployment=@… -F rules=@…`.",
            {
                JSON: {"schema": asked, "examples": tried},
                YAML: {"schema": asked},
                "multipart/form-data": {"schema": ref("Form")},
            },
            {JSON: {"schema": compared, "example": msgspec.to_builtins(explained)}, TEXT: table},
            (*DECIDES, "rules-invalid", "candidate-aborted", "dry-run-busy"),
            security(service, DRY_RUN),
        ),
        **_reviews(service),
    }


def _reviews(service: ServiceState) -> dict[str, Any]:
    bodies = {
        JSON: {
            "schema": ref("Review"),
            "examples": {"pod": {"summary": "a Pod that is created", "value": REVIEW_EXAMPLE}},
        }
    }
    needed = security(service, DECIDE, always=not service.settings.admission_allow_anonymous)

    def review(name: str, summary: str, description: str, *, mutating: bool) -> dict[str, Any]:
        answer = {"schema": ref("AdmissionReview"), "example": review_example(service.answers, mutating=mutating)}
        return _post(name, summary, description, bodies, {JSON: answer}, ("log-unavailable",), needed)

    return {
        "/v1/admission": review(
            "review",
            "Review an object for Kubernetes",
            "The endpoint of a `ValidatingWebhookConfiguration`: warns of what vLLM would do, "
            "and denies what would not start if that is switched on.",
            mutating=False,
        ),
        "/v1/admission/mutate": review(
            "reviewAndPatch",
            "Set the variable in an object for Kubernetes",
            "The endpoint of a `MutatingWebhookConfiguration`: patches the variable that the policy decided, "
            "and never warns or denies.",
            mutating=True,
        ),
    }


def _post(
    name: str,
    summary: str,
    description: str,
    bodies: dict[str, Any],
    answers: dict[str, Any],
    kinds: tuple[str, ...],
    needed: dict[str, Any],
) -> dict[str, Any]:
    return {
        "post": {
            "operationId": name,
            "summary": summary,
            "description": description,
            "parameters": [IF_MATCH],
            **needed,
            "requestBody": {"required": True, "content": bodies},
            "responses": {
                "200": {"description": "the answer", "content": answers},
                **problems(*ASKS_WHO, *READS_BODY, *kinds, LARGE, FULL, STOPPING),
            },
        }
    }
