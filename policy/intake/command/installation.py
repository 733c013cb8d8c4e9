"""Detect commands and variables that replace the image's vLLM before it starts.

Not here: parsing the commands (`launcher`), and the version in an image (`manifests.images`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import COPY_PROGRAMS, EXTRAS, PACKAGE, SHELLS, TEXT_PROGRAMS
from policy.intake.command.words import Unknown, is_uncertain
from policy.intake.command_line import Installation
from policy.messages import quoted
from policy.rules.versions import VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

LOCAL_VERSION: Final = r"\+[a-z0-9]{1,16}(?:[-_.][a-z0-9]{1,16}){0,3}"
"""Matches a local part, such as that of a build for other hardware: `+cu129`."""
EXACT: Final = re.compile(rf"vllm{EXTRAS}\s{{0,9}}(?:===?|@)\s{{0,9}}({VERSION}(?:{LOCAL_VERSION})?)")
"""Matches a requirement that pins vLLM to one version."""
REQUIREMENT: Final = re.compile(rf"[a-z0-9][\w.-]{{0,100}}{EXTRAS}(?:\s{{0,9}}[@=<>!~;].{{0,1000}})?", re.DOTALL)
"""Matches a requirement of any package."""
INSTALLS: Final = re.compile(r"(?<![\w-])(?:install|sync|add|update|develop|activate)(?![\w-])")
COMMENT: Final = re.compile(r"(?:^|\s)#.*")
PIP: Final = re.compile(r"pip[0-9.]*")
PIP_COMMANDS: Final = ("install", "sync")
MANAGER_COMMANDS: Final = {
    "uv": ("sync", "add"),
    **dict.fromkeys(("conda", "mamba", "micromamba", "pixi", "poetry"), ("install", "add", "update", "activate")),
}
"""The subcommands of other package managers that change the installed packages or the active environment."""
RUNNERS: Final = frozenset({"uv", "uvx", "pipx", "poetry", "conda", "mamba", "micromamba", "pixi"})
"""Programs that may run vLLM from a separate environment."""
SYSTEM_MANAGERS: Final = frozenset(
    {
        *("apt", "apt-get", "aptitude", "dpkg", "dnf", "microdnf", "tdnf", "yum", "rpm", "zypper", "apk", "pacman"),
        *("brew", "snap"),
    }
)
"""Package managers of operating systems: none has vLLM, but packages may be named like a shell or installer."""
UNCERTAIN_OPTIONS: Final = (
    "-r",
    "-e",
    "-t",
    "--requirement",
    "--editable",
    "--target",
    "--prefix",
    "--root",
    "--python",
)
"""Options of `pip install` that install unnamed packages, or install into another folder."""
UNCERTAIN_SHORT: Final = re.compile("-[UIqv]*[ret]")
"""Matches the short ones of these options, possibly combined with others: `-Ur`."""
VALUE_OPTIONS: Final = frozenset(
    {
        *("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "--platform"),
        *("--index", "--default-index", "--trusted-host", "--cache-dir", "--timeout", "--retries", "--progress-bar"),
        *("--torch-backend", "--prerelease", "--index-strategy", "--no-binary", "--only-binary", "--upgrade-strategy"),
        *("--proxy", "--log", "--cert", "--client-cert", "--exists-action", "--use-feature", "--use-deprecated"),
        *("--keyring-provider", "--config-file", "--directory", "--project", "--color", "--allow-insecure-host"),
    }
)
"""Options of `pip install` that take the next word as their value."""
PATH_VARIABLES: Final = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
    *("LD_PRELOAD", "LD_AUDIT"),
)
"""The variables that can change which vLLM runs; `LD_LIBRARY_PATH` cannot, as it does not affect Python modules."""
_PATH_VARIABLES: Final = frozenset(PATH_VARIABLES)
MAY_INSTALL: Final = Installation(None, "`pip install` may install another vLLM before the start")
"""An installation of an unknown version by pip. Its message omits the arguments, which may contain a password."""


def installed_vllm(words: Sequence[str]) -> Installation | None:
    """The vLLM that a command may install or activate, if any."""
    if not any(map(INSTALLS.search, words)):
        return None
    programs = [word.rpartition("/")[2] for word in words]
    if programs[0] in TEXT_PROGRAMS or programs[0] in COPY_PROGRAMS:
        return None
    for index, program in enumerate(programs):
        if program in SYSTEM_MANAGERS:
            return None
        if PIP.fullmatch(program) is not None:
            at = _subcommand(words, index + 1, PIP_COMMANDS)
            if at is not None and "xargs" in programs[:index]:
                return MAY_INSTALL  # xargs reads the packages from its input
            return None if at is None else _pip(words, at)
        is_changing = _subcommand(words, index + 1, MANAGER_COMMANDS.get(program, ())) is not None
        if is_changing or program in SHELLS or program in {".", "source", "eval", "setup.py"}:
            cause = f"{quoted(program)} may install another vLLM or activate an environment with one"
            return Installation(None, cause)
    return None


def requirement_words(text: str) -> Iterator[str]:
    """The `pip install` arguments for lines of a requirements file, in which pip expands variables."""
    for line in text.splitlines():
        written = COMMENT.sub("", line).strip()
        for word in written.split() if written.startswith("-") else [written]:
            yield Unknown(word, is_several=True) if "$" in word else word


def _subcommand(words: Sequence[str], at: int, commands: Collection[str]) -> int | None:
    """The position of one of the ``commands`` in a program's arguments, which begin at ``at``; None if there is none.

    Only options may precede it. A word after an option may be the option's value or the command.
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
    """The vLLM that pip may install, if any; its subcommand is at ``at``."""
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
            is_unknown = (
                is_unknown or word.partition("=")[0] in UNCERTAIN_OPTIONS or UNCERTAIN_SHORT.match(word) is not None
            )
            at += word in VALUE_OPTIONS
            continue
        version = _exact_version(word)
        exact = version or exact
        is_unknown = is_unknown or (version is None and _may_be_vllm(word))
    if is_unknown:
        return MAY_INSTALL
    return None if exact is None else Installation(exact, f"`pip install` installs vLLM {exact} before the start")


def _exact_version(word: str) -> str | None:
    """The version to which a requirement pins vLLM; None if it does not."""
    found = EXACT.fullmatch(word.lower())
    return None if found is None or type(word) is Unknown else found[1]


def _may_be_vllm(word: str) -> bool:
    """Whether an argument of `pip install` may be vLLM, as a requirement, a file, a folder or an address."""
    if not _names_its_package(word) or "/" in word or word == ".":
        return True
    name = word.lower()
    return PACKAGE.fullmatch(name) is not None or "vllm-" in name


def _names_its_package(word: str) -> bool:
    """Whether the package that a requirement names is certain, even if the rest of the word is not.

    A shell leaves brackets and `*` unchanged unless a file matches. An unquoted unknown value may be several words.
    """
    if not is_uncertain(word):
        return True
    return not getattr(word, "is_several", False) and REQUIREMENT.fullmatch(word.lower()) is not None


def as_uncertain(installation: Installation) -> Installation:
    """An installation that may not happen."""
    return installation if installation.version is None else MAY_INSTALL


def vllm_of_runner(program: str, arguments: Sequence[str], started: str) -> list[Installation]:
    """The vLLM that a program may run from a separate environment; ``arguments`` are those before ``started``."""
    if program not in RUNNERS:
        return []
    named = [part for word in (*arguments, started) for part in word.split(",")]
    named += [word.partition("=")[2] for word in arguments if word.startswith("--")]
    versions = [version for version in map(_exact_version, named) if version is not None]
    if versions and all(map(_names_its_package, (*arguments, started))):
        return [Installation(versions[-1], f"{quoted(program)} runs vLLM {versions[-1]}")]
    return [Installation(None, f"{quoted(program)} may run a different vLLM from the image's")]


def vllm_of_variables(*environments: Mapping[str, str | None]) -> Installation | None:
    """The vLLM that may run instead of the image's because of a variable, if any."""
    if all(map(_PATH_VARIABLES.isdisjoint, environments)):  # as most are; searching them for each name takes 3 µs
        return None
    name = next(
        (name for name in PATH_VARIABLES if any(environment.get(name, "") != "" for environment in environments)), None
    )
    return None if name is None else Installation(None, f"the variable `{name}` may make another vLLM run")
