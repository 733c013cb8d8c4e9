"""Containers in objects of kinds that have no adapter: any map with an image, at any depth of the object.

They are read as a pod's containers are. Each engine has a note that what the kind's controller adds is not known. If
none starts vLLM, the first one that names vLLM is an engine with a problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Container
from policy.intake.manifests import images
from policy.intake.manifests.pods import PASSING_LISTS, read_container, read_passing_container
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

    _Keys = tuple["_Keys", str | int] | None

POD_LISTS: Final = frozenset({"containers", *PASSING_LISTS})
UNREAD_CONTAINER: Final = (
    "the field with this container is not read, and it may start vLLM; use the fields that are read"
)
COMMAND_FIELDS: Final = ("command", "args", "source")


def read_containers(node: ManifestNode, kind: str, remedy: str) -> None:
    """Add an engine for each container in the object that starts vLLM, or one with a problem if none can be read.

    ``remedy`` says in the problem what to do.
    """
    reader = node.reader
    count = len(reader.containers)
    unread: list[str | int] | None = None
    for keys in _containers(node.value):
        container = node.below(keys)
        with reader.separate() as faults:
            _read(container, keys, kind)
        if (faults or len(reader.containers) == count) and unread is None and names_vllm(container):
            unread = keys
    if len(reader.containers) == count and unread is not None:
        container = node.below(unread)
        why = f"the kind {quoted(kind)} is not supported, and one of its containers may start vLLM; {remedy}"
        reader.add(Container(container.path, problem=why), container)


def _read(container: ManifestNode, keys: list[str | int], kind: str) -> None:
    """Add the engine that a container starts, if it starts one."""
    if "source" in container.value:
        return
    pod = None
    if len(keys) > 1 and keys[-2] in POD_LISTS and container.parent is not None:
        pod = container.parent.parent
        if pod is not None and keys[-2] in PASSING_LISTS and container.value.get("restartPolicy") != "Always":
            read_passing_container(container, pod, str(keys[-2]))
            return
    draft = read_container(container, pod)
    if draft.starts_vllm():
        draft.note(f"the kind {quoted(kind)} is not known; what its controller adds to the container is not considered")
        draft.finish()


def add_unread_containers(node: ManifestNode) -> None:
    """Add an item with a problem for each container that names vLLM and was not read, in an object of a known kind.

    Such a container is in an unknown field, which a later release of the kind's controller may read.
    """
    reader = node.reader
    for keys in _containers(node.value):
        container = node.below(keys)
        if names_vllm(container) and container.path not in reader.read_paths:
            reader.add(Container(container.path, problem=UNREAD_CONTAINER), container)


def unread_container(node: ManifestNode) -> str | None:
    """The path of the first container in an object that names vLLM; None if there is none."""
    found = next((keys for keys in _containers(node.value) if names_vllm(node.below(keys))), None)
    return None if found is None else node.below(found).path


def names_vllm(container: ManifestNode) -> bool:
    """Whether the image, the command, the arguments or the script of a container name vLLM."""
    image = container.value.get("image")
    if isinstance(image, str) and (images.starts_vllm(image, container.reader.images) or images.names_vllm(image)):
        return True
    texts = (container.value.get(name) for name in COMMAND_FIELDS)
    return any(
        "vllm" in word for each in texts for word in (each if isinstance(each, list) else [each]) if type(word) is str
    )


def _containers(document: object) -> Iterator[list[str | int]]:
    """The keys of each map with an image in an object, in order, but not in its metadata and status.

    Each value is visited once, and only the parser limits nesting.
    """
    if isinstance(document, dict):
        document = {key: value for key, value in document.items() if key not in {"metadata", "status"}}
    pending: list[tuple[object, _Keys]] = [(document, None)]
    while pending:
        value, keys = pending.pop()
        if isinstance(value, dict):
            if isinstance(value.get("image"), str):
                yield _listed(keys)
            pending += [(item, (keys, key)) for key, item in reversed(value.items()) if isinstance(item, dict | list)]
        elif isinstance(value, list):
            pending += [
                (item, (keys, place)) for place, item in reversed([*enumerate(value)]) if isinstance(item, dict | list)
            ]


def _listed(keys: _Keys) -> list[str | int]:
    found: list[str | int] = []
    while keys is not None:
        keys, key = keys
        found.append(key)
    return found[::-1]
