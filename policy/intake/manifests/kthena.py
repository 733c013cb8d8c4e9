"""Kthena's ModelServing and ModelBooster (``workload.serving.volcano.sh/v1alpha1``, read at main, October 2026).

A ModelServing has pod templates. For a ModelBooster its controller builds the command of each worker: the fields of
`config` are vLLM's flags, in the order of their names, and the model is a folder of the cache.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from policy.intake.manifests import storage
from policy.intake.manifests.controller_fields import KTHENA_BACKEND, KTHENA_ROLE, KTHENA_WORKER
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import container_signs
from policy.intake.manifests.pods import read_env_from, read_pod, read_shared_env
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

CONTROLLER_PLACE: Final = "added by Kthena"
MODULE: Final = "vllm.entrypoints.openai.api_server"
TYPES: Final = {"vLLM": ("server",), "vLLMDisaggregated": ("prefill", "decode")}
"""The types of workers of a backend that start vLLM, by the type of the backend."""
INSTALLED_CONNECTORS: Final = frozenset({"MooncakeConnector", "NixlConnector"})
"""The connectors whose packages Kthena installs in a shell before the start, if a worker has a GPU."""
SKIP_VARIABLE: Final = "KTHENA_SKIP_ENGINE_DEPENDENCY_INSTALL"
"""The variable that turns this off."""
SHELL_REMEDY: Final = f"an image with the connector's package and `{SKIP_VARIABLE}=true` in `env` avoid it"
TRUE_VALUES: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
GPU: Final = "nvidia.com/gpu"
SHELL_TEXT: Final = re.compile(r"[^A-Za-z0-9_@%+=:,./-]")
GROUP: Final[dict[str, str | None]] = {"GROUP_SIZE": None, "ENTRY_ADDRESS": None, "WORKER_INDEX": None}
"""The variables that Kthena sets in each pod of a role."""


def read_model_serving(document: ManifestNode) -> None:
    """Read a ModelServing: the entry and the workers of each role."""
    for role in document.get("spec", "template", "roles").items():
        with unread_fields((KTHENA_ROLE, role)), role.reader.ray_cluster():
            read_pod(role.get("entryTemplate", "spec"), GROUP)
            read_pod(role.get("workerTemplate", "spec"), GROUP)


def read_model_booster(document: ManifestNode) -> None:
    """Read a ModelBooster: an engine for each worker of its backend that starts vLLM."""
    backend = document.get("spec", "backend")
    has_gpu = _has_gpu(backend)
    with unread_fields((KTHENA_BACKEND, backend)):
        for worker in backend.get("workers").items():
            worker.note_read()
            if worker.get("type").text() in TYPES.get(backend.get("type").text() or "", ()):
                with unread_fields((KTHENA_WORKER, worker)):
                    _read_worker(backend, worker, has_gpu=has_gpu)


def _read_worker(backend: ManifestNode, worker: ManifestNode, *, has_gpu: bool) -> None:
    is_alone = worker.get("type").text() == "server"
    draft = EngineDraft(backend if is_alone else worker)
    draft.image = worker.get("image").text()
    draft.hardware += container_signs(worker)
    uri = backend.get("modelURI").text() or ""
    cache = _cache_path(backend.get("cacheURI").text() or "")
    folder = f"{cache}/{_folder_of(uri)}"
    draft.add(CONTROLLER_PLACE, "python3", "-m", MODULE, "--model", folder)
    if cache:
        draft.mounts.add(cache)
    storage.mount(draft, uri, folder)
    for name, value in sorted(worker.get("config").fields(), key=lambda field: field[0]):
        text = value.scalar()
        if text is not None:
            draft.add(f"config.{name}", f"--{name.replace('_', '-')}", *([text] if text else []))
    is_in_shell = is_alone and (worker.get("pods").count() or 0) > 1
    if is_in_shell:
        draft.add(CONTROLLER_PLACE, "--distributed_executor_backend", "ray")
    read_env_from(backend.get("envFrom"), draft)
    read_shared_env(backend.get("env"), draft)
    installs = (
        _connector(worker) in INSTALLED_CONNECTORS and has_gpu and draft.env.get(SKIP_VARIABLE) not in TRUE_VALUES
    )
    if is_in_shell or installs:
        _doubt_shell(draft, "" if is_in_shell else SHELL_REMEDY)
    draft.env["VLLM_USE_V1"] = "1"
    draft.finish()


def _connector(worker: ManifestNode) -> str:
    """The connector of a worker as Kthena reads it; empty if it finds none."""
    value = worker.get("config").value
    text = value.get("kv-transfer-config") if isinstance(value, dict) else None
    with suppress(msgspec.DecodeError, RecursionError):
        found = msgspec.json.decode(text) if isinstance(text, str) else None
        name = found.get("kv_connector") if isinstance(found, dict) else None
        return name if isinstance(name, str) else ""
    return ""


def _has_gpu(backend: ManifestNode) -> bool:
    """Whether any worker has a GPU in its limits."""
    limits = [worker.get("resources", "limits", GPU).value for worker in backend.get("workers").items()]
    return any(value not in {None, "0", 0} for value in limits if isinstance(value, str | int))


def _doubt_shell(draft: EngineDraft, remedy: str) -> None:
    """Add the doubt about a command that Kthena gives to `bash -c` without quotes, unless no word needs them."""
    changed = next((word for word in draft.words if SHELL_TEXT.search(word)), None)
    if changed is not None:
        doubt = (
            f"Kthena runs this command by `bash -c` without quotes, so that the shell changes {quoted(changed)} and "
            "vLLM may refuse it"
        )
        draft.note(f"{doubt}; {remedy}" if remedy else doubt)
        draft.doubts.append(doubt)


def _folder_of(uri: str) -> str:
    """The folder of a model in the cache, which Kthena names by the MD5 of its URI."""
    return hashlib.md5(uri.encode(errors="replace"), usedforsecurity=False).hexdigest()


def _cache_path(uri: str) -> str:
    """The folder in which the cache is mounted: the part after the scheme."""
    _, _, path = uri.partition("://")
    return f"/{path.strip('/')}" if path.strip("/") else ""
