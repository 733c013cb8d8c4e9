"""The OpenAPI document: the hot calls, the schemas from the vocabulary and the answers' types, examples that are true.

Owns what the document says. The examples of requests are asked when the document is made, so that the
examples of answers are what this service really says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy import render
from policy.candidate import Comparison, ComparisonOfAll
from policy.decision import Decision, encode
from policy.intake.deployment import PLATFORMS
from policy.request import MAX_REQUEST_ID, WAYS, read_request
from policy.schema import facts_schema
from service.answers import Items, today
from service.log.record import Record, shown
from service.problems import KINDS, MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from service.answers import Answers
    from service.served import Served

REF: Final = "#/components/schemas/{name}"
QWEN: Final[dict[str, Any]] = {"model_config": {"architectures": ["Qwen3ForCausalLM"], "is_moe": False}}
NIXL: Final = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}

CONFIG: Final = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 36}
ARGS: Final = ["serve", "Qwen/Qwen3-8B", "-tp", "2", "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}']
DEPLOYMENT: Final = {"vllm_version": "0.23.0", "deployment": {"args": ARGS, "model_configs": {"Qwen/Qwen3-8B": CONFIG}}}
POD: Final = {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.23.0", "command": ["vllm"], "args": ARGS}]}
MANIFEST: Final = {"manifest": {"apiVersion": "v1", "kind": "Pod", "spec": POD}, "model_configs": {"Qwen/Qwen3-8B": CONFIG}}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "kv-connector": {"summary": "a dense Qwen3 with a KV connector", "value": {"vllm_version": "0.23.0", "facts": {**QWEN, "kv_transfer_config": NIXL}}},
    "default": {"summary": "a dense Qwen3, decided by the default release", "value": {"facts": QWEN}},
    "refused": {
        "summary": "the variable asks for V2, which lacks a feature",
        "value": {"vllm_version": "0.24.0", "facts": {**QWEN, "parallel_config": {"enable_dbo": True}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}},
    },
    "upstream": {"summary": "what vLLM by itself would do", "value": {"facts": {**QWEN, "kv_transfer_config": NIXL}, "layers": ["upstream"]}},
    "deployment": {"summary": "a deployment as it is written", "value": DEPLOYMENT},
    "manifest": {"summary": "a Kubernetes object", "value": MANIFEST},
}
BATCH_EXAMPLE: Final = {"items": [EXAMPLES["default"]["value"], EXAMPLES["kv-connector"]["value"]]}
CANDIDATE_EXAMPLE: Final = {"request": EXAMPLES["kv-connector"]["value"], "remove": ["kv-connector-fallback"]}


POSTS_PROBLEMS: Final = (
    *("malformed", "unauthorized", "forbidden", "too-slow", "revision-mismatch", "too-large", "unsupported-encoding", "invalid-request", "unknown-release"),
    *("model-config-needed", "unsupported-model", "too-many-requests", "log-unavailable", "engine-failed"),
)
RULE_EXAMPLE: Final = "kv-connector-fallback"


def document(base: dict[str, Any], served: Served) -> dict[str, Any]:
    """FastAPI's document of the showing calls, completed with the deciding ones, schemas and examples."""
    answers = served.answers
    (_, components) = msgspec.json.schema_components([Decision, Problem, Comparison, ComparisonOfAll, Items, Record], ref_template=REF)
    base["components"] = {"schemas": {**components, "Facts": facts_schema(), "Request": _request_schema(), **_deployment_schemas()}}
    base["paths"] = {**_deciding(answers), **{path: {"get": _showing(path, item["get"], served)} for path, item in base["paths"].items()}}
    return base


def _request_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "oneOf": [{"required": [way]} for way in WAYS],
        "additionalProperties": False,
        "properties": {
            "facts": {"$ref": REF.format(name="Facts")},
            "deployment": {"$ref": REF.format(name="Deployment")},
            "manifest": {"type": ["object", "array"], "description": "a Kubernetes object or list, or a chart's values; each vLLM container is decided"},
            "model_configs": {"$ref": REF.format(name="ModelConfigs"), "description": "beside a `manifest`"},
            "environment": {"$ref": REF.format(name="Environment"), "description": "beside a `manifest`"},
            "vllm_version": {"type": ["string", "null"], "description": "any PEP 440 version, with or without `v`; left out, the default release decides"},
            "layers": {
                "enum": [["upstream"], ["upstream", "house"], ["house", "upstream"], None],
                "description": '`["upstream"]` asks only what vLLM would do',
            },
            "request_id": {"type": ["string", "null"], "maxLength": MAX_REQUEST_ID, "description": "comes back in the answer"},
            "explain": {"type": "boolean", "default": False, "description": "adds `trace` and `assumptions`"},
            "beyond_verified": {"enum": ["nearest", None], "description": "decide an unknown release by the closest known one"},
        },
    }


def _deployment_schemas() -> dict[str, Any]:
    texts = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "null"]}}
    plugins = {"type": "object", "additionalProperties": False, "properties": {"logits_processors": {"type": "array", "items": {"type": "string"}}}}
    environment = {
        "platform": {"enum": [*PLATFORMS, None]},
        "has_triton": {"type": ["boolean", "null"]},
        "plugins": {"anyOf": [plugins, {"type": "null"}]},
    }
    deployment = {
        "args": {"type": ["array", "string"], "items": {"type": "string"}, "description": "a list of words, or one text as typed in a shell"},
        "env": texts,
        "model_configs": {"$ref": REF.format(name="ModelConfigs")},
        "files": {**texts, "description": "what arguments point to, by the name that they give it"},
        "environment": {"$ref": REF.format(name="Environment")},
    }
    return {
        "Deployment": {"type": "object", "additionalProperties": False, "properties": deployment},
        "Environment": {"type": ["object", "null"], "additionalProperties": False, "properties": environment, "description": "what no manifest shows"},
        "ModelConfigs": {"type": ["object", "null"], "additionalProperties": {"type": "object"}, "description": "each model's config.json by its name"},
    }


def record_example(answers: Answers) -> Record:
    """The record of a decision, as the log shows it."""
    request = read_request(EXAMPLES["kv-connector"]["value"], answers.policy.releases)
    noted = answers.policy.answer(request, today()), request, "v1/decisions", "controller", 214_000
    return msgspec.json.decode(shown(noted, '{"id":"runner-policy-0","version":"0.1.0"}'), type=Record)


def _decided(answers: Answers, document: dict[str, Any]) -> Decision:
    return answers.policy.decide(read_request(document, answers.policy.releases), today())


def _deciding(answers: Answers) -> dict[str, Any]:
    request = {"$ref": REF.format(name="Request")}
    decision = {"anyOf": [{"$ref": REF.format(name="Decision")}, {"$ref": REF.format(name="Items")}]}
    decided = _decided(answers, EXAMPLES["kv-connector"]["value"])
    explained = _decided(answers, {**EXAMPLES["kv-connector"]["value"], "explain": True})
    batch = {"type": "object", "required": ["items"], "additionalProperties": False, "properties": {"items": {"type": "array", "items": request}}}
    either = {
        "type": "object",
        "required": ["items"],
        "additionalProperties": False,
        "properties": {"items": {"type": "array", "items": {"anyOf": [decision, {"$ref": REF.format(name="Problem")}]}}},
    }
    lines = "".join(msgspec.json.encode(item).decode() + "\n" for item in BATCH_EXAMPLE["items"])
    texts = {"type": "array", "items": {"type": "string"}}
    every = {"enum": ["all"], "description": "changes for all deployments that there can be, in place of the request's alone"}
    candidate = {
        "type": "object",
        "required": ["request"],
        "additionalProperties": False,
        "properties": {
            "request": request,
            "rules": {**texts, "description": "rule files as YAML text"},
            "remove": {**texts, "description": "ids of rules"},
            "changes": every,
        },
    }
    form = {
        "type": "object",
        "required": ["deployment"],
        "properties": {"deployment": {"type": "string", "contentMediaType": "application/json"}, "rules": texts, "remove": texts, "changes": every},
    }
    bodies = {"application/json": {"schema": request, "examples": EXAMPLES}, "application/yaml": {"schema": request}}
    plain = {"schema": {"type": "string"}, "example": render.as_text(render.decision(decided))}
    dry_bodies = {
        "application/json": {
            "schema": {"anyOf": [request, candidate]},
            "examples": {**EXAMPLES, "candidate": {"summary": "what taking a rule away would change", "value": CANDIDATE_EXAMPLE}},
        },
        "application/yaml": {"schema": {"anyOf": [request, candidate]}},
        "multipart/form-data": {"schema": form},
    }
    compared = {"anyOf": [decision, {"$ref": REF.format(name="Comparison")}, {"$ref": REF.format(name="ComparisonOfAll")}]}
    items = {"items": [_decided(answers, item) for item in BATCH_EXAMPLE["items"]]}
    return {
        "/v1/decisions": _post(
            "Decide one deployment",
            "The runner, why, and what to do. A body is read as JSON whatever its type says, unless that is YAML.",
            bodies,
            {"application/json": {"schema": decision, "example": msgspec.to_builtins(decided)}, "text/plain": plain},
        ),
        "/v1/decisions/batch": _post(
            "Decide many deployments",
            "In order; an item's fault spoils only that item. As `application/x-ndjson` a request a line in and an answer a line out, streamed, of any length.",
            {
                "application/json": {"schema": batch, "examples": {"two": {"summary": "two deployments", "value": BATCH_EXAMPLE}}},
                "application/yaml": {"schema": batch},
                "application/x-ndjson": {"schema": {"type": "string"}, "example": lines},
            },
            {"application/json": {"schema": either, "example": msgspec.to_builtins(items)}, "application/x-ndjson": {"schema": {"type": "string"}}},
        ),
        "/v1/dry-run": _post(
            "Explain a decision, and try candidate rules",
            "Records nothing. With `rules` or `remove` it answers what the candidate rules would change; as a form, `curl -F deployment=@… -F rules=@…`.",
            dry_bodies,
            {"application/json": {"schema": compared, "example": msgspec.to_builtins(explained)}, "text/plain": plain},
            "rules-invalid",
            "rules-stopped",
            "too-many",
        ),
    }


def _post(summary: str, description: str, bodies: dict[str, Any], answers: dict[str, Any], *kinds: str) -> dict[str, Any]:
    return {
        "post": {
            "summary": summary,
            "description": description,
            "requestBody": {"required": True, "content": bodies},
            "responses": {"200": {"description": "the answer", "content": answers}, **_problems(*POSTS_PROBLEMS, *kinds)},
        }
    }


def _showing(path: str, call: dict[str, Any], served: Served) -> dict[str, Any]:
    """A showing call with its answer's example, shortened to one item where it is a list, and its problems."""
    answers = served.answers
    record = encode(record_example(answers))
    metrics = "# HELP runner_policy_workers processes that answer\n# TYPE runner_policy_workers gauge\nrunner_policy_workers 1.0\n"
    examples: dict[str, tuple[str, Any, tuple[str, ...]]] = {
        "/v1/policy": ("application/json", answers.policy_document(served.published), ()),
        "/v1/log": ("application/json", b'{"items":[%b],"next":null}' % record, ("invalid-request", "not-found", "log-unavailable")),
        "/v1/decisions/{decision_id}": ("application/json", record, ("not-found", "log-unavailable")),
        "/metrics": ("text/plain", encode(metrics), ()),
        "/v1/rules": ("application/json", answers.rules_document, ("invalid-request", "unknown-release")),
        "/v1/rules/{rule_id}": ("application/json", answers.rule_document(RULE_EXAMPLE), ("not-found", "invalid-request", "unknown-release")),
        "/v1/releases": ("application/json", answers.releases_document, ()),
        "/v1/facts": ("application/json", answers.facts_document, ()),
        "/livez": ("text/plain", b'"ok\\n"', ()),
        "/readyz": ("application/json", answers.ready_document, ("unauthorized", "forbidden", "not-ready")),
    }
    media_type, body, kinds = examples[path]
    content = {media_type: {"example": _shortened(msgspec.json.decode(body)), "schema": {"type": "string" if media_type == "text/plain" else "object"}}}
    responses: dict[str, Any] = {"200": {"description": "as shown", "content": content}, **_problems(*kinds)}
    if path == "/v1/policy":
        responses["304"] = {"description": "the revision in `If-None-Match` is the loaded one"}
    return {**call, "responses": responses}


def _shortened(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {key: value[:1] if isinstance(value, list) and key != "effects" else value for key, value in document.items()}


def _problems(*kinds: str) -> dict[str, Any]:
    by_status: dict[str, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(str(KINDS[kind][0]), []).append(kind)
    schema = {"$ref": REF.format(name="Problem")}
    return {
        status: {"description": "; ".join(f"`{kind}`: {KINDS[kind][1]}" for kind in found), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status, found in by_status.items()
    }
