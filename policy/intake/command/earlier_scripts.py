"""How scripts that run before or beside the command of a server affect it.

Scripts before the server set up its machine or build its image. Scripts beside it are its hooks and probes, which may
run before the server has loaded its code and its model. Both are read like the commands before the start in the script
that starts a server (`script_servers`), but their variables and working folders end with them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.evaluated_variables import note_variables
from policy.intake.command.expansion import ExpansionBudget, ShellSyntaxError
from policy.intake.command.installation import INSTALL_COMMAND, SOURCE_COMMANDS, as_uncertain
from policy.intake.command.installer_options import InstallVariables
from policy.intake.command.program_walk import server_of
from policy.intake.command.programs import CONDA, SHELLS
from policy.intake.command.reading_programs import only_reads
from policy.intake.command.replaced_program import FOLDER_COMMANDS, ReplacedFiles
from policy.intake.command.replaced_triton import replaced_triton
from policy.intake.command.script_commands import Command
from policy.intake.command.script_context import ScriptContext
from policy.intake.command.script_installations import IMAGE_ENVIRONMENT, ScriptInstallations
from policy.intake.command.shell_options import shell_options
from policy.intake.command.vllm_command import NO_START_REMEDIES, ServerCommand, UnreadableCommand, only_shows_help
from policy.intake.command.volume_paths import NO_VOLUMES
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policy.intake.command.script_context import Variables
    from policy.intake.command.shell_options import ShellOptions
    from policy.intake.command.volume_paths import VolumePaths

STARTUP_FILE: Final = re.compile(
    r"(?:^|/)\.(?:bash(?:rc|_profile|_login|_aliases)|profile)\Z|/etc/(?:profile|bash\.bashrc|bashrc|environment)"
)
"""Matches a file that an interactive or login shell reads before its script."""


class EarlierEffects(Struct, frozen=True):
    """What the scripts may do: the installations of vLLM, in order, and why the server's start is not certain.

    An installation that may not happen, or that may not be in the environment of the server, has no version.
    """

    installations: list[Installation]
    doubts: list[str]


class CommandBeside(Struct, frozen=True):
    """The command of a hook or a probe: its field, its words, and its working folder, empty if it is the server's."""

    field: str
    words: Sequence[str]
    folder: str


def effects_before(
    scripts: Iterable[str],
    env: Variables,
    server: ServerCommand | None,
    field: str,
    *,
    starts_shell: bool = False,
    folder: str = "",
) -> EarlierEffects:
    """How bash scripts of a field, each run by its own shell, affect the server that starts after them.

    All start in the same ``folder``. ``starts_shell``: whether the command of the server runs in a shell that reads its
    start-up files.
    """
    reader = _ScriptsReader(env, IMAGE_ENVIRONMENT if server is None else server.environment, field, starts_shell)
    for script in scripts:
        reader.files.enter(folder)
        reader.read(script)
    return reader.effects(server, folder)


def effects_beside(
    commands: Iterable[CommandBeside],
    env: Variables,
    server: ServerCommand | None,
    folder: str,
    start: str = "",
    volumes: VolumePaths = NO_VOLUMES,
) -> EarlierEffects:
    """How the hooks and probes of a server affect it; none of them certainly runs before the server loads.

    ``folder`` is the server's, and ``start`` the absolute one in which its container starts; empty if not known.
    ``volumes`` are the container's.
    """
    reader = _ScriptsReader(env, IMAGE_ENVIRONMENT if server is None else server.environment, "", starts_shell=False)
    reader.read_beside(commands, folder)
    found = reader.effects(server, folder, start, volumes)
    return EarlierEffects([*map(as_uncertain, found.installations)], found.doubts)


def doubts_after(
    commands: Iterable[CommandBeside],
    env: Variables,
    server: ServerCommand,
    folder: str,
    start: str,
    volumes: VolumePaths,
) -> list[str]:
    """Why the next start of a server may load another model in a volume, because of commands at the end of this one.

    See ``effects_beside`` for the arguments.
    """
    reader = _ScriptsReader(env, server.environment, "", starts_shell=False)
    reader.files.enter(folder)
    if not reader.files.names_kept(server, start, volumes):
        return []
    reader.moment = "before the next start"
    reader.read_beside(commands, folder)
    reader.files.enter(folder)
    unread = [doubt for kind, doubt in reader.doubts.items() if kind == "unread"]
    return [*unread, *reader.files.other_models(server, start, volumes, are_kept=True)]


class _ScriptsReader:
    """Reads scripts, and keeps the first doubt of each kind."""

    def __init__(self, env: Variables, environment: object, field: str, starts_shell: bool) -> None:  # noqa: FBT001
        self.env = env
        self.environment = environment
        self.field = field
        self.runs = "runs"
        self.moment = "before the start"
        self.starts_shell = starts_shell
        self.context = note_variables(env, ScriptContext(ExpansionBudget())).inner_context()
        self.files = ReplacedFiles(home=env.get("HOME"))
        self.installations: list[Installation] = []
        self.doubts: dict[str, str] = {}

    def read(self, script: str) -> None:
        """Read a script of bash; one that cannot be read may do anything."""
        self._read_shell([script], is_bash=True)

    def read_beside(self, commands: Iterable[CommandBeside], folder: str) -> None:
        """Read hooks and probes, which may or may not run; one without a folder of its own starts in ``folder``."""
        self.runs = "may run"
        for command in commands:
            self.field = command.field
            self.files.enter(command.folder or folder)
            self.read_words(command.words)

    def read_words(self, words: Sequence[str]) -> None:
        """Read a command: the script of a shell, or one program with its arguments."""
        program = words[0].rpartition("/")[2]
        options = shell_options(program, words, 1) if program in SHELLS else None
        if options is None or not options.has_script or options.end >= len(words):
            self._read_commands([Command([*words], {})])
        elif options.runs:
            self._read_shell(words[options.end :], is_bash=program == "bash", options=options)

    def _read_shell(self, words: Sequence[str], *, is_bash: bool, options: ShellOptions | None = None) -> None:
        """Read a script and its arguments."""
        from policy.intake.command.shell import parse_script  # noqa: PLC0415  # most manifests have no such scripts

        script, *arguments = words
        try:
            commands = parse_script(
                script,
                self.env,
                arguments,
                self.context.budget,
                is_bash=is_bash,
                ends_on_failure=options is not None and options.ends_on_failure,
                has_pipefail=options is not None and options.has_pipefail,
                refuses_unset=options is not None and options.refuses_unset,
            )
            self._read_commands(commands)
        except ShellSyntaxError as error:
            if INSTALL_COMMAND.search(script) is not None:
                cause = f"a script before the start cannot be read, and it may install another vLLM: {error}"
                self.installations.append(Installation(None, cause))
            else:
                why = f"`{self.field}` {self.runs} {self.moment} and cannot be read: {error}"
                self.doubts.setdefault("unread", why)

    def effects(
        self, server: ServerCommand | None, folder: str, start: str = "", volumes: VolumePaths = NO_VOLUMES
    ) -> EarlierEffects:
        """How everything read so far affects a server that starts in a folder, which may be relative to ``start``."""
        files = self.files
        files.enter(folder)
        changed = files.replaced if server is None else files.installation_before(server)
        models = {} if server is None else dict.fromkeys(files.other_models(server))
        if server is not None and (start or volumes):
            models |= dict.fromkeys(files.other_models(server, start, volumes))
        installations = self.installations if changed is None else [*self.installations, changed]
        return EarlierEffects(installations, [*self.doubts.values(), *models])

    def _read_commands(self, commands: list[Command]) -> None:
        installations = ScriptInstallations(InstallVariables(self.env))
        for command in commands:
            if command.unreached:
                continue
            number = installations.number
            if command.words[0].rpartition("/")[2] in FOLDER_COMMANDS:
                installations.change_folder()
            self.files.read(command)
            if self.files.configures:
                installations.doubt()
            installations.read(command)
            installation = (
                installations.environment_installation(self.environment) if installations.number > number else None
            )
            if installation is not None:
                self.installations.append(installation)
            for kind, doubt in self._doubts(command):
                self.doubts.setdefault(kind, doubt)

    def _doubts(self, command: Command) -> Iterator[tuple[str, str]]:
        """The doubts that a command causes, each with its kind."""
        words = command.words
        found = server_of(words, [""] * len(words), self.env, command.env, self.context)
        if isinstance(found, UnreadableCommand) and found.remedy not in NO_START_REMEDIES:
            yield "unread", f"{found.why}, and `{self.field}` {self.runs} it {self.moment}"
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
    reads = program in SOURCE_COMMANDS or only_reads(program, arguments)
    named = command.outputs if reads else (*arguments, *command.outputs)
    return any(STARTUP_FILE.search(word) is not None for word in named)
