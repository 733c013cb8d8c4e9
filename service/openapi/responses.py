"""The problems of endpoints in the OpenAPI document, by status, with their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.openapi.shapes import ref
from service.problems import KINDS, MEDIA_TYPE

if TYPE_CHECKING:
    from service.state.state import ServiceState

BEARER: Final = "bearer"
BODY_PROBLEMS: Final = (
    "malformed",
    "request-timeout",
    "revision-mismatch",
    "too-large",
    "unsupported-encoding",
    "invalid-request",
    "busy",
    "internal-error",
)
DECISION_PROBLEMS: Final = (
    "unknown-release",
    "model-config-needed",
    "unsupported-model",
    "too-much-work",
    "log-unavailable",
    "engine-failed",
)
ACCESS_PROBLEMS: Final = ("unauthorized", "forbidden", "cross-origin", "unknown-host", "too-many-requests")
LARGE: Final = "headers-too-large"
FULL: Final = "too-many-connections"
"""The answer of a process at its limit of connections, except on ``service.auth.access.OPEN_PATHS``."""
STOPPING: Final = "stopping"
"""The answer to a request that is not finished when the service stops."""
HEADERS: Final[dict[str, dict[str, Any]]] = {
    "401": {
        "WWW-Authenticate": {
            "description": "the authentication scheme (RFC 6750)",
            "required": True,
            "schema": {"const": "Bearer"},
        }
    },
    "429": {
        "Retry-After": {
            "description": "seconds to wait before a retry",
            "required": True,
            "schema": {"type": "integer", "minimum": 1},
        }
    },
    "503": {
        "Retry-After": {
            "description": "seconds to wait before a retry",
            "required": True,
            "schema": {"type": "integer", "minimum": 1},
        }
    },
}
SCHEMES: Final = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "a token made by `runner-policy token new`, if the service requires one",
    }
}


def security(service: ServiceState, scope: str | None, *, always: bool = True) -> dict[str, Any]:
    """The token scope that an endpoint needs; optional without tokens, or if ``always`` is false."""
    if scope is None:
        return {"security": []}
    wanted = {BEARER: [scope]}
    return {"security": [wanted] if always and service.access.tokens is not None else [{}, wanted]}


def problems(*kinds: str) -> dict[str, Any]:
    """The responses of kinds of problem, by status."""
    by_status: dict[str, list[str]] = {}
    for kind in kinds:
        by_status.setdefault(str(KINDS[kind][0]), []).append(kind)
    schema = ref("Problem")
    return {
        status: {
            "description": "; ".join(f"`{kind}`: {KINDS[kind][1]}" for kind in names),
            "content": {MEDIA_TYPE: {"schema": schema}, "text/plain": {"schema": {"type": "string"}}},
            **({"headers": HEADERS[status]} if status in HEADERS else {}),
        }
        for status, names in sorted(by_status.items())
    }
