"""What real engines did with requests, on both runners in 0.23.0 and 0.26.0."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from policy.request.request import Request
from policy.sampling.check import RequestChecker, read_check_request

if TYPE_CHECKING:
    from policy.policy import Policy
    from policy.sampling.check import RequestCheck

TINY = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": 8192,
    "eos_token_id": 0,
    "max_position_embeddings": 4096,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_size": 256,
    "num_hidden_layers": 2,
}
IDS = list(range(10, 8000))
NGRAM = '{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}'
UNEXPECTED = "Unexpected keyword argument '{}'"
COUNT = (
    "When both logprobs and logprob_token_ids are set, logprobs must equal len(logprob_token_ids). Got logprobs=1, "
    "len(logprob_token_ids)=5."
)
SPECULATION = "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
NO_REASONING = (
    "thinking_token_budget is set but reasoning_config is not configured. Please set --reasoning-parser and/or "
    "--reasoning-config to use thinking_token_budget."
)
FINE = ("fine", None)
SAMPLING: list[tuple[dict[str, Any], tuple[str, str | None], tuple[str, str | None]]] = [
    ({}, FINE, FINE),
    ({"allowed_token_ids": IDS[:128]}, FINE, FINE),
    ({"allowed_token_ids": IDS[:1024]}, FINE, FINE),
    (
        {"allowed_token_ids": IDS[:1025]},
        FINE,
        ("kills-engine", "Too many allowed token IDs: 1025. The max size is 1024."),
    ),
    (
        {"allowed_token_ids": IDS[:3000]},
        FINE,
        ("kills-engine", "Too many allowed token IDs: 3000. The max size is 1024."),
    ),
    ({"logit_bias": dict.fromkeys(map(str, IDS[:1024]), 1.5)}, FINE, FINE),
    (
        {"logit_bias": dict.fromkeys(map(str, IDS[:1025]), 1.5)},
        FINE,
        ("kills-engine", "Too many logit bias tokens: 1025. The max size is 1024."),
    ),
    ({"allowed_token_ids": IDS[:50], "logit_bias": {"10": 1.5}}, FINE, FINE),
    ({"min_tokens": 3, "stop_token_ids": IDS[:127]}, FINE, FINE),
    (
        {"min_tokens": 3, "stop_token_ids": IDS[:128]},
        FINE,
        ("kills-engine", "Too many stop tokens: 129. The max size is 128."),
    ),
    (
        {"min_tokens": 3, "stop_token_ids": IDS[:300]},
        FINE,
        ("kills-engine", "Too many stop tokens: 301. The max size is 128."),
    ),
    ({"stop_token_ids": IDS[:300]}, FINE, FINE),
    ({"prompt_logprobs": 20}, FINE, FINE),
    ({"prompt_logprobs": -1}, FINE, FINE),
    ({"logprobs": 5}, FINE, FINE),
    ({"logprobs": -1}, FINE, FINE),
    ({"n": 2, "temperature": 0.8}, FINE, FINE),
    ({"temperature": 0.8, "top_k": 5}, FINE, FINE),
    ({"min_p": 0.1, "temperature": 0.8}, FINE, FINE),
    ({"frequency_penalty": 0.5, "presence_penalty": 0.5, "repetition_penalty": 1.2}, FINE, FINE),
    ({"thinking_token_budget": 5}, ("refused", NO_REASONING), ("refused", NO_REASONING)),
    ({"extra_args": {"x": 1}}, FINE, FINE),
    ({"skip_reading_prefix_cache": True}, FINE, FINE),
    ({"logprob_token_ids": IDS[:5], "logprobs": 1}, ("refused", COUNT), ("refused", COUNT)),
    *[
        ({name: value}, ("refused", UNEXPECTED.format(name)), ("refused", UNEXPECTED.format(name)))
        for name, value in (("truncate_prompt_tokens", 3), ("prompt_logprob_token_ids", IDS[:5]))
    ],
]
"""Parameters, and the verdict with V1 and with V2: what both releases did."""
WITH_NGRAM: list[tuple[dict[str, Any], tuple[str, str | None]]] = [
    ({}, FINE),
    ({"min_p": 0.1, "temperature": 0.8}, ("refused", SPECULATION)),
    ({"logit_bias": {"10": 1.5}}, ("refused", SPECULATION)),
    ({"allowed_token_ids": IDS[:5]}, FINE),
    ({"prompt_logprobs": 1}, FINE),
    ({"frequency_penalty": 0.5, "presence_penalty": 0.5, "repetition_penalty": 1.2}, FINE),
]


@pytest.fixture(scope="module")
def checker(policy: Policy) -> RequestChecker:
    return RequestChecker(policy)


def check(checker: RequestChecker, release: str, runner: str, sampling: dict[str, Any], *more: str) -> RequestCheck:
    deployment = {
        "args": ["serve", "tiny", "--skip-tokenizer-init", "--max-logprobs=-1", "--enforce-eager", *more],
        "env": {"VLLM_USE_V2_MODEL_RUNNER": "1" if runner == "v2" else "0"},
        "model_configs": {"tiny": TINY},
    }
    document = {"vllm_version": release, "deployment": deployment, "request": sampling}
    request = read_check_request(document, checker.policy.releases)
    assert isinstance(request.deployment, Request)
    return checker.check(request.deployment, request.document, request.pointer, date(2026, 11, 1))


def found(answer: RequestCheck) -> tuple[str, str | None]:
    return str(answer.verdict), answer.findings[0].message if answer.findings else None


@pytest.mark.parametrize("release", ["0.23.0", "0.26.0"])
def test_requests_get_what_real_engines_did_with_them(checker: RequestChecker, release: str) -> None:
    for sampling, *expected in SAMPLING:
        for runner, wanted, other in zip(("v1", "v2"), expected, reversed(expected), strict=True):
            answer = check(checker, release, runner, sampling)
            assert (answer.runner, found(answer)) == (runner, wanted), sampling
            assert answer.alternative is not None
            assert (answer.alternative.runner != runner, str(answer.alternative.verdict)) == (True, other[0]), sampling
    for sampling, one in WITH_NGRAM:
        answer = check(checker, release, "v1", sampling, "--speculative-config", NGRAM)
        assert (answer.runner, found(answer)) == ("v1", one), sampling
