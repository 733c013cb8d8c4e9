"""The OpenAPI document: every endpoint, with schemas from the vocabulary and the answers' types, and real examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.openapi.catalogue import paths_of_read_endpoints
from service.openapi.decisions import decision_paths
from service.openapi.responses import SCHEMES
from service.openapi.schemas import components
from service.openapi.tags import TAGS

if TYPE_CHECKING:
    from service.state.state import ServiceState

INFO: Final = {
    "description": "Decides by rules whether a deployment gets vLLM's model runner V1 or V2, why, and whether "
    "vLLM starts. Every error is a problem (RFC 9457).",
    "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
}


def document(base: dict[str, Any], service: ServiceState) -> dict[str, Any]:
    """FastAPI's document of the read endpoints, completed with the deciding ones."""
    base["components"] = {"schemas": components(), "securitySchemes": SCHEMES}
    base["info"] |= INFO
    base["tags"] = TAGS
    base["paths"] = {**decision_paths(service), **paths_of_read_endpoints(base["paths"], service)}
    return base
