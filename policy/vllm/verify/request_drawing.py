"""Requests and engines drawn at random, near the limits of every parameter, for ``requests``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from policy.intake.derive.request_limits import EngineLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

MODEL = "a model with 8,192 tokens whose end token is 0"
VOCABULARY = 8192
MAX_PARAMETERS = 4


class DrawnRequest(Struct, frozen=True):
    """A request's parameters, and the facts and the limits of its engine."""

    sampling: dict[str, Any]
    facts: dict[str, Any]
    limits: EngineLimits


def _ids(*counts: int) -> Callable[[Random], Any]:
    """A list of ids of one of these lengths; one in eight has an id outside the vocabulary."""

    def drawn(randomness: Random) -> list[int]:
        count = randomness.choice(counts)
        ids = randomness.sample(range(1, VOCABULARY), count)
        if count and randomness.random() < 1 / 8:
            ids[0] = randomness.choice((VOCABULARY, -1, 100_000))
        return ids

    return drawn


def _choice(*values: Any) -> Callable[[Random], Any]:
    return lambda randomness: randomness.choice(values)


def _words(randomness: Random) -> list[str]:
    words = [f"w{n}" for n in range(randomness.choice((0, 1, 128, 129, 200)))]
    if words and randomness.random() < 1 / 8:
        words[0] = ""
    return words + words[-1:] if randomness.random() < 1 / 8 else words


def _biases(randomness: Random) -> dict[str, float]:
    return {str(token): 1.5 for token in _ids(0, 1, 1024, 1025)(randomness)}


def _rows(randomness: Random) -> Any:
    ids = _ids(0, 1, 20, 21)(randomness)
    return randomness.choice((ids, [ids], [ids, [5]], ids + ids[:1]))


def _constraint(randomness: Random) -> dict[str, Any]:
    nested: Any = "string"
    for _ in range(randomness.choice((1, 63, 64, 80))):
        nested = {"a": nested}
    known = {
        "json": randomness.choice(({"type": "object"}, "", " ", nested)),
        "regex": randomness.choice(("[0-9]+", "a\0b")),
        "choice": randomness.choice((["a"], [])),
        "grammar": randomness.choice(("root ::= 'a'", " ")),
        "json_object": randomness.choice((True, False)),
        "structural_tag": randomness.choice(("{}", " ")),
    }
    return {name: known[name] for name in randomness.sample(list(known), randomness.choice((0, 1, 1, 1, 1, 2)))}


PARAMETERS: dict[str, Callable[[Random], Any]] = {
    "n": _choice(-1, 0, 1, 2, 16384, 16385),
    "temperature": _choice(-1.0, -0.1, 0.0, 1e-6, 0.001, 0.01, 1.0, 2.0, 2.1),
    "top_p": _choice(-0.1, 0.0, 0.1, 1.0, 1.1),
    "top_k": _choice(-2, -1, 0, 1, 100),
    "min_p": _choice(-0.1, 0.0, 1e-6, 0.1, 1.0, 1.1),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), _choice(-2.1, -2.0, 0.0, 2.0, 2.1)),
    "repetition_penalty": _choice(-1.0, 0.0, 0.1, 1.0, 3.0),
    "max_tokens": _choice(0, 1, 16, 100),
    "min_tokens": _choice(-1, 0, 1, 16, 17, 101),
    **dict.fromkeys(("logprobs", "prompt_logprobs"), _choice(-2, -1, 0, 1, 5, 20, 21)),
    "thinking_token_budget": _choice(-2, -1, 0, 100),
    "stream_interval": _choice(0, 1),
    "stop": _choice("", "a", [], ["a", ""]),
    "detokenize": _choice(True, False),
    "ignore_eos": _choice(True, False),
    "seed": _choice(-1, 0, 1),
    "stop_token_ids": _ids(0, 1, 127, 128, 129, 300),
    "allowed_token_ids": _ids(0, 1, 1024, 1025),
    "logprob_token_ids": _ids(0, 1, 5, 128, 129),
    "trace_decode_token_ids": _ids(0, 1, 5),
    "prompt_logprob_token_ids": _rows,
    "prompt_logprob_start": _choice(-1, 0, 1),
    "logit_bias": _biases,
    "bad_words": _words,
    "structured_outputs": _constraint,
    "repetition_detection": _choice(
        {}, {"max_pattern_size": 3, "min_count": 2}, {"max_pattern_size": 3}, {"min_pattern_size": 2}
    ),
    "extra_args": _choice({}, {"x": 1}),
    "skip_reading_prefix_cache": _choice(True, False),
    "watermarking": _choice(True, False),
    "truncate_prompt_tokens": _choice(3),
    "best_of": _choice(2),
}
"""Each parameter with the function that draws a value of it."""
RELATED_PARAMETERS = (
    ("min_tokens", "stop_token_ids"),
    ("logprobs", "logprob_token_ids"),
    ("n", "temperature"),
    ("stop", "detokenize"),
    ("temperature", "min_p"),
    ("min_tokens", "max_tokens"),
    ("prompt_logprob_token_ids", "prompt_logprob_start"),
)
"""Parameters that are drawn together half of the time, as their limits depend on each other."""


def draw(randomness: Random) -> DrawnRequest:
    """A request with few parameters, so that most are not refused for another reason."""
    names = randomness.sample(list(PARAMETERS), randomness.randint(0, MAX_PARAMETERS))
    if randomness.random() < 1 / 2:
        names += randomness.choice(RELATED_PARAMETERS)
    sampling = {name: PARAMETERS[name](randomness) for name in dict.fromkeys(names)}

    def is_set(share: float) -> bool:
        return randomness.random() < share

    model = {
        "is_diffusion": is_set(0.1),
        "return_sampling_mask": is_set(0.1),
        "enable_trace_replay": is_set(0.5),
        "runner_type": "pooling" if is_set(0.05) else "generate",
    }
    facts: dict[str, Any] = {"model_config": model, "cache_config": {"kv_sharing_fast_prefill": is_set(0.1)}}
    if is_set(0.2):
        facts["speculative_config"] = {"method": "dspark", "enable_adaptive_verification": is_set(0.5)}
    if is_set(0.5):
        facts["reasoning_config"] = {}
    limits = EngineLimits(
        max_logprobs=randomness.choice((20, 20, -1, 5)),
        vocab_size=VOCABULARY,
        end_tokens=frozenset({0}),
        has_tokenizer=is_set(0.8),
    )
    return DrawnRequest(sampling, facts, limits)
