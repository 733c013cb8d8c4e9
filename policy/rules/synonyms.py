"""Words that rule authors write instead of the words of the language, by meaning.

Owns the tables; ``suggestions`` uses them for messages, and finds misspelt words by similarity.
"""

from __future__ import annotations

from typing import Final

CONDITIONS: Final = {
    "or": "any",
    "any_of": "any",
    "one_of": "any",
    "either": "any",
    "and": "all",
    "all_of": "all",
    "both": "all",
    "none": "not",
    "none_of": "not",
    "use": "uses",
    "condition": "uses",
}
"""Keywords of conditions."""

LOWER_BOUNDS: Final = {
    ">=": 0,
    "ge": 0,
    "gte": 0,
    "from": 0,
    "min": 0,
    "minimum": 0,
    ">": 1,
    "gt": 1,
    "more_than": 1,
    "greater_than": 1,
    "above": 1,
    "over": 1,
}
"""Lower bounds, with the number to add to their operand for ``at_least``."""
UPPER_BOUNDS: Final = {
    "<": 0,
    "lt": 0,
    "less_than": 0,
    "fewer_than": 0,
    "below": 0,
    "under": 0,
    "<=": 1,
    "le": 1,
    "lte": 1,
    "at_most": 1,
    "max": 1,
    "maximum": 1,
    "up_to": 1,
}
"""Upper bounds, with the number to add to their operand for a negated ``at_least``."""

OPERATORS: Final = {
    "is": ("is", "has_any_of"),
    "=": ("is", "has_any_of"),
    "==": ("is", "has_any_of"),
    "eq": ("is", "has_any_of"),
    "equal": ("is", "has_any_of"),
    "equals": ("is", "has_any_of"),
    "equal_to": ("is", "has_any_of"),
    "is_equal": ("is", "has_any_of"),
    "value": ("is", "has_any_of"),
    "is_not": ("is_not", "has_none_of"),
    "!=": ("is_not", "has_none_of"),
    "ne": ("is_not", "has_none_of"),
    "neq": ("is_not", "has_none_of"),
    "not": ("is_not", "has_none_of"),
    "not_equal": ("is_not", "has_none_of"),
    "not_equals": ("is_not", "has_none_of"),
    "isnt": ("is_not", "has_none_of"),
    "in": ("in", "has_any_of"),
    "is_in": ("in", "has_any_of"),
    "one_of": ("in", "has_any_of"),
    "is_one_of": ("in", "has_any_of"),
    "any": ("in", "has_any_of"),
    "any_of": ("in", "has_any_of"),
    "has": ("has_any_of", "in"),
    "has_any": ("has_any_of", "in"),
    "has_any_of": ("has_any_of", "in"),
    "contain": ("has_any_of", "in"),
    "contains": ("has_any_of", "in"),
    "contains_any": ("has_any_of", "in"),
    "include": ("has_any_of", "in"),
    "includes": ("has_any_of", "in"),
    "not_in": ("not_in", "has_none_of"),
    "nin": ("not_in", "has_none_of"),
    "not_one_of": ("not_in", "has_none_of"),
    "none_of": ("not_in", "has_none_of"),
    "has_none_of": ("has_none_of", "not_in"),
    "has_not": ("has_none_of", "not_in"),
    "excludes": ("has_none_of", "not_in"),
    "lacks": ("has_none_of", "not_in"),
    "not_contains": ("has_none_of", "not_in"),
    "first": ("first_is_in",),
    "first_in": ("first_is_in",),
    "first_is": ("first_is_in",),
    "exist": ("present", "not_empty"),
    "exists": ("present", "not_empty"),
    "set": ("present", "not_empty"),
    "is_set": ("present", "not_empty"),
    "defined": ("present", "not_empty"),
    "configured": ("present", "not_empty"),
    "enabled": ("present", "not_empty"),
    "not_null": ("present", "not_empty"),
    "missing": ("absent",),
    "unset": ("absent",),
    "not_set": ("absent",),
    "disabled": ("absent",),
    "is_null": ("absent",),
    "null": ("absent",),
    "none": ("absent",),
    "non_empty": ("not_empty",),
    "nonempty": ("not_empty",),
}
"""The operators with the meaning of a word; the type of the fact determines which one applies."""

FLAGS: Final = {
    "tp": "parallel_config.tensor_parallel_size",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
    "pp": "parallel_config.pipeline_parallel_size",
    "pipeline_parallel_size": "parallel_config.pipeline_parallel_size",
    "dp": "parallel_config.data_parallel_size",
    "data_parallel_size": "parallel_config.data_parallel_size",
    "pcp": "parallel_config.prefill_context_parallel_size",
    "prefill_context_parallel_size": "parallel_config.prefill_context_parallel_size",
    "dcp": "parallel_config.decode_context_parallel_size",
    "decode_context_parallel_size": "parallel_config.decode_context_parallel_size",
    "distributed_executor_backend": "parallel_config.distributed_executor_backend",
    "dbo": "parallel_config.enable_dbo",
    "enable_dbo": "parallel_config.enable_dbo",
    "ubatch_size": "parallel_config.ubatch_size",
    "enable_elastic_ep": "parallel_config.enable_elastic_ep",
    "enable_batch_sharded_sampling": "parallel_config.enable_batch_sharded_sampling",
    "async_scheduling": "scheduler_config.async_scheduling",
    "scheduling_policy": "scheduler_config.policy",
    "runner": "model_config.runner_type",
    "convert": "model_config.convert_type",
    "logits_processors": "model_config.logits_processors",
    "logprobs_mode": "model_config.logprobs_mode",
    "enable_prompt_embeds": "model_config.enable_prompt_embeds",
    "enable_return_routed_experts": "model_config.enable_return_routed_experts",
    "return_sampling_mask": "model_config.return_sampling_mask",
    "enable_trace_replay": "model_config.enable_trace_replay",
    "mm_encoder_only": "model_config.multimodal_config.mm_encoder_only",
    "sc": "speculative_config",
    "speculative_config": "speculative_config",
    "mamba_cache_mode": "cache_config.mamba_cache_mode",
    "kv_sharing_fast_prefill": "cache_config.kv_sharing_fast_prefill",
    "gpu_memory_utilization": "cache_config.gpu_memory_utilization",
    "kv_cache_memory_bytes": "cache_config.gpu_memory_utilization",
    "cc.mode": "compilation_config.mode",
    "enforce_eager": "compilation_config.cudagraph_mode",
    "cc.cudagraph_mode": "compilation_config.cudagraph_mode",
    "cc.pass_config.enable_sp": "compilation_config.pass_config.enable_sp",
    "kv_transfer_config": "kv_transfer_config",
    "kv_offloading_size": "kv_transfer_config",
    "ec_transfer_config": "ec_transfer_config",
    "reasoning_config": "reasoning_config",
    "reasoning_parser": "reasoning_config",
    "enable_lora": "lora_config",
    "lora": "lora_config",
    "watermark_config": "watermark_config",
}
"""vLLM's flags, with underscores instead of dashes, and the facts that they set."""
OBJECTS: Final = {
    "model": "model_config",
    "speculative": "speculative_config",
    "vllm_use_v2_model_runner": "env.VLLM_USE_V2_MODEL_RUNNER",
}
"""Short names of facts that are not flags."""

EFFECTS: Final = {
    "v1": "fallback-v1",
    "use-v1": "fallback-v1",
    "force-v1": "fallback-v1",
    "require-v1": "fallback-v1",
    "default-v1": "fallback-v1",
    "exclude-v2": "fallback-v1",
    "refuse-v2": "fallback-v1",
    "not-default": "fallback-v1",
    "v2": "force-v2",
    "use-v2": "force-v2",
    "require-v2": "force-v2",
    "fallback-v2": "force-v2",
    "default-v2": "force-v2",
    "exclude-v1": "force-v2",
    "refuse-v1": "force-v2",
    "warn": "advise",
    "warning": "advise",
    "advice": "advise",
    "advisory": "advise",
    "note": "advise",
}
"""Effects with the same purpose, for a layer that does not have the given one."""

REASON: Final = dict.fromkeys(("description", "reason", "rationale", "because", "comment"), "why")
SOURCES: Final = dict.fromkeys(("reference", "refs", "link", "links", "url", "urls", "issue", "issues"), "references")
WHEN: Final = dict.fromkeys(("if", "condition", "conditions", "match", "matches", "where", "criteria"), "when")
RELEASES: Final = dict.fromkeys(
    ("version", "versions", "release", "range", "vllm_version", "vllm_versions", "releases"), "vllm"
)
RULE_FIELDS: Final = {
    **REASON,
    **SOURCES,
    **WHEN,
    **dict.fromkeys(("name", "summary"), "title"),
    **dict.fromkeys(("action", "type", "kind", "decision", "then"), "effect"),
    **dict.fromkeys(("fix", "solution", "workaround", "hint", "advice"), "remedy"),
    **dict.fromkeys(("team", "contact", "author"), "owner"),
    **dict.fromkeys(("review", "review_date", "reviewed_by"), "review_by"),
    **dict.fromkeys(("expires", "expires_on", "expiry", "end", "ends", "end_date", "valid_until", "last_day"), "until"),
    **dict.fromkeys(("waits_for", "blocker", "blocked_on"), "blocked_by"),
    **dict.fromkeys(("version", "versions", "release", "ranges", "vllm_version", "history"), "releases"),
    **dict.fromkeys(("priority", "position", "rank"), "order"),
    **dict.fromkeys(("yields_to", "except", "not_with"), "unless"),
    **dict.fromkeys(("needs", "requires"), "requires_any"),
    **dict.fromkeys(("msg", "says"), "message"),
}
"""Fields of a rule."""
RANGE_FIELDS: Final = {**RULE_FIELDS, **RELEASES}
"""Fields of a range of releases."""
CASE_FIELDS: Final = {
    **RELEASES,
    **dict.fromkeys(("title", "description", "id", "case"), "name"),
    **dict.fromkeys(("facts", "input", "inputs", "with", "deployment", "when", "if"), "given"),
    **dict.fromkeys(("expect", "expected", "expects", "fire", "fired", "hit", "match", "matches", "result"), "fires"),
    **dict.fromkeys(("text", "feature", "says", "msg"), "message"),
    **dict.fromkeys(("start", "startup"), "starts"),
}
"""Fields of a case."""
