"""Find vLLM's own arguments in the command that starts a process.

The command may be a list of words or a text. `program_walk` passes the programs before vLLM, `arguments` parses the
arguments as vLLM does, and `shell` parses scripts as a shell does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.errors import RequestFault
from policy.intake.command.code_variables import vllm_of_variables
from policy.intake.command.dynamo_arguments import with_vllm_arguments
from policy.intake.command.evaluated_variables import note_variables, server_variables
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS, ExpansionBudget, ExpansionExhausted, ShellSyntaxError
from policy.intake.command.hidden_starts import hidden_start, places_program
from policy.intake.command.huggingface_server import SERVER_PLACE, size_flags
from policy.intake.command.kubernetes_references import expand_words
from policy.intake.command.own_arguments import own_arguments
from policy.intake.command.program_walk import server_of
from policy.intake.command.programs import (
    STARTS_VLLM,
    is_script_file,
    is_unknown,
    mentions_vllm,
    server_names,
    states_server,
)
from policy.intake.command.script_commands import Command
from policy.intake.command.script_context import ScriptContext
from policy.intake.command.script_servers import server_in_script
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand, begins_with_model, other_program
from policy.intake.command.volume_paths import NO_VOLUMES
from policy.intake.command.word_places import word_pointer
from policy.intake.command_line import CommandLine
from policy.masking import shown_command
from policy.messages import quoted
from policy.stated_secrets import secret_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.script_context import Variables
    from policy.intake.command.volume_paths import VolumePaths
    from policy.intake.command_line import Installation

VLLM: Final = "vllm"
COMMENTS: Final = re.compile(r"(?:\s++|#[^\n]*+)*+")


def read_command(
    words: Sequence[str],
    places: Sequence[str],
    env: Mapping[str, str | None],
    faults: list[RequestFault],
    pointer: str,
    *,
    has_hidden_variables: bool = False,
    gpus: int = 0,
) -> CommandLine:
    """The words of a command that are vLLM's own arguments, and the variables that the command sets.

    `env` is the environment that it gets; with ``has_hidden_variables`` it may have variables whose names are unknown.
    It has ``gpus`` GPUs, 0 if their number is not known.
    Kubernetes' `$(NAME)` is expanded first. The command may begin with flags, with a model, with `serve`, or with any
    program that starts vLLM. If nothing in it starts vLLM, that is a fault, and the result has no words.
    """
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        found_size = f"got {len(words)} words and {sum(map(len, words))} characters"
        faults.append(
            RequestFault(
                pointer, f"expected a command of at most {MAX_WORDS} words and {MAX_TEXT} characters, {found_size}"
            )
        )
        return CommandLine()
    context = ScriptContext(ExpansionBudget(), has_hidden_variables)
    try:
        read = expand_words(words, env, context.budget, has_hidden_variables=has_hidden_variables)
        if (own := own_arguments(read, places, env)) is not None:
            return own
        if not begins_with_model(read):
            note_variables(env, context)
        found = server_of(read, list(places), env, {}, context)
        if found is None and context.scripts and states_server((*read, VLLM, *filter(None, env.values()))):
            found = _hidden(context)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"the script cannot be read: {error}"))
        return CommandLine(secrets=frozenset(context.budget.secrets))
    if _is_model(found, read):
        return CommandLine(read, list(places), installation=vllm_of_variables(env))
    return _command_line(found, read[:8], env, faults, pointer, context.budget, gpus=gpus)


def read_text(
    text: str, env: Mapping[str, str | None], faults: list[RequestFault], pointer: str, place: str = "args"
) -> CommandLine:
    """Parse a command given as one text, as typed in a shell; all its words have the same place."""
    from policy.intake.command.shell import parse_script  # noqa: PLC0415  # most commands are lists, without a script

    budget = ExpansionBudget()
    try:
        commands = parse_script(text, env, budget=budget)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"invalid shell command: {error}"))
        return CommandLine(secrets=frozenset(budget.secrets))
    if len(commands) == 1 and (commands[0].words[0].startswith("-") or begins_with_model(commands[0].words)):
        command = commands[0]
        installation = vllm_of_variables(env, command.env)
        set_at = dict.fromkeys(command.env, place)
        words = command.words
        return CommandLine(
            words,
            [place] * len(words),
            command.env,
            installation=installation,
            set_at=set_at,
            secrets=frozenset(budget.secrets),
        )
    if len(commands) == 1 and commands[0].words[0] == "serve":  # vLLM's arguments; in a script it is another program
        commands = [replace(commands[0], words=["vllm", *commands[0].words])]
    try:
        found = server_in_script(commands, place, env, note_variables(env, ScriptContext(budget)), server_of)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"the script cannot be read: {error}"))
        return CommandLine(secrets=frozenset(budget.secrets))
    if found is None and not commands and COMMENTS.fullmatch(text) is not None:
        return CommandLine()
    return _command_line(found, [text], env, faults, pointer, budget, is_text=True)


def _is_model(found: ServerCommand | UnreadableCommand | None, read: list[str]) -> bool:
    """Whether the first word is a model, as it starts nothing that is known: `/models/x` may be a folder or a file."""
    is_open = found is None or (
        isinstance(found, UnreadableCommand) and (is_unknown(read[0]) or is_script_file(read[0]))
    )
    return is_open and begins_with_model(read)


def _command_line(
    found: ServerCommand | UnreadableCommand | None,
    shown: Sequence[str],
    env: Variables,
    faults: list[RequestFault],
    pointer: str,
    budget: ExpansionBudget,
    *,
    is_text: bool = False,
    gpus: int = 0,
) -> CommandLine:
    """The command line of ``found``, or a fault and no words; with ``is_text`` the fault is at ``pointer``."""
    if isinstance(found, ServerCommand):
        installation = installation_of(found, env)
        if found.is_dynamo:
            found = with_vllm_arguments(found, env)
        elif found.is_huggingface_server and gpus:
            size = size_flags(gpus)
            found = replace(found, words=[*found.words, *size], places=[*found.places, *[SERVER_PLACE] * len(size)])
        return CommandLine(
            found.words,
            found.places,
            found.env,
            found.serve,
            found.warnings,
            found.doubts,
            installation,
            found.set_at,
            is_serve=found.serve,
            module=found.module,
            secrets=frozenset(budget.secrets),
            removed=found.removed,
        )
    if found is None:
        message = (
            f"{quoted(shown_command(shown))} does not start vLLM's server; write its flags, or `vllm serve MODEL …`"
        )
        faults.append(RequestFault(pointer, message))
    else:
        faults.append(
            RequestFault(pointer if is_text else word_pointer(pointer, found.place), f"{found.why}, {found.remedy}")
        )
    return CommandLine(secrets=frozenset(budget.secrets))


def _hidden(context: ScriptContext) -> UnreadableCommand | None:
    """Why scripts that start no server as they are read may start one; None if nothing in them is read otherwise."""
    why = context.budget.hidden or hidden_start(context.scripts)
    return UnreadableCommand(why, "", names_vllm=True) if why else None


class ProgramChanges(Struct, frozen=True):
    """What a command may do to programs that another one runs: put one in the place of another, or write a script.

    ``names`` says what of vLLM's server the command names (`server_names`), and so what its script may name.
    """

    puts: bool = False
    writes: bool = False
    names: tuple[bool, bool] = (False, False)


def program_changes(words: Sequence[str], env: Variables) -> ProgramChanges:
    """What a whole command may do to programs; a part that cannot be read does not count."""
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        return ProgramChanges()
    context = ScriptContext(ExpansionBudget())
    try:
        read = expand_words(words, env, context.budget)
        server_of(read, [""] * len(words), env, {}, context)
    except ShellSyntaxError:
        return ProgramChanges()
    scripts = [[Command(read, {})], *context.scripts]
    writes = any(command.outputs for script in scripts for command in script)
    return ProgramChanges(any(map(places_program, scripts)), writes, server_names([*read, *filter(None, env.values())]))


def installation_of(server: ServerCommand, env: Variables) -> Installation | None:
    """The vLLM that runs instead of the image's, if a command, its variables or its environment replace it."""
    return vllm_of_variables(env, server.env) or server.installation


def find_server(
    words: Sequence[str],
    env: Variables,
    *,
    is_command: bool = False,
    has_hidden_variables: bool = False,
    doubts_programs: bool = False,
    has_vllms_image: bool = False,
    folder: str = "",
    volumes: VolumePaths = NO_VOLUMES,
) -> ServerCommand | UnreadableCommand | None:
    """The server that a whole command starts, or why that is not known; None if it starts no server.

    A command that cannot be read also names vLLM's server if its words have only `serve`, and vLLM's name is in a
    variable's value or, with ``has_vllms_image``, in the image.
    ``is_command``: whether the first word is certainly a program, and no argument of an image's entry point. `env` is
    the environment that it gets; with ``has_hidden_variables`` it may have variables whose names are unknown.
    Flags alone, or a model with flags, do not count: they could be another program's. With ``doubts_programs``, a
    program that may start others is a reason too. ``folder`` is the absolute working folder in which the command
    starts, and ``volumes`` are the mounts of its container.
    """
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        return None
    unknown_programs: list[UnreadableCommand] | None = [] if doubts_programs else None
    context = ScriptContext(
        ExpansionBudget(), has_hidden_variables, unknown_programs=unknown_programs, folder=folder, volumes=volumes
    )
    stated = [*filter(None, env.values()), *([VLLM] if has_vllms_image else [])]
    found: ServerCommand | UnreadableCommand | None
    try:
        read = expand_words(words, env, context.budget, has_hidden_variables=has_hidden_variables)
        if is_command or not begins_with_model(read):
            note_variables(env, context)
        if is_command and read and read[0].rpartition("/")[2] == "serve":  # a program of its own, as in a script
            found = other_program(read, [""] * len(words), 0)
            if found is None and doubts_programs:
                why = f"{quoted(shown_command(read[:8]))} may start any program"
                found = UnreadableCommand(why, "", is_any_program=True)
        else:
            found = server_of(read, [""] * len(words), env, {}, context)
        if found is None and context.scripts and states_server((*read, *stated)):
            found = _hidden(context)
        if found is None and unknown_programs:
            found = unknown_programs[0]
    except ShellSyntaxError as error:
        # The request's budget may be exhausted because of another command, so this one may start vLLM all the same.
        is_named = STARTS_VLLM.search(" ".join(words)) is not None or states_server(stated, words)
        names_vllm = isinstance(error, ExpansionExhausted) or is_named
        why = secret_values(env, (), context.budget.secrets).hidden(str(error))
        return UnreadableCommand(why, "", names_vllm)
    if not is_command and read and _is_model(found, read) and not is_unknown(read[0]):
        return None
    if isinstance(found, UnreadableCommand):
        why = secret_values(env, (), context.budget.secrets).hidden(found.why)
        has_server = found.names_vllm or bool(server_variables(context.budget))
        is_named = mentions_vllm(" ".join(read)) or states_server((*read, *stated))
        return replace(found, why=why, names_vllm=has_server or is_named)
    return found
