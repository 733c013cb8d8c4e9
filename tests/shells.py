"""Scripts run by the shells of this machine, in which programs write to a file instead of the output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SHELLS = [name for name in ("bash", "sh") if shutil.which(name)]
DESCRIPTOR = 9
"""The file descriptor to which programs write; scripts may redirect the others."""
RUNS = f"import os, sys; os.dup2(int(sys.argv[1]), {DESCRIPTOR}); os.execvp(sys.argv[2], sys.argv[2:])"
"""Gives the shell the file, as `DESCRIPTOR`."""


def lines_of(
    shell: str, script: str, folder: Path, env: Mapping[str, str], output: Path, arguments: Sequence[str] = ()
) -> list[str]:
    """The lines that programs write to `DESCRIPTOR` while a shell runs a script in a folder; ``output`` is the file."""
    with output.open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        subprocess.run(
            [sys.executable, "-ISc", RUNS, str(file.fileno()), shell, "-c", script, *arguments],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            close_fds=False,
            timeout=60,
        )
    return output.read_text(encoding="utf-8").splitlines()
