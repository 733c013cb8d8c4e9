"""Prefix caching and the Mamba cache: the facts ``cache_config.*``.

Supplies the inputs of the tables' formulas: whether a release turns prefix caching on by default, and how its hooks
change the Mamba cache's mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.facts.vocabulary import FACTS
from policy.intake.model.configuration import evaluate_rows
from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel
    from policy.intake.provenance import Provenance

MODE: Final = "cache_config.mamba_cache_mode"
PREFIX_CACHING: Final = "cache_config.enable_prefix_caching"
HYBRID_HOOK: Final = "HybridAttentionMambaModelConfig"


SHARE: Final = "cache_config.gpu_memory_utilization"
SHARE_OPTION: Final = "gpu_memory_utilization"
SIZE_OPTION: Final = "kv_cache_memory_bytes"


def derive_cache(derived: Provenance, target: ServedModel, options: ParsedOptions, tables: Tables) -> None:
    """Set the facts of the Mamba cache's mode and of the share of memory; a stated size overrides the share."""
    share = options.values.get(SHARE_OPTION)
    if options.values.get(SIZE_OPTION):
        derived.facts[SHARE] = None, options.kept_place(SIZE_OPTION)
    elif share is not None and FACTS[SHARE].admits(share):  # vLLM refuses any other
        derived.facts[SHARE] = share, options.kept_place(SHARE_OPTION)
    stated = (
        "none"
        if tables.series >= (0, 33) and not target.is_hybrid
        else options.values.get("mamba_cache_mode") or "none"
    )
    derived.facts[MODE] = stated, options.place("mamba_cache_mode")
    if not target.is_hybrid and target.resolved.model.architecture not in tables.hooks:
        return
    hooks = [tables.hooks.get(target.resolved.model.architecture), HYBRID_HOOK if target.is_hybrid else None]
    changes = [tables.constants["hook_changes"].get(hook, {}).get(MODE) for hook in hooks]
    if not any(changes):
        return
    caching, cached_by = _prefix_caching(derived, target, options, tables)
    known = {
        MODE: stated,
        PREFIX_CACHING: caching,
        "model_config.supports_mamba_prefix_caching": target.resolved.model.supports_mamba_prefix_caching,
        "speculative_config": derived.facts["speculative_config"][0] or None,
    }
    for formula in changes:
        if formula is not None:
            known |= evaluate_rows([{MODE: formula}], known.get)
    if known[MODE] != stated:
        derived.facts[MODE] = known[MODE], cached_by


def _prefix_caching(
    derived: Provenance, target: ServedModel, options: ParsedOptions, tables: Tables
) -> tuple[bool, str]:
    """Whether prefix caching is on, and the origin of that value."""
    if derived.facts["model_config.multimodal_config.mm_encoder_only"][0] and tables.series >= (0, 31):
        return False, derived.facts["model_config.multimodal_config.mm_encoder_only"][1]
    stated = options.values.get("enable_prefix_caching")
    if stated is not None:
        return stated, options.place("enable_prefix_caching")
    known = {
        "attn_type": derived.facts["model_config.attn_type"][0],
        "model_config.is_hybrid": target.is_hybrid,
        "pooler_config": target.is_pooling or None,
        "pooler_config.seq_pooling_type": target.seq_pooling_type,
        "pooler_config.tok_pooling_type": target.tok_pooling_type,
    }
    return bool(
        evaluate_rows([{PREFIX_CACHING: tables.constants["prefix_caching"]}], known.get).get(PREFIX_CACHING)
    ), DEFAULT
