"""Rules are checked in separate processes, and each result is independent of the one before."""

from __future__ import annotations

import fcntl
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

import pytest

from policy.checks.check import CheckAborted, Checker
from policy.rules.catalogue import load
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING = ["releases.yaml:1:1: missing; it lists the known releases and the default one"]


@pytest.fixture
def checker() -> Iterator[Checker]:
    """A checker with a waiting process."""
    with Checker() as made:
        yield made


def unread(pipe: IO[bytes]) -> int:
    """How many bytes wait in a pipe, of which either end is given."""
    (found,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(found)


@pytest.mark.slow
def test_rules_are_checked_one_after_the_other(checker: Checker, sources: Sources) -> None:
    assert [checker.faults_of(each, None, 60) for each in (sources, Sources(), sources)] == [[], NOTHING, []]


def test_a_check_without_a_waiting_process_gives_the_same_result(sources: Sources) -> None:
    checker = Checker()
    assert [checker.faults_of(each, None, 60) for each in (sources, Sources())] == [[], NOTHING]


def test_a_check_that_takes_too_long_is_aborted_and_the_next_one_is_not(checker: Checker, sources: Sources) -> None:
    with pytest.raises(CheckAborted, match=r"^the rules could not be checked within 1e-06 s, as the machine is busy$"):
        checker.faults_of(sources, None, 1e-6)
    assert checker.faults_of(Sources(), None, 60) == NOTHING


def test_rules_that_take_too_much_processor_time_have_a_fault(checker: Checker, sources: Sources) -> None:
    known = load(sources).releases.known
    many = "".join(
        f"  - {{name: case {number}, vllm: {list(known)}, given: {{parallel_config: {{}}}}, fires: false}}\n"
        for number in range(20_000 // len(known) // 2)
    )
    cases = {
        path: text + many if path.startswith("upstream/v2/") and "accepted_mutants" not in text else text
        for path, text in sources.cases.items()
    }
    assert checker.faults_of(Sources(sources.rules, cases), None, 600, cpu_seconds=1) == [
        "checking the rules takes more than 1 s of processor time; make them simpler"
    ]
    assert checker.faults_of(Sources(), None, 60) == NOTHING


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (signal.SIGSEGV, ["the rules crashed the engine (signal 11); make their conditions simpler"]),
        (signal.SIGKILL, "the process that checks the rules was killed (signal 9)"),
        (signal.SIGTERM, "the process that checks the rules was killed (signal 15)"),
    ],
)
def test_a_crash_is_a_fault_and_a_killed_check_is_aborted(
    checker: Checker, sources: Sources, sent: signal.Signals, found: list[str] | str
) -> None:
    process = checker._next
    assert process is not None
    assert process.stdin is not None
    process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        checked = thread.submit(checker.faults_of, sources, None, 600)
        while not unread(process.stdin):
            time.sleep(0.01)
        process.send_signal(sent)
        process.send_signal(signal.SIGCONT)
        if isinstance(found, list):
            assert checked.result() == found
        else:
            with pytest.raises(CheckAborted, match=f"^{re.escape(found)}$"):
                checked.result()


def test_a_failing_check_is_a_fault_with_its_exit_code(checker: Checker) -> None:
    (fault,) = checker.faults_of(Sources({"releases.yaml": 1}), None, 60)  # type: ignore[dict-item]  # on purpose
    assert fault.startswith("checking the rules failed with the exit code 1: msgspec.ValidationError: Expected `str`")


def test_a_process_that_died_while_it_waited_is_replaced(checker: Checker) -> None:
    assert checker._next is not None
    checker._next.kill()
    checker._next.wait()
    assert checker.faults_of(Sources(), None, 60) == NOTHING


def test_a_process_that_ends_is_not_killed_by_its_own_timer() -> None:
    """Python resets the handlers of signals before it ends."""
    code = "import signal; from policy.checks.check import main; main(); print(signal.getitimer(signal.ITIMER_PROF))"
    found = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, check=True)
    assert found.stdout == "(0.0, 0.0)\n"
