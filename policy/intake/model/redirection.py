"""The variables and mounts that may make vLLM load a different model from the one that its arguments name.

Follows `vllm/envs.py`, `maybe_model_redirect` of `vllm/transformers_utils/utils.py`, and `ENDPOINT` in
`huggingface_hub/constants.py`. Not here: the hub's cache and its offline mode, which keep a model's name.
"""

from __future__ import annotations

from posixpath import isabs, join, normpath
from typing import TYPE_CHECKING, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

REDIRECT: Final = "VLLM_MODEL_REDIRECT_PATH"
MODELSCOPE: Final = "VLLM_USE_MODELSCOPE"
ENDPOINT: Final = "HF_ENDPOINT"
STAGING_VARIABLE: Final = "HUGGINGFACE_CO_STAGING"
"""The variable that selects the hub's test server, whatever `HF_ENDPOINT` is."""
READ_VARIABLES: Final = frozenset({REDIRECT, MODELSCOPE, ENDPOINT, STAGING_VARIABLE})
HUB: Final = "https://huggingface.co"
TRUE: Final = frozenset({"1", "ON", "YES", "TRUE"})
MAIN: Final = "main"
MAX_PARTS: Final = 8
"""The most parts that a model's name may have if mounts are also to be compared with only its first parts."""
MAY_DIFFER: Final = "check that the given `config.json` is the one that vLLM loads"


def redirections(env: Mapping[str, str | None], models: Collection[str]) -> list[str]:
    """A warning for each variable that may make vLLM load a different model; a value of None is unknown.

    ``models`` has the names in the arguments; another hub does not matter if all are absolute paths.
    """
    if env.keys().isdisjoint(READ_VARIABLES):
        return []
    found = []
    modelscope = env.get(MODELSCOPE, "")
    if env.get(REDIRECT, "") != "":
        found.append(
            f"`{REDIRECT}` is set, so vLLM may load a different model from the one in its arguments; {MAY_DIFFER}"
        )
    if modelscope is None or modelscope.lower() == "true":
        found.append(f"`{MODELSCOPE}` is set, so vLLM loads models from ModelScope, not from the hub; {MAY_DIFFER}")
    endpoint, staging = env.get(ENDPOINT, ""), env.get(STAGING_VARIABLE, "")
    is_other = {
        STAGING_VARIABLE: staging is None or staging.upper() in TRUE,
        ENDPOINT: endpoint is None or endpoint.rstrip("/") not in {"", HUB},
    }
    for name in (name for name, is_set in is_other.items() if is_set and not all(map(isabs, models))):
        loads, unknown = ("may load", ", whose value is not known") if env[name] is None else ("loads", "")
        found.append(f"vLLM {loads} models from a different hub than `{HUB}`, by `{name}`{unknown}; {MAY_DIFFER}")
    return found


def other_revision(revision: object, models: Collection[str]) -> list[str]:
    """A warning if vLLM loads another revision of a model than that whose ``config.json`` was looked up.

    ``models`` are the names of the models that were looked up, and not given; their main branch was read.
    """
    if revision is None or revision == MAIN or not models:
        return []
    names = ", ".join(map(quoted, sorted(models)))
    shown = quoted(revision) if isinstance(revision, str) else "not known"
    return [f"`--revision` is {shown}, and the `config.json` of {names} was looked up without it"]


HOME_CHARACTERS: Final = frozenset("~$")
"""The first characters of a path in a home folder, whose place below the root is not known."""


def mounted_models(mounts: Collection[str], folder: str | None, models: Collection[str]) -> list[str]:
    """Why vLLM may load a folder instead of the model with the same name: a mount is at, above or below that folder.

    ``mounts`` are absolute paths. ``folder`` is the working folder, which may be below any folder if it is relative.
    With None any mount counts.
    """
    found = []
    for name in models if mounts else ():
        path = "" if isabs(name) else normpath(join(folder or "", name))
        may_make = None if folder is None else _may_make(path)
        mount = next(filter(may_make, mounts), None) if path else None
        if mount is not None:
            shown = mount[1:] if mount[1:2] in HOME_CHARACTERS else mount
            found.append(
                f"the mount at {quoted(shown)} may make the folder {quoted(name)}, and vLLM loads it instead of that "
                "model"
            )
    return found


def mounted_files(mount: str, models: Collection[str]) -> list[str]:
    """Why vLLM may load a file in the working folder, with the name of a model, as that model's configuration.

    ``mount`` is at the working folder and has files, but no folders; it is empty if there is no such mount.
    """
    return [
        f"the volume at {quoted(mount)} may have the file {quoted(name)}, and vLLM loads it instead of that model's "
        "configuration"
        for name in (models if mount else ())
        if "/" not in normpath(name)
    ]


def _may_make(path: str) -> Callable[[str], bool]:
    """A test whether a mount may create or have a folder at a path; a relative path may be below any folder."""
    if isabs(path):
        return lambda mount: f"{path}/".startswith(f"{mount.rstrip('/')}/") or mount.startswith(f"{path}/")
    parts = [part for part in path.split("/") if part != ".."]
    shortest = 1 if len(parts) <= MAX_PARTS else len(parts)
    ends = tuple(f"/{'/'.join(parts[:count])}" for count in range(shortest, len(parts) + 1))
    return lambda mount: mount.endswith(ends) or f"{ends[-1]}/" in mount
