"""The mounts of a container's volumes that its commands may write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.intake.command.paths import absolute_path
from policy.intake.command.volume_paths import VolumeMount
from policy.intake.manifests.volume_sources import volume_source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from policy.intake.manifests.reading import ManifestNode


def volume_mounts(
    container: ManifestNode,
    volumes: Mapping[str, ManifestNode],
    claims: Collection[str],
    expand: Callable[[str], str | None],
    known: dict[int, tuple[Any, tuple[str, str] | None]],
) -> Iterator[VolumeMount]:
    """The mounts of a container; ``claims`` are the volumes that the pod's controller claims.

    ``expand`` gives the value of a path with variables, None if it is not known. ``known`` has what identifies the
    volumes, by their identity with the volumes themselves.
    """
    mounts = container.get("volumeMounts").value
    for mount in mounts if isinstance(mounts, list) else ():
        name, path = (mount.get("name"), mount.get("mountPath")) if isinstance(mount, dict) else (None, None)
        if not (isinstance(name, str) and isinstance(path, str)):
            continue
        volume = volumes[name].value if name in volumes and name not in claims else None
        if id(volume) not in known:
            known[id(volume)] = (volume, volume_source(volume) if isinstance(volume, dict) else ("", "/"))
        source = known[id(volume)][1]
        if source is None:
            continue
        own, folder = mount.get("subPathExpr"), mount.get("subPath")
        below = expand(own) if isinstance(own, str) and own else folder if isinstance(folder, str) else ""
        place = None if below is None else absolute_path(f"{source[1]}/{below}")
        is_written = mount.get("readOnly") is not True
        yield VolumeMount(absolute_path(path), source[0] or f"name {name}", place, is_written)
