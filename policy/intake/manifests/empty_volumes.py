"""The volumes of a pod that are empty when a container starts, so that they have no packages and no model.

An `emptyDir` does not count if another container mounts it and may write it: an init container before the start, or one
that runs beside this one. Nor does a volume with the same name as a claim of the pod's controller, because the claim
takes precedence, or one with files that the manifest puts into folders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

EMPTY_DIR: Final = "emptyDir"
PROJECTED_VOLUME: Final = "projected"
MAX_WRITERS: Final = 2
"""The most containers kept that may fill a volume; of two, at least one is not the engine's."""
FILE_SOURCES: Final = frozenset({"secret", "downwardAPI", "serviceAccountToken"})
"""The volumes, and the sources of projected ones, that have files but no folders, unless a path states one."""


class EmptyVolumes(Struct, frozen=True):
    """The volumes of a pod that have no folders.

    ``writers`` has the names of the containers that may fill each volume, by its name; ``with_files`` has the volumes
    that may have files. Kubernetes refuses containers without a name or with the same name.
    """

    writers: dict[str, list[object]]
    with_files: frozenset[str]

    def is_empty(self, name: str, container: object) -> bool:
        """Whether a volume is empty when a container starts: no container but this one may fill it."""
        writers = self.writers.get(name)
        return writers is not None and all(writer == container for writer in writers)


def empty_volumes(pod: Any, claim_names: Collection[str] = (), others: Sequence[Any] = ()) -> EmptyVolumes:
    """The empty volumes of a pod's spec; the spec may have any content.

    ``claim_names`` are the names of the claims of the pod's controller, which replace volumes of the same names.
    ``others`` are containers that the spec does not have, or those of the spec with mounts that the controller adds.
    """
    found: dict[str, list[object]] = {}
    writable: set[str] = set()
    for volume in _objects(pod, "volumes"):
        name = volume.get("name")
        if isinstance(name, str) and name not in claim_names and _is_empty(volume):
            found[name] = []
            if EMPTY_DIR in volume:
                writable.add(name)
    containers = (*_objects(pod, "initContainers"), *_objects(pod, "containers"), *others) if writable else ()
    for container in containers:
        for mount in _objects(container, "volumeMounts"):
            name = mount.get("name")
            if isinstance(name, str) and name in writable and mount.get("readOnly") is not True:
                writer = container.get("name")
                if len(found[name]) < MAX_WRITERS and writer not in found[name]:
                    found[name].append(writer)
    return EmptyVolumes(found, frozenset(found.keys() - writable))


def claimed_volumes(controller: Any) -> frozenset[str]:
    """The names of the volumes that a controller makes from its ``volumeClaimTemplates``, for each of its pods."""
    found = (claim.get("metadata") for claim in _objects(controller, "volumeClaimTemplates"))
    names = (metadata.get("name") for metadata in found if isinstance(metadata, dict))
    return frozenset(name for name in names if isinstance(name, str))


def _is_empty(volume: dict[str, Any]) -> bool:
    """Whether a volume has no folders when the pod starts; fields that are null count as absent, as in Kubernetes."""
    kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
    if EMPTY_DIR in volume:
        return kinds in ([], [EMPTY_DIR])
    if kinds == [PROJECTED_VOLUME]:
        sources = volume[PROJECTED_VOLUME].get("sources") if isinstance(volume[PROJECTED_VOLUME], dict) else None
        return isinstance(sources, list) and all(isinstance(each, dict) and _has_files(each) for each in sources)
    return len(kinds) == 1 and _has_files(volume)


def _has_files(sources: dict[str, Any]) -> bool:
    """Whether sources have only files whose paths have no folders; a key of a Secret cannot name a folder."""
    for kind, source in sources.items():
        if kind == "name" or source is None:
            continue
        if kind not in FILE_SOURCES or not isinstance(source, dict):
            return False
        paths = [source.get("path"), *(item.get("path") for item in _objects(source, "items"))]
        if any(isinstance(path, str) and "/" in path for path in paths):
            return False
    return True


def _objects(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects of a list under ``key``; invalid ones are skipped, as they are reported elsewhere."""
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
