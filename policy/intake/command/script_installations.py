"""The vLLM that a server in a script runs, after the commands before it install, remove or activate one.

A version counts only if it is certain that it was installed before the start, in the environment of the server. Not
here: what a single command installs (`installation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from policy.intake.command.installation import as_uncertain, install_effect
from policy.intake.command.installer_options import InstallVariables  # noqa: TC001  # msgspec reads the annotations
from policy.intake.command.pip_command import (
    PythonEnvironment,
    UnnamedEnvironment,
    changes_configuration,
    server_environment,
)
from policy.intake.command.programs import RENAMING_COMMANDS
from policy.intake.command.script_commands import REDEFINED_DOUBT
from policy.intake.command_line import Installation  # noqa: TC001  # msgspec reads the annotations

if TYPE_CHECKING:
    from policy.intake.command.script_commands import Command
    from policy.intake.command.vllm_command import ServerCommand

IMAGE_ENVIRONMENT: Final = ""
"""The environment in which programs are found by their names before one is activated."""
_Key: TypeAlias = object
"""Identifies an environment: the folder of its programs, or what activated it, and the version of Python."""


class ScriptInstallations(Struct):
    """The installation before the current command of a script, if there is one, and the environment that is active.

    ``number`` counts the commands that may install, remove or activate one.
    """

    variables: InstallVariables
    installation: Installation | None = None
    number: int = 0
    _active: object = IMAGE_ENVIRONMENT
    """Identifies the environment that the last activation activates."""
    _uncertain: object = IMAGE_ENVIRONMENT
    """Identifies the environment that is active where it is not certain that the last activation has run."""
    _target: _Key = None
    """Where ``installation`` is; None if that is not known."""
    _condition: object = None
    _activations: int = 0
    _activated_on: object = None
    """The condition of the activation."""
    _in_background: object = None
    """The condition of the last command with an effect that runs at the same time as later ones."""
    _folders: int = 0
    """The number of changes of the working folder: a relative path is the same only between two of them."""
    _is_doubtful: bool = False
    """Whether a command in a loop, a function or the background may install, or what pip does may have been changed."""

    def active_environment(self, command: Command) -> object:
        """What identifies the environment that is active where a command runs; equal to no other if it is not known."""
        return self._active if self._has_activated(command) else self._uncertain

    def change_folder(self) -> None:
        """Note that the working folder changes."""
        self._folders += 1

    def doubt(self) -> None:
        """Note that what pip or uv does may have been changed."""
        self._is_doubtful = True

    def read(self, command: Command) -> None:
        """Note what a command installs, removes or activates."""
        self.variables.script = command.env
        is_renamed = command.words[0] in RENAMING_COMMANDS and len(command.words) > 1
        self._is_doubtful = self._is_doubtful or is_renamed or changes_configuration(command.words)
        effect = install_effect(command.words, self.variables)
        if effect is None:
            return
        self.number += 1
        is_at_once = self._in_background is not None and command.condition is not self._in_background
        self._is_doubtful = self._is_doubtful or command.is_repeated or is_at_once
        if command.is_background:
            self._in_background = command.condition
        self._is_doubtful = self._is_doubtful or (command.is_masked and not command.is_background)
        is_known = not command.is_masked and command.doubt != REDEFINED_DOUBT
        if effect.activates:
            is_known = is_known and effect.activated is not None
            if is_known and self._has_activated(command) and self._active == self._key(effect.activated):
                return  # in `conda activate x; if [ $? -ne 0 ]; then conda create …; conda activate x; fi`
            self._uncertain = object()
            self._active = self._key(effect.activated) if is_known else self._uncertain
            self._activations += 1
            self._activated_on = command.condition if is_known else object()
            if self.installation is not None and self.installation.version is not None:
                return  # it still reaches a server that is started in its environment
        self.installation, self._condition = effect.installation, command.condition
        target = None if effect.environment is None else self._resolve(effect.environment, command)
        self._target = target if is_known else None

    def installation_before(self, server: ServerCommand, command: Command) -> Installation | None:
        """The vLLM that runs instead of the image's in a server that a command starts, if any."""
        if self.installation is None:
            return None
        environment = server_environment(server.programs)
        key = None if environment is None else self._resolve(environment, command)
        is_there = key is not None and key == self._target and not server.doubts
        is_run = (self._condition is None or self._condition is command.condition) and not self._is_doubtful
        return self.installation if is_there and is_run else as_uncertain(self.installation)

    def environment_installation(self, active: object) -> Installation | None:
        """The installation in the environment that a later shell activates, after all commands have run."""
        if self.installation is None:
            return None
        is_certain = self._target == (active, "") and self._condition is None and not self._is_doubtful
        return self.installation if is_certain else as_uncertain(self.installation)

    def _resolve(self, environment: PythonEnvironment, command: Command) -> _Key:
        """What identifies an environment where a command runs; None if it is not known."""
        folder, python = environment.folder, environment.python
        if folder is UnnamedEnvironment.PATH:
            return self.active_environment(command), python
        if folder is UnnamedEnvironment.SYSTEM:
            return (IMAGE_ENVIRONMENT, python) if not self._activations else None
        if folder is UnnamedEnvironment.ACTIVATED:
            return (self._active, python) if self._activations == 1 and self._has_activated(command) else None
        return self._key(folder), python

    def _has_activated(self, command: Command) -> bool:
        """Whether the last activation has certainly run before a command."""
        return self._activated_on is None or self._activated_on is command.condition

    def _key(self, folder: str | None) -> object:
        """What identifies a folder, or a command; a relative folder is the same only in the same working folder."""
        is_absolute = folder is None or folder.startswith(("/", "~", "$")) or " " in folder
        return folder if is_absolute else (self._folders, folder)
