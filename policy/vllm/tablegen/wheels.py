"""Sources of a release: a wheel that pip downloads, or an unpacked folder; read as text, file by file.

Reads them and records what was read, as evidence. Not here: what the text means (`modules`).
"""

import ast
import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class ReleaseSource(Protocol):
    """A set of Python files, by path in the package: `vllm/config/model.py`."""

    def paths(self) -> frozenset[str]:
        """The paths of all Python files."""

    def text(self, path: str) -> str:
        """The text of one file."""


class WheelSource:
    """The Python files of a wheel; nothing is unpacked or installed."""

    def __init__(self, wheel: Path) -> None:
        self.wheel = wheel
        self._zip = zipfile.ZipFile(wheel)
        self._paths = frozenset(name for name in self._zip.namelist() if name.endswith(".py"))

    def paths(self) -> frozenset[str]:
        """The paths of all Python files."""
        return self._paths

    def text(self, path: str) -> str:
        """The text of one file."""
        return self._zip.read(path).decode("utf-8")


class FolderSource:
    """An unpacked package: the folder that contains `vllm/`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._paths = frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))

    def paths(self) -> frozenset[str]:
        """The paths of all Python files."""
        return self._paths

    def text(self, path: str) -> str:
        """The text of one file."""
        return (self.folder / path).read_text(encoding="utf-8")


class ArchiveSource:
    """The Python files of a source archive, `vllm-0.33.0.tar.gz`; nothing is unpacked, and its build is not run."""

    def __init__(self, archive: Path) -> None:
        self._texts: dict[str, str] = {}
        with tarfile.open(archive) as members:
            for member in members:
                path = member.name.partition("/")[2]
                file = members.extractfile(member) if member.isfile() and path.endswith(".py") else None
                if file is not None:
                    self._texts[path] = file.read().decode("utf-8", "replace")

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
        """The text of a file, which is then recorded as read."""
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
        found = _cached(distribution, version, cache)
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
        run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 the arguments are ours
        found = _cached(distribution, version, cache)
        if run.returncode == 0 and found is not None:
            return found
        faults.append(f"{requirement}: {run.stderr.strip().splitlines()[-1:]}")
    raise FileNotFoundError("no wheel could be downloaded: " + "; ".join(faults))


def sha256(path: Path) -> str:
    """The digest of a file, as package indexes print it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cached(distribution: str, version: str, cache: Path) -> Path | None:
    wheels = sorted(cache.glob(f"{distribution.replace('-', '_')}-{version}-*.whl"))
    return wheels[0] if wheels else None
