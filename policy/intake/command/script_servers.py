"""Find the server that a script starts, with what other commands of the script mean for it.

Not here: what a single command starts (`program_walk`), and parsing the script (`shell`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from policy.intake.command.installation import as_uncertain
from policy.intake.command.installer_options import InstallVariables
from policy.intake.command.paths import IN_HOME
from policy.intake.command.pip_command import MAY_INSTALL
from policy.intake.command.programs import COPY_PROGRAMS, STARTS_VLLM, VLLM
from policy.intake.command.replaced_program import FOLDER_CHANGING, ReplacedFiles
from policy.intake.command.replaced_triton import replaced_triton
from policy.intake.command.script_installations import IMAGES, ScriptInstallations
from policy.intake.command.vllm_command import STARTS_NOTHING, ServerCommand, UnreadableCommand, only_shows_help
from policy.intake.command.words import Perhaps, Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.script_commands import Command
    from policy.intake.command.script_context import FindServer, RayJob, ScriptContext, Variables
    from policy.intake.command_line import Installation

BLOCKS: Final = "--block"
"""The option with which `ray start` runs until Ray ends."""
MAX_MARKED: Final = 16
"""How many of the last changes of the working folder are looked at for one that may fail."""
CD_OPTIONS: Final = frozenset({"-L", "-P", "-e", "-LP", "-PL", "--"})


def _is_other(found: ServerCommand | UnreadableCommand | None) -> bool:
    """Whether a command does not name vLLM's server."""
    return found is None or (isinstance(found, UnreadableCommand) and not found.names_vllm)


def _other_name(command: Command, program: str, copied: str | None) -> str:
    """Why a command may start vLLM's server under another name, or give it one; empty if it does not.

    ``copied`` is the program that may have copied `vllm`, if there is one.
    """
    if command.writes and STARTS_VLLM.search(" ".join(command.words)) is not None:
        return f"{quoted(program)} writes vLLM's server into a file, which may be run"
    return f"{quoted(copied)} may give `vllm` another name" if copied is not None and "serve" in command.words else ""


def _entered(command: Command, env: Variables) -> str:
    """The folder that `cd` enters: the home without one, and one that is not known if `CDPATH` may name others.

    Of several operands dash enters the first, where bash enters none.
    """
    named = [word for word in command.words[1:] if word not in CD_OPTIONS]
    target = named[-1] if named else "~"
    home = command.env.get("HOME", env.get("HOME"))
    if (
        len(named) > 1
        or target == "-"
        or (target[:1] not in {"/", ".", "~"} and command.env.get("CDPATH", env.get("CDPATH", "")) != "")
    ):
        return Unknown(target)
    return f"{home}{target[1:]}" if home and (target == "~" or target.startswith("~/")) else target


class _CommandsBefore(Struct):
    """What the commands before a server mean for it.

    They are read only where a server comes after them, as most scripts within scripts start none.
    """

    installations: ScriptInstallations
    files: ReplacedFiles = field(default_factory=ReplacedFiles)
    triton: list[str] | None = None
    """What the first command that may replace Triton before the first server does to it; None before that server."""
    unread: list[Command] = []
    folders: list[str] = []
    """The folders to which they change."""
    changes: list[int] = []
    """The positions of the commands that change to them."""

    def enter(self, folder: str, at: int) -> None:
        """Note a change of the working folder by the command at a position."""
        self.folders.append(folder)
        self.changes.append(at)

    def entered(self, commands: list[Command], server: Command) -> list[str]:
        """The folders before a server, those marked of the last ones to which the script may fail to change."""
        last = zip(self.folders[-MAX_MARKED:], self.changes[-MAX_MARKED:], strict=True)
        return self.folders[:-MAX_MARKED] + [
            folder if _is_anywhere(folder) or _is_certain(commands[at : at + 2], server) else Perhaps(folder)
            for folder, at in last
        ]

    def read(self, *, is_after: bool = False) -> None:
        """Read the commands up to here; ``is_after``: whether Triton counts although the first server has started."""
        if self.triton is None or (is_after and not self.triton):
            self.triton = next(filter(None, (replaced_triton(command.words) for command in self.unread)), [])
        for command in self.unread:
            if command.words[0].rpartition("/")[2] in FOLDER_CHANGING:
                self.installations.change_folder()
            self.installations.read(command)
            self.files.read(command)
        if self.files.configures:
            self.installations.doubt()
        self.unread.clear()


def server_in_script(
    commands: list[Command], place: str, env: Variables, context: ScriptContext, find: FindServer
) -> ServerCommand | UnreadableCommand | None:
    """The first command of a script that starts vLLM; if there is none, the first unreadable one.

    ``find`` finds the server that a command starts. The server has a doubt if the script also starts vLLM in another
    way, or may do so with an unreadable command.
    """
    runs: list[tuple[ServerCommand, int | None]] = []
    doubts: list[str] = []
    never: list[tuple[ServerCommand, str]] = []
    unread: UnreadableCommand | None = None
    copied: str | None = None
    before = _CommandsBefore(ScriptInstallations(InstallVariables(env)))
    installations, files = before.installations, before.files
    inner = context.inner()
    for at, command in enumerate(commands):
        found = find(command.words, [place] * len(command.words), env, command.env, inner)
        if command.unreached and isinstance(found, ServerCommand):
            never.append((found, command.unreached))
            continue
        program = command.words[0].rpartition("/")[2]
        may_rename = (command.writes or copied is not None) and _is_other(found)
        if may_rename and (why := _other_name(command, program, copied)):
            found = UnreadableCommand(why, place, names_vllm=True)
        elif program in COPY_PROGRAMS and any(VLLM.search(word) for word in command.words):
            copied = program
        if isinstance(found, ServerCommand):
            before.read()
            if found.environment == IMAGES and (active := installations.active(command)) != IMAGES:
                found = replace(found, environment=active)
            if runs_image_s := found.installation is None:
                found = replace(found, installation=_changed(installations.before(found, command), files.before(found)))
            found = replace(
                found,
                folders=_followed([*before.entered(commands, command), *found.folders], found.folders, files),
                doubts=[*found.doubts, *files.other_models(found)],
            )
            if context.job is not None:
                context.job.files.append((files, files.folder))
            may_be_later = runs_image_s and _may_come_before_others(command, context.job)
            runs.append((found, installations.number if may_be_later else None))
            doubts += [command.doubt] if command.doubt else []
            continue
        if program in FOLDER_CHANGING:
            before.enter(_entered(command, env), at)
        if found is not None and (unread is None or (found.names_vllm and not unread.names_vllm)):
            unread = found
        before.unread.append(command)
    runs = _counted(runs, context.job)
    if not runs:
        return _unreached(never, unread, place)
    first, number = runs[0]
    context.budget.copy(len(first.env))
    installation = first.installation
    if number is not None:  # in a loop, a function or the background: also after it
        before.read(is_after=context.job is not None)
        is_later = installations.number > number
        installation = _changed(as_uncertain(installation or MAY_INSTALL) if is_later else installation, files.replaced)
    unreached = next((why for found, why in never if _invocation(found) != _invocation(first)), first.unreached)
    set_at = dict.fromkeys(first.env, place)
    first = replace(first, set_at=set_at, installation=installation, unreached=unreached)
    return _with_doubts(first, [found for found, _ in runs], [*(before.triton or []), *doubts[:1]], unread)


def _unreached(
    never: list[tuple[ServerCommand, str]], unread: UnreadableCommand | None, place: str
) -> UnreadableCommand | None:
    """The result of a script of which no server runs: why the first one does not, unless a command may start one."""
    if not never or (unread is not None and unread.names_vllm):
        return unread
    return UnreadableCommand(never[0][1], place, names_vllm=True, remedy=STARTS_NOTHING)


def _is_anywhere(folder: str) -> bool:
    """Whether a folder is not known, other than one in a home."""
    return type(folder) is Unknown and IN_HOME.fullmatch(folder) is None


def _is_certain(commands: list[Command], server: Command) -> bool:
    """Whether a command, with the one after it, has certainly run and succeeded if a server starts later.

    It has under `set -e`, in `COMMAND && … && SERVER`, and in `COMMAND || exit`.
    """
    command, after = commands[0], commands[-1]
    if (
        command.unreached
        or command.is_masked
        or command.is_background
        or command.joiner == "||"
        or command.depth != after.depth
    ):
        return False
    if command.is_required:
        return True
    if after.joiner == "||":
        ends = after.words[0] == "exit" and not (after.is_masked or after.is_background)
        return ends and command.depth == 0 and command.joiner == ""
    is_guarded = after is server or (after.condition is not None and after.condition is server.condition)
    return after.joiner == "&&" and is_guarded


def _followed(folders: list[str], last: Sequence[str], files: ReplacedFiles) -> tuple[str, ...]:
    """The working folders, the last of them a server's own, and one that is not known if a link leads elsewhere."""
    return (*folders, Unknown(folders[-1])) if folders and files.are_behind_link(last) else tuple(folders)


def _may_come_before_others(command: Command, job: RayJob | None) -> bool:
    """Whether commands after one that starts a server, or Ray with a later ``job``, may run before that has started."""
    return command.is_repeated or command.is_background or (job is not None and BLOCKS not in command.words)


def _counted(
    runs: list[tuple[ServerCommand, int | None]], job: RayJob | None
) -> list[tuple[ServerCommand, int | None]]:
    """The servers of a script that count: those of Ray if it starts a ``job``, and no help if there are others."""
    if job is not None:
        runs = [run for run in runs if run[0].words is job.words] or runs
    return [run for run in runs if not only_shows_help(run[0])] or runs[:1]


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
    if unread is not None and unread.remedy != STARTS_NOTHING:
        first.doubts.append(f"{unread.why}, and the script runs it as well")
    for found in started[1:]:
        first.doubts.extend(found.doubts[:1])
    return first


def _invocation(found: ServerCommand) -> tuple[list[str], dict[str, str | None], bool, Installation | None]:
    return found.words, found.env, found.serve, found.installation
