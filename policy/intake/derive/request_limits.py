"""What an engine compares a request with: the limits that follow from its arguments, variables and model.

Follows ``ModelConfig`` and ``vllm/envs.py``, 0.22 to 0.33. None of it affects the runner; ``policy.sampling`` uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.target import ServedModel

MAX_LOGPROBS: Final = 20
MAX_DIGITS: Final = 9
"""The maximum number of digits of a variable's value; a longer one is not read."""


class EngineLimits(Struct, frozen=True):
    """What an engine compares a request with; ``None`` where it is not known.

    ``end_tokens`` are the ids in the model's ``config.json``. ``max_logprobs`` may be -1, for the whole vocabulary.
    """

    max_logprobs: int = MAX_LOGPROBS
    vocab_size: int | None = None
    end_tokens: frozenset[int] | None = None
    has_tokenizer: bool = True
    max_num_sequences: int = 16384
    max_num_bad_words: int = 128


def engine_limits(options: ParsedOptions, env: Mapping[str, str], target: ServedModel) -> EngineLimits:
    """The limits of an engine."""
    text = target.configuration.text()
    stated = options.values.get("max_logprobs", MAX_LOGPROBS)
    vocabulary = text.get("vocab_size")
    limits = EngineLimits(
        stated if type(stated) is int else MAX_LOGPROBS,
        vocabulary if type(vocabulary) is int and vocabulary > 0 else None,
        _end_tokens(target.configuration.get("eos_token_id") or text.get("eos_token_id")),
        not options.values.get("skip_tokenizer_init", False),
    )
    if env:
        limits = replace(
            limits,
            max_num_sequences=_variable(env, "VLLM_MAX_N_SEQUENCES", limits.max_num_sequences),
            max_num_bad_words=_variable(env, "VLLM_MAX_NUM_BAD_WORDS", limits.max_num_bad_words),
        )
    return limits


def _end_tokens(value: Any) -> frozenset[int] | None:
    if type(value) is int:
        return frozenset((value,))
    ids = value if isinstance(value, list) else [value]
    return frozenset(ids) if {int}.issuperset(map(type, ids)) else None


def _variable(env: Mapping[str, str], name: str, default: int) -> int:
    if name not in env:
        return default
    text = env[name]
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS else default
