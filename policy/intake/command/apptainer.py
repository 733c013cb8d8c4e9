"""Apptainer and its predecessor Singularity, which start a container from an image or its file: `run`, `exec`.

https://apptainer.org/docs/user/main/cli.html (read at 1.4). `run` starts the entry point of the image, `exec` a command
in it. The container gets the variables of the host, unless `--cleanenv` is set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS: Final = frozenset({"apptainer", "singularity"})
COMMANDS: Final = frozenset({"run", "exec"})
VALUES: Final[dict[str, str]] = {
    "--bind": "-v",
    "-B": "-v",
    "--mount": "--mount",
    "--env": "-e",
    "--env-file": "--env-file",
    "--pwd": "-w",
    "--cwd": "-w",
    "--home": "",
    "-H": "",
    "--overlay": "",
    "-o": "",
    "--workdir": "",
    "-W": "",
    **dict.fromkeys(("--scratch", "-S", "--fusemount", "--no-mount", "--app", "--hostname", "--dns", "--network"), ""),
    **dict.fromkeys(("--network-args", "--security", "--add-caps", "--drop-caps", "--apply-cgroups", "--cpus"), ""),
    **dict.fromkeys(("--cpu-shares", "--cpuset-cpus", "--cpuset-mems", "--memory", "--memory-swap", "--authfile"), ""),
    **dict.fromkeys(("--memory-reservation", "--pids-limit", "--blkio-weight", "--pem-path", "--shell"), ""),
    **dict.fromkeys(("--docker-host", "--device", "--cdi-dirs"), ""),
}
"""The options that take a value, and the option of `docker run` with the same meaning, if it has one."""
FLAGS: Final = {"--nv": ("--gpus", "all"), "--nvccli": ("--gpus", "all"), "--rocm": ("--device", "/dev/kfd")}
"""The flags that give the container hardware, as options of `docker run`."""
CLEAN: Final = frozenset({"--cleanenv", "-e", "--containall", "-C"})
SCHEME: Final = re.compile(r"(?:docker|oras|library|docker-daemon|docker-archive)://")
FILE: Final = re.compile(r"(?:.*/)?([^/]+?)(?:_([^_/]+))?\.(?:sif|simg|img)", re.DOTALL)
"""Matches the file of an image, which `pull` names after the image and its tag: `vllm-openai_v0.23.0.sif`."""


def image_name(word: str) -> str:
    """The name of an image: without its scheme, or as its file is named after it."""
    if type(word) is Unknown:
        return word
    if (file := FILE.fullmatch(word)) is not None:
        return file[1] if file[2] is None else f"{file[1]}:{file[2]}"
    return SCHEME.sub("", word, count=1)


def apptainer_run(
    words: Sequence[str], start: int
) -> tuple[list[tuple[str, str | None]], list[str], list[str], bool] | None:
    """The options, the words that are not known, the image with its words, and whether it gets the host's variables.

    The options are those of `docker run`. None if no program in ``words`` from ``start`` on starts one.
    """
    at = next((at for at in range(start, len(words)) if words[at].rpartition("/")[2] in PROGRAMS), len(words)) + 1
    while at < len(words) and words[at].startswith("-"):
        at += 1
    is_instance = words[at : at + 1] == ["instance"]
    at += is_instance
    if at >= len(words) or words[at] not in COMMANDS:
        return None
    is_exec = words[at] == "exec"
    options: list[tuple[str, str | None]] = []
    unread: list[str] = []
    gets_variables = True
    at += 1
    while at < len(words):
        word = words[at]
        name, equals, value = word.partition("=")
        if type(word) is Unknown and word.is_several:
            unread.append(word)
        elif not word.startswith("-"):
            break
        elif name in VALUES:
            at += not equals
            given = value if equals else "".join(words[at : at + 1])
            options += _settings(VALUES[name], given, words[at : at + 1])
        elif word in FLAGS:
            options.append(FLAGS[word])
        gets_variables = gets_variables and word not in CLEAN
        at += 1
    image, *others = [image_name(word) for word in words[at : at + 1]] + list(words[at + 1 :]) or [""]
    if is_instance:
        others = others[1:]
    if is_exec:
        options.append(("--entrypoint", others[0] if others else ""))
        others = others[1:]
    return options, unread, [image, *others] if image else [], gets_variables


def _settings(name: str, value: str, words: Sequence[str]) -> list[tuple[str, str | None]]:
    """One option, or one for each of several values that commas separate."""
    if not name:
        return []
    parts = value.split(",") if name in {"-e", "-v"} else [value]
    is_unknown = any(type(word) is Unknown for word in words)
    return [(name, Unknown(part) if is_unknown and "$" in part else part) for part in parts]
