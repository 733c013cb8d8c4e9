"""Errors that vLLM's configuration classes raise before it chooses the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deployments import DENSE as CONFIG
from deployments import Asking, Config
from tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable

DENSE = ["--model", "dense"]
MASK = ["--return-sampling-mask", "--logprobs-mode", "processed_logprobs"]
EAGLE = '{"model": "eagle3-draft", "num_speculative_tokens": 3}'
ADAPTIVE = '{"model": "eagle3-draft", "num_speculative_tokens": 3, "enable_adaptive_verification": true}'
SPECULATIVE = "a sampling mask cannot be returned with this speculative decoding"
UBATCHING = (
    "dual batch overlap needs the all2all backend `deepep_low_latency` or `deepep_high_throughput`, got `{}`; "
    "set `--all2all-backend deepep_low_latency`, or remove `--enable-dbo` and `--ubatch-size`"
)
BEFORE = "vLLM refuses this configuration: "


def heads(count: int, of_kv: int) -> dict[str, Config]:
    return {"x": {**CONFIG, "num_attention_heads": count, "num_key_value_heads": of_kv, "head_dim": 128}}


def refusals(warnings: Iterable[str]) -> list[str]:
    return [warning.removeprefix(BEFORE) for warning in warnings if warning.startswith(BEFORE)]


REFUSED: list[tuple[str, list[str], dict[str, Config], list[str]]] = [
    ("0.33.0", DENSE, {}, []),
    ("0.33.0", [*DENSE, "-tp", "32"], {}, []),
    ("0.33.0", [*DENSE, "-tp", "3"], {}, ["its 32 attention heads cannot be divided by a tensor parallel size of 3"]),
    (
        "0.23.0",
        ["--model", "encoder-decoder", "-tp", "16"],
        {},
        ["its 8 attention heads cannot be divided by a tensor parallel size of 16"],
    ),
    ("0.23.0", ["--model", "encoder-decoder", "-tp", "8"], {}, []),
    (
        "0.23.0",
        ["--model", "x", "-tp", "3"],
        {"x": {**CONFIG, "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl"}},
        ["its 32 attention heads cannot be divided by a tensor parallel size of 3"],
    ),
    ("0.33.0", [*DENSE, "--enable-expert-parallel"], {}, ["expert parallelism is enabled, and it has no experts"]),
    ("0.33.0", ["--model", "moe", "--enable-expert-parallel"], {}, []),
    ("0.33.0", [*DENSE, "-pp", "2"], {}, []),
    ("0.33.0", ["--model", "encoder-decoder", "-pp", "2"], {}, ["it does not support pipeline parallelism"]),
    (
        "0.33.0",
        [*DENSE, "-tp", "4", "-dcp", "2"],
        {},
        ["decode context parallelism needs a tensor parallel size above its 8 KV heads, got 4"],
    ),
    ("0.33.0", ["--model", "mla", "-tp", "2", "-dcp", "2"], {}, []),
    ("0.33.0", [*DENSE, "-tp", "16", "-dcp", "2"], {}, []),
    (
        "0.33.0",
        [*DENSE, "-tp", "16", "-dcp", "4"],
        {},
        ["a decode context parallel size of 4 is above 2, the tensor parallel size divided by its KV heads"],
    ),
    (
        "0.33.0",
        ["--model", "x", "-tp", "96", "-dcp", "2"],
        heads(96, 32),
        ["its 3 query heads per KV head cannot be divided by a decode context parallel size of 2"],
    ),
    ("0.33.0", ["--model", "x", "-tp", "96", "-dcp", "3"], heads(96, 32), []),
    ("0.33.0", ["--model", "x", "-tp", "4", "-dcp", "2"], {"x": {"architectures": ["Qwen3MoeForCausalLM"]}}, []),
    ("0.33.0", ["--model", "mamba", "-tp", "3"], {}, []),
    ("0.33.0", ["--model", "mamba", "-tp", "2", "-dcp", "2"], {}, []),
    ("0.33.0", [*DENSE, *MASK], {}, []),
    (
        "0.28.0",
        [*DENSE, "--return-sampling-mask"],
        {},
        ["a sampling mask is only returned with `--logprobs-mode processed_logprobs`"],
    ),
    (
        "0.28.0",
        [*DENSE, *MASK, "--logits-processors", "a:B"],
        {},
        ["a sampling mask cannot be returned with custom logits processors"],
    ),
    (
        "0.33.0",
        ["--model", "x", *MASK],
        {"x": {**CONFIG, "canvas_length": 4}},
        ["a sampling mask cannot be returned by a diffusion model"],
    ),
    ("0.31.0", [*DENSE, *MASK, "--speculative-config", EAGLE], {}, [SPECULATIVE]),
    ("0.20.0", [*DENSE, "--enable-dbo"], {}, [UBATCHING.format("allgather_reducescatter")]),
    (
        "0.33.0",
        [*DENSE, "--enable-dbo", "--all2all-backend", "flashinfer_all2allv"],
        {},
        [UBATCHING.format("flashinfer_all2allv")],
    ),
    ("0.26.0", [*DENSE, "--ubatch-size", "2"], {}, [UBATCHING.format("allgather_reducescatter")]),
    ("0.33.0", [*DENSE, "--ubatch-size", "1"], {}, []),
    ("0.20.0", [*DENSE, "--enable-dbo", "--all2all-backend", "deepep_low_latency"], {}, []),
    ("0.33.0", [*DENSE, "--enable-dbo", "--all2all-backend", "deepep_high_throughput"], {}, []),
    ("0.33.0", [*DENSE, "--enable-dbo", "--all2all-backend", "nixl_ep"], {}, []),
    ("0.32.0", [*DENSE, *MASK, "--speculative-config", EAGLE], {}, []),
    ("0.32.0", [*DENSE, *MASK, "--speculative-config", ADAPTIVE], {}, [SPECULATIVE]),
]


@table(
    ("release", "args", "models", "expected"),
    REFUSED,
    ids=[f"{release} {' '.join(args)}" for release, args, _, _ in REFUSED],
)
def test_a_configuration_that_vllm_refuses_does_not_start(
    ask: Asking, release: str, args: list[str], models: dict[str, Config], expected: list[str]
) -> None:
    decision = ask(args, release, models=models, upstream=False)
    assert (refusals(decision.launch_errors), refusals(decision.warnings)) == (expected, [])
    assert decision.starts == (not expected and not decision.startup_errors)
    assert decision.upstream.starts == decision.starts


REFUSAL = "its 32 attention heads cannot be divided by a tensor parallel size of 3"


def test_the_rules_still_decide_a_refused_configuration(ask: Asking) -> None:
    decision = ask([*DENSE, "-tp", "3"], upstream=False)
    assert (decision.runner, decision.outcome, decision.starts, decision.startup_errors) == ("v2", "default", False, [])
    assert decision.summary.endswith(f"; vLLM will not start: {BEFORE}{REFUSAL}")


@pytest.mark.parametrize(
    ("release", "args", "upstream"),
    [
        ("0.33.0", [*DENSE, "-tp", "3"], True),
        ("0.33.1", [*DENSE, "-tp", "3"], False),
        ("0.33.0", "vllm serve dense -tp 3 $MORE", False),
    ],
    ids=["choice of the runner alone", "other patch release", "argument that is not known"],
)
def test_a_refusal_is_a_warning_if_it_does_not_count_or_is_not_certain(
    ask: Asking,
    release: str,
    args: list[str] | str,
    upstream: bool,  # noqa: FBT001  # a parameter of the table
) -> None:
    decision = ask(args, release, upstream=upstream)
    assert (decision.starts, decision.launch_errors, refusals(decision.warnings)) == (True, [], [REFUSAL])


@pytest.mark.parametrize("platform", ["rocm", "cpu", "xpu"])
def test_microbatches_are_not_refused_on_other_platforms(ask: Asking, platform: str) -> None:
    decision = ask([*DENSE, "--enable-dbo"], upstream=False, environment={"platform": platform})
    assert (refusals(decision.launch_errors), refusals(decision.warnings)) == ([], [])


def test_nothing_is_derived_after_a_refusal(ask: Asking) -> None:
    args = [*DENSE, "-tp", "3", "--enforce-eager"]
    found = [
        ask.fact(name, args)
        for name in (
            "scheduler_config.async_scheduling",
            "compilation_config.mode",
            "compilation_config.cudagraph_mode",
        )
    ]
    assert found == [(False, "default"), ("VLLM_COMPILE", "default"), ("FULL_AND_PIECEWISE", "default")]
    assert ask.fact("scheduler_config.async_scheduling", [*args, "--async-scheduling"]) == (True, "args[5]")
