"""The programs that may come before vLLM in a command, by name."""

from __future__ import annotations

import re
from typing import Final

from policy.intake.command.shell import Unknown

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
"""Modules whose arguments are vLLM's own."""

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
        "busybox",
        "toybox",
        "builtin",
    }
)
"""Programs that start the one named in their arguments, besides shells, Python, `env`, `eval` and `xargs`."""

SEARCHING: Final = frozenset(
    {"echo", "printf", "logger", "grep", "egrep", "fgrep", "pgrep", "pkill", "test", "[", "[["}
)
"""Programs that print or search a text and never run it."""

OFFLINE_MODULES: Final = frozenset({"vllm.entrypoints.openai.run_batch"})
"""Modules that start an engine without a server."""

OTHER_SCRIPTS: Final = frozenset({"multi-node-serving.sh"})
"""Scripts in vLLM's images that start something else: this one starts Ray."""

FILE_NAME: Final = re.compile(r"[\w.+-]+")
PLACEHOLDER: Final = re.compile(r"\$[({]|\{\{")
"""Matches a word with something still to be replaced: a variable that is not set here, or a template."""


def is_program(word: str) -> bool:
    """Whether a word names a program that may come before vLLM, or vLLM itself."""
    program = word.rpartition("/")[2]
    is_named = program in {"vllm", "env", "eval", "xargs"} or program in SHELLS or program in STARTERS
    return is_named or program.endswith(".sh") or PYTHON.fullmatch(program) is not None


def is_unknown(word: str) -> bool:
    """Whether the program or command that a word names is unknown; a folder before its name does not matter."""
    is_open = type(word) is Unknown or PLACEHOLDER.search(word) is not None
    return is_open and FILE_NAME.fullmatch(word.rpartition("/")[2]) is None
