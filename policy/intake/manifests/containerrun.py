"""An engine from a command that starts a container: `docker run`, `apptainer run` and the like, with their options.

The options' variables, entry point, mounts and devices are read; an unknown option makes the engine doubtful.
"""

from __future__ import annotations

import csv
from itertools import takewhile
from posixpath import join
from typing import TYPE_CHECKING, Final

import msgspec

from policy.intake.command.apptainer import BIND_VARIABLES, binds, container_variables
from policy.intake.command.image_words import NO_NAMES, has_vllm
from policy.intake.command.made_images import NO_IMAGES
from policy.intake.command.words import Unknown
from policy.intake.command_line import Installation
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import device_signs, reserved_signs, runtime_signs
from policy.intake.manifests.hooks import read_hook
from policy.intake.manifests.image_labels import labelled_version
from policy.intake.manifests.images import is_placeholder
from policy.intake.manifests.mounts import HOMES, Mounts, known_folder
from policy.messages import MAX_QUOTED, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.container_programs import ContainerRun
    from policy.intake.command.image_words import NamedImages
    from policy.intake.command.made_images import MadeImages
    from policy.intake.command.passed_variables import PassedVariables
    from policy.intake.manifests.reading import ManifestNode

ENV: Final = frozenset({"-e", "--env"})
LABELS: Final = frozenset({"-l", "--label", "--annotation"})
ENV_FILE: Final = "--env-file"
ENV_HOST: Final = "--env-host"
FALSE_VALUES: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
HIDDEN_VARIABLES: Final = "`{}` sets variables that are not shown"
VOLUMES: Final = frozenset({"-v", "--volume"})
TMPFS: Final = "--tmpfs"
MOUNT_OPTIONS: Final = VOLUMES | {TMPFS, "--mount"}
OTHERS_VOLUMES: Final = frozenset({"--volumes-from", "--pod"})
"""The options that give a container the volumes of others; with Podman's `--pod`, those of its pod."""
UNKNOWN_CHARACTERS: Final = frozenset("$`%")
HOME: Final = "--home"
"""The option of Apptainer that mounts a folder as the home of the container's user."""
FOLDERS: Final = frozenset({"-w", "--workdir"})
HEALTH_CHECKS: Final = frozenset({"--health-cmd", "--health-startup-cmd"})
SHELL: Final = ("sh", "-c")
"""The shell that runs the command of a health check."""
SECRETS: Final = "/run/secrets"
"""The folder of a secret without an absolute mount point."""
PARTLY_KNOWN_IMAGE: Final = "a part of the name of the image {} is not known, so it may be another one"
WRITE_IMAGE: Final = "write the image as a word of the command, or send its arguments as a deployment"
ROOT: Final = "--rootfs"
"""The option of Podman that makes the first word a folder with the container's files."""
UNVERSIONED_ROOT: Final = "a folder with the files of a container does not show vLLM's version"
CONFIGURATION: Final = ("CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE")
CONFIGURATION_DOUBT: Final = "`{}` names a configuration of Podman that may change the container"
TARGETS: Final = frozenset({"target", "dst", "destination"})


def read_container_run(
    node: ManifestNode,
    run: ContainerRun,
    variables: PassedVariables,
    place: str,
    doubts: Sequence[str] = (),
    problem: str = "",
    *,
    named: NamedImages = NO_NAMES,
    made: MadeImages = NO_IMAGES,
) -> bool:
    """Add the engine that a container runs, with ``doubts`` and a ``problem``, if any; returns whether it starts vLLM.

    The doubts and notes of ``variables`` count only if an option passes some on, such as `-e NAME`. ``named`` has the
    variables around the command that may hold an image of vLLM, and ``made`` the images that other commands make.
    """
    draft = EngineDraft(node)
    image, *words = run.words
    draft.image = str(image)
    draft.remedy = WRITE_IMAGE
    draft.secrets |= variables.secrets
    if any(name == ROOT for name, _ in run.options):  # the first word is a folder, which has no entry point
        draft.image, draft.unversioned, draft.has_command = None, UNVERSIONED_ROOT, True
    entry_points = [value for name, value in run.options if name == "--entrypoint"]
    if entry_points:
        add_words(draft, place, _entry_point(entry_points[-1] or "", is_podman=run.is_podman))
        draft.has_command = True
    add_words(draft, place, words)
    passed = variables.doubts if add_options(draft, run, variables) else ()
    unread = [f"the options {quoted(word)} of the container are not known" for word in run.unread]
    draft.has_hidden_variables = draft.has_hidden_variables or bool(unread)
    unknown = (image, *takewhile(lambda word: type(word) is not str, words))
    shown = (value for name, value in run.options if name == "--name" and value)
    draft.is_named_vllm = (
        named.may_have(unknown) or any(map(has_vllm, shown)) or (named.is_named and bool(draft.hardware))
    )
    unread += [
        CONFIGURATION_DOUBT.format(name)
        for name in CONFIGURATION
        if run.is_podman and variables.env.get(name, "") != ""
    ]
    unread += [PARTLY_KNOWN_IMAGE.format(quoted(image))] if type(image) is Unknown and not is_placeholder(image) else []
    checks = {name: value for name, value in run.options if name in HEALTH_CHECKS and value}  # the last one counts
    hooks = [read_hook(node, name, (*SHELL, value), draft) for name, value in checks.items()]
    for doubt in (*unread, *doubts, *variables.absent, *passed):
        draft.note(doubt)
        draft.doubts.append(doubt)
    if not draft.starts_vllm():
        return any(hooks)
    draft.problem = problem or draft.problem
    cause = made.cause(image)
    draft.finish([Installation(None, cause)] if cause else [])
    return True


def passed_names(run: ContainerRun) -> list[str]:
    """The names of the variables that a container gets unchanged from its command: `-e NAME`."""
    return [value for name, value in run.options if name in ENV and value and not {"=", "*"} & set(value)]


def _entry_point(value: str, *, is_podman: bool) -> list[str]:
    """The words of `--entrypoint`: none if it is empty, which removes the image's; Podman also takes a JSON list."""
    if is_podman and value.startswith("[") and type(value) is str:
        try:
            return msgspec.json.decode(value, type=list[str])
        except (msgspec.DecodeError, UnicodeError):
            return [value]
    return [value] if value else []


def add_options(draft: EngineDraft, run: ContainerRun, variables: PassedVariables) -> bool:
    """Add what the options set to the draft; returns whether they pass on variables of the command."""
    is_passed = _add_variables(draft, run, variables)
    _add_mounts(draft, run, variables.env)
    for name, value in run.options:
        text = value or ""
        if name in FOLDERS:
            draft.folder = text
        elif name in LABELS:
            draft.label_version = draft.label_version or labelled_version([text])
        elif name == "--gpus":
            draft.hardware += reserved_signs("all", "gpus")
        elif name == "--device":
            draft.hardware += device_signs([text.partition(":")[0]], "devices")
        elif name == "--runtime":
            draft.hardware += runtime_signs(text, "runtime")
    return is_passed


def _add_variables(draft: EngineDraft, run: ContainerRun, variables: PassedVariables) -> bool:
    """Add the variables that the options set; returns whether they pass on some of the command's."""
    is_passed = run.is_apptainer
    before_unknown: list[str] = []
    if run.is_apptainer:
        draft.env.update(container_variables(variables.env, gets_host=run.gets_variables))
        before_unknown += draft.env
    for name, value in run.options:
        text = value or ""
        if name in ENV:
            variable, equals, setting = text.partition("=")
            is_unknown = type(value) is Unknown and not UNKNOWN_CHARACTERS.isdisjoint(variable)
            if is_unknown:  # its name may be that of any variable before it
                draft.env.update(dict.fromkeys(before_unknown))
                before_unknown.clear()
            if is_unknown or (not equals and variable.endswith("*")):  # Podman passes on those with this prefix
                draft.has_hidden_variables = True
                is_passed = is_passed or not is_unknown
                draft.note(HIDDEN_VARIABLES.format(f"{name} {variable[:MAX_QUOTED]}"))
            elif equals:
                draft.env[variable] = None if type(value) is Unknown else setting
                before_unknown.append(variable)
            else:
                draft.env.update(variables.lookup(variable))
                before_unknown.append(variable)
                is_passed = True
        elif name == ENV_FILE or (name == ENV_HOST and (value is None or text not in FALSE_VALUES)):
            draft.has_hidden_variables = True
            is_passed = is_passed or name != ENV_FILE
            draft.note(HIDDEN_VARIABLES.format(name))
        elif name == "--env-merge":
            draft.env[text.partition("=")[0]] = None
    if is_passed:
        is_hidden = variables.has_hidden_variables or (run.is_apptainer and bool(variables.doubts))
        draft.has_hidden_variables = draft.has_hidden_variables or is_hidden
        for note in variables.notes:
            draft.note(note)
    return is_passed


def _add_mounts(draft: EngineDraft, run: ContainerRun, env: Mapping[str, str | None]) -> None:
    """Add what the options mount, and the secrets."""
    mounts, hidden = _bound(env) if run.is_apptainer else ([], "")
    for name, value in run.options:
        text = value or ""
        if name == "--secret":
            _add_secret(draft, text, mounts)
        elif name in MOUNT_OPTIONS:
            points = _mount_points(name, text)
            mounts += [known_folder(Unknown(point) if type(value) is Unknown else point) for point in points]
            if type(value) is Unknown and _is_hidden(text, points):
                hidden = hidden or text
        elif name in OTHERS_VOLUMES:
            hidden = hidden or text
        elif name == HOME:
            folder = None if type(value) is Unknown else text.rpartition(":")[2]
            draft.env["HOME"] = folder
            mounts.append(folder or "~")
    draft.mounts = Mounts(filter(None, mounts))
    draft.mounts.hidden_source = hidden


def _bound(env: Mapping[str, str | None]) -> tuple[list[str], str]:
    """The paths at which Apptainer's variables mount something, and the first variable with an unknown value."""
    bound = {name: env[name] for name in BIND_VARIABLES if name in env}
    points = [
        point for value in bound.values() if value for each in binds(value) for point in _mount_points("-v", each)
    ]
    return points, next((f"${name}" for name, value in bound.items() if value is None), "")


def _mount_points(name: str, text: str) -> list[str]:
    """The paths in the container at which an option mounts something; at most one for each volume."""
    if name in VOLUMES:
        return text.split(":")[1:2]
    if name == TMPFS:
        return [text.partition(":")[0]]
    settings = (field.partition("=") for field in _fields(text))
    return [value for key, equals, value in settings if equals and key.lower() in TARGETS]


def _is_hidden(text: str, points: Sequence[str]) -> bool:
    """Whether something may be mounted at a path that is not known: one of ``points``, or all of ``text``.

    A path in the user's home counts as known (`known_folder`).
    """
    return not (UNKNOWN_CHARACTERS.isdisjoint(text[:1]) or points) or any(
        path[:1] in UNKNOWN_CHARACTERS and not path.startswith(HOMES) for path in points
    )


def _fields(line: str) -> list[str]:
    """The fields of a line of CSV, the format of Docker's `--mount`."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return line.split(",")


def _add_secret(draft: EngineDraft, secret: str, mounts: list[str]) -> None:
    """Add a secret of Podman as a variable with an unknown value, or as a file."""
    name, *settings = secret.split(",")
    fields = {key: value for key, _, value in (setting.partition("=") for setting in settings)}
    target = fields.get("target", name)
    if fields.get("type") == "env":
        draft.env[target] = None
    else:
        mounts.append(join(SECRETS, target))


def add_words(draft: EngineDraft, place: str, words: Sequence[str]) -> None:
    """Append words, known or not; Kubernetes expands nothing in them."""
    for word in words:
        if type(word) is str:
            draft.add_final(place, word)
        else:
            draft.add(place, word)
