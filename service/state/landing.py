"""The landing page of the loaded rules: what this service is, which rules are loaded, and links.

Owns the contents, as JSON and text. They are the same for every caller, and contain nothing from a request. The
answer of the example is the loaded policy's own. Not here: the endpoint (``service.api.landing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy.decision.decision import encode
from policy.render import as_text, decision
from policy.request.request import read_request
from service.documents.accept import JSON, TEXT

if TYPE_CHECKING:
    from datetime import date

    from policy.decision.decision import Decision
    from policy.policy import Policy

SENTENCE: Final = (
    "Decides which vLLM model runner, V1 or V2, a deployment gets, with every reason, and whether vLLM will start."
)
LINKS: Final = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "policy": "/v1/policy",
    "rules": "/v1/rules",
    "releases": "/v1/releases",
    "live": "/livez",
    "ready": "/readyz",
    "metrics": "/metrics",
}
BODY: Final = """\
{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]},
           "kv_transfer_config": {"kv_connector": "NixlConnector"}}}"""
EXAMPLE: Final[dict[str, Any]] = msgspec.json.decode(BODY)
SHOWN_FIELDS: Final = ("runner", "outcome", "starts", "summary", "set_env")
"""The fields of a decision that the JSON form shows."""
COMMAND: Final = f"curl -sS localhost:8080/v1/decisions -H 'accept: text/plain' -d '\n{BODY}'"


def landing_document(policy: Policy, example: Decision, version: str) -> dict[str, Any]:
    """The JSON form, with the decision on ``EXAMPLE``."""
    known = policy.releases.known
    return {
        "service": "Runner Policy",
        "description": SENTENCE,
        "version": version,
        "revision": policy.revision,
        "rules": len(policy.catalogue.rules),
        "releases": {"count": len(known), "first": known[0], "last": known[-1], "default": policy.releases.default},
        "links": LINKS,
        "example": {
            "path": "/v1/decisions",
            "request": EXAMPLE,
            "answer": {name: getattr(example, name) for name in SHOWN_FIELDS},
        },
    }


def landing_forms(policy: Policy, day: date, version: str) -> dict[bytes, bytes]:
    """The landing page by media type."""
    example = policy.decide(read_request(EXAMPLE, policy.releases), day)
    document = landing_document(policy, example, version)
    title, releases, answer = f"Runner Policy {version}", document["releases"], as_text(decision(example))
    loaded = {
        "loaded": f"{document['rules']} rules, {document['revision']}",
        "vLLM": "{count} releases, {first} to {last}; {default} by default".format(**releases),
    }
    return {
        JSON: encode(document),
        TEXT: _text(title, loaded, answer).encode(),
    }


def _text(title: str, loaded: dict[str, str], answer: str) -> str:
    rows = "".join(f"{name:<10}{value}\n" for name, value in {**loaded, **LINKS}.items())
    return f"{title}\n{SENTENCE}\n\n{rows}\n$ {COMMAND}\n{answer}"
