"""Kthena's ModelServing and ModelBooster (``workload.serving.volcano.sh/v1alpha1``, read at main, October 2026).

A ModelServing has pod templates. For a ModelBooster its controller builds the command of each worker: the fields of
`config` are vLLM's flags, in the order of their names, and the model is a folder of the cache.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from policy.intake.manifests import storage
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import container_signs
from policy.intake.manifests.pods import read_env_from, read_pod, read_shared_env

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

ADDED: Final = "added by Kthena"
MODULE: Final = "vllm.entrypoints.openai.api_server"
TYPES: Final = {"vLLM": ("server",), "vLLMDisaggregated": ("prefill", "decode")}
"""The types of workers of a backend that start vLLM, by the type of the backend."""
GROUP: Final[dict[str, str | None]] = {"GROUP_SIZE": None, "ENTRY_ADDRESS": None, "WORKER_INDEX": None}
"""The variables that Kthena sets in each pod of a role."""


def read_model_serving(document: ManifestNode) -> None:
    """Read a ModelServing: the entry and the workers of each role."""
    for role in document.get("spec", "template", "roles").items():
        read_pod(role.get("entryTemplate", "spec"), GROUP)
        read_pod(role.get("workerTemplate", "spec"), GROUP)


def read_model_booster(document: ManifestNode) -> None:
    """Read a ModelBooster: an engine for each worker of its backend that starts vLLM."""
    backend = document.get("spec", "backend")
    for worker in backend.get("workers").items():
        if worker.get("type").text() in TYPES.get(backend.get("type").text() or "", ()):
            _read_worker(backend, worker)


def _read_worker(backend: ManifestNode, worker: ManifestNode) -> None:
    is_alone = worker.get("type").text() == "server"
    draft = EngineDraft(backend if is_alone else worker)
    draft.image = worker.get("image").text()
    draft.hardware += container_signs(worker)
    uri = backend.get("modelURI").text() or ""
    folder = f"{_cache_path(backend.get('cacheURI').text() or '')}/{_folder_of(uri)}"
    draft.add(ADDED, "python3", "-m", MODULE, "--model", folder)
    storage.mount(draft, uri, folder)
    for name, value in sorted(worker.get("config").fields(), key=lambda field: field[0]):
        text = value.scalar()
        if text is not None:
            draft.add(f"config.{name}", f"--{name.replace('_', '-')}", *([text] if text else []))
    if (worker.get("pods").count() or 0) > 1:
        draft.add(ADDED, "--distributed_executor_backend", "ray")
    read_env_from(backend.get("envFrom"), draft)
    read_shared_env(backend.get("env"), draft)
    draft.env["VLLM_USE_V1"] = "1"
    draft.finish()


def _folder_of(uri: str) -> str:
    """The folder of a model in the cache, which Kthena names by the MD5 of its URI."""
    return hashlib.md5(uri.encode(errors="replace"), usedforsecurity=False).hexdigest()


def _cache_path(uri: str) -> str:
    """The folder in which the cache is mounted: the part after the scheme."""
    _, _, path = uri.partition("://")
    return f"/{path.strip('/')}" if path.strip("/") else ""
