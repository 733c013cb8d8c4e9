"""Forked processes of the tests, and the program that stands for one, behave as processes that were started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from api.conftest import PATIENCE, ROOT
from processes import fork_server, forked

SERVES = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
os.write(1, b"r")
time.sleep(600)
"""


def started(code: str) -> subprocess.Popen[bytes]:
    """The program that stands for Python, once the code that it runs has written a byte."""
    program = fork_server().folder / "python"
    process = subprocess.Popen([program, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"r"
    return process


def test_several_threads_may_wait_for_a_process() -> None:
    with Path(os.devnull).open("r+b") as null:
        process = forked([sys.executable, "-c", "import sys; sys.exit(3)"], os.environ, (null.fileno(),) * 3)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(process.wait, PATIENCE) for _ in range(4)]
        assert [each.result() for each in waiting] == [3] * 4


def test_a_signal_that_comes_when_a_command_has_just_begun_or_ended_reaches_it_or_nothing() -> None:
    begun = [started(SERVES) for _ in range(10)]
    ended = [started("import os; os.write(1, b'r')") for _ in range(10)]
    for process in begun + ended:
        process.terminate()
    found = [(*process.communicate(timeout=PATIENCE), process.returncode) for process in begun + ended]
    assert found[:10] == [(b"", b"", 7)] * 10
    assert set(found[10:]) <= {(b"", b"", 0), (b"", b"", -signal.SIGTERM)}


def test_a_command_ends_with_the_program_that_stands_for_it() -> None:
    process = started(SERVES)
    process.kill()
    assert process.communicate(timeout=PATIENCE) == (b"", b"")  # the command has closed its streams


TESTS = """
import os
from pathlib import Path
import pytest
def test_that_passes() -> None:
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes()
    assert b"worker_server.py" in parent
def test_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    os.system("echo captured")
    assert capfd.readouterr().out == "captured\\n"
    print("printed by", os.environ["PYTEST_XDIST_WORKER"])
    assert [1, 2] == [1, 3]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "reported"),
    [
        ("import nothing_of_this_name", ("No module named 'nothing_of_this_name'", "1 error in")),
        (
            "import pytest; pytest.skip('not here', allow_module_level=True)",
            ("1 failed, 1 passed, 1 skipped in", "printed by gw", "At index 1 diff: 2 != 3", ": not here"),
        ),
    ],
    ids=["invalid", "skipped"],
)
def test_processes_of_xdist_are_forked_and_report_as_ever(tmp_path: Path, more: str, reported: tuple[str, ...]) -> None:
    """If the tests cannot be collected, xdist starts its own processes, which report why."""
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_b.py").write_text(more)
    options = ["-p", "conftest", "-c", str(ROOT / "pyproject.toml"), "-n", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    missing = [text for text in reported if text not in done.stdout]
    assert (done.returncode, missing) == (1, []), done
