"""Compilation and CUDA graphs: the facts ``compilation_config.*``.

Follows the order of ``VllmConfig.__post_init__`` and the platform's hook, 0.20 to 0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.derive.parallelism import PLATFORM, RANKS
from policy.intake.derive.transfer import MAX_CONNECTOR_DEPTH
from policy.intake.model.configuration import evaluate_rows
from policy.intake.model.registry import is_moe
from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel
    from policy.intake.provenance import Provenance

MODES: Final = ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")
GRAPHS: Final = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
FULL_GRAPHS: Final = frozenset(GRAPHS[2:])
PIECEWISE_GRAPHS: Final = frozenset({"PIECEWISE", "FULL_AND_PIECEWISE"})
_NUMBERS: Final = ("0", "1", "2", "3", "4")
GRAPHS_BY_LEVEL: Final = ("NONE", "PIECEWISE", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE")
PLATFORMS_WITH_GRAPHS: Final = frozenset({"cuda", "rocm", "xpu", "out-of-tree"})
DEFAULT_LEVEL: Final = 2
MIN_HIDDEN_SIZE: Final = 8192
"""The smallest hidden size with which H100 and Blackwell devices use sequence parallelism by default."""
MODE: Final = "compilation_config.mode"
GRAPH: Final = "compilation_config.cudagraph_mode"
SEQUENCE_PARALLELISM: Final = "compilation_config.pass_config.enable_sp"
BREAKABLE_VARIABLE: Final = "VLLM_USE_BREAKABLE_CUDAGRAPH"
SCHEDULE: Final = "speculative_config.num_speculative_tokens_per_batch_size"
DYNAMIC_METHODS_ON_V1: Final = frozenset({"ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash"})
HIGH_THROUGHPUT: Final = "deepep_high_throughput"


class Compilation(Struct):
    """The compilation mode, CUDA-graph mode and sequence parallelism derived so far, with their origins.

    A mode is ``None`` until it is set.
    """

    mode: str | None
    graph: str | None
    sp: bool
    mode_origin: str
    graph_origin: str
    sp_origin: str
    breakable: bool = False

    def set_mode(self, mode: str, origin: str) -> None:
        """Set the compilation mode; an unchanged value keeps its origin."""
        if self.mode != mode:
            self.mode, self.mode_origin = mode, origin

    def set_graph(self, graph: str, origin: str) -> None:
        """Set the CUDA-graph mode; an unchanged value keeps its origin."""
        if self.graph != graph:
            self.graph, self.graph_origin = graph, origin

    def fit_graph(self, series: tuple[int, int]) -> None:
        """Remove piecewise graphs if vLLM's own compilation, which they need, is off; from 0.30 on, full ones stay."""
        if self.graph in PIECEWISE_GRAPHS and self.mode != "VLLM_COMPILE" and not self.breakable:
            self.set_graph(
                "FULL_DECODE_ONLY" if self.graph == "FULL_AND_PIECEWISE" and series >= (0, 30) else "NONE",
                self.mode_origin,
            )

    def set_facts(self, derived: Provenance) -> None:
        """Set the three facts to the current values, or to vLLM's defaults."""
        derived.facts[MODE] = self.mode or "VLLM_COMPILE", self.mode_origin
        derived.facts[GRAPH] = self.graph or "FULL_AND_PIECEWISE", self.graph_origin
        derived.facts[SEQUENCE_PARALLELISM] = self.sp, self.sp_origin


def read_compilation(options: ParsedOptions) -> Compilation:
    """The compilation options of the command line."""
    given = options.values.get("compilation_config")
    if given is None:
        return Compilation(None, None, sp=False, mode_origin=DEFAULT, graph_origin=DEFAULT, sp_origin=DEFAULT)
    config: dict[str, Any] = given if isinstance(given, dict) else {}
    passes = config.get("pass_config")
    fused = isinstance(passes, dict) and bool(passes.get("fuse_gemm_comms"))
    enabled = isinstance(passes, dict) and bool(passes.get("enable_sp"))
    return Compilation(
        _named(config.get("mode"), MODES),
        _named(config.get("cudagraph_mode"), GRAPHS),
        enabled or fused,
        options.place("compilation_config.mode") if config.get("mode") is not None else DEFAULT,
        options.place("compilation_config.cudagraph_mode") if config.get("cudagraph_mode") is not None else DEFAULT,
        options.place("compilation_config.pass_config") if isinstance(passes, dict) else DEFAULT,
    )


def apply_hook(compilation: Compilation, target: ServedModel, tables: Tables) -> None:
    """Set the modes that the hook of the model's architecture sets, which vLLM calls before it reads other options."""
    hook = tables.hooks.get(target.resolved.model.architecture)
    if hook is None:
        return
    changes = tables.constants["hook_changes"].get(hook, {})
    known = {MODE: compilation.mode, GRAPH: compilation.graph}
    found = known | evaluate_rows([{name: changes[name] for name in known if name in changes}], known.get)
    if found[MODE] is not None:
        compilation.set_mode(found[MODE], target.origin)
    if found[GRAPH] is not None:
        compilation.set_graph(found[GRAPH], target.origin)


def _named(value: object, names: tuple[str, ...]) -> str | None:
    """A mode's name, given in any case or as a number.

    Anything else is returned unchanged, and later becomes a fault.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else repr(value)
    if text.upper() in names:
        return text.upper()
    return names[int(text)] if text in _NUMBERS[: len(names)] else text


def derive_compilation(
    derived: Provenance,
    compilation: Compilation,
    target: ServedModel,
    options: ParsedOptions,
    env: Mapping[str, str],
    platform: str,
    tables: Tables,
    runs_on_v2: Callable[[], bool],
) -> None:
    """Set the facts ``compilation_config.*``, and those of speculative decoding that depend on the runner.

    ``runs_on_v2`` evaluates the rules with the facts derived so far.
    """
    series = tables.series
    if options.values.get("enforce_eager"):
        compilation.set_mode("NONE", options.place("enforce_eager"))
        compilation.set_graph("NONE", options.place("enforce_eager"))
    if env.get("TORCH_COMPILE_DISABLE") == "1":
        compilation.set_mode("NONE", "env.TORCH_COMPILE_DISABLE")
    _set_breakable(compilation, target, env, platform, tables)
    level = options.values.get("optimization_level", DEFAULT_LEVEL)
    by_level = options.place("optimization_level")
    if compilation.mode is None:
        compilation.mode, compilation.mode_origin = ("VLLM_COMPILE" if level else "NONE"), by_level
    if compilation.graph is None:
        compilation.graph, compilation.graph_origin = GRAPHS_BY_LEVEL[level], by_level
    _schedule_drafts(derived, compilation, series, runs_on_v2)
    compilation.fit_graph(series)
    if compilation.sp:
        _parallelise_sequences(compilation, target, options, platform)
    _limit_graphs(compilation, target, options, platform, derived.facts["model_config.runner_type"][1])
    _apply_platform(compilation, options, env, platform, series)
    if series >= (0, 30):
        compilation.fit_graph(series)
    compilation.set_facts(derived)
    if series >= (0, 32) and compilation.mode == "STOCK_TORCH_COMPILE" and compilation.graph != "NONE" and runs_on_v2():
        compilation.set_graph("NONE", compilation.mode_origin)
        compilation.set_facts(derived)


def split_graph(
    derived: Provenance,
    compilation: Compilation,
    target: ServedModel,
    options: ParsedOptions,
    starts: Callable[[], bool],
) -> None:
    """Set the CUDA-graph mode after splitting the graph, which vLLM does after it has chosen the runner."""
    if compilation.mode != "VLLM_COMPILE":
        return
    given = options.values.get("compilation_config")
    config: dict[str, Any] = given if isinstance(given, dict) else {}
    before = compilation.graph
    if compilation.graph in PIECEWISE_GRAPHS and config.get("splitting_ops") == []:
        compilation.set_graph(
            "FULL" if compilation.graph in FULL_GRAPHS else "NONE", options.place("compilation_config.splitting_ops")
        )
    elif compilation.graph in PIECEWISE_GRAPHS and compilation.sp and not config.get("use_inductor_graph_partition"):
        compilation.set_graph("FULL", compilation.sp_origin)
    if (
        options.values.get("all2all_backend") == HIGH_THROUGHPUT
        and derived.facts[RANKS][0] > 1
        and is_moe(target.configuration)
    ):
        compilation.set_graph("NONE", options.place("all2all_backend"))
    if compilation.graph != before and starts():
        derived.later[GRAPH] = (compilation.graph, compilation.graph_origin)


def _set_breakable(
    compilation: Compilation, target: ServedModel, env: Mapping[str, str], platform: str, tables: Tables
) -> None:
    """Set breakable CUDA graphs, which some architectures use by default and which exclude compilation."""
    setting = env.get(BREAKABLE_VARIABLE)
    if setting is not None and tables.series >= (0, 22):
        compilation.breakable = setting.strip() not in {"", "0"}
        origin = f"env.{BREAKABLE_VARIABLE}"
    else:
        by_platform = tables.constants.get("breakable_cudagraph_architectures", {})
        compilation.breakable = not by_platform.get(platform, by_platform.get("cuda", frozenset())).isdisjoint(
            target.architectures
        )
        origin = target.origin
    if compilation.breakable:
        compilation.set_mode("NONE", origin)


def _schedule_drafts(
    derived: Provenance,
    compilation: Compilation,
    series: tuple[int, int],
    runs_on_v2: Callable[[], bool],
) -> None:
    """Drop drafts by batch size where vLLM does, else apply their effect on CUDA graphs."""
    facts = derived.facts
    if facts[SCHEDULE][0] is None:
        return
    if series >= (0, 26) and facts[RANKS][0] > 1:
        derived.facts[SCHEDULE] = None, facts[RANKS][1]
    elif series >= (0, 33) and facts["speculative_config.method"][0] not in DYNAMIC_METHODS_ON_V1 and not runs_on_v2():
        derived.facts[SCHEDULE] = None, derived.facts["speculative_config.method"][1]
    elif series >= (0, 24) and compilation.graph in FULL_GRAPHS and (series < (0, 25) or not runs_on_v2()):
        compilation.set_graph("PIECEWISE", derived.facts[SCHEDULE][1])


def _parallelise_sequences(
    compilation: Compilation, target: ServedModel, options: ParsedOptions, platform: str
) -> None:
    if options.values.get("tensor_parallel_size", 1) == 1:
        compilation.sp, compilation.sp_origin = False, options.place("tensor_parallel_size")
        return
    given = options.values.get("compilation_config")
    passes = given.get("pass_config") if isinstance(given, dict) else None
    if isinstance(passes, dict) and passes.get("sp_min_token_num") is not None:
        return
    hidden = target.configuration.text().get("hidden_size")
    if platform != "cuda" or not isinstance(hidden, int) or hidden < MIN_HIDDEN_SIZE:
        compilation.sp, compilation.sp_origin = (
            False,
            f"{target.origin}/hidden_size" if platform == "cuda" else PLATFORM,
        )


def _limit_graphs(
    compilation: Compilation, target: ServedModel, options: ParsedOptions, platform: str, by_runner: str
) -> None:
    """Limit CUDA graphs on some platforms, for pooling (from ``by_runner``), encoder-decoders and some connectors.

    A stated pooler limits them too, even for a model that generates.
    """
    if platform not in PLATFORMS_WITH_GRAPHS:
        compilation.set_graph("NONE", PLATFORM)
        return
    if compilation.graph in FULL_GRAPHS and (target.is_pooling or options.values.get("pooler_config") is not None):
        compilation.set_graph("PIECEWISE", by_runner if target.is_pooling else options.place("pooler_config"))
    elif target.is_encoder_decoder and compilation.graph not in {"NONE", "FULL_DECODE_ONLY"}:
        compilation.set_graph("FULL_DECODE_ONLY", f"{target.origin}/is_encoder_decoder")
    connector = options.values.get("kv_transfer_config")
    if connector is not None and compilation.graph in FULL_GRAPHS and _is_layerwise(connector):
        compilation.set_graph("PIECEWISE", options.place("kv_transfer_config"))


def _is_layerwise(config: object, depth: int = 0) -> bool:
    """Whether any KV connector loads and saves layer by layer, which CUDA graphs do not support."""
    if not isinstance(config, dict):
        return False
    extra = config.get("kv_connector_extra_config")
    if not isinstance(extra, dict):
        return False
    if config.get("kv_connector") == "LMCacheConnectorV1":
        return bool(extra.get("use_layerwise"))
    several = extra.get("connectors")
    if config.get("kv_connector") != "MultiConnector" or not isinstance(several, list) or depth == MAX_CONNECTOR_DEPTH:
        return False
    return any(_is_layerwise(each, depth + 1) for each in several)


def _apply_platform(
    compilation: Compilation, options: ParsedOptions, env: Mapping[str, str], platform: str, series: tuple[int, int]
) -> None:
    """Apply the platform's hook."""
    if platform == "cpu":
        if options.values.get("enable_lora"):
            compilation.set_mode("NONE", PLATFORM)
        elif compilation.mode == "VLLM_COMPILE":
            compilation.set_mode("DYNAMO_TRACE_ONCE", PLATFORM)
    elif platform == "rocm":
        decode = options.values.get("decode_context_parallel_size", 1) > 1 and series < (0, 29)
        if compilation.graph in FULL_GRAPHS and (decode or options.values.get("prefill_context_parallel_size", 1) > 1):
            compilation.set_graph("PIECEWISE", PLATFORM)
    elif platform == "xpu":
        without = (
            env.get("VLLM_XPU_ENABLE_XPU_GRAPH", "0").strip() in {"", "0"}
            if series < (0, 31)
            else options.values.get("enable_sleep_mode")
        )
        if without:
            compilation.set_graph("NONE", PLATFORM)
        if compilation.sp and series < (0, 24):
            compilation.sp, compilation.sp_origin = False, PLATFORM
