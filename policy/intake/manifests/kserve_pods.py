"""The volumes and containers of a pod whose names KServe looks for, to put the model into it.

KServe (read at 0.20, August 2026) adds a volume for the model, mounts it in the engine's container, and adds an init
container that downloads the model, each only if the pod has none of that name. So a volume, mount or container of the
user with such a name takes its place, and other files may be at the model's path. This makes the engines of the pod
doubtful, unless the volume is an `emptyDir` that no other container writes.
"""

from __future__ import annotations

import re
from posixpath import commonpath
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.huggingface_server import MODEL_PATH
from policy.intake.command.paths import absolute_path
from policy.intake.manifests.empty_volumes import empty_volumes
from policy.intake.manifests.kserve_metadata import metadata_doubt
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from policy.intake.manifests.reading import ManifestNode

_Place = tuple[str, list[str | int], dict[str, Any]]

MODEL_VOLUME: Final = re.compile(r"kserve-provision-location(?:-.*)?|kserve-pvc-source", re.DOTALL)
"""Matches the name of a volume that has the model, or a part of it."""
MODEL_CONTAINER: Final = re.compile(r"(?:storage-initializer|modelcar)(?:-.*)?", re.DOTALL)
"""Matches the name of a container that brings the model."""
AGENT: Final = "agent"
"""The container that downloads the models of an InferenceService with several models."""
DOWNLOADER: Final = "storage-initializer"
ENGINES: Final = frozenset({"kserve-container", "worker-container", "main"})
"""The containers in which KServe mounts the model, unless they mount its volume themselves."""
IMAGE_SCHEME: Final = "oci"
"""The beginning of the schemes of images with a model; the volume of such an image is named after the model's path."""
LISTS: Final = ("initContainers", "containers")
EMPTY_DIR: Final = "emptyDir"
DOWNLOADER_FIELDS: Final = frozenset(
    {
        *("name", "command", "args", "resources", "securityContext", "imagePullPolicy", "terminationMessagePath"),
        *("terminationMessagePolicy", "env"),
    }
)
"""The fields of an LLMInferenceService's downloader that KServe replaces, or that do not change what it downloads."""
DOWNLOADER_VARIABLES: Final = frozenset(
    {
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_ENABLE_HF_TRANSFER", "HF_XET_HIGH_PERFORMANCE"),
        *("HF_XET_NUM_CONCURRENT_RANGE_GETS", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"),
    }
)
"""The downloader's variables that do not change what it downloads."""
CONFIGURED_MOUNTS: Final = {
    "home": "/home",
    "tmp-dir": "/tmp",  # noqa: S108  # where KServe mounts it
    "dshm": "/dev/shm",  # noqa: S108  # where KServe mounts it
    "model-cache": "/models",
    "tls-certs": "/var/run/kserve/tls",
}
"""The volumes that KServe's configurations of an LLMInferenceService mount in the container `main`, by name."""
VOLUME_DOUBT: Final = "{} has the name of the volume in which KServe puts the model, which may get other files"
CONTAINER_DOUBT: Final = "{} has the name of a container by which KServe brings the model, which may be another one"


READ_ONLY_ANNOTATION: Final = "storage.kserve.io/readonly"
TRANSFORMER: Final = "transformer-container"
"""The container beside an engine in which KServe mounts the model too."""
SHARED_MODEL_DOUBT: Final = (
    f"KServe mounts the model in `{TRANSFORMER}` too, which may write it because of the annotation "
    f'`{READ_ONLY_ANNOTATION}: "false"`; leave the annotation out'
)


def shared_model_doubt(*parts: ManifestNode) -> str:
    """The doubt about a container that may write the model of an engine beside it; empty if there is none.

    ``parts`` of a pod have its annotations and containers: a service's metadata, a component and its runtime.
    """
    values = [part.value for part in parts if isinstance(part.value, dict)]
    annotations = (value.get("annotations") for value in values)
    if not any(isinstance(each, dict) and each.get(READ_ONLY_ANNOTATION) == "false" for each in annotations):
        return ""
    has_other = any(each.get("name") == TRANSFORMER for value in values for each in _objects(value, LISTS[1]))
    return SHARED_MODEL_DOUBT if has_other else ""


def component_doubt(component: ManifestNode) -> str:
    """The doubt about a predictor, a transformer or an explainer, or about the specification of a runtime."""
    derived = _derived_names(component.value)
    return next(
        filter(
            None,
            (
                doubt
                for pod in (component, component.get("workerSpec"))
                for doubt in (metadata_doubt(pod), _pod_doubt(pod, derived))
            ),
        ),
        "",
    )


def workload_doubt(workload: ManifestNode) -> str:
    """The doubt about a workload of an LLMInferenceService, which may be merged with configurations."""
    pods = (workload.get(role) for role in ("template", "worker"))
    doubts = (metadata_doubt(workload), *(_pod_doubt(pod, (), is_merged=True) for pod in pods))
    return next(filter(None, doubts), "")


def filled_mounts(pod: ManifestNode, container: object) -> list[str]:
    """The paths at which KServe mounts volumes of an LLMInferenceService that may not be empty in a container."""
    value = pod.value if isinstance(pod.value, dict) else {}
    empty = empty_volumes(value)
    found = {
        volume["name"]
        for volume in _objects(value, "volumes")
        if isinstance(volume.get("name"), str) and not empty.is_empty(volume["name"], container)
    }
    for each, _, _, mount in _mounts(pod.value):
        if each.get("name") != container and mount.get("readOnly") is not True and isinstance(mount.get("name"), str):
            found.add(mount["name"])
    return [path for name, path in CONFIGURED_MOUNTS.items() if name in found]


def _pod_doubt(pod: ManifestNode, derived: Collection[str], *, is_merged: bool = False) -> str:
    """The doubt about the first volume or container whose name KServe looks for.

    ``derived`` are names of volumes that KServe derives from paths. With ``is_merged`` the pod is of an
    LLMInferenceService, in which KServe merges its downloader with the user's.
    """

    def of_model(name: object) -> bool:
        return isinstance(name, str) and (name in derived or MODEL_VOLUME.fullmatch(name) is not None)

    for place, volume in enumerate(_objects_or_none(pod.value, "volumes")):
        if volume is not None and of_model(volume.get("name")) and not _is_empty_dir(volume):
            return VOLUME_DOUBT.format(quoted(pod.below(["volumes", place]).path))
    for field, keys, container in _containers(pod.value):
        if field and _brings_model(field, container, is_merged=is_merged):
            return CONTAINER_DOUBT.format(quoted(pod.below(keys).path))
    for container, field, keys, mount in _mounts(pod.value):
        is_engine = not field or _name(container) in ENGINES
        if of_model(mount.get("name")) and (is_engine or mount.get("readOnly") is not True):
            return VOLUME_DOUBT.format(quoted(pod.below(keys).path))
    return ""


def _brings_model(field: str, container: dict[str, Any], *, is_merged: bool) -> bool:
    """Whether KServe takes a container of a list for its own container that brings the model."""
    name = container.get("name")
    if not isinstance(name, str):
        return False
    if is_merged and name == DOWNLOADER and field == LISTS[0]:
        return any(value and key not in DOWNLOADER_FIELDS for key, value in container.items()) or any(
            _name(variable) not in DOWNLOADER_VARIABLES for variable in _objects(container, "env")
        )
    return MODEL_CONTAINER.fullmatch(name) is not None or (not is_merged and field == LISTS[1] and name == AGENT)


def _name(part: dict[str, Any]) -> str:
    """The name of a container or variable; empty if it is not a string."""
    name = part.get("name")
    return name if isinstance(name, str) else ""


def _containers(pod: object) -> Iterator[_Place]:
    """The containers of a pod with the list in which each is, and its keys; those of a model's field have no list."""
    for field in LISTS:
        for place, container in enumerate(_objects_or_none(pod, field)):
            if container is not None:
                yield field, [field, place], container
    for key, value in pod.items() if isinstance(pod, dict) else ():
        if isinstance(key, str) and isinstance(value, dict) and "volumeMounts" in value:
            yield "", [key], value


def _mounts(pod: object) -> Iterator[tuple[dict[str, Any], str, list[str | int], dict[str, Any]]]:
    """The mounts of a pod's containers, each with its container, the list in which this is, and the mount's keys."""
    for field, keys, container in _containers(pod):
        for place, mount in enumerate(_objects_or_none(container, "volumeMounts")):
            if mount is not None:
                yield container, field, [*keys, "volumeMounts", place], mount


def _derived_names(component: object) -> frozenset[str]:
    """The names of volumes that KServe derives from the paths of models in a component."""
    paths = [item.get("mountPath") or MODEL_PATH for item in _objects(component, "storageUris")]
    model = component.get("model") if isinstance(component, dict) else None
    uri = model.get("storageUri") if isinstance(model, dict) else None
    if isinstance(uri, str) and uri.startswith(IMAGE_SCHEME):
        paths.append(MODEL_PATH)
    paths = [absolute_path(path) for path in paths if isinstance(path, str)]
    return frozenset(path.strip("/").replace("/", "-") for path in (*paths, *([commonpath(paths)] if paths else ())))


def _is_empty_dir(volume: dict[str, Any]) -> bool:
    return all(source is None or kind in {"name", EMPTY_DIR} for kind, source in volume.items())


def _objects(value: object, key: str) -> list[dict[str, Any]]:
    return [item for item in _objects_or_none(value, key) if item is not None]


def _objects_or_none(value: object, key: str) -> list[dict[str, Any] | None]:
    """The items of the list under ``key``, with None for each that is not an object; those are reported elsewhere."""
    items = value.get(key) if isinstance(value, dict) else None
    return [item if isinstance(item, dict) else None for item in items] if isinstance(items, list) else []
