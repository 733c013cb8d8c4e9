"""Detect commands and variables that replace the image's vLLM before it starts.

An installation has a version only if it certainly installs it, in an environment that is known; every other command
that may install, remove or activate a vLLM makes the version unknown. Not here: parsing the commands (`launcher`), the
options of installers (`installer_options`), which of them run before a server and reach it (`script_installations`),
and the version in an image (`manifests.images`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.intake.command.installer_options import InstallVariables
from policy.intake.command.pip_command import (
    PIP_NAME,
    POSSIBLE_INSTALLATION,
    UNCERTAIN_EFFECT,
    InstallEffect,
    pip_effect,
    subcommand,
)
from policy.intake.command.programs import COPY_PROGRAMS, RUNNERS, SHELLS, SYSTEM_MANAGERS, TEXT_PROGRAMS
from policy.intake.command.requirement import exact_version, names_its_package
from policy.intake.command.words import Unknown
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

INSTALL_COMMAND: Final = re.compile(
    r"(?<![\w-])(?:(?:easy_)?install|uninstall|remove|sync|add|update|develop|activate|deactivate)(?![\w-])"
)
INSTALLER: Final = re.compile(
    r"(?<![\w.-])(?:pip[0-9.]*|pipx|uv|conda|mamba|micromamba|pixi|poetry|easy_install)(?![\w-])", re.IGNORECASE
)
"""Matches the name of an installer within a text, or of a variable that may have it: `$PIP`."""
MANAGER_COMMANDS: Final = {
    "uv": ("sync", "add", "remove"),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba", "pixi", "poetry"),
        ("install", "add", "update", "remove", "uninstall", "activate", "deactivate"),
    ),
}
"""The subcommands of other package managers that change the installed packages or the active environment."""
SOURCE_COMMANDS: Final = frozenset({".", "source", "eval"})
"""Shell commands that run other commands in the shell."""
ACTIVATION: Final = frozenset({"activate", "deactivate"})


def installed_vllm(words: Sequence[str]) -> Installation | None:
    """The vLLM that a command without variables may install or activate, if any."""
    effect = install_effect(words, InstallVariables())
    return None if effect is None else effect.installation


def install_effect(words: Sequence[str], variables: InstallVariables) -> InstallEffect | None:
    """How a command affects the vLLM that runs after it; None if it does not."""
    if not any(map(INSTALL_COMMAND.search, words)):
        return None
    programs = [word.rpartition("/")[2] for word in words]
    if programs[0] in TEXT_PROGRAMS or programs[0] in COPY_PROGRAMS:
        return UNCERTAIN_EFFECT if any(map(may_install, words)) else None
    for index, program in enumerate(programs):
        if program in SYSTEM_MANAGERS:
            return None
        if PIP_NAME.fullmatch(program) is not None:
            return pip_effect(words, programs, index, variables)
        is_changing = subcommand(words, index + 1, MANAGER_COMMANDS.get(program, ())) is not None
        if is_changing or program in SHELLS or program in SOURCE_COMMANDS or program in {"setup.py", "deactivate"}:
            cause = f"{quoted(program)} may install another vLLM or activate an environment with one"
            activates = program in SOURCE_COMMANDS or not ACTIVATION.isdisjoint(words[index:])
            activated = _activated(words) if index == 0 else None
            return InstallEffect(Installation(None, cause), activates=activates, activated=activated)
    text = " ".join(words)
    is_installer = INSTALLER.search(text) is not None or any(type(word) is Unknown for word in words[:1])
    return UNCERTAIN_EFFECT if is_installer and "vllm" in text.lower() else None


def may_install(text: str) -> bool:
    """Whether a text has a command in `$(…)` or backticks that may install vLLM."""
    if not ("$(" in text or "`" in text) or INSTALL_COMMAND.search(text) is None:
        return False
    return INSTALLER.search(text) is not None and "vllm" in text.lower()


def _activated(words: Sequence[str]) -> str | None:
    """What identifies the environment that a command activates: the folder of its programs, or conda's arguments.

    `source activate NAME` is the same as `conda activate NAME`.
    """
    is_known = len(words) > 1 and not any("$(" in word or "`" in word for word in words)
    folder, slash, name = words[1].rpartition("/") if is_known else ("", "", "")
    if name != "activate":
        return None
    return folder if slash and len(words) == 2 else " ".join([name, *words[2:]])  # noqa: PLR2004  # without arguments


def as_uncertain(installation: Installation) -> Installation:
    """An installation that may not happen."""
    version = installation.version
    return installation if version is None else replace(POSSIBLE_INSTALLATION, likely=version)


def vllm_of_runner(program: str, arguments: Sequence[str], started: str) -> list[Installation]:
    """The vLLM that a program may run from a separate environment; ``arguments`` are those before ``started``."""
    if program not in RUNNERS:
        return []
    named = [part for word in (*arguments, started) for part in word.split(",")]
    named += [word.partition("=")[2] for word in arguments if word.startswith("--")]
    versions = [version for version in map(exact_version, named) if version is not None]
    if versions and all(map(names_its_package, (*arguments, started))):
        return [Installation(versions[-1], f"{quoted(program)} runs vLLM {versions[-1]}")]
    return [Installation(None, f"{quoted(program)} may run a different vLLM from the image's")]
