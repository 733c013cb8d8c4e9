"""Read the texts of the files in a rules folder.

Owns all reading of rule files from disk, and the search for the folder. An incomplete folder is refused, because a rule
in an unreadable file would silently not apply.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from errno import ELOOP
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from policy.errors import Fault, RulesInvalid
from policy.escaping import escape_line
from policy.parser.files import kind_of, read_at_most
from policy.parser.yamltree import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEST_SUFFIX: Final = "_test.yaml"
SUFFIX: Final = ".yaml"
OTHER_SUFFIX: Final = ".yml"
MAX_FILES: Final = 2000
MAX_DEPTH: Final = 8
"""The maximum number of levels of folders."""
MAX_LINKS: Final = 40
"""The maximum number of links that lead to a file, as on Linux."""
MAX_NAMES: Final = 10_000
"""The maximum number of files and folders of any kind, because links can lead to many."""
MAX_TOTAL: Final = 16 << 20
"""The maximum total size of a folder's files, in bytes."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The texts of a rules folder by path: rules and cases."""

    rules: dict[str, str] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add a file's text by its path inside the folder."""
        (self.cases if name.endswith(TEST_SUFFIX) else self.rules)[name] = text


class SourcesReader:
    """Collects the texts of a folder or a revision, within bounds, and every fault."""

    def __init__(self) -> None:
        self.sources = Sources()
        self.faults: list[Fault] = []
        self._total = 0
        self._is_full = False

    def fault(self, name: str, message: str) -> None:
        """Add a fault for a file or folder."""
        self.faults.append(Fault(printable(name), 1, 1, message))

    def has_room(self, name: str, size: int) -> bool:
        """Whether a file of this size is within the bounds; adds a fault if not."""
        if size > MAX_BYTES:
            self.fault(name, f"expected at most {MAX_BYTES} bytes, got {size}; split the file")
            return False
        self._is_full |= (
            self._total + size > MAX_TOTAL or len(self.sources.rules) + len(self.sources.cases) > 2 * MAX_FILES
        )
        return not self._is_full

    def add(self, name: str, data: bytes) -> None:
        """Add a file's text, or a fault if it is not UTF-8."""
        self._total += len(data)
        try:
            self.sources.add(name, data.decode())
        except UnicodeDecodeError as error:
            self.fault(name, f"cannot be read: {error}")

    def result(self) -> Sources:
        """All texts.

        Raises:
            RulesInvalid: there is a fault, or there are too many files or bytes.
        """
        if max(len(self.sources.rules), len(self.sources.cases)) > MAX_FILES:
            self.fault("", f"more than {MAX_FILES} rule files")
        elif self._is_full:
            self.fault("", f"the rule files have more than {MAX_TOTAL} bytes in total; remove files that are not rules")
        if self.faults:
            raise RulesInvalid(self.faults)
        return self.sources


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or folder with its status, or with the error if it cannot be read."""

    name: str
    path: Path
    status: os.stat_result | OSError


def printable(name: str) -> str:
    """A path with control characters and bytes that are not UTF-8 escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return escape_line(text)


def is_printable(name: str) -> bool:
    """Whether a path can be printed without escapes."""
    return printable(name) == name


def is_yaml(suffix: str) -> bool:
    """Whether files with this suffix look like rules; if it is not exactly ``.yaml``, that is a fault."""
    return suffix.lower() in {SUFFIX, OTHER_SUFFIX}


def default_folder() -> Path:
    """``rules/`` in the working directory if it has rules, else the rules in the package."""
    here = Path("rules")
    if (here / "releases.yaml").is_file():
        return here
    package = Path(__file__).resolve().parents[1]
    shipped = package / "shipped_rules"
    return shipped if shipped.is_dir() else package.parent / "rules"


def entries(folder: Path) -> Iterator[FolderEntry]:
    """The files and folders below a folder, except hidden ones; links are followed.

    The entry of a folder that cannot be listed has the error. Links are followed because Kubernetes mounts each folder
    of a ConfigMap as a link to a hidden one.
    """
    yield from _entries(folder, "", ())


def _entries(folder: Path, name: str, parents: tuple[tuple[int, int], ...]) -> Iterator[FolderEntry]:
    try:
        here, inside = _list_folder(folder, parents)
    except OSError as error:
        yield FolderEntry(name.removesuffix("/"), folder, error)
        return
    for path in inside:
        try:
            state = path.stat()
        except OSError as error:
            yield FolderEntry(f"{name}{path.name}", path, error)
            continue
        yield FolderEntry(f"{name}{path.name}", path, state)
        if stat.S_ISDIR(state.st_mode):
            yield from _entries(path, f"{name}{path.name}/", (*parents, here))


def _list_folder(folder: Path, parents: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], list[Path]]:
    """A folder's device and inode, and its entries except hidden ones.

    Raises:
        OSError: it cannot be listed, is one of the ``parents``, or there are too many of them.
    """
    found = folder.stat()
    here = found.st_dev, found.st_ino
    if here in parents or len(parents) > MAX_DEPTH:
        raise OSError(ELOOP, os.strerror(ELOOP))
    return here, sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def no_pause() -> None:
    """Do nothing; for loading while no requests are served."""


def read_folder(folder: Path, pause: Callable[[], object] = no_pause) -> Sources:
    """The YAML files under ``folder``, except hidden ones; ``pause`` is called after each entry.

    Paths, also in faults, are relative to the folder.

    Raises:
        RulesInvalid: the folder does not exist, is incomplete or too large, or a file is not UTF-8.
    """
    reader = SourcesReader()
    for number, entry in enumerate(entries(folder)):
        if number == MAX_NAMES:
            reader.fault("", f"more than {MAX_NAMES} files and folders; keep other files elsewhere")
            break
        _read(entry, reader)
        pause()
    return reader.result()


def _read(entry: FolderEntry, reader: SourcesReader) -> None:
    if isinstance(entry.status, OSError):
        reader.fault(entry.name, _why(entry, entry.status))
        return
    mode, suffix = entry.status.st_mode, PurePosixPath(entry.name).suffix
    if not is_yaml(suffix):
        return
    if not is_printable(entry.name):
        reader.fault(entry.name, "the name is not printable UTF-8; rename it")
    elif not stat.S_ISREG(mode):
        reader.fault(entry.name, f"expected a file, got {kind_of(mode)}; rename or remove it")
    elif suffix != SUFFIX:
        reader.fault(entry.name, f"rule files end in `{SUFFIX}`; rename it")
    elif reader.has_room(entry.name, entry.status.st_size):
        try:
            if _leads_out(entry):
                reader.fault(
                    entry.name, "a symbolic link to a file outside of the folder, which is not read; copy the file"
                )
            else:
                reader.add(entry.name, _bytes_of(entry.path))
        except OSError as error:
            reader.fault(entry.name, _why(entry, error))


def _leads_out(entry: FolderEntry) -> bool:
    """Whether an entry is a link to a file elsewhere, whose text a fault would quote.

    It may lead to another file of the folder or of a linked folder, as in a mounted ConfigMap.
    """
    if not entry.path.is_symlink():
        return False
    path = entry.path.absolute()  # only here, as the folders above may not be readable
    root = path.parents[len(PurePosixPath(entry.name).parts) - 1]
    roots = (root, root.resolve())
    for _ in range(MAX_LINKS):
        if not path.is_symlink():
            found = entry.path.resolve()  # not this path if a target has `..` behind a link to a folder
            return found != path.resolve() or found.suffix != SUFFIX
        path = Path(os.path.normpath(path.parent / path.readlink()))
        if not any(map(path.is_relative_to, roots)):
            return True
    return True


def _bytes_of(path: Path) -> bytes:
    """The bytes of a regular file; its size is checked again, because it may have grown or been replaced."""
    data = read_at_most(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"larger than the {MAX_BYTES} bytes allowed for a rule file; split it")
    return data


def _why(entry: FolderEntry, error: OSError) -> str:
    """Why an entry cannot be read, and what to do."""
    reason = error.strerror or str(error)
    if not entry.name and isinstance(error, FileNotFoundError | NotADirectoryError):
        return "no such folder; name one with `--rules` or RUNNER_POLICY_RULES"
    if isinstance(error, FileNotFoundError) and entry.path.is_symlink():
        target = printable(str(entry.path.readlink()))
        return f"a symbolic link to `{target}`, which does not exist; restore that, or remove the link"
    if isinstance(error, PermissionError):
        return f"cannot be read: {reason}; give the service the right to read it"
    if error.errno == ELOOP:
        return (
            f"symbolic links form a loop, or folders are nested more than {MAX_DEPTH} deep; "
            "remove a link, or move the folder up"
        )
    return f"cannot be read: {reason}"


def fingerprint(folder: Path) -> tuple[object, ...]:
    """A value that changes with any file of the folder, including link targets; only metadata is read."""
    states: list[object] = []
    for number, entry in enumerate(entries(folder)):
        if number == MAX_NAMES:
            break
        state = entry.status
        states.append(
            (entry.name, state.errno)
            if isinstance(state, OSError)
            else (entry.name, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        )
    return tuple(states)
