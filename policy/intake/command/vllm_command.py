"""What a command starts, from the word that names vLLM or another program on.

Not here: the programs that may come before that word (`launcher`, `python_command`).
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.container_programs import container_run, contains_vllm, passed_image
from policy.intake.command.programs import (
    CLIS,
    LLM_BUILDERS,
    OFFLINE_MODULES,
    OTHER_SCRIPTS,
    PROGRAMS,
    PYTHON,
    SERVE,
    SETTINGS_NAME,
    SHELL_SCRIPT,
    STARTS_VLLM,
    SUBCOMMANDS,
    TEXT_PROGRAMS,
    interpreted_code,
    interpreted_file,
    is_interpreter,
    is_script_file,
    is_unknown,
    mentions_vllm,
    passes_server,
)
from policy.intake.command.words import Pattern, Unknown
from policy.intake.command_line import Installation  # noqa: TC001  # msgspec reads the annotations
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from policy.intake.command.expansion import ExpansionBudget

CAPITAL_OR_DIGIT: Final = re.compile(r"[A-Z0-9]")
REMEDY: Final = "so it is not known whether it starts vLLM; write `vllm serve MODEL …` directly as the command"
NO_START_REMEDY: Final = "so nothing starts it; remove what comes before"
OPTION_REMEDY: Final = "so nothing starts it; remove the option"
ORDER_REMEDY: Final = "so nothing starts it; write the option before the others, or remove it"
NO_START_REMEDIES: Final = frozenset({NO_START_REMEDY, OPTION_REMEDY, ORDER_REMEDY})
"""The remedies of commands that certainly start nothing."""
SERVICE_REMEDY: Final = "write its `llm_configs` in a RayService"
DEPLOYMENT_REMEDY: Final = "and its command and variables are not read; send its arguments as a deployment"
SNAPSHOT_REMEDY: Final = "which are not read; send `vllm serve MODEL …` with the flags that it was created with"
SERVERS_ONLY_REMEDY: Final = "but only servers can be decided; send `vllm serve MODEL …` with the same flags"


class ServerCommand(Struct, frozen=True, gc=False):
    """A vLLM server: its arguments with their places, and the variables that the command sets.

    ``serve``: whether the words follow `vllm serve`, which takes a model; vLLM's modules take only flags.
    ``installation`` is the vLLM that runs instead of the image's, if any. ``programs`` has the programs of the command
    as written, outermost first, and ``folders`` the working folders that it changes to. ``is_dynamo``: whether Dynamo's
    worker gets the arguments, and passes them on to vLLM; ``is_huggingface_server``: whether KServe's server does.
    ``environment`` identifies the environment of Python that its scripts activate, empty if they activate none.
    ``set_at`` has the place of the word that sets or clears each variable, and ``removed`` the variables that it
    certainly does not have. ``module`` is the module of vLLM if `python -m` starts it. ``unreached`` says why another
    server of its script, with different arguments or variables, never runs; empty if there is none. ``folder_doubts``
    are the doubts that hold if the command starts in the folder of its context, and ``folder_installation`` is the vLLM
    that may run then because commands change its files.
    """

    words: list[str]
    places: list[str]
    env: dict[str, str | None]
    serve: bool
    warnings: list[str]
    doubts: list[str] = []
    installation: Installation | None = None
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    is_dynamo: bool = False
    is_huggingface_server: bool = False
    environment: object = ""
    set_at: dict[str, str] = {}
    module: str = ""
    unreached: str = ""
    folder_doubts: list[str] = []
    folder_installation: Installation | None = None
    removed: frozenset[str] = frozenset()


class UnreadableCommand(Struct, frozen=True, gc=False):
    """A command that may or may not start vLLM; ``why`` says why that is not known.

    ``names_vllm``: whether it names vLLM's server, so that it may start it even in an image without vLLM.
    ``is_any_program``: whether it is only a program that may start others.
    """

    why: str
    place: str
    names_vllm: bool = False
    remedy: str = REMEDY
    is_any_program: bool = False


def without_variables(server: ServerCommand, removed: Collection[str], budget: ExpansionBudget) -> ServerCommand:
    """The server of a command that certainly does not have variables, except for those that its own words set.

    Raises:
        ShellSyntaxError: more variables are copied than the ``budget`` allows.
    """
    budget.copy(len(removed))
    return replace(server, removed=server.removed.union(name for name in removed if name not in server.set_at))


def server_command(
    words: list[str], places: list[str], own: dict[str, str | None], at: int, *, serve: bool = True
) -> ServerCommand:
    """The server with the words from ``at`` on as its arguments; ``own`` has the variables that the command sets."""
    return ServerCommand(words[at:], places[at:], own, serve, [], [])


def subcommand(
    words: list[str], places: list[str], own: dict[str, str | None], at: int
) -> ServerCommand | UnreadableCommand | None:
    """The server that `vllm` starts with the subcommand at ``at``; None if that is not `serve`."""
    if at == len(words):
        return None
    command = words[at]
    if command == "serve":
        return server_command(words, places, own, at + 1)
    if is_unknown(command) or type(command) is Pattern:
        why = f"the value of {quoted(command)}, which names a command of `vllm`, is not known"
        return UnreadableCommand(why, places[at], names_vllm=True)
    if command in SUBCOMMANDS:
        return other_program(words, places, at)
    is_named = "serve" in words[at + 1 :] or STARTS_VLLM.search(" ".join(words[at:])) is not None
    if not is_named and not passes_server(["vllm", *words[at:]]):
        return None
    why = f"{quoted(command)} is not a command of `vllm`, and vLLM's server is among the arguments after it"
    return UnreadableCommand(why, places[at], names_vllm=True)


def may_expand_to_vllm(words: list[str], at: int) -> bool:
    """Whether a shell may expand a word to `vllm`: a glob or braces before `serve`."""
    has_braces = type(words[at]) is Unknown and "{" in words[at] and "$" not in words[at]
    is_expanded = has_braces or type(words[at]) is Pattern
    return is_expanded and "serve" in words[at + 1 :]


def unknown_option(words: list[str], places: list[str], at: int, option: str) -> UnreadableCommand:
    """Why what the program at a position starts is not known: one of its options may be any other option."""
    why = f"the option {quoted(option)} of {quoted(words[at])} is not known"
    return UnreadableCommand(why, places[words.index(option, at)], mentions_vllm(" ".join(words[at:])))


def refused_program(
    words: list[str], places: list[str], at: int, why: str, remedy: str = NO_START_REMEDY
) -> UnreadableCommand | None:
    """Why the program at a position does not start the server that its arguments name; None if they name none."""
    rest = words[at + 1 :]
    if not passes_server(rest) and STARTS_VLLM.search(" ".join(rest)) is None:
        return None
    return UnreadableCommand(why, places[at], names_vllm=True, remedy=remedy)


def sourced_file(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """A file that is run or sourced; by its name, as in `. activate`, it may be one that only sets variables.

    Standard input may contain anything. There is no word for the file of `source <(…)`.
    """
    if at >= len(words):
        why = f"{quoted(words[at - 1])} runs a script that is not read"
        return UnreadableCommand(why, places[at - 1])
    is_settings = SETTINGS_NAME.fullmatch(words[at].rpartition("/")[2]) is not None
    is_input = words[at].startswith(("/dev/", "/proc/"))
    return None if is_settings and not is_input else script_file(words, places, at)


def script_file(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """A script file, which may start anything."""
    if words[at].rpartition("/")[2] in OTHER_SCRIPTS:
        return None
    return UnreadableCommand(f"the file {quoted(words[at])} is a script that is not read", places[at])


def other_program(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """Another program, which may start vLLM if it is a script, or its arguments name vLLM's server or image."""
    word = words[at]
    program = word.rpartition("/")[2] if "/" in word else word
    if program in TEXT_PROGRAMS:
        return None
    if words[at + 1 :] and (found := other_arguments(words, places, at)) is not None:
        return found
    # a script may consist of commands of one letter, for which each call counts; none of them names a script
    return script_file(words, places, at) if word[1:] and is_script_file(word) else None


def other_arguments(words: list[str], places: list[str], at: int) -> UnreadableCommand | None:
    """The arguments of another program, if they name vLLM's server, an image of vLLM, or a file of an interpreter."""
    arguments = words[at + 1 :]
    program = words[at].rpartition("/")[2]
    is_code = is_interpreter(program)
    code = interpreted_code(program, arguments) if is_code else None
    if code is not None:
        why = f"{quoted(program)} runs code that is not read"
        return UnreadableCommand(why, places[at], names_vllm="vllm" in code and SERVE.search(code) is not None)
    run = container_run(words, at)
    if run is not None and not run.starts:
        return None
    image = run.words[0] if run is not None and run.words else None
    if any(map(LLM_BUILDERS.fullmatch, arguments)):
        why = f"{quoted(program)} starts an application of Ray Serve's that runs models with vLLM, which is not read"
        return UnreadableCommand(why, places[at], names_vllm=True, remedy=SERVICE_REMEDY)
    names_server = STARTS_VLLM.search(" ".join(arguments)) is not None or passes_server(arguments)
    if image is not None and (names_server or contains_vllm(image)):
        why = f"the script starts a container of the image {quoted(image)}"
        return UnreadableCommand(why, places[at], names_vllm=True, remedy=DEPLOYMENT_REMEDY)
    if image is None and (image := passed_image(arguments)) is not None:
        why = f"{quoted(program)} may start a container of the image {quoted(image)}"
        return UnreadableCommand(why, places[at], names_vllm=True, remedy=DEPLOYMENT_REMEDY)
    if not names_server:
        file = interpreted_file(program, arguments) if is_code else None
        if file is None:
            return None
        return UnreadableCommand(f"{quoted(program)} runs the file {quoted(file)}, which is not read", places[at])
    return UnreadableCommand(
        f"{quoted(program)} has vLLM's server among its arguments and may start it", places[at], names_vllm=True
    )


def offline_engine(words: list[str], places: list[str]) -> UnreadableCommand | None:
    """A vLLM command, possibly after other programs, that starts an engine but no server with its own flags."""
    if not words[1:] or words[0].rpartition("/")[2] in TEXT_PROGRAMS:
        return None
    for index, (word, after) in enumerate(pairwise(words)):
        command = ""
        if after in OFFLINE_MODULES and word == "-m":
            command = after
        elif (word.rpartition("/")[2] in PROGRAMS or word in CLIS) and after == "run-batch":
            command = "vllm run-batch"
        elif (word.rpartition("/")[2] in PROGRAMS or word in CLIS) and after == "bench":
            bench = words[index + 2 : index + 3]
            command = f"vllm bench {bench[0]}" if bench and bench != ["serve"] else ""
        elif (word.rpartition("/")[2] in PROGRAMS or word in CLIS) and after == "snapshot":
            action = next(iter(words[index + 2 : index + 3]), "")
            if action == "restore" or is_unknown(action):
                why = f"{quoted(f'vllm snapshot {action}')} may start a server with the flags of a snapshot"
                return UnreadableCommand(why, places[index + 1], names_vllm=True, remedy=SNAPSHOT_REMEDY)
            command = "vllm snapshot create" if action == "create" else ""
        if command:
            why = f"{quoted(command)} starts an engine without a server"
            return UnreadableCommand(why, places[index + 1], names_vllm=True, remedy=SERVERS_ONLY_REMEDY)
    return None


def unread_script(name: str) -> str:
    """The doubt about a server that a script starts with its arguments."""
    return f"the script {quoted(name)} is not read and may change what it starts"


def doubt_variables(found: ServerCommand, why: str) -> None:
    """Add a doubt about the variables of a command, and its warning, unless it already has this doubt."""
    if why not in found.doubts:
        found.doubts.append(why)
        found.warnings.append(f"{why}; variables are not certain")


def only_shows_help(found: ServerCommand) -> bool:
    """Whether vLLM certainly only prints its help."""
    for word in found.words:
        if word == "--" or type(word) is not str:
            return False
        if word in {"--help", "-h"}:
            return True
    return False


def begins_with_model(words: list[str]) -> bool:
    """Whether a command without a program begins with a model.

    A model is a repository, a folder, or a name with a capital or a digit before flags.
    """
    if (
        not words
        or words[0].endswith(".py")
        or SHELL_SCRIPT.fullmatch(words[0]) is not None
        or PYTHON.fullmatch(words[0])
        or "/bin/" in words[0]
        or " " in words[0]
        or (len(words) > 1 and not words[1].startswith("-"))
    ):
        return False
    return "/" in words[0] or CAPITAL_OR_DIGIT.search(words[0]) is not None or type(words[0]) is Unknown
