"""The options of vLLM that facts depend on."""

from __future__ import annotations

from typing import Final

RELEVANT_OPTIONS: Final = frozenset(
    {
        "all2all_backend",
        "async_scheduling",
        "attention_config",
        "aux_output_config",
        "compilation_config",
        "convert",
        "data_parallel_backend",
        "data_parallel_size",
        "decode_context_parallel_size",
        "distributed_executor_backend",
        "ec_transfer_config",
        "enable_batch_sharded_sampling",
        "enable_dbo",
        "enable_elastic_ep",
        "enable_expert_parallel",
        "enable_lora",
        "enable_prefix_caching",
        "enable_prompt_embeds",
        "enable_return_routed_experts",
        "enable_sleep_mode",
        "enable_trace_replay",
        "enforce_eager",
        "hf_config_path",
        "hf_overrides",
        "kv_offloading_backend",
        "kv_offloading_size",
        "kv_sharing_fast_prefill",
        "kv_transfer_config",
        "logits_processors",
        "logprobs_mode",
        "mamba_cache_mode",
        "mm_encoder_only",
        "model",
        "model_impl",
        "optimization_level",
        "pipeline_parallel_size",
        "pooler_config",
        "prefill_context_parallel_size",
        "reasoning_config",
        "reasoning_parser",
        "return_sampling_mask",
        "runner",
        "scheduling_policy",
        "spec_method",
        "spec_model",
        "spec_tokens",
        "speculative_config",
        "tensor_parallel_size",
        "ubatch_size",
        "watermark_config",
    }
)
"""The options that facts depend on, by their names in `EngineArgs`; all others go to `ParsedOptions.ignored`."""

KEPT_OPTIONS: Final = frozenset(
    {"gpu_memory_utilization", "kv_cache_memory_bytes", "max_logprobs", "skip_tokenizer_init"}
)
"""The options that only known problems and limits of requests depend on; they are ignored too, but their values are
kept, and an unknown value is no fault."""

SIZE_OPTIONS: Final = frozenset(
    {
        "data_parallel_size",
        "decode_context_parallel_size",
        "pipeline_parallel_size",
        "prefill_context_parallel_size",
        "tensor_parallel_size",
    }
)
"""The options whose unknown value is no fault if no value would change the decision."""
