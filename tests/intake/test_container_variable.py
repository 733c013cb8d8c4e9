"""A decision whose variable would not reach vLLM says so, with the place in the command and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.intake.container_variable import why_without_effect
from policy.intake.deployment import Deployment, Environment

if TYPE_CHECKING:
    from deployments import Asking

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
SET_TO_V1 = {VARIABLE: "0"}
NIXL = "--kv-transfer-config.kv_connector=NixlConnector --kv-transfer-config.kv_role=kv_both"
SERVE = f"vllm serve dense {NIXL}"
"""A server that the shipped house rules keep on V1 in this release."""
RELEASE = "0.23.0"


def effect(does: str, place: str, value: str = "0") -> str:
    return (
        f"setting `{VARIABLE}` in the container's `env` has no effect: the command {does} ({place}); "
        f"put `env {VARIABLE}={value}` right before vLLM's program"
    )


CLEARS = "clears it, or may change it"
SETS = "sets it to another value"

PROGRAMS: list[tuple[str, int]] = [
    ("env -i", 1),
    ("env -", 1),
    ("env --ignore-environment", 1),
    ("env -iC / A=b", 1),
    (f"env -u {VARIABLE}", 1),
    (f"env --unset={VARIABLE}", 1),
    (f"env -u B -u {VARIABLE} C=d", 3),
    (f"nohup env -u {VARIABLE} nice -n 5", 2),
    ("exec -c", 0),
    ("tini -- exec -cl", 2),
    ("sudo", 0),
    ("sudo -E -u vllm", 0),
    ("nice -n 5 sudo -u vllm nohup", 3),
    ("conda run -n x", 0),
    ("uv run --env-file x", 0),
]
SCRIPTS = [
    *(f"unset {VARIABLE}; {{}}", f"unset A {VARIABLE} B\n{{}}", f"true && unset {VARIABLE} && {{}}"),
    *(f"export -n {VARIABLE}; {{}}", f"(unset {VARIABLE}; {{}})", f"if [ -f x ]; then unset {VARIABLE}; fi; {{}}"),
    *(f"{VARIABLE}=$(cat x) {{}}", f"export {VARIABLE}=$RUNNER; {{}}", f"read {VARIABLE} < x; {{}}"),
    *(f"env -u {VARIABLE} {{}}", "exec env -i {}", "exec -c {}", "sudo {}", "bash -lc '{}'", "env -i bash -c '{}'"),
    *(f"eval 'unset {VARIABLE}; {{}}'", f"unset {VARIABLE}; eval '{{}}'", f"bash -c 'unset {VARIABLE}; {{}}'"),
]
WITH_EFFECT = [
    *("{}", "nohup {}", "A=b {}", "env A=b {}", "env -u OTHER {}", "exec {}", "bash -c '{}'", "unset OTHER; {}"),
    *(f"export {VARIABLE}; {{}}", f"export {VARIABLE}=${{{VARIABLE}:-0}}; {{}}", f"(unset {VARIABLE}); {{}}"),
    *(f"echo {VARIABLE}; {{}}", f"echo 'unset {VARIABLE}'; {{}}", f"{{}}; unset {VARIABLE}"),
]


def asked(ask: Asking, args: list[str] | str, **deployment: Any) -> tuple[str | None, dict[str, str], list[str]]:
    """The runner, the variable to set, and the warnings about it."""
    found = ask(args, RELEASE, upstream=False, **deployment)
    return found.runner, found.set_env, [each for each in found.warnings if "has no effect" in each]


@table("env", [{}, SET_TO_V1])
@table(("before", "place"), PROGRAMS)
def test_a_program_that_clears_the_variable_is_named_by_its_place(
    ask: Asking, before: str, place: int, env: dict[str, str]
) -> None:
    words = [*before.split(), *SERVE.split()]
    message = effect(CLEARS, f"args[{place}]")
    assert asked(ask, words, env=env) == ("v1", SET_TO_V1, [message])
    remedied = [*before.split(), "env", f"{VARIABLE}=0", *SERVE.split()]
    assert asked(ask, remedied, env=env) == ("v1", {}, [])


@table("script", SCRIPTS)
def test_a_script_that_clears_the_variable_is_named_by_its_place(ask: Asking, script: str) -> None:
    line, remedied = script.replace("{}", SERVE), script.replace("{}", f"env {VARIABLE}=0 {SERVE}")
    for env in ({}, SET_TO_V1):
        assert asked(ask, line, env=env) == ("v1", SET_TO_V1, [effect(CLEARS, "args")])
        words = ["env", "A=b", "bash", "-c", line]
        assert asked(ask, words, env=env) == ("v1", SET_TO_V1, [effect(CLEARS, "args[4]")])
        assert asked(ask, remedied, env=env) == ("v1", {}, [])
        assert asked(ask, ["bash", "-c", remedied], env=env) == ("v1", {}, [])


@table("script", WITH_EFFECT)
def test_a_variable_that_reaches_vllm_has_no_such_warning(ask: Asking, script: str) -> None:
    line = script.replace("{}", SERVE)
    for args in (line, ["bash", "-c", line]):
        assert asked(ask, args, env=SET_TO_V1) == ("v1", {}, [])
        assert asked(ask, args)[2] == []


@pytest.mark.parametrize("before", ["env -i", "sudo", f"env -u {VARIABLE}"])
def test_a_variable_that_is_not_needed_has_no_such_warning(ask: Asking, before: str) -> None:
    assert asked(ask, f"{before} vllm serve dense") == ("v2", {}, [])


@table(
    ("args", "place"),
    [
        ([f"{VARIABLE}=0", "vllm", "serve", "m"], "args[0]"),
        (["env", "A=b", f"{VARIABLE}=0", "vllm", "serve", "m"], "args[2]"),
        (["nohup", "env", "-S", f"{VARIABLE}=0 vllm serve m"], "args[2]"),
        (["sh", "-c", f"{VARIABLE}=0 vllm serve m"], "args[2]"),
        (["sh", "-c", f"export {VARIABLE}=0; vllm serve m"], "args[2]"),
        (f"{VARIABLE}=0 vllm serve m", "args"),
        (f"{VARIABLE}=0 --model m", "args"),
        (["env", f"{VARIABLE}=1", "sh", "-c", f"export {VARIABLE}=0; vllm serve m"], "args[4]"),
        (["env", f"{VARIABLE}=0", "sh", "-c", "vllm serve m"], "args[1]"),
    ],
)
def test_a_command_that_sets_another_value_is_named_by_its_place(args: list[str] | str, place: str) -> None:
    deployment = Deployment(args, {}, {}, {}, Environment())
    assert why_without_effect(deployment, VARIABLE, "1") == effect(SETS, place, "1")
    assert why_without_effect(deployment, VARIABLE, "0") == ""


def test_a_command_that_is_unreadable_with_the_variable_has_a_warning() -> None:
    deployment = Deployment(["sh", "-c", f"${{{VARIABLE}:+wrapper}} vllm serve m"], {}, {}, {}, Environment())
    assert why_without_effect(deployment, VARIABLE, "1") == (
        f"setting `{VARIABLE}` in the container's `env` has no effect: the command cannot be read with it; "
        f"put `env {VARIABLE}=1` right before vLLM's program"
    )
