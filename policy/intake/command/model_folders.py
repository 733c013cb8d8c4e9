"""Folders and files that commands of a script may make, fill or change before a server loads its model from them.

Not here: what the same commands mean for the files of vLLM (`replaced_program`).
"""

from __future__ import annotations

import re
from collections import Counter
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.filled_folders import (
    COPYING_PROGRAMS,
    FOLDER_OPTION,
    LAST_FILE_WRITERS,
    NAMED_FILE_WRITERS,
    PACKING_ARGUMENT,
    RECURSIVE_OPTION,
)
from policy.intake.command.paths import MAX_PATH, in_home, path_in
from policy.intake.command.programs import SHELLS
from policy.intake.command.volume_paths import NO_VOLUMES
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policy.intake.command.possible_paths import PossiblePath
    from policy.intake.command.vllm_command import ServerCommand
    from policy.intake.command.volume_paths import OtherPath, VolumePaths

REMOVERS: Final = frozenset({"rm", "rmdir", "shred", "unlink"})
TARS: Final = frozenset({"tar", "bsdtar", "gtar"})
MODEL_OPTION: Final = re.compile(r"--?(?:[\w-]{0,64}?[_-])?(?:model|repo|tokenizer|dataset)")
"""Matches the beginning of an option that names what a program reads."""
PATHS: Final = re.compile(r"(?<![\w.~/-])[\w.~/-]++")
"""Matches what may be a path within a text."""
TEXT_CHARACTER: Final = re.compile(r"[\s('\"><]")
"""Matches a character of a word that is code or several words, and not a path."""
MODEL_FLAGS: Final = frozenset({"--model", "--hf-config-path", "--speculative-config.model", "--speculative-model"})
CONFIG_FLAG: Final = "--config"
DRAFT_FLAGS: Final = frozenset({"--speculative-config", "-sc"})
DRAFT_MODEL: Final = re.compile(r'"model"\s{0,9}:\s{0,9}"([^"\\]{1,1024})"')
"""Matches the model in the JSON of such a flag."""
GLOB: Final = re.compile(r"[*?\[]")
BOOLEAN_FLAG: Final = re.compile(r"--(?:enable|disable|no|enforce|trust|async|skip|use|language)[-_]")
"""Matches the beginning of a flag that takes no value, so that a word after it is the model."""
HUB_CACHE: Final = re.compile(r"(?:^|/)(?:models--([^/]*+)|(?:modelinfos|transformers_modules)(?=/))")
"""Matches the folder of a model in the hub's cache, or one for all models in that or vLLM's, within a path."""
CACHE_DOUBT: Final = "{} may change the files of {} in a cache before vLLM loads them"
MANY_DOUBT: Final = (
    "a command may change {} before vLLM reads it, as the container has too many mounts to compare their volumes"
)
SHARED_DOUBT: Final = "{} may change {} before vLLM reads it, as its volume is also mounted at {}"
ROOT_CHARACTERS: Final = frozenset("/~$")
"""The first characters of a path that is in no working folder, or in one that is not known."""
IMAGE_FOLDER: Final = "/vllm-workspace"
"""The working folder of vLLM's images, in which a script may start if no other folder is known."""
MAX_POSSIBLE: Final = 16
"""The maximum number of partly known paths of each kind; with more, any model may be changed."""
MAX_CHANGED: Final = 4096
"""The maximum number of folders with written paths; with more, any model may be changed."""


class ChangedModels(Struct):
    """What the commands of a script so far may have changed in the folders of models; all paths are resolved."""

    _made: dict[str, str] = {}
    """The folders and files that commands may make, with the programs."""
    _filled: dict[str, str] = {}
    """The folders in which commands may write at any depth what they do not name, with the programs."""
    _above_filled: dict[str, str] = {}
    """The folders above those, with the programs."""
    _changed: dict[str, str] = {}
    """The folders above the paths that commands may write, with the programs."""
    _cached: dict[str, str] = {}
    """The models whose files in a cache commands may write, with the programs; an empty name is any model."""
    _may_make: dict[PossiblePath, str] = {}
    """The partly known paths that commands may make, with the programs."""
    _may_fill: dict[PossiblePath, str] = {}
    """The partly known paths that commands may make, or fill with what they do not name."""
    _may_write: dict[PossiblePath, str] = {}
    """The partly known paths that commands may write."""
    _many: str | None = None
    """The program that may write beyond the maximum number of folders or paths; None if there is none."""

    def make(self, program: str, path: str) -> None:
        """Note that a program may make a folder or a file."""
        if len(path) <= MAX_PATH:
            self._made.setdefault(path, program)
            self._note_cached(program, path)

    def fill(self, program: str, path: str) -> None:
        """Note that a program may fill a folder."""
        if len(path) <= MAX_PATH:
            self._filled.setdefault(path, program)
            self._note_above(self._above_filled, program, path)

    def write(self, program: str, path: str) -> None:
        """Note that a program may write a path, and so change the folders above it."""
        self._note_above(self._changed, program, path)
        self._note_cached(program, path)

    def _note_cached(self, program: str, path: str) -> None:
        """Note the model of a path in a cache; the hub loads again what a program removes."""
        if program in REMOVERS:
            return
        for name in HUB_CACHE.findall(path):
            is_known = GLOB.search(name) is None and "$" not in name and len(self._cached) < MAX_CHANGED
            self._cached.setdefault(name if is_known else "", program)

    def _note_above(self, folders: dict[str, str], program: str, path: str) -> None:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            if len(folders) == MAX_CHANGED:
                self._many = self._many or program
                return
            folders[folder] = program
            folder = folder.rpartition("/")[0]

    def make_possible(self, program: str, path: PossiblePath, *, fills: bool = False) -> None:
        """Note that a program may make, or fill, a partly known path."""
        self._note(self._may_fill if fills else self._may_make, program, path)

    def write_possible(self, program: str, path: PossiblePath) -> None:
        """Note that a program may write a partly known path."""
        self._note(self._may_write, program, path)

    def _note(self, paths: dict[PossiblePath, str], program: str, path: PossiblePath) -> None:
        if len(paths) == MAX_POSSIBLE and path not in paths:
            self._many = self._many or program
        else:
            paths.setdefault(path, program)

    def may_change(self, path: str) -> str | None:
        """The program that may write a file, or in a folder, by a partly known path."""
        for possible, program in (*self._may_make.items(), *self._may_fill.items(), *self._may_write.items()):
            if possible.end and (possible.may_be(path) or possible.may_be_in(path)):
                return program
        return None

    def doubts(
        self,
        server: ServerCommand,
        folder: str,
        written: Mapping[str, str],
        start: str,
        home: str,
        volumes: VolumePaths = NO_VOLUMES,
        *,
        are_kept: bool = False,
    ) -> Iterator[str]:
        """Why a server may load a different model than it names, or other configuration; at most one reason for each.

        ``written`` has the files that commands may write, with the programs. A ``folder`` that is not known is relative
        to the one in which the script starts, which may be ``start``. ``home`` is empty if it is not known. A volume
        may be mounted at further paths. ``are_kept``: whether only models and files in ``volumes`` count.
        """
        is_possible = bool(self._may_make or self._may_fill or self._may_write)
        if not (self._made or self._filled or self._changed or written or is_possible):
            return
        found: set[bool] = set()
        for name, is_model, paths in named_paths(server, folder, start, home):
            if is_model in found or (are_kept and not volumes.keep(paths[-1])):
                continue
            maker = next(filter(None, (self._made.get(each) or self._filler(name, each) for each in paths)), None)
            maker = maker or (self._filled.get("/") if are_kept else None)  # else it may replace vLLM, too
            changed = self._changed if is_model else written
            changer = maker or next(filter(None, map(changed.get, paths)), self._many if is_model else None)
            if changer is None and is_possible and not name.startswith("$"):
                maker, changer = self._possible(paths, is_model=is_model)
            if changer is not None:
                found.add(is_model)
                yield _doubt(name, changer, is_model=is_model, is_made=maker is not None)
            elif is_model and (changer := self._cache_changer(name)) is not None:
                found.add(is_model)
                yield CACHE_DOUBT.format(quoted(changer), quoted(name))
            elif volumes.are_many:
                found.add(is_model)
                yield MANY_DOUBT.format(quoted(name))
            else:
                for other in volumes.others(paths[-1]):
                    if (changer := self._changer(name, other, written, is_model=is_model)) is not None:
                        found.add(is_model)
                        yield SHARED_DOUBT.format(quoted(changer), quoted(name), quoted(other.mount))
                        break

    def _cache_changer(self, name: str) -> str | None:
        """The program that may write files of a model of the hub in a cache."""
        if not self._cached or name[:1] in {".", *ROOT_CHARACTERS}:
            return None
        return self._cached.get(name.replace("/", "--")) or self._cached.get("")

    def _changer(self, name: str, other: OtherPath, written: Mapping[str, str], *, is_model: bool) -> str | None:
        """The program that may change a model or a file by another path of its volume."""
        tables: list[Mapping[str, str]] = [self._made, self._changed if is_model else written]
        if other.is_part:
            tables = [self._made, self._changed, written, self._above_filled]
        named = next(filter(None, (table.get(other.path) for table in tables)), None)
        found = named or self._filler("/" if other.is_part else name, other.path)
        return found or self._possible((other.path,), is_model=is_model or other.is_part)[1]

    def _possible(self, paths: Iterable[str], *, is_model: bool) -> tuple[str | None, str | None]:
        """The programs that may make and that may change one of the paths, by a partly known path."""
        for path in paths:
            for possible, program in self._may_make.items():
                if possible.may_be(path):
                    return program, program
            for possible, program in self._may_fill.items():
                if possible.may_be_above(path):
                    return program, program
            for possible, program in self._may_write.items():
                if possible.may_be_in(path) if is_model else possible.end and possible.may_be(path):
                    return None, program
        return None, None

    def _filler(self, name: str, path: str) -> str | None:
        """The program that may fill a folder or one above it.

        For a possible name of a model in the Hub, such as `a/b`, only `a` is above it.
        """
        if not self._filled:
            return None
        levels, above, found = path.count("/") + (path[:1] != "/"), path, None
        if "/" in name and name[:1] not in {"/", ".", "~", "$"}:
            levels = normpath(name).count("/") + 1
        for _ in range(levels):
            found = found or self._filled.get(above)
            above = above.rpartition("/")[0]
        return found


def named_paths(
    server: ServerCommand, folder: str, start: str, home: str
) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """The models and files that a server names, each with whether it is a model and with the paths that it may have.

    A relative one has two: the last is that in the folder ``start``. So has one in a ``home`` that is not empty.
    """
    for name, is_model in _named(server):
        path = path_in(folder, name)
        other = in_home(path, home) if path[:1] in ROOT_CHARACTERS else path_in(start, path)
        if len(path) <= MAX_PATH:
            yield name, is_model, (path,) if other == path else (path, other)


def _doubt(name: str, changer: str, *, is_model: bool, is_made: bool) -> str:
    if not is_model:
        return f"{quoted(changer)} may change the file {quoted(name)} before vLLM reads it"
    if is_made:
        return f"{quoted(changer)} may make the folder {quoted(name)}, and vLLM loads it instead of that model"
    return f"{quoted(changer)} may change the files of the folder {quoted(name)} before vLLM loads them"


def _named(server: ServerCommand) -> Iterator[tuple[str, bool]]:
    """The models and files of configuration that a server names, each with whether it is a model."""
    before = ""
    for at, word in enumerate(server.words):
        flag, _, value = word.partition("=") if word.startswith("-") else (before, "=", word)
        flag = flag.replace("_", "-")
        is_positional = value is word and server.serve and (at == 0 or ("/" in word and _takes_no_value(before)))
        if value and (is_positional or flag in MODEL_FLAGS):
            yield value, True
        elif value and flag == CONFIG_FLAG:
            yield value, False
        elif flag in DRAFT_FLAGS:
            yield from ((model, True) for model in DRAFT_MODEL.findall(value))
        before = word


def _takes_no_value(word: str) -> bool:
    """Whether a word is certainly not a flag that takes the next word as its value."""
    return BOOLEAN_FLAG.match(word) is not None or "=" in word or not word.startswith("-")


def made_folders(program: str, arguments: Sequence[str]) -> Iterator[str]:
    """The folders and files that a command may make or fill, as written, without those named as what it reads."""
    if program in REMOVERS or (program in TARS and any(map(PACKING_ARGUMENT.match, arguments[:1]))):
        return
    if program in SHELLS or program == "eval":
        arguments = [part for word in arguments for part in word.split()]
    is_last = program == "mv" or (program in LAST_FILE_WRITERS and not any(map(FOLDER_OPTION.match, arguments)))
    is_download = "download" in arguments
    tails = Counter(map(_model_name, arguments))
    for at, word in enumerate(arguments):
        if word.startswith("-"):
            before, equals, value = word.partition("=")
            value = value if equals or before.startswith("--") else word[2:]  # as in `-C/models`
        else:
            before, value = "".join(arguments[at - 1 : at]), word
        is_target = before.startswith("--local") if is_download else MODEL_OPTION.match(before) is None
        is_target = is_target and (at + 1 == len(arguments) or not is_last) and tails[_model_name(word)] == 1
        if is_target and value and "://" not in value:
            yield value


def filled_model_folders(
    program: str, arguments: Sequence[str], made: Sequence[str], filled: Iterable[str]
) -> Iterable[str]:
    """The folders that a command may fill with what its words do not name.

    ``made`` are the folders that it may make, and ``filled`` those that it fills with any files.
    """
    if program in REMOVERS:
        return ()
    matched = [*filter(None, map(_above_glob, made))]
    if program in NAMED_FILE_WRITERS:
        return matched
    if program in COPYING_PROGRAMS:
        is_whole = program not in {"cp", "scp"} or any(map(RECURSIVE_OPTION.match, arguments))
        return [*filled, *made] if is_whole else matched
    return [*made, *matched, "."] if "." in filled else [*made, *matched]


def _above_glob(path: str) -> str:
    """The folder below which a pattern such as `/models/*/config.json` matches; empty if the path is not a pattern."""
    found = GLOB.search(path) if "/" in path else None
    return "" if found is None else path[: found.start()].rpartition("/")[0]


def paths_in(arguments: Iterable[str]) -> Iterator[str]:
    """The paths in those words of a command that are code or other texts."""
    for word in arguments:
        if "/" in word and TEXT_CHARACTER.search(word) is not None:
            yield from (path for path in PATHS.findall(word) if "/" in path and len(path) <= MAX_PATH)


def _model_name(word: str) -> str:
    """The last two parts of a path or an address, which may be the name of a model."""
    return "/".join(word.rpartition("=")[2].rstrip("/").removesuffix(".git").rsplit("/", 2)[-2:])
