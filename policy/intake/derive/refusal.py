"""Configurations that vLLM refuses before it chooses the runner.

These are parallel sizes that the model does not allow, sampling masks with features that exclude them, and
microbatches with an unsuitable backend.

Follows ``ModelConfig.verify_with_parallel_config``, ``VllmConfig._verify_sampling_replay_config`` and
``VllmConfig.__post_init__``, 0.20 to 0.33, as far as the model's configuration allows. None of these checks affects the
runner. But vLLM fails at the first two before it computes further values, so these values are not derived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.model.registry import is_moe
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.configuration import Configuration
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel
    from policy.intake.provenance import Provenance

HEAD_NAMES: Final = ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads")
"""The field with the number of heads in `config.json`: its usual name, then those of GPT-2, MPT, Whisper and others."""
HEADS: Final = "get_total_num_attention_heads"
KV_HEADS: Final = "get_total_num_kv_heads"
DEFAULT_BACKEND: Final = "allgather_reducescatter"
UBATCHING_BACKENDS: Final = frozenset({"deepep_low_latency", "deepep_high_throughput", "nixl_ep"})
"""The all2all backends that work with microbatches in some release: newer ones have ``nixl_ep``."""
KV_NAMES: Final = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")


def refusal(
    derived: Provenance,
    target: ServedModel,
    experts: bool,  # noqa: FBT001  # vLLM's own switch
    tables: Tables,
) -> str | None:
    """Why vLLM refuses the model with these sizes, or ``None``; ``experts``: whether expert parallelism is on.

    Heads are not checked if the release computes their number differently for this model.
    """
    text = target.configuration.size_part()
    tensor = derived.facts["parallel_config.tensor_parallel_size"][0]
    decode = derived.facts["parallel_config.decode_context_parallel_size"][0]
    if tensor < 1:
        return None  # an invalid size, which is a separate fault
    heads = _count(text, HEAD_NAMES, HEADS, tables) if tensor > 1 or decode > 1 else 0
    if heads and heads % tensor:
        return f"its {heads} attention heads cannot be divided by a tensor parallel size of {tensor}"
    if experts and not is_moe(target.configuration):
        return "expert parallelism is enabled, and it has no experts"
    if derived.facts["parallel_config.pipeline_parallel_size"][0] > 1 and not target.resolved.model.supports_pp:
        return "it does not support pipeline parallelism"
    if decode > 1 and not derived.facts["model_config.use_mla"][0]:
        return _decode_context_refusal(decode, tensor, heads, _count(text, KV_NAMES, KV_HEADS, tables) or heads)
    return (
        _sampling_mask_refusal(derived.facts, tables.series)
        if derived.facts["model_config.return_sampling_mask"][0]
        else None
    )


def ubatching_refusal(derived: Provenance, options: ParsedOptions, platform: str) -> str | None:
    """Why vLLM refuses microbatches with the configured all2all backend, or ``None``.

    vLLM checks this last. On platforms other than CUDA, some releases allow other backends.
    """
    is_on = derived.facts["parallel_config.enable_dbo"][0] or (options.values.get("ubatch_size") or 0) > 1
    if platform != "cuda" or not is_on:
        return None
    backend = options.values.get("all2all_backend") or DEFAULT_BACKEND
    if backend in UBATCHING_BACKENDS:
        return None
    return (
        f"dual batch overlap needs the all2all backend `deepep_low_latency` or `deepep_high_throughput`, got "
        f"{quoted(backend)}; set `--all2all-backend deepep_low_latency`, or remove `--enable-dbo` and `--ubatch-size`"
    )


def _sampling_mask_refusal(facts: Mapping[str, tuple[Any, str]], series: tuple[int, int]) -> str | None:
    fact = "speculative_config.enable_adaptive_verification" if series >= (0, 32) else "speculative_config"
    if facts[fact][0]:
        return "a sampling mask cannot be returned with this speculative decoding"
    if facts["model_config.is_diffusion"][0]:
        return "a sampling mask cannot be returned by a diffusion model"
    if facts["model_config.logits_processors"][0]:
        return "a sampling mask cannot be returned with custom logits processors"
    if facts["model_config.logprobs_mode"][0] != "processed_logprobs":
        return "a sampling mask is only returned with `--logprobs-mode processed_logprobs`"
    return None


def _decode_context_refusal(decode: int, tensor: int, heads: int, kv_heads: int) -> str | None:
    if not kv_heads:
        return None
    if tensor <= kv_heads:
        return f"decode context parallelism needs a tensor parallel size above its {kv_heads} KV heads, got {tensor}"
    if decode > tensor // kv_heads:
        return (
            f"a decode context parallel size of {decode} is above {tensor // kv_heads}, the tensor parallel size "
            "divided by its KV heads"
        )
    if (heads // kv_heads) % decode:
        return (
            f"its {heads // kv_heads} query heads per KV head cannot be divided by a decode context parallel size "
            f"of {decode}"
        )
    return None


def _count(text: Configuration, names: tuple[str, ...], method: str, tables: Tables) -> int:
    """A number of heads; 0 if it is not stated or the release computes it differently for this model."""
    convertor = tables.convertors.get(text.model_type or "")
    if convertor is not None and method in convertor["changes"]:
        return 0
    for name in names:
        number = text.get(name)
        if type(number) is int and number > 0:
            return number
    return 0
