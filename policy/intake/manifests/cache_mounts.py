"""A pod's own files that are mounted into vLLM's cache or the hub's.

A volume for a cache has what the program wrote, and is no doubt. A ConfigMap, a Secret, the downward API and a
projected volume have files that the manifest or an object beside it states: a model's configuration in the hub's cache,
or what vLLM stored about a class of models (``modelinfos``), which it uses if a hash in the file is right.

A path whose folders are named as in such a cache counts wherever the cache is, because a variable or a script may name
any folder. Other paths count if they are in a folder of a cache that is known: without a folder of such a name in a
path, the files of a volume cannot be in a cache of another folder.
"""

from __future__ import annotations

import re
from posixpath import isabs, join
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.command.volume_paths import USER_HOME
from policy.intake.manifests.mounts import resolved_path
from policy.intake.manifests.volume_sources import FILES
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policy.intake.manifests.reading import ManifestNode

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
LAYOUT: Final = re.compile(r"(?:^|/)(?:models--|(?:modelinfos|transformers_modules)(?:/|\Z))")
"""Matches a path with a folder of a model in the hub's cache, or of vLLM's."""
REFERENCE: Final = re.compile(r"\$(?:([A-Za-z0-9_]++)|\{([^{}]*+)\})", re.ASCII)
"""Matches what the hub expands in the values of its variables."""
MAX_VALUE: Final = 1024
"""The length above which a value with references is not expanded; with a longer one, its folder is not known."""
MAX_REFERENCES: Final = 16
CACHE_DOUBT: Final = (
    "the mount at {} has files of its own where vLLM looks for its cache or the hub's, which may have another "
    "configuration of the model; mount it elsewhere"
)


class FileMount(Struct, frozen=True):
    """A path at which a container mounts files, and whether one of the files has a path as in a cache."""

    path: str
    has_cache: bool


def file_mounts(
    container: ManifestNode, volumes: Mapping[str, ManifestNode], known: dict[int, tuple[Any, bool]]
) -> list[FileMount]:
    """The mounts of a container with files that objects state.

    ``known`` has which volumes have files with paths as in a cache, by their identity with the volumes themselves.
    """
    found: list[FileMount] = []
    for path, name in _mounts(container):
        volume = volumes[name].value if name in volumes else None
        if not _has_files(volume):
            continue
        if id(volume) not in known:
            known[id(volume)] = (volume, any(map(LAYOUT.search, _item_paths(volume))))
        found.append(FileMount(path, known[id(volume)][1]))
    return found


def cache_doubt(
    mounts: Iterable[FileMount], files: Iterable[str], env: Mapping[str, str | None], folders: Iterable[str]
) -> str:
    """The doubt that vLLM may take mounted files, or ``files``, for those of a cache; empty if there is none.

    ``env`` has the variables that vLLM gets; the default is assumed for one whose value is not known. It starts in one
    of the ``folders``.
    """
    starts = [*filter(isabs, folders)]
    caches = [
        resolved_path(f"{value}/{folder}")
        for name in FOLDERS
        for value in _cache_paths(env.get(name), env, starts)
        for folder in FOLDERS[name]
    ]
    for mount in (*mounts, *(FileMount(path, has_cache=False) for path in files)):
        path = resolved_path(mount.path)
        _, cache, rest = path.partition("/.cache")
        if (
            mount.has_cache
            or LAYOUT.search(path) is not None
            or (cache and any(_overlap(rest, f"/{folder}") for folder in HOME_FOLDERS))
            or any(_overlap(path, folder) for folder in caches)
        ):
            return CACHE_DOUBT.format(quoted(path))
    return ""


def _cache_paths(value: str | None, env: Mapping[str, str | None], folders: Iterable[str]) -> list[str]:
    """The absolute paths that a variable of a cache may name, as the hub expands it; none if it is not known."""
    if value is None:
        return []
    path = _expanded(value, env) if value.startswith("~") or "$" in value else value
    if path is None:
        return []
    return [path] if isabs(path) else [join(folder, path) for folder in folders]


def _expanded(value: str, env: Mapping[str, str | None]) -> str | None:
    """A value with a home at its beginning and with references to variables; None if one is not known."""
    if len(value) > MAX_VALUE or value.count("$") > MAX_REFERENCES:
        return None
    head, slash, rest = value.partition("/")
    if head == "~":
        home = env.get("HOME", USER_HOME)
        if home is None:
            return None
        value = f"{home.rstrip('/')}{slash}{rest}" or "/"
    elif head.startswith("~"):
        return None
    names = {first or second for first, second in REFERENCE.findall(value)}
    values = {name: env.get(name, USER_HOME if name == "HOME" else None) for name in names}
    if any(each is None or len(each) > MAX_VALUE for each in values.values()):
        return None
    return REFERENCE.sub(lambda found: values[found[1] or found[2]] or "", value)


def _overlap(path: str, folder: str) -> bool:
    """Whether one of two paths is the other, or is below it."""
    return f"{path}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{path}/")


def _has_files(volume: object) -> bool:
    return isinstance(volume, dict) and any(volume.get(kind) is not None for kind in FILES)


def _item_paths(volume: Any) -> Iterator[str]:
    """The paths that a volume states for its files; those of the keys of a ConfigMap or a Secret have no folders."""
    for kind in FILES & volume.keys():
        source = volume[kind] if isinstance(volume[kind], dict) else {}
        yield from _paths(source)
        for each in _objects(source.get("sources")):
            for part in filter(lambda part: isinstance(part, dict), each.values()):
                yield from _paths(part)


def _paths(source: dict[str, Any]) -> Iterator[str]:
    values = (source.get("path"), *(item.get("path") for item in _objects(source.get("items"))))
    return (value for value in values if isinstance(value, str))


def _objects(values: object) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _mounts(container: ManifestNode) -> Iterator[tuple[str, str]]:
    for mount in _objects(container.get("volumeMounts").value):
        path, name = mount.get("mountPath"), mount.get("name")
        if isinstance(path, str) and isinstance(name, str):
            yield path, name
