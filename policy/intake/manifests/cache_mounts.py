"""The files of a pod's own that are mounted into vLLM's cache or the hub's.

A cache has what its program wrote, so a volume for it is no doubt. A ConfigMap, a Secret, the downward API and a
projected volume have files that the manifest or an object beside it states: a model's configuration in the hub's cache,
or what vLLM once found out about a class (``modelinfos``), which it takes from there if a hash in the file is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.mounts import resolved_path
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policy.intake.manifests.reading import ManifestNode

FILES: Final = frozenset({"configMap", "secret", "downwardAPI", "projected"})
"""The volumes whose files are stated by objects of the cluster."""
IN_A_HOME: Final = ("vllm/modelinfos", "huggingface/hub", "huggingface/modules")
"""The folders below `.cache` of a home in which vLLM looks for models and what it knows of their classes."""
FOLDERS: Final = {
    "VLLM_CACHE_ROOT": ("modelinfos",),
    "HF_HUB_CACHE": ("",),
    "HUGGINGFACE_HUB_CACHE": ("",),
    "HF_MODULES_CACHE": ("",),
    "TRANSFORMERS_CACHE": ("",),
    "HF_HOME": ("hub", "modules"),
    "XDG_CACHE_HOME": IN_A_HOME,
}
"""The same folders, below the values of variables."""
MAY_REPLACE: Final = (
    "the mount at {} has files of its own where vLLM looks for its cache or the hub's, which may have another "
    "configuration of the model; mount it elsewhere"
)


def file_mounts(container: ManifestNode, volumes: Mapping[str, ManifestNode]) -> list[str]:
    """The paths at which a container mounts files that objects state."""
    return [path for path, name in _mounts(container) if name in volumes and _has_files(volumes[name].value)]


def cache_doubt(paths: Iterable[str], env: Mapping[str, str | None]) -> str:
    """Why files mounted at these paths may be taken for those of a cache; empty if none may.

    ``env`` has the variables that vLLM gets; of one whose value is not known, the default is assumed.
    """
    values = {name: value for name in FOLDERS if (value := env.get(name))}
    folders = [resolved_path(f"{value}/{folder}") for name, value in values.items() for folder in FOLDERS[name]]
    for path in map(resolved_path, paths):
        _, cache, rest = path.partition("/.cache")
        if (cache and any(_overlap(rest, f"/{folder}") for folder in IN_A_HOME)) or any(
            _overlap(path, folder) for folder in folders
        ):
            return MAY_REPLACE.format(quoted(path))
    return ""


def _overlap(path: str, folder: str) -> bool:
    """Whether one of two paths is the other, or is below it."""
    return f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/")


def _has_files(volume: object) -> bool:
    return isinstance(volume, dict) and any(volume.get(kind) is not None for kind in FILES)


def _mounts(container: ManifestNode) -> Iterator[tuple[str, str]]:
    mounts = container.get("volumeMounts").value
    for mount in mounts if isinstance(mounts, list) else []:
        path, name = (mount.get("mountPath"), mount.get("name")) if isinstance(mount, dict) else (None, None)
        if isinstance(path, str) and isinstance(name, str):
            yield path, name
