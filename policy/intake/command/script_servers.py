"""Find the server that a script starts, and how other commands of the script affect it.

Not here: what a single command starts (`program_walk`), and parsing the script (`shell`).
"""

from __future__ import annotations

from copy import copy
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from policy.intake.command.entered_folders import EnteredFolders
from policy.intake.command.expansion import ExpansionExhausted, ShellSyntaxError
from policy.intake.command.installation import as_uncertain
from policy.intake.command.installer_options import InstallVariables
from policy.intake.command.pip_command import POSSIBLE_INSTALLATION
from policy.intake.command.programs import COPY_PROGRAMS, PYTHON, RENAMING_COMMANDS, STARTS_VLLM, VLLM
from policy.intake.command.replaced_program import FOLDER_COMMANDS, ReplacedFiles
from policy.intake.command.replaced_triton import replaced_triton
from policy.intake.command.script_installations import IMAGE_ENVIRONMENT, ScriptInstallations
from policy.intake.command.subshells import commands_within
from policy.intake.command.vllm_command import (
    NO_START_REMEDIES,
    NO_START_REMEDY,
    ServerCommand,
    UnreadableCommand,
    only_shows_help,
    without_variables,
)
from policy.intake.command.volume_paths import NO_VOLUMES, VolumePaths
from policy.intake.command.words import Unknown
from policy.masking import shown_command
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_commands import Command
    from policy.intake.command.script_context import FindServer, RayJob, ScriptContext, Variables
    from policy.intake.command.substituted_commands import ShellExpansion
    from policy.intake.command_line import Installation

BLOCK_OPTION: Final = "--block"
"""The option with which `ray start` runs until Ray ends."""
NAMING_PROGRAMS: Final = COPY_PROGRAMS | RENAMING_COMMANDS
"""The programs that give another one a name."""
FORKING_PROGRAM: Final = "setsid"
"""The program that starts another one, and with `-f` does not wait for it."""


def _is_other(found: ServerCommand | UnreadableCommand | None) -> bool:
    """Whether a command does not name vLLM's server."""
    return found is None or (isinstance(found, UnreadableCommand) and not found.names_vllm)


def _other_name(command: Command, program: str, copied: str, renamed: str, place: str) -> UnreadableCommand | None:
    """Why a command may start vLLM's server under another name, or give it one; None if it does not.

    ``copied`` is the program that may have copied `vllm`, and ``renamed`` one that copied what is not known; empty if
    there is none.
    """
    if command.writes and STARTS_VLLM.search(" ".join(command.words)) is not None:
        why = f"{quoted(program)} writes vLLM's server into a file, which may be run"
        return UnreadableCommand(why, place, names_vllm=True)
    if copied and "serve" in command.words:
        return UnreadableCommand(f"{quoted(copied)} may give `vllm` another name", place, names_vllm=True)
    if renamed and command.words[1:2] == ["serve"]:
        return UnreadableCommand(f"{quoted(renamed)} may give any program the name {quoted(command.words[0])}", place)
    return None


class _StartedServer(Struct, gc=False):
    """A server that a script starts: ``found`` with the effects of the commands before it, ``server`` without them."""

    found: ServerCommand
    server: ServerCommand
    number: int
    """How many commands before it may install, remove or activate a vLLM."""
    folder: str
    """The working folder before it, as in ``ReplacedFiles``."""
    entered: int
    """How many changes of the working folder are before it."""
    triton: list[str]
    """The doubts of the first command before it that may replace Triton."""
    is_repeated: bool
    is_beside: bool
    """Whether the commands after it may run before it has started."""


class _CommandsBefore(Struct):
    """How the commands before a server affect it.

    They are read only if a server follows, because most scripts within scripts start none.
    """

    installations: ScriptInstallations
    env: Variables
    budget: ExpansionBudget
    start_folder: str = ""
    """The absolute folder in which the whole command starts; empty if it is not known."""
    volumes: VolumePaths = NO_VOLUMES
    files: ReplacedFiles = field(default_factory=ReplacedFiles)
    triton: list[str] = []
    """The doubts of the first command that may replace Triton."""
    unread: list[Command] = []
    doubt: str = ""
    """Why the first unreadable substitution cannot be read; empty if there is none."""
    folders: EnteredFolders = field(default_factory=EnteredFolders)

    def __post_init__(self) -> None:
        """Start in the folder in which the whole command starts, with its home."""
        self.files.home = self.env.get("HOME")
        self.files.enter(self.start_folder)

    def enter(self, command: Command, at: int, inner: ScriptContext) -> ScriptContext:
        """Note the folder that the command at a position enters; returns the context of scripts within later commands.

        If the folder in which the whole command starts is not known, the paths of such scripts are relative.
        """
        self.folders.enter(command, self.env, at)
        return replace(inner, folder=self.folders.folder_in(inner.folder)) if self.start_folder else inner

    def read(self) -> None:
        """Read the commands up to here."""
        for command in self.unread:
            for each in command.substituted:
                self._read_within(each, 0)
            self.triton = self.triton or replaced_triton(command.words)
            if command.words[0].rpartition("/")[2] in FOLDER_COMMANDS:
                self.installations.change_folder()
            self.installations.read(command)
            self.files.read(command)
        if self.files.configures:
            self.installations.doubt()
        self.unread.clear()

    def _read_within(self, expansion: ShellExpansion, depth: int) -> None:
        """Read the commands of an expansion; as in a subshell, they do not change the working folder of the script."""
        files = self.files
        try:
            for commands in commands_within(expansion, self.env, self.budget, depth):
                self.files = copy(files)
                for command in commands:
                    for each in command.substituted:
                        self._read_within(each, depth + 1)
                    self.triton = self.triton or replaced_triton(command.words)
                    self.installations.read(replace(command, is_masked=True, is_background=False))
                    self.files.read(command)
                files.replaced, files.configures = self.files.replaced, self.files.configures
                self.files = files
        except ExpansionExhausted:
            raise
        except ShellSyntaxError as error:
            self.files = files
            self.doubt = (
                self.doubt or f"the commands in {quoted(shown_command([expansion.text]))} are not read: {error}"
            )

    def start(self, found: ServerCommand, commands: list[Command], at: int, context: ScriptContext) -> _StartedServer:
        """The server that the command at a position starts, with the effects of the commands up to it."""
        command, installations, files = commands[at], self.installations, self.files
        if command.substituted:
            self.unread.append(replace(command, words=[":"], outputs=()))
        self.read()
        server = found
        if (
            found.environment == IMAGE_ENVIRONMENT
            and (active := installations.active_environment(command)) != IMAGE_ENVIRONMENT
        ):
            found = replace(found, environment=active)
        replaced = files.installation_before(found)
        if found.installation is None:
            found = replace(found, installation=_changed(installations.installation_before(found, command), replaced))
        doubts, folder_doubts = self._other_models(files, found)
        found = replace(
            found,
            folders=_followed([*self.folders.folders_before(commands, command), *found.folders], found.folders, files),
            doubts=[*found.doubts, *doubts],
            folder_doubts=[*found.folder_doubts, *folder_doubts],
            folder_installation=found.folder_installation or (replaced if self.start_folder else None),
        )
        if context.job is not None:
            context.job.files.append((files, files.folder))
        return _StartedServer(
            found,
            server,
            installations.number,
            files.folder,
            self.folders.count,
            self.triton,
            is_repeated=command.is_repeated,
            is_beside=command.is_repeated or _is_beside_others(command, context.job),
        )

    def add_later(self, run: _StartedServer) -> None:
        """Add to a run the effects of the commands up to here, which may run before it starts, or loads its model.

        In a loop or a function, the run may start in the state in which they leave the shell.
        """
        found, server, files = run.found, run.server, self.files
        if not run.is_repeated:
            named = frozenset(server.words)
            self.unread = [_without_models(command, named) for command in self.unread]
        self.read()
        doubts, folder_doubts = self._other_models(files, server) if run.is_repeated else ([], [])
        if run.is_repeated and self.folders.count > run.entered:
            folders = [*found.folders[: run.entered], *self.folders.repeated_folders(run.entered), *server.folders]
            found = replace(found, folders=_followed(folders, server.folders, files))
        beside = copy(files)
        beside.enter(run.folder)
        beside_doubts, beside_folder_doubts = self._other_models(beside, server)
        installation, replaced = found.installation, beside.installation_before(server)
        if server.installation is None:
            is_later = self.installations.number > run.number
            installation = as_uncertain(installation or POSSIBLE_INSTALLATION) if is_later else installation
            installation = _changed(installation, replaced)
        run.found = replace(
            found,
            installation=installation,
            doubts=[*dict.fromkeys([*found.doubts, *doubts, *beside_doubts])],
            folder_doubts=[*dict.fromkeys([*found.folder_doubts, *folder_doubts, *beside_folder_doubts])],
            folder_installation=found.folder_installation or (replaced if self.start_folder else None),
        )
        run.triton = self.triton

    def add_last(self, run: _StartedServer) -> None:
        """Add to a run what the commands up to here may do to a model in a volume, as it may start again with that."""
        server, files = run.server, copy(self.files)
        files.enter(run.folder)
        if not files.names_kept(server, self.start_folder, self.volumes):
            return
        named = frozenset(server.words)
        self.unread = [_without_models(command, named) for command in self.unread if not command.unreached]
        self.read()
        files = copy(self.files)
        files.enter(run.folder)
        doubts = files.other_models(server, self.start_folder, self.volumes, are_kept=True)
        run.found = replace(run.found, folder_doubts=[*dict.fromkeys([*run.found.folder_doubts, *doubts])])

    def _other_models(self, files: ReplacedFiles, server: ServerCommand) -> tuple[list[str], list[str]]:
        """Why a server may load another model: in any folder, and in the one in which the whole command starts.

        If that one is known, the paths of the ``files`` are in it, so that there are only reasons of the second kind.
        """
        if self.start_folder:
            return [], [*files.other_models(server, self.start_folder, self.volumes)]
        doubts = [*files.other_models(server)]
        return doubts, [*files.other_models(server, "", self.volumes)] if self.volumes else []


def server_in_script(
    commands: list[Command], place: str, env: Variables, context: ScriptContext, find: FindServer
) -> ServerCommand | UnreadableCommand | None:
    """The first command of a script that starts vLLM; if there is none, the first unreadable one.

    ``find`` finds the server that a command starts. The server has a doubt if the script also starts vLLM in another
    way, or may do so with an unreadable command.
    """
    runs: list[_StartedServer] = []
    piped: _StartedServer | None = None
    doubts: list[str] = []
    never: list[tuple[ServerCommand, str]] = []
    unread: UnreadableCommand | None = None
    copied = renamed = ""
    before = _CommandsBefore(
        ScriptInstallations(InstallVariables(env)), env, context.budget, context.folder, context.volumes
    )
    inner = context.inner_context()
    for at, command in enumerate(commands):
        if piped is not None and not command.is_piped:
            if commands[at - 1].is_piped:
                before.add_later(piped)
            piped = None
        found = find(
            command.words,
            [place] * len(command.words),
            env,
            command.env,
            inner if command.arguments is None else replace(inner, arguments=command.arguments),
        )
        if command.removed and isinstance(found, ServerCommand):
            found = without_variables(found, command.removed, context.budget)
        if command.unreached and isinstance(found, ServerCommand):
            never.append((found, command.unreached))
            continue
        program = command.words[0]
        if "/" in program:  # a call less for each command
            program = program.rpartition("/")[2]
        may_rename = (command.writes or copied or renamed) and _is_other(found)
        if may_rename and (other := _other_name(command, program, copied, renamed, place)) is not None:
            found = other
        elif program in NAMING_PROGRAMS:
            copied = program if any(VLLM.search(word) for word in command.words) else copied
            renamed = program if Unknown in map(type, command.words) else renamed
        if isinstance(found, ServerCommand):
            runs.append(before.start(found, commands, at, context))
            if command.is_masked or not command.is_piped:
                piped = runs[-1]
            doubts += [command.doubt] if command.doubt else []
            continue
        if program in FOLDER_COMMANDS:
            inner = before.enter(command, at, inner)
        if found is not None and (unread is None or (found.names_vllm and not unread.names_vllm)):
            unread = found
        before.unread.append(command)
    runs = _counted(runs, context.job)
    context.scripts.append(commands)
    if not runs:
        return _unreached(never, unread, place)
    run = runs[0]
    is_beside = run.is_beside or (run is piped and commands[-1].is_piped)
    (before.add_later if is_beside else before.add_last)(run)
    first = run.found
    context.budget.copy(len(first.env))
    unreached = next((why for found, why in never if _invocation(found) != _invocation(first)), first.unreached)
    first = replace(first, set_at=dict.fromkeys(first.env, place), unreached=unreached)
    doubts = [*run.triton, *filter(None, [before.doubt]), *doubts[:1]]
    return _with_doubts(first, [run.found for run in runs], doubts, unread)


def _unreached(
    never: list[tuple[ServerCommand, str]], unread: UnreadableCommand | None, place: str
) -> UnreadableCommand | None:
    """The result of a script whose servers never run: why the first one does not, unless a command may start one."""
    if not never or (unread is not None and unread.names_vllm):
        return unread
    return UnreadableCommand(never[0][1], place, names_vllm=True, remedy=NO_START_REMEDY)


def _followed(folders: list[str], last: Sequence[str], files: ReplacedFiles) -> tuple[str, ...]:
    """The working folders, the last of them a server's own, and one that is not known if a link leads elsewhere."""
    return (*folders, Unknown(folders[-1])) if folders and files.is_behind_link(last) else tuple(folders)


def _without_models(command: Command, named: frozenset[str]) -> Command:
    """A command without the words that a server has, too, if Python runs it: a client names the model that it asks."""
    if PYTHON.fullmatch(command.words[0].rpartition("/")[2]) is None or named.isdisjoint(command.words[1:]):
        return command
    return replace(command, words=[command.words[0], *(word for word in command.words[1:] if word not in named)])


def _is_beside_others(command: Command, job: RayJob | None) -> bool:
    """Whether commands after one that starts a server, or Ray with a later ``job``, may run before that has started."""
    return command.is_background or _forks(command.words) or (job is not None and BLOCK_OPTION not in command.words)


def _forks(words: Sequence[str]) -> bool:
    """Whether a command starts its server with `setsid -f`, which does not wait for it."""
    if FORKING_PROGRAM not in words and not any(word.endswith(f"/{FORKING_PROGRAM}") for word in words):
        return False
    at = next(at for at, word in enumerate(words) if word.rpartition("/")[2] == FORKING_PROGRAM) + 1
    options = takewhile(lambda word: word.startswith("-"), words[at:])
    return any(word.startswith("--f") or (word[1:2] != "-" and "f" in word) for word in options)


def _counted(runs: list[_StartedServer], job: RayJob | None) -> list[_StartedServer]:
    """The servers to consider: those of the ``job``, if any, and only ones that do more than show help, if any."""
    if job is not None:
        runs = [run for run in runs if run.found.words is job.words] or runs
    return [run for run in runs if not only_shows_help(run.found)] or runs[:1]


def _changed(installation: Installation | None, changed: Installation | None) -> Installation | None:
    """The vLLM that runs if a command installs one and another may change its files."""
    if installation is None or installation.version is None or changed is None:
        return installation or changed
    return replace(changed, likely=installation.version)


def _with_doubts(
    first: ServerCommand, started: list[ServerCommand], doubts: list[str], unread: UnreadableCommand | None
) -> ServerCommand:
    """The first server of a script, with the ``doubts`` of its commands and those about its other servers added."""
    first.doubts.extend(doubts)
    if len(started) > 1:
        first.warnings.append(f"the script starts vLLM {len(started)} times; the first is read")
    if any(_invocation(found) != _invocation(first) for found in started[1:]):
        first.doubts.append(f"the script starts vLLM {len(started)} times with different arguments or variables")
    if unread is not None and unread.remedy not in NO_START_REMEDIES:
        first.doubts.append(f"{unread.why}, and the script runs it as well")
    for found in started[1:]:
        first.doubts.extend(found.doubts[:1])
        first.folder_doubts.extend(found.folder_doubts[:1])
    return first


def _invocation(found: ServerCommand) -> tuple[Any, ...]:
    return found.words, found.env, found.removed, found.serve, found.installation
