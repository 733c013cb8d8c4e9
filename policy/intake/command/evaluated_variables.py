"""Other programs that may run the value of a variable as a command: `flock FILE -c '$X'`, `su -c`, `BROWSER`.

A program gets the variables of its environment, and many programs evaluate text with a shell. Unless a program is known
not to, it may start vLLM if a variable has the server's command. Not here: what a shell evaluates (`nested_commands`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from policy.intake.command.expansion import SHORTEST_SERVER
from policy.intake.command.known_programs import BUILTINS, READ_PROGRAMS, TOOLS
from policy.intake.command.programs import (
    PROGRAMS,
    PYTHON,
    SHELLS,
    STARTS_VLLM,
    TEXT_PROGRAMS,
    passes_server,
    starts_server,
)
from policy.intake.command.reading_programs import READERS
from policy.intake.command.shell_options import shell_options
from policy.intake.command.vllm_command import UnreadableCommand
from policy.intake.command.words import Array, Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_context import ScriptContext, Variables

EVALUATING_PROGRAMS: Final = frozenset({"((", "aws", "less", "let", "more", "select", "trap"})
"""Programs of the other tables that may evaluate a variable, by its name or on their own."""
PROGRAMS_NEEDING_NAMES: Final = frozenset(
    {
        *("apk", "apt", "apt-get", "dnf", "hf", "huggingface-cli", "ldconfig", "microdnf", "modprobe", "pip", "pip3"),
        *("ray", "sysctl", "tdnf", "uv", "yum"),
    }
)
"""Programs that run a text of a variable only if an argument names the variable: `apt-get -o …Pre-Invoke::='$X'`."""
NON_EVALUATING_PROGRAMS: Final = (
    frozenset({*BUILTINS, *PROGRAMS, *READERS, *TEXT_PROGRAMS, *TOOLS}) - EVALUATING_PROGRAMS - PROGRAMS_NEEDING_NAMES
)
"""Programs that run no text of a variable."""
PIP_MODULES: Final = frozenset({"ensurepip", "pip", "uv", "venv"})
ENVIRONMENT: Final = re.compile(r"environ|getenv|webbrowser|__import__|import_module|\beval\b|importlib|\bpty\b")
"""Matches code of Python that may use a variable."""
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
REFERENCE: Final = re.compile(r"\$(?:\{[#!]?)?+([A-Za-z_][A-Za-z0-9_]*+)\}?+")
INDIRECT_REFERENCE: Final = "${!"
QUOTE_MARKS: Final = "'\""
MAX_NAMED: Final = 64
"""With more variables that have the server's command, any other program counts as one that may run them."""


def note_variables(env: Variables, context: ScriptContext) -> ScriptContext:
    """Note the variables of an environment that may have a command of vLLM's server, and return the context."""
    unchecked = context.budget.unchecked
    for name, value in env.items():
        if value and (value[SHORTEST_SERVER:] or "vllm" in value):
            unchecked[name, value] = None
    return context


def note_assignments(words: Iterable[str], context: ScriptContext) -> None:
    """Note the variables that words may set to a command of vLLM's server: `env X='vllm serve MODEL'`."""
    for word in words:
        if "vllm" in word and "=" in word:
            name, _, value = word.partition("=")
            if IDENTIFIER.fullmatch(name) is not None:
                context.budget.unchecked[name, value] = None


def server_variables(budget: ExpansionBudget) -> Mapping[str, None]:
    """The variables of a command and of its scripts that get a command of vLLM's server, or may get it."""
    named, unchecked = budget.server_variables, budget.unchecked
    for name, value in unchecked:
        budget.has_vllm = budget.has_vllm or "vllm" in value
        if name not in named and starts_server(" ".join(value.elements) if isinstance(value, Array) else value):
            named[name] = None
            budget.has_vllm = True
    unchecked.clear()
    return named


def may_have_variables(budget: ExpansionBudget) -> bool:
    """Whether a variable may have a command of vLLM's server, or a part of one."""
    if budget.unchecked:
        server_variables(budget)
    return budget.has_vllm


def unreadable_variable(
    words: Sequence[str], places: Sequence[str], at: int, env: Variables, own: Variables, context: ScriptContext
) -> UnreadableCommand | None:
    """Why another program may start vLLM through a variable; None if no variable has the server's command.

    ``own`` has the variables that precede the program at ``at``, and `env` those of the container.
    """
    program, arguments = words[at].rpartition("/")[2], words[at + 1 :]
    if program in NON_EVALUATING_PROGRAMS:
        return None
    named = server_variables(context.budget)
    found = ""
    if program in SHELLS:
        options = shell_options(program, words, at + 1)
        is_terminal = options.runs and options.end >= len(words) and not (options.has_script or context.depth)
        found = next((name for name in named if is_terminal and name in env), "")
    elif program not in {"eval", "xargs"}:
        found = _evaluated(program, arguments, env, own, named)
        if not found and _names_server(arguments, env, own, context):
            why = f"{quoted(program)} has variables among its arguments that name vLLM's server, and may start it"
            return UnreadableCommand(why, places[at], names_vllm=True)
    if not found:
        return None
    why = f"the variable `{found}` has a command of vLLM's server, and {quoted(program)} may run it"
    return UnreadableCommand(why, places[at], names_vllm=True)


def unreadable_arguments(words: Sequence[str], places: Sequence[str], at: int) -> UnreadableCommand | None:
    """Why another program may start a server whose name is not known: `flock FILE $(echo $P) serve MODEL`.

    None if `serve` comes after no such word of its arguments, if the program starts no other one, or if its script has
    been read.
    """
    text = " ".join(words[at + 1 :])
    if (
        "serve" not in text
        or (program := words[at].rpartition("/")[2]) in NON_EVALUATING_PROGRAMS
        or program in READ_PROGRAMS
    ):
        return None
    parts = (part.strip(QUOTE_MARKS) for part in text.split())
    name = next((name for name, part in pairwise(parts) if part == "serve" and _may_be_any(name)), None)
    if name is None:
        return None
    why = f"{quoted(words[at])} may run {quoted(name)} with `serve`, and its value is not known"
    return UnreadableCommand(why, places[at])


def _may_be_any(part: str) -> bool:
    """Whether a part of a text ends with a value that is not known."""
    return "$" in part or part.endswith((")", "`", "}"))


def _evaluated(
    program: str, arguments: Sequence[str], env: Variables, own: Variables, named: Mapping[str, None]
) -> str:
    """The variable of those ``named`` that a program may evaluate; empty if there is none."""
    if not named or len(named) > MAX_NAMED:
        return next(iter(named), "")
    text = " ".join(arguments)
    passed = [name for name in named if name in own or name in env]
    if passed and not _needs_names(program, arguments):
        return passed[0]
    written = set(IDENTIFIER.findall(text))
    found = next((name for name in passed if name in written), "")
    if found or "$" not in text:
        return found
    is_indirect = any(type(word) is Unknown and INDIRECT_REFERENCE in word for word in arguments)
    referenced = set(REFERENCE.findall(text))
    return next((name for name in named if is_indirect or name in referenced), "")


def _needs_names(program: str, arguments: Sequence[str]) -> bool:
    """Whether a program evaluates a variable only if an argument names it."""
    if program in PROGRAMS_NEEDING_NAMES:
        return True
    if PYTHON.fullmatch(program) is None:
        return False
    options = [word for word in arguments[:2] if word[:1] == "-"]
    if len(options) == len(arguments):
        return True  # such as `--version`
    if arguments[0] == "-m":
        return arguments[1].partition(".")[0] in PIP_MODULES
    return arguments[0] == "-c" and ENVIRONMENT.search(arguments[1]) is None


def _names_server(arguments: Sequence[str], env: Variables, own: Variables, context: ScriptContext) -> bool:
    """Whether arguments name vLLM's server once a shell has replaced the variables in them: `'$X serve MODEL'`."""
    written = [word for word in arguments if "$" in word and type(word) is str]
    names = {name for word in written for name in REFERENCE.findall(word)}
    if not any("vllm" in ((own[name] if name in own else env.get(name)) or "") for name in names):
        return False

    def value_of(reference: re.Match[str]) -> str:
        name = reference.group(1)
        value = own[name] if name in own else env.get(name)
        if value is None:
            return reference.group()
        context.budget.fill(len(value))
        return value

    filled = [REFERENCE.sub(value_of, word) if "$" in word and type(word) is str else word for word in arguments]
    return STARTS_VLLM.search(" ".join(filled)) is not None or passes_server(filled)
