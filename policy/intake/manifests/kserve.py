"""KServe's InferenceService, ServingRuntime and ClusterServingRuntime.

They are ``serving.kserve.io`` v1beta1 and v1alpha1, read at KServe 0.20, August 2026. Builds a predictor as KServe
does: the runtime's command and arguments, with the predictor's arguments appended, variables merged by name, the
image's tag from ``runtimeVersion``, its build for CPU or GPU, the model mounted at ``/mnt/models``. With ``workerSpec``
KServe sets the parallel sizes as variables. The runtime comes from the same manifest, else from those that KServe ships
for the model formats ``vLLM`` and ``huggingface``; another runtime makes the engine doubtful. A shipped runtime's flags
for the web server are left out.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from policy.intake.command.expansion import ExpansionExhausted
from policy.intake.command.huggingface_server import (
    MODEL_PATH,
    TRANSFORMERS,
    UNCERTAIN_BACKEND,
    VLLM,
    server_words,
    size_flags,
)
from policy.intake.manifests import images
from policy.intake.manifests.draft import TEMPLATE, EngineDraft
from policy.intake.manifests.engine_doubts import engine_doubt
from policy.intake.manifests.hardware import pod_signs
from policy.intake.manifests.kserve_builds import choose_build
from policy.intake.manifests.kserve_canary import canaries
from policy.intake.manifests.kserve_containers import SHIPPED_ARGUMENTS, merge_container
from policy.intake.manifests.kserve_fields import COMPONENTS, EXPLAINER, PREDICTOR
from policy.intake.manifests.kserve_metadata import metadata_doubt
from policy.intake.manifests.kserve_multinode import SIZES, add_script, runs_multinode
from policy.intake.manifests.kserve_pods import TRANSFORMER, component_doubt, shared_model_doubt
from policy.intake.manifests.kserve_runtimes import (
    FORMAT_FIELDS,
    OTHER_FORMATS,
    V2_FIELDS,
    V2_PROTOCOL,
    WantedRuntime,
    add_selection_doubt,
    is_shipped,
    runtime_of,
    wanted_runtime,
)
from policy.intake.manifests.kserve_storage import storage_models, storage_mounts
from policy.intake.manifests.pods import pod_containers, read_container, read_passing_containers, read_pod
from policy.intake.manifests.signs import shows_vllm
from policy.intake.manifests.storage import hub_name, mount
from policy.intake.manifests.template_fields import References, template_doubt
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.field_tables import FieldTable
    from policy.intake.manifests.kserve_canary import Canary
    from policy.intake.manifests.reading import ManifestNode, ServingRuntime

CONTROLLER_PLACE: Final = "added by KServe"
KSERVE_SERVER_UNREAD: Final = (
    "the command starts KServe's Hugging Face server with words that are not read, and it may use vLLM; write "
    "`vllm serve MODEL …` as the command"
)
SERVER: Final = ("python", "-m", "vllm.entrypoints.openai.api_server")
SERVER_ENV: Final = {
    "HF_HOME": "/tmp",  # noqa: S108  # what KServe sets
    "VLLM_CONFIG_ROOT": "/tmp",  # noqa: S108  # what KServe sets
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
FIELD: Final = re.compile(r"\{\{ ?\.(Name|Namespace|Labels\.[A-Za-z_][A-Za-z0-9_]{0,62}) ?\}\}")
"""Matches what KServe replaces by a field of the service's metadata; the values of these need no escapes in JSON."""
SERVER_MODULE: Final = re.compile(r"-m[ \t]{1,8}huggingfaceserver(?![\w.-])")
"""Matches KServe's Hugging Face server in a script, as in KServe's runtimes with workers."""
PIPELINE: Final = "PIPELINE_PARALLEL_SIZE"
TENSOR: Final = "TENSOR_PARALLEL_SIZE"
SIZE_VARIABLES: Final = ((PIPELINE, "pipelineParallelSize"), (TENSOR, "tensorParallelSize"))
"""The variables that KServe sets in a predictor with workers, and their fields of ``workerSpec``."""
NODE_VARIABLES: Final = ("RAY_NODE_COUNT", "REQUEST_GPU_COUNT")
"""The variables that KServe computes from the sizes and the requested GPUs."""
STORAGE_CONTAINERS: Final = ("kserve-container", "worker-container", TRANSFORMER)
"""The only containers of a pod in which KServe mounts ``storageUris``."""
MOUNTED_SCHEMES: Final = frozenset({"pvc", "oci"})
"""The storage schemes for which KServe sets ``MODEL_DIR`` in a predictor with workers."""
EXPLAINERS: Final = ("art", "alibi", "aix")
"""The fields of an explainer that hold a container; only older releases of KServe have the last two."""
MODEL_ID_DOUBT: Final = "KServe's server may load the `--model_id` instead of the model of `storageUri`; leave one out"
EXPLAINER_DOUBT: Final = "KServe adds arguments of its own to the container of an explainer, which are not read"
OVERWRITTEN_VARIABLES: Final = frozenset({"INFERENCE_SERVICE_NAME"})
"""The variables that KServe overwrites in the containers of a service."""
SERVER_CONTAINER: Final = "kserve-container"
UNRENDERED_FIELDS: Final = frozenset(
    {"modelFormat", "runtime", "runtimeVersion", "protocolVersion", "storage", "storageUri", "confidential"}
)
"""The fields of a predictor's model that are not in the container that KServe renders."""


def runtime_container(document: ManifestNode) -> ManifestNode | None:
    """The container of a runtime into which KServe merges a predictor's model."""
    return next(
        (item for item in pod_containers(document.get("spec")) if item.get("name").value == SERVER_CONTAINER), None
    )


def read_runtime(document: ManifestNode) -> None:
    """Read the containers of a ServingRuntime that start vLLM, except those that leave all to a predictor's model.

    The variables of a runtime with workers are unknown, because the predictor sets the sizes.
    """
    workers = document.get("spec", "workerSpec")
    added = dict.fromkeys((PIPELINE, TENSOR, *NODE_VARIABLES)) if workers.is_object() else {}
    rendered = [item for name in (SERVER_CONTAINER, TRANSFORMER) for item in _named(document.get("spec"), name)]
    with (
        engine_doubt(document.reader, lambda: template_doubt(rendered, References())),
        engine_doubt(document.reader, lambda: component_doubt(document.get("spec"))),
        engine_doubt(document.reader, lambda: shared_model_doubt(document.get("spec"))),
    ):
        for pod in (document.get("spec"), workers):
            for container in pod_containers(pod):
                draft = read_container(container, pod, replaced_variables={*OVERWRITTEN_VARIABLES, *added})
                draft.env.update(added)
                if not _only_takes_model(draft) and draft.starts_vllm():
                    draft.finish()
            read_passing_containers(pod)


def _only_takes_model(draft: EngineDraft) -> bool:
    """Whether a container runs KServe's Hugging Face server, and states nothing that decides about a runner.

    It has no model of its own, no arguments for vLLM, none of its variables and none that are hidden, as KServe's own
    runtime; its service has the model.
    """
    if draft.has_command or not images.is_kserve_server(draft.image, draft.table):
        return False
    if draft.has_hidden_variables or shows_vllm((), draft.env):
        return False
    try:
        words = draft.expanded_words()
    except ExpansionExhausted:
        return False  # reading the container reports it
    if words and not words[0].startswith("-"):
        return False
    found = server_words(words, draft.places)
    _, model = found.own.get("--model_id", found.own.get("--model_dir", ("", MODEL_PATH)))
    return model == MODEL_PATH and not found.words


def read_inference_service(document: ManifestNode) -> None:
    """Read the predictor's model, its workers, and vLLM containers in any of the service's components.

    If there is a model, a worker without a command gets the runtime's. Each canary is read as a separate predictor.
    """
    predictor = document.get("spec", "predictor")
    rendered: list[ManifestNode] = []
    with _service_doubts(document, rendered):
        for name, table in COMPONENTS.items():
            _read_component(document, document.get("spec", name), table)
        _read_explainer(document, document.get("spec", "explainer"))
        _read_predictor(document, predictor, rendered)
    metadata = document.get("metadata").value
    for canary in canaries(document):
        if not document.reader.may_copy_values(document, metadata):
            return
        _read_canary(document, canary)


def _read_canary(document: ManifestNode, canary: Canary) -> None:
    """Read the containers of a canary, and the models that it may run."""
    rendered: list[ManifestNode] = []
    with _service_doubts(document, rendered), document.reader.ray_cluster():
        _read_component(document, canary.predictor, PREDICTOR)
        with engine_doubt(document.reader, lambda: canary.doubt):
            for predictor in canary.models:
                _read_predictor(document, predictor, rendered)


@contextmanager
def _service_doubts(document: ManifestNode, rendered: list[ManifestNode]) -> Iterator[None]:
    """Add the doubts about the service's metadata, and about what is rendered, to the engines that are read within."""
    metadata = document.get("metadata")
    with (
        engine_doubt(document.reader, lambda: template_doubt(rendered, References(metadata.value))),
        engine_doubt(document.reader, lambda: metadata_doubt(metadata, is_replaced=True)),
    ):
        yield


def _read_explainer(document: ManifestNode, explainer: ManifestNode) -> None:
    """Read the container of an explainer other than a custom one."""
    for name in EXPLAINERS:
        container = explainer.get(name)
        if not container.is_object():
            continue
        with _component_doubts(document, explainer, EXPLAINER):
            draft = read_container(
                container, explainer, storage_mounts(explainer), replaced_variables=OVERWRITTEN_VARIABLES
            )
            draft.models.update(storage_models(explainer))
            if draft.starts_vllm():
                if container.get("storageUri").value:
                    draft.mounts.add(MODEL_PATH)
                draft.doubt(EXPLAINER_DOUBT)
                draft.finish()


@contextmanager
def _component_doubts(document: ManifestNode, component: ManifestNode, table: FieldTable) -> Iterator[None]:
    """Add the doubts about a component's fields to the engines that are read within."""
    with (
        unread_fields((table, component)),
        engine_doubt(component.reader, lambda: component_doubt(component)),
        engine_doubt(component.reader, lambda: shared_model_doubt(document.get("metadata"), component)),
    ):
        yield


def _read_component(document: ManifestNode, component: ManifestNode, table: FieldTable) -> None:
    """Read the containers of a component with the fields of a table."""
    with _component_doubts(document, component, table):
        paths = dict.fromkeys(STORAGE_CONTAINERS, storage_mounts(component))
        models = dict.fromkeys(STORAGE_CONTAINERS, storage_models(component))
        read_pod(component, mounts=paths, models=models, replaced_variables=OVERWRITTEN_VARIABLES)


def _named(pod: ManifestNode, name: str) -> list[ManifestNode]:
    """The containers of a pod with a name."""
    return [
        item
        for item in pod.get("containers").items()
        if isinstance(item.value, dict) and item.value.get("name") == name
    ]


def _add_rendered(
    rendered: list[ManifestNode], predictor: ManifestNode, model: ManifestNode, runtime: ServingRuntime | None
) -> None:
    """Add what KServe renders for a predictor with a model: its container and a transformer's, and the runtime's."""
    container = {name: value for name, value in model.value.items() if name not in UNRENDERED_FIELDS}
    rendered += [model.with_value(container), *_named(predictor, TRANSFORMER)]
    if runtime is not None:
        others = _named(runtime.spec, TRANSFORMER)
        if model.reader.may_copy_values(model, *(other.value for other in others)):
            rendered += [runtime.container, *others]


def _read_predictor(document: ManifestNode, predictor: ManifestNode, rendered: list[ManifestNode]) -> None:
    """Read a predictor's model and its workers, and add to ``rendered`` what KServe renders for it."""
    with _component_doubts(document, predictor, PREDICTOR):
        _read_models(document, predictor, rendered)


def _read_models(document: ManifestNode, predictor: ManifestNode, rendered: list[ManifestNode]) -> None:
    model, workers = predictor.get("model"), predictor.get("workerSpec")
    mounts = dict.fromkeys(STORAGE_CONTAINERS, storage_mounts(predictor))
    has_workers = workers.is_object()
    wanted = runtime = None
    if model.is_object():
        wanted = wanted_runtime(model, model.get("modelFormat", "name").text() or "", None, has_workers=has_workers)
        runtime = runtime_of(model.reader, wanted)
    added = _worker_variables(workers, runtime) if has_workers else {}
    with engine_doubt(model.reader, lambda: "" if runtime is None else runtime.doubt):
        read_pod(
            workers,
            added,
            by_image=not model.is_object(),
            mounts=mounts,
            models=dict.fromkeys(STORAGE_CONTAINERS, storage_models(predictor)),
            replaced_variables=OVERWRITTEN_VARIABLES,
        )
    if wanted is not None:
        _add_rendered(rendered, predictor, model, runtime)
        _read_model(document, predictor, model, wanted, runtime, added)
        return
    for name in FORMAT_FIELDS:
        model = predictor.get(name)
        if model.is_object():
            protocol = V2_PROTOCOL if name in V2_FIELDS else None
            wanted = wanted_runtime(model, name, protocol, has_workers=has_workers)
            runtime = runtime_of(model.reader, wanted)
            _add_rendered(rendered, predictor, model, runtime)
            _read_model(document, predictor, model, wanted, runtime, added)


def _worker_variables(workers: ManifestNode, runtime: ServingRuntime | None) -> dict[str, str | None]:
    """The variables that KServe sets in all pods of a predictor with workers; None for unknown values."""
    found: dict[str, str | None] = dict.fromkeys(NODE_VARIABLES)
    for name, field in SIZE_VARIABLES:
        value = workers.get(field).count()
        if value is None and runtime is not None:
            value = runtime.workers.get(field).count()
            value = 1 if value is None else value
        found[name] = None if value is None else str(value)
    return found


def _read_model(
    document: ManifestNode,
    predictor: ManifestNode,
    model: ManifestNode,
    wanted: WantedRuntime,
    runtime: ServingRuntime | None,
    added: dict[str, str | None],
) -> None:
    """Read the model of a predictor; ``runtime`` is the manifest's, if there is one.

    ``added`` has the variables that KServe sets; it is empty without workers.
    """
    model_format = wanted.model_format.lower()
    name = wanted.name if runtime is None else runtime.name
    base = None if runtime is None else runtime.container
    is_unknown = runtime is None and not is_shipped(name, model_format)
    draft = read_container(model, mounts=storage_mounts(predictor), replaced_variables={*OVERWRITTEN_VARIABLES, *added})
    uri = model.get("storageUri").text()
    is_multinode = runtime is None and runs_multinode(name, model_format, draft, has_workers=bool(added))
    if is_multinode:
        added = {variable: value or SIZES.get(variable) for variable, value in added.items()}
    own = EngineDraft(model)
    own.has_default_image = True
    if base is not None:
        if not model.reader.may_copy_values(model, base.value):
            return
        own = read_container(base, replaced_variables={*OVERWRITTEN_VARIABLES, *added})
        own.has_default_image = True
        own.node, own.places = model, [f"runtime.{place}" for place in own.places]
        is_kserve_server = images.is_kserve_server(draft.image or own.image, model.reader.images)
        if is_kserve_server and not (own.has_command or draft.has_command):
            draft.words, draft.places = own.words + draft.words, own.places + draft.places
            own.words, own.places = [], []
            if not _convert_huggingface(draft, own, model):
                return
    elif is_multinode and not draft.has_command:
        if not add_script(own, draft, CONTROLLER_PLACE, has_folder=bool(added) and _is_mounted(uri)):
            return
    elif model_format == "vllm":
        own.add(CONTROLLER_PLACE, *SERVER, f"--model={MODEL_PATH}")
        own.env.replace(SERVER_ENV)
        own.has_command = True
    elif model_format == "huggingface":
        if not (_convert_huggingface(draft, own, model) or is_unknown):
            return
    elif not (draft.words or is_unknown):
        return
    merge_container(own, base, draft, model, () if is_unknown else SHIPPED_ARGUMENTS.get(model_format, ()))
    own.hardware += [*draft.hardware, *pod_signs(predictor)]
    choose_build(own, model, name, runtime, model_format, has_workers=bool(added))
    if added:
        _add_workers(own, document, uri, added, has_runtime=base is not None or is_multinode)
    _mount_models(own, predictor, model, uri)
    own.words = [_filled(word, document) for word in own.words]
    own.env.update({name: _filled(value, document) for name, value in own.env.items() if value is not None})
    if runtime is not None:
        doubts = (runtime.doubt, shared_model_doubt(document.get("metadata"), predictor, runtime.spec))
        for doubt in filter(None, doubts):
            own.doubt(doubt)
    if wanted.name is None:
        add_selection_doubt(own, runtime, model_format)
    elif runtime is not None:
        _check_runtime(own, runtime, runtime.name)
    _finish(own, name, model_format, is_unknown=is_unknown)


def _mount_models(own: EngineDraft, predictor: ManifestNode, model: ManifestNode, uri: str | None) -> None:
    """Add the names of a predictor's models, and the mount of the one at ``uri``."""
    own.models.update(storage_models(predictor))
    if uri is not None:
        mount(own, uri, MODEL_PATH)
    elif model.get("storage").value is not None:
        own.mounts.add(MODEL_PATH)


def _filled(text: str, document: ManifestNode) -> str:
    """A text with the fields of the service's metadata in place of ``{{.Name}}`` and the like.

    KServe renders only the container of the runtime, merged with the predictor's model. A reference to a field that the
    manifest does not state stays as it is written.
    """

    def value(found: re.Match[str]) -> str:
        field = document.get("metadata", *(step[:1].lower() + step[1:] for step in found[1].split(".", 1)))
        return field.value if isinstance(field.value, str) else found[0]

    return FIELD.sub(value, text) if type(text) is str and TEMPLATE in text else text


def _runs_kserve_server(own: EngineDraft) -> bool:
    return any(SERVER_MODULE.search(word) for word in own.words)


def _finish(own: EngineDraft, name: str | None, model_format: str, *, is_unknown: bool) -> None:
    """Add the engine if it starts vLLM; an unknown runtime is a doubt, or a problem if only a sign shows vLLM."""
    if own.has_command and own.starts_vllm(by_image=False) and own.server is None and _runs_kserve_server(own):
        own.problem = KSERVE_SERVER_UNREAD
        own.finish()
    elif own.starts_vllm(by_image=not is_unknown or bool(own.words)):
        if is_unknown and name is not None:
            _doubt_runtime(own, name, model_format)
        own.finish()
    elif own.has_command and _runs_kserve_server(own):
        own.problem = KSERVE_SERVER_UNREAD
        own.finish()
    elif is_unknown and _shows_vllm(own, name, model_format):
        named = "the runtime" if name is None else f"the runtime {quoted(name)}"
        own.problem = (
            f"{named} is not in the manifest, and its name or the predictor's arguments, variables, image, model or "
            "accelerator show that it may be vLLM; give the runtime in the same manifest"
        )
        own.finish()


def _check_runtime(own: EngineDraft, runtime: ServingRuntime, name: str) -> None:
    """Add a problem for a runtime that is disabled, and a doubt for one of several that may be meant."""
    if runtime.is_disabled:
        own.problem = (
            f"the runtime {quoted(name)} is disabled (`spec.disabled`), so that KServe starts nothing; enable it, or "
            "name another one"
        )
    if not runtime.is_certain:
        doubt = (
            f"several runtimes of the manifest may be the runtime {quoted(name)}, and one of them is assumed; give "
            "each object once, with its `metadata.namespace`"
        )
        own.note(doubt)
        own.doubts.append(doubt)


def _doubt_runtime(own: EngineDraft, name: str, model_format: str) -> None:
    """Add the doubt about an engine whose runtime is neither in the manifest nor one that KServe ships."""
    assumed = {"vllm": "KServe's for vLLM are assumed", "huggingface": "KServe's for Hugging Face models are assumed"}
    doubt = (
        f"the runtime {quoted(name)} is not in the manifest; its own arguments and variables are not known, "
        f"{assumed.get(model_format, 'none are assumed')}"
    )
    own.note(doubt)
    own.doubts.append(doubt)


def _shows_vllm(own: EngineDraft, name: str | None, model_format: str) -> bool:
    """Whether a predictor's arguments, variables, image, model or accelerator, or its runtime's name show vLLM."""
    is_other_format, is_on_hub = model_format in OTHER_FORMATS, own.models.get(MODEL_PATH, MODEL_PATH) != MODEL_PATH
    return (
        (is_on_hub and (name is not None or not is_other_format))
        or (bool(own.hardware) and not is_other_format)
        or "vllm" in (name or "").lower()
        or images.starts_vllm(own.image, own.node.reader.images)
        or images.names_vllm(own.image)
        or shows_vllm(own.words, own.env, by_model=False)  # many runtimes have `--model`
    )


def _add_workers(
    own: EngineDraft, document: ManifestNode, uri: str | None, added: dict[str, str | None], *, has_runtime: bool
) -> None:
    """Set the variables of a predictor with workers, which replace the container's."""
    own.gpus = 0  # KServe sets it by the workers' sizes
    own.env.update(added)
    own.env["MODEL_NAME"] = document.get("metadata", "name").text()
    if _is_mounted(uri):
        own.env["MODEL_DIR"] = MODEL_PATH
    if not has_runtime:
        own.doubt(
            "`workerSpec` needs a runtime with workers, which the manifest does not show; its arguments, such as the "
            "parallel sizes, are not known"
        )


def _is_mounted(uri: str | None) -> bool:
    """Whether KServe sets ``MODEL_DIR`` in a predictor with workers whose model has this URI."""
    return uri is not None and uri.partition("://")[0] in MOUNTED_SCHEMES


def _convert_huggingface(draft: EngineDraft, own: EngineDraft, model: ManifestNode) -> bool:
    """Convert the arguments of KServe's Hugging Face server to vLLM's; false if they select another backend."""
    if draft.has_command:
        return True
    found = server_words(draft.words, draft.places)
    if found.backend == TRANSFORMERS:
        return False
    for note in found.notes:
        draft.note(note)
    draft.words, draft.places = found.words, found.places
    if gpus := draft.gpus or own.gpus:
        draft.add(CONTROLLER_PLACE, *size_flags(gpus))
    source = model.get("storageUri").text()
    own.add(CONTROLLER_PLACE, "vllm", "serve")
    if "--model_id" in found.own:
        own.add(*found.own["--model_id"] if source is None else (CONTROLLER_PLACE, MODEL_PATH))
    else:
        own.add(*found.own.get("--model_dir", (CONTROLLER_PLACE, MODEL_PATH)))
    own.has_command = True
    if found.backend != VLLM:
        own.note(UNCERTAIN_BACKEND)
    if source and "--model_id" in found.own and hub_name(source) is None:
        own.note("`storageUri` takes precedence over `--model_id`")
    elif source and "--model_id" in found.own:
        own.doubt(MODEL_ID_DOUBT)
    return True
