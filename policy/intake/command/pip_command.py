"""What a command of pip installs, and into which environment.

A version is given only if it is certain: the command is certainly pip's, and all its options and variables are
known not to change where or whether it installs. Not here: other commands that install (`installation`), and which of
them run before a server (`script_installations`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.installer_options import (
    ENVIRONMENT_VARIABLES,
    PIP,
    SYSTEM,
    SYSTEM_VARIABLE,
    TRANSPARENT_LAUNCHERS,
    TRUE_VALUES,
    UV_PIP,
    InstallVariables,
    install_words,
    is_harmless_option,
)
from policy.intake.command.installer_options import PYTHON as PYTHON_OPTIONS
from policy.intake.command.launcher_grammar import Meaning, launcher_words
from policy.intake.command.launcher_tables import LAUNCHERS
from policy.intake.command.programs import PROGRAMS, PYTHON
from policy.intake.command.requirement import exact_version, may_be_vllm, may_name_vllm
from policy.intake.command.words import ASSIGNMENT, Unknown, is_uncertain
from policy.intake.command_line import Installation

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

PIP_NAME: Final = re.compile(r"pip[0-9.]*")
PIP_COMMANDS: Final = ("install", "uninstall", "sync")
MAX_OPTIONS: Final = 64
"""The maximum number of words before a subcommand."""
POSSIBLE_INSTALLATION: Final = Installation(None, "`pip install` may install another vLLM before the start")
"""An installation of an unknown version by pip. Its message omits the arguments, which may contain a password."""
POSSIBLE_REMOVAL: Final = Installation(None, "`pip uninstall` may remove vLLM before the start")


class UnnamedEnvironment(Enum):
    """An environment whose folder a command does not name."""

    PATH = "path"
    """The environment in which programs are found by their names."""
    SYSTEM = "system"
    """The same, unless another environment is activated."""
    ACTIVATED = "activated"
    """The activated environment, if there is one."""


class PythonEnvironment(Struct, frozen=True, gc=False):
    """An environment of Python: the folder of its programs, and its version if the program's name has one."""

    folder: str | UnnamedEnvironment
    python: str = ""


class InstallEffect(Struct, frozen=True, gc=False):
    """How a command affects the vLLM that runs after it.

    ``environment`` is where it installs, if the installation has a version. ``activates``: whether it may activate or
    leave an environment; ``activated`` identifies the environment that it activates, None if that is not known.
    """

    installation: Installation
    environment: PythonEnvironment | None = None
    activates: bool = False
    activated: str | None = None


UNCERTAIN_EFFECT: Final = InstallEffect(POSSIBLE_INSTALLATION)


def subcommand(words: Sequence[str], at: int, commands: Collection[str]) -> int | None:
    """The position of one of the ``commands`` in a program's arguments, which begin at ``at``; None if there is none.

    Only options may precede it. A word after an option may be the option's value or the command.
    """
    is_after_option = False
    for index in range(at, min(len(words), at + MAX_OPTIONS) if commands else at):
        word = words[index]
        if word in commands:
            return index
        if not word.startswith("-") and not is_after_option:
            return None
        is_after_option = word.startswith("-") and "=" not in word
    return None


def pip_effect(
    words: Sequence[str], programs: Sequence[str], index: int, variables: InstallVariables
) -> InstallEffect | None:
    """The effect of the pip at ``index``; None if it neither installs nor removes vLLM."""
    at = subcommand(words, index + 1, PIP_COMMANDS)
    if at is None:
        return None
    if words[at] == "uninstall":
        return InstallEffect(POSSIBLE_REMOVAL) if any(map(may_name_vllm, words[at + 1 :])) else None
    if words[at] == "sync" or "xargs" in programs[:index]:  # xargs reads the packages from its input
        return UNCERTAIN_EFFECT
    is_uv = "uv" in programs[:index]
    found = install_words(UV_PIP if is_uv else PIP, words, index + 1)
    if not found.installs:
        return None
    versions = {word: None if "@" in word else exact_version(word) for word in found.requirements}
    if not found.is_known or any(version is None and may_be_vllm(word) for word, version in versions.items()):
        return UNCERTAIN_EFFECT
    exact = {version for version in versions.values() if version is not None}
    if not exact:
        return None
    environment = _environment(words, index, variables, is_uv=is_uv, has_system=SYSTEM in found.options)
    version = exact.pop()
    if exact or found.changes or environment is None:
        return InstallEffect(replace(POSSIBLE_INSTALLATION, likely=None if exact else version))
    return InstallEffect(Installation(version, f"`pip install` installs vLLM {version} before the start"), environment)


def changes_configuration(words: Sequence[str]) -> bool:
    """Whether a command may set an option in pip's configuration that changes where or whether it installs."""
    if "config" not in words or {"set", "edit"}.isdisjoint(words):
        return False
    if type(words[0]) is not Unknown and not any(PIP_NAME.fullmatch(word.rpartition("/")[2]) for word in words):
        return False
    after = words[words.index("set") + 1 :] if "set" in words else []
    match [word for word in after if not word.startswith("-")]:
        case [name, _]:
            return is_uncertain(name) or not is_harmless_option(f"--{name.rpartition('.')[2]}")
    return True


def _environment(
    words: Sequence[str], pip: int, variables: InstallVariables, *, is_uv: bool, has_system: bool
) -> PythonEnvironment | None:
    """The environment into which the pip at a position certainly installs; None if it is not certain.

    It is certain if pip is a program, a module of Python or a command of uv, and only launchers that keep everything,
    and variables that are known, precede it.
    """
    own: dict[str, str | None] = {}
    at = _pass_launchers(words, pip, own)
    if at is None or variables.may_change(own, is_uv=is_uv):
        return None
    if at == pip:
        return environment_of(words[pip])
    read = launcher_words(UV_PIP if is_uv else PYTHON_OPTIONS, words, at + 1)
    if words[pip] != "pip" or read.end != pip or read.meanings:
        return None
    program = words[at].rpartition("/")[2]
    if PYTHON.fullmatch(program) is not None:
        return environment_of(words[at]) if read.starts is Meaning.MODULE and not read.is_unexpected else None
    if program != "uv":
        return None
    if has_system or (variables.value(SYSTEM_VARIABLE, own) or "").lower() in TRUE_VALUES:
        return PythonEnvironment(UnnamedEnvironment.SYSTEM)
    is_named = any(variables.value(name, own) != "" for name in ENVIRONMENT_VARIABLES)
    return None if is_named else PythonEnvironment(UnnamedEnvironment.ACTIVATED)


def _pass_launchers(words: Sequence[str], pip: int, own: dict[str, str | None]) -> int | None:
    """The position of the first word that is no launcher's, at most pip's; None if a launcher is not certain.

    The variables that `env` sets are added to ``own``.
    """
    at = 0
    while at < pip:
        program = words[at].rpartition("/")[2]
        if program == "env":
            at += 1
            while at < pip and (assignment := ASSIGNMENT.match(words[at])) is not None:
                own[assignment.group(1)] = None if type(words[at]) is Unknown else words[at][assignment.end() :]
                at += 1
        elif program in TRANSPARENT_LAUNCHERS:
            read = launcher_words(LAUNCHERS[program], words, at + 1)
            if read.is_unexpected or read.meanings:
                return None
            at = read.end
        else:
            break
    return at if at <= pip else None


def environment_of(program: str) -> PythonEnvironment | None:
    """The environment of pip, Python or vLLM; None if its folder is not known, or if vLLM does not run in it."""
    folder, slash, name = program.rpartition("/")
    if is_uncertain(program) or name.startswith("pypy"):
        return None
    python = name.lstrip("abcdefghijklmnopqrstuvwxyz-")
    return PythonEnvironment(
        (folder or "/") if slash else UnnamedEnvironment.PATH, "" if python in {"", "3"} else python
    )


def server_environment(programs: Sequence[str]) -> PythonEnvironment | None:
    """The environment of the server that the programs of a command start; None if it is not known."""
    for program in programs:
        name = program.rpartition("/")[2]
        if name in PROGRAMS or PYTHON.fullmatch(name) is not None:
            return environment_of(program)
    return None if any("/" in program for program in programs) else PythonEnvironment(UnnamedEnvironment.PATH)
