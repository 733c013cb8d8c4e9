"""Processes that tests start end with the tests, even if the tests are killed, and under any user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import PATIENCE, ROOT

from .conftest import lives, until

if TYPE_CHECKING:
    from pathlib import Path

STARTS = """
import subprocess, time
from pathlib import Path
from processes import bound
with subprocess.Popen(bound(["sleep", "600"], {signal!r}), **{options}) as process:
    while Path(f"/proc/{{process.pid}}/comm").read_text() != "sleep\\n":  # setpriv has set the signal then
        time.sleep(0.01)
    print(process.pid, flush=True)
"""
SERVES = """
import sys
from pathlib import Path
from api.conftest import serving
with serving(Path(sys.argv[1])) as server:
    print(server.process.pid, flush=True)
    sys.stdin.read()
"""
DATABASE = """
import sys
from postgres import postgres
with postgres() as server:
    print(*server._processes(), flush=True)
    sys.stdin.read()
"""


def pids_left_by(code: str, *arguments: str) -> list[int]:
    """The processes that a program has printed and that lived when it was killed."""
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = [int(pid) for pid in process.stdout.readline().split()]
        found = [pid for pid in printed if lives(pid)]  # PostgreSQL starts and ends some of its processes all the time
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
    assert found
    return found


OPTIONS: list[dict[str, Any]] = [{}, *([{"user": "nobody", "extra_groups": []}] if os.geteuid() == 0 else [])]


@pytest.mark.parametrize("options", OPTIONS, ids=["own user", "nobody"][: len(OPTIONS)])
@pytest.mark.parametrize("name", ["KILL", "TERM"])
def test_a_process_ends_with_the_one_that_started_it(options: dict[str, Any], name: str) -> None:
    (left,) = pids_left_by(STARTS.format(signal=name, options=options))
    until(lambda: not lives(left))


@pytest.mark.slow
def test_tests_that_are_killed_leave_no_service_behind(tmp_path: Path) -> None:
    left = pids_left_by(SERVES, str(tmp_path))
    until(lambda: not any(map(lives, left)))


@pytest.mark.slow
def test_tests_that_are_killed_leave_no_postgresql_behind() -> None:
    left = pids_left_by(DATABASE)
    until(lambda: not any(map(lives, left)))
