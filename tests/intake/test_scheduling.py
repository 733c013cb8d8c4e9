"""Whether scheduling is asynchronous: stated, or as the release chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tables import table

if TYPE_CHECKING:
    from deployments import Asking

FACT = "scheduler_config.async_scheduling"
DENSE = ["--model", "dense"]
NGRAM = ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3}']
SEPARATE = ["--speculative-config", '{"model": "draft", "num_speculative_tokens": 3}']
EAGLE = ["--speculative-config", '{"model": "eagle3-draft", "num_speculative_tokens": 3}']
UNPADDED = [
    "--speculative-config",
    '{"model": "eagle3-draft", "num_speculative_tokens": 3, "disable_padded_drafter_batch": true}',
]
RAY = ["--distributed-executor-backend", "ray"]
ON = (True, "default")
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
OLD_RAY = {"VLLM_USE_RAY_V2_EXECUTOR_BACKEND": "0"}
NEW_RAY = {"VLLM_USE_RAY_V2_EXECUTOR_BACKEND": "1"}

CHOSEN: list[tuple[list[str], dict[str, str], dict[str, tuple[bool, str]]]] = [
    ([], {}, {"0.20.0": ON, "0.33.0": ON}),
    (["--async-scheduling"], {}, {"0.33.0": (True, "args[2]")}),
    (["--no-async-scheduling"], {}, {"0.33.0": (False, "args[2]")}),
    (NGRAM, {}, {"0.32.0": (False, "args[2]"), "0.33.0": ON}),
    (SEPARATE, {}, {"0.27.1": (False, "model_configs/draft"), "0.28.0": ON}),
    (EAGLE, {}, {"0.20.0": ON, "0.33.0": ON}),
    (UNPADDED, {}, {"0.32.0": (False, "args[2]"), "0.33.0": ON}),
    (UNPADDED, V1, {"0.33.0": (False, "args[2]")}),
    (["-pp", "2"], V1, {"0.30.0": ON, "0.31.0": (False, "args[2]")}),
    (["-pp", "2"], V2, {"0.30.0": ON, "0.31.0": ON}),
    (["-pp", "2", "--async-scheduling"], V1, {"0.31.0": (True, "args[4]")}),
    (RAY, {}, {"0.20.2": (False, "args[2]"), "0.21.0": ON, "0.33.0": ON}),
    (RAY, NEW_RAY, {"0.20.0": ON}),
    (RAY, OLD_RAY, {"0.21.0": (False, "args[2]"), "0.32.0": (False, "args[2]"), "0.33.0": ON}),
    (["--distributed-executor-backend", "external_launcher"], {}, {"0.33.0": ON}),
    (["--distributed-executor-backend", "my.Executor"], {}, {"0.33.0": (False, "args[2]")}),
]


@table(("args", "env", "expected"), CHOSEN, ids=[" ".join([*args, *env]) for args, env, _ in CHOSEN])
def test_scheduling_is_as_the_release_chooses(
    ask: Asking, args: list[str], env: dict[str, str], expected: dict[str, tuple[bool, str]]
) -> None:
    assert {release: ask.fact(FACT, [*DENSE, *args], release, env=env) for release in expected} == expected


ELSEWHERE: list[tuple[list[str], dict[str, Any], tuple[bool, str]]] = [
    (["--model", "pooling"], {}, (False, "model_configs/pooling/architectures")),
    (["--model", "dense", "--runner", "pooling"], {}, (False, "args[2]")),
    (["--model", "dense"], {"platform": "cpu"}, (False, "environment.platform")),
    (["--model", "dense", "--async-scheduling"], {"platform": "cpu"}, (False, "environment.platform")),
    (["--model", "dense"], {"platform": "rocm"}, ON),
]


@pytest.mark.parametrize(("args", "environment", "expected"), ELSEWHERE)
def test_pooling_models_and_cpus_are_scheduled_synchronously(
    ask: Asking, args: list[str], environment: dict[str, Any], expected: tuple[bool, str]
) -> None:
    assert ask.fact(FACT, args, environment=environment) == expected
