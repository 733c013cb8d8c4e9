"""Which commands before the start of vLLM install another version of it, or make another one run.

Not here: the programs themselves (`launcher`), and the version in an image (`manifests.images`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import COPYING, EXTRAS, PACKAGE, SEARCHING, SHELLS
from policy.intake.command.words import Unknown, is_open
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

VERSION: Final = r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(?:rc[0-9]{1,3}|\.post[0-9]{1,3})?(?:\.dev[0-9]{1,6})?"
"""Matches a version of vLLM without its local part."""
LOCAL_VERSION: Final = r"\+[a-z0-9]{1,16}(?:[-_.][a-z0-9]{1,16}){0,3}"
"""Matches the local part, such as that of a build for other hardware: `+cu129`."""
EXACT: Final = re.compile(rf"vllm{EXTRAS}\s{{0,9}}(?:===?|@)\s{{0,9}}({VERSION}(?:{LOCAL_VERSION})?)")
"""Matches a requirement of exactly one version of vLLM."""
REQUIREMENT: Final = re.compile(rf"[a-z0-9][\w.-]{{0,100}}{EXTRAS}(?:\s{{0,9}}[@=<>!~;].{{0,1000}})?", re.DOTALL)
"""Matches a requirement of any package."""
INSTALLS: Final = re.compile(r"(?<![\w-])(?:install|sync|add|update|develop|activate)(?![\w-])")
PIP: Final = re.compile(r"pip[0-9.]*")
PIP_COMMANDS: Final = ("install", "sync")
PROJECTS: Final = {
    "uv": ("sync", "add"),
    **dict.fromkeys(("conda", "mamba", "micromamba", "pixi", "poetry"), ("install", "add", "update", "activate")),
}
"""The commands of other programs that change which packages are there."""
RUNNERS: Final = frozenset({"uv", "uvx", "pipx", "poetry", "conda", "mamba", "micromamba", "pixi"})
"""Programs that start vLLM from an environment of their own."""
SYSTEM_MANAGERS: Final = frozenset(
    {
        *("apt", "apt-get", "aptitude", "dpkg", "dnf", "microdnf", "tdnf", "yum", "rpm", "zypper", "apk", "pacman"),
        *("brew", "snap"),
    }
)
"""Package managers of systems, whose packages are not vLLM and may have the names of shells and installers."""
LOCAL: Final = ("-r", "-e", "-t", "--requirement", "--editable", "--target", "--prefix", "--root", "--python")
"""Options of `pip install` for packages that are not named, or for another place."""
JOINED: Final = re.compile("-[UIqv]*[ret]")
"""Matches the short ones of them, also joined with others: `-Ur`."""
VALUES: Final = frozenset(
    {
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "--platform"),
        *("--index", "--default-index", "--trusted-host", "--cache-dir", "--timeout", "--retries", "--progress-bar"),
        *("--torch-backend", "--prerelease", "--index-strategy", "--no-binary", "--only-binary", "--upgrade-strategy"),
        *("--proxy", "--log", "--cert", "--client-cert", "--exists-action", "--use-feature", "--use-deprecated"),
        *("--keyring-provider", "--config-file", "--directory", "--project", "--color", "--allow-insecure-host"),
    }
)
"""Options of `pip install` whose value is another word."""
PATHS: Final = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
    *("LD_PRELOAD", "LD_AUDIT"),
)
"""The variables that decide which vLLM runs. `LD_LIBRARY_PATH` is usual for drivers, and finds no Python modules."""
MAY_INSTALL: Final = Installation(None, "`pip install` may install another vLLM before the start")
"""An installation by pip whose version is not known. Its message has no arguments, which may have a password."""


def installed_by(words: Sequence[str]) -> Installation | None:
    """The vLLM that a command installs or makes run afterwards, if any."""
    if not any(map(INSTALLS.search, words)):
        return None
    programs = [word.rpartition("/")[2] for word in words]
    if programs[0] in SEARCHING or programs[0] in COPYING:
        return None
    for index, program in enumerate(programs):
        if program in SYSTEM_MANAGERS:
            return None
        if PIP.fullmatch(program) is not None:
            at = _subcommand(words, index + 1, PIP_COMMANDS)
            if at is not None and "xargs" in programs[:index]:
                return MAY_INSTALL  # its packages are in what it reads
            return None if at is None else _pip(words, at)
        is_changing = _subcommand(words, index + 1, PROJECTS.get(program, ())) is not None
        if is_changing or program in SHELLS or program in {".", "source", "eval", "setup.py"}:
            cause = f"{quoted(program)} may install another vLLM or activate an environment with one"
            return Installation(None, cause)
    return None


def _subcommand(words: Sequence[str], at: int, commands: Collection[str]) -> int | None:
    """The position of one of a program's commands among its arguments, which begin at ``at``; None if there is none.

    Only options come before it. A word after an option may be the option's value or the command.
    """
    is_after_option = False
    for index in range(at, len(words) if commands else at):
        word = words[index]
        if word in commands:
            return index
        if not word.startswith("-") and not is_after_option:
            return None
        is_after_option = word.startswith("-") and "=" not in word
    return None


def _pip(words: Sequence[str], at: int) -> Installation | None:
    """The vLLM that the command of pip at ``at`` installs, if any."""
    if words[at] == "sync":
        return MAY_INSTALL
    at += 1
    exact: str | None = None
    is_unknown = False
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--dry-run":
            return None
        if word.startswith("-"):
            is_unknown = is_unknown or word.partition("=")[0] in LOCAL or JOINED.match(word) is not None
            at += word in VALUES
            continue
        version = _exact_version(word)
        exact = version or exact
        is_unknown = is_unknown or (version is None and _may_be_vllm(word))
    if is_unknown:
        return MAY_INSTALL
    return None if exact is None else Installation(exact, f"`pip install` installs vLLM {exact} before the start")


def _exact_version(word: str) -> str | None:
    """The version of a word that requires exactly one version of vLLM."""
    found = EXACT.fullmatch(word.lower())
    return None if found is None or type(word) is Unknown else found[1]


def _may_be_vllm(word: str) -> bool:
    """Whether an argument of `pip install` may be vLLM: as a requirement, a file, a folder or an address."""
    if not _names_its_package(word) or "/" in word or word == ".":
        return True
    name = word.lower()
    return PACKAGE.fullmatch(name) is not None or "vllm-" in name


def _names_its_package(word: str) -> bool:
    """Whether a word is known, or at least the package that it requires, whatever a shell expands in it.

    A shell leaves brackets and `*` as they are, unless there is a file with a name that fits. A value that is not known
    may be several words outside quotes.
    """
    if not is_open(word):
        return True
    return not getattr(word, "is_several", False) and REQUIREMENT.fullmatch(word.lower()) is not None


def uncertain(installation: Installation) -> Installation:
    """An installation that may not happen."""
    return installation if installation.version is None else MAY_INSTALL


def run_by(program: str, arguments: Sequence[str], started: str) -> list[Installation]:
    """The vLLM that a program may run from an environment of its own; ``arguments`` are those before ``started``."""
    if program not in RUNNERS:
        return []
    named = [part for word in (*arguments, started) for part in word.split(",")]
    named += [word.partition("=")[2] for word in arguments if word.startswith("--")]
    versions = [version for version in map(_exact_version, named) if version is not None]
    if versions and all(map(_names_its_package, (*arguments, started))):
        return [Installation(versions[-1], f"{quoted(program)} runs vLLM {versions[-1]}")]
    return [Installation(None, f"{quoted(program)} may run another vLLM than the image's")]


def found_by(*environments: Mapping[str, str | None]) -> Installation | None:
    """Another vLLM that variables may make run."""
    name = next((name for name in PATHS if any(environment.get(name, "") != "" for environment in environments)), None)
    return None if name is None else Installation(None, f"the variable `{name}` may make another vLLM run")
