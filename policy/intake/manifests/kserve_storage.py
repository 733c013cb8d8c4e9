"""The models that KServe mounts in a component: its ``storageUris``, and the model of ``STORAGE_URI``.

Read at KServe 0.20, August 2026. Owns their paths, and their names on the hub.
"""

from __future__ import annotations

from collections import Counter
from posixpath import commonpath
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.huggingface_server import MODEL_PATH
from policy.intake.command.paths import absolute_path
from policy.intake.manifests.storage import hub_name

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

CLAIM: Final = "pvc://"
STORAGE_URI: Final = "STORAGE_URI"
"""The variable by which a user's container names a model; KServe mounts it at ``MODEL_PATH``."""


def storage_mounts(component: ManifestNode) -> list[str]:
    """The paths at which KServe mounts the ``storageUris`` of a component, or the model of ``STORAGE_URI``.

    Each claim is a volume. The other URIs share one volume, which is mounted at their common folder.
    """
    claims: list[str] = [MODEL_PATH] if _storage_variables(component.value) else []
    others: list[str] = []
    for item in component.get("storageUris").items():
        path = absolute_path(item.get("mountPath").text() or MODEL_PATH)
        (claims if (item.get("uri").text() or "").startswith(CLAIM) else others).append(path)
    return [*claims, *([commonpath(others)] if others else [])]


def storage_models(component: ManifestNode) -> dict[str, str]:
    """The names on the hub of the models that KServe mounts, by their paths.

    A path at which several URIs are, whatever their schemes, has no name: which files are there is not known.
    """
    uris = [
        (absolute_path(item.get("mountPath").text() or MODEL_PATH), item.get("uri").text() or "")
        for item in component.get("storageUris").items()
    ]
    stated = [variable.get("value") for variable in _storage_variables(component.value)]
    if stated:
        uri = stated[0] if all(value == stated[0] for value in stated) else None
        uris.append((MODEL_PATH, uri if isinstance(uri, str) else ""))
    counts = Counter(path for path, _ in uris)
    return {path: name for path, uri in uris if counts[path] == 1 and (name := hub_name(uri))}


def _storage_variables(component: object) -> list[dict[str, Any]]:
    """The variables ``STORAGE_URI`` of a component's containers; invalid values are reported elsewhere."""
    containers = component.get("containers") if isinstance(component, dict) else None
    variables = (container.get("env") for container in _mappings(containers))
    return [variable for env in variables for variable in _mappings(env) if variable.get("name") == STORAGE_URI]


def _mappings(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
