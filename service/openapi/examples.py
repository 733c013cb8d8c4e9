"""The examples of the OpenAPI document: requests, and this service's answers to them.

Answers are computed with the document, so that they are real; requests name loaded rules and known releases only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy.decision.decision import encode
from policy.request.request import read_request
from policy.rules.effects import Layer
from service.admission.handler import answer_review
from service.admission.review import API_VERSION, KIND, read_review
from service.log.record import LogRecord, record_json
from service.state.answers import today

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.decision.decision import Decision
    from policy.policy import Policy
    from policy.request.request import Request
    from policy.rules.releases import Releases
    from service.state.answers import Answers
    from service.state.state import ServiceState


def as_lines(items: Iterable[Any]) -> str:
    """The items as JSON, one a line."""
    return "".join(encode(item).decode() + "\n" for item in items)


QWEN: Final[dict[str, Any]] = {"model_config": {"architectures": ["Qwen3ForCausalLM"], "is_moe": False}}
NIXL: Final = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
CONFIG: Final = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
}
CONFIGS: Final = {"Qwen/Qwen3-8B": CONFIG}
ARGS: Final = [
    "serve",
    "Qwen/Qwen3-8B",
    "-tp",
    "2",
    "--kv-transfer-config",
    '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}',
]
DEPLOYMENT: Final = {"vllm_version": "0.23.0", "deployment": {"args": ARGS, "model_configs": CONFIGS}}
POD: Final = {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.23.0", "command": ["vllm"], "args": ARGS}]}
MANIFEST: Final = {"manifest": {"apiVersion": "v1", "kind": "Pod", "spec": POD}, "model_configs": CONFIGS}
EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "kv-connector": {
        "summary": "a dense Qwen3 with a KV connector",
        "value": {"vllm_version": "0.23.0", "facts": {**QWEN, "kv_transfer_config": NIXL}},
    },
    "default": {"summary": "a dense Qwen3, decided by the default release", "value": {"facts": QWEN}},
    "refused": {
        "summary": "the variable requests V2, which lacks a feature",
        "value": {
            "vllm_version": "0.24.0",
            "facts": {**QWEN, "parallel_config": {"enable_dbo": True}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}},
        },
    },
    "upstream": {
        "summary": "what vLLM alone would do",
        "value": {"facts": {**QWEN, "kv_transfer_config": NIXL}, "layers": ["upstream"]},
    },
    "deployment": {"summary": "a deployment as it is written", "value": DEPLOYMENT},
    "manifest": {"summary": "a Kubernetes object", "value": MANIFEST},
}
UID: Final = "705ab4f5-6393-11e8-b7cc-42010a800002"
ANNOTATIONS: Final = {
    "runner-policy/set-env": "true",
    "runner-policy/model-configs": msgspec.json.encode(CONFIGS).decode(),
}
REVIEW_EXAMPLE: Final = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "request": {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "qwen3",
        "namespace": "llm",
        "operation": "CREATE",
        "userInfo": {"username": "jane@example.com", "groups": ["system:authenticated"]},
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "qwen3", "annotations": ANNOTATIONS},
            "spec": POD,
        },
        "oldObject": None,
        "dryRun": False,
    },
}
METRICS_EXAMPLE: Final = (
    "# HELP runner_policy_workers processes that serve requests\n"
    "# TYPE runner_policy_workers gauge\n"
    "runner_policy_workers 1.0\n"
)


@dataclass(frozen=True, slots=True)
class RequestExamples:
    """Requests that the service answers by its loaded rules, and the id of a loaded rule."""

    single: dict[str, dict[str, Any]]
    batch: dict[str, Any]
    candidate: dict[str, Any]
    rule: str


def request_examples(policy: Policy) -> RequestExamples:
    """The examples for a policy; the rule is a house rule if there is one."""
    single = {
        name: {**example, "value": _in_known_release(example["value"], policy.releases)}
        for name, example in EXAMPLES.items()
    }
    default, kv_connector = single["default"]["value"], single["kv-connector"]["value"]
    rules = policy.catalogue.in_order()
    rule = next((rule.id for rule in rules if rule.layer is Layer.HOUSE), rules[0].id)
    return RequestExamples(
        single, {"items": [default, kv_connector]}, {"request": kv_connector, "remove": [rule]}, rule
    )


def _in_known_release(document: dict[str, Any], releases: Releases) -> dict[str, Any]:
    """The document, with the default release instead of one that is not known."""
    if document.get("vllm_version", releases.default) in releases.known:
        return document
    return {**document, "vllm_version": releases.default}


def example_decision(answers: Answers, document: dict[str, Any]) -> Decision:
    """The decision for a request's document."""
    return answers.policy.decide(read_request(document, answers.policy.releases), today())


def record_example(answers: Answers) -> LogRecord:
    """The record of a decision, as the log shows it."""
    document = request_examples(answers.policy).single["kv-connector"]["value"]
    request = read_request(document, answers.policy.releases)
    entry = answers.policy.answer(request, today()), request, "v1/decisions", "controller", 214_000, None
    return msgspec.json.decode(record_json(entry, '{"id":"runner-policy-0","version":"0.1.0"}'), type=LogRecord)


def review_example(service: ServiceState, *, mutating: bool) -> dict[str, Any]:
    """The answer to ``REVIEW_EXAMPLE``."""
    policy = service.answers.policy

    def decide(request: Request, *, is_trial: bool = False) -> Decision:  # noqa: ARG001  # nothing is recorded
        return policy.decide(request, today())

    options = service.job_settings().admission
    found = answer_review(read_review(REVIEW_EXAMPLE), policy.releases, decide, options, mutating=mutating)
    return msgspec.json.decode(encode(found.response), type=dict[str, Any])
