"""The context in which a command is parsed: the enclosing scripts, and hidden sources of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.expansion import ExpansionBudget  # noqa: TC001  # msgspec reads the annotations
from policy.intake.command.replaced_program import ReplacedFiles  # noqa: TC001  # as above
from policy.intake.command.script_commands import Command  # noqa: TC001  # as above
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand
from policy.intake.command.volume_paths import NO_VOLUMES, VolumePaths
from policy.intake.command.words import Unknown

Variables: TypeAlias = Mapping[str, str | None]

UNKNOWN_ARGUMENTS: Final = (Unknown("$0"), Unknown("$@", is_several=True))
"""Stands for the name and the arguments of a script if they are not known."""


class RayJob(Struct, gc=False):
    """What Ray starts later, any number of servers.

    ``words`` identify it, as the arguments of the server that stands for it. ``files`` has what the commands of each
    script may change before it, with the working folder of each.
    """

    words: list[str] = []
    files: list[tuple[ReplacedFiles, str]] = []


class ScriptContext(Struct, frozen=True, gc=False):
    """The context of a command. ``depth`` counts the enclosing scripts, which share the ``budget``.

    ``has_hidden_variables``: whether the command may get variables whose names are unknown, as from a Secret. ``job``
    stands for what Ray starts later, so that `ray start` counts as a server; None if no such server is meant.
    ``unknown_programs`` gets the first program that may start others; None if it is not needed. ``folder`` is the
    absolute working folder in which the whole command starts; empty if it is not known. ``volumes`` are the mounts of
    its container.
    """

    budget: ExpansionBudget
    has_hidden_variables: bool = False
    depth: int = 0
    job: RayJob | None = None
    unknown_programs: list[UnreadableCommand] | None = None
    scripts: list[list[Command]] = []
    """The commands of the scripts: those that start no server as they are read may hide one (`hidden_starts`)."""
    folder: str = ""
    volumes: VolumePaths = NO_VOLUMES
    arguments: Sequence[str] = UNKNOWN_ARGUMENTS
    """The name and the arguments of the script around the command, as `eval` has them."""

    def inner_context(self) -> ScriptContext:
        """The context of the commands in a script that this command runs."""
        return replace(self, depth=self.depth + 1, arguments=UNKNOWN_ARGUMENTS)


FindServer: TypeAlias = Callable[
    [list[str], list[str], Variables, dict[str, str | None], ScriptContext], ServerCommand | UnreadableCommand | None
]
"""Finds the server that a command starts: from its words, their places, its environment and the variables before it."""
