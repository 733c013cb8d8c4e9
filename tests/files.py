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


def replace_file(file: Path, text: str) -> None:
    """Write a file as an editor does: a new file is renamed to it, so no reader sees it half written."""
    part = file.with_name(f".{file.name}.swp")
    part.write_text(text)
    part.replace(file)
