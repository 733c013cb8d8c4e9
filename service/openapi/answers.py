"""The schemas of answers that have a type in the code, derived from that type.

A field is required if every answer has it. Not here: the meaning of each field (``descriptions``), and the loaded rules
(``loaded``).
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Final

import msgspec

from policy.checks.comparison import DryRunComparison, DryRunComparisonOfAll
from policy.decision.decision import Decision
from policy.problems import Problem
from policy.request.items import ManifestDecisions
from policy.sampling.check import RequestCheck
from policy.sampling.manifest import EngineChecks
from service.admission.review import AdmissionReview
from service.log.record import LogRecord
from service.openapi.descriptions import FIELDS
from service.openapi.impacts import EXACT_IMPACT, IMPACT_TYPES, impact_answers
from service.openapi.request_checks import check_answers
from service.openapi.shapes import REF, TEXT, TIMESTAMP, Schema, list_of, nullable, object_of, ref

TYPES: Final = (
    *(Decision, Problem, DryRunComparison, DryRunComparisonOfAll, ManifestDecisions, LogRecord, AdmissionReview),
    *(RequestCheck, EngineChecks),
    *IMPACT_TYPES,
)
NAMES: Final = {
    "AdmissionReview": "AdmissionReviewResponse",
    "Response": "AdmissionResponse",
    "Status": "AdmissionStatus",
    "Alternative": "AlternativeDecision",
    "ClassOutcome": "ClassDecision",
    "Resolution": "DecidingRelease",
    "Undecided": "UndecidedRelease",
    "ProblemSummary": "KnownProblemSummary",
}
"""Types whose name is too general, or means something else in a generated client."""
CLOSED_FIELDS: Final = {
    "runner": "Runner",
    "outcome": "Outcome",
    "layer": "Layer",
    "effect": "Effect",
    "verdict": "Verdict",
}
"""Fields of any answer that are enumerations."""
EXACT_SCHEMAS: Final[dict[str, dict[str, Schema]]] = {
    "Decision": {"decision_id": {**TEXT, "format": "uuid"}},
    "Problem": {"type": ref("ProblemType")},
    "Assumption": {"why": ref("AssumptionReason")},
    "V2Path": {"by": ref("PathKind")},
    "MemberChange": {"member": ref("ComparedField")},
    "ClassDecision": {"reasons": {"type": "array", "items": ref("RuleEffect")}},
    "LogRecord": {
        "decision_id": {**TEXT, "format": "uuid"},
        "timestamp": TIMESTAMP,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "path": ref("LoggedPath"),
        "input": ref("LoggedRequest"),
        "result": ref("Decision"),
    },
    **EXACT_IMPACT,
}
"""Schemas of fields that are narrower than their types."""
SPARSE_TYPES: Final = frozenset({"LogRecord", "DocumentPlace"})
"""Types that leave out a field that has its default; other answers have all fields."""


def answers() -> dict[str, Schema]:
    """The schemas by name."""
    return {
        "DecisionAnswer": {
            "description": "The decision; for a manifest, one for each engine in it.",
            "anyOf": [ref("Decision"), ref("ManifestDecisions")],
        },
        "DryRunAnswer": {
            "description": "The explained decision; with candidate rules, both decisions and what differs.",
            "anyOf": [
                ref("Decision"),
                ref("ManifestDecisions"),
                ref("DryRunComparison"),
                ref("DryRunComparisonOfAll"),
            ],
        },
        "BatchAnswer": object_of(
            "The answers to a batch.",
            items=list_of(ref("BatchItemAnswer"), "the answers, in the order of the requests"),
        ),
        "BatchItemAnswer": {
            "description": "The answer to one request of a batch, or the problem with it.",
            "anyOf": [ref("Decision"), ref("ManifestDecisions"), ref("Problem")],
        },
        "AnswerLines": {
            **TEXT,
            "description": "A `BatchItemAnswer` as JSON on each line, in the order of the requests.",
            "contentMediaType": "application/x-ndjson",
        },
        **check_answers(),
        **impact_answers(),
        "Table": {**TEXT, "description": "The answer as a table for people."},
        **_typed_schemas(),
        "RuleEffect": object_of(
            "A rule that applies, and its effect.",
            rule={**TEXT, "description": "the rule's id"},
            effect={**ref("Effect"), "description": "what it does"},
        ),
        **_log(),
    }


def _typed_schemas() -> dict[str, Schema]:
    """The schemas of the types, with their enumerations and a description of each field."""
    (_, made) = msgspec.json.schema_components(TYPES, ref_template=REF)
    text = msgspec.json.encode(made).decode()
    for name, known in NAMES.items():
        text = text.replace(f'"{REF.format(name=name)}"', f'"{REF.format(name=known)}"')
    found: dict[str, Schema] = {}
    for name, schema in msgspec.json.decode(text).items():
        if "properties" not in schema:  # an enumeration, which has a description elsewhere
            continue
        known = NAMES.get(name, name)
        fields = {field: _field(known, field, child) for field, child in schema["properties"].items()}
        required = set(schema.get("required", ()))
        if name not in SPARSE_TYPES:
            required |= {field for field, child in schema["properties"].items() if "default" in child}
        found[known] = {
            "type": "object",
            "description": cleandoc(schema["description"]).partition("\n\n")[0].replace("``", "`"),
            "required": [field for field in fields if field in required],
            "properties": fields,
        }
    found["AdmissionResponse"]["properties"]["patch"] |= {"contentMediaType": "application/json-patch+json"}
    return found


def _field(name: str, field: str, schema: Schema) -> Schema:
    """The schema of a field, with its description."""
    exact = EXACT_SCHEMAS.get(name, {}).get(field)
    if exact is None and field in CLOSED_FIELDS:
        exact = nullable(ref(CLOSED_FIELDS[field])) if "anyOf" in schema else ref(CLOSED_FIELDS[field])
    found = {key: value for key, value in schema.items() if key != "default"} if exact is None else exact
    return {**found, "description": FIELDS[name][field]}


def _log() -> dict[str, Schema]:
    fields = {
        "request_id": {**TEXT, "description": "as sent"},
        "vllm_version": {**TEXT, "description": "the requested version, or the default release"},
        "beyond_verified": {**ref("BeyondVerified"), "description": "if the release is not known"},
        "layers": {
            **list_of(ref("Layer"), "if only vLLM's own decision was requested"),
            "minItems": 1,
            "maxItems": 1,
        },
        "facts": {**ref("Facts"), "description": "the facts, stated or derived"},
    }
    return {
        "LogPage": object_of(
            "Records, the newest first.",
            items=list_of(ref("LogRecord"), "the records"),
            next=nullable(TEXT, "the `until` of the page after this one; `null` if there is none"),
        ),
        "LoggedRequest": object_of(
            "A request that gives the same decision by the same rules.",
            "request_id",
            "beyond_verified",
            "layers",
            **fields,
        ),
    }
