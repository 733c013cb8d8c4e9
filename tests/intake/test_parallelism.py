"""The executor that vLLM uses, and what the CPU platform lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tables import table

if TYPE_CHECKING:
    from deployments import Asking

BACKEND = "parallel_config.distributed_executor_backend"
DENSE = ["--model", "dense"]
CPU = {"platform": "cpu"}
ONE_PROCESS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}

EXECUTORS: list[tuple[list[str], tuple[str, str]]] = [
    ([], ("uni", "default")),
    (["-tp", "1"], ("uni", "default")),
    (["-tp", "2"], ("mp", "args[2]")),
    (["-pp", "2"], ("mp", "args[2]")),
    (["-pcp", "2"], ("mp", "args[2]")),
    (["-dp", "2"], ("mp", "args[2]")),
    (["-dp", "2", "-tp", "2"], ("mp", "args[4]")),
    (["-dp", "2", "--data-parallel-backend", "ray"], ("ray", "args[4]")),
    (["--data-parallel-backend", "ray"], ("uni", "default")),
    (["-dp", "2", "--data-parallel-backend", "mp"], ("mp", "args[2]")),
    (["--distributed-executor-backend", "external_launcher"], ("external_launcher", "args[2]")),
    (["-tp", "2", "--distributed-executor-backend", "ray"], ("ray", "args[4]")),
    (["--distributed-executor-backend", "my.Executor"], ("my.Executor", "args[2]")),
]


@table(("args", "expected"), EXECUTORS, ids=[" ".join(args) for args, _ in EXECUTORS])
def test_the_executor_follows_from_the_sizes_unless_it_is_named(
    ask: Asking, args: list[str], expected: tuple[str, str]
) -> None:
    assert ask.fact(BACKEND, [*DENSE, *args]) == expected


@table(
    ("args", "value", "expected"),
    [
        ([], "2", ((2, "env.VLLM_DP_SIZE"), ("mp", "env.VLLM_DP_SIZE"))),
        (["-dp", "1"], " +4 ", ((4, "env.VLLM_DP_SIZE"), ("mp", "env.VLLM_DP_SIZE"))),
        (["-dp", "1", "-tp", "2"], "4", ((4, "env.VLLM_DP_SIZE"), ("mp", "args[4]"))),
        (["-dp", "3"], "2", ((3, "args[2]"), ("mp", "args[2]"))),
        (["-dp", "3"], "1", ((3, "args[2]"), ("mp", "args[2]"))),
        ([], "1", ((1, "default"), ("uni", "default"))),
        (["--data-parallel-size-local", "0"], "2", ((1, "default"), ("uni", "default"))),
        (["--data-parallel-size-local", "1"], "2", ((2, "env.VLLM_DP_SIZE"), ("mp", "env.VLLM_DP_SIZE"))),
        ([], "two", ((1, "default"), ("uni", "default"))),
        ([], f"{'0' * 5000}2", ((1, "default"), ("uni", "default"))),
    ],
)
def test_the_variable_states_the_ranks_unless_the_option_does(
    ask: Asking, args: list[str], value: str, expected: tuple[tuple[int, str], tuple[str, str]]
) -> None:
    """As ``ParallelConfig`` reads it in all releases."""
    env = {"VLLM_DP_SIZE": value}
    found = [ask.fact(fact, [*DENSE, *args], env=env) for fact in ("parallel_config.data_parallel_size", BACKEND)]
    assert tuple(found) == expected


ON_CPU: list[tuple[str, list[str], dict[str, str], tuple[str, str]]] = [
    ("0.22.0", [], {}, ("mp", "environment.platform")),
    ("0.33.0", [], {}, ("mp", "environment.platform")),
    ("0.22.0", [], ONE_PROCESS, ("mp", "environment.platform")),
    ("0.23.0", [], ONE_PROCESS, ("uni", "default")),
    ("0.33.0", ["-tp", "2"], {}, ("mp", "args[2]")),
]


@pytest.mark.parametrize(("release", "args", "env", "expected"), ON_CPU)
def test_the_cpu_platform_runs_one_device_in_its_own_process(
    ask: Asking, release: str, args: list[str], env: dict[str, str], expected: tuple[str, str]
) -> None:
    assert ask.fact(BACKEND, [*DENSE, *args], release, env=env, environment=CPU) == expected


def test_the_cpu_platform_has_no_dual_batch_overlap(ask: Asking) -> None:
    found = [
        ask.fact("parallel_config.enable_dbo", [*DENSE, "--enable-dbo"], environment=environment)
        for environment in ({}, CPU)
    ]
    assert found == [(True, "args[2]"), (False, "environment.platform")]
