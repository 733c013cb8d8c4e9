"""The types of a deployment before its facts: a manifest's container, a command line, the options it sets.

``launcher`` and ``arguments`` create them from command lines, ``manifests`` from manifests.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from msgspec import Struct

from policy.errors import RequestFault  # noqa: TC001  # msgspec reads the annotations
from policy.intake.provenance import DEFAULT
from policy.secret_values import NO_SECRETS, SecretValues


class Installation(Struct, frozen=True, gc=False):
    """A vLLM that runs instead of the image's: its version, None if unknown, and why it runs.

    ``cause`` is a clause for messages, such as "`pip install` installs vLLM 0.33.0 before the start". ``likely`` is the
    version that a command names, if it is not certain that the command installs it where the server runs.
    """

    version: str | None
    cause: str
    likely: str | None = None


class Strength(IntEnum):
    """How strongly a sign shows the hardware, strongest first: a requested device, a selected node, a toleration."""

    DEVICE = 0
    NODE = 1
    TOLERATION = 2


class Omni(IntEnum):
    """Whether the flag ``--omni`` starts vLLM-Omni: it does, it may, or vLLM refuses it as an unknown flag."""

    STARTS = 0
    MAY_START = 1
    IS_REFUSED = 2


class HardwareSign(Struct, frozen=True):
    """A platform that a manifest shows, and the place that shows it, such as `resources.limits.nvidia.com/gpu`."""

    platform: str
    place: str
    strength: Strength


class ImageVariable(Struct, frozen=True, gc=False):
    """A variable that the image sets: its value, and the row of the table of images that says so.

    ``is_used``: whether it has this value because the manifest does not set it.
    """

    value: str
    row: str
    is_used: bool


class FolderMounts(Struct, frozen=True):
    """A working folder, and the mounts around it that may have a model, or, as ``file_mount``, only files."""

    folder: str
    mounts: tuple[str, ...] = ()
    file_mount: str = ""


COMMAND_DOUBT: Final = "in the command that starts Ray: {}"
NODE_DOUBT: Final = "in the command that starts Ray in {}: {}"


class RayNode(Struct, frozen=True):
    """What gives variables to vLLM's workers if an engine runs on Ray: how a container beside it starts Ray.

    With ``is_job_environment`` it is the ``runtimeEnvYAML`` of the engine's RayJob instead, which Ray sets on any node.
    ``place`` is the container's path. ``env`` has those of its variables on which the workers may depend, None for
    unknown values. ``doubts`` says why these may be others, or what else its command may change, and ``installation``
    is the vLLM that may run instead of its image's.
    """

    place: str
    env: dict[str, str | None] = {}
    doubts: tuple[str, ...] = ()
    installation: Installation | None = None
    is_job_environment: bool = False


class Container(Struct, frozen=True, omit_defaults=True):
    """One vLLM engine that a manifest would start, as the manifest states it.

    ``words`` is the whole command, with the entry point if the manifest states one. ``places`` has the place of each
    word, or what added it: ``args[3]``, ``vllmConfig.tensorParallelSize``, ``added by KServe``. A variable whose value
    is not in the manifest is ``None``. ``image_env`` has the variables that the image sets. ``models`` maps the path
    at which the controller mounts a model (``/mnt/models``) to the model's name. ``files`` maps the paths of files
    that the manifest contains to their texts.
    ``platform`` is the platform of the image that the controller chooses, if it does not run the stated one;
    ``hardware`` has the signs of the hardware that the manifest asks for, and ``gpus`` is the number of the container's
    GPUs, 0 if it is not known.
    ``version_cause`` says what installs or runs ``vllm_version`` if this is not the image's version. If it is,
    ``version_row`` is the id of its row in the table of images. ``unversioned`` says why the image has no version.
    ``version_is_presumed``: whether the version counts only if it is that of a known release. ``installation`` is
    the vLLM that is installed before the command runs, if it is not the image's. ``likely_version`` is a version that
    may be installed before or by the command; it counts if nothing shows a version. ``has_hidden_variables``: whether
    there may be variables whose names the manifest does not show. ``notes`` are warnings for the user. ``doubts`` says
    why vLLM may get other words or variables. ``problem`` says why no decision is possible; such an engine may have no
    words. ``faults`` has the faults of an object that cannot be read; the container then stands for that object.
    ``secrets`` has the values that the manifest gives to names of secrets other than by ``env``. ``mounts`` has the
    absolute paths of the mounts that may have a model. ``folder`` is the working folder, empty if it is not stated.
    ``file_mount`` is a mount that may be the working folder and has files, but no folders. ``image_folder`` is the
    image's working folder, if the manifest does not state one and mounts are around it. ``stated`` has the secrets that
    the whole manifest states. ``ray_nodes`` has the other containers that start Ray, if the engine may run on it.
    """

    path: str
    words: list[str] = []
    places: list[str] = []
    env: dict[str, str | None] = {}
    image_env: dict[str, ImageVariable] = {}
    image: str | None = None
    platform: str | None = None
    hardware: tuple[HardwareSign, ...] = ()
    gpus: int = 0
    vllm_version: str | None = None
    version_cause: str = ""
    version_row: str = ""
    version_is_presumed: bool = False
    unversioned: str = ""
    installation: Installation | None = None
    likely_version: str | None = None
    has_hidden_variables: bool = False
    models: dict[str, str] = {}
    files: dict[str, str] = {}
    notes: list[str] = []
    doubts: list[str] = []
    problem: str = ""
    faults: tuple[RequestFault, ...] = ()
    secrets: frozenset[str] = frozenset()
    mounts: tuple[str, ...] = ()
    folder: str = ""
    file_mount: str = ""
    image_folder: FolderMounts | None = None
    stated: SecretValues = NO_SECRETS
    ray_nodes: tuple[RayNode, ...] = ()


class CommandLine(Struct, frozen=True):
    """The words that vLLM's own parser gets, with their places, and the variables that the command sets for it.

    ``env`` has only what the command line itself sets (``A=b vllm serve …``, ``export A=b``) or clears (``env -i``). A
    value of ``None`` is unknown, or cleared; ``removed`` has the variables that are certainly cleared. ``set_at`` has
    the place of the word that sets or clears each of them; for a script, this is the script's place. ``serve``: whether
    the words follow ``vllm serve``, so that the first positional word may be the model. ``doubts`` says why vLLM may
    get other words or variables, or may be started again with others. ``installation`` is the vLLM that runs instead of
    the image's, if any. ``is_serve``: whether ``vllm serve`` is written, so that the release must have it. ``secrets``
    has the values that scripts give to variables with the names of secrets. ``module`` is the module of vLLM that
    `python -m` starts, if any.
    """

    words: list[str] = []
    places: list[str] = []
    env: dict[str, str | None] = {}
    serve: bool = True
    warnings: list[str] = []
    doubts: list[str] = []
    installation: Installation | None = None
    set_at: dict[str, str] = {}
    is_serve: bool = False
    module: str = ""
    secrets: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


class UnknownFlag(Struct, frozen=True):
    """A flag that the release does not have: its name as an option's, its value as shown, and its launch error.

    The value of a flag that no release has is hidden, because it may be a secret.
    """

    option: str
    place: str
    value: str | bool
    error: str
    ignored: str


class UnknownOption(Struct, frozen=True):
    """An option that no fact depends on, whose value is not known: its flag, the value as written, and its place.

    ``is_limited``: whether the parser accepts only some words or fields as its value. ``is_reported``: whether a
    warning says that the value is not known.
    """

    flag: str
    text: str
    place: str
    is_limited: bool
    is_reported: bool


class ParsedOptions(Struct, frozen=True):
    """The options that a command line sets, by their names in vLLM's ``EngineArgs``, with their places.

    ``values`` has only the given options (the last one wins, as in vLLM), typed: a flag's ``bool``, ``int``, ``float``,
    text, list, or the object of a JSON option, with its dotted options merged as the release does. ``places`` has the
    place of each option, and that of a dotted one under ``option.key``. ``ignored`` has the arguments that no fact
    depends on, as written. ``unknown_words`` has each argument that may be any flag, with its place. One whose whole
    text is unknown is ignored; one that may be several words is parsed as one. ``launch_errors`` says why
    the release's parser rejects the command line. ``unknown_sizes`` has the options in ``SIZES`` with unknown values,
    each with its flag, its text and its place; they are not set. ``unknown_model`` is the model's name as written if
    its value is not known, otherwise empty. ``others`` has the values of the options that no fact depends on, with
    their places; the value is ``UNKNOWN`` if it is not known or may be a secret. ``unknown_flags`` are the flags that
    the release does not have, unless messages about them are left out. ``unknown_options`` has the options of
    ``others`` whose values are not known, by name. ``is_plain``: whether no argument in ``ignored`` has anything to
    mask.
    """

    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    ignored: list[str] = []
    warnings: list[str] = []
    unknown_words: list[tuple[str, str]] = []
    launch_errors: list[str] = []
    unknown_sizes: dict[str, tuple[str, str, str]] = {}
    unknown_model: str = ""
    others: dict[str, tuple[Any, str]] = {}
    unknown_flags: list[UnknownFlag] = []
    unknown_options: dict[str, UnknownOption] = {}
    is_plain: bool = False

    def kept_place(self, name: str) -> str:
        """The place of an option in ``others``; ``default`` if it is not there."""
        return self.others[name][1] if name in self.others else DEFAULT

    def place(self, name: str) -> str:
        """The place of an option, or ``default`` if it is not given.

        A key ``option.key`` that is not written dotted has the option's place.
        """
        found = self.places.get(name)
        if found is None:
            found = self.places.get(name.partition(".")[0], DEFAULT) if "." in name else DEFAULT
        return found
