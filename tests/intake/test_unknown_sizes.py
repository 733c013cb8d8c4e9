"""Parallel sizes with unknown values: a problem only if a size would change the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deployments import DENSE, NEWEST
from msgspec import UnsetType
from tables import table

from policy.intake.model.formula import request_iterations

if TYPE_CHECKING:
    from deployments import Asking

ASSUMED = (
    "`{}` is set to `$N`, whose value is not known; it is assumed to be 1, and the decision is the same with 2 and 8"
)
UNKNOWN = "`{}` is set to `$N`, whose value is not known; write the value, or set the variable"
FLAGS = (
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--decode-context-parallel-size",
    "--prefill-context-parallel-size",
)
OTHERS = (
    "",
    "--enable-lora",
    "--enforce-eager",
    "--enable-expert-parallel",
    '--speculative-config \'{"method": "ngram", "num_speculative_tokens": 3}\'',
    "--distributed-executor-backend ray",
)
MANY = 10**9
REFUSED = "vLLM refuses this configuration"
VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"


@table("others", OTHERS)
@table("model", ["dense", "moe", "hybrid"])
@table("flag", FLAGS)
@table(("release", "env"), [("0.23.0", {}), ("0.23.0", {VARIABLE: "1"}), (NEWEST, {})])
def test_an_unknown_size_is_a_problem_exactly_if_sizes_are_decided_differently(
    ask: Asking, flag: str, model: str, others: str, release: str, env: dict[str, str]
) -> None:
    decisions = [ask(f"vllm serve {model} {others} {flag} {size}", release, env=env) for size in (1, 2, 4, 8)]
    refused = [any(REFUSED in text for text in (*each.launch_errors, *each.warnings)) for each in decisions]
    answers = {
        (decision.runner, decision.starts)
        for decision, is_refused in zip(decisions, refused, strict=True)
        if not is_refused or all(refused)
    }
    script = f'vllm serve {model} {others} {flag} "$N"'
    if len(answers) > 1:
        kind, ((pointer, message),) = ask.refusal(script, release, env=env)
        assert (kind, pointer, message) == ("invalid-request", "/deployment/args", UNKNOWN.format(flag))
    else:
        decision = ask(script, release, env=env)
        assert (decision.runner, decision.starts) in answers
        assumed = next(text for text in decision.warnings if text.startswith(ASSUMED.format(flag)))
        assert ("it refuses" in assumed) == (any(refused[at] for at in (0, 1, 3)) and not all(refused))


def test_several_unknown_sizes_are_tried_together(ask: Asking) -> None:
    decision = ask('vllm serve dense -tp "$N" -pp "$N" -dp "$N"', "0.23.0")
    assert [
        ASSUMED.format(flag) in decision.warnings for flag in ("--tensor-parallel-size", "--data-parallel-size")
    ] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("sizes", "is_unknown"), [('-tp "$N" -tp 2', False), ('-tp 2 -tp "$N"', True), ('-tp "$N" -tp "$N"', True)]
)
def test_the_last_size_counts(ask: Asking, sizes: str, *, is_unknown: bool) -> None:
    decision = ask(f"vllm serve dense {sizes}", "0.23.0")
    assert (ASSUMED.format("--tensor-parallel-size") in decision.warnings) is is_unknown
    assert not isinstance(decision.facts, UnsetType)
    assert decision.facts["parallel_config.tensor_parallel_size"].value == (1 if is_unknown else 2)


@pytest.mark.parametrize(
    ("args", "models", "refuses"),
    [
        ('vllm serve odd -tp "$N"', {"odd": {**DENSE, "num_attention_heads": 7}}, "2 and 8"),
        ('vllm serve dense -tp 4 -dcp "$N"', {}, "2 and 8"),
        ('vllm serve dense -tp "$N"', {}, None),
    ],
)
def test_sizes_that_vllm_refuses_are_named(ask: Asking, args: str, models: dict[str, Any], refuses: str | None) -> None:
    [warning] = [text for text in ask(args, "0.23.0", models=models).warnings if "is assumed to be 1" in text]
    named = warning.partition("; it refuses ")[2].partition(" for this model")[0]
    assert named == (refuses or "")


LONG: dict[str, Any] = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "num_hidden_layers": 200,
    "full_attn_idxs": [5] * 200,
}
"""A configuration whose layer types take a thousand iterations."""


@table(
    "others",
    ["", '--speculative-config \'{"method": "draft_model", "model": "long-draft", "num_speculative_tokens": 2}\''],
)
def test_no_model_is_read_again_for_another_size(ask: Asking, others: str) -> None:
    spent = []
    for sizes in ("", '-tp "$N" -pp "$N" -dp "$N"'):
        with request_iterations(MANY) as iterations:
            ask(
                f"vllm serve long {others} {sizes}",
                "0.27.1",
                models={"long": LONG, "long-draft": LONG},
                env={VARIABLE: "1"},
            )
        spent.append(MANY - iterations.remaining)
    assert spent[0] == spent[1] > 0
