"""Find vLLM's own arguments in a Python command: `python -m vllm.entrypoints…`, a file, or code."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import Final

from msgspec.structs import replace

from policy.intake.command.dynamo_arguments import MODULES as DYNAMO_MODULES
from policy.intake.command.huggingface_server import MODEL_PATH, TRANSFORMERS, UNCERTAIN_BACKEND, VLLM, server_words
from policy.intake.command.program_names import is_expansion
from policy.intake.command.programs import (
    CLIS,
    KSERVE_CHECK,
    MODULES_WITHOUT_ENGINE,
    OFFLINE_MODULES,
    PROGRAMS,
    SERVERS,
    STARTS_PROGRAMS,
    STARTS_VLLM,
    SUBCOMMANDS,
    VLLM_PREFIXES,
    is_unknown,
)
from policy.intake.command.python_options import PythonOptions, python_options
from policy.intake.command.vllm_command import (
    ServerCommand,
    UnreadableCommand,
    offline_engine,
    other_arguments,
    refused_program,
    server_command,
    subcommand,
    unknown_option,
)
from policy.intake.command.words import Unknown
from policy.intake.command_line import Installation
from policy.messages import quoted

KSERVE_SERVER: Final = "huggingfaceserver"
MAIN_MODULE: Final = ".__main__"
PACKAGES: Final = ("dynamo.vllm", KSERVE_SERVER)
"""The packages that Python runs by their `__main__`, which may be named too, as a module or as a file."""
PACKAGE_NAME: Final = re.compile(rf"(?:^|(?<=\.))(?:{'|'.join(map(re.escape, PACKAGES))})\Z")
"""Matches such a package, alone or in another one."""
MOVED_MODULE: Final = re.compile(
    r"\.(?=(?:vllm|vllm_omni)\.(?:entrypoints|scripts|snapshot)(?:\.|\Z)|dynamo\.vllm(?:\.(?:unified_)?main)?\Z|huggingfaceserver\Z)"
)
"""Matches what comes before the module of vLLM in a longer path of a module."""
MISSING_FILE_MESSAGE: Final = "Python runs the file {}, which may not exist, and does not search for the program"


def python_command(
    words: list[str], places: list[str], own: dict[str, str | None], at: int, depth: int
) -> ServerCommand | UnreadableCommand | None:
    """The server that the Python at ``at`` starts, or why that is not known; None if it starts another program.

    Without a file, Python reads its program from standard input, which only a script may provide (``depth`` above 0).
    """
    options = python_options(words, at)
    if options.unknown:
        return unknown_option(words, places, at, options.unknown)
    if options.stops:
        return None
    if options.refusal:
        return refused_program(words, places, at, options.refusal)
    found = _python_program(words, places, own, at, options, depth)
    if isinstance(found, ServerCommand):
        found.doubts.extend(options.doubts)
        if options.loads and found.installation is None:
            why = f"the option {quoted(options.loads)} of Python may make another vLLM run"
            found = replace(found, installation=Installation(None, why))
    return found


def _python_program(
    words: list[str], places: list[str], own: dict[str, str | None], start: int, options: PythonOptions, depth: int
) -> ServerCommand | UnreadableCommand | None:
    """The server that the program after Python's options starts."""
    at = options.end
    if at >= len(words):
        is_input = depth and (start + 1 == len(words) or words[-1] == "--")
        why = f"{quoted(words[start])} reads its program from standard input"
        return UnreadableCommand(why, places[start]) if is_input else None
    if options.letter == "m":
        named = at if options.value else at + 1
        if named == len(words):
            return None
        return python_module(words, places, own, start, named, options.value or words[named])
    if options.letter == "c":
        return _python_code(words, places, start, options)
    if words[at] == "-":
        return UnreadableCommand(f"{quoted(words[start])} reads its program from standard input", places[at])
    return python_file(words, places, own, at)


def _python_code(words: list[str], places: list[str], start: int, options: PythonOptions) -> UnreadableCommand | None:
    """Why it is not known whether code starts vLLM; None if it certainly does not."""
    at = options.end
    code = at + (not options.value)
    is_open = is_unknown(words[at]) or any(type(each) is Unknown for each in words[code : code + 1])
    written = options.value or "".join(words[code : code + 1])
    is_harmless = STARTS_PROGRAMS.search(written) is None and not any("vllm" in each for each in words[at:])
    if not is_open and is_harmless:
        return None
    why = f"{quoted(words[start])} runs code that is not read"
    names_vllm = STARTS_VLLM.search(written) is not None
    return UnreadableCommand(why, places[min(code, len(words) - 1)], names_vllm)


def python_module(
    words: list[str], places: list[str], own: dict[str, str | None], start: int, named: int, module: str
) -> ServerCommand | UnreadableCommand | None:
    """The server that a module starts; the word at ``named`` names it, and the program at ``start`` runs it."""
    if PACKAGE_NAME.search(package := module.removesuffix(MAIN_MODULE)) is not None:
        module = package
    if module in SERVERS:
        found = server_command(words, places, own, named + 1, serve=False)
        return replace(found, is_dynamo=True) if module in DYNAMO_MODULES else replace(found, module=module)
    if module in CLIS:
        started = subcommand(words, places, own, named + 1)
        return replace(started, module=module) if isinstance(started, ServerCommand) else started
    if module == KSERVE_SERVER:
        return _kserve_server(words, places, own, named)
    if (moved := MOVED_MODULE.search(module)) is not None:
        return _moved_module(words, places, own, start, named, module[moved.end() :])
    if is_unknown(words[named]):
        return UnreadableCommand(f"the module that {quoted(words[start])} runs is not known", places[named])
    if module.startswith(VLLM_PREFIXES) and module not in MODULES_WITHOUT_ENGINE and module not in OFFLINE_MODULES:
        why = f"the module {quoted(module)} of vLLM may start a server, and its arguments are not read"
        return UnreadableCommand(why, places[named], names_vllm=True)
    return other_arguments(words, places, named)


def _moved_module(
    words: list[str], places: list[str], own: dict[str, str | None], start: int, named: int, module: str
) -> ServerCommand | UnreadableCommand | None:
    """What a module of vLLM starts in a package of any other name, which may be any folder: `dist-packages.vllm`."""
    found = python_module(words, places, own, start, named, module)
    if isinstance(found, ServerCommand):
        cause = f"{quoted(words[named])} names the package of vLLM by its folder, so another vLLM may run"
        found.doubts.append(cause)
        return replace(found, installation=Installation(None, cause))
    read = ["-m", module, *words[named + 1 :]]
    return found or offline_engine(read, [places[named]] * len(read))


def _kserve_server(words: list[str], places: list[str], own: dict[str, str | None], named: int) -> ServerCommand | None:
    """The vLLM that KServe's Hugging Face server runs; None if it uses Transformers instead."""
    found = server_words(words[named + 1 :], places[named + 1 :])
    if found.backend == TRANSFORMERS:
        return None
    default = found.own.get("--model_dir", (places[named], MODEL_PATH))
    place, model = found.own.get("--model_id", default)
    notes = found.notes if found.backend == VLLM else [*found.notes, UNCERTAIN_BACKEND]
    words, places = ["--model", model, *found.words], [place, place, *found.places]
    return ServerCommand(words, places, own, False, notes, is_huggingface_server=True)


def python_file(
    words: list[str], places: list[str], own: dict[str, str | None], at: int
) -> ServerCommand | UnreadableCommand | None:
    """The server that the file at ``at`` starts: `vllm`, a module of vLLM's server, or an unknown program."""
    word = words[at]
    package = _package(word)
    if package == KSERVE_SERVER:
        return _kserve_server(words, places, own, at)
    is_subcommand = "".join(words[at + 1 : at + 2]) in SUBCOMMANDS
    if package and not is_subcommand:
        return replace(server_command(words, places, own, at + 1, serve=False), is_dynamo=True)
    if word.rpartition("/")[2] in PROGRAMS:
        found = subcommand(words, places, own, at + 1)
        if isinstance(found, ServerCommand) and ("/" not in word or is_expansion(word)):
            found.doubts.append(MISSING_FILE_MESSAGE.format(quoted(word)))
        return found
    if word.endswith(KSERVE_CHECK):
        return None
    path = "." + normpath(word).removesuffix(".py").replace("/", ".") if word.endswith(".py") else ""
    for module in SERVERS:
        if path.endswith(f".{module}"):
            found = server_command(words, places, own, at + 1, serve=False)
            return replace(found, is_dynamo=module in DYNAMO_MODULES)
    names_vllm = "vllm/entrypoints/" in word
    return UnreadableCommand(f"the file {quoted(word)} is a Python program that is not read", places[at], names_vllm)


def _package(path: str) -> str:
    """The package whose folder or `__main__.py` is at a path, by the last parts of the path; empty if there is none."""
    text = normpath(path).replace("/", ".")
    found = PACKAGE_NAME.search(text.removesuffix(f"{MAIN_MODULE}.py"))
    return "" if found is None else found.group()
