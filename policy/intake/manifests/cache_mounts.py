"""A pod's own files that are mounted into vLLM's cache or the hub's.

A volume for a cache has what the program wrote, and is no doubt. A ConfigMap, a Secret, the downward API and a
projected volume have files that the manifest or an object beside it states: a model's configuration in the hub's cache,
or what vLLM stored about a class of models (``modelinfos``), which it uses if a hash in the file is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.mounts import resolved_path
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policy.intake.manifests.reading import ManifestNode

FILES: Final = frozenset({"configMap", "secret", "downwardAPI", "projected"})
"""The volumes whose files objects of the cluster state."""
HOME_FOLDERS: Final = ("vllm/modelinfos", "huggingface/hub", "huggingface/modules")
"""The folders below `.cache` of a home in which vLLM looks for models and what it stored about their classes."""
FOLDERS: Final = {
    "VLLM_CACHE_ROOT": ("modelinfos",),
    "HF_HUB_CACHE": ("",),
    "HUGGINGFACE_HUB_CACHE": ("",),
    "HF_MODULES_CACHE": ("",),
    "TRANSFORMERS_CACHE": ("",),
    "HF_HOME": ("hub", "modules"),
    "XDG_CACHE_HOME": HOME_FOLDERS,
}
"""The same folders, below the value of each variable."""
CACHE_DOUBT: Final = (
    "the mount at {} has files of its own where vLLM looks for its cache or the hub's, which may have another "
    "configuration of the model; mount it elsewhere"
)


def file_mounts(container: ManifestNode, volumes: Mapping[str, ManifestNode]) -> list[str]:
    """The paths at which a container mounts files that objects state."""
    return [path for path, name in _mounts(container) if name in volumes and _has_files(volumes[name].value)]


def cache_doubt(paths: Iterable[str], env: Mapping[str, str | None]) -> str:
    """The doubt that vLLM may take files mounted at these paths for those of a cache; empty if there is none.

    ``env`` has the variables that vLLM gets; the default is assumed for one whose value is not known.
    """
    values = {name: value for name in FOLDERS if (value := env.get(name))}
    folders = [resolved_path(f"{value}/{folder}") for name, value in values.items() for folder in FOLDERS[name]]
    for path in map(resolved_path, paths):
        _, cache, rest = path.partition("/.cache")
        if (cache and any(_overlap(rest, f"/{folder}") for folder in HOME_FOLDERS)) or any(
            _overlap(path, folder) for folder in folders
        ):
            return CACHE_DOUBT.format(quoted(path))
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
