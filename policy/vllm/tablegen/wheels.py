"""The sources of a release: a wheel, a source archive or an unpacked folder, read as text, file by file.

Reads them and records what was read. Not here: what the text means (`modules`).
"""

import ast
import hashlib
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Final, Protocol
from weakref import finalize

from policy.errors import PolicyError
from policy.messages import quoted
from policy.parser.files import kind_of, read_at_most

MAX_ARCHIVE: Final = 512 << 20
"""The maximum size of a wheel or an archive, in bytes; vLLM's largest wheels are about 450 MB."""
MAX_FILE: Final = 4 << 20
"""The maximum size of a Python file, in bytes; vLLM's largest is 335 kB."""
MAX_READ: Final = 256 << 20
"""The maximum total size of the Python files that are read, in bytes; vLLM has 39 MB of them."""
MAX_UNPACKED: Final = 2 << 30
"""The maximum total size of the files in an archive, in bytes."""
MAX_FILES: Final = 100_000
"""The maximum number of files in a source; a folder with all packages of an environment has tens of thousands."""


class ReleaseSource(Protocol):
    """A set of Python files, by path in the package: `vllm/config/model.py`."""

    def paths(self) -> frozenset[str]:
        """The paths of all Python files."""

    def text(self, path: str) -> str:
        """The text of one file."""


class InvalidSource(PolicyError):
    """A source that is not a file or folder, or is larger than any release."""


class BoundedReader:
    """Reads the files of a source, up to a maximum size for each and in total."""

    def __init__(self) -> None:
        self._left = MAX_READ

    def read(self, file: IO[bytes], path: str) -> bytes:
        """The content of a file.

        Raises:
            InvalidSource: it is too large, or all files together are.
        """
        data = file.read(MAX_FILE + 1)
        self._left -= len(data)
        if len(data) > MAX_FILE:
            raise InvalidSource(f"{quoted(path)} has more than {MAX_FILE:,} bytes")
        if self._left < 0:
            raise InvalidSource(f"its Python files have more than {MAX_READ:,} bytes")
        return data


def open_archive(path: Path) -> IO[bytes]:
    """A wheel or an archive, opened.

    Raises:
        InvalidSource: it is not a file, or is too large.
        OSError: it cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe without a writer would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_ARCHIVE:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise InvalidSource(f"expected a file or a folder, got {kind_of(found.st_mode)}")
    raise InvalidSource(f"the file has {found.st_size:,} bytes; expected at most {MAX_ARCHIVE:,}")


def too_many_files() -> InvalidSource:
    """The error for a source with too many files."""
    return InvalidSource(f"more than {MAX_FILES:,} files")


class WheelSource:
    """The Python files of a wheel; nothing is unpacked or installed."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel
        opened = open_archive(wheel)
        finalize(self, opened.close)  # `ZipFile` closes only files that it has opened itself
        self._zip = zipfile.ZipFile(opened)
        self._reader = BoundedReader()
        names = self._zip.namelist()
        if len(names) > MAX_FILES:
            raise too_many_files()
        self._paths = frozenset(name for name in names if name.endswith(".py"))

    def paths(self) -> frozenset[str]:
        """The paths of all Python files."""
        return self._paths

    def text(self, path: str) -> str:
        """The text of one file."""
        with self._zip.open(path) as file:
            return self._reader.read(file, path).decode("utf-8")


class FolderSource:
    """An unpacked package: the folder that contains `vllm/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._reader = BoundedReader()
        found = list(islice(folder.rglob("*.py"), MAX_FILES + 1))
        if len(found) > MAX_FILES:
            raise too_many_files()
        self._paths = frozenset(path.relative_to(folder).as_posix() for path in found)

    def paths(self) -> frozenset[str]:
        """The paths of all Python files."""
        return self._paths

    def text(self, path: str) -> str:
        """The text of one file."""
        data = read_at_most(self.folder / path, MAX_FILE + 1)
        return self._reader.read(BytesIO(data), path).decode("utf-8")


class ArchiveSource:
    """The Python files of a source archive, `vllm-0.33.0.tar.gz`; nothing is unpacked, and its build is not run."""

    def __init__(self, archive: Path) -> None:
        self._texts: dict[str, str] = {}
        reader = BoundedReader()
        unpacked = 0
        with open_archive(archive) as opened, tarfile.open(fileobj=opened) as members:
            for number, member in enumerate(members):
                unpacked += member.size  # iterating unpacks every member, even if it is not read
                if number == MAX_FILES:
                    raise too_many_files()
                if unpacked > MAX_UNPACKED:
                    raise InvalidSource(f"its files have more than {MAX_UNPACKED:,} bytes")
                path = member.name.partition("/")[2]
                file = members.extractfile(member) if member.isfile() and path.endswith(".py") else None
                if file is not None:
                    self._texts[path] = reader.read(file, path).decode("utf-8", "replace")

    def paths(self) -> frozenset[str]:
        """The paths of all Python files, below the archive's own folder."""
        return frozenset(self._texts)

    def text(self, path: str) -> str:
        """The text of one file."""
        return self._texts[path]


class SourceReader:
    """Several sources as one, and a record of the files that were read."""

    def __init__(self, *sources: ReleaseSource) -> None:
        self._where = {path: source for source in reversed(sources) for path in source.paths()}
        self._read: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._trees: dict[str, ast.Module] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._where

    def text(self, path: str) -> str:
        """The text of a file, which is recorded as read."""
        if path not in self._texts:
            self._texts[path] = self._where[path].text(path)
            self._read[path] = hashlib.sha256(self._texts[path].encode()).hexdigest()
        return self._texts[path]

    def tree(self, path: str) -> ast.Module:
        """The syntax tree of a file, parsed once for all platforms."""
        if path not in self._trees:
            self._trees[path] = ast.parse(self.text(path))
        return self._trees[path]

    def under(self, prefix: str) -> Iterator[str]:
        """The paths below a folder, sorted."""
        return (path for path in sorted(self._where) if path.startswith(prefix))

    def record(self, package: str) -> dict[str, object]:
        """The number of files of a package that were read, and one digest over their names and contents."""
        read = sorted((path, digest) for path, digest in self._read.items() if path.startswith(f"{package}/"))
        lines = "".join(f"{digest}  {path}\n" for path, digest in read)
        return {"files": len(read), "files_sha256": hashlib.sha256(lines.encode()).hexdigest()}


def downloaded(distributions: tuple[str, ...], version: str, cache: Path) -> Path:
    """The wheel of the first distribution that has the version, from the cache or by `pip download`.

    Nothing is built or installed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    for distribution in distributions:
        found = _cached_wheel(distribution, version, cache)
        if found is not None:
            return found
    faults = []
    for distribution in distributions:
        requirement = f"{distribution}=={version}"
        pip = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary=:all:",
            "--dest",
            str(cache),
            requirement,
        ]
        command = [sys.executable, *pip]
        run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 our own arguments
        found = _cached_wheel(distribution, version, cache)
        if run.returncode == 0 and found is not None:
            return found
        faults.append(f"{requirement}: {run.stderr.strip().splitlines()[-1:]}")
    raise FileNotFoundError("no wheel could be downloaded: " + "; ".join(faults))


def sha256(path: Path) -> str:
    """The SHA-256 of a file, as package indexes show it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cached_wheel(distribution: str, version: str, cache: Path) -> Path | None:
    wheels = sorted(cache.glob(f"{distribution.replace('-', '_')}-{version}-*.whl"))
    return wheels[0] if wheels else None
