"""The schemas of the document: those of answers from their types, those of requests beside the code that reads them.

A schema describes a request as far as it can; the readers check the rest, with better messages.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy.checks.candidate import MAX_RULES
from policy.checks.comparison import DryRunComparison, DryRunComparisonOfAll
from policy.decision.decision import Decision
from policy.intake.deployment import PLATFORMS
from policy.problems import Problem
from policy.request.items import ManifestDecisions
from policy.request.request import INPUTS, MAX_REQUEST_ID
from policy.rules.json_schema import facts_schema
from service.admission.review import API_VERSION, KIND, MAX_UID, OPERATIONS, STARTING_OPERATIONS, AdmissionReview
from service.log.record import Record

Schema = dict[str, Any]
REF: Final = "#/components/schemas/{name}"
TEXT: Final[Schema] = {"type": ["string", "null"]}
FREE: Final[Schema] = {"type": ["object", "null"]}


def ref(name: str) -> Schema:
    """A reference to one of the ``components``."""
    return {"$ref": REF.format(name=name)}


def components() -> dict[str, Schema]:
    """Every schema that has a name."""
    (_, found) = msgspec.json.schema_components(
        [Decision, Problem, DryRunComparison, DryRunComparisonOfAll, ManifestDecisions, Record, AdmissionReview],
        ref_template=REF,
    )
    found["Response"]["properties"]["patch"] |= {"contentMediaType": "application/json-patch+json"}
    found["Record"]["properties"] |= _record()
    mine = {
        "Page": _page(),
        "Facts": facts_schema(),
        "Request": _request(),
        "Batch": _batch(),
        "BatchAnswer": _batch_answer(),
        "Candidate": _candidate(),
    }
    return {**found, **mine, **_deployment(), "Form": _form(), "Review": _review()}


def _record() -> dict[str, Schema]:
    """The fields of a record that are stored as JSON."""
    return {
        "decision_id": {"type": "string", "format": "uuid"},
        "timestamp": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "input": {**ref("Request"), "required": ["vllm_version", "facts"]},
        "result": ref("Decision"),
    }


def _page() -> Schema:
    following = {**TEXT, "description": "the `until` of the page after this one; null where nothing is left"}
    return {
        "title": "Page",
        "description": "Records, the newest first.",
        "type": "object",
        "required": ["items", "next"],
        "properties": {"items": {"type": "array", "items": ref("Record")}, "next": following},
    }


def _request() -> Schema:
    return {
        "type": "object",
        "oneOf": [{"required": [name]} for name in INPUTS],
        "additionalProperties": False,
        "properties": {
            "facts": ref("Facts"),
            "deployment": ref("Deployment"),
            "manifest": {
                "type": ["object", "array"],
                "description": "a Kubernetes object or list, or a chart's values; each vLLM container is decided",
            },
            "model_configs": {**ref("ModelConfigs"), "description": "beside a `manifest`"},
            "environment": {**ref("Environment"), "description": "beside a `manifest`"},
            "vllm_version": {
                **TEXT,
                "description": "any PEP 440 version, with or without `v`; left out, the default release decides",
            },
            "layers": {
                "enum": [["upstream"], ["upstream", "house"], ["house", "upstream"], None],
                "description": '`["upstream"]` asks only what vLLM would do',
            },
            "request_id": {**TEXT, "maxLength": MAX_REQUEST_ID, "description": "comes back in the answer"},
            "explain": {"type": "boolean", "default": False, "description": "adds `trace` and `assumptions`"},
            "beyond_verified": {
                "enum": ["nearest", None],
                "description": "decide an unknown release by the closest known one",
            },
        },
    }


def _batch() -> Schema:
    return {
        "type": "object",
        "required": ["items"],
        "additionalProperties": False,
        "properties": {"items": {"type": "array", "items": ref("Request")}},
    }


def _batch_answer() -> Schema:
    items = {"type": "array", "items": {"anyOf": [ref("Decision"), ref("ManifestDecisions"), ref("Problem")]}}
    return {"type": "object", "required": ["items"], "additionalProperties": False, "properties": {"items": items}}


def _deployment() -> dict[str, Schema]:
    texts = {**FREE, "additionalProperties": TEXT}
    plugins = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"logits_processors": {"type": "array", "items": {"type": "string"}}},
    }
    environment = {
        "platform": {"enum": [*PLATFORMS, None]},
        "has_triton": {"type": ["boolean", "null"]},
        "plugins": {"anyOf": [plugins, {"type": "null"}]},
    }
    deployment = {
        "args": {
            "type": ["array", "string"],
            "items": {"type": "string"},
            "description": "a list of words, or one text as typed in a shell",
        },
        "env": texts,
        "model_configs": ref("ModelConfigs"),
        "files": {**texts, "description": "what arguments point to, by the name that they give it"},
        "environment": ref("Environment"),
    }
    return {
        "Deployment": {"type": "object", "additionalProperties": False, "properties": deployment},
        "Environment": {
            **FREE,
            "additionalProperties": False,
            "properties": environment,
            "description": "the engine's platform, Triton and plugins, which no manifest shows",
        },
        "ModelConfigs": {
            **FREE,
            "additionalProperties": {"type": "object"},
            "description": "each model's config.json by its name",
        },
    }


def _trying() -> dict[str, Schema]:
    """The fields of a dry run beside the request."""
    texts = {"type": "array", "items": {"type": "string"}, "maxItems": MAX_RULES}
    return {
        "rules": {**texts, "description": "rule files as YAML text"},
        "remove": {**texts, "description": "ids of rules"},
        "changes": {
            "enum": ["all", None],
            "description": "changes for all deployments that there can be, in place of the request's alone",
        },
    }


def _candidate() -> Schema:
    return {
        "type": "object",
        "required": ["request"],
        "additionalProperties": False,
        "properties": {"request": ref("Request"), **_trying()},
    }


def _form() -> Schema:
    deployment = {
        "type": "string",
        "contentMediaType": "application/json",
        "description": "a request; YAML where the part's file is called so",
    }
    members = {**_trying(), "changes": {"const": "all", "description": "changes for all deployments that there can be"}}
    return {
        "type": "object",
        "required": ["deployment"],
        "additionalProperties": False,
        "properties": {"deployment": deployment, **members},
    }


def _review() -> Schema:
    """A review as an API server sends it; unread fields may be anything."""

    def named(*members: str) -> Schema:
        return {**FREE, "properties": dict.fromkeys(members, TEXT)}

    texts = {"type": ["array", "null"], "items": TEXT}
    user = {
        **FREE,
        "properties": {
            "username": TEXT,
            "uid": TEXT,
            "groups": texts,
            "extra": {**FREE, "additionalProperties": texts},
        },
    }
    kinds = named("group", "version", "kind")
    starting: Schema = {"properties": {"operation": {"enum": list(STARTING_OPERATIONS)}}}
    request = {
        "type": "object",
        "required": ["uid", "operation", "kind"],
        "properties": {
            "uid": {"type": "string", "minLength": 1, "maxLength": MAX_UID},
            "operation": {"enum": list(OPERATIONS)},
            "kind": {
                "type": "object",
                "required": ["kind"],
                "properties": {"group": TEXT, "version": TEXT, "kind": {"type": "string", "minLength": 1}},
            },
            "requestKind": kinds,
            **dict.fromkeys(("resource", "requestResource"), named("group", "version", "resource")),
            **dict.fromkeys(("name", "namespace", "subResource", "requestSubResource"), TEXT),
            "userInfo": user,
            **dict.fromkeys(("object", "oldObject", "options"), FREE),
            "dryRun": {"type": ["boolean", "null"]},
        },
        "if": starting,
        "then": {"required": ["object"], "properties": {"object": {"type": "object"}}},
    }
    members = {"apiVersion": {"const": API_VERSION}, "kind": {"const": KIND}, "request": request}
    return {"type": "object", "required": list(members), "properties": members}
