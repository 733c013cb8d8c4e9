"""Find vLLM's own words in the command that starts a process.

Handles what may come before vLLM: `vllm serve`, `python -m`, `env`, a shell with its script, and programs that start
another. Not here: how vLLM reads its words (`arguments`), and what a shell's text means (`shell`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from policy.errors import RequestFault
from policy.intake.command.arguments import below
from policy.intake.command.programs import (
    CLIS,
    OFFLINE_MODULES,
    OTHER_SCRIPTS,
    PYTHON,
    SEARCHING,
    SERVERS,
    SHELLS,
    STARTERS,
    is_program,
    is_unknown,
)
from policy.intake.command.shell import (
    ASSIGNMENT,
    MAX_TEXT,
    MAX_WORDS,
    STARTS_VLLM,
    ExpansionBudget,
    ShellSyntaxError,
    Unknown,
    known,
    split,
)
from policy.intake.command_line import CommandLine
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.shell import Command

PYTHON_VALUES: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
DEPTH: Final = 4
MODEL: Final = re.compile(r"[A-Z0-9]")
REMEDY: Final = "so it is not known whether it starts vLLM; write `vllm serve MODEL …` directly as the command"
ONLY_SERVERS: Final = "and only servers are decided; decide `vllm serve MODEL …` with its flags"

Variables: TypeAlias = "Mapping[str, str | None]"


class _Found(Struct, frozen=True, gc=False):
    words: list[str]
    places: list[str]
    env: dict[str, str | None]
    serve: bool
    warnings: list[str]


class UnreadableCommand(Struct, frozen=True, gc=False):
    """Why it is not known whether a command starts vLLM.

    `names_vllm` says that the part that is not read contains vLLM's server, so that the command may start it with
    any image. Python code does not count: it may import vLLM's server for other purposes.
    """

    why: str
    place: str
    names_vllm: bool = False
    remedy: str = REMEDY


def read_command(
    words: Sequence[str], places: Sequence[str], env: Mapping[str, str | None], faults: list[RequestFault], pointer: str
) -> CommandLine:
    """The words of a command that are vLLM's own, and the variables that the command sets.

    `env` has the variables around it. Kubernetes' `$(NAME)` is expanded first. The command may begin with flags, with a
    model, with `serve`, or with any program that starts vLLM. If nothing in it starts vLLM, that is a fault, and the
    result has no words.
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
    budget = ExpansionBudget()
    try:
        read = [known(word, env, budget) for word in words]
        if not read or read[0].startswith("-"):
            return CommandLine(read, list(places))
        found = _vllm(read, list(places), env, {}, 0, budget)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"the script cannot be read: {error}"))
        return CommandLine()
    if (found is None or (isinstance(found, UnreadableCommand) and is_unknown(read[0]))) and _is_model(read):
        return CommandLine(read, list(places))
    return _command_line(found, " ".join(read[:8]), faults, pointer)


def read_text(
    text: str, env: Mapping[str, str | None], faults: list[RequestFault], pointer: str, place: str = "args"
) -> CommandLine:
    """The same for a command in one text, as typed in a shell; every word has the same place."""
    budget = ExpansionBudget()
    try:
        commands = split(text, env, budget=budget)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"invalid shell command: {error}"))
        return CommandLine()
    if len(commands) == 1 and (commands[0].words[0].startswith("-") or _is_model(commands[0].words)):
        command = commands[0]
        return CommandLine(command.words, [place] * len(command.words), command.env)
    try:
        found = _in_script(commands, place, env, 0, budget)
    except ShellSyntaxError as error:
        faults.append(RequestFault(pointer, f"the script cannot be read: {error}"))
        return CommandLine()
    if found is None and not commands:
        return CommandLine()
    return _command_line(found, text, faults, pointer, is_text=True)


def _command_line(
    found: _Found | UnreadableCommand | None,
    shown: str,
    faults: list[RequestFault],
    pointer: str,
    *,
    is_text: bool = False,
) -> CommandLine:
    """The command line that was found, or a fault and no words; with ``is_text`` all words are at ``pointer``."""
    if isinstance(found, _Found):
        return CommandLine(found.words, found.places, found.env, found.serve, found.warnings)
    if found is None:
        message = f"{quoted(shown)} does not start vLLM's server; write its flags, or `vllm serve MODEL …`"
        faults.append(RequestFault(pointer, message))
    else:
        faults.append(RequestFault(pointer if is_text else below(pointer, found.place), f"{found.why}, {found.remedy}"))
    return CommandLine()


def starts_vllm(words: Sequence[str], env: Variables) -> bool | UnreadableCommand:
    """Whether a whole command starts vLLM's server, or why that is not known. `env` has the variables around it.

    Flags alone, or a model before them, do not count: they could be another program's.
    """
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        return False
    try:
        budget = ExpansionBudget()
        found = _vllm([known(word, env, budget) for word in words], [""] * len(words), env, {}, 0, budget)
    except ShellSyntaxError as error:
        return UnreadableCommand(str(error), "", STARTS_VLLM.search(" ".join(words)) is not None)
    return found if isinstance(found, UnreadableCommand) else found is not None


def _vllm(
    words: list[str],
    places: list[str],
    env: Variables,
    given: dict[str, str | None],
    depth: int,
    budget: ExpansionBudget,
) -> _Found | UnreadableCommand | None:
    """The words of a command that are vLLM's; None if it starts another program.

    `given` is what the command before it has set; it is not changed.
    """
    doubts: list[UnreadableCommand] = []
    found = _program(words, places, env, given, depth, budget, doubts)
    if found is not None:
        return found
    return doubts[0] if doubts else _offline(words, places)


def _program(
    words: list[str],
    places: list[str],
    env: Variables,
    given: dict[str, str | None],
    depth: int,
    budget: ExpansionBudget,
    doubts: list[UnreadableCommand],
) -> _Found | UnreadableCommand | None:
    """The same. After a program that starts another, unknown words count as its arguments and are added to `doubts`."""
    own = given
    at, end = 0, len(words)
    while at < end:
        program = words[at].rpartition("/")[2]
        if is_unknown(words[at]):
            why = f"the value of {quoted(words[at])}, which names the program, is not known"
            return UnreadableCommand(why, places[at], names_vllm=STARTS_VLLM.search(words[at]) is not None)
        if program == "vllm" or (at == 0 and program == "serve"):
            at += program == "vllm"
            if at < end and words[at] == "serve":
                return _rest(words, places, own, at + 1)
            if at < end and is_unknown(words[at]):
                return UnreadableCommand(
                    f"the value of {quoted(words[at])}, which names a command of `vllm`, is not known",
                    places[at],
                    names_vllm=True,
                )
            return None
        if PYTHON.fullmatch(program):
            return _python(words, places, own, at, depth)
        if program in SHELLS:
            budget.copy(len(env) + len(own))
            return _shell(words, places, {**env, **own}, own, at, depth, budget)
        if program == "eval":
            budget.copy(len(env) + len(own))
            return _eval(words, places, {**env, **own}, own, at, depth, budget)
        if program == "xargs":
            return _xargs(words, places, env, own, at, depth, budget)
        is_script = program.endswith(".sh") or program in {".", "source"}
        if program == "env" or (at == 0 and not is_script and program not in STARTERS and ASSIGNMENT.match(program)):
            if own is given:
                budget.copy(len(given))
                own = given.copy()
            at = _past_env(words, at + (program == "env"), own)
        elif program in OTHER_SCRIPTS:
            return None
        elif is_script or program in STARTERS:
            later = next((later for later in range(at + 1, end) if is_program(words[later])), end)
            unknown = next((index for index in range(at + 1, later) if is_unknown(words[index])), None)
            if unknown is not None:
                doubts.append(
                    UnreadableCommand(
                        f"the value of {quoted(words[unknown])}, which may name a program, is not known",
                        places[unknown],
                    )
                )
            elif later == end and is_script:
                return _sourced(words, places, at if program.endswith(".sh") else at + 1)
            if later == end and program in STARTERS and unknown is None and at + 1 < end:
                return _other(words, places, at + 1)
            at = later
        else:
            return _other(words, places, at)
    return None


def _sourced(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """A file that is run or sourced; without `.sh`, such as `. activate`, it is taken to set variables only."""
    return _file(words, places, at) if at < len(words) and words[at].endswith(".sh") else None


def _file(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """A shell script in a file, which may start anything."""
    if words[at].rpartition("/")[2] in OTHER_SCRIPTS:
        return None
    return UnreadableCommand(f"the file {quoted(words[at])} is a script that is not read", places[at])


def _other(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """Another program, which may start vLLM if that is among its arguments."""
    program = words[at].rpartition("/")[2]
    if program in SEARCHING or STARTS_VLLM.search(" ".join(words[at + 1 :])) is None:
        return None
    return UnreadableCommand(
        f"{quoted(program)} has vLLM's server among its arguments and may start it", places[at], names_vllm=True
    )


def _eval(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    depth: int,
    budget: ExpansionBudget,
) -> _Found | UnreadableCommand | None:
    """`eval`: its arguments are another script. Unexported variables of the outer script have no value here."""
    text = " ".join(words[at + 1 :])
    names_vllm = STARTS_VLLM.search(text) is not None
    if depth == DEPTH or any(type(word) is Unknown for word in words[at + 1 :]):
        return UnreadableCommand(f"`eval` runs {quoted(text)}, which is not read", places[at], names_vllm)
    found = _in_script(split(text, env, budget=budget), places[at], env, depth, budget)
    return _with_outer(found, own, budget)


def _with_outer(
    found: _Found | UnreadableCommand | None, own: dict[str, str | None], budget: ExpansionBudget
) -> _Found | UnreadableCommand | None:
    """The result of a script, with the variables that were set around it."""
    if not isinstance(found, _Found):
        return found
    budget.copy(len(own) + len(found.env))
    return _Found(found.words, found.places, {**own, **found.env}, found.serve, found.warnings)


def _xargs(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    depth: int,
    budget: ExpansionBudget,
) -> UnreadableCommand | None:
    """`xargs`: a program gets more arguments that only a running shell knows."""
    later = next(
        (index for index in range(at + 1, len(words)) if is_program(words[index]) or is_unknown(words[index])), None
    )
    if later is None:
        return _other(words, places, at)
    names_vllm = words[later].rpartition("/")[2] == "vllm"
    if depth < DEPTH:
        found = _vllm(words[later:], places[later:], env, own, depth + 1, budget)
        if found is None and not names_vllm:
            return None
        names_vllm = names_vllm or isinstance(found, _Found)
    return UnreadableCommand(
        f"`xargs` starts {quoted(words[later])} with arguments that are not known", places[later], names_vllm
    )


def _rest(words: list[str], places: list[str], own: dict[str, str | None], at: int, *, serve: bool = True) -> _Found:
    return _Found(words[at:], places[at:], own, serve, [])


def _past_env(words: list[str], at: int, own: dict[str, str | None]) -> int:
    """The position after `env`'s own words; the variables it sets are added to `own`."""
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


def _python(
    words: list[str], places: list[str], own: dict[str, str | None], at: int, depth: int
) -> _Found | UnreadableCommand | None:
    start = at
    at += 1
    while at < len(words):
        word = words[at]
        if word in PYTHON_VALUES:
            at += 2
            continue
        if word.startswith("-m"):
            named = at + (word == "-m")
            if named == len(words):
                return None
            module = words[named] if word == "-m" else word[2:]
            at = named + 1
            if module in SERVERS:
                return _rest(words, places, own, at, serve=False)
            if module in CLIS and words[at : at + 1] == ["serve"]:
                return _rest(words, places, own, at + 1)
            if is_unknown(words[named]) or (module in CLIS and at < len(words) and is_unknown(words[at])):
                why = f"the module or command that {quoted(words[start])} runs is not known"
                return UnreadableCommand(why, places[named])
            return None if module in CLIS else _other(words, places, named)
        if word.startswith("-c"):
            code = at + (word == "-c")
            text = "".join(words[code : code + 1]) if word == "-c" else word[2:]
            is_open = is_unknown(word) or any(type(each) is Unknown for each in words[code : code + 1])
            if "vllm" not in text and not is_open:
                return None
            why = f"{quoted(words[start])} runs code that is not read"
            return UnreadableCommand(why, places[min(code, len(words) - 1)])
        if word == "-":
            return UnreadableCommand(f"{quoted(words[start])} reads its program from standard input", places[at])
        if not word.startswith("-"):
            return _python_file(words, places, own, at)
        at += 1
    return (
        UnreadableCommand(f"{quoted(words[start])} reads its program from standard input", places[start])
        if depth and start + 1 == len(words)
        else None
    )


def _python_file(
    words: list[str], places: list[str], own: dict[str, str | None], at: int
) -> _Found | UnreadableCommand | None:
    word = words[at]
    if word.rpartition("/")[2] == "vllm":
        if words[at + 1 : at + 2] == ["serve"]:
            return _rest(words, places, own, at + 2)
        if at + 1 >= len(words) or not is_unknown(words[at + 1]):
            return None
    path = word.removesuffix(".py").replace("/", ".") if word.endswith(".py") else ""
    if any(path.endswith(module) for module in SERVERS):
        return _rest(words, places, own, at + 1, serve=False)
    return UnreadableCommand(f"the file {quoted(word)} is a Python program that is not read", places[at])


def _shell(
    words: list[str],
    places: list[str],
    env: Variables,
    own: dict[str, str | None],
    at: int,
    depth: int,
    budget: ExpansionBudget,
) -> _Found | UnreadableCommand | None:
    """The script of `sh -c`, with the words after it as its arguments.

    A script in a file may start the program that it is given.
    """
    start = at
    at += 1
    while at < len(words) and words[at][:1] in {"-", "+"}:
        word = words[at]
        at += 1
        if not word.startswith("--") and "c" in word:
            while at < len(words) and words[at][:1] in {"-", "+"}:
                at += 1
            if at == len(words):
                return None
            if depth == DEPTH:
                why = f"{quoted(words[start])} is nested in more than the {DEPTH} shells that are read"
                return UnreadableCommand(why, places[start], names_vllm=STARTS_VLLM.search(words[at]) is not None)
            found = _in_script(split(words[at], env, words[at + 1 :], budget), places[at], env, depth, budget)
            return _with_outer(found, own, budget)
        if word in {"-o", "+o", "-O", "--rcfile", "--init-file"} or (word.endswith("o") and not word.startswith("--")):
            at += 1
    if at >= len(words):
        return (
            UnreadableCommand(f"{quoted(words[start])} reads its commands from standard input", places[start])
            if depth
            else None
        )
    if is_unknown(words[at]):
        return UnreadableCommand(f"the value of {quoted(words[at])}, which names a script, is not known", places[at])
    later = next((index for index in range(at + 1, len(words)) if is_program(words[index])), None)
    if later is None or depth == DEPTH:
        return _file(words, places, at)
    return _vllm(words[later:], places[later:], env, own, depth + 1, budget)


def _in_script(
    commands: list[Command], place: str, env: Variables, depth: int, budget: ExpansionBudget
) -> _Found | UnreadableCommand | None:
    """The first command of a script that starts vLLM; if there is none, the first that cannot be read."""
    started: list[_Found] = []
    unread: UnreadableCommand | None = None
    for command in commands:
        found = _vllm(command.words, [place] * len(command.words), env, command.env, depth + 1, budget)
        if isinstance(found, _Found):
            started.append(found)
        elif found is not None and (unread is None or (found.names_vllm and not unread.names_vllm)):
            unread = found
    if len(started) > 1:
        started[0].warnings.append(f"the script starts vLLM {len(started)} times; the first is read")
    return started[0] if started else unread


def _offline(words: list[str], places: list[str]) -> UnreadableCommand | None:
    """A command of vLLM that starts an engine without a server, also after other programs."""
    if not words or words[0].rpartition("/")[2] in SEARCHING:
        return None
    for index, (word, after) in enumerate(pairwise(words)):
        command = ""
        if after in OFFLINE_MODULES and word == "-m":
            command = after
        elif (word.rpartition("/")[2] == "vllm" or word in CLIS) and after == "run-batch":
            command = "vllm run-batch"
        elif (word.rpartition("/")[2] == "vllm" or word in CLIS) and after == "bench":
            bench = words[index + 2 : index + 3]
            command = f"vllm bench {bench[0]}" if bench and bench != ["serve"] else ""
        if command:
            why = f"{quoted(command)} starts an engine without a server"
            return UnreadableCommand(why, places[index + 1], names_vllm=True, remedy=ONLY_SERVERS)
    return None


def _is_model(words: list[str]) -> bool:
    """Whether words without a program before them begin with a model.

    A model is a repository, a folder, or a name with a capital or a digit before flags.
    """
    if (
        not words
        or words[0].endswith((".sh", ".py"))
        or "/bin/" in words[0]
        or " " in words[0]
        or (len(words) > 1 and not words[1].startswith("-"))
    ):
        return False
    return "/" in words[0] or MODEL.search(words[0]) is not None or type(words[0]) is Unknown
