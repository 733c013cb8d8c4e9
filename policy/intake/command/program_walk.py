"""Pass the programs before vLLM in a command, up to the server that it starts.

A program before vLLM is `env`, an assignment, a script or a launcher, whose own words `launcher_grammar` reads. Not
here: shells, `eval` and `xargs` (`nested_commands`), and vLLM's own command (`vllm_command`, `python_command`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.container_programs import next_container
from policy.intake.command.env_options import EnvWords
from policy.intake.command.evaluated_variables import (
    may_have_variables,
    note_assignments,
    unreadable_arguments,
    unreadable_variable,
)
from policy.intake.command.exported_variables import exported_variables
from policy.intake.command.installation import SOURCE_COMMANDS, vllm_of_runner
from policy.intake.command.known_programs import has_known_substitutions, is_known_program
from policy.intake.command.launcher_grammar import Meaning, launcher_words
from policy.intake.command.launcher_refusals import refusal_of
from policy.intake.command.launcher_tables import LAUNCHERS, UNREAD_LAUNCHERS
from policy.intake.command.nested_commands import server_of_eval, server_of_shell, unreadable_xargs
from policy.intake.command.program_names import MAX_DOUBTS, program_doubts
from policy.intake.command.programs import (
    OTHER_SCRIPTS,
    PACKAGE,
    PROCESS_MANAGERS,
    PROGRAMS,
    PYTHON,
    RENAMING_COMMANDS,
    SHELLS,
    STARTS_VLLM,
    TASK_RUNNERS,
    VLLM,
    is_package,
    is_program,
    is_unknown,
    next_start,
    passes_server,
)
from policy.intake.command.python_command import python_command, python_file, python_module
from policy.intake.command.script_context import ScriptContext, Variables  # noqa: TC001  # msgspec reads the annotations
from policy.intake.command.vllm_command import (
    NO_START_REMEDY,
    ServerCommand,
    UnreadableCommand,
    doubt_variables,
    may_expand_to_vllm,
    offline_engine,
    other_program,
    sourced_file,
    subcommand,
    unknown_option,
    unread_script,
    without_variables,
)
from policy.intake.command.words import ASSIGNMENT, Pattern, Unknown
from policy.intake.command_line import Installation
from policy.masking import shown_command
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.command.launcher_grammar import Launcher, LauncherWords

_Passed: TypeAlias = "tuple[bool, ServerCommand | UnreadableCommand | None]"
"""Whether a program was passed; if not, what it starts."""
CHANGE_MESSAGE: Final = "{} may change the variables of what it starts"
UNKNOWN_VARIABLES_MESSAGE: Final = "{} is not known, so `env` may set or remove any variable"
PATHLESS_INSTALLATION: Final = Installation(None, "with `PATH` cleared by `env`, no vLLM may run, or another one")
"""The vLLM of a program that is searched in `/bin` and `/usr/bin`, where the official images do not have it."""
RAY: Final = "ray"
RAY_MODULE: Final = "ray.scripts.scripts"
"""The module of Ray's command line."""
RAY_START: Final = "start"
EXPORTING_LAUNCHER: Final = "srun"
"""The launcher of whose words only the exported variables are read."""
NESTED_PROGRAMS: Final = {
    **dict.fromkeys(SHELLS, server_of_shell),
    "eval": server_of_eval,
    "xargs": unreadable_xargs,
}
"""The programs with a script or a command in their arguments."""


def server_of(
    words: list[str],
    places: list[str],
    env: Variables,
    given: dict[str, str | None],
    context: ScriptContext,
) -> ServerCommand | UnreadableCommand | None:
    """The server that a command starts, or why that is not known; None if it starts another program.

    `given` has the variables set by what precedes the command; it is not modified.
    """
    walk = _ProgramWalk(words, places, env, given, given, context)
    found = walk.server()
    if found is None:
        if context.unknown_programs == []:
            walk.note_unknown_program()
        unread = walk.unread or offline_engine(walk.words[walk.at :], walk.places[walk.at :])
        if unread is None and (walk.at or context.budget.unchecked or context.budget.has_vllm):
            unread = walk.unreadable_variable()
        if unread is None and walk.words[walk.at + 1 :]:
            return unreadable_arguments(walk.words, walk.places, walk.at)
        return unread
    if isinstance(found, ServerCommand):
        for doubt in walk.doubts:
            doubt_variables(found, doubt)
        found.doubts.extend(program_doubts(walk.programs, is_script=context.depth > 0))
        if found.installation is None and walk.installation is not None:
            found = replace(found, installation=walk.installation)
        if walk.removed:
            found = without_variables(found, walk.removed, context.budget)
        walk.set_at.update(found.set_at)
        folders = (*walk.folders, *found.folders)
        programs = (*walk.programs, *walk.loaded, *found.programs)
        found = replace(found, programs=programs, folders=folders, set_at=walk.set_at)
    return found


class _ProgramWalk(Struct):
    """The walk over the programs of a command; the next one is at ``at``.

    ``own`` has the variables that they set so far, a copy of ``given`` if they set any, and ``set_at`` the place of the
    word that sets or clears each of them; ``removed`` has those that are certainly not set any more. ``programs`` has
    the programs up to here, and ``loaded`` the options and the file or module of the last one, if it is Python's.
    ``has_path``: whether no `env` cleared `PATH`. ``doubts`` say what may change variables in an unknown way,
    ``unread`` which word may name another program, and ``installation`` is the vLLM that a program runs instead of the
    image's.
    """

    words: list[str]
    places: list[str]
    env: Variables
    given: dict[str, str | None]
    own: dict[str, str | None]
    context: ScriptContext
    at: int = 0
    programs: list[str] = []
    loaded: list[str] = []
    folders: list[str] = []
    has_path: bool = True
    set_at: dict[str, str] = {}
    removed: set[str] = set()
    doubts: list[str] = []
    unread: UnreadableCommand | None = None
    installation: Installation | None = None

    def server(self) -> ServerCommand | UnreadableCommand | None:
        """The server that the programs start, or why it is not known; None if they start another program, or none."""
        while self.at < len(self.words):
            at, word = self.at, self.words[self.at]
            program = word.rpartition("/")[2] if "/" in word else word  # a call less for each command
            self.programs.append(word)
            if is_unknown(word) or (type(word) is Pattern and self._is_unknown(at)):
                why = f"the value of {quoted(word)}, which names the program, is not known"
                is_named = may_expand_to_vllm(self.words, at) or STARTS_VLLM.search(word) is not None
                return UnreadableCommand(why, self.places[at], is_named)
            is_vllm = program in PROGRAMS or (at > 0 and is_package(word))
            if is_vllm or (at == 0 and program == "serve" and not self.context.depth):
                if not self.has_path and "/" not in word:
                    self.installation = self.installation or PATHLESS_INSTALLATION
                return subcommand(self.words, self.places, self.own, at + is_vllm)
            if self.context.job is not None and _starts_ray(program, self.words[at + 1 :]):
                return ServerCommand(self.context.job.words, [], self.own, serve=True, warnings=[], doubts=[])
            if PYTHON.fullmatch(program):
                return self._python()
            if program in NESTED_PROGRAMS:
                return self._nested(program)
            if program in OTHER_SCRIPTS:
                return None
            if program in RENAMING_COMMANDS and any(VLLM.search(each) for each in self.words[at + 1 :]):
                return UnreadableCommand(f"`{program}` gives `vllm` another name", self.places[at], names_vllm=True)
            is_script = program[-3:] == ".sh" or program in {".", "source"}
            is_assignment = at == 0 and "=" in word and not is_script and ASSIGNMENT.match(word) is not None
            if program in LAUNCHERS:
                is_passed, found = self._pass_launcher(program, LAUNCHERS[program])
            elif is_script:
                is_passed, found = self._pass_script(program)
            elif program == "env" or is_assignment:
                is_passed, found = self._pass_variables(program)
            else:
                found = other_program(self.words, self.places, at)
                if found is None and (
                    program in PROCESS_MANAGERS or (program in TASK_RUNNERS and not self.context.depth)
                ):
                    why = f"{quoted(program)} starts what a file lists, which is not read"
                    return UnreadableCommand(why, self.places[at])
                return found
            if not is_passed:
                return found
        return None

    def note_unknown_program(self) -> None:
        """Note the program at which the walk ended, or one within its words, if it may start another one."""
        at = min(self.at, len(self.words) - 1)
        is_known = self.at > at or is_known_program(self.words, at)
        if not is_known or not has_known_substitutions(self.words):
            assert self.context.unknown_programs is not None  # INVARIANT: called only if they are noted
            why = f"{quoted(shown_command(self.words[at:]))} may start any program"
            self.context.unknown_programs.append(UnreadableCommand(why, self.places[at], is_any_program=True))

    def unreadable_variable(self) -> UnreadableCommand | None:
        """Why the program that does not start the server may run the value of a variable that does."""
        if self.at >= len(self.words):
            return None
        note_assignments(self.words[: self.at], self.context)
        if not may_have_variables(self.context.budget):
            return None
        return unreadable_variable(self.words, self.places, self.at, self.env, self.own, self.context)

    def _is_unknown(self, at: int) -> bool:
        """Whether the program at a position is not known; brackets may be those of a package: `uvx vllm[audio]`."""
        word = self.words[at]
        return is_unknown(word) or (type(word) is Pattern and not (at and PACKAGE.fullmatch(word)))

    def _python(self) -> ServerCommand | UnreadableCommand | None:
        """The server that Python starts; the options and the file of Python count as programs."""
        found = python_command(self.words, self.places, self.own, self.at, self.context.depth)
        if isinstance(found, ServerCommand):
            self.loaded += self.words[self.at + 1 : len(self.words) - len(found.words)]
        return found

    def _nested(self, program: str) -> ServerCommand | UnreadableCommand | None:
        """The server that a shell, `eval` or `xargs` starts."""
        env = self.env
        if self.at:
            note_assignments(self.words[: self.at], self.context)
        if program != "xargs":
            self.context.budget.copy(len(env) + len(self.own))
            env = {**env, **self.own}
        return NESTED_PROGRAMS[program](self.words, self.places, env, self.own, self.at, self.context, server_of)

    def _pass_variables(self, program: str) -> _Passed:
        """Pass `env`, or the assignments before a command, and set the variables."""
        if self.own is self.given:
            self.context.budget.copy(len(self.given))
            self.own = self.given.copy()
        if program == "env":
            start = self.at
            options = EnvWords(self.words, self.places, start + 1, has_path=self.has_path)
            options.read(self.own, self.env, self.set_at, self.removed, self.context.budget)
            self.words, self.places, self.at = options.words, options.places, options.at
            self.has_path = options.has_path
            if options.unknown_option:
                return False, unknown_option(self.words, self.places, start, options.unknown_option)
            if options.unknown:
                self._add_doubt(UNKNOWN_VARIABLES_MESSAGE.format(quoted(options.unknown)))
            if options.folder:
                self.folders.append(options.folder)
            return not options.refusal, self._refused(options.refusal) if options.refusal else None
        while self.at < len(self.words) and (assignment := ASSIGNMENT.match(self.words[self.at])) is not None:
            word = self.words[self.at]
            self.own[assignment.group(1)] = None if type(word) is Unknown else word[assignment.end() :]
            self.set_at[assignment.group(1)] = self.places[self.at]
            self.removed.discard(assignment.group(1))
            self.at += 1
        return True, None

    def _refused(self, why: str) -> UnreadableCommand | None:
        """Why nothing starts the server among the words after an `env` that does not start them, if there is one."""
        rest, place = self.words[self.at :], "".join(self.places[self.at : self.at + 1])
        self.at = len(self.words)
        if not passes_server(rest) and STARTS_VLLM.search(" ".join(rest)) is None:
            return None
        return UnreadableCommand(why, place, names_vllm=True, remedy=NO_START_REMEDY)

    def _pass_launcher(self, program: str, launcher: Launcher) -> _Passed:
        """Pass a launcher, up to its program; if its words are not all known, up to the next program."""
        if not launcher.is_read:
            return self._pass_unread(program, launcher)
        words, at = self.words, self.at
        read = launcher_words(launcher, words, at + 1)
        if Meaning.STOPS in read.meanings:
            self.at = len(words)
            return False, None
        end = read.end
        if read.is_command and not self._is_unknown(end):
            return False, other_program(words, self.places, at)
        if read.is_unexpected or (end < len(words) and self._is_unknown(end)):
            return self._pass_unexpected(program, launcher, read)
        refusal = refusal_of(program, words[at + 1 : end])
        if refusal:
            self.at = end
            return False, self._refused(refusal)
        self._apply(program, launcher, read.meanings, end)
        self.at = end
        if read.starts is Meaning.PROGRAM or end >= len(words):
            return True, None
        self.loaded.append(words[end])
        if read.starts is Meaning.MODULE:
            return False, python_module(words, self.places, self.own, at, end, words[end])
        return False, python_file(words, self.places, self.own, end)

    def _pass_unexpected(self, program: str, launcher: Launcher, read: LauncherWords) -> _Passed:
        """Pass a launcher with a word that is not in its grammar, up to the next program."""
        words, start = self.words, read.end
        later = _next_program(words, start)
        if later is None:
            later = next((index for index in range(start, len(words)) if is_program(words[index])), len(words))
        is_unread = self._add_unread(start, later)
        if later == len(words) and not is_unread:
            return False, other_program(words, self.places, start)
        between = words[start:later]
        options = [read.launcher.options.get(word.partition("=")[0]) for word in between]
        meanings = read.meanings.union(option.meaning for option in options if option is not None)
        if any(word.rpartition("/")[2] in UNREAD_LAUNCHERS for word in between):
            meanings.add(Meaning.CHANGES)
        self._apply(program, launcher, meanings, later)
        if later < len(words):
            word = words[start]
            if word.startswith("-"):
                what = f"is not a known option of {quoted(program)}, and another program"
            else:
                what = "may be another program, which"
            self._add_doubt(f"{quoted(word)} {what} may start vLLM with other variables")
        self.at = later
        return True, None

    def _pass_unread(self, program: str, launcher: Launcher) -> _Passed:
        """Pass a launcher whose grammar is not known, up to the next program."""
        later = _next_program(self.words, self.at + 1)
        later = len(self.words) if later is None else later
        if not self._add_unread(self.at + 1, later) and later == len(self.words):
            return False, other_program(self.words, self.places, self.at)
        exported = {}
        if program == EXPORTING_LAUNCHER:
            exported = exported_variables(self.words[self.at + 1 : later], {*self.env, *self.own})
        self._apply(program, launcher, set(), later)
        self.own.update(exported)
        self.set_at.update(dict.fromkeys(exported, self.places[self.at]))
        self.removed.difference_update(exported)
        self.at = later
        return True, None

    def _pass_script(self, program: str) -> _Passed:
        """Pass a script that is not read, up to the next program, which it may start."""
        words, at = self.words, self.at
        later = _next_program(words, at + 1)
        later = len(words) if later is None else later
        if not self._add_unread(at + 1, later) and later == len(words):
            return False, sourced_file(words, self.places, at if program.endswith(".sh") else at + 1)
        if any(word.rpartition("/")[2] in UNREAD_LAUNCHERS for word in words[at + 1 : later]):
            self._forget_variables()
        if later < len(words):
            self._add_doubt(unread_script(words[at]))
        self.at = later
        return True, None

    def _add_unread(self, start: int, end: int) -> bool:
        """Whether a word in a range may name a program and is not known; if so, it is kept as the reason."""
        words = self.words
        has_serve = "serve" in words[start:end]
        for index in range(start, end):
            word = words[index]
            if is_unknown(word) or (type(word) is Pattern and (has_serve or "{" in word)):
                why = f"the value of {quoted(word)}, which may name a program, is not known"
                found = UnreadableCommand(why, self.places[index], may_expand_to_vllm(words, index))
                self.unread = self.unread or found
                return True
        return False

    def _apply(self, program: str, launcher: Launcher, meanings: set[Meaning], end: int) -> None:
        """Apply what a launcher does to variables and to the vLLM that runs; its program is at ``end``."""
        may_change = launcher.changes_variables or Meaning.CHANGES in meanings
        if not may_change and launcher.variables:
            may_change = any(self.own.get(name, self.env.get(name, "")) != "" for name in launcher.variables)
        if may_change:
            self._add_doubt(CHANGE_MESSAGE.format(quoted(program)))
        elif Meaning.LOGS_IN in meanings:
            self._add_doubt("`exec -l` starts a shell that reads start-up files, and they may set any variable")
        if may_change or Meaning.CLEARS in meanings:
            self._forget_variables()
        started = "".join(self.words[end : end + 1])
        for installation in vllm_of_runner(program, self.words[self.at + 1 : end], started):
            self.installation = installation

    def _forget_variables(self) -> None:
        """Make all variables unknown, because of the program at the current position."""
        self.context.budget.copy(len(self.env) + len(self.own))
        self.own = dict.fromkeys([*self.env, *self.own])
        self.set_at.update(dict.fromkeys(self.own, self.places[self.at]))
        self.removed.clear()

    def _add_doubt(self, why: str) -> None:
        """Add a doubt about variables, up to the limit."""
        if why not in self.doubts and len(self.doubts) < MAX_DOUBTS:
            self.doubts.append(why)


def _starts_ray(program: str, arguments: list[str]) -> bool:
    """Whether a program starts Ray: Ray's own, which is also a module of Python, or the script of vLLM's images."""
    if program in SOURCE_COMMANDS:
        return bool(arguments) and arguments[0].rpartition("/")[2] in OTHER_SCRIPTS
    if PYTHON.fullmatch(program) is not None:
        return (RAY_MODULE, RAY_START) in pairwise(arguments)
    return program in OTHER_SCRIPTS or (program == RAY and arguments[:1] == [RAY_START])


def _next_program(words: list[str], start: int) -> int | None:
    """The position of the next program, also of one that starts a container, in which what follows runs."""
    later = next_start(words, start)
    stop = len(words) if later is None else later + 1  # `exec` is also a command of Apptainer
    container = next_container(words, start, stop)
    return later if container is None else container
