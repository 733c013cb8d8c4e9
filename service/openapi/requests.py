"""The schemas of the deciding endpoints' bodies.

A schema describes a request as far as it can; the readers check the rest, with better messages. Not here: Kubernetes
admission reviews (``reviews``).
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy.checks.candidate import MAX_RULES
from policy.facts.vocabulary import MAX_TEXT
from policy.request.request import MAX_REQUEST_ID
from policy.rules.effects import Layer
from policy.rules.json_schema import facts_schema
from service.openapi.impacts import impact_request
from service.openapi.request_checks import check_requests
from service.openapi.shapes import TEXT, Schema, nullable, ref

FACT_TEXT: Schema = {"type": "string", "maxLength": MAX_TEXT}
COMPARES_ALL: Final = "`all` compares all possible deployments, not only the request's"
FREE: Schema = {"type": "object", "additionalProperties": True}


def requests() -> dict[str, Schema]:
    """The schemas by name."""
    return {
        "DecisionRequest": {
            "description": "A deployment to decide: its facts, the deployment as written, or a manifest.",
            "anyOf": [ref("FactsRequest"), ref("DeploymentRequest"), ref("ManifestRequest")],
        },
        **_decision_requests(),
        **check_requests(_decision_requests()),
        **impact_request(),
        "Facts": _without_defaults(facts_schema()),
        "FactText": {**FACT_TEXT, "description": "The text of a fact."},
        **_deployment(),
        "BatchRequest": {
            "type": "object",
            "description": "Many deployments to decide.",
            "required": ["items"],
            "additionalProperties": False,
            "properties": {
                "items": {
                    "type": "array",
                    "items": ref("DecisionRequest"),
                    "description": "the requests; the answers have the same order",
                }
            },
        },
        "RequestLines": {
            "type": "string",
            "description": "A `DecisionRequest` as JSON on each line.",
            "contentMediaType": "application/x-ndjson",
        },
        "DryRunRequest": {
            "description": "A request to explain, or one to decide by candidate rules as well.",
            "anyOf": [ref("DecisionRequest"), ref("CandidateRequest")],
        },
        "CandidateRequest": _candidate(),
        "DryRunForm": _form(),
    }


def _decision_requests() -> dict[str, Schema]:
    common = {
        "vllm_version": nullable(
            TEXT, "any PEP 440 version, with or without `v`; if left out, the default release decides"
        ),
        "layers": nullable(
            ref("Layers"),
            '`["upstream"]` selects what vLLM alone would do; if left out, both layers decide',
        ),
        "request_id": nullable(ref("RequestId"), "returned in the answer"),
        "explain": {
            "type": "boolean",
            "description": "adds `trace`, `assumptions`, `remedies` and the like; default: `false`",
        },
        "beyond_verified": nullable(
            ref("BeyondVerified"), "`nearest` decides an unknown release as the closest known one"
        ),
    }

    def request(description: str, name: str, value: Schema, **more: Schema) -> Schema:
        return {
            "type": "object",
            "description": description,
            "required": [name],
            "additionalProperties": False,
            "properties": {name: value, **more, **common},
        }

    manifest = {
        "anyOf": [ref("ManifestObject"), {"type": "array", "items": ref("ManifestObject")}],
        "description": "a Kubernetes object or list, or a chart's values; each vLLM container is decided",
    }
    return {
        "FactsRequest": request(
            "A deployment by the facts that the rules read.",
            "facts",
            {**ref("Facts"), "description": "vLLM's configuration, as far as the rules read it"},
        ),
        "DeploymentRequest": request(
            "A deployment as its owner wrote it.",
            "deployment",
            {**ref("Deployment"), "description": "arguments, variables and models"},
        ),
        "ManifestRequest": request(
            "A Kubernetes manifest, or a chart's values.",
            "manifest",
            manifest,
            model_configs=nullable(ref("ModelConfigs"), "for all engines in the manifest"),
            environment=nullable(ref("Environment"), "for all engines in the manifest"),
            override_images={
                "type": "boolean",
                "description": "whether `vllm_version` decides all engines, whatever their images show (`false`)",
            },
        ),
        "Layers": {
            "type": "array",
            "description": "The layers that decide; `upstream` is one of them.",
            "items": ref("Layer"),
            "minItems": 1,
            "maxItems": len(Layer),
            "uniqueItems": True,
            "contains": {"const": str(Layer.UPSTREAM)},
        },
        "RequestId": {**TEXT, "maxLength": MAX_REQUEST_ID, "description": "The caller's own id of a request."},
        "ManifestObject": {**FREE, "description": "A Kubernetes object, or a chart's values."},
    }


def _without_defaults(schema: Schema) -> Schema:
    """The schema of facts with each default in the description.

    A generated client sends each ``default`` as if the caller had stated it, but a fact that is not stated has another
    default in some releases, and is listed among the assumptions.
    """
    found = {key: value for key, value in schema.items() if key != "default"}
    if "default" in schema:
        found["description"] += f"; default: `{msgspec.json.encode(schema['default']).decode()}`"
    if "properties" in schema:
        found["properties"] = {name: _without_defaults(child) for name, child in schema["properties"].items()}
        for name, child in found["properties"].items():
            child.setdefault("description", f"facts of vLLM's `{name}`")
    if schema.get("items") == FACT_TEXT:
        found["items"] = ref("FactText")
    if "maxLength" in schema and isinstance(schema["type"], list):
        kinds = [ref("FactText") if kind == "string" else {"type": kind} for kind in schema["type"]]
        return {"description": found["description"], "anyOf": kinds}
    return found


def _deployment() -> dict[str, Schema]:
    plugins = {
        "type": "object",
        "description": "what installed packages add to vLLM",
        "additionalProperties": False,
        "properties": {
            "logits_processors": {
                "type": "array",
                "items": TEXT,
                "description": "entry points of the group `vllm.logits_processors`",
            }
        },
    }
    environment = {
        "platform": nullable(ref("Platform"), "default: `cuda`"),
        "has_triton": {"type": ["boolean", "null"], "description": "whether Triton can be used; default: `true`"},
        "has_pinned_memory": {
            "type": ["boolean", "null"],
            "description": "whether memory of the host can be pinned, as everywhere but on WSL; default: `true`",
        },
        "plugins": nullable(plugins, "plugins of the serving image; none by default"),
        "transformers": {
            "type": ["string", "null"],
            "description": "the release of Transformers in the image, such as `5.14.1`; default: the newest that vLLM "
            "allowed when it was published",
        },
    }
    texts: Schema = {"type": ["object", "null"], "additionalProperties": nullable(TEXT)}
    deployment = {
        "args": {
            "anyOf": [{"type": "array", "items": TEXT}, TEXT],
            "description": "a list of words, or one text as typed in a shell",
        },
        "env": {**texts, "description": "environment variables; `null` for a value that is not known"},
        "model_configs": nullable(ref("ModelConfigs"), "the configuration of each model"),
        "files": {**texts, "description": "files that arguments refer to, by the name that they use"},
        "environment": nullable(ref("Environment"), "the engine's platform, Triton, memory, plugins and Transformers"),
    }
    return {
        "Deployment": {
            "type": "object",
            "description": "A deployment as written: arguments, variables and models.",
            "additionalProperties": False,
            "properties": deployment,
        },
        "Environment": {
            "type": "object",
            "description": "The engine's platform, Triton and plugins, which no manifest shows.",
            "additionalProperties": False,
            "properties": environment,
        },
        "ModelConfigs": {
            "type": "object",
            "description": "Each model's `config.json` by its name.",
            "additionalProperties": ref("ModelConfig"),
        },
        "ModelConfig": {**FREE, "description": "The content of a model's `config.json`."},
    }


def _candidate_fields() -> dict[str, Schema]:
    """The fields of a dry run with candidate rules beside the request."""
    texts = {"type": "array", "items": TEXT, "maxItems": MAX_RULES}
    return {
        "rules": {**texts, "description": "rule files as YAML text; a rule with the id of a loaded one replaces it"},
        "remove": {**texts, "description": "ids of loaded rules to remove"},
        "cases": {**texts, "description": "files of cases as YAML text, which are run with these rules"},
    }


def _candidate() -> Schema:
    changes = nullable(ref("CandidateChanges"), COMPARES_ALL)
    request = {**ref("DecisionRequest"), "description": "the deployment to decide by both"}
    return {
        "type": "object",
        "description": "A request to decide by the loaded rules and by candidate rules.",
        "required": ["request"],
        "additionalProperties": False,
        "properties": {"request": request, **_candidate_fields(), "changes": changes},
    }


def _form() -> Schema:
    deployment = {
        **TEXT,
        "contentMediaType": "application/json",
        "description": "a `DecisionRequest` as JSON, or as YAML if its file name ends in `.yaml` or `.yml`",
    }
    changes = {**ref("CandidateChanges"), "description": COMPARES_ALL}
    return {
        "type": "object",
        "description": "A dry run with candidate rules as a form, for `curl -F`.",
        "required": ["deployment"],
        "additionalProperties": False,
        "properties": {"deployment": deployment, **_candidate_fields(), "changes": changes},
    }
