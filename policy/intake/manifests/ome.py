"""OME's InferenceService, ServingRuntime and ClusterServingRuntime (``ome.io/v1beta1``, read at main, May 2026).

The engine and the decoder of a service are merged over `engineConfig` and `decoderConfig` of its runtime: the service's
`args` and `command` replace the runtime's. The variable `MODEL_PATH` has the path of the BaseModel or ClusterBaseModel,
`PARALLELISM_SIZE` the number of GPUs of all pods. An AcceleratorClass, which may override arguments, is not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.manifests import images
from policy.intake.manifests.hardware import pod_signs
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.pods import pod_containers, read_container, read_passing_containers, read_pod
from policy.intake.manifests.signs import shows_vllm
from policy.intake.manifests.storage import HUB
from policy.intake.manifests.strategic_merge import merged
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

GROUP: Final = "ome.io"
PARTS: Final = (("engine", "engineConfig"), ("decoder", "decoderConfig"))
"""The parts of a service that may run vLLM, and the fields of a runtime over which they are merged."""
PATH: Final = "MODEL_PATH"
SIZE: Final = "PARALLELISM_SIZE"
GPU: Final = "nvidia.com/gpu"
DISABLED: Final = (
    "the runtime is disabled (`spec.disabled`), so that OME starts nothing; enable it, or name another one"
)
NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


def read_runtime(document: ManifestNode) -> None:
    """Read the containers of a runtime that start vLLM; the path of the model is that of a service."""
    spec = document.get("spec")
    for _, name in PARTS:
        _read_part(spec.get(name), spec, None, "", {})
    _read_part(spec.get("routerConfig"), spec, None, "", {})
    for pod in (spec, spec.get("workers")):
        read_pod(pod, {PATH: None, SIZE: None})


def read_inference_service(document: ManifestNode) -> None:
    """Read the engine and the decoder of a service, as OME merges them with its runtime, and its router."""
    spec = document.get("spec")
    with unread_fields(("OME model", spec.get("model"))):
        _read_service(spec)


def _read_service(spec: ManifestNode) -> None:
    reference = spec.get("runtime", "name").text()
    runtime = None if reference is None else _runtime(spec, reference)
    problem = DISABLED if runtime is not None and runtime.get("spec", "disabled").value is True else ""
    model, path, models = _model(spec)
    for name, field in PARTS:
        own = spec.get(name)
        if not own.is_object():
            continue
        below = None if runtime is None else runtime.get("spec", field).value
        if below is not None and not spec.reader.may_copy_values(own, below):
            return
        part = own if not isinstance(below, dict) else own.with_value(merged(below, own.value))
        if runtime is None and not (_states_image(own) or own.get("leader").value or own.get("worker").value):
            _read_unknown(own, reference)
            read_passing_containers(own)
        else:
            _read_part(part, None if runtime is None else runtime.get("spec"), path, model, models, problem)
    _read_part(spec.get("router"), None, path, model, models, problem)


def _runtime(spec: ManifestNode, name: str) -> ManifestNode | None:
    """The runtime of the manifest that a service names: one of its namespace, else one of the cluster."""
    kinds = ["ServingRuntime", "ClusterServingRuntime"]
    kind = spec.get("runtime", "kind").text()
    found = (spec.reader.referenced((GROUP, each), name) for each in kinds if kind in {None, each})
    return next((each for each in found if each is not None), None)


def _model(spec: ManifestNode) -> tuple[str, str | None, dict[str, str]]:
    """The name of a service's model, its path if the manifest shows it, and the model's name on the hub by the path."""
    name = spec.get("model", "name").text() or ""
    kind = spec.get("model", "kind").text()
    for each in ("BaseModel", "ClusterBaseModel"):
        found = spec.reader.referenced((GROUP, each), name) if kind in {None, each} else None
        if found is not None:
            storage = found.get("spec", "storage")
            path, uri = storage.get("path").text(), storage.get("storageUri").text() or ""
            hub = uri.removeprefix(HUB).partition("@")[0].strip("/") if uri.startswith(HUB) else ""
            return name, path, {} if path is None else {path: hub or path}
    return name, None, {}


def _read_part(
    part: ManifestNode,
    runtime: ManifestNode | None,
    path: str | None,
    model: str,
    models: dict[str, str],
    problem: str = "",
) -> None:
    """Read an engine, a decoder or a router: its runner, or those of its leader and its workers, and its containers.

    ``problem`` says why OME starts none of them.
    """
    if not part.is_object():
        return
    leader, worker = part.get("leader"), part.get("worker")
    is_spread = leader.value is not None or worker.value is not None
    workers = worker.get("size").count() or 0
    for pod in (leader, worker) if is_spread else (part,):
        runner = pod.get("runner")
        containers = [*([runner] if runner.is_object() else []), *pod_containers(pod)]
        with unread_fields(("OME part", part), *([("OME part", pod)] if is_spread else [])):
            for container in containers:
                draft = read_container(container, pod)
                if container is runner:
                    _add_values(draft, path, _gpus(container) * (1 + workers))
                draft.models.update(models)
                draft.mounts |= Mounts(models)
                draft.hardware += pod_signs(pod)
                if draft.starts_vllm():
                    _note(draft, runtime, model, has_path=container is not runner or draft.env[PATH] is not None)
                    draft.problem = problem or draft.problem
                    draft.finish()
        read_passing_containers(pod)


def _add_values(draft: EngineDraft, path: str | None, gpus: int) -> None:
    """Add the variables that OME sets in a runner; a path of the user's takes precedence."""
    draft.env.setdefault(PATH, path)
    if gpus:
        draft.env[SIZE] = str(gpus)


def _note(draft: EngineDraft, runtime: ManifestNode | None, model: str, *, has_path: bool) -> None:
    if model and not has_path:
        draft.note(
            f"the model {quoted(model)} is not in the manifest, or states no `storage.path`, so that `{PATH}` is not "
            "known; give the BaseModel or ClusterBaseModel in the same manifest"
        )
    formats = [] if runtime is None else runtime.get("supportedModelFormats").items()
    if any(item.get("acceleratorConfig").value for item in formats):
        doubt = "an AcceleratorClass of the cluster may override arguments and variables (`acceleratorConfig`)"
        draft.note(doubt)
        draft.doubts.append(doubt)


def _gpus(container: ManifestNode) -> int:
    """The number of NVIDIA's GPUs of a container, of its limits or else its requests; 0 if it is no whole number."""
    for part in ("limits", "requests"):
        resources = container.get("resources", part)
        if resources.has(GPU):
            text = resources.get(GPU).scalar() or ""
            return int(text) if NUMBER.fullmatch(text) else 0
    return 0


def _states_image(part: ManifestNode) -> bool:
    runner = part.get("runner")
    return runner.is_object() and runner.get("image").value is not None


def _read_unknown(part: ManifestNode, reference: str | None) -> None:
    """Add a problem for an engine whose runtime is not in the manifest, if something shows vLLM."""
    runner = part.get("runner")
    draft = read_container(runner if runner.is_object() else part.with_value({}))
    draft.node = part
    is_named = "vllm" in (reference or "").lower() or images.names_vllm(draft.image)
    if draft.has_command or not (is_named or shows_vllm(draft.words, draft.env)):
        return
    named = "the runtime" if reference is None else f"the runtime {quoted(reference)}"
    draft.problem = (
        f"{named} is not in the manifest, and its name or the service's image, arguments or variables show vLLM; give "
        "the runtime in the same manifest"
    )
    draft.finish()
