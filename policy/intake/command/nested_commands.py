"""Find the server that a shell, `eval` or `xargs` starts: by a script, or by a command in its arguments.

The caller passes the function that finds the server of a command, because such a command may contain another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.intake.command.expansion import ExpansionExhausted, ShellSyntaxError
from policy.intake.command.programs import OTHER_SCRIPTS, PROGRAMS, STARTS_VLLM, is_unknown, next_start
from policy.intake.command.python_options import REFUSAL_MESSAGE
from policy.intake.command.script_servers import server_in_script
from policy.intake.command.shell_options import (
    LONG_OPTIONS,
    PIPEFAIL_DOUBT,
    PRINT_OPTIONS,
    shell_options,
    startup_doubt,
    startup_text,
)
from policy.intake.command.vllm_command import (
    OPTION_REMEDY,
    ORDER_REMEDY,
    ServerCommand,
    UnreadableCommand,
    doubt_variables,
    refused_program,
    script_file,
    unknown_option,
    unread_script,
)
from policy.intake.command.words import Unknown, replaced_names
from policy.intake.command.xargs_options import unknown_option_of, xargs_options
from policy.masking import shown_command
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_context import FindServer, ScriptContext, Variables

MAX_DEPTH: Final = 4
OTHER_SHELLS: Final = frozenset({"zsh", "ksh"})
XARGS_INPUT: Final = "$(xargs)"
"""Stands in for the arguments that `xargs` reads from its input."""


def _option_remedy(shell: str, option: str) -> str:
    """What to do about an option that a shell refuses; bash has long ones, but only before the others."""
    return ORDER_REMEDY if shell == "bash" and option[2:] in LONG_OPTIONS - PRINT_OPTIONS else OPTION_REMEDY


def server_of_shell(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
    find: FindServer,
) -> ServerCommand | UnreadableCommand | None:
    """The server that a shell starts: by the script of `-c`, with the words after it as its arguments, or by a file.

    A script in a file may start the program among its arguments.
    """
    start = at
    program = words[start].rpartition("/")[2]
    options = shell_options(program, words, at + 1)
    if options.unknown:
        return unknown_option(words, places, start, options.unknown)
    if options.refused:
        why = REFUSAL_MESSAGE.format(quoted(words[start]), quoted(options.refused))
        return refused_program(words, places, start, why, _option_remedy(program, options.refused))
    if not options.runs:
        return None
    at, doubt = options.end, startup_doubt(program, options, env)
    if options.has_script:
        if at >= len(words):
            return None
        if context.depth == MAX_DEPTH:
            why = f"{quoted(words[start])} is nested more than {MAX_DEPTH} shells deep"
            return UnreadableCommand(why, places[start], names_vllm=STARTS_VLLM.search(words[at]) is not None)
        if context.depth:
            context.budget.reread(len(words[at]))
        from policy.intake.command.shell import parse_script  # noqa: PLC0415  # most commands have no script

        is_bash, hidden = program == "bash", context.has_hidden_variables
        arguments = words[at + 1 :]
        commands = parse_script(
            words[at],
            env,
            arguments,
            context.budget,
            is_bash=is_bash,
            has_hidden_variables=hidden,
            ends_on_failure=options.ends_on_failure,
            has_pipefail=options.has_pipefail,
            refuses_unset=options.refuses_unset,
            has_other_output=context.depth > 0,
            keeps_returns=True,
        )
        found = _with_outer(server_in_script(commands, places[at], env, context, find), own, context.budget)
        if isinstance(found, ServerCommand) and program in OTHER_SHELLS:
            found.doubts.append(f"the script is read as bash reads it, and {quoted(program)} may read it differently")
        elif isinstance(found, ServerCommand) and options.has_pipefail and not is_bash:
            found.doubts[:] = dict.fromkeys([*found.doubts, PIPEFAIL_DOUBT])
        if found is None and doubt and (named := startup_text(env, context.budget.startup_texts)):
            why = f"the variable `{named}` names vLLM's server, and {quoted(words[start])} may evaluate it"
            return UnreadableCommand(why, places[start], names_vllm=True)
        return _with_startup_doubt(found, doubt, places[start], env, context.budget)
    if at >= len(words):
        return (
            UnreadableCommand(f"{quoted(words[start])} reads its commands from standard input", places[start])
            if context.depth
            else None
        )
    if is_unknown(words[at]):
        return UnreadableCommand(f"the value of {quoted(words[at])}, which names a script, is not known", places[at])
    if context.job is not None and words[at].rpartition("/")[2] in OTHER_SCRIPTS:
        found = find(words[at:], places[at:], env, own, context)
        return _with_startup_doubt(found, doubt, places[start], env, context.budget)
    later = next_start(words, at + 1)
    if later is None or context.depth == MAX_DEPTH:
        return script_file(words, places, at)
    found = find(words[later:], places[later:], env, own, context.inner_context())
    if isinstance(found, ServerCommand):
        doubt_variables(found, unread_script(words[at]))
    return _with_startup_doubt(found, doubt, places[start], env, context.budget)


def _with_startup_doubt(
    found: ServerCommand | UnreadableCommand | None, doubt: str, place: str, env: Variables, budget: ExpansionBudget
) -> ServerCommand | UnreadableCommand | None:
    """The result of a shell whose start-up may change the variables that its script does not set."""
    if not doubt or not isinstance(found, ServerCommand):
        return found
    budget.copy(len(env) + len(found.env))
    unknown: dict[str, str | None] = dict.fromkeys(name for name in env if name not in found.set_at)
    doubt_variables(found, doubt)
    return replace(found, env=found.env | unknown, set_at=found.set_at | dict.fromkeys(unknown, place))


def server_of_eval(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
    find: FindServer,
) -> ServerCommand | UnreadableCommand | None:
    """The server that `eval` starts: its arguments are a script, in which unexported variables are unknown.

    An unknown part of the script may be any words, also other commands. Such a script counts only if the rest
    certainly names the server.
    """
    text = " ".join(words[at + 1 :])
    names_vllm = STARTS_VLLM.search(text) is not None
    unread = UnreadableCommand(
        f"`eval` runs {quoted(shown_command([text]))}, which is not read", places[at], names_vllm
    )
    is_known = not any(type(word) is Unknown for word in words[at + 1 :])
    if context.depth == MAX_DEPTH or not (is_known or (names_vllm and _has_visible_gaps(words[at + 1 :]))):
        return unread
    context.budget.reread(len(text))
    from policy.intake.command.shell import parse_script  # noqa: PLC0415  # as above

    script = text if is_known else Unknown(text, names=replaced_names(words))
    try:
        commands = parse_script(
            script,
            env,
            context.arguments,
            context.budget,
            has_hidden_variables=True,
            has_other_output=True,
            keeps_returns=True,
        )
    except ExpansionExhausted:
        raise
    except ShellSyntaxError:
        if is_known:
            raise
        return unread
    found = _with_outer(server_in_script(commands, places[at], env, context, find), own, context.budget)
    return found if is_known or isinstance(found, ServerCommand) else unread


def _has_visible_gaps(words: Sequence[str]) -> bool:
    """Whether the unknown parts of words are expansions as written, so that a second reading finds them again.

    A second reading would take an escaped expansion for literal text, and braces for one word.
    """
    return all(
        type(word) is not Unknown or (("$" in word or "`" in word) and "\\$" not in word and "\\`" not in word)
        for word in words
    )


def _with_outer(
    found: ServerCommand | UnreadableCommand | None, own: dict[str, str | None], budget: ExpansionBudget
) -> ServerCommand | UnreadableCommand | None:
    """The result of a script, with the variables of the command that runs it; the script's own take precedence."""
    if not isinstance(found, ServerCommand):
        return found
    budget.copy(len(own) + len(found.env))
    return replace(found, env={**own, **found.env})


def unreadable_xargs(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    context: ScriptContext,
    find: FindServer,
) -> UnreadableCommand | None:
    """Why the program that `xargs` starts cannot be read: its other arguments come from standard input.

    None if it starts no server, whatever these arguments are.
    """
    start, replaced = xargs_options(words, at + 1)
    if unknown := unknown_option_of(words[at + 1 : start]):
        return unknown_option(words, places, at, unknown)
    if start >= len(words):
        return None
    program = words[start]
    started, places = words[start:], places[start:]
    if replaced:
        context.budget.fill(sum(word.count(replaced) for word in started) * len(XARGS_INPUT))
        started = [Unknown(word.replace(replaced, XARGS_INPUT)) if replaced in word else word for word in started]
    else:
        started, places = [*started, Unknown(XARGS_INPUT)], [*places, places[0]]
    is_named = program.rpartition("/")[2] in PROGRAMS
    if context.depth < MAX_DEPTH:
        found = find(started, places, env, own, context.inner_context())
        if found is None and not is_named:
            return None
        is_named = is_named or isinstance(found, ServerCommand) or (found is not None and found.names_vllm)
    return UnreadableCommand(f"`xargs` starts {quoted(program)} with arguments that are not known", places[0], is_named)
