"""Which commands before the start of vLLM install another version of it, or make another one run.

Not here: the programs themselves (`launcher`), and the version in an image (`manifests.images`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import PACKAGE, SEARCHING, SHELLS
from policy.intake.command.words import is_open
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION: Final = r"\d{1,4}\.\d{1,4}\.\d{1,4}(?:rc\d{1,3}|\.post\d{1,3})?"
EXACT: Final = re.compile(rf"vllm(?:\[[\w,. -]{{0,100}}\])?\s*(?:==|@)\s*({VERSION})")
"""Matches a requirement of exactly one version of vLLM."""
INSTALLS: Final = re.compile(r"(?<![\w-])(?:install|sync|add|develop|activate)(?![\w-])")
PIP: Final = re.compile(r"pip[0-9.]*")
PROJECTS: Final = {
    "uv": ("sync", "add"),
    **dict.fromkeys(("conda", "mamba", "micromamba", "pixi", "poetry"), ("install", "add", "update", "activate")),
}
"""The commands of other programs that change which packages are there."""
RUNNERS: Final = frozenset({"uv", "uvx", "pipx", "poetry", "conda", "mamba", "micromamba", "pixi"})
"""Programs that start vLLM from an environment of their own."""
LOCAL: Final = ("-r", "-e", "-t", "--requirement", "--editable", "--target", "--prefix", "--root", "--python")
"""Options of `pip install` for packages that are not named, or for another place."""
VALUES: Final = frozenset(
    {
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "--platform"),
        *("--index", "--default-index", "--trusted-host", "--cache-dir", "--timeout", "--retries", "--progress-bar"),
        *("--torch-backend", "--prerelease", "--index-strategy", "--no-binary", "--only-binary", "--upgrade-strategy"),
    }
)
"""Options of `pip install` whose value is another word."""
PATHS: Final = ("PATH", "PYTHONPATH", "PYTHONHOME")
"""The variables that decide which vLLM runs."""

HINT: Final = re.compile(r"install|activate|sync|add|develop|uv|pipx|poetry|conda|mamba|pixi|PATH|PYTHON")
"""Matches the words without which no command installs or chooses another vLLM."""


def installed_by(words: Sequence[str]) -> Installation | None:
    """The vLLM that a command installs or makes run afterwards, if any."""
    if not any(map(INSTALLS.search, words)):
        return None
    programs = [word.rpartition("/")[2] for word in words]
    if programs[0] in SEARCHING:
        return None
    for index, program in enumerate(programs):
        if PIP.fullmatch(program) is not None:
            rest = [at for at in range(index + 1, len(words)) if not words[at].startswith("-")]
            return _pip(words, rest[0] + 1) if rest and words[rest[0]] == "install" else None
        cause = f"{quoted(program)} may install another vLLM or activate an environment with one"
        if program in PROJECTS:
            following = next((words[at] for at in range(index + 1, len(words)) if not words[at].startswith("-")), "")
            if following in PROJECTS[program]:
                return Installation(None, cause)
        if program in SHELLS or program in {".", "source", "eval", "setup.py"}:
            return Installation(None, cause)
    return None


def _pip(words: Sequence[str], at: int) -> Installation | None:
    """The vLLM that `pip install` installs, whose arguments begin at ``at``."""
    cause = "`pip install` installs another vLLM before the start"  # its arguments may have a password
    exact: str | None = None
    is_unknown = False
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--dry-run":
            return None
        if word.startswith("-"):
            is_unknown = is_unknown or word.partition("=")[0] in LOCAL or word[:2] in {"-r", "-e", "-t"}
            at += word in VALUES
            continue
        found = EXACT.fullmatch(word)
        if found is not None and not is_open(word):
            exact = found[1]
        elif is_open(word) or PACKAGE.fullmatch(word) is not None or "/" in word or word == "." or "vllm-" in word:
            is_unknown = True
    return None if exact is None and not is_unknown else Installation(None if is_unknown else exact, cause)


def run_by(program: str, arguments: Sequence[str], started: str) -> list[Installation]:
    """The vLLM that a program may run from an environment of its own; ``arguments`` are those before ``started``."""
    if program not in RUNNERS:
        return []
    named = [part for word in (*arguments, started) for part in word.split(",")]
    named += [word.partition("=")[2] for word in arguments if word.startswith("--")]
    versions = [found[1] for found in map(EXACT.fullmatch, named) if found is not None]
    if versions and not any(map(is_open, (*arguments, started))):
        return [Installation(versions[-1], f"{quoted(program)} runs that vLLM")]
    return [Installation(None, f"{quoted(program)} may run another vLLM than the image's")]


def found_by(*environments: Mapping[str, str | None]) -> Installation | None:
    """Another vLLM that variables may make run."""
    name = next((name for name in PATHS if any(environment.get(name, "") != "" for environment in environments)), None)
    return None if name is None else Installation(None, f"the variable `{name}` may make another vLLM run")


def may_install(words: Sequence[str], env: Mapping[str, str | None]) -> bool:
    """Whether a command may make another vLLM run than the image's, without reading it."""
    return any(map(HINT.search, words)) or any(name in env for name in PATHS)
