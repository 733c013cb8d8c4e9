"""The OpenAPI document: every endpoint, with schemas from the vocabulary and the answers' types, and real examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.openapi.catalogue import read_paths
from service.openapi.decisions import decision_paths
from service.openapi.responses import SCHEMES
from service.openapi.schemas import components

if TYPE_CHECKING:
    from service.state.state import ServiceState


def document(base: dict[str, Any], service: ServiceState) -> dict[str, Any]:
    """FastAPI's document of the read endpoints, completed with the deciding ones."""
    base["components"] = {"schemas": components(), "securitySchemes": SCHEMES}
    base["paths"] = {**decision_paths(service), **read_paths(base["paths"], service)}
    return base
