"""The words that start a process → the words that vLLM's own parser gets.

Owns what may stand before vLLM: `vllm serve`, `python -m`, `env`, a shell with its script, and programs that start another. What vLLM reads of its
words is for `arguments`; what a shell's text means is for `shell`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from policy.errors import Misfit, quoted
from policy.intake.commandline import CommandLine
from policy.intake.shell import ASSIGNMENT, MAX_TEXT, MAX_WORDS, BadShell, Budget, Unknown, known, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.shell import Command

SERVERS: Final = frozenset(
    {
        "vllm.entrypoints.openai.api_server",
        "vllm.entrypoints.api_server",
        "vllm.entrypoints.launchers.api_server.entry",
        "vllm.entrypoints.grpc_server",
        "dynamo.vllm",
        "dynamo.vllm.main",
    }
)
"""Modules whose own words are vLLM's."""

CLIS: Final = frozenset({"vllm", "vllm.entrypoints.cli", "vllm.entrypoints.cli.main"})
"""Modules that are the command `vllm`."""

PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*")
SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
STARTERS: Final = frozenset(
    {
        "exec",
        "nohup",
        "nice",
        "ionice",
        "tini",
        "dumb-init",
        "catatonit",
        "numactl",
        "taskset",
        "timeout",
        "stdbuf",
        "setsid",
        "sudo",
        "gosu",
        "su-exec",
        "command",
        "uv",
        "uvx",
        "poetry",
        "conda",
        "mamba",
        "pixi",
        "micromamba",
        "nsys",
        "ncu",
        "rocprofv3",
        "opentelemetry-instrument",
        "ddtrace-run",
        "chrt",
        "time",
        "catchsegv",
        "prlimit",
        "accelerate",
        "mpirun",
        "torchrun",
    }
)
"""Programs that start the one named in their arguments."""

PYTHON_VALUES: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
DEPTH: Final = 4
MODEL: Final = re.compile(r"[A-Z0-9]")


Variables: TypeAlias = "Mapping[str, str | None]"


class _Found(Struct, frozen=True, gc=False):
    words: list[str]
    places: list[str]
    env: dict[str, str | None]
    serve: bool
    warnings: list[str]


def read_command(words: Sequence[str], places: Sequence[str], env: Mapping[str, str | None], faults: list[Misfit], pointer: str) -> CommandLine:
    """The words in a command that are vLLM's own, with what the command sets of the environment. `env` has the variables around it.

    Kubernetes' `$(NAME)` is filled in first. The words may begin with flags, with a model, with `serve`, or with any program that starts vLLM.
    Where none does, that is a fault, and no words are left.
    """
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        faults.append(Misfit(pointer, f"{len(words)} words are too many to be read; {MAX_WORDS} words of {MAX_TEXT} characters in all are taken"))
        return CommandLine()
    budget = Budget()
    try:
        read = [known(word, env, budget) for word in words] if any("$" in word for word in words) else list(words)
        if not read or read[0].startswith("-"):
            return CommandLine(read, list(places))
        found = _vllm(read, list(places), env, {}, 0, budget)
    except BadShell as error:
        faults.append(Misfit(pointer, f"the script cannot be read: {error}"))
        return CommandLine()
    if found is None and _is_model(read):
        return CommandLine(read, list(places))
    if found is None:
        faults.append(Misfit(pointer, f"{quoted(' '.join(read[:8]))} does not start vLLM's server; write its flags, or `vllm serve MODEL …`"))
        return CommandLine()
    return CommandLine(found.words, found.places, found.env, found.serve, found.warnings)


def read_text(text: str, env: Mapping[str, str | None], faults: list[Misfit], pointer: str, place: str = "args") -> CommandLine:
    """The same for a command in one text, as typed in a shell; every word has the same place."""
    budget = Budget()
    try:
        commands = split(text, env, budget=budget)
    except BadShell as error:
        faults.append(Misfit(pointer, f"not a shell's command: {error}"))
        return CommandLine()
    if len(commands) == 1 and (commands[0].words[0].startswith("-") or _is_model(commands[0].words)):
        command = commands[0]
        return CommandLine(command.words, [place] * len(command.words), command.env)
    try:
        found = _in_script(commands, place, env, 0, budget)
    except BadShell as error:
        faults.append(Misfit(pointer, f"the script cannot be read: {error}"))
        return CommandLine()
    if found is None:
        if commands:
            faults.append(Misfit(pointer, f"{quoted(text)} does not start vLLM's server; write its flags, or `vllm serve MODEL …`"))
        return CommandLine()
    return CommandLine(found.words, found.places, found.env, found.serve, found.warnings)


def starts_vllm(words: Sequence[str]) -> bool:
    """Whether a whole command names vLLM's server. Flags alone, or a model before them, do not: they could be another program's."""
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        return False
    try:
        return _vllm(list(words), [""] * len(words), {}, {}, 0, Budget()) is not None
    except BadShell:
        return False


def _vllm(words: list[str], places: list[str], env: Variables, given: dict[str, str | None], depth: int, budget: Budget) -> _Found | None:
    """Where vLLM's words begin; None where the words do not start it. `given` is what the command before them has set, and is not changed."""
    own = given
    at, end = 0, len(words)
    while at < end:
        program = words[at].rpartition("/")[2]
        if program == "vllm" or (at == 0 and program == "serve"):
            at += program == "vllm"
            return _rest(words, places, own, at + 1) if at < end and words[at] == "serve" else None
        if PYTHON.fullmatch(program):
            return _python(words, places, own, at + 1)
        if program in SHELLS:
            budget.copy(len(env) + len(own))
            return _shell(words, places, {**env, **own}, own, at + 1, depth, budget)
        is_script = program in STARTERS or program.endswith(".sh")
        if program == "env" or (at == 0 and not is_script and ASSIGNMENT.match(program)):
            if own is given:
                budget.copy(len(given))
                own = given.copy()
            at = _past_env(words, at + (program == "env"), own)
        elif is_script:
            at = next((later for later in range(at + 1, end) if _is_program(words[later])), end)
        else:
            return None
    return None


def _is_program(word: str) -> bool:
    program = word.rpartition("/")[2]
    return program in {"vllm", "env"} or program in SHELLS or program in STARTERS or PYTHON.fullmatch(program) is not None


def _rest(words: list[str], places: list[str], own: dict[str, str | None], at: int, *, serve: bool = True) -> _Found:
    return _Found(words[at:], places[at:], own, serve, [])


def _past_env(words: list[str], at: int, own: dict[str, str | None]) -> int:
    """The place after `env`'s own words; what it sets is put into `own`."""
    while at < len(words):
        word = words[at]
        assignment = ASSIGNMENT.match(word)
        if assignment is not None:
            own[assignment.group(1)] = None if type(word) is Unknown else word[assignment.end() :]
        elif word in {"-u", "--unset", "-C", "--chdir"}:
            at += 1
        elif not word.startswith("-"):
            break
        at += 1
    return at


def _python(words: list[str], places: list[str], own: dict[str, str | None], at: int) -> _Found | None:
    while at < len(words):
        word = words[at]
        if word in PYTHON_VALUES:
            at += 2
            continue
        if word.startswith("-m"):
            module, at = (word[2:], at + 1) if word != "-m" else ("".join(words[at + 1 : at + 2]), at + 2)
            if module in SERVERS:
                return _rest(words, places, own, at, serve=False)
            return _rest(words, places, own, at + 1) if module in CLIS and words[at : at + 1] == ["serve"] else None
        if not word.startswith("-"):
            if word.rpartition("/")[2] == "vllm" and words[at + 1 : at + 2] == ["serve"]:
                return _rest(words, places, own, at + 2)
            path = word.removesuffix(".py").replace("/", ".") if word.endswith(".py") else ""
            return _rest(words, places, own, at + 1, serve=False) if any(path.endswith(module) for module in SERVERS) else None
        if word.startswith("-c"):
            return None
        at += 1
    return None


def _shell(words: list[str], places: list[str], env: Variables, own: dict[str, str | None], at: int, depth: int, budget: Budget) -> _Found | None:
    """The script of `sh -c`, with the words after it as its arguments; a script in a file may start the program that it is given."""
    while at < len(words) and words[at][:1] in {"-", "+"}:
        word = words[at]
        at += 1
        if not word.startswith("--") and "c" in word:
            while at < len(words) and words[at][:1] in {"-", "+"}:
                at += 1
            if at == len(words) or depth == DEPTH:
                return None
            found = _in_script(split(words[at], env, words[at + 1 :], budget), places[at], env, depth, budget)
            if found is None:
                return None
            budget.copy(len(own) + len(found.env))
            return _Found(found.words, found.places, {**own, **found.env}, found.serve, found.warnings)
        if word in {"-o", "+o", "-O", "--rcfile", "--init-file"} or (word.endswith("o") and not word.startswith("--")):
            at += 1
    later = next((index for index in range(at + 1, len(words)) if _is_program(words[index])), None)
    return _vllm(words[later:], places[later:], env, own, depth + 1, budget) if later is not None and depth < DEPTH else None


def _in_script(commands: list[Command], place: str, env: Mapping[str, str | None], depth: int, budget: Budget) -> _Found | None:
    """The command of a script that starts vLLM; the first counts."""
    started = []
    for command in commands:
        found = _vllm(command.words, [place] * len(command.words), env, command.env, depth + 1, budget)
        if found is not None:
            started.append(found)
    if len(started) > 1:
        started[0].warnings.append(f"the script starts vLLM {len(started)} times; the first is read")
    return started[0] if started else None


def _is_model(words: list[str]) -> bool:
    """Whether words without a program before them begin with a model: a repository, a folder, or a name with a capital or a digit before flags."""
    if not words or words[0].endswith((".sh", ".py")) or "/bin/" in words[0] or " " in words[0] or (len(words) > 1 and not words[1].startswith("-")):
        return False
    return "/" in words[0] or MODEL.search(words[0]) is not None or type(words[0]) is Unknown
