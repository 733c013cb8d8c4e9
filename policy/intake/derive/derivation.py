"""Derive the facts of a deployment, in the order in which vLLM sets the values.

Defines that order, and the facts that each depend on one argument. Every other group of facts has its own module.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from policy.intake.deployment import PLUGINS
from policy.intake.derive.caching import derive_cache
from policy.intake.derive.compilation import apply_hook, derive_compilation, read_compilation, split_graph
from policy.intake.derive.parallelism import derive_on_cpu, derive_parallel
from policy.intake.derive.refusal import refusal, ubatching_refusal
from policy.intake.derive.row import default_facts
from policy.intake.derive.scheduling import derive_scheduling
from policy.intake.derive.speculation import derive_speculation
from policy.intake.derive.target_device import TARGET_DEVICE
from policy.intake.derive.transfer import derive_transfer, has_connector, is_encode_only
from policy.intake.model.target import derive_model
from policy.intake.provenance import ASSUMED, DEFAULT, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.deployment import Environment
    from policy.intake.derive.speculation import DraftReader, Speculation
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel

SAMPLING_MASK: Final = "model_config.return_sampling_mask"
TRACE_REPLAY: Final = "model_config.enable_trace_replay"
FACT_OF_OPTION: Final = {
    "enable_prompt_embeds": "model_config.enable_prompt_embeds",
    "return_sampling_mask": SAMPLING_MASK,
    "enable_trace_replay": TRACE_REPLAY,
    "logits_processors": "model_config.logits_processors",
    "logprobs_mode": "model_config.logprobs_mode",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
    "pipeline_parallel_size": "parallel_config.pipeline_parallel_size",
    "prefill_context_parallel_size": "parallel_config.prefill_context_parallel_size",
    "decode_context_parallel_size": "parallel_config.decode_context_parallel_size",
    "ubatch_size": "parallel_config.ubatch_size",
    "enable_dbo": "parallel_config.enable_dbo",
    "enable_elastic_ep": "parallel_config.enable_elastic_ep",
    "enable_batch_sharded_sampling": "parallel_config.enable_batch_sharded_sampling",
    "scheduling_policy": "scheduler_config.policy",
    "enable_lora": "lora_config",
    "kv_sharing_fast_prefill": "cache_config.kv_sharing_fast_prefill",
}
"""The options that each determine one fact."""
OTHER_OPTIONS: Final = frozenset(
    {
        *(
            "watermark_config",
            "mm_encoder_only",
            "ec_transfer_config",
            "enable_return_routed_experts",
            "aux_output_config",
        ),
        *("reasoning_parser", "reasoning_config", "attention_config", "kv_transfer_config"),
    }
)
"""The options that determine facts together with others."""
ROUTED_EXPERTS: Final = "enable_return_routed_experts"
PLATFORMS: Final = {
    "rocm": "platform.is_rocm",
    "unspecified": "platform.is_unspecified",
    "tpu": "platform.is_tpu",
    "out-of-tree": "platform.is_out_of_tree",
}
PLUGIN: Final = "platform.plugin"
VARIABLES: Final = (
    "VLLM_USE_V2_MODEL_RUNNER",
    "VLLM_MLA_DISABLE",
    "TORCH_COMPILE_DISABLE",
    "VLLM_USE_BREAKABLE_CUDAGRAPH",
    "VLLM_USE_RAY_V2_EXECUTOR_BACKEND",
    "VLLM_USE_SIMPLE_KV_OFFLOAD",
    "VLLM_XPU_ENABLE_XPU_GRAPH",
    "VLLM_ENABLE_V1_MULTIPROCESSING",
    "VLLM_DP_SIZE",
    TARGET_DEVICE,
)
"""The variables of vLLM from which facts are derived; the first is a fact itself, the last is read from 0.28 on."""
VARIABLE: Final = VARIABLES[0]
VARIABLE_FACT: Final = f"env.{VARIABLE}"
HISPARSE: Final = "HiSparseConnector"
HISPARSE_CONFIG: Final = "attention_config.hisparse_config"


def derive(
    target: ServedModel,
    speculation: Speculation | None,
    options: ParsedOptions,
    env: Mapping[str, str],
    environment: Environment,
    read_draft: DraftReader,
    tables: Tables,
    rules: Callable[[Provenance], tuple[str | None, bool]],
) -> Provenance:
    """Derive the facts of a deployment.

    ``rules`` returns the release's own decision for the facts so far: the runner, and whether it starts.
    """
    series = tables.series
    facts = _facts_before(series, environment).copy()
    derived = Provenance(facts, [], {})
    platform = environment.vllm_platform
    if VARIABLE in env:
        facts[VARIABLE_FACT] = env[VARIABLE], VARIABLE_FACT
    derive_model(derived, target, options, env, series)
    _derive_stated(derived, target, options, series)
    derive_parallel(derived, options, env)
    if speculation is not None:
        derive_speculation(derived, speculation, target, read_draft, tables)
    derive_cache(derived, target, options, tables)
    derive_transfer(derived, options, env, series)
    compilation = read_compilation(options)
    apply_hook(compilation, target, tables)

    def runs_on_v2() -> bool:
        compilation.set_facts(derived)
        return rules(derived)[0] == "v2"

    derived.refusal = refusal(derived, target, bool(options.values.get("enable_expert_parallel")), tables)
    if derived.refusal is not None or _is_refused(derived, series, runs_on_v2):
        facts["scheduler_config.async_scheduling"] = (
            bool(options.values.get("async_scheduling")),
            options.place("async_scheduling"),
        )
        compilation.set_facts(derived)
        return derived
    if platform == "cpu":
        derive_on_cpu(derived, env, series)
    derive_scheduling(derived, speculation, options, env, platform, tables, runs_on_v2)
    derive_compilation(derived, compilation, target, options, env, platform, tables, runs_on_v2)
    split_graph(derived, compilation, target, options, lambda: rules(derived)[1])
    derived.refusal = ubatching_refusal(derived, options, platform)
    return derived


def _is_refused(derived: Provenance, series: tuple[int, int], runs_on_v2: Callable[[], bool]) -> bool:
    """Whether V1 aborts at this point because of a feature of V2; the rules report that in the decision."""
    facts = derived.facts
    wanted = series >= (0, 28) and (facts[SAMPLING_MASK][0] or facts[TRACE_REPLAY][0])
    sparse = series >= (0, 33) and facts[HISPARSE_CONFIG][0]
    return (wanted or sparse) and not runs_on_v2()


@lru_cache(maxsize=256)
def _facts_before(series: tuple[int, int], environment: Environment) -> dict[str, tuple[Any, str]]:
    """The facts of a deployment before anything is read from its arguments, variables and model.

    Cached because making them anew for each deployment takes 1 % of the instructions to derive facts.
    """
    facts = default_facts(series)
    facts[VARIABLE_FACT] = facts[VARIABLE_FACT][0], ASSUMED
    return facts | environment_facts(environment)


@lru_cache(maxsize=64)
def environment_facts(environment: Environment) -> dict[str, tuple[Any, str]]:
    """The facts of the environment."""
    origin = environment.origin("platform")
    return {
        **{name: (environment.vllm_platform == platform, origin) for platform, name in PLATFORMS.items()},
        PLUGIN: (PLUGINS.get(environment.platform), origin),
        "platform.has_triton": (environment.has_triton, environment.origin("has_triton")),
        "platform.is_pin_memory_available": (
            environment.has_pinned_memory,
            environment.origin("has_pinned_memory") if "has_pinned_memory" in environment.stated else DEFAULT,
        ),
        "plugins.logits_processors": (list(environment.logits_processors), environment.origin("plugins")),
    }


def own_runner_facts(environment: Environment) -> dict[str, tuple[Any, str]]:
    """The facts of a platform with runners of its own, and whether Triton works there; empty for other platforms."""
    facts = environment_facts(environment)
    if environment.platform not in {*PLUGINS, "tpu"}:
        return {}
    return {name: facts[name] for name in (PLATFORMS[environment.vllm_platform], PLUGIN, "platform.has_triton")}


def _derive_stated(derived: Provenance, target: ServedModel, options: ParsedOptions, series: tuple[int, int]) -> None:
    """Set the facts that each depend on one argument, and those that depend on a few."""
    facts, get, origin = derived.facts, options.values.get, options.places.get
    for option, value in options.values.items():
        if option in FACT_OF_OPTION:
            facts[FACT_OF_OPTION[option]] = value, options.places[option]
    if OTHER_OPTIONS.isdisjoint(options.values):
        return
    facts["watermark_config"] = get("watermark_config") is not None, origin("watermark_config", DEFAULT)
    encoder_only = target.resolved.model.supports_multimodal and (
        bool(get("mm_encoder_only")) or (series >= (0, 29) and is_encode_only(options))
    )
    by_role = encoder_only and not get("mm_encoder_only")
    facts["model_config.multimodal_config.mm_encoder_only"] = (
        encoder_only,
        origin("ec_transfer_config" if by_role else "mm_encoder_only", DEFAULT),
    )
    aux = get("aux_output_config")
    routed = bool(get(ROUTED_EXPERTS))
    facts[f"model_config.{ROUTED_EXPERTS}"] = routed and series < (0, 31), origin(ROUTED_EXPERTS, DEFAULT)
    by_config = isinstance(aux, dict) and bool(aux.get(ROUTED_EXPERTS))
    facts["aux_output_config.enabled"] = (
        routed or by_config,
        origin(ROUTED_EXPERTS if routed else "aux_output_config", DEFAULT),
    )
    reasoning = "reasoning_parser" if get("reasoning_parser") else "reasoning_config"
    facts["reasoning_config"] = (
        bool(get("reasoning_parser")) or get("reasoning_config") is not None,
        origin(reasoning, DEFAULT),
    )
    attention = get("attention_config")
    sparse = isinstance(attention, dict) and attention.get("hisparse_config") is not None
    facts[HISPARSE_CONFIG] = (
        sparse or has_connector(options, HISPARSE),
        options.place("attention_config.hisparse_config" if sparse else "kv_transfer_config"),
    )
