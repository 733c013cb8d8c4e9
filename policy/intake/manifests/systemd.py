"""A systemd service as a manifest: `{"unit": TEXT}`, which the command line makes of a file that ends in `.service`.

Podman's units (`NAME.container`, podman-systemd.unit(5), read at 5.6) are read as the `podman run` that they stand for.

``environment_files`` beside it has the texts of files that `EnvironmentFile=` names, by their paths or names. The
command of `ExecStart=` is split as systemd.service(5) says (read at version 257): without a shell, with `$NAME` split
into words, `${NAME}` within one, and specifiers such as `%i`, of which only `%%` is known.
"""

from __future__ import annotations

import re
from posixpath import basename
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.intake.command.container_programs import container_run
from policy.intake.command.expansion import ExpansionBudget
from policy.intake.command.passed_variables import PassedVariables, passed_variables
from policy.intake.command.words import Unknown
from policy.intake.manifests.containerrun import add_words, read_container_run
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.environment_file import variables_of
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.command.container_programs import ContainerRun
    from policy.intake.manifests.reading import ManifestNode

SHAPE: Final = "a systemd service (`unit`, and `environment_files`)"
MAX_LINES: Final = 100_000
VARIABLE: Final = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*+)\}", re.ASCII)
WHOLE_VARIABLE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*+)", re.ASCII)
CONTAINER: Final = "Container"
OPTIONS: Final = {
    "AddDevice": "--device",
    "Entrypoint": "--entrypoint",
    "EnvironmentFile": "--env-file",
    "Label": "--label",
    "Mount": "--mount",
    "Secret": "--secret",
    "Tmpfs": "--tmpfs",
    "Volume": "--volume",
    "WorkingDir": "--workdir",
}
"""The settings of a container with the options of `podman run` that they stand for."""
TRUE: Final = frozenset({"1", "on", "t", "true", "y", "yes"})
SPECIFIER: Final = re.compile(r"%([%A-Za-z])", re.ASCII)
CODE: Final = re.compile(r"\\x([0-9A-Fa-f]{2})", re.ASCII)
PREFIXES: Final = "@-:+!|"
ESCAPES: Final = {"n": "\n", "t": "\t", "s": " ", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def is_unit(document: ManifestNode) -> bool:
    """Whether a document has the text of a unit."""
    value = document.value
    return (
        isinstance(value, dict) and isinstance(value.get("unit"), str) and set(value) <= {"unit", "environment_files"}
    )


def read_unit(document: ManifestNode) -> None:
    """Read the engine that `ExecStart=` of a service starts."""
    unit = document.get("unit")
    sections = _settings(unit.value)
    container = [(key, value) for section, key, value in sections if section == CONTAINER]
    if container:
        _read_container(unit, container)
    settings = [(key, value) for section, key, value in sections if section == "Service"]
    files = {name: node.text() or "" for name, node in document.get("environment_files").fields()}
    commands = _listed(settings, "ExecStart")
    shared = _shared(unit, settings, files)
    for command in commands:
        if not unit.reader.may_copy_values(unit, shared.env):
            return
        draft = EngineDraft(unit)
        draft.env, draft.notes, draft.folder = dict(shared.env), dict(shared.notes), shared.folder
        draft.has_hidden_variables = shared.has_hidden_variables
        draft.unversioned = "a systemd unit does not show vLLM's version"
        draft.has_command = True
        words, refusal = _command_words(draft, command)
        run = container_run(words)
        if run is not None and run.words and _runs_container(draft, words, run):
            continue
        add_words(draft, "ExecStart", words)
        draft.problem = f"`ExecStart`: {refusal}, so that systemd refuses it" if refusal else ""
        if draft.starts_vllm():
            draft.finish()


def _runs_container(draft: EngineDraft, words: list[str], run: ContainerRun) -> bool:
    """Add the engine that a container of a command runs; whether it starts vLLM."""
    passed = passed_variables(words, run.at, draft.env, ExpansionBudget())
    if passed is None:
        return False
    variables = replace(passed, has_hidden_variables=draft.has_hidden_variables, notes=tuple(draft.notes))
    return read_container_run(draft.node, run, variables, "ExecStart", draft.doubts)


def _shared(unit: ManifestNode, settings: list[tuple[str, str]], files: dict[str, str]) -> EngineDraft:
    """What all commands of a unit get: variables, in the order in which systemd.exec(5) merges them, and the folder."""
    shared = EngineDraft(unit)
    for value in _listed(settings, "PassEnvironment"):
        shared.env.update(dict.fromkeys(_words(value)[0]))
    for value in _listed(settings, "Environment"):
        _add_variables(shared, value)
    for value in _listed(settings, "EnvironmentFile"):
        _add_file(shared, value, files)
    for value in _listed(settings, "UnsetEnvironment"):
        _unset_variables(shared, value)
    folders = [value for key, value in settings if key == "WorkingDirectory"]
    shared.folder = folders[-1].lstrip("-") if folders else ""
    return shared


def _listed(settings: list[tuple[str, str]], name: str) -> list[str]:
    """The values of a setting that is a list, which an empty value clears."""
    found: list[str] = []
    for key, value in settings:
        if key == name and value:
            found.append(value)
        elif key == name:
            found.clear()
    return found


def _read_container(unit: ManifestNode, settings: list[tuple[str, str]]) -> None:
    """Read the engine of a container of Podman's."""
    draft = EngineDraft(unit)
    words = ["podman", "run"]
    image, arguments = "", ""
    for key, value in settings:
        if key == "Image":
            image = value
        elif key == "Exec":
            arguments = value
        elif key == "Environment":
            words += [word for each in _words(value)[0] for word in ("--env", each)]
        elif key == "PodmanArgs":
            words += _words(value)[0]
        elif key == "EnvironmentHost":
            words += ["--env-host"] if value.lower() in TRUE else []
        elif key in OPTIONS:
            words += [OPTIONS[key], value]
    given, refusal = _command_words(draft, f"x {arguments}")
    run = container_run([*words, image, *given[1:]])
    if run is None or not image:
        return
    doubts = [f"`Exec`: {refusal}, so that systemd refuses it"] if refusal else []
    read_container_run(unit, run, PassedVariables({}), "Exec", doubts)


def _settings(text: str) -> list[tuple[str, str, str]]:
    """The settings of a unit with their sections; a line that ends in a backslash continues in the next one."""
    found: list[tuple[str, str, str]] = []
    section, held = "", ""
    for line in text.splitlines()[:MAX_LINES]:
        if line.lstrip().startswith(("#", ";")):
            continue
        whole = held + line.strip()
        if whole.endswith("\\"):
            held = whole[:-1] + " "
            continue
        held = ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
        elif "=" in whole:
            key, _, value = whole.partition("=")
            found.append((section, key.strip(), value.strip()))
    return found


def _words(text: str) -> tuple[list[str], str]:
    """The words of a setting without quotes, and why systemd refuses it, empty if it does not."""
    words: list[str] = []
    part: list[str] = []
    quote, is_word, at = "", False, 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            code = CODE.match(text, at)
            part.append(chr(int(code[1], 16)) if code else ESCAPES.get(text[at + 1], text[at + 1]))
            at += len(code[0]) - 1 if code else 1
            is_word = True
        elif quote:
            if char == quote:
                quote = ""
            else:
                part.append(char)
        elif char in "'\"":
            quote, is_word = char, True
        elif char.isspace():
            if is_word:
                words.append("".join(part))
                part, is_word = [], False
        else:
            part.append(char)
            is_word = True
        at += 1
    if is_word:
        words.append("".join(part))
    return words, "a quote is not closed" if quote else ""


def _add_variables(draft: EngineDraft, value: str) -> None:
    """Add the variables of `Environment=`."""
    for word in _words(value)[0]:
        name, equals, text = word.partition("=")
        if equals:
            draft.env[name] = _without_specifiers(text)


def _unset_variables(draft: EngineDraft, setting: str) -> None:
    """Remove the variables of `UnsetEnvironment=`; with a value, only if they have it."""
    for word in _words(setting)[0]:
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


def _without_specifiers(text: str) -> str | None:
    """A text with `%%` as `%`; None if it has another specifier, whose value is not known."""
    if any(name != "%" for name in SPECIFIER.findall(text)):
        return None
    return text.replace("%%", "%")


def _command_words(draft: EngineDraft, command: str) -> tuple[list[str], str]:
    """The words of a command, and why systemd refuses it; the first one has no variables, nor any after `:`."""
    words, refusal = _words(command.lstrip(PREFIXES))
    is_literal = ":" in command[: len(command) - len(command.lstrip(PREFIXES))]
    found: list[str] = []
    for place, word in enumerate(words):
        found += _expanded(draft, word, is_literal=is_literal or not place)
    return found, refusal


def _expanded(draft: EngineDraft, word: str, *, is_literal: bool) -> list[str]:
    """The words that systemd makes of one word."""
    filled = _without_specifiers(word)
    if filled is None:
        return [Unknown(word)]
    if is_literal or "$" not in filled:
        return [filled]
    whole = WHOLE_VARIABLE.fullmatch(filled)
    if whole is not None:
        value = draft.env.get(whole[1], None if draft.has_hidden_variables else "")
        return [Unknown(filled, is_several=True)] if value is None else value.split()
    names = [name for name in VARIABLE.findall(filled) if name]
    values = {name: draft.env.get(name, None if draft.has_hidden_variables else "") for name in names}
    if any(value is None for value in values.values()):
        return [Unknown(filled)]
    return [VARIABLE.sub(lambda found: values[found[1]] or "" if found[1] else "$", filled)]
