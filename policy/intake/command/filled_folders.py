"""Folders that a command may fill with files that it does not name one by one: archives, copied folders, mounts.

Not here: files that a command names, and what the folders mean for a server (`replaced_program`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HOME: Final = r"(?:/root|/home/[^/]{1,256}|~[^/]{0,256}|\$\{?HOME\}?)"
PARENT_FOLDER: Final = re.compile(
    rf"/|/home|{HOME}(?:/\.local(?:/lib(?:64)?|/bin)?)?|/(?:etc|opt|usr|usr/local)|(?:/usr|/usr/local)?/(?:s?bin|lib(?:64)?)"
)
"""Matches a folder that contains folders from which Python or a shell loads the engine in some image."""
ENVIRONMENT: Final = re.compile(
    r"(?:^|/)\.?(?:v?env|(?:mini|ana|micro)?(?:conda|mamba|forge)3?|envs/[^/]{1,256})(?:/(?:bin|lib(?:64)?))?\Z"
)
"""Matches an environment of Python that has a usual name, or its programs or libraries."""
CONFIGURATION: Final = re.compile(
    r"(?<![\w.-])(?:pip\.conf|uv\.toml|pyproject\.toml)(?![\w.-])"
    r"|(?:/\.config|/xdg|/etc)/(?:pip|uv)(?![\w.-])|/\.pip(?![\w.-])|/\.config/?(?:\s|\Z)"
)
"""Matches a file from which pip or uv reads its options, or its folder, within a text."""
LAST_FILE_WRITERS: Final = frozenset({"cp", "install", "link", "ln", "rsync", "scp"})
"""Programs that write only the last named file, unless an option names the folder."""
FOLDER_OPTION: Final = re.compile(r"-(?:[A-Za-z]{0,9}t|-t)")
"""Matches the beginning of an option that names the folder: `-t`, `-rt`, `--target-directory`."""
NAMED_FILE_WRITERS: Final = frozenset(
    {*("curl", "dd", "install", "link", "tee", "touch", "truncate"), *("kill", "make", "nginx", "ray")}
)
"""Programs that write only files that their words name, or that serve a folder."""
COPYING_PROGRAMS: Final = frozenset({"cp", "ln", "mv", "rsync", "scp"})
"""Programs that write into the last named folder."""
RECURSIVE_OPTION: Final = re.compile(r"-(?:[A-Za-z]{0,16}[rRa]|-recursive|-archive)")
TARGET_OPTION: Final = re.compile(r"-(?:[A-Za-z]{0,16}[nTt]|-no-(?:target-dir|deref)|-target)")
"""Matches an option by which the last folder itself is replaced, or another word names the folder."""
UNPACKERS: Final = frozenset(
    {
        *("tar", "bsdtar", "gtar", "star", "unzip", "bsdunzip", "7z", "7za", "7zr", "7zz", "unrar", "cpio", "bsdcpio"),
        *("pax", "jar", "rpm2archive", "dpkg-deb", "git"),
    }
)
"""Programs that may write into the working folder what their words do not name."""
PACKING_ARGUMENT: Final = re.compile(r"-?[A-Za-z]{0,16}[ctu][A-Za-z]{0,16}\Z|--(?:create|list|append|update|test)")
"""Matches the first argument with which such a program writes at most an archive."""
OWN_FOLDER_COMMANDS: Final = frozenset({"clone", "commit", "config", "init", "--version"})
"""The first arguments of `git` with which it writes only its own folder, or a named one."""


def filled_folders(program: str, arguments: Sequence[str], targets: Sequence[str]) -> Iterable[str]:
    """The words that name the folders; ``targets`` are the words that may name what the command changes."""
    if program in SHELLS or program == "eval":
        return () if UNPACKERS.isdisjoint(targets) and {"cp", "rsync"}.isdisjoint(targets) else targets
    if program in NAMED_FILE_WRITERS or not arguments:
        return ()
    if program in COPYING_PROGRAMS:
        return _copied(program, arguments)
    if program == "git":
        return targets if arguments[0] in OWN_FOLDER_COMMANDS else (*targets, ".")
    if program in UNPACKERS:
        return () if PACKING_ARGUMENT.match(arguments[0]) is not None else (*targets, ".")
    return targets if UNPACKERS.isdisjoint(arguments) else (*targets, ".")


def _copied(program: str, arguments: Sequence[str]) -> Iterable[str]:
    """The same for a program that copies, moves or links what it names into the last folder, under the same names."""
    options = [word for word in arguments if word.startswith("-")]
    if program in {"cp", "scp"} and not any(map(RECURSIVE_OPTION.match, options)):
        return ()
    target, sources = targets_of(arguments)
    if any(map(TARGET_OPTION.match, options)):
        return [*arguments, *(_named_in(target, source) for source in sources)]
    found = [target if is_content(program, source) else _named_in(target, source) for source in sources]
    return [*sources, *found] if program == "mv" else found


def targets_of(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The folder or name that a copying command makes, and its sources."""
    paths = [word for word in arguments if not word.startswith("-")]
    for at, word in enumerate(arguments):
        if (option := FOLDER_OPTION.match(word)) is not None:
            rest = word.partition("=")[2] if word.startswith("--") else word[option.end() :]
            named = rest or "".join(arguments[at + 1 : at + 2])
            return named, [path for path in paths if rest or path != named]
    return (paths[-1], paths[:-1]) if len(paths) > 1 else (".", paths)


def is_content(program: str, source: str) -> bool:
    """Whether a source stands for the content of a folder, or for names that are not known."""
    return (
        (program == "rsync" and source.endswith("/"))
        or source.rstrip("/").endswith(("/.", "*", "?", "]", "}"))
        or source in {".", "./", ".."}
        or "$" in source.rstrip("/").rpartition("/")[2]
    )


def _named_in(target: str, source: str) -> str:
    return f"{target}/{source.rstrip('/').rpartition('/')[2]}"
