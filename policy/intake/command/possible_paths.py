"""Partly known paths, and the files and folders that they may be: `$PWD/Qwen/x`, `$(pwd)/*.json`.

The unknown part may be any text, so only the known parts rule a path out: its beginning, up to the first part that a
shell replaces, and its end, after the last one. What comes after a known folder counts as below it.
"""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.paths import MAX_PATH, path_in

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPANSION: Final = re.compile(r"\$\{?[A-Za-z_][A-Za-z0-9_]*+|\$[0-9@*#?$!_-]|[$`(){}]|~[+-]")
"""Matches an expansion in a word that may give any text, or the beginning or end of one."""
GLOB: Final = re.compile(r"[*?\[\]]")
MARK: Final = re.compile(r"[$`(){}~*?\[\]]")
"""Matches the beginning of either."""
PROCESS_FOLDER: Final = re.compile(r"/{1,9}proc/(?:self|thread-self|[0-9]{1,9}|\$\$)(?:/task/[^/]{1,32})?/cwd(?=/|\Z)")
"""Matches the beginning of a path that is a process's link to its working folder."""
QUOTES: Final = re.compile(r"[\"'\\]")
MAX_LEVELS: Final = 16
"""The maximum number of levels of a path whose folders are compared one by one."""
READ_FILE: Final = re.compile(r"\.(?:json|jinja|py|so|safetensors|bin|pth?|gguf|model|tiktoken)\Z")
"""Matches the end of the name of a file that vLLM reads in the folder of a model or its own."""
HIDDEN_NAME: Final = re.compile(r"(?:^|/)\.[^./]")
"""Matches a folder or file that vLLM does not read in the folder of a model."""


class PossiblePath(Struct, frozen=True):
    """A path with an unknown part.

    ``start`` is the path before that part, resolved; None if the path may begin with anything. ``end`` is the text
    after that part; empty if not even the name is known. ``levels`` is the number of names in the path; 0 if it is not
    known. It is known for a pattern of the shell, because no part of a pattern crosses a `/`.
    """

    start: str | None
    end: str
    levels: int = 0

    def may_be(self, path: str) -> bool:
        """Whether it may be the resolved ``path``."""
        start = self.start or ""
        if not self._may_begin(path) or len(start) > len(path):
            return False
        if self.levels and self.levels != _levels(path):
            return False
        is_relative = path[:1] != "/"
        full = f"/{path}" if is_relative else path
        if self.start is None and is_relative and self.end.endswith(full):  # in the folder that is not known
            return True
        return full.endswith(self.end) and len(start) + len(self.end) <= len(full)

    def may_be_above(self, path: str) -> bool:
        """Whether it may be a resolved path or a folder above it; below many folders, by its beginning only."""
        if _levels(path) > MAX_LEVELS:
            return self._may_begin(path)
        while path not in {"", "/"}:
            if self.may_be(path):
                return True
            path = path.rpartition("/")[0]
        return False

    def may_be_in(self, folder: str) -> bool:
        """Whether it may be a file that vLLM reads in a resolved folder, at any depth."""
        if not self._may_begin(folder) or (self.levels and self.levels <= _levels(folder)):
            return False
        if not self.end:
            return self.start is not None
        return HIDDEN_NAME.search(self.end) is None and READ_FILE.search(self.end) is not None

    @property
    def is_known_enough(self) -> bool:
        """Whether it has a known beginning or end, so that not every path of a script is meant: `$LOG`, `$HOST`."""
        return bool(self.start or self.end)

    def _may_begin(self, path: str) -> bool:
        if self.start is None:
            return True
        if path.startswith("/") != self.start.startswith("/"):
            return False
        return f"{path}/".startswith(self.start) or self.start.startswith(f"{path}/")


def _levels(path: str) -> int:
    return path.strip("/").count("/") + 1


def in_working_folder(path: str) -> str:
    """A path as written, relative if it begins with a process's link to its working folder."""
    found = PROCESS_FOLDER.match(path)
    return path if found is None else f".{path[found.end() :]}"


def possible_path(folder: str, word: str) -> PossiblePath | None:
    """What a word may be as a path in a working folder; None if it is known, or no path."""
    if len(word) > MAX_PATH or MARK.search(word) is None:
        return None
    text = QUOTES.sub("", word)
    replaced = [*EXPANSION.finditer(text)]
    marks = sorted([*replaced, *GLOB.finditer(text)], key=lambda found: found.start())
    if not marks or (not replaced and text[:1] == "~") or any(mark in text for mark in ("\n", "://")):
        return None
    before, end = text[: marks[0].start()], text[marks[-1].end() :]
    if end[:1] == "/" and ("//" in end or "/." in end):
        end = normpath(end).replace("//", "/", 1)
    above, slash, name = before.rpartition("/")
    if before.strip("/") == "":
        start = None if replaced or before else ""
    elif len(found := path_in(folder, above + slash) if slash else folder) > MAX_PATH:
        return None
    else:
        start = f"{found.rstrip('/')}/{name}" if found else name
    if start == "" and folder:
        start = f"{folder.rstrip('/')}/"
    levels = _levels(path_in(folder, text)) if not replaced and "**" not in text else 0
    return PossiblePath(start, end.rstrip("/"), levels)


def possible_child(folder: str, target: str, names: str) -> PossiblePath:
    """A path that may be made in the folder ``target`` as written, with a name of which at most the end is known."""
    if (found := possible_path(folder, target)) is not None:
        return PossiblePath(found.start, "")
    last = QUOTES.sub("", names).rstrip("/").rpartition("/")[2]
    end = last[max((found.end() for found in _marks(last)), default=len(last)) :]
    start = path_in(folder, in_working_folder(target))
    return PossiblePath(f"{start.rstrip('/')}/" if start else "", end)


def _marks(text: str) -> Iterator[re.Match[str]]:
    yield from EXPANSION.finditer(text)
    yield from GLOB.finditer(text)
