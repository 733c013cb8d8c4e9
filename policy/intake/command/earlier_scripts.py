"""What scripts that run before the command of a server mean for it: those that set up its machine or build its image.

They are read like the commands before the start in the script that starts it (`script_servers`), but their variables
and working folders end with them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.expansion import ExpansionBudget, ShellSyntaxError
from policy.intake.command.installation import INSTALLS, SOURCING
from policy.intake.command.installer_options import InstallVariables
from policy.intake.command.program_walk import server_of
from policy.intake.command.programs import CONDA
from policy.intake.command.replaced_program import FOLDER_CHANGING, ReplacedFiles, only_reads
from policy.intake.command.replaced_triton import replaced_triton
from policy.intake.command.script_context import ScriptContext
from policy.intake.command.script_installations import IMAGES, ScriptInstallations
from policy.intake.command.vllm_command import STARTS_NOTHING, ServerCommand, UnreadableCommand, only_shows_help
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.intake.command.script_commands import Command
    from policy.intake.command.script_context import Variables

STARTUP: Final = re.compile(
    r"(?:^|/)\.(?:bash(?:rc|_profile|_login|_aliases)|profile)\Z|/etc/(?:profile|bash\.bashrc|bashrc|environment)"
)
"""Matches a file that an interactive or login shell reads before its script."""


class EarlierEffects(Struct, frozen=True):
    """What the scripts may do: the installations of vLLM, in order, and the reasons why its start is not certain.

    An installation that may not happen, or that may not be in the environment of the server, has no version.
    """

    installations: list[Installation]
    doubts: list[str]


def effects_before(
    scripts: Iterable[str],
    env: Variables,
    server: ServerCommand | None,
    field: str,
    *,
    starts_shell: bool = False,
    folder: str = "",
) -> EarlierEffects:
    """What bash scripts of a field mean for the server that starts after them, each run by a shell of its own.

    All start in the same ``folder``. ``starts_shell``: whether the command of the server runs in a shell that reads its
    start-up files.
    """
    reader = _Reader(env, IMAGES if server is None else server.environment, field, starts_shell)
    files = reader.files
    for script in scripts:
        files.enter(folder)
        reader.read(script)
    files.enter(folder)
    changed = files.replaced if server is None else files.before(server)
    models = () if server is None else files.other_models(server)
    installations = reader.installations if changed is None else [*reader.installations, changed]
    return EarlierEffects(installations, [*reader.doubts.values(), *models])


class _Reader:
    """Reads scripts, and keeps the first doubt of each kind."""

    def __init__(self, env: Variables, environment: object, field: str, starts_shell: bool) -> None:  # noqa: FBT001
        self.env = env
        self.environment = environment
        self.field = field
        self.starts_shell = starts_shell
        self.context = ScriptContext(ExpansionBudget()).inner()
        self.files = ReplacedFiles()
        self.installations: list[Installation] = []
        self.doubts: dict[str, str] = {}

    def read(self, script: str) -> None:
        """Read a script; one that cannot be read may do anything."""
        from policy.intake.command.shell import split  # noqa: PLC0415  # most manifests have no such scripts

        try:
            commands = split(script, self.env, budget=self.context.budget, is_bash=True)
            self._read_commands(commands)
        except ShellSyntaxError as error:
            if INSTALLS.search(script) is not None:
                cause = f"a script before the start cannot be read, and it may install another vLLM: {error}"
                self.installations.append(Installation(None, cause))
            else:
                self.doubts.setdefault("unread", f"`{self.field}` runs before the start and cannot be read: {error}")

    def _read_commands(self, commands: list[Command]) -> None:
        installations = ScriptInstallations(InstallVariables(self.env))
        for command in commands:
            if command.unreached:
                continue
            number = installations.number
            if command.words[0].rpartition("/")[2] in FOLDER_CHANGING:
                installations.change_folder()
            self.files.read(command)
            if self.files.configures:
                installations.doubt()
            installations.read(command)
            installation = installations.of_environment(self.environment) if installations.number > number else None
            if installation is not None:
                self.installations.append(installation)
            for kind, doubt in self._doubts(command):
                self.doubts.setdefault(kind, doubt)

    def _doubts(self, command: Command) -> Iterator[tuple[str, str]]:
        """The doubts that a command causes, each with its kind."""
        words = command.words
        found = server_of(words, [""] * len(words), self.env, command.env, self.context)
        if isinstance(found, UnreadableCommand) and found.remedy != STARTS_NOTHING:
            yield "unread", f"{found.why}, and `{self.field}` runs it before the start"
        elif isinstance(found, ServerCommand) and not only_shows_help(found):
            yield "started", f"`{self.field}` also starts vLLM"
        for doubt in replaced_triton(words):
            yield "triton", doubt
        if self.starts_shell and _changes_startup(command):
            why = f"{quoted(words[0])} in `{self.field}` may change what the shell reads before the command"
            yield "startup", f"{why}, and so its variables"


def _changes_startup(command: Command) -> bool:
    """Whether a command may change the start-up files of a shell."""
    program, arguments = command.words[0].rpartition("/")[2], command.words[1:]
    if program in CONDA and arguments[:1] == ["init"]:
        return True
    reads = program in SOURCING or only_reads(program, arguments)
    named = command.outputs if reads else (*arguments, *command.outputs)
    return any(STARTUP.search(word) is not None for word in named)
