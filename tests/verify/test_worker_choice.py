"""Run the decision of small sources like those before 0.20, in which the worker chooses the runner."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.vllm.verify.verification import NotExtracted, ReleaseProcess, release_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

CHOICE = "env.VLLM_USE_V2_MODEL_RUNNER"
ENGINE = "env.VLLM_USE_V1"
ENVS = """
import os
environment_variables = {
    "VLLM_USE_V2_MODEL_RUNNER": lambda: bool(int(os.getenv("VLLM_USE_V2_MODEL_RUNNER", "0"))),
}
"""
OLD_ENVS = """
import os
environment_variables = {
    "VLLM_USE_V1": lambda: bool(int(os.getenv("VLLM_USE_V1", "1"))),
}
"""
WORKER = """
import vllm.envs as envs

class Worker:
    def __init__(self):
        self.use_v2_model_runner = envs.VLLM_USE_V2_MODEL_RUNNER
"""
RUNNER = """
import torch
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.spec_decode import init_speculator

class GPUModelRunner:
    def __init__(self, vllm_config, device: torch.device):
        self.vllm_config = vllm_config
        self.model_config = vllm_config.model_config
        self.speculative_config = vllm_config.speculative_config
        if self.model_config.dtype == "auto":
            self.dtype = torch.float16
        self.is_last_rank = get_group().is_last_rank
        self.use_pp: bool = vllm_config.parallel_config.pipeline_parallel_size > 1
        if self.speculative_config is not None:
            steps = self.speculative_config.num_steps
            if self.is_last_rank:
                self.speculator = init_speculator(self.vllm_config, device)
            if self.speculative_config.method == "eagle3" and self.use_pp:
                raise ValueError("no pipeline for EAGLE3")
        if not self.model_config.runner_type == "pooling":
            self.sampler = Sampler(steps, logprobs_mode=self.model_config.logprobs_mode)
"""
SAMPLER = """
class Sampler:
    def __init__(self, steps, logprobs_mode="raw_logprobs"):
        allowed = ["raw_logprobs"]
        if logprobs_mode not in allowed:
            raise NotImplementedError(f"no {logprobs_mode}")
        self.logprobs_mode = logprobs_mode
"""
SPECULATION = """
def init_speculator(vllm_config, device):
    speculative_config = vllm_config.speculative_config
    assert speculative_config is not None
    if speculative_config.use_eagle():
        from vllm.v1.worker.gpu.spec_decode.eagle import EagleSpeculator

        return EagleSpeculator(vllm_config, device)
    raise NotImplementedError(f"{speculative_config.method} is not supported yet.")
"""
CONFIG = """
class SpeculativeConfig:
    def use_eagle(self):
        return self.method in ("eagle", "eagle3")
"""
SERVER = """
from vllm import envs

async def build_async_engine_client_from_engine_args(engine_args):
    vllm_config = engine_args.create_engine_config()
    assert envs.VLLM_USE_V1
"""
EXPERIMENT = {
    "envs.py": ENVS,
    "v1/worker/gpu_worker.py": WORKER,
    "v1/worker/gpu/model_runner.py": RUNNER,
    "v1/worker/gpu/sample/sampler.py": SAMPLER,
    "v1/worker/gpu/spec_decode/__init__.py": SPECULATION,
    "config/speculative.py": CONFIG,
}
ONLY_V1 = {"envs.py": "environment_variables = {}", "v1/worker/gpu_worker.py": "class Worker: ..."}
TWO_ENGINES = {**ONLY_V1, "envs.py": OLD_ENVS, "entrypoints/openai/api_server.py": "import os"}
ONLY_V0 = {"worker/worker.py": "class Worker: ..."}
V0_WITH_VARIABLES = {**ONLY_V0, "envs.py": 'environment_variables = {"VLLM_HOST_IP": lambda: ""}'}
NO_V0_ENGINE = {**TWO_ENGINES, "entrypoints/openai/api_server.py": SERVER}
V2 = {"model_config": True, CHOICE: "1"}
PIPELINE = {
    "speculative_config": True,
    "speculative_config.method": "eagle3",
    "parallel_config.pipeline_parallel_size": 2,
}
MALFORMED = "invalid literal for int() with base 10: 'yes'"


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], ReleaseProcess]]:
    """Gives the process of a source; those of the same source have one."""
    with ExitStack() as stack:
        found: list[tuple[dict[str, str], ReleaseProcess]] = []

        def process_of(files: dict[str, str]) -> ReleaseProcess:
            for known, process in found:
                if known == files:
                    return process
            source = write(tmp_path / str(len(found)), files)
            found.append((files, stack.enter_context(release_process(source))))
            return found[-1][1]

        yield process_of


@table(
    ("files", "facts", "runner", "errors"),
    [
        (EXPERIMENT, {}, "v1", []),
        (EXPERIMENT, {CHOICE: "0"}, "v1", []),
        (EXPERIMENT, {CHOICE: "yes"}, None, [MALFORMED]),
        (EXPERIMENT, V2, "v2", []),
        (EXPERIMENT, {CHOICE: "1"}, "v2", []),
        (EXPERIMENT, {**V2, "model_config.logprobs_mode": "raw_logits"}, "v2", ["no raw_logits"]),
        (
            EXPERIMENT,
            {**V2, "model_config.logprobs_mode": "raw_logits", "model_config.runner_type": "pooling"},
            "v2",
            [],
        ),
        (
            EXPERIMENT,
            {**V2, "speculative_config": True, "speculative_config.method": "ngram"},
            "v2",
            ["ngram is not supported yet."],
        ),
        (EXPERIMENT, {**V2, "speculative_config": True, "speculative_config.method": "eagle"}, "v2", []),
        (EXPERIMENT, {**V2, **PIPELINE}, "v2", ["no pipeline for EAGLE3"]),
        (
            EXPERIMENT,
            {**V2, **PIPELINE, "model_config.logprobs_mode": "raw_logits"},
            "v2",
            ["no pipeline for EAGLE3", "no raw_logits"],
        ),
        (ONLY_V1, {CHOICE: "1"}, "v1", []),
        (ONLY_V1, {CHOICE: "yes", ENGINE: "yes"}, "v1", []),
        (ONLY_V0, {CHOICE: "1"}, "v1", []),
        (V0_WITH_VARIABLES, {ENGINE: "yes"}, "v1", []),
        (TWO_ENGINES, {ENGINE: "0"}, "v1", []),
        (TWO_ENGINES, {ENGINE: "yes"}, None, [MALFORMED]),
        (NO_V0_ENGINE, {ENGINE: "1"}, "v1", []),
        (NO_V0_ENGINE, {ENGINE: "0"}, "v1", ["assert envs.VLLM_USE_V1"]),
    ],
)
def test_the_worker_decides_as_written(
    processes: Callable[[dict[str, str]], ReleaseProcess],
    files: dict[str, str],
    facts: dict[str, Any],
    runner: str | None,
    errors: list[str],
) -> None:
    assert processes(files).answer(facts) == {
        "runner": runner,
        "startup_errors": errors,
        "unsupported_features": [],
        "v1_unsupported_features": [],
    }


def without(files: dict[str, str], name: str) -> dict[str, str]:
    return {path: text for path, text in files.items() if path != name}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {
                **EXPERIMENT,
                "envs.py": ONLY_V1["envs.py"],
                "v1/worker/gpu_worker.py": ONLY_V1["v1/worker/gpu_worker.py"],
            },
            "vllm/v1/worker/gpu_worker.py does not set `use_v2_model_runner`, but the source has vllm/v1/worker/gpu/",
        ),
        ({**EXPERIMENT, "v1/worker/gpu/model_runner.py": "A = 1"}, "has no class `GPUModelRunner`"),
        (
            {**EXPERIMENT, "v1/worker/gpu/model_runner.py": "class GPUModelRunner: ..."},
            "`GPUModelRunner` in vllm/v1/worker/gpu/model_runner.py has no `__init__`",
        ),
        (
            without(EXPERIMENT, "v1/worker/gpu/sample/sampler.py"),
            "vllm/v1/worker/gpu/model_runner.py does not import `Sampler`",
        ),
        (without(EXPERIMENT, "v1/worker/gpu_worker.py"), "the source has no vllm/config/vllm.py"),
    ],
)
def test_a_source_without_a_part_of_the_choice_is_reported(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(NotExtracted) as raised, release_process(write(tmp_path, files)):
        pass
    assert message in str(raised.value)
