"""Find vLLM's own arguments in the command that starts a process.

Handles whatever may come before them: `vllm serve`, `python -m`, `env`, a shell with its script, and programs that
start another program. `arguments` parses the arguments as vLLM does; `shell` parses scripts as a shell does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from policy.errors import RequestFault
from policy.intake.command.command_builder import ASSIGNMENT
from policy.intake.command.dynamo_arguments import as_vllm_gets_it
from policy.intake.command.env_options import EnvWords
from policy.intake.command.environment import STARTERS, Effect, effect_of, exec_letters
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS, ExpansionBudget, ExpansionExhausted, ShellSyntaxError
from policy.intake.command.installation import INSTALLS, as_uncertain, installed_vllm, vllm_of_runner, vllm_of_variables
from policy.intake.command.kubernetes_references import expand_references
from policy.intake.command.programs import (
    COPY_PROGRAMS,
    OTHER_SCRIPTS,
    PACKAGE,
    PYTHON,
    RENAMING_COMMANDS,
    SHELLS,
    STARTS_VLLM,
    VLLM,
    is_package,
    is_program,
    is_unknown,
    mentions_vllm,
    next_start,
    program_between,
)
from policy.intake.command.python_command import python_command
from policy.intake.command.script_context import ScriptContext
from policy.intake.command.shell import split
from policy.intake.command.shell_options import shell_options, startup_doubt
from policy.intake.command.vllm_command import (
    ServerCommand,
    UnreadableCommand,
    begins_with_model,
    may_expand_to_vllm,
    offline_engine,
    only_shows_help,
    other_program,
    script_file,
    sourced_file,
    subcommand,
)
from policy.intake.command.word_places import word_pointer
from policy.intake.command.words import Pattern, Unknown
from policy.intake.command.xargs_options import xargs_options
from policy.intake.command_line import CommandLine, Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.script_commands import Command

DEPTH: Final = 4
EVAL_ARGUMENTS: Final = ("eval", Unknown("$@", is_several=True))
"""The arguments of the script that contains `eval`, which are not known."""
FOLDER_CHANGING: Final = frozenset({"cd", "chdir", "pushd"})
"""Shell commands that change the working folder to their last argument."""
OTHER_SHELLS: Final = frozenset({"zsh", "ksh"})
XARGS_INPUT: Final = "$(xargs)"
"""Stands in for the arguments that `xargs` reads from its input."""
Variables: TypeAlias = "Mapping[str, str | None]"


def read_command(
    words: Sequence[str],
    places: Sequence[str],
    env: Mapping[str, str | None],
    faults: list[RequestFault],
    pointer: str,
    *,
    has_hidden_variables: bool = False,
) -> CommandLine:
    """The words of a command that are vLLM's own arguments, and the variables that the command sets.

    `env` is the environment that it gets; with ``has_hidden_variables`` it may have variables whose names are unknown.
    Kubernetes' `$(NAME)` is expanded first. The command may begin with flags, with a model, with `serve`, or with any
    program that starts vLLM. If nothing in it starts vLLM, that is a fault, and the result has no words.
    """
    size = sum(map(len, words))
    if len(words) > MAX_WORDS or size > MAX_TEXT:
        found_size = f"got {len(words)} words and {size} characters"
        faults.append(
            RequestFault(
                pointer, f"expected a command of at most {MAX_WORDS} words and {MAX_TEXT} characters, {found_size}"
            )
        )
        return CommandLine()
    context = ScriptContext(ExpansionBudget(), has_hidden_variables)
    try:
        read = [
            expand_references(word, env, context.budget, has_hidden_variables=has_hidden_variables) for word in words
        ]
        if not read or read[0].startswith("-"):
            return CommandLine(read, list(places), installation=vllm_of_variables(env))
        found = _server_of(read, list(places), env, {}, context)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"the script cannot be read: {error}"))
        return CommandLine()
    if (found is None or (isinstance(found, UnreadableCommand) and is_unknown(read[0]))) and begins_with_model(read):
        return CommandLine(read, list(places), installation=vllm_of_variables(env))
    return _command_line(found, " ".join(read[:8]), env, faults, pointer)


def read_text(
    text: str, env: Mapping[str, str | None], faults: list[RequestFault], pointer: str, place: str = "args"
) -> CommandLine:
    """Parse a command given as one text, as typed in a shell; all its words have the same place."""
    budget = ExpansionBudget()
    try:
        commands = split(text, env, budget=budget)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"invalid shell command: {error}"))
        return CommandLine()
    if len(commands) == 1 and (commands[0].words[0].startswith("-") or begins_with_model(commands[0].words)):
        command = commands[0]
        installation = vllm_of_variables(env, command.env)
        return CommandLine(command.words, [place] * len(command.words), command.env, installation=installation)
    try:
        found = _in_script(commands, place, env, ScriptContext(budget))
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"the script cannot be read: {error}"))
        return CommandLine()
    if found is None and not commands:
        return CommandLine()
    return _command_line(found, text, env, faults, pointer, is_text=True)


def _command_line(
    found: ServerCommand | UnreadableCommand | None,
    shown: str,
    env: Variables,
    faults: list[RequestFault],
    pointer: str,
    *,
    is_text: bool = False,
) -> CommandLine:
    """The command line of ``found``, or a fault and no words; with ``is_text`` the fault is at ``pointer``."""
    if isinstance(found, ServerCommand):
        installation = installation_of(found, env)
        if found.is_dynamo:
            found = as_vllm_gets_it(found)
        return CommandLine(
            found.words, found.places, found.env, found.serve, found.warnings, found.doubts, installation
        )
    if found is None:
        message = f"{quoted(shown)} does not start vLLM's server; write its flags, or `vllm serve MODEL …`"
        faults.append(RequestFault(pointer, message))
    else:
        faults.append(
            RequestFault(pointer if is_text else word_pointer(pointer, found.place), f"{found.why}, {found.remedy}")
        )
    return CommandLine()


def installation_of(server: ServerCommand, env: Variables) -> Installation | None:
    """The vLLM that runs instead of the image's, if a command, its variables or its environment replace it."""
    return vllm_of_variables(env, server.env) or server.installation


def installations_in(script: str, env: Variables) -> list[Installation]:
    """The installations of vLLM by a bash script that runs before the command, in order.

    An installation that may not happen has no version.
    """
    try:
        commands = split(script, env, is_bash=True)
    except ShellSyntaxError as error:
        cause = f"a script before the start cannot be read, and it may install another vLLM: {error}"
        return [Installation(None, cause)] if INSTALLS.search(script) is not None else []
    found = [(installed_vllm(command.words), command.condition is None) for command in commands]
    return [other if is_certain else as_uncertain(other) for other, is_certain in found if other is not None]


def find_server(
    words: Sequence[str], env: Variables, *, has_hidden_variables: bool = False
) -> ServerCommand | UnreadableCommand | None:
    """The server that a whole command starts, or why that is not known; None if it starts no server.

    `env` is the environment that it gets; with ``has_hidden_variables`` it may have variables whose names are unknown.
    Flags alone, or a model with flags, do not count: they could be another program's.
    """
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        return None
    try:
        context = ScriptContext(ExpansionBudget(), has_hidden_variables)
        read = [
            expand_references(word, env, context.budget, has_hidden_variables=has_hidden_variables) for word in words
        ]
        found = _server_of(read, [""] * len(words), env, {}, context)
    except ShellSyntaxError as error:
        # The request's budget may be exhausted because of another command, so this one may start vLLM all the same.
        names_vllm = isinstance(error, ExpansionExhausted) or STARTS_VLLM.search(" ".join(words)) is not None
        return UnreadableCommand(str(error), "", names_vllm)
    if isinstance(found, UnreadableCommand):
        return replace(found, names_vllm=found.names_vllm or mentions_vllm(" ".join(read)))
    return found


def _server_of(
    words: list[str],
    places: list[str],
    env: Variables,
    given: dict[str, str | None],
    context: ScriptContext,
) -> ServerCommand | UnreadableCommand | None:
    """The server that a command starts, or why that is not known; None if it starts another program.

    `given` has the variables set by what precedes the command; it is not modified.
    """
    doubts: list[UnreadableCommand] = []
    changes: list[str] = []
    runs: list[Installation] = []
    used: list[str] = []
    found = _server_after_programs(words, places, env, given, context, doubts, changes, runs, used)
    if found is None:
        return doubts[0] if doubts else offline_engine(words, places)
    if isinstance(found, ServerCommand):
        for change in changes[:1]:
            _doubt_variables(found, change)
        if found.installation is None and runs:
            found = replace(found, installation=runs[-1])
        found = replace(found, programs=(*used, *found.programs))
    return found


def _server_after_programs(
    words: list[str],
    places: list[str],
    env: Variables,
    given: dict[str, str | None],
    context: ScriptContext,
    doubts: list[UnreadableCommand],
    changes: list[str],
    runs: list[Installation],
    used: list[str],
) -> ServerCommand | UnreadableCommand | None:
    """Like ``_server_of``, but takes unknown words after a starter as its arguments, and appends them to `doubts`.

    Appends to `changes` what may change variables in an unknown way, which makes them unknown; to `runs` the vLLM that
    a program runs instead of the image's; and to `used` each program.
    """
    own = given
    at, end = 0, len(words)
    while at < end:
        program = words[at].rpartition("/")[2]
        used.append(words[at])
        if is_unknown(words[at]) or (type(words[at]) is Pattern and not (at and PACKAGE.fullmatch(words[at]))):
            why = f"the value of {quoted(words[at])}, which names the program, is not known"
            is_named = may_expand_to_vllm(words, at) or STARTS_VLLM.search(words[at]) is not None
            return UnreadableCommand(why, places[at], is_named)
        is_vllm = program == "vllm" or (at > 0 and is_package(words[at]))
        if is_vllm or (at == 0 and program == "serve"):
            return subcommand(words, places, own, at + is_vllm)
        if PYTHON.fullmatch(program):
            return _python(words, places, own, at, context, used)
        if program in SHELLS:
            context.budget.copy(len(env) + len(own))
            return _shell(words, places, {**env, **own}, own, at, context)
        if program == "eval":
            context.budget.copy(len(env) + len(own))
            return _eval(words, places, {**env, **own}, own, at, context)
        if program == "xargs":
            return _xargs(words, places, env, own, at, context)
        is_script = program[-3:] == ".sh" or program in {".", "source"}
        may_assign = at == 0 and "=" in words[at] and not is_script and program not in STARTERS
        if program == "env" or (may_assign and ASSIGNMENT.match(words[at])):
            if own is given:
                context.budget.copy(len(given))
                own = given.copy()
            options = _read_variables(words, places, at, own, env, context.budget)
            words, places, at, end = options.words, options.places, options.at, len(options.words)
        elif program in OTHER_SCRIPTS:
            return None
        elif program in RENAMING_COMMANDS and any(VLLM.search(word) for word in words[at + 1 :]):
            return UnreadableCommand(f"`{program}` gives `vllm` another name", places[at], names_vllm=True)
        elif is_script or program in STARTERS:
            later = next_start(words, at + 1)
            if later is None and not is_script:
                later = next((index for index in range(at + 1, end) if is_program(words[index])), None)
            later = end if later is None else later
            has_serve = "serve" in words[at + 1 : later]
            unknown = next(
                (
                    index
                    for index in range(at + 1, later)
                    if is_unknown(words[index])
                    or (type(words[index]) is Pattern and (has_serve or "{" in words[index]))
                ),
                None,
            )
            if unknown is not None:
                why = f"the value of {quoted(words[unknown])}, which may name a program, is not known"
                doubts.append(UnreadableCommand(why, places[unknown], may_expand_to_vllm(words, unknown)))
            elif later == end and is_script:
                return sourced_file(words, places, at if program.endswith(".sh") else at + 1)
            if later == end and program in STARTERS and unknown is None and at + 1 < end:
                return other_program(words, places, at + 1)
            effect = effect_of(program, words[at + 1 : later], env, own)
            if effect is not Effect.KEEPS:
                context.budget.copy(len(env) + len(own))
                own = dict.fromkeys([*env, *own])
            changes += _changes_by(words, at, later, effect, is_script=is_script)
            runs += vllm_of_runner(program, words[at + 1 : later], words[later] if later < end else "")
            at = later
        else:
            return other_program(words, places, at)
    return None


def _changes_by(words: list[str], at: int, later: int, effect: Effect, *, is_script: bool) -> list[str]:
    """Why the program at a position may start that at a later one with other variables, in an unknown way."""
    found = []
    program = words[at].rpartition("/")[2]
    if effect is Effect.MAY_CHANGE:
        found.append(f"{quoted(program)} may change the variables of what it starts")
    elif program == "exec" and "l" in exec_letters(words[at + 1 : later]):
        found.append("`exec -l` starts a shell that reads start-up files, and they may set any variable")
    if later < len(words) and is_script:
        found.append(_unread_script(words[at]))
    elif later < len(words) and (other := program_between(words, at + 1, later)) is not None:
        found.append(f"{quoted(other)} may be another program, which starts vLLM with other variables")
    return found


def _unread_script(name: str) -> str:
    return f"the script {quoted(name)} is not read and may change what it starts"


def _python(
    words: list[str],
    places: list[str],
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
    used: list[str],
) -> ServerCommand | UnreadableCommand | None:
    """The server that Python starts; its options and its file are appended to `used`."""
    found = python_command(words, places, own, at, context.depth)
    if isinstance(found, ServerCommand):
        used += words[at + 1 : len(words) - len(found.words)]
    return found


def _read_variables(
    words: list[str], places: list[str], at: int, own: dict[str, str | None], env: Variables, budget: ExpansionBudget
) -> EnvWords:
    """Parse `env`, or the assignments before a command, and add the variables to ``own``."""
    options = EnvWords(words, places, at)
    if words[at].rpartition("/")[2] == "env":
        options.at += 1
        options.read(own, env, budget)
        return options
    while options.at < len(words) and (assignment := ASSIGNMENT.match(words[options.at])) is not None:
        word = words[options.at]
        own[assignment.group(1)] = None if type(word) is Unknown else word[assignment.end() :]
        options.at += 1
    return options


def _eval(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
) -> ServerCommand | UnreadableCommand | None:
    """The server that `eval` starts: its arguments are a script, in which unexported variables are unknown."""
    text = " ".join(words[at + 1 :])
    names_vllm = STARTS_VLLM.search(text) is not None
    if context.depth == DEPTH or any(type(word) is Unknown for word in words[at + 1 :]):
        return UnreadableCommand(f"`eval` runs {quoted(text)}, which is not read", places[at], names_vllm)
    context.budget.reread(len(text))
    commands = split(text, env, EVAL_ARGUMENTS, context.budget, has_hidden_variables=True)
    return _with_outer(_in_script(commands, places[at], env, context), own, context.budget)


def _with_outer(
    found: ServerCommand | UnreadableCommand | None, own: dict[str, str | None], budget: ExpansionBudget
) -> ServerCommand | UnreadableCommand | None:
    """The result of a script, with the variables of the command that runs it; the script's own take precedence."""
    if not isinstance(found, ServerCommand):
        return found
    budget.copy(len(own) + len(found.env))
    return replace(found, env={**own, **found.env})


def _xargs(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
) -> UnreadableCommand | None:
    """Why it is not known what `xargs` starts: it appends or inserts arguments that only a running shell knows."""
    start, replaced = xargs_options(words, at + 1)
    if start >= len(words):
        return None
    program = words[start]
    started, places = words[start:], places[start:]
    if replaced:
        context.budget.fill(sum(word.count(replaced) for word in started) * len(XARGS_INPUT))
        started = [Unknown(word.replace(replaced, XARGS_INPUT)) if replaced in word else word for word in started]
    else:
        started, places = [*started, Unknown(XARGS_INPUT)], [*places, places[0]]
    is_named = program.rpartition("/")[2] == "vllm"
    if context.depth < DEPTH:
        found = _server_of(started, places, env, own, context.inner())
        if found is None and not is_named:
            return None
        is_named = is_named or isinstance(found, ServerCommand) or (found is not None and found.names_vllm)
    return UnreadableCommand(f"`xargs` starts {quoted(program)} with arguments that are not known", places[0], is_named)


def _shell(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
) -> ServerCommand | UnreadableCommand | None:
    """The server that a shell starts: by the script of `-c`, with the words after it as its arguments, or by a file.

    A script in a file may start the program among its arguments.
    """
    start = at
    program = words[start].rpartition("/")[2]
    options = shell_options(program, words, at + 1)
    if not options.runs:
        return None
    at, doubt = options.end, startup_doubt(program, options, env)
    if options.has_script:
        if at >= len(words):
            return None
        if context.depth == DEPTH:
            why = f"{quoted(words[start])} is nested more than {DEPTH} shells deep"
            return UnreadableCommand(why, places[start], names_vllm=STARTS_VLLM.search(words[at]) is not None)
        if context.depth:
            context.budget.reread(len(words[at]))
        is_bash, hidden = program == "bash", context.has_hidden_variables
        arguments = words[at + 1 :]
        commands = split(words[at], env, arguments, context.budget, is_bash=is_bash, has_hidden_variables=hidden)
        found = _with_outer(_in_script(commands, places[at], env, context), own, context.budget)
        if isinstance(found, ServerCommand) and program in OTHER_SHELLS:
            found.doubts.append(f"the script is read as bash reads it, and {quoted(program)} may read it differently")
        return _with_doubt(found, doubt, env, context.budget)
    if at >= len(words):
        return (
            UnreadableCommand(f"{quoted(words[start])} reads its commands from standard input", places[start])
            if context.depth
            else None
        )
    if is_unknown(words[at]):
        return UnreadableCommand(f"the value of {quoted(words[at])}, which names a script, is not known", places[at])
    later = next_start(words, at + 1)
    if later is None or context.depth == DEPTH:
        return script_file(words, places, at)
    found = _server_of(words[later:], places[later:], env, own, context.inner())
    if isinstance(found, ServerCommand):
        _doubt_variables(found, _unread_script(words[at]))
    return _with_doubt(found, doubt, env, context.budget)


def _with_doubt(
    found: ServerCommand | UnreadableCommand | None, doubt: str, env: Variables, budget: ExpansionBudget
) -> ServerCommand | UnreadableCommand | None:
    """The result of a shell that may change variables before its script: those that the script does not set."""
    if not doubt or not isinstance(found, ServerCommand):
        return found
    budget.copy(len(env) + len(found.env))
    unknown: dict[str, str | None] = {name: None for name, value in env.items() if found.env.get(name, value) == value}
    _doubt_variables(found, doubt)
    return replace(found, env=found.env | unknown)


def _doubt_variables(found: ServerCommand, why: str) -> None:
    """Add a doubt about the variables of a command, and its warning, unless it already has this doubt."""
    if why not in found.doubts:
        found.doubts.append(why)
        found.warnings.append(f"{why}; variables are not certain")


def _in_script(
    commands: list[Command], place: str, env: Variables, context: ScriptContext
) -> ServerCommand | UnreadableCommand | None:
    """The first command of a script that starts vLLM; if there is none, the first unreadable one.

    It has a doubt if the script also starts vLLM in another way, or may do so with an unreadable command.
    """
    started: list[ServerCommand] = []
    doubts: list[str] = []
    unread: UnreadableCommand | None = None
    copied: str | None = None
    installation: Installation | None = None
    condition: object = None
    inner = context.inner()
    folders: list[str] = []
    for command in commands:
        found = _server_of(command.words, [place] * len(command.words), env, command.env, inner)
        program = command.words[0].rpartition("/")[2]
        if found is None and command.writes and STARTS_VLLM.search(" ".join(command.words)) is not None:
            why = f"{quoted(program)} writes vLLM's server into a file, which may be run"
            found = UnreadableCommand(why, place, names_vllm=True)
        elif found is None and copied is not None and "serve" in command.words:
            found = UnreadableCommand(f"{quoted(copied)} may give `vllm` another name", place, names_vllm=True)
        elif program in COPY_PROGRAMS and any(VLLM.search(word) for word in command.words):
            copied = program
        if isinstance(found, ServerCommand):
            if installation is not None and found.installation is None:
                is_certain = condition is None or condition is command.condition
                found = replace(found, installation=installation if is_certain else as_uncertain(installation))
            found = replace(found, folders=(*folders, *found.folders))
            started.append(found)
            if command.doubt:
                doubts.append(command.doubt)
            continue
        if program in FOLDER_CHANGING:
            folders.append(command.words[-1])
        if found is not None and (unread is None or (found.names_vllm and not unread.names_vllm)):
            unread = found
        if (other := installed_vllm(command.words)) is not None:
            installation, condition = other, command.condition
    others = [found for found in started if not only_shows_help(found)]
    started = others or started[:1]
    if not started:
        return unread
    first = started[0]
    first.doubts.extend(doubts[:1])
    if len(started) > 1:
        first.warnings.append(f"the script starts vLLM {len(started)} times; the first is read")
    if any(_invocation(found) != _invocation(first) for found in started[1:]):
        first.doubts.append(f"the script starts vLLM {len(started)} times with different arguments or variables")
    if unread is not None:
        first.doubts.append(f"{unread.why}, and the script runs it as well")
    for found in started[1:]:
        first.doubts.extend(found.doubts[:1])
    return first


def _invocation(found: ServerCommand) -> tuple[list[str], dict[str, str | None], bool]:
    return found.words, found.env, found.serve
