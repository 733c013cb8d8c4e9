"""The landing page of the loaded rules: what this service is, which rules are loaded, and links.

Owns the contents, as JSON, text and HTML. They are the same for every caller, and contain nothing from a request. The
answer of the example is the loaded policy's own. Not here: the endpoint (``service.api.landing``).
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy.decision.decision import encode
from policy.render import as_text, decision
from policy.request.request import read_request
from service.documents.accept import HTML, JSON, TEXT

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
STYLE: Final = (
    "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}"
    "pre{padding:1rem;overflow-x:auto;background:#f3f3f3;color:#111}"
)


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
        HTML: _html(title, loaded, answer).encode(),
    }


def _text(title: str, loaded: dict[str, str], answer: str) -> str:
    rows = "".join(f"{name:<10}{value}\n" for name, value in {**loaded, **LINKS}.items())
    return f"{title}\n{SENTENCE}\n\n{rows}\n$ {COMMAND}\n{answer}"


def _html(title: str, loaded: dict[str, str], answer: str) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in loaded.items())
    links = "".join(f'<li>{name}: <a href="{path}">{path}</a></li>\n' for name, path in LINKS.items())
    return f"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style></head>
<body>
<h1>{escape(title)}</h1>
<p>{escape(SENTENCE)}</p>
<dl>
{rows}</dl>
<ul>
{links}</ul>
<pre>$ {escape(COMMAND)}
{escape(answer)}</pre>
</body>
</html>
"""
