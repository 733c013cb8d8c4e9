"""Engines on Ray: vLLM's workers have the environment of `ray start`, which may differ from the engine's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import TODAY
from msgspec.structs import replace
from tables import table

from policy.errors import RequestInvalid
from policy.intake.deployment import Edits
from policy.intake.result import require_known_values
from policy.request.request import read_request

if TYPE_CHECKING:
    from deployments import Asking

V = "VLLM_USE_V2_MODEL_RUNNER"
EXECUTOR = "vllm.v1.executor.ray_executor.RayDistributedExecutor"
SERVE = "vllm serve dense --distributed-executor-backend ray"
KEEP = "vLLM's workers run in Ray's processes, keep the value of these, and choose their model runner by it"
KV = """ --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'"""


def differs(value: str, own: str = "not set", name: str = V) -> str:
    return f"`{name}` is {value} for `ray start` and {own} for the engine: {KEEP}; give both the same value"


def of_ray(ask: Asking, args: list[str] | str, release: str, **fields: Any) -> list[str]:
    """The doubts about Ray's environment: each of them is a warning, and leaves the engine undecided."""
    request = read_request(ask.request(args, release, **fields), ask.policy.releases)
    result = ask.policy.evaluate(request, TODAY)
    assert result.intake is not None
    messages: list[str] = []
    try:
        require_known_values(result.intake, "/deployment")
    except RequestInvalid as error:
        messages = [fault.message for fault in error.faults]
    found = [each for each in messages if "Ray" in each]
    assert set(found) <= set(ask.policy.assemble(result).warnings)
    return found


DIFFERENT: list[tuple[str, dict[str, str], str]] = [
    (f"{V}=0 ray start --head; {SERVE}", {}, differs("`0`")),
    (f"{V}=0 ray start --head && exec {SERVE}", {}, differs("`0`")),
    (f"env {V}=0 ray start --head; {SERVE}", {}, differs("`0`")),
    (f"sh -c 'export {V}=0; ray start --head'; {SERVE}", {}, differs("`0`")),
    (f"{V}=0 bash /x/multi-node-serving.sh leader --ray_cluster_size=2; {SERVE}", {}, differs("`0`")),
    (f"{V}=0 python3 -m ray.scripts.scripts start --head; {SERVE}", {}, differs("`0`")),
    (f"{V}=0 ray start --head; vllm serve dense -dp 2 --data-parallel-backend ray", {}, differs("`0`")),
    (
        f"{V}=0 ray start --head; vllm serve dense --distributed-executor-backend {EXECUTOR}",
        {},
        differs("`0`"),
    ),
    (f"{V}=0 ray start --head; {V}=1 {SERVE}", {}, differs("`0`", "`1`")),
    (f"ray start --head; {V}=0 {SERVE}{KV}", {V: "1"}, differs("`1`", "`0`")),
    (f"{V}=1 ray start --head; {V}=0 {SERVE}{KV}", {}, differs("`1`", "`0`")),
    (f"ray start --head; export {V}=1; {SERVE}", {V: "0"}, differs("`0`", "`1`")),
    (f"{V}=$(cat v) ray start --head; {SERVE}", {}, differs("not known")),
    (f"{V}=0 ray start --head; {SERVE} --prefill-context-parallel-size 2", {}, differs("`0`")),
    (f"VLLM_MLA_DISABLE=1 ray start --head; {SERVE}", {}, differs("`1`", name="VLLM_MLA_DISABLE")),
    (f"TORCH_COMPILE_DISABLE=1 ray start --head; {SERVE}", {}, differs("`1`", name="TORCH_COMPILE_DISABLE")),
    (f"VLLM_PLUGINS=x ray start --head; {SERVE}", {}, differs("`x`", name="VLLM_PLUGINS")),
    (
        f"sudo ray start --head; {SERVE}",
        {},
        "in the command that starts Ray: `sudo` may change the variables of what it starts",
    ),
]


@table("release", ["0.23.0", "0.33.0"])
@table(("script", "env", "expected"), DIFFERENT)
def test_a_variable_that_differs_for_ray_leaves_the_runner_undecided(
    ask: Asking, release: str, script: str, env: dict[str, str], expected: str
) -> None:
    assert of_ray(ask, ["sh", "-c", script], release, env=env) == [expected]
    assert of_ray(ask, script, release, env=env) == [expected]


@table("release", ["0.23.0", "0.33.0"])
@table(
    ("script", "env"),
    [
        (f"ray start --head; {SERVE}", {}),
        (f"ray start --head; {SERVE}", {V: "0"}),
        (f"export {V}=0; ray start --head; {SERVE}", {}),
        (f"{V}=0 ray start --head; {V}=0 {SERVE}", {}),
        (f"ray start --head; {V}=0 {SERVE}", {}),
        (f"{V}=0 ray start --head; vllm serve dense -tp 2", {}),
        (f"{V}=0 ray start --head; vllm serve dense --distributed-executor-backend mp", {}),
        (f"{V}=0 ray status; {SERVE}", {}),
        (f"{V}=0; ray start --head; {SERVE}", {}),
        (f"NCCL_DEBUG=INFO ray start --head; {SERVE}", {}),
        (f"cd /data; ray start --head; cd /; {SERVE}", {}),
        (f"exec {SERVE}; {V}=0 ray start --head", {}),
        (f"pip install ray; ray start --head; {SERVE}", {}),
        ("vllm serve dense --distributed-executor-backend ray", {V: "0", "RAY_ADDRESS": "a:6379"}),
    ],
)
def test_an_environment_that_does_not_differ_for_ray_is_no_doubt(
    ask: Asking, release: str, script: str, env: dict[str, str]
) -> None:
    assert of_ray(ask, ["sh", "-c", script], release, env=env) == []


@pytest.mark.parametrize("platform", ["tpu", "ascend"])
def test_a_platform_with_a_runner_of_its_own_does_not_read_the_variable(ask: Asking, platform: str) -> None:
    script = f"{V}=0 ray start --head; {SERVE}"
    assert of_ray(ask, ["sh", "-c", script], "0.33.0", environment={"platform": platform}) == []


@table(
    ("script", "cause"),
    [
        (
            f"PYTHONPATH=/x ray start --head; {SERVE}",
            "in the command that starts Ray: the variable `PYTHONPATH` may make another vLLM run",
        ),
        (f"ray start --head; PYTHONPATH=/x {SERVE}", "the variable `PYTHONPATH` may make another vLLM run"),
        (
            f"export PYTHONPATH=/x; ray start --head; {SERVE}",
            "the variable `PYTHONPATH` may make another vLLM run",
        ),
        (f"PYTHONPATH=/x ray start --head; {SERVE.replace('ray', 'mp')}", ""),
    ],
)
def test_another_vllm_may_run_in_rays_processes(ask: Asking, script: str, cause: str) -> None:
    request = read_request(ask.request(["sh", "-c", script], "0.33.0"), ask.policy.releases)
    intake = ask.policy.evaluate(request, TODAY).intake
    assert intake is not None
    assert (intake.installation.cause if intake.installation else "") == cause


def test_a_remedy_sets_the_variable_for_ray_too(ask: Asking) -> None:
    """A variable of the container is one of Ray's, unless the command sets another value for it."""
    for script, expected in ((f"ray start; {SERVE}", []), (f"{V}=0 ray start; {SERVE}", [differs("`0`", "`1`")])):
        request = read_request(ask.request(["sh", "-c", script], "0.33.0", env={V: "0"}), ask.policy.releases)
        assert request.deployment is not None
        edited = replace(request.deployment, edits=Edits(variables={V: "1"}))
        intake = ask.policy.evaluate(replace(request, deployment=edited), TODAY).intake
        assert intake is not None
        assert intake.program_doubts == expected
