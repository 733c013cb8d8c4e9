"""Steps between releases that several processes compare."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import active_children
from pathlib import Path
from subprocess import PIPE, Popen
from time import monotonic, sleep

import pytest
from ruletexts import rule_text

from policy.policy import Policy
from policy.proof.steps import Step, Steps
from policy.rules.catalogue import load
from policy.rules.loader import Sources

SOURCES = Sources(
    {
        "releases.yaml": "known: ['0.22.0', '0.23.0', '0.24.0', '0.25.0']\ndefault: '0.25.0'\n",
        "upstream/v2.yaml": rule_text("v2", "default-v2", "always"),
        "upstream/moe.yaml": rule_text("moe", "not-default", {"model_config.is_moe": True}, vllm=">=0.23,<0.25"),
    }
)
PATIENCE = 60
"""Seconds until a process that does not end fails a test."""
POOL = """
import sys, time
from policy.processes import pool
if __name__ == "__main__":
    found = pool(1, int)
    found.submit(int).result()
    print(next(iter(found._processes)), flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy(load(SOURCES))


@pytest.fixture(scope="module")
def expected(policy: Policy) -> list[Step]:
    """The steps, compared in this process."""
    return list(Steps(policy).all(lambda _: None))


def test_several_processes_find_the_same_steps(policy: Policy, expected: list[Step]) -> None:
    names: list[str] = []
    with Steps(policy, SOURCES, processes=2) as steps:
        assert list(steps.all(names.append)) == expected
    assert [bool(step.changes) for step in expected] == [True, False, True]
    assert names == ["0.22.0 to 0.23.0", "0.23.0 to 0.24.0", "0.24.0 to 0.25.0"]


def test_steps_are_found_without_a_process_that_was_killed(policy: Policy, expected: list[Step]) -> None:
    before = set(active_children())
    with Steps(policy, SOURCES, processes=2) as steps:
        for child in set(active_children()) - before:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
        assert list(steps.all(lambda _: None)) == expected


def test_no_process_is_left_by_a_command_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(POOL)
    with Popen([sys.executable, script], stdout=PIPE, text=True) as command:
        assert command.stdout is not None
        worker = int(command.stdout.readline())
        command.kill()
    end = monotonic() + PATIENCE
    while runs(worker):
        assert monotonic() < end, "the process goes on without the command that started it"
        sleep(0.05)


def runs(process: int) -> bool:
    """Whether a process runs and has not merely not been waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False
