"""Files that other processes watch, and the folder of a run."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def use_new_folder(config: pytest.Config) -> None:
    """Keep the files of tests, and those that programs keep for their user, in a folder of this process.

    It is removed at the end of the run.
    """
    folder = Path(tempfile.mkdtemp(prefix="runner-policy-"))
    folder.chmod(0o755)
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
    config.option.basetemp = config.option.basetemp or str(folder / "t")
    os.environ |= {f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("STATE", "CACHE", "DATA")}


class CopiedFolder:
    """A folder that tests copy. The YAML files of a copy are links, so that it takes a tenth of the time.

    To change a file of a copy, replace it (``replace_file``).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state = self._found()

    def copy_to(self, target: Path) -> Path:
        """A new copy."""
        return Path(shutil.copytree(self.folder, target, copy_function=link_yaml))

    def is_unchanged(self) -> bool:
        """Whether no file was written into."""
        return self._found() == self._state

    def _found(self) -> list[tuple[str, int, int]]:
        files = [(each.path, each.stat()) for folder, _, _ in os.walk(self.folder) for each in os.scandir(folder)]
        return sorted((path, found.st_mtime_ns, found.st_size) for path, found in files)


def link_yaml(source: str, target: str) -> None:
    """Link a YAML file, and copy any other."""
    (os.link if source.endswith(".yaml") else shutil.copyfile)(source, target)


def replace_file(file: Path, text: str) -> None:
    """Write a file as an editor does: a new file is renamed to it, so no reader sees it half written."""
    part = file.with_name(f".{file.name}.swp")
    part.write_text(text)
    part.replace(file)
