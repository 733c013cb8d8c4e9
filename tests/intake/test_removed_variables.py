"""A variable of the container that its command removes is not set: the decision is that without it, and certain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import TODAY
from tables import table

from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

    from policy.policy import Policy

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
UNKNOWN = f"the value of `{VARIABLE}` is not known here; it is assumed to be unset"
SERVE = "vllm serve dense"
REMOVING = [
    *(f"unset {VARIABLE}; {SERVE}", f"env -u {VARIABLE} {SERVE}", f"env -i PATH=/bin {SERVE}"),
    f"bash -c 'unset {VARIABLE}; exec {SERVE}'",
    *(f"env -iu OTHER PATH=/bin {SERVE}", f"export OTHER=1; env -iu OTHER PATH=/bin {SERVE}"),
]
KEEPING = [
    *(f"unset -f {VARIABLE}; {SERVE}", f"env -u OTHER {SERVE}", f"env -u {VARIABLE} true; {SERVE}"),
    *(f"B=1 {SERVE} & unset {VARIABLE}; wait", f"B=1 {SERVE}; unset {VARIABLE}"),
]
MAYBE_REMOVING = [f"if [ -f /x ]; then unset {VARIABLE}; fi; {SERVE}", f"unset {VARIABLE}; {VARIABLE}=0; {SERVE}"]


def decided(ask: Asking, command: str, **env: str) -> tuple[str | None, bool]:
    """The runner, and whether the variable's value is not known."""
    found = ask(command, env=env)
    return found.runner, UNKNOWN in found.warnings


@table("command", REMOVING)
def test_a_variable_that_the_command_removes_is_not_set(ask: Asking, command: str) -> None:
    assert decided(ask, command) == ("v2", False)
    assert decided(ask, command, **{VARIABLE: "0"}) == ("v2", False)


@table("command", KEEPING)
def test_a_variable_that_the_command_keeps_is_set(ask: Asking, command: str) -> None:
    assert decided(ask, command, **{VARIABLE: "0"}) == ("v1", False)


@table("command", MAYBE_REMOVING)
def test_a_variable_that_the_command_may_remove_is_not_known(ask: Asking, command: str) -> None:
    assert decided(ask, command, **{VARIABLE: "0"}) == ("v2", True)


def test_servers_of_a_script_that_may_have_other_values_are_told_apart(ask: Asking) -> None:
    """The first has none, and that of the second is not known."""
    found = ask(f"unset {VARIABLE}; {SERVE} & [ -f x ] && export {VARIABLE}=0; {SERVE}", env={VARIABLE: "1"})
    assert any("with different arguments or variables" in each for each in found.warnings)


@pytest.mark.parametrize("command", REMOVING)
def test_a_variable_that_is_removed_is_known(policy: Policy, ask: Asking, command: str) -> None:
    document: Any = ask.request(command, env={VARIABLE: "0"})
    document["deployment"]["files"] = {"dense/modules.json": "[]"}
    result = policy.evaluate(read_request(document, policy.releases), TODAY)
    assert result.intake is not None
    require_known_values(result.intake, "")
