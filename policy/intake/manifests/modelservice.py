"""Values of the llm-d-modelservice Helm chart (read at chart 0.4.12, April 2026).

Applies the chart's templates: the model argument from ``modelArtifacts.uri``, parallel sizes above one, and the
variables for parallelism, the model cache and the accelerator. ``modelCommand`` defaults to ``custom``. The chart's
default for each role is a simulator, not vLLM, so only roles in the values count. Served names, ports and tracing are
left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.chart_fields import LLM_D_CONTAINER, LLM_D_ROLE, LLM_D_VALUES
from policy.intake.manifests.hardware import profile_signs
from policy.intake.manifests.pods import read_container, read_shared_env
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import listed, nearest, quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

CHART_PLACE: Final = "added by llm-d-modelservice"
COMMANDS: Final = ("vllmServe", "imageDefault", "custom")
ROLES: Final = ("decode", "prefill")
MAX_URI: Final = 2048
NAME_TEMPLATE: Final = "{{ .Values.modelArtifacts.name }}"
SIMULATOR: Final = "llm-d-inference-sim"
ACCELERATOR_ENV: Final = {
    "intel-i915": {"VLLM_USE_V1": "1", "TORCH_LLM_ALLREDUCE": "1", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
    "intel-xe": {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
}


def is_values(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of these values."""
    return (
        isinstance(document.value, dict)
        and "modelArtifacts" in document.value
        and any(role in document.value for role in ROLES)
    )


def read_values(document: ManifestNode) -> None:
    """Read the containers of each role that is created."""
    for name in ROLES:
        role = document.get(name)
        if role.get("create").flag(default=True):
            with unread_fields((LLM_D_VALUES, document), (LLM_D_ROLE, role)):
                for container in role.get("containers").items():
                    with unread_fields((LLM_D_CONTAINER, container)):
                        _read_container(container, role, document)


def _read_container(container: ManifestNode, role: ManifestNode, document: ManifestNode) -> None:
    draft = read_container(container)
    draft.hardware += profile_signs(
        role.get("accelerator", "type").value or document.get("accelerator", "type").value, "accelerator.type"
    )
    if SIMULATOR in (draft.image or ""):
        return
    command = container.get("modelCommand").text() or "custom"
    if command not in COMMANDS:
        container.get("modelCommand").fault(
            f"unknown command {quoted(command)}; legal: {listed(COMMANDS)}{nearest(command, COMMANDS)}"
        )
        return
    if command != "custom":
        draft.words, draft.places, draft.has_command = [], [], command == "vllmServe"
        if command == "vllmServe":
            draft.add("modelCommand", "vllm", "serve")
        _add_model(draft, document.get("modelArtifacts"), flag=command == "imageDefault")
        _add_parallelism(draft, role.get("parallelism"))
        draft.add_list(container.get("args"), "args")
    is_mounted = container.get("mountModelVolume").flag()
    if is_mounted:
        mounted = _mount_path(document.get("modelArtifacts"))
        if not container.reader.may_copy(len(mounted), container):
            return
        draft.mounts.add(mounted)
    _add_env(draft, role, document, mounted=is_mounted)
    if draft.starts_vllm() or command == "vllmServe":
        draft.finish()


def _add_model(draft: EngineDraft, artifacts: ManifestNode, *, flag: bool) -> None:
    name = artifacts.get("name").text() or ""
    uri = artifacts.get("uri").text() or f"hf://{NAME_TEMPLATE}"
    mounted = _mount_path(artifacts)
    if max(map(len, (uri, name, mounted))) > MAX_URI or len(uri) + uri.count(NAME_TEMPLATE) * len(name) > MAX_URI:
        artifacts.fault(f"expected a model with a name, URI and path of at most {MAX_URI} characters")
        return
    uri = uri.replace(NAME_TEMPLATE, name)
    protocol, _, rest = uri.partition("://")
    match protocol:
        case "hf":
            model = rest
        case "pvc":
            model = f"{mounted}/{rest.partition('/')[2] or rest}"
        case "pvc+hf":
            model = "/".join(rest.split("/")[-2:])
        case _:
            draft.note(f"the chart derives no model argument from {quoted(uri)}; legal: `hf://`, `pvc://`, `pvc+hf://`")
            return
    draft.add(
        artifacts.get("uri").path if artifacts.get("uri").value is not None else artifacts.get("name").path,
        *(["--model"] if flag else []),
        model,
    )


def _mount_path(artifacts: ManifestNode) -> str:
    """The path at which the chart mounts the model's volume."""
    return artifacts.get("mountPath").text() or "/model-cache"


def _sizes(parallelism: ManifestNode) -> tuple[int, int, int]:
    """The tensor, data and local data sizes; each defaults to 1, as in the chart."""
    tensor, data, local = (parallelism.get(name).count() or 1 for name in ("tensor", "data", "dataLocal"))
    return tensor, data, local


def _add_parallelism(draft: EngineDraft, parallelism: ManifestNode) -> None:
    flags = ("--tensor-parallel-size", "--data-parallel-size", "--data-parallel-size-local")
    for flag, name, size in zip(flags, ("tensor", "data", "dataLocal"), _sizes(parallelism), strict=True):
        if size > 1:
            draft.add(parallelism.get(name).path, flag, str(size))


def _add_env(draft: EngineDraft, role: ManifestNode, document: ManifestNode, *, mounted: bool) -> None:
    tensor, data, local = _sizes(role.get("parallelism"))
    draft.env |= {"DP_SIZE": str(data), "TP_SIZE": str(tensor), "DP_SIZE_LOCAL": str(local)}
    artifacts = document.get("modelArtifacts")
    if mounted and (artifacts.get("uri").text() or "hf://").startswith("hf://"):
        draft.env["HF_HOME"] = _mount_path(artifacts)
    if artifacts.get("authSecretName").text():
        draft.env["HF_TOKEN"] = None
    kind = role.get("accelerator", "type").text() or document.get("accelerator", "type").text() or ""
    given = document.get("accelerator", "env")
    if given.has(kind):
        read_shared_env(given.get(kind), draft)
    else:
        draft.env |= ACCELERATOR_ENV.get(kind, {})
