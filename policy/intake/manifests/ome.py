"""OME's InferenceService, ServingRuntime and ClusterServingRuntime (``ome.io/v1beta1``, read at main, May 2026).

The engine, the decoder and the router of a service are merged over `engineConfig`, `decoderConfig` and `routerConfig`
of its runtime: the service's `args` and `command` replace the runtime's. A part's runner is merged over the container
with its name in the part's `containers`, and that container's arguments come first; the others are containers of the
pod. A part with a worker and no leader is the leader itself. The variable `MODEL_PATH` has the path of the BaseModel or
ClusterBaseModel, `PARALLELISM_SIZE` the number of GPUs of all pods. An AcceleratorClass, which may override arguments,
is not read. OME makes an engine of the deprecated `predictor`: its container with `ome` in its name, or else its first
one, becomes the runner.
"""

from __future__ import annotations

import re
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policy.intake.manifests import images
from policy.intake.manifests.engine_doubts import engine_doubt
from policy.intake.manifests.hardware import gpu_count, pod_signs
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.ome_fields import MODEL, PART, PART_POD, ROUTER, RUNTIME
from policy.intake.manifests.pods import pod_containers, read_container, read_passing_containers, read_pod
from policy.intake.manifests.signs import shows_vllm
from policy.intake.manifests.storage import HUB
from policy.intake.manifests.strategic_merge import merge
from policy.intake.manifests.template_fields import References, template_doubt
from policy.intake.manifests.unread_fields import MAX_DOUBTS, field_doubts, unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.field_tables import FieldTable
    from policy.intake.manifests.reading import ManifestNode

GROUP: Final = "ome.io"
PARTS: Final = (("engine", "engineConfig"), ("decoder", "decoderConfig"))
"""The parts of a service that may run vLLM, and the fields of a runtime over which they are merged."""
ROUTER_CONFIG: Final = "routerConfig"
"""The field of a runtime over which the router of a service is merged."""
PATH: Final = "MODEL_PATH"
SIZE: Final = "PARALLELISM_SIZE"
DISABLED_RUNTIME: Final = (
    "the runtime is disabled (`spec.disabled`), so that OME starts nothing; enable it, or name another one"
)
PREDICTOR_ONLY_FIELDS: Final = frozenset({"model", "workerSpec", "containers"})
"""The fields of a predictor that do not become fields of its engine."""
CONTAINER_FIELDS: Final = ("image", "command", "args", "env", "envFrom", "volumeMounts")
MODEL_FIELDS_DOUBT: Final = (
    "releases of OME differ in whether the fields of a container in `predictor.model` count; write them in "
    "`engine.runner`"
)
UNNAMED_RUNTIME: Final = (
    "no `runtime` is named, and OME selects one by the model; its own arguments and variables are not known"
)
ARGUMENT: Final = re.compile(r"args\[([0-9]{1,9})\]", re.ASCII)


def read_runtime(document: ManifestNode) -> None:
    """Read the containers of a runtime that start vLLM; the path of the model depends on the service."""
    spec = document.get("spec")
    settings = _Settings(spec, None, "", {}, "", [], References())
    for _, name in PARTS:
        _read_part(spec.get(name), settings)
    _read_part(spec.get(ROUTER_CONFIG), settings, ROUTER)
    for pod in (spec, spec.get("workers")):
        read_pod(pod, {PATH: None, SIZE: None})


def read_inference_service(document: ManifestNode) -> None:
    """Read the engine and the decoder of a service, as OME merges them with its runtime, and its router."""
    predictor, spec = document.get("spec", "predictor"), document.get("spec")
    is_migrated = predictor.is_object() and spec.get("engine").value is None
    if is_migrated:
        spec = _migrated(spec, predictor)
    with unread_fields((MODEL, spec.get("model"))):
        _read_service(spec, predictor if is_migrated else None)


def _read_service(spec: ManifestNode, predictor: ManifestNode | None) -> None:
    """Read the parts of a service; ``predictor`` is the one from which its engine was made, if any."""
    reference = spec.get("runtime", "name").text()
    runtime = None if reference is None else _runtime(spec, reference)
    problem = DISABLED_RUNTIME if runtime is not None and runtime.get("spec", "disabled").value is True else ""
    model, path, models = _model(spec)
    references = References(None if spec.parent is None else spec.parent.get("metadata").value)
    doubts = _runtime_doubts(spec, reference, runtime)
    if runtime is not None:
        doubts += _field_doubts(runtime)
    for name, field in PARTS:
        own = spec.get(name)
        if not own.is_object():
            continue
        below = None if runtime is None else runtime.get("spec", field).value
        if below is not None and not spec.reader.may_copy_values(own, below):
            return
        migrated = predictor if name == "engine" else None
        own = own if migrated is None else migrated.with_value(own.value)
        part = own if not isinstance(below, dict) else own.with_value(merge(below, own.value))
        is_of_model = migrated is not None and _states_container(migrated.get("model"))
        of_part = [*doubts, MODEL_FIELDS_DOUBT] if is_of_model else doubts
        if runtime is None and not (_states_image(own) or own.get("leader").value or own.get("worker").value):
            _read_unknown(own, reference)
            part = own.with_value({name: value for name, value in own.value.items() if name != "runner"})
        settings = _Settings(
            None if runtime is None else runtime.get("spec"), path, model, models, problem, of_part, references
        )
        _read_part(part, settings, written=None if migrated is None else _runner_of(migrated))
    router, below = spec.get("router"), None if runtime is None else runtime.get("spec", ROUTER_CONFIG).value
    if router.is_object() and isinstance(below, dict) and spec.reader.may_copy_values(router, below):
        router = router.with_value(merge(below, router.value))
    settings = _Settings(None, path, model, models, problem, doubts, references)
    _read_part(router, settings, ROUTER)
    if predictor is not None:
        _read_part(predictor.get("workerSpec"), settings, PART_POD)


def _runtime_doubts(spec: ManifestNode, reference: str | None, runtime: ManifestNode | None) -> list[str]:
    """The doubt about a runtime that is not in the manifest; one that is not named is selected by OME."""
    if runtime is not None or (reference is None and not spec.reader.is_under_review):
        return []
    if reference is None:
        return [UNNAMED_RUNTIME]
    return [f"the runtime {quoted(reference)} is not in the manifest; its own arguments and variables are not known"]


def _field_doubts(runtime: ManifestNode) -> list[str]:
    """The doubts about the fields of a runtime of the manifest, which several services may name."""
    known, pointer = runtime.reader.runtime_doubts, runtime.pointer
    if pointer not in known:
        known[pointer] = [*islice(field_doubts(RUNTIME, runtime.get("spec")), MAX_DOUBTS)]
    return known[pointer]


def _migrated(spec: ManifestNode, predictor: ManifestNode) -> ManifestNode:
    """The spec that OME makes from one with a predictor and no engine.

    The containers other than the runner keep their places, and become the engine's.
    """
    runner = _runner_of(predictor)
    containers = [None if runner is not None and item.key == runner.key else item.value for item in _listed(predictor)]
    engine = {name: value for name, value in predictor.value.items() if name not in PREDICTOR_ONLY_FIELDS}
    model = predictor.get("model")
    if runner is not None:
        engine |= {"runner": runner.value, "containers": containers}
    elif _states_container(model):
        engine |= {
            "runner": {name: value for name, value in model.value.items() if name not in {"baseModel", "runtime"}}
        }
    value = {**spec.value, "engine": engine}
    if model.is_object():
        base, runtime = model.get("baseModel").text(), model.get("runtime").text()
        if base is not None and spec.get("model").value is None:
            value["model"] = {"name": base, "fineTunedWeights": model.value.get("fineTunedWeights")}
        if runtime is not None and spec.get("runtime").value is None:
            value["runtime"] = {"name": runtime, "kind": "ClusterServingRuntime"}
    return spec.with_value(value)


def _listed(predictor: ManifestNode) -> list[ManifestNode]:
    return [item for item in predictor.get("containers").items() if item.is_object()]


def _runner_of(predictor: ManifestNode) -> ManifestNode | None:
    """The container of a predictor that becomes the runner of the engine."""
    containers = _listed(predictor)
    named = (item for item in containers if "ome" in str(item.value.get("name")).lower())
    return next(named, containers[0] if containers else None)


def _states_container(model: ManifestNode) -> bool:
    """Whether the model of a predictor has fields of a container."""
    return model.is_object() and any(model.value.get(name) for name in CONTAINER_FIELDS)


def _runtime(spec: ManifestNode, name: str) -> ManifestNode | None:
    """The runtime of the manifest that a service names: one of its namespace, else one of the cluster."""
    kinds = ["ServingRuntime", "ClusterServingRuntime"]
    kind = spec.get("runtime", "kind").text()
    found = (spec.reader.referenced_object((GROUP, each), name) for each in kinds if kind in {None, each})
    return next((each for each in found if each is not None), None)


def _model(spec: ManifestNode) -> tuple[str, str | None, dict[str, str]]:
    """The name of a service's model, its path if the manifest shows it, and the model's name on the hub by the path."""
    name = spec.get("model", "name").text() or ""
    kind = spec.get("model", "kind").text()
    for each in ("BaseModel", "ClusterBaseModel"):
        found = spec.reader.referenced_object((GROUP, each), name) if kind in {None, each} else None
        if found is not None:
            storage = found.get("spec", "storage")
            path, uri = storage.get("path").text(), storage.get("storageUri").text() or ""
            hub = uri.removeprefix(HUB).partition("@")[0].strip("/") if uri.startswith(HUB) else ""
            return name, path, {} if path is None else {path: hub or path}
    return name, None, {}


class _Settings(NamedTuple):
    """What a service, or a runtime by itself, gives to its parts.

    ``runtime`` is the spec of the runtime, ``model`` the name of the model and ``path`` its path; ``models`` has the
    model's name on the hub by its path. ``problem`` says why OME starts nothing, ``doubts`` what is not certain.
    Templates may refer to ``references``.
    """

    runtime: ManifestNode | None
    path: str | None
    model: str
    models: dict[str, str]
    problem: str
    doubts: list[str]
    references: References


def _read_part(
    part: ManifestNode, settings: _Settings, table: FieldTable = PART, *, written: ManifestNode | None = None
) -> None:
    """Read an engine, a decoder or a router: its runner, or those of its leader and its workers, and its containers.

    ``table`` has the fields of the part, and ``written`` is the container of a predictor that became the runner.
    """
    if not part.is_object():
        return
    leader, worker = part.get("leader"), part.get("worker")
    is_spread = leader.value is not None or worker.value is not None
    workers = worker.get("size").count() or 0
    is_overridden = cache(partial(_may_be_overridden, settings.runtime))
    for pod in (part if leader.value is None else leader, worker) if is_spread else (part,):
        runner, own = pod.get("runner"), _of_runner(pod)
        others = [each for each in pod_containers(pod) if own is None or each.pointer != own.pointer]
        containers = [*([runner] if runner.is_object() else []), *others]
        rendered = _rendered(runner, pod)
        with (
            engine_doubt(part.reader, partial(template_doubt, rendered, settings.references)),
            unread_fields((table, part)),
        ):
            for container in containers:
                draft = _read_runner(runner, own, pod) if container is runner else read_container(container, pod)
                if container is runner:
                    _add_values(draft, settings.path, gpu_count(container) * (1 + workers))
                    draft.node = draft.node if written is None else written
                draft.models.update(settings.models)
                draft.mounts |= Mounts(settings.models)
                draft.hardware += pod_signs(pod)
                if draft.starts_vllm():
                    has_path = container is not runner or draft.env[PATH] is not None
                    _note(draft, settings.model, has_path=has_path, is_overridden=is_overridden())
                    draft.problem = settings.problem or draft.problem
                    draft.doubts += settings.doubts
                    draft.finish()
        read_passing_containers(pod)


def _of_runner(pod: ManifestNode) -> ManifestNode | None:
    """The container of a pod into which OME merges the runner: the first one with its name."""
    runner = pod.get("runner").value
    name = runner.get("name") if isinstance(runner, dict) else None
    found = (item for item in pod.get("containers").items() if isinstance(item.value, dict))
    return next((item for item in found if isinstance(name, str) and item.value.get("name") == name), None)


def _read_runner(runner: ManifestNode, own: ManifestNode | None, pod: ManifestNode) -> EngineDraft:
    """Read a runner, merged over the container of its name; the container's arguments come first."""
    if own is None:
        return read_container(runner, pod, replaced_variables=_replaced(runner))
    own.note_read()
    below = {**own.value, "env": _without_path(own.value.get("env"))}
    value, args = merge(below, runner.value), own.value.get("args")
    added = args if isinstance(args, list) and isinstance(runner.value.get("args"), list) else []
    container = runner.with_value({**value, "args": [*added, *runner.value["args"]]} if added else value)
    draft = read_container(container, pod, replaced_variables=_replaced(container))
    draft.places = [_place(place, len(added)) for place in draft.places]
    return draft


def _replaced(runner: ManifestNode) -> tuple[str, ...]:
    """The variables that OME sets in a runner in place of its own."""
    return (SIZE,) if gpu_count(runner) else ()


def _without_path(env: Any) -> Any:
    """Variables without ``MODEL_PATH``, which OME sets in the runner."""
    is_path = [isinstance(item, dict) and item.get("name") == PATH for item in env] if isinstance(env, list) else []
    return [item for item, is_set in zip(env, is_path, strict=True) if not is_set] if is_path else env


def _place(place: str, count: int) -> str:
    """The position of a word of a runner after ``count`` arguments of the container of its name."""
    found = ARGUMENT.fullmatch(place)
    if not count or found is None:
        return place
    index = int(found[1])
    return f"containers.{place}" if index < count else f"args[{index - count}]"


def _rendered(runner: ManifestNode, pod: ManifestNode) -> list[ManifestNode]:
    """The containers of a pod that OME merges into the one that it renders: the runner, or else the first one."""
    containers = pod.get("containers").items()
    if not isinstance(runner.value, dict):
        return containers[:1]
    name = runner.value.get("name")
    return [runner, *(item for item in containers if isinstance(item.value, dict) and item.value.get("name") == name)]


def _add_values(draft: EngineDraft, path: str | None, gpus: int) -> None:
    """Add the variables that OME sets in a runner; the user's path takes precedence."""
    draft.env.setdefault(PATH, path)
    if gpus:
        draft.env[SIZE] = str(gpus)


def _note(draft: EngineDraft, model: str, *, has_path: bool, is_overridden: bool) -> None:
    if model and not has_path:
        draft.note(
            f"the model {quoted(model)} is not in the manifest, or states no `storage.path`, so that `{PATH}` is not "
            "known; give the BaseModel or ClusterBaseModel in the same manifest"
        )
    if is_overridden:
        doubt = "an AcceleratorClass of the cluster may override arguments and variables (`acceleratorConfig`)"
        draft.note(doubt)
        draft.doubts.append(doubt)


def _may_be_overridden(runtime: ManifestNode | None) -> bool:
    """Whether a format of a runtime has values for an AcceleratorClass."""
    formats = None if runtime is None else runtime.get("supportedModelFormats")
    if formats is None or not formats.reader.may_copy_values(formats, formats.value):
        return False
    return any(item.get("acceleratorConfig").value for item in formats.items())


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
