"""The names of vLLM's server in a command, and of the programs that may come before it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.launcher_tables import LAUNCHERS, UNREAD_LAUNCHERS
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SERVERS: Final = frozenset(
    {
        "vllm.entrypoints.openai.api_server",
        "vllm.entrypoints.api_server",
        "vllm.entrypoints.launchers.api_server.entry",
        "vllm.entrypoints.grpc_server",
        "vllm.entrypoints.launchers.grpc_server",
        "dynamo.vllm",
        "dynamo.vllm.main",
        "dynamo.vllm.unified_main",
    }
)
"""Modules that take vLLM's own arguments."""

PROGRAMS: Final = frozenset({"vllm", "vllm-omni"})
"""The names of the program `vllm`; vLLM-Omni replaces it, and installs it under its own name too."""

CLIS: Final = frozenset(
    {
        "vllm",
        "vllm.entrypoints.cli",
        "vllm.entrypoints.cli.main",
        "vllm.scripts",
        "vllm_omni.entrypoints.cli.main",
    }
)
"""Modules that implement the program `vllm` in some release, or are taken for one that does."""

VLLM_PREFIXES: Final = ("vllm.", "vllm_omni.", "dynamo.vllm.")
"""The beginnings of the names of modules that may start a server, such as `vllm.snapshot.server`."""
RENDERERS: Final = frozenset({"vllm.entrypoints.launchers.render.entry"})
"""Modules that start a server without an engine."""
MODULES_WITHOUT_ENGINE: Final = RENDERERS | {
    "vllm.benchmarks.datasets.create_txt_slices_dataset",
    "vllm.benchmarks.serve",
    "vllm.benchmarks.sweep.plot",
    "vllm.benchmarks.sweep.plot_pareto",
    "vllm.collect_env",
    "vllm.distributed.kv_transfer.kv_connector.v1.hf3fs.hf3fs_metadata_server",
    "vllm.distributed.kv_transfer.kv_connector.v1.moriio.moriio_heartbeat",
}
"""Modules of vLLM that start no engine."""

SUBCOMMANDS: Final = frozenset({"serve", "chat", "complete", "launch", "bench", "collect-env", "run-batch", "snapshot"})
"""The subcommands of the program `vllm`."""

PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*")
SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
TEXT_PROGRAMS: Final = frozenset(
    {
        *("cat", "echo", "printf", "logger", "grep", "egrep", "fgrep", "test", "[", "[["),
        *("pgrep", "pkill", "pidof", "kill", "killall"),
    }
)
"""Programs that print or search text and never run it."""

LISTED_PROCESSES: Final = re.compile(
    r"\$\(\s{0,9}(?:pgrep|pidof|ps)\b[^()`;&|<>\n]*+"
    r"(?:\|\s{0,9}(?:[ef]?grep|awk|head|tail|cut|tr)\b[^()`;&|<>\n]*+)*+\)"
)
"""Matches a substitution with the numbers of running processes, in which vLLM's command is only a text."""

RENAMING_COMMANDS: Final = frozenset({"alias", "hash"})
"""Shell commands that give a program another name."""

SYSTEM_MANAGERS: Final = frozenset(
    {
        *("apt", "apt-get", "aptitude", "dpkg", "dnf", "microdnf", "tdnf", "yum", "rpm", "zypper", "apk", "pacman"),
        *("brew", "snap"),
    }
)
"""Package managers of operating systems: none has vLLM, but packages may be named like a shell or installer."""
CONDA: Final = frozenset({"conda", "mamba", "micromamba"})
RUNNERS: Final = CONDA | {"uv", "uvx", "pipx", "poetry", "pixi"}
"""Programs that may run vLLM from a separate environment."""

COPY_PROGRAMS: Final = frozenset({"cat", "cp", "dd", "install", "link", "ln", "mv", "rsync", "scp", "tar", "tee"})
"""Programs that may give an executable another name, or write it into a file of another name."""

INTERPRETERS: Final = {
    **dict.fromkeys(("perl", "ruby"), ("-e", "-E")),
    **dict.fromkeys(("node", "nodejs", "bun"), ("-e", "--eval", "-p", "--print")),
    **dict.fromkeys(("lua", "luajit"), ("-e",)),
    "php": ("-r",),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "tclsh", "expect"), ("",)),
}
"""Other interpreters, with the options before code; an empty one means that any word may be code."""
CODE_FIRST_INTERPRETERS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
"""The interpreters whose first argument is code, unless `-f` or `--file` names a file of code."""
VERSION_CHARACTERS: Final = "0123456789."
"""The characters of a version after the name of an interpreter."""
FIND: Final = "find"
PROGRAM_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
"""The actions of `find` that run a program."""
STARTS_PROGRAMS: Final = re.compile(
    r"\bexec[lv]|\bexec\b|\bsystem\b|spawn|popen|subprocess|child_process|\bfork\b|\bqx\b", re.IGNORECASE
)
"""Matches code that starts other programs, whichever interpreter runs it."""
POSSIBLE_START: Final = re.compile(r"\bopen|getline|[`|]", re.IGNORECASE)
"""Matches code that may start other programs in some of these interpreters, and has other uses."""

KSERVE_CHECK: Final = "huggingfaceserver/health_check.py"
"""The program in KServe's image that its runtimes run as probes; it asks Ray and the server."""
LLM_BUILDERS: Final = re.compile(r"ray\.(?:serve\.llm|llm\._internal\.serve)(?:\.\w+)*[:.]build_\w+", re.ASCII)
"""Matches the import paths of Ray's own applications that start vLLM from an LLM config."""

OFFLINE_MODULES: Final = frozenset({"vllm.entrypoints.openai.run_batch", "vllm.entrypoints.launchers.run_batch"})
"""Modules that start an engine without a server."""

SHELL_SCRIPT: Final = re.compile(r".*\.(?:ba|z|k|da|a)?sh", re.IGNORECASE | re.DOTALL)
VLLM_NAME: Final = re.compile(r"(?<![a-z0-9])vllm(?![a-z0-9])", re.IGNORECASE)
"""Matches the name of a program that is named after vLLM."""
PROGRAM_FOLDERS: Final = frozenset({"bin", "sbin"})
"""The folders of programs; a file that is started from another one was made for its image."""
SETTINGS_NAME: Final = re.compile(
    r"(?:.*[._-])?(?:activate|profile|environment|bashrc|zshrc|envs?|setvars|vars|rc)", re.IGNORECASE | re.DOTALL
)
"""Matches the name of a file that a shell reads for the variables that it sets."""
OTHER_SCRIPTS: Final = frozenset({"multi-node-serving.sh"})
"""Scripts in vLLM's images that do not start the server: this one starts Ray."""

PROCESS_MANAGERS: Final = frozenset(
    {
        *("supervisord", "s6-svscan", "runsvdir", "circusd", "monit", "process-compose", "pm2", "pm2-runtime"),
        *("honcho", "foreman", "overmind", "hivemind", "goreman"),
    }
)
"""Programs that start what a file lists."""
TASK_RUNNERS: Final = frozenset({"make", "gmake", "just", "task", "rake", "npm", "yarn", "pnpm", "ansible-playbook"})
"""Programs that run one task of a file. In a script, such a task mostly prepares something and ends."""

STARTS_VLLM: Final = re.compile(
    r"""(?<![\w.-])vllm(?:-omni)?["']?[^\S\n]{1,64}(?:\\\n[^\S\n]{0,64})?["']?(?:serve(?![\w.-])|\$)"""
    r"""|vllm\.entrypoints\.|vllm\.scripts(?!\w)|dynamo\.vllm(?!\w)"""
)
"""Matches a text that may start vLLM's server, whichever program interprets it."""
QUOTES: Final = re.compile(r"""['"]|\\(?!\n)""")
"""Matches quotes and escapes of a script, which may be within a name: `v""llm`."""
VLLM: Final = re.compile(r"(?<![\w.-])vllm(?![\w-])")
SERVE: Final = re.compile(r"(?<![\w./-])serve(?![\w./-])")
SERVER_SUFFIX: Final = re.compile(rf"{SERVE.pattern}|\.entrypoints\.")
"""Matches what follows vLLM's name in a command of its server, even where something else has the name."""
FILE_NAME: Final = re.compile(r"[\w.+-]+")
EXTRAS: Final = r"(?:\s{0,9}\[[\w\s,.-]{0,100}\])?"
"""Matches the optional extras of a requirement."""
PACKAGE: Final = re.compile(rf"vllm(?:\.git)?{EXTRAS}(?:\s{{0,9}}[@=<>!~;].{{0,1000}})?", re.DOTALL)
"""Matches a requirement of the package vLLM: `vllm[audio]`, `vllm==0.23.0`, `vllm@latest`."""
PLACEHOLDER: Final = re.compile(r"\$[({]|\{\{")
"""Matches an unexpanded variable, or a placeholder of a template."""


def is_program(word: str) -> bool:
    """Whether a word names vLLM, or a program that may start it."""
    program = word.rpartition("/")[2]
    is_launcher = program in LAUNCHERS and program not in UNREAD_LAUNCHERS
    is_named = program in PROGRAMS or program in {"env", "eval", "xargs"} or program in SHELLS or is_launcher
    return is_named or program.endswith(".sh") or PYTHON.fullmatch(program) is not None


def is_script_file(word: str) -> bool:
    """Whether a program is a file that may start anything: a script by its name, or not from a folder of programs."""
    folder, _, name = word.rpartition("/")
    is_elsewhere = "/" in word and folder.rpartition("/")[2] not in PROGRAM_FOLDERS
    return is_elsewhere or SHELL_SCRIPT.fullmatch(name) is not None or VLLM_NAME.search(name) is not None


def interpreted_code(program: str, arguments: Sequence[str]) -> str | None:
    """Code in the arguments of an interpreter that may start vLLM; None if there is none.

    The code starts other programs, or it names vLLM and may start them.
    """
    options = INTERPRETERS.get(program.rstrip(VERSION_CHARACTERS))
    if options is None or not ("" in options or any(_is_code_option(word, options) for word in arguments)):
        return None
    code = " ".join(arguments)
    is_named = "vllm" in QUOTES.sub("", code).lower()
    return code if STARTS_PROGRAMS.search(code) or (is_named and POSSIBLE_START.search(code)) else None


def is_interpreter(program: str) -> bool:
    """Whether a program runs code of its arguments or of files: an interpreter, or `find` with what it finds."""
    return program == FIND or program.rstrip(VERSION_CHARACTERS) in INTERPRETERS


def interpreted_file(program: str, arguments: Sequence[str]) -> str | None:
    """The file that an interpreter runs, `{}` for the files that `find` finds; None if there is none."""
    if program == FIND:
        return (
            "{}"
            if any(_runs_found(arguments, at) for at, word in enumerate(arguments) if word in PROGRAM_ACTIONS)
            else None
        )
    name = program.rstrip(VERSION_CHARACTERS)
    if name in CODE_FIRST_INTERPRETERS:
        given = (
            (word.removeprefix("-f").removeprefix("--file").removeprefix("=") or "".join(arguments[at + 1 : at + 2]))
            for at, word in enumerate(arguments)
            if word.startswith(("-f", "--file"))
        )
        return next(filter(None, given), None)
    has_code = any(_is_code_option(word, INTERPRETERS[name]) for word in arguments)
    return None if has_code else next((word for word in arguments if not word.startswith("-")), None)


def _runs_found(arguments: Sequence[str], at: int) -> bool:
    """Whether the action of `find` at a position runs the files that it finds, or passes them to an interpreter."""
    program, *others = (word.rpartition("/")[2] for word in arguments[at + 1 : at + 3] or [""])
    is_shell = (
        program in SHELLS or program.rstrip(VERSION_CHARACTERS) in INTERPRETERS or PYTHON.fullmatch(program) is not None
    )
    return program == "{}" or (is_shell and others == ["{}"])


def _is_code_option(word: str, options: Sequence[str]) -> bool:
    """Whether a word is one of the options before code, also among other letters: `-we`."""
    if word.startswith("--"):
        return word.partition("=")[0] in options
    letters = (option[1:] for option in options if option and not option.startswith("--"))
    return word[:1] == "-" and any(letter in word for letter in letters)


def is_package(word: str) -> bool:
    """Whether a word names the package vLLM with a version or extras, as `uvx` starts it: `vllm@0.23.0`."""
    name = word.rpartition("/")[2]
    return any(each != "vllm" and PACKAGE.fullmatch(each) is not None for each in (word, name))


def mentions_vllm(text: str) -> bool:
    """Whether a text names vLLM's server, even with other words in between: `$(which vllm) serve`."""
    if STARTS_VLLM.search(text) is not None:
        return True
    plain = QUOTES.sub("", text)
    return "vllm" in plain.lower() and SERVE.search(plain) is not None


def states_server(texts: Iterable[str], others: Iterable[str] = ()) -> bool:
    """Whether texts have vLLM's name, and they or ``others`` have what follows it in a command of its server.

    They may be apart, as in the script `$(echo $P) serve MODEL` and the value `vllm` of its variable.
    """
    plain = QUOTES.sub("", "\n".join(texts))
    return "vllm" in plain.lower() and any(SERVER_SUFFIX.search(text) is not None for text in (plain, *others))


def server_names(texts: Iterable[str]) -> tuple[bool, bool]:
    """Whether texts have vLLM's name, and whether they have what follows it in a command of its server."""
    plain = QUOTES.sub("", "\n".join(texts))
    return "vllm" in plain.lower(), SERVER_SUFFIX.search(plain) is not None


def starts_server(text: str) -> bool:
    """Whether a text is a command of vLLM's server if a shell runs it, also with quotes within its name."""
    plain = QUOTES.sub("", text) if QUOTES.search(text) is not None else text
    return "vllm" in plain and (STARTS_VLLM.search(plain) is not None or passes_server(plain.split()))


def passes_server(words: Sequence[str]) -> bool:
    """Whether a command has a word `vllm` and later a word `serve`, with other words in between.

    The program may be in a folder or the value of a flag, as in `--exec=/usr/local/bin/vllm`. A word may itself be a
    command line, as in `--args "serve MODEL"`. Another subcommand of `vllm` takes the `serve` after it: `vllm bench
    serve`.
    """
    if not any("vllm" in word for word in words):
        return False
    is_named = is_before_subcommand = False
    for word in words:
        is_here = False
        parts = (word.partition("=")[2] if word.startswith("-") and "=" in word else word).split()
        for index, part in enumerate(parts):
            if part.rpartition("/")[2] in PROGRAMS or part in CLIS:
                is_named = is_here = is_before_subcommand = True
                continue
            if is_named and part == "serve" and (index == 0 or is_here):
                return True
            if is_before_subcommand and part in SUBCOMMANDS:
                is_named = False
            is_before_subcommand = False
    return False


def next_start(words: Sequence[str], start: int) -> int | None:
    """The position of the next program, from ``start`` on.

    A `vllm` counts only before one of its subcommands or an unknown word. Elsewhere it is the value of an option:
    `sudo -u vllm`, `conda run -n vllm`.
    """
    for index in range(start, len(words)):
        is_vllm = words[index].rpartition("/")[2] in PROGRAMS or is_package(words[index])
        if not is_vllm and not is_program(words[index]):
            continue
        following = words[index + 1] if index + 1 < len(words) else ""
        if not is_vllm or following in SUBCOMMANDS or is_unknown(following):
            return index
    return None


def is_unknown(word: str) -> bool:
    """Whether the name of the program or subcommand in a word is unknown; its folder does not matter."""
    is_uncertain = type(word) is Unknown or PLACEHOLDER.search(word) is not None
    return is_uncertain and FILE_NAME.fullmatch(word.rpartition("/")[2]) is None
