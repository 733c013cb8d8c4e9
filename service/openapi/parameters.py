"""The parameters of the read endpoints in the OpenAPI document.

Not here: parsing. ``service.documents.query`` parses the names, the routes parse the values, and ``service.log.query``
parses the filters of the log, whose legal values are in ``service.log.filters``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.rules.releases import MAX_VERSION, series
from service.log import filters
from service.openapi.examples import request_examples
from service.openapi.shapes import ref

if TYPE_CHECKING:
    from policy.policy import Policy
    from policy.rules.releases import Releases

SUFFIX: Final = r"((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?"
RULE: Final[dict[str, Any]] = {"type": "string", "pattern": f"^{filters.RULE}$"}
LOGGED_RULE: Final[dict[str, Any]] = {**RULE, "maxLength": filters.MAX_TEXT}
TEXT: Final[dict[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": filters.MAX_TEXT,
    "pattern": f"^{filters.TEXT}$",
}
TIMESTAMP: Final[dict[str, Any]] = {
    "anyOf": [
        {
            "type": "string",
            "pattern": f"^{filters.AGO}$",
            "description": "a time ago",
            "examples": ["30m", "12h", "7d"],
        },
        {"type": "string", "pattern": f"^{filters.ID}$", "description": "a `decision_id`"},
        {
            "type": "string",
            "pattern": r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
            r"(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{3})?(Z|[+-]0[0-9]:00))?$",
            "description": "a date, which begins in UTC, or a date with a time (RFC 3339)",
            "examples": ["2026-11-21T12:00:00Z"],
        },
    ]
}
LIMIT: Final[dict[str, Any]] = {
    "type": "integer",
    "minimum": 1,
    "maximum": filters.MAX_LIMIT,
    "default": filters.DEFAULT_LIMIT,
}
LOG: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "runner": (f"the runner that was decided; `{filters.NULL}` where none was", ref("RunnerFilter")),
    "outcome": (
        f"the kind of step that decided; `{filters.NULL}` where the configuration could not be read",
        ref("OutcomeFilter"),
    ),
    "vllm_version": ("the release that decided", {**TEXT, "examples": ["0.23.0"]}),
    "requested_by": (
        "the caller: the name of a token, or an address",
        {**TEXT, "examples": ["controller", "127.0.0.1"]},
    ),
    "path": (
        "the endpoint, with or without its leading slash",
        {**TEXT, "examples": ["v1/decisions", "v1/decisions/batch", "v1/admission"]},
    ),
    "revision": ("the revision of the rules that decided", TEXT),
    "starts": ("whether vLLM would start", {"type": "boolean"}),
    "rule": ("the id of a rule in the reasons", LOGGED_RULE),
    "since": ("the first timestamp, or the first record, to include", TIMESTAMP),
    "until": ("the timestamp, or the record, to stop before", TIMESTAMP),
    "limit": ("the maximum number of records to return", LIMIT),
}


def in_query(name: str, description: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A query parameter."""
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema, **more}


def in_path(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A path parameter."""
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def version(releases: Releases) -> dict[str, Any]:
    """The parameter for a version: any version of a series that the rules know."""
    minors = sorted({series(release) for release in releases.known})
    known = "|".join(rf"{major}\.{minor}" for major, minor in minors)
    schema = {
        "type": "string",
        "maxLength": MAX_VERSION,
        "pattern": rf"^v?({known})(\.[0-9]{{1,4}})?{SUFFIX}$",
        "examples": [releases.default],
    }
    return in_query(
        "vllm_version", "only as in this vLLM release: any PEP 440 version of a series that the rules know", schema
    )


def parameters_of(path: str, policy: Policy) -> list[dict[str, Any]]:
    """The parameters of an endpoint."""
    rule = in_path("rule_id", "the id of a rule", {**RULE, "examples": [request_examples(policy).rule]})
    verbose = in_query(
        "verbose",
        "show what is loaded, and the result of the last reload",
        {"type": "string"},
        allowEmptyValue=True,
    )
    known_tag = {
        "name": "if-none-match",
        "in": "header",
        "required": False,
        "description": "the `ETag` that the client already has",
        "schema": {"type": "string"},
    }
    found = {
        "/v1/policy": [known_tag],
        "/v1/arguments": [
            known_tag,
            in_query(
                "name",
                "only the flag, with or without its dashes, or the variable of this name",
                {**TEXT, "examples": ["--max-model-len"]},
            ),
            version(policy.releases),
        ],
        "/v1/rules": [version(policy.releases)],
        "/v1/rules/{rule_id}": [rule, version(policy.releases)],
        "/v1/schemas/{name}": [in_path("name", "the kind of file", ref("SchemaName"))],
        "/readyz": [verbose],
        "/v1/log": [in_query(name, description, schema) for name, (description, schema) in LOG.items()],
        "/v1/decisions/{decision_id}": [
            in_path("decision_id", "the id in the decision", {"type": "string", "format": "uuid"})
        ],
    }
    return found.get(path, [])
