"""Rules are checked in separate processes, and each result is independent of the one before."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from policy.checks.check import CheckAborted, Checker
from policy.rules.loader import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING = ["releases.yaml:1:1: missing; it lists the known releases and the default one"]


@pytest.fixture
def checker() -> Iterator[Checker]:
    """A checker with a waiting process."""
    with Checker() as made:
        yield made


@pytest.mark.slow
def test_rules_are_checked_one_after_the_other(checker: Checker, sources: Sources) -> None:
    assert [checker.faults_of(each, None, 60) for each in (sources, Sources(), sources)] == [[], NOTHING, []]


def test_a_check_without_a_waiting_process_gives_the_same_result(sources: Sources) -> None:
    checker = Checker()
    assert [checker.faults_of(each, None, 60) for each in (sources, Sources())] == [[], NOTHING]


def test_a_check_that_takes_too_long_is_aborted_and_the_next_one_is_not(checker: Checker, sources: Sources) -> None:
    with pytest.raises(CheckAborted, match=r"^checking the rules took more than 1e-06 s$"):
        checker.faults_of(sources, None, 1e-6)
    assert checker.faults_of(Sources(), None, 60) == NOTHING


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
