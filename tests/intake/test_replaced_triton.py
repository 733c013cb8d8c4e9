"""Commands of pip that remove or replace Triton before vLLM starts: a warning, and a doubt about the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deployments import TODAY

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

V = "vllm serve dense"


def doubts(ask: Asking, script: str) -> tuple[list[str], list[str]]:
    """The warnings about Triton, and the reasons why the deployment is not certain."""
    request = read_request(ask.request(script), ask.policy.releases)
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    warnings = [each for each in ask.policy.assemble(result).warnings if "without Triton" in each]
    try:
        require_known_values(result.intake, "/deployment")
    except RequestInvalid as error:
        return warnings, [fault.message for fault in error.faults]
    return warnings, []


@pytest.mark.parametrize(
    ("script", "subcommand", "named"),
    [
        (f"pip uninstall -y triton; {V}", "uninstall", "triton"),
        (f"pip install triton==2.0; {V}", "install", "triton==2.0"),
        (f"pip3 install -U 'Triton>=3' && {V}", "install", "Triton>=3"),
        (f"python -m pip uninstall -y pytorch-triton-rocm\n{V}", "uninstall", "pytorch-triton-rocm"),
        (f"uv pip uninstall pytorch_triton_xpu; exec {V}", "uninstall", "pytorch_triton_xpu"),
        (f"bash -c 'pip install pandas triton[tests]; {V}'", "install", "triton[tests]"),
        (f"bash -c 'pip uninstall -y triton'; {V}", "uninstall", "triton"),
        (f"sudo sh -ec 'cd /x && pip install \"triton==2.0\"; ls'; {V}", "install", "triton==2.0"),
        (f"for i in 1 2; do pip uninstall -y triton; {V}; done", "uninstall", "triton"),
    ],
)
def test_triton_may_be_absent(ask: Asking, script: str, subcommand: str, named: str) -> None:
    why = (
        f"`pip {subcommand}` of `{named}` may leave vLLM without Triton or with another one, and it chooses the runner "
        "by whether Triton works"
    )
    warnings, faults = doubts(ask, script)
    assert warnings == [why]
    assert [each.startswith(why) for each in faults] == [True]


@pytest.mark.parametrize(
    "command",
    [
        *("echo triton | xargs pip uninstall -y", "pip freeze | xargs -n 1 pip3 uninstall -y", "pip uninstall -yr /r"),
        *("pip uninstall -y -r /r", "pip uninstall --requirement=/r -y", 'pip uninstall -y "$X"', "pip uninstall tri*"),
    ],
)
def test_packages_that_are_not_known_may_be_triton(ask: Asking, command: str) -> None:
    why = "`pip uninstall` of packages that are not known may leave vLLM without Triton or with another one"
    warnings, faults = doubts(ask, f"{command}; {V}")
    assert [each.startswith(why) for each in warnings] == [True]
    assert any(each.startswith(why) for each in faults)


@pytest.mark.parametrize(
    "script",
    [
        f"pip uninstall -y pandas; {V}",
        f"pip install pandas; {V}",
        f"pip show triton; {V}",
        f"pip install triton-kernels tritonclient triton.tools; {V}",
        f"echo pip uninstall triton; {V}",
        f"{V}; pip uninstall -y triton",
    ],
)
def test_other_commands_leave_triton_as_it_is(ask: Asking, script: str) -> None:
    assert doubts(ask, script) == ([], [])
