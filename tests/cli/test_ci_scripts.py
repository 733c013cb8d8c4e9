"""Where `.ci/rules` and `.ci/new-release` write their reports."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from processes import forked_program

if TYPE_CHECKING:
    from pathlib import Path

EARLIER = "earlier\n" * 50
REPORT = ["## What this edit of the rules changes", "", "- no deployment is affected (proved)"]
NOTICE = "::notice::no deployment is affected (proved)"
DRAFT = ["## vLLM 9.9.9 is not known yet", "", "```", "verify 9.9.9 --draft", "```"]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A folder in place of `.venv` whose `runner-policy` skips the slow steps: mutants, proofs, downloads."""
    command = tmp_path / "venv" / "bin" / "runner-policy"
    command.parent.mkdir(parents=True)
    real = forked_program(tmp_path)
    command.write_text(
        f'#!/bin/sh\ncase "$1 $2" in\n  "rules diff") exec {real} "$@" ;;\n  verify*) echo "$@" ;;\nesac\n'
    )
    command.chmod(0o755)
    python = command.with_name("python")
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return tmp_path / "venv"


def printed_to_file(root: Path, environment: Path, script: str, **variables: str) -> list[str]:
    """The output of a script in a file to which a shell writes before and after it."""
    file = environment / "printed"
    shell = f"printf %s {shlex.quote(EARLIER)}; {script} && echo after"
    variables = {**os.environ, "VENV": str(environment), **variables}
    with file.open("wb") as out:
        subprocess.run(["sh", "-c", shell], cwd=root, env=variables, stdout=out, check=True)
    text = file.read_text()
    assert text.startswith(EARLIER)
    return text.removeprefix(EARLIER).splitlines()


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("sh .ci/rules rules", REPORT),
        ("sh .ci/rules rules github", [*REPORT, NOTICE]),
        ("sh .ci/new-release 9.9.9", DRAFT),
    ],
)
def test_a_report_on_standard_output_overwrites_nothing_in_a_file(
    root: Path, environment: Path, script: str, printed: list[str]
) -> None:
    assert printed_to_file(root, environment, script) == [*printed, "after"]


@pytest.mark.parametrize(
    ("script", "printed", "summary"),
    [
        ("sh .ci/rules rules", [], REPORT),
        ("sh .ci/rules rules github", [NOTICE], REPORT),
        ("sh .ci/new-release 9.9.9", [], DRAFT),
    ],
)
def test_a_report_is_appended_to_the_summary(
    root: Path, environment: Path, script: str, printed: list[str], summary: list[str]
) -> None:
    file = environment / "summary"
    file.write_text("before\n")
    assert printed_to_file(root, environment, script, SUMMARY=str(file)) == [*printed, "after"]
    assert file.read_text().splitlines() == ["before", *summary]
