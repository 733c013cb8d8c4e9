"""A deployment as users write it: arguments, variables, models' configurations, files, and what no manifest shows.

Owns the members of ``deployment`` and of ``environment``, and every fault in their shape, with JSON pointers.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from policy.errors import MAX_FAULTS, RequestFault
from policy.intake.provenance import ASSUMED
from policy.masking import is_secret
from policy.messages import listed, nearest, quoted
from policy.pointer import at

MEMBERS: Final = ("args", "env", "model_configs", "files", "environment")
MAX_MODELS: Final = 64
MAX_FILES: Final = 64
MAX_VARIABLES: Final = 4096
MAX_PLUGINS: Final = 256


class Platform(StrEnum):
    """Where an engine runs, as vLLM's own platforms are called."""

    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"
    CPU = "cpu"
    TPU = "tpu"
    OUT_OF_TREE = "out-of-tree"
    UNSPECIFIED = "unspecified"


PLATFORMS: Final = tuple(map(str, Platform))


class Environment(Struct, frozen=True):
    """What no manifest shows; ``stated`` names what somebody said, the rest is assumed."""

    platform: str = "cuda"
    has_triton: bool = True
    logits_processors: tuple[str, ...] = ()
    stated: frozenset[str] = frozenset()

    def origin(self, name: str) -> str:
        """Where a value came from."""
        return f"environment.{name}" if name in self.stated else ASSUMED


class Deployment(Struct, frozen=True):
    """One engine to be started.

    ``args`` are words, or one text as typed in a shell; ``places`` says where each word stands, where that is not its number. A variable of
    ``None`` has a value that cannot be known. ``names`` gives a model's own name for a path that it is mounted at,
    ``models_at`` is where a request states configurations, ``None`` where it has no place for them, and ``notes`` are warnings that came with it.
    """

    args: list[str] | str
    env: dict[str, str | None]
    model_configs: dict[str, dict[str, Any]]
    files: dict[str, str]
    environment: Environment
    places: list[str] | None = None
    names: dict[str, str] = {}
    models_at: str | None = ""
    notes: list[str] = []


def read_deployment(document: object, pointer: str, faults: list[RequestFault]) -> Deployment:
    """A deployment's document; what is wrong with it is added to ``faults``."""
    if type(document) is not dict:
        faults.append(
            RequestFault(
                pointer,
                f'{quoted(document)} is no deployment; write an object such as `{{"args": ["--model", "Qwen/Qwen3-8B"]}}`',
            )
        )
        return Deployment([], {}, {}, {}, Environment())
    faults.extend(unknown_members(document, MEMBERS, pointer))
    return Deployment(
        _read_args(document.get("args", []), f"{pointer}/args", faults),
        _read_texts(document.get("env"), f"{pointer}/env", "variables", MAX_VARIABLES, faults),
        read_model_configs(document.get("model_configs"), f"{pointer}/model_configs", faults),
        _read_texts(document.get("files"), f"{pointer}/files", "files", MAX_FILES, faults),  # type: ignore[arg-type]  # no file is unknown
        read_environment(document.get("environment"), f"{pointer}/environment", faults),
        models_at=f"{pointer}/model_configs",
    )


def unknown_members(document: dict[str, Any], members: tuple[str, ...], pointer: str) -> list[RequestFault]:
    """The faults of members that an object does not have."""
    unknown = [key for key in document if key not in members]
    return [
        RequestFault(at(pointer, key), f"unknown member {quoted(key)}; legal: {listed(members)}{nearest(key, members)}")
        for key in unknown[:32]
    ]


def _read_args(args: object, pointer: str, faults: list[RequestFault]) -> list[str] | str:
    if type(args) is str:
        return args
    if type(args) is not list:
        faults.append(
            RequestFault(
                pointer, f'{quoted(args)} is neither a list of texts nor one text; write `["--model", "Qwen/Qwen3-8B"]`'
            )
        )
        return []
    if not all(type(word) is str for word in args):
        wrong = (n for n, word in enumerate(args) if type(word) is not str)
        faults.extend(
            RequestFault(
                f"{pointer}/{n}", f"{_shown(args[n], args[n - 1] if n else '')} is no text; write it in quotes"
            )
            for n in islice(wrong, MAX_FAULTS)
        )
        return []
    return args


def _read_texts(
    document: object, pointer: str, what: str, most: int, faults: list[RequestFault]
) -> dict[str, str | None]:
    if document is None:
        return {}
    if type(document) is not dict:
        faults.append(RequestFault(pointer, f"{quoted(document)} is no object of {what} with their texts"))
        return {}
    if len(document) > most:
        faults.append(RequestFault(pointer, f"{len(document)} {what} are more than the {most} that are taken"))
        return {}
    found: dict[str, str | None] = {}
    for name, text in document.items():
        if type(text) is str:
            found[name] = text
        elif text is not None and len(faults) < MAX_FAULTS:
            faults.append(RequestFault(at(pointer, name), f"{_shown(text, name)} is no text; write it in quotes"))
    return found


def _shown(value: object, name: object) -> str:
    """A value for a message, unless what stands before it names a secret."""
    return "the value" if isinstance(name, str) and is_secret(name) else quoted(value)


def read_model_configs(document: object, pointer: str, faults: list[RequestFault]) -> dict[str, dict[str, Any]]:
    """The ``config.json`` of each model, by the name that the arguments give it."""
    if document is None:
        return {}
    if type(document) is not dict:
        faults.append(
            RequestFault(
                pointer,
                f'{quoted(document)} is no object; write each model\'s config.json by its name: `{{"Qwen/Qwen3-8B": {{…}}}}`',
            )
        )
        return {}
    if len(document) > MAX_MODELS:
        faults.append(RequestFault(pointer, f"{len(document)} models are more than the {MAX_MODELS} that are taken"))
        return {}
    found = {}
    for name, config in document.items():
        if type(config) is dict:
            found[name.rstrip("/")] = config
        else:
            faults.append(RequestFault(at(pointer, name), f"{quoted(config)} is no config.json; it is an object"))
    return found


def read_environment(document: object, pointer: str, faults: list[RequestFault]) -> Environment:
    """What no manifest shows; what is left out is assumed."""
    if document is None:
        return Environment()
    if type(document) is not dict:
        faults.append(
            RequestFault(
                pointer, f'{quoted(document)} is no environment; write an object such as `{{"platform": "cuda"}}`'
            )
        )
        return Environment()
    faults.extend(unknown_members(document, ("platform", "has_triton", "plugins"), pointer))
    platform, triton = document.get("platform"), document.get("has_triton")
    if platform is not None and platform not in PLATFORMS:
        near = nearest(platform, PLATFORMS) if type(platform) is str else ""
        faults.append(
            RequestFault(f"{pointer}/platform", f"{quoted(platform)} is no platform; legal: {listed(PLATFORMS)}{near}")
        )
        platform = None
    if triton is not None and type(triton) is not bool:
        faults.append(RequestFault(f"{pointer}/has_triton", f"{quoted(triton)} is neither `true` nor `false`"))
        triton = None
    plugins = _read_plugins(document.get("plugins"), f"{pointer}/plugins", faults)
    stated = {"platform": platform, "has_triton": triton, "plugins": plugins}
    platform = platform or "cuda"
    return Environment(
        platform,
        platform != "cpu" if triton is None else triton,
        plugins or (),
        frozenset(name for name, value in stated.items() if value is not None),
    )


def _read_plugins(document: object, pointer: str, faults: list[RequestFault]) -> tuple[str, ...] | None:
    if document is None:
        return None
    if type(document) is not dict:
        faults.append(RequestFault(pointer, f'{quoted(document)} is no object; write `{{"logits_processors": []}}`'))
        return None
    faults.extend(unknown_members(document, ("logits_processors",), pointer))
    names = document.get("logits_processors", [])
    if type(names) is not list or len(names) > MAX_PLUGINS or not all(type(name) is str for name in names):
        faults.append(
            RequestFault(f"{pointer}/logits_processors", f"{quoted(names)} is no list of at most {MAX_PLUGINS} texts")
        )
        return None
    return tuple(names)
