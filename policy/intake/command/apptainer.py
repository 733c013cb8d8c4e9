"""Apptainer and its predecessor Singularity, which start a container from an image or its file: `run`, `exec`.

https://apptainer.org/docs/user/main/cli.html (read at 1.4). `run` starts the entry point of the image, `exec` a command
in it. The container gets the variables of the host, unless `--cleanenv` is set, and always those whose names have a
prefix, `APPTAINERENV_NAME`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.intake.command.image_words import image_text
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_UNREAD: Final = 8
"""The maximum number of unknown options that are kept."""
PROGRAMS: Final = frozenset({"apptainer", "singularity"})
COMMANDS: Final = frozenset({"run", "exec"})
VALUE_OPTIONS: Final[dict[str, str]] = {
    "--bind": "-v",
    "-B": "-v",
    "--mount": "--mount",
    "--env": "-e",
    "--env-file": "--env-file",
    "--pwd": "-w",
    "--cwd": "-w",
    "--home": "--home",
    "-H": "--home",
    "--overlay": "--volumes-from",
    "-o": "--volumes-from",
    "--workdir": "",
    "-W": "",
    **dict.fromkeys(("--scratch", "-S", "--fusemount", "--no-mount", "--app", "--hostname", "--dns", "--network"), ""),
    **dict.fromkeys(("--network-args", "--security", "--add-caps", "--drop-caps", "--apply-cgroups", "--cpus"), ""),
    **dict.fromkeys(("--cpu-shares", "--cpuset-cpus", "--cpuset-mems", "--memory", "--memory-swap", "--authfile"), ""),
    **dict.fromkeys(("--memory-reservation", "--pids-limit", "--blkio-weight", "--pem-path", "--shell"), ""),
    **dict.fromkeys(("--docker-host", "--device", "--cdi-dirs", "--netns-path", "--pid-file", "--vm-cpu"), ""),
    **dict.fromkeys(("--runscript-timeout", "--shm-size", "--vm-ip", "--vm-ram"), ""),
}
"""The options that take a value, and the option of `docker run` with the same meaning, if it has one.

An overlay may have files at any path, as another container's volumes may. `docker run` has no `--home`.
"""
FLAGS: Final = {"--nv": ("--gpus", "all"), "--nvccli": ("--gpus", "all"), "--rocm": ("--device", "/dev/kfd")}
"""The flags that give the container hardware, as options of `docker run`."""
OTHER_FLAGS: Final = frozenset(
    {
        *("--allow-setuid", "--boot", "--compat", "--contain", "--disable-cache", "--docker-login", "--fakeroot"),
        *("--ignore-fakeroot-command", "--ignore-subuid", "--ignore-userns", "--intel-hpu", "--ipc", "--keep-privs"),
        *("--net", "--no-compat", "--no-eval", "--no-home", "--no-https", "--no-init", "--no-nv", "--no-oci"),
        *("--no-pid", "--no-privs", "--no-rocm", "--no-setuid", "--no-tmp-sandbox", "--no-umask", "--nohttps"),
        *("--oci", "--passphrase", "--pid", "--sharens", "--sif-fuse", "--sparse", "--tmp-sandbox", "--underlay"),
        *("--unsquash", "--userns", "--uts", "--vm", "--vm-err", "--writable", "--writable-tmpfs"),
        *(f"-{letter}" for letter in "cfinpuw"),
    }
)
"""The other flags, which do not matter here."""
PRINT_OPTIONS: Final = frozenset({"--help", "-h", "--version"})
"""The options with which a program only prints something."""
CLEAN_OPTIONS: Final = frozenset({"--cleanenv", "-e", "--containall", "-C"})
PREFIXES: Final = ("SINGULARITYENV_", "APPTAINERENV_")
"""The prefixes of the host's variables that set the container's; the last one takes precedence."""
CLEAN_VARIABLES: Final = ("APPTAINER_CLEANENV", "SINGULARITY_CLEANENV")
"""The variables that stand for `--cleanenv`."""
BIND_VARIABLES: Final = ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH")
"""The variables that stand for `--bind`."""
FALSE_VALUES: Final = frozenset({"", "0", "f", "F", "false", "FALSE", "False"})
SCHEME: Final = re.compile(r"(?:docker|oras|library|docker-daemon|docker-archive)://")
IMAGE_FILE: Final = re.compile(r"(?:.*/)?([^/]+?)(?:_([^_/]+))?\.(?:sif|simg|img)", re.DOTALL)
"""Matches the file of an image, which `pull` names after the image and its tag: `vllm-openai_v0.23.0.sif`."""


class ApptainerRun(NamedTuple):
    """A command that starts a container, with options in the form of `docker run`; ``words`` begins with the image.

    ``at`` is the position of the program. ``unread`` has the unknown options, and the words that may be any option.
    ``starts`` is false if the command only prints something. ``gets_variables``: whether the container gets the host's.
    """

    at: int
    options: list[tuple[str, str | None]]
    unread: list[str]
    words: list[str]
    starts: bool
    gets_variables: bool


def image_name(word: str) -> str:
    """The name of an image, without its scheme, or derived from the name of its file."""
    text = image_text(word)
    if (file := IMAGE_FILE.fullmatch(text)) is not None:
        name = file[1] if file[2] is None else f"{file[1]}:{file[2]}"
    else:
        name = SCHEME.sub("", text, count=1)
    return Unknown(name) if type(word) is Unknown else name


def names_image(word: str) -> bool:
    """Whether a word is certainly an image: its file, or an address of one."""
    return SCHEME.match(word) is not None or IMAGE_FILE.fullmatch(word) is not None


def container_variables(env: Mapping[str, str | None], *, gets_host: bool) -> dict[str, str | None]:
    """The variables that a container gets from those of the command that starts it; None if a value is not known."""
    cleaning = [env[name] for name in CLEAN_VARIABLES if name in env]
    is_clean = not gets_host or any(value is not None and value not in FALSE_VALUES for value in cleaning)
    is_known = None not in cleaning
    found = {
        name: value if is_known or name in CLEAN_VARIABLES else None
        for name, value in env.items()
        if not is_clean and not name.startswith(PREFIXES)
    }
    for prefix in PREFIXES:
        found |= {name.removeprefix(prefix): value for name, value in env.items() if name.startswith(prefix)}
    return found


def binds(value: str) -> list[str]:
    """The values of `docker run -v` for one of `--bind`; a source without a destination is mounted at its own path."""
    parts = (part.split(":") for part in value.split(","))
    return [f"{source}:{''.join(rest[:1]) or source}" for source, *rest in parts]


def _letters(word: str) -> tuple[str, str, bool]:
    """The option among combined letters that takes a value, the text after it, and whether one clears the variables.

    An unknown letter is returned as if it took a value.
    """
    is_clean = False
    for at, letter in enumerate(word[1:], 1):
        if f"-{letter}" not in OTHER_FLAGS and f"-{letter}" not in CLEAN_OPTIONS:
            return f"-{letter}", word[at + 1 :].removeprefix("="), is_clean
        is_clean = is_clean or f"-{letter}" in CLEAN_OPTIONS
    return "", "", is_clean


def program_at(words: Sequence[str], start: int, programs: frozenset[str]) -> int:
    """The position of the first of the programs from ``start`` on; the number of words if there is none.

    A name before another one, except the first word, is the value of an option: `sudo -u docker docker run`.
    """
    at = found = next((at for at in range(start, len(words)) if words[at].rpartition("/")[2] in programs), len(words))
    while at < len(words) and found > start:
        at = next((index for index in range(found + 1, len(words)) if not words[index].startswith("-")), len(words))
        if at == len(words) or words[at].rpartition("/")[2] not in programs:
            break
        found = at
    return found


def apptainer_run(words: Sequence[str], start: int) -> ApptainerRun | None:
    """How a command starts a container; None if no program in ``words`` from ``start`` on starts one."""
    program = program_at(words, start, PROGRAMS)
    at = program + 1
    while at < len(words) and words[at].startswith("-"):
        at += 1
    is_instance = words[at : at + 1] == ["instance"]
    at += is_instance
    if at >= len(words) or words[at] not in COMMANDS:
        return None
    starts = PRINT_OPTIONS.isdisjoint(words[program + 1 : at])
    is_exec = words[at] == "exec"
    options: list[tuple[str, str | None]] = []
    unread: list[str] = []
    gets_variables = True
    last: int | None = None
    at += 1
    while at < len(words):
        word = words[at]
        name, given, value = word.partition("=")
        is_clean = name in CLEAN_OPTIONS and (not given or value not in FALSE_VALUES)
        if word.startswith("-") and not word.startswith("--"):
            name, value, is_clean = _letters(word)
            given = value
        if (
            type(word) is Unknown
            and word.is_several
            and not names_image(image_text(word))
            and at < (last := _last_image(words, at) if last is None else last)
        ):
            unread.append(word)
        elif not word.startswith("-"):
            break
        elif name in VALUE_OPTIONS:
            at += not given
            options += _settings(
                VALUE_OPTIONS[name], value if given else "".join(words[at : at + 1]), words[at : at + 1]
            )
        elif word in FLAGS:
            options.append(FLAGS[word])
        elif word in PRINT_OPTIONS:
            starts = False
        elif name and name not in OTHER_FLAGS and name not in CLEAN_OPTIONS and len(unread) < MAX_UNREAD:
            unread.append(name)
        gets_variables = gets_variables and not is_clean
        at += 1
    image, *others = [image_name(word) for word in words[at : at + 1]] + list(words[at + 1 :]) or [""]
    if is_instance:
        others = others[1:]
    if is_exec:
        options.append(("--entrypoint", others[0] if others else ""))
        others = others[1:]
    return ApptainerRun(program, options, unread, [image, *others] if image else [], starts, gets_variables)


def _last_image(words: Sequence[str], at: int) -> int:
    """The position of the last word after ``at`` that is certainly an image; -1 if none is."""
    places = range(len(words) - 1, at, -1)
    return next((place for place in places if type(words[place]) is str and names_image(words[place])), -1)


def _settings(name: str, value: str, words: Sequence[str]) -> list[tuple[str, str | None]]:
    """One option, or one for each of several values that commas separate."""
    if not name:
        return []
    parts = binds(value) if name == "-v" else value.split(",") if name == "-e" else [value]
    is_unknown = any(type(word) is Unknown for word in words)
    return [(name, Unknown(part) if is_unknown and "$" in part else part) for part in parts]
