"""A systemd service as a manifest: `{"unit": TEXT}`, which the command line makes from a file that ends in `.service`.

Podman's units (`NAME.container`, podman-systemd.unit(5), read at 5.6) are read as the `podman run` that they stand for.
Not here: how lines and words are split (`unit_file`), and which commands systemd refuses (`unit_commands`).

``environment_files`` beside ``unit`` has the texts of files that `EnvironmentFile=` names, by their paths or names. The
command of `ExecStart=` is split as systemd.service(5) says (read at version 257), without a shell. The value of `$NAME`
is split into words, and that of `${NAME}` is not. Of the specifiers, such as `%i`, only `%%` is known.
"""

from __future__ import annotations

import re
import shlex
from posixpath import basename
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from policy.intake.command.container_programs import container_run
from policy.intake.command.earlier_scripts import effects_before
from policy.intake.command.expansion import MAX_WORDS, ExpansionBudget, ShellSyntaxError
from policy.intake.command.image_words import named_images
from policy.intake.command.made_images import made_images
from policy.intake.command.passed_variables import PassedVariables, passed_variables
from policy.intake.command.words import Unknown
from policy.intake.manifests.containerrun import add_words, passed_names, read_container_run
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.environment_file import variables_of
from policy.intake.manifests.hooks import read_hook
from policy.intake.manifests.unit_commands import UnitCommand, refusal_of, unit_commands
from policy.intake.manifests.unit_file import (
    UnitWords,
    assigned_words,
    listed_values,
    podman_words,
    settings_of,
    value_words,
)
from policy.intake.manifests.unit_mounts import root_doubts, unit_mounts
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.container_programs import ContainerRun
    from policy.intake.command.image_words import NamedImages
    from policy.intake.command.made_images import MadeImages
    from policy.intake.manifests.reading import ManifestNode

SHAPE: Final = "a systemd service (`unit`, and `environment_files`)"
VARIABLE: Final = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*+)\}", re.ASCII)
WHOLE_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*+)", re.ASCII)
CONTAINER: Final = "Container"
SEARCH_PATH: Final = "ExecSearchPath"
"""The folders in which systemd looks for a program, and the `PATH` of the service if nothing else sets it."""
PAM: Final = "PAMName"
HOOKS: Final = ("ExecCondition", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost")
"""The settings with commands that run beside those of `ExecStart=`."""
TEXTS: Final = {
    "Entrypoint": "--entrypoint",
    "WorkingDir": "--workdir",
    "Pod": "--pod",
    "HealthCmd": "--health-cmd",
    "HealthStartupCmd": "--health-startup-cmd",
}
"""The settings of a container whose last value counts, with the options of `podman run` that they stand for."""
LISTS: Final = {
    "Tmpfs": "--tmpfs",
    "AddDevice": "--device",
    "Volume": "--volume",
    "Environment": "--env",
    "Label": "--label",
    "EnvironmentFile": "--env-file",
    "Secret": "--secret",
    "Mount": "--mount",
    "PodmanArgs": "",
}
"""The settings of a container that are lists, with their options, in Podman's order; an empty value clears a list."""
UNSPLIT_LISTS: Final = frozenset({"Tmpfs", "Volume"})
"""The settings of ``LISTS`` whose values are not split into words."""
EXCLUSIVE_IMAGES: Final = "`Image` and `Rootfs` exclude each other, so that Podman refuses the unit"
QUOTED_VALUE: Final = re.compile(r'".*"', re.DOTALL)
TRUE_VALUES: Final = frozenset({"1", "on", "true", "yes"})
UNKNOWN_NAME: Final = "`{}=` has a variable whose name is not known: {}"
SPECIFIER: Final = re.compile(r"%([%A-Za-z])", re.ASCII)


class _Images(NamedTuple):
    """The images that a unit names in variables, and those that its commands before the start make."""

    named: NamedImages
    made: MadeImages


def is_unit(document: ManifestNode) -> bool:
    """Whether a document has the text of a unit."""
    value = document.value
    return (
        isinstance(value, dict) and isinstance(value.get("unit"), str) and set(value) <= {"unit", "environment_files"}
    )


def read_unit(document: ManifestNode) -> None:
    """Read the engine that `ExecStart=` of a service starts."""
    unit = document.get("unit")
    sections = settings_of(unit.value)
    settings = [(key, value) for section, key, value in sections if section == "Service"]
    files = {name: node.text() or "" for name, node in document.get("environment_files").fields()}
    commands = unit_commands(listed_values(settings, "ExecStart"))
    first = unit_commands(listed_values(settings, "ExecStartPre"))
    container = [(key, value) for section, key, value in sections if section == CONTAINER]
    types = [value for key, value in settings if key == "Type"]
    refusal = refusal_of(commands, first, types, bool(container))
    problem = f"`ExecStart`: {refusal}, so that systemd refuses it" if refusal else ""
    shared = _shared(unit, settings, files)
    before = [_command_words(shared, each) for each in first]
    images = _Images(named_images(unit.value), made_images(before))
    if container:
        _read_container(unit, container, shared, problem, images)
    for name in HOOKS:
        for hook in unit_commands(listed_values(settings, name)):
            if not unit.reader.may_copy_values(unit, shared.env):
                return
            read_hook(unit, name, _command_words(shared, hook), shared)
    earlier = [shlex.join(words) for words in before]
    roots, mounted = [*root_doubts(settings)], [*shared.mounts.model_mounts("")]
    for command in commands:
        if not unit.reader.may_copy_values(unit, shared.env, mounted):
            return
        draft = EngineDraft(unit)
        draft.env.replace(shared.env)
        draft.notes, draft.folder = dict(shared.notes), shared.folder
        draft.commands_beside = shared.commands_beside
        draft.has_hidden_variables = shared.has_hidden_variables
        draft.mounts = shared.mounts
        draft.unversioned = "a systemd unit does not show vLLM's version"
        draft.has_command = True
        words = _command_words(draft, command)
        run = container_run(words)
        if run is not None and not run.starts:
            continue
        if run is not None and run.words and _runs_container(draft, words, run, problem, images):
            continue
        add_words(draft, "ExecStart", words)
        if draft.starts_vllm():
            draft.problem = problem or draft.problem
            effects = effects_before(earlier, draft.env, draft.server, "ExecStartPre", folder=draft.folder)
            earlier = []  # a service that stays has one command
            draft.doubts += [*effects.doubts, *roots]
            draft.finish(effects.installations)


def _runs_container(draft: EngineDraft, words: list[str], run: ContainerRun, problem: str, images: _Images) -> bool:
    """Add the engine that a container of a command runs, with a problem, if any; returns whether it starts vLLM."""
    names = passed_names(run)
    passed = passed_variables(words, run.at, draft.env, ExpansionBudget(), is_script=False, names=names)
    if passed is None:
        return False
    variables = replace(
        passed,
        has_hidden_variables=draft.has_hidden_variables,
        notes=tuple(draft.notes),
        secrets=draft.stated_secrets(),
    )
    return read_container_run(
        draft.node, run, variables, "ExecStart", draft.doubts, problem, named=images.named, made=images.made
    )


def _shared(unit: ManifestNode, settings: list[tuple[str, str]], files: dict[str, str]) -> EngineDraft:
    """What all commands of a unit get: variables, in the order in which systemd.exec(5) merges them, and the folder."""
    shared = EngineDraft(unit)
    for value in listed_values(settings, "PassEnvironment"):
        shared.env.update(dict.fromkeys(assigned_words(value)))
    _add_variables(shared, [word for value in listed_values(settings, "Environment") for word in assigned_words(value)])
    for value in listed_values(settings, "EnvironmentFile"):
        _add_file(shared, value, files)
    _unset_variables(
        shared, [word for value in listed_values(settings, "UnsetEnvironment") for word in assigned_words(value)]
    )
    searched = listed_values(settings, SEARCH_PATH)
    if searched and "PATH" not in shared.env:
        shared.env["PATH"] = _without_specifiers(":".join(searched))
    if listed_values(settings, PAM):
        shared.has_hidden_variables = True
        shared.note(f"`{PAM}` may set variables that the unit does not show")
    folders = [value for key, value in settings if key == "WorkingDirectory"]
    folder = folders[-1].lstrip("-") if folders else ""
    known = _without_specifiers(folder)
    shared.folder = Unknown(folder) if known is None else known
    shared.mounts = unit_mounts(settings)
    return shared


def _read_container(
    unit: ManifestNode, settings: list[tuple[str, str]], shared: EngineDraft, problem: str, images: _Images
) -> None:
    """Read the engine of a Podman container; ``shared`` has what its service gets."""
    last = {key: value[1:-1] if QUOTED_VALUE.fullmatch(value) is not None else value for key, value in settings}
    words = ["run"]
    for key, option in TEXTS.items():
        words += [option, last[key]] if last.get(key) else []
    words += ["--env-host"] if last.get("EnvironmentHost", "").lower() in TRUE_VALUES else []
    doubts: list[str] = []
    for key, option in LISTS.items():
        for value in listed_values(settings, key):
            given = UnitWords([value]) if key in UNSPLIT_LISTS else podman_words(value)
            doubts += _refusals(key, given)
            words += [word for each in given.words for word in ([option, each] if option else [each])]
    arguments = podman_words(dict(settings).get("Exec", ""))
    doubts += _refusals("Exec", arguments)
    image, root = last.get("Image", ""), last.get("Rootfs", "")
    words += ["--rootfs"] if root and not image else []
    problem = problem or (EXCLUSIVE_IMAGES if root and image else "")
    image = image or root
    before = [word for value in listed_values(settings, "GlobalArgs") for word in podman_words(value).words]
    before += [word for value in listed_values(settings, "ContainersConfModule") for word in ("--module", value)]
    run = container_run(["podman", *_expanded_words(shared, [*before, *words, image, *arguments.words])])
    if run is not None and run.words and image:
        variables = PassedVariables(shared.env, secrets=shared.stated_secrets())
        read_container_run(unit, run, variables, "Exec", doubts, problem, named=images.named, made=images.made)


def _refusals(key: str, words: UnitWords) -> list[str]:
    return [f"`{key}`: {words.fault}, so that Podman leaves it out or refuses the unit"] if words.fault else []


def _add_variables(draft: EngineDraft, words: Sequence[str]) -> None:
    """Add the variables of `Environment=`; one whose name is not known may be any of those before it."""
    unknown = {at for at, word in enumerate(words) if "=" in word and _has_unknown_name(word)}
    last = max(unknown, default=-1)
    for at, word in enumerate(words):
        name, equals, text = word.partition("=")
        if at in unknown:
            draft.has_hidden_variables = True
            draft.note(UNKNOWN_NAME.format("Environment", quoted(name)))
        elif equals:
            draft.env[name] = _without_specifiers(text)
        if at == last:
            draft.env.update(dict.fromkeys(draft.env))


def _unset_variables(draft: EngineDraft, words: Sequence[str]) -> None:
    """Remove the variables of `UnsetEnvironment=`; with a value, only if they have it."""
    if (unknown := next(filter(_has_unknown_name, words), None)) is not None:
        draft.note(UNKNOWN_NAME.format("UnsetEnvironment", quoted(unknown)))
        draft.env.update(dict.fromkeys(draft.env))
    for word in words:
        name, equals, text = word.partition("=")
        value = _without_specifiers(text)
        if not equals or (value is not None and draft.env.get(name) == value):
            draft.env.pop(name, None)
        elif value is None and name in draft.env:
            draft.env[name] = None


def _add_file(draft: EngineDraft, value: str, files: dict[str, str]) -> None:
    """Add the variables of a file, which replace those of `Environment=`."""
    path = value.lstrip("-")
    text = files.get(path, files.get(basename(path)))
    if text is None:
        draft.has_hidden_variables = True
        draft.note(f"`EnvironmentFile` takes variables from {quoted(path)}, which is not shown")
        return
    draft.env.update(variables_of(text))


def _has_unknown_name(word: str) -> bool:
    """Whether the name of a variable in a word has a specifier."""
    return _without_specifiers(word.partition("=")[0]) is None


def _without_specifiers(text: str) -> str | None:
    """A text with `%%` as `%`; None if it has another specifier, whose value is not known."""
    if any(name != "%" for name in SPECIFIER.findall(text)):
        return None
    return text.replace("%%", "%")


def _command_words(draft: EngineDraft, command: UnitCommand) -> list[str]:
    """The words of a command; variables are not expanded in the first word, and with the prefix `:` in none."""
    literal = len(command.words) if command.is_literal else 1
    return _expanded_words(draft, command.words, literal)


def _expanded_words(draft: EngineDraft, words: Sequence[str], literal: int = 0) -> list[str]:
    """The words that systemd makes from a command's; it expands no variables in the first ``literal`` ones.

    It stops beyond the number of words that a command may have; the fault is added where they are read.
    """
    budget = ExpansionBudget()
    found: list[str] = []
    for place, word in enumerate(words):
        if len(found) > MAX_WORDS:
            break
        try:
            found += _expanded(draft, word, budget, is_literal=place < literal)
        except ShellSyntaxError as error:
            draft.node.reader.fault_once(draft.node, f"a command of the unit: {error}")
            break
    return found


def _expanded(draft: EngineDraft, word: str, budget: ExpansionBudget, *, is_literal: bool) -> list[str]:
    """The words that systemd makes from one word.

    Raises:
        ShellSyntaxError: they are beyond the limits of the command or the request.
    """
    filled = _without_specifiers(word)
    if filled is None:
        return [Unknown(word)]
    if is_literal or "$" not in filled:
        return [filled]
    whole = WHOLE_VARIABLE.fullmatch(filled)
    names = [name for name in VARIABLE.findall(filled) if name] if whole is None else [whole[1]]
    values = {name: draft.env.get(name, None if draft.has_hidden_variables else "") for name in names}
    budget.fill(sum(len(values[name] or "") for name in names))
    if whole is not None:
        value = values[whole[1]]
        if value is None:
            return [Unknown(filled, is_several=True)]
        words = value_words(value)
        budget.expand_words(len(words))
        return words
    if any(value is None for value in values.values()):
        return [Unknown(filled)]
    return [VARIABLE.sub(lambda found: values[found[1]] or "" if found[1] else "$", filled)]
