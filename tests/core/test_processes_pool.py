"""A pool of processes ends if one of them dies."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60
PROGRAM = """
import os, sys, time
from concurrent.futures.process import BrokenProcessPool
from policy.processes import pool

def start(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(9)

if __name__ == "__main__":
    found = pool(2, start, sys.argv[1])
    try:
        calls = [found.submit(int)]
        time.sleep(float(sys.argv[2]))
        calls.append(found.submit(int))
        print([call.result() for call in calls])
    except BrokenProcessPool:
        found.shutdown()
        print("broken")
"""


@pytest.mark.parametrize("delay", ["0", "0.005", "0.03"])
def test_a_pool_ends_when_a_process_dies_while_another_starts(tmp_path: Path, root: Path, delay: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(tmp_path / "first"), delay]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout in {"broken\n", "[0, 0]\n"}  # the other process may do both calls before the pool notices
