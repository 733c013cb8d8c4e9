"""A deployment as a request states it: arguments, variables, model configurations, files and environment.

Reads the fields of ``deployment`` and ``environment``, and reports every invalid one with its JSON pointer.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.errors import MAX_FAULTS, RequestFault
from policy.intake.command_line import FolderMounts, ImageVariable, Installation, Omni, RayNode
from policy.intake.provenance import ASSUMED, IMAGE
from policy.messages import listed, nearest, quoted
from policy.pointer import at
from policy.rules.releases import is_final
from policy.secret_names import is_secret
from policy.secret_values import NO_SECRETS, SecretValues

FIELDS: Final = ("args", "env", "model_configs", "files", "environment")
MAX_MODELS: Final = 64
MAX_FILES: Final = 64
MAX_VARIABLES: Final = 4096
MAX_PLUGINS: Final = 256
MAX_VERSION: Final = 64


class Platform(StrEnum):
    """The platform of an engine: by vLLM's name, or by its hardware if a plugin with its own runners supports it."""

    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"
    CPU = "cpu"
    TPU = "tpu"
    OUT_OF_TREE = "out-of-tree"
    UNSPECIFIED = "unspecified"
    ASCEND = "ascend"
    GAUDI = "gaudi"
    METAL = "metal"
    NEURON = "neuron"
    OPENVINO = "openvino"
    RBLN = "rbln"
    SPYRE = "spyre"
    TENSTORRENT = "tenstorrent"


PLATFORMS: Final = tuple(map(str, Platform))
PLUGINS: Final[dict[str, str]] = {
    Platform.ASCEND: "vllm-ascend",
    Platform.GAUDI: "vllm-gaudi",
    Platform.METAL: "vllm-metal",
    Platform.NEURON: "vllm-neuron",
    Platform.OPENVINO: "vllm-openvino",
    Platform.RBLN: "vllm-rbln",
    Platform.SPYRE: "vllm-spyre",
    Platform.TENSTORRENT: "vllm-tt-plugin",
}
"""The platforms that a plugin supports, each with the plugin; vLLM itself knows them as `out-of-tree`."""
PLATFORMS_WITHOUT_TRITON: Final = frozenset({Platform.CPU, Platform.TPU, *PLUGINS} - {Platform.ASCEND})
"""The platforms on which Triton usually does not work."""

BOOLEANS: Final = ("has_triton", "has_pinned_memory")
ENVIRONMENT_FIELDS: Final = ("platform", *BOOLEANS, "plugins", "transformers")


class Environment(Struct, frozen=True, omit_defaults=True):
    """The engine's environment, which no manifest states. ``stated`` names the given values; the rest is assumed.

    ``transformers`` is the release of Transformers, empty for the one that the tables of the vLLM release have.
    ``platform_origin`` is where the platform is from, if not from the request: the container's image, or a variable.
    ``triton_since`` is the first release whose image for CPUs has Triton, ``never`` on Arm, and empty if it is not
    known.
    """

    platform: str = "cuda"
    has_triton: bool = True
    has_pinned_memory: bool = True
    logits_processors: tuple[str, ...] = ()
    transformers: str = ""
    stated: frozenset[str] = frozenset()
    platform_origin: str = ""
    triton_since: str = ""

    @property
    def vllm_platform(self) -> str:
        """The platform by vLLM's name."""
        return str(Platform.OUT_OF_TREE) if self.platform in PLUGINS else self.platform

    def origin(self, name: str) -> str:
        """The origin of a value."""
        if self.platform_origin and name == "platform":
            return self.platform_origin
        return f"environment.{name}" if name in self.stated else ASSUMED


def on_platform(environment: Environment, platform: str) -> Environment:
    """The environment with another platform, and that platform's default for Triton."""
    triton = environment.has_triton if "has_triton" in environment.stated else platform not in PLATFORMS_WITHOUT_TRITON
    return replace(environment, platform=platform, has_triton=triton)


def with_platform(environment: Environment, platform: str, origin: str = IMAGE) -> Environment:
    """The environment with a platform that is stated elsewhere than in the request; ``origin`` says where."""
    return replace(on_platform(environment, platform), stated=environment.stated | {"platform"}, platform_origin=origin)


class Edits(Struct, frozen=True):
    """Changes to try: options of ``EngineArgs`` or members of them, and variables; ``None`` drops one."""

    options: dict[str, Any] = {}
    variables: dict[str, str | None] = {}


NO_EDITS: Final = Edits()


class Deployment(Struct, frozen=True, omit_defaults=True):
    """One engine to be started.

    The keys of cached results omit fields with default values, which takes 0.5 % fewer instructions to derive facts.

    ``args`` are words, or one text as typed in a shell. ``places`` has the place of each word, if it is not its index.
    A variable of ``None`` has an unknown value. ``names`` maps the path where a model is mounted to the model's name.
    ``models_at`` is the pointer of the request's configurations, ``None`` if it cannot have any. ``notes`` are warnings
    from the manifest. ``installation`` is the vLLM that is installed before the command runs, if any.
    ``has_hidden_variables``: whether there may be variables with unknown names. ``doubts`` says why vLLM
    may get other arguments or variables than those of the manifest. ``edits`` are applied to the command's options and
    variables. ``image_env`` has the variables that the image sets. ``platform_doubt`` says why the manifest's platform
    may differ from the environment's, empty if the platform is certain. ``omni`` is what the flag ``--omni`` would do.
    ``release_is_assumed``: whether nothing states which release runs. ``secrets`` has the values that the manifest
    gives to names of secrets other than by ``env``. ``mounts`` has the absolute paths of the mounts that may have a
    model. ``folder`` is the working folder, empty if it is not stated. ``file_mount`` is a mount that may be the
    working folder and has files, but no folders. ``image_folder`` is the image's working folder, if the manifest
    does not state one and mounts are around it. ``stated`` has the secrets that the whole manifest states.
    ``gpus`` is the number of the container's GPUs, 0 if it is not known. ``ray_nodes`` has the other containers of the
    manifest that start Ray, if the engine may run on it.
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
    installation: Installation | None = None
    has_hidden_variables: bool = False
    doubts: list[str] = []
    edits: Edits = NO_EDITS
    image_env: dict[str, ImageVariable] = {}
    platform_doubt: str = ""
    omni: Omni = Omni.STARTS
    release_is_assumed: bool = False
    secrets: frozenset[str] = frozenset()
    mounts: tuple[str, ...] = ()
    folder: str = ""
    file_mount: str = ""
    image_folder: FolderMounts | None = None
    stated: SecretValues = NO_SECRETS
    gpus: int = 0
    ray_nodes: tuple[RayNode, ...] = ()

    @property
    def text_length(self) -> int:
        """The length of the arguments, variables and files together; any of them may be a script."""
        args = len(self.args) if isinstance(self.args, str) else sum(map(len, self.args))
        return args + sum(len(text or "") for text in self.env.values()) + sum(map(len, self.files.values()))


def read_deployment(document: object, pointer: str, faults: list[RequestFault]) -> Deployment:
    """Parse a deployment, and append its faults to ``faults``."""
    if type(document) is not dict:
        faults.append(
            RequestFault(
                pointer,
                f'expected an object such as `{{"args": ["--model", "Qwen/Qwen3-8B"]}}`, got {quoted(document)}',
            )
        )
        return Deployment([], {}, {}, {}, Environment())
    faults.extend(unknown_field_faults(document, FIELDS, pointer))
    return Deployment(
        _read_args(document.get("args", []), f"{pointer}/args", faults),
        _read_texts(document.get("env"), f"{pointer}/env", "variables", MAX_VARIABLES, faults),
        read_model_configs(document.get("model_configs"), f"{pointer}/model_configs", faults),
        _read_texts(  # type: ignore[arg-type]  # the text of a file is never unknown
            document.get("files"), f"{pointer}/files", "files", MAX_FILES, faults
        ),
        read_environment(document.get("environment"), f"{pointer}/environment", faults),
        models_at=f"{pointer}/model_configs",
    )


def unknown_field_faults(document: dict[str, Any], fields: tuple[str, ...], pointer: str) -> list[RequestFault]:
    """A fault for each key that is not a field of the object."""
    unknown = [key for key in document if key not in fields]
    return [
        RequestFault(at(pointer, key), f"unknown field {quoted(key)}; legal: {listed(fields)}{nearest(key, fields)}")
        for key in unknown[:MAX_FAULTS]
    ]


def _read_args(args: object, pointer: str, faults: list[RequestFault]) -> list[str] | str:
    if type(args) is str:
        return args
    if type(args) is not list:
        faults.append(
            RequestFault(
                pointer,
                f'expected a list of strings such as `["--model", "Qwen/Qwen3-8B"]`, or one string, got {quoted(args)}',
            )
        )
        return []
    if not all(type(word) is str for word in args):
        wrong = (n for n, word in enumerate(args) if type(word) is not str)
        faults.extend(
            RequestFault(
                f"{pointer}/{n}", f"expected a string in quotes, got {_shown(args[n], args[n - 1] if n else '')}"
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
        faults.append(RequestFault(pointer, f"expected an object of {what} with their texts, got {quoted(document)}"))
        return {}
    if len(document) > most:
        faults.append(RequestFault(pointer, f"expected at most {most} {what}, got {len(document)}"))
        return {}
    found: dict[str, str | None] = {}
    for name, text in document.items():
        if type(text) is str:
            found[name] = text
        elif text is not None and len(faults) < MAX_FAULTS:
            faults.append(RequestFault(at(pointer, name), f"expected a string in quotes, got {_shown(text, name)}"))
    return found


def _shown(value: object, name: object) -> str:
    """A value as a message shows it, unless its name is a secret's."""
    return "a value that is not shown" if isinstance(name, str) and is_secret(name) else quoted(value)


def read_model_configs(document: object, pointer: str, faults: list[RequestFault]) -> dict[str, dict[str, Any]]:
    """The ``config.json`` of each model, by its name in the arguments."""
    if document is None:
        return {}
    if type(document) is not dict:
        faults.append(
            RequestFault(
                pointer,
                'expected an object with each model\'s config.json by its name, such as `{"Qwen/Qwen3-8B": {…}}`, '
                f"got {quoted(document)}",
            )
        )
        return {}
    if len(document) > MAX_MODELS:
        faults.append(RequestFault(pointer, f"expected at most {MAX_MODELS} models, got {len(document)}"))
        return {}
    found = {}
    for name, config in document.items():
        if type(config) is dict:
            found[name.rstrip("/")] = config
        else:
            faults.append(
                RequestFault(at(pointer, name), f"expected the object of a config.json, got {_shown(config, name)}")
            )
    return found


def read_environment(document: object, pointer: str, faults: list[RequestFault]) -> Environment:
    """Parse a deployment's ``environment``; missing values are assumed."""
    if document is None:
        return Environment()
    if type(document) is not dict:
        faults.append(
            RequestFault(pointer, f'expected an object such as `{{"platform": "cuda"}}`, got {quoted(document)}')
        )
        return Environment()
    faults.extend(unknown_field_faults(document, ENVIRONMENT_FIELDS, pointer))
    platform = document.get("platform")
    if platform is not None and platform not in PLATFORMS:
        near = nearest(platform, PLATFORMS) if type(platform) is str else ""
        faults.append(
            RequestFault(
                f"{pointer}/platform", f"unknown platform {quoted(platform)}; legal: {listed(PLATFORMS)}{near}"
            )
        )
        platform = None
    triton, pinned = (_read_boolean(document.get(name), f"{pointer}/{name}", faults) for name in BOOLEANS)
    plugins = _read_plugins(document.get("plugins"), f"{pointer}/plugins", faults)
    transformers = _read_version(document.get("transformers"), f"{pointer}/transformers", faults)
    stated = dict(zip(ENVIRONMENT_FIELDS, (platform, triton, pinned, plugins, transformers), strict=True))
    platform = platform or "cuda"
    return Environment(
        platform,
        platform not in PLATFORMS_WITHOUT_TRITON if triton is None else triton,
        pinned is not False,
        plugins or (),
        transformers or "",
        frozenset(name for name, value in stated.items() if value is not None),
    )


def _read_boolean(value: object, pointer: str, faults: list[RequestFault]) -> bool | None:
    if value is None or type(value) is bool:
        return value
    faults.append(RequestFault(pointer, f"expected `true` or `false`, got {quoted(value)}"))
    return None


def _read_version(value: object, pointer: str, faults: list[RequestFault]) -> str | None:
    if value is None or (type(value) is str and len(value) <= MAX_VERSION and is_final(value)):
        return value
    faults.append(RequestFault(pointer, f'expected a release of Transformers such as `"5.14.1"`, got {quoted(value)}'))
    return None


def _read_plugins(document: object, pointer: str, faults: list[RequestFault]) -> tuple[str, ...] | None:
    if document is None:
        return None
    if type(document) is not dict:
        message = f'expected an object such as `{{"logits_processors": []}}`, got {quoted(document)}'
        faults.append(RequestFault(pointer, message))
        return None
    faults.extend(unknown_field_faults(document, ("logits_processors",), pointer))
    names = document.get("logits_processors", [])
    if type(names) is not list or len(names) > MAX_PLUGINS or not all(type(name) is str for name in names):
        faults.append(
            RequestFault(
                f"{pointer}/logits_processors", f"expected a list of at most {MAX_PLUGINS} strings, got {quoted(names)}"
            )
        )
        return None
    return tuple(names)
