"""Programs that start no other program, by their names and their arguments: an allowlist.

In an image of vLLM, any other program may start vLLM, however its arguments refer to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.builtin_tables import DECLARATIONS, TRAP_COMMANDS
from policy.intake.command.certain_scripts import CLOSING_WORDS
from policy.intake.command.programs import (
    FIND,
    KSERVE_CHECK,
    OTHER_SCRIPTS,
    PROGRAM_ACTIONS,
    PROGRAMS,
    PYTHON,
    RENDERERS,
    SHELLS,
    TEXT_PROGRAMS,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

BUILTINS: Final = frozenset(
    {
        *CLOSING_WORDS,
        *DECLARATIONS,
        *("((", ")", ":", "break", "cd", "continue", "dirs", "esac", "exit", "getopts", "history", "jobs", "let"),
        *("popd", "pushd", "pwd", "read", "return", "set", "shift", "shopt", "times", "type", "ulimit", "umask"),
        *("unset", "wait"),
    }
)
"""Commands of a shell itself that run no command among their arguments."""
TOOLS: Final = frozenset(
    {
        *("arch", "base32", "base64", "basename", "chgrp", "chmod", "chown", "cksum", "clear", "cmp", "comm", "cp"),
        *("csplit", "curl", "cut", "date", "df", "diff", "dig", "dir", "dirname", "du", "expand", "expr", "factor"),
        *("false", "file", "fmt", "fold", "free", "getent", "groups", "gunzip", "gzip", "head", "host", "hostid"),
        *("hostname", "id", "ifconfig", "join", "jq", "link", "ln", "logname", "ls", "lscpu", "lsmod", "lspci"),
        *("md5sum", "mkdir", "mkfifo", "mktemp", "mv", "netstat", "nl", "nproc", "nslookup", "numfmt", "od", "paste"),
        *("pathchk", "ping", "printenv", "ps", "readlink", "realpath", "rm", "rmdir", "seq", "sha1sum", "sha256sum"),
        *("sha512sum", "shred", "shuf", "sleep", "sort", "ss", "stat", "stty", "sum", "sync", "tac", "tail", "tee"),
        *("touch", "tr", "true", "truncate", "tsort", "tty", "uname", "unexpand", "uniq", "unlink", "unzip", "uptime"),
        *("users", "vdir", "wc", "wget", "whereis", "which", "who", "whoami", "xz", "yes", "zcat", "zstd"),
        *("amd-smi", "npu-smi", "nvidia-smi", "rocm-smi"),
        *("aws", "gsutil", "hf", "huggingface-cli", "modelscope", "pip", "pip3"),
        *("aiperf", "evalscope", "genai-perf", "guidellm", "lm-eval", "lm_eval"),
    }
)
"""Other programs: of the system, for devices, for files and models, and clients that measure a server."""
READ_PROGRAMS: Final = frozenset({*SHELLS, *PROGRAMS, *OTHER_SCRIPTS, "eval", "xargs"})
"""Programs whose scripts or commands have been read already, or whose file is known."""
TRAP: Final = "trap"
SIMPLE_COMMAND: Final = re.compile(r"[\w ./%-]*+")
"""Matches a single command without variables."""
RAY: Final = "ray"
RAY_COMMANDS: Final = frozenset({"get", "health-check", "list", "memory", "start", "status", "stop", "summary"})
"""The subcommands of Ray that start no other program."""
MODULES: Final = RENDERERS | {"http.server", "json.tool", "pip", "site", "sysconfig", "venv"}
"""Modules that start no other program."""
PRINT_OPTIONS: Final = frozenset({"-V", "-VV", "--version", "-h", "--help"})
"""Options with which Python only prints something."""
CALCULATION: Final = re.compile(r"\$\(\([\w\s+*/%-]*+\)\)|\$\([A-Z_][A-Z0-9_]*+\)")
"""Matches a calculation, or a reference of Kubernetes to a variable, such as one that a controller sets."""
PLAIN_SUBSTITUTION: Final = re.compile(r"[$<]\(([^()'\"`;&$<>\\\n]*+)\)")
"""Matches a substitution with a pipeline of commands without quotes, variables and redirections."""
SUBSTITUTION: Final = re.compile(r"[$<>]\(|`")
"""Matches the beginning of any substitution."""


def is_known_program(words: Sequence[str], at: int) -> bool:
    """Whether the program at a position starts no other one, or its own script or command has been read."""
    name = words[at].rpartition("/")[2]
    arguments = words[at + 1 :]
    if name == TRAP:
        return not arguments or _is_known_trap(arguments[0])
    if name == RAY:
        return bool(arguments) and arguments[0] in RAY_COMMANDS
    if name == FIND:
        return PROGRAM_ACTIONS.isdisjoint(arguments)
    if PYTHON.fullmatch(name):
        return _is_known_python(arguments)
    return name in BUILTINS or name in TOOLS or name in TEXT_PROGRAMS or name in READ_PROGRAMS


def has_known_substitutions(words: Sequence[str]) -> bool:
    """Whether every substitution of a command within these words runs only programs that start no other one."""
    return not any(SUBSTITUTION.search(_without_known(word)) for word in words if "(" in word or "`" in word)


def _without_known(word: str) -> str:
    """A word without calculations and references, and without substitutions of known programs."""
    return PLAIN_SUBSTITUTION.sub(
        lambda found: "" if _is_known_pipeline(found[1]) else found[0], CALCULATION.sub("", word)
    )


def _is_known_pipeline(text: str) -> bool:
    commands = [part.split() for part in text.split("|")]
    return all(words and is_known_program(words, 0) for words in commands)


def _is_known_trap(text: str) -> bool:
    return SIMPLE_COMMAND.fullmatch(text) is not None and (text.split() or ["-"])[0] in TRAP_COMMANDS


def _is_known_python(arguments: Sequence[str]) -> bool:
    if not arguments or arguments[0] in PRINT_OPTIONS or arguments[0].endswith(KSERVE_CHECK):
        return True
    return arguments[0] == "-m" and len(arguments) > 1 and arguments[1] in MODULES
