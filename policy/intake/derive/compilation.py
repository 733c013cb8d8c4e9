"""Compilation and CUDA graphs: the facts ``compilation_config.*``.

Follows the order of ``VllmConfig.__post_init__`` and the platform's hook, 0.20 to 0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.derive.parallelism import PLATFORM, data_parallel_size
from policy.intake.model.registry import is_moe
from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import Target
    from policy.intake.provenance import Provenance

MODES: Final = ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")
GRAPHS: Final = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
FULL: Final = frozenset(GRAPHS[2:])
PIECES: Final = frozenset({"PIECEWISE", "FULL_AND_PIECEWISE"})
_NUMBERS: Final = ("0", "1", "2", "3", "4")
GRAPHS_OF_LEVEL: Final = ("NONE", "PIECEWISE", "FULL_AND_PIECEWISE", "FULL_AND_PIECEWISE")
WITH_GRAPHS: Final = frozenset({"cuda", "rocm", "xpu", "out-of-tree"})
DEFAULT_LEVEL: Final = 2
LEAST_HIDDEN_SIZE: Final = 8192
"""From this hidden size on, an H100 or a Blackwell device runs sequence parallelism by default."""
MODE: Final = "compilation_config.mode"
GRAPH: Final = "compilation_config.cudagraph_mode"
SP: Final = "compilation_config.pass_config.enable_sp"
BREAKABLE: Final = "VLLM_USE_BREAKABLE_CUDAGRAPH"
SCHEDULE: Final = "speculative_config.num_speculative_tokens_per_batch_size"
DYNAMIC_ON_V1: Final = frozenset({"ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash"})
MAX_CONNECTORS: Final = 4
"""The maximum nesting of connectors within connectors."""
HIGH_THROUGHPUT: Final = "deepep_high_throughput"


class Compilation(Struct):
    """The compile mode, the CUDA-graph mode and sequence parallelism during the derivation, with their origins.

    A value is ``None`` until it is set.
    """

    mode: str | None
    graph: str | None
    sp: bool
    mode_from: str
    graph_from: str
    sp_from: str
    breakable: bool = False

    def set_mode(self, mode: str, origin: str) -> None:
        """Set the compile mode, unless it has that value already."""
        if self.mode != mode:
            self.mode, self.mode_from = mode, origin

    def set_graph(self, graph: str, origin: str) -> None:
        """Set the CUDA-graph mode, unless it has that value already."""
        if self.graph != graph:
            self.graph, self.graph_from = graph, origin

    def fit_graph(self, series: tuple[int, int]) -> None:
        """Remove piecewise graphs, which need vLLM's own compilation; from 0.30 on, the full ones stay."""
        if self.graph in PIECES and self.mode != "VLLM_COMPILE" and not self.breakable:
            self.set_graph(
                "FULL_DECODE_ONLY" if self.graph == "FULL_AND_PIECEWISE" and series >= (0, 30) else "NONE",
                self.mode_from,
            )

    def show(self, derived: Provenance) -> None:
        """Store the three current values as facts; one that is not set has vLLM's default."""
        derived.facts[MODE] = self.mode or "VLLM_COMPILE", self.mode_from
        derived.facts[GRAPH] = self.graph or "FULL_AND_PIECEWISE", self.graph_from
        derived.facts[SP] = self.sp, self.sp_from


def read_compilation(options: ParsedOptions) -> Compilation:
    """The compilation options of the command line."""
    given = options.get("compilation_config")
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


def _named(value: object, names: tuple[str, ...]) -> str | None:
    """A mode by its name in any case, or by its number.

    Anything else is returned unchanged, and becomes a fault like every fact that is not legal.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else repr(value)
    if text.upper() in names:
        return text.upper()
    return names[int(text)] if text in _NUMBERS[: len(names)] else text


def derive_compilation(
    derived: Provenance,
    made: Compilation,
    target: Target,
    options: ParsedOptions,
    env: Mapping[str, str],
    platform: str,
    tables: Tables,
    runs_on_v2: Callable[[], bool],
) -> None:
    """The facts ``compilation_config.*``, and those of speculative decoding that depend on the runner.

    ``runs_on_v2`` evaluates the rules with the facts derived so far.
    """
    series = tables.series
    if options.get("enforce_eager"):
        made.set_mode("NONE", options.place("enforce_eager"))
        made.set_graph("NONE", options.place("enforce_eager"))
    if env.get("TORCH_COMPILE_DISABLE") == "1":
        made.set_mode("NONE", "env.TORCH_COMPILE_DISABLE")
    _set_breakable(made, target, env, platform, tables)
    level = options.get("optimization_level", DEFAULT_LEVEL)
    by_level = options.place("optimization_level")
    if made.mode is None:
        made.mode, made.mode_from = ("VLLM_COMPILE" if level else "NONE"), by_level
    if made.graph is None:
        made.graph, made.graph_from = GRAPHS_OF_LEVEL[level], by_level
    _schedule_drafts(derived, made, options, series, runs_on_v2)
    made.fit_graph(series)
    _parallelise_sequences(made, target, options, platform)
    _limit_graphs(made, target, options, platform, derived.facts["model_config.runner_type"][1])
    _on_platform(made, options, env, platform, series)
    if series >= (0, 30):
        made.fit_graph(series)
    made.show(derived)
    if series >= (0, 32) and made.mode == "STOCK_TORCH_COMPILE" and made.graph != "NONE" and runs_on_v2():
        made.set_graph("NONE", made.mode_from)
        made.show(derived)


def split_graph(
    derived: Provenance, made: Compilation, target: Target, options: ParsedOptions, starts: Callable[[], bool]
) -> None:
    """Set the CUDA-graph mode after the graph is split, which vLLM does once the runner is chosen, if it starts."""
    given = options.get("compilation_config")
    config: dict[str, Any] = given if isinstance(given, dict) else {}
    before = made.graph
    if made.mode != "VLLM_COMPILE":
        return
    if made.graph in PIECES and config.get("splitting_ops") == []:
        made.set_graph("FULL" if made.graph in FULL else "NONE", options.place("compilation_config.splitting_ops"))
    elif made.graph in PIECES and made.sp and not config.get("use_inductor_graph_partition"):
        made.set_graph("FULL", made.sp_from)
    if (
        options.get("all2all_backend") == HIGH_THROUGHPUT
        and data_parallel_size(options) > 1
        and is_moe(target.configuration)
    ):
        made.set_graph("NONE", options.place("all2all_backend"))
    if made.graph != before and starts():
        derived.later[GRAPH] = (made.graph, made.graph_from)


def _set_breakable(made: Compilation, target: Target, env: Mapping[str, str], platform: str, tables: Tables) -> None:
    """Set breakable CUDA graphs, the default of some architectures. They exclude compilation."""
    setting = env.get(BREAKABLE)
    if setting is not None and tables.series >= (0, 22):
        made.breakable = setting.strip() not in {"", "0"}
        origin = f"env.{BREAKABLE}"
    else:
        by_platform = tables.constants.get("breakable_cudagraph_architectures", {})
        made.breakable = not by_platform.get(platform, by_platform.get("cuda", frozenset())).isdisjoint(
            target.architectures
        )
        origin = target.origin
    if made.breakable:
        made.set_mode("NONE", origin)


def _schedule_drafts(
    derived: Provenance,
    made: Compilation,
    options: ParsedOptions,
    series: tuple[int, int],
    runs_on_v2: Callable[[], bool],
) -> None:
    """Drafts by batch size: when vLLM drops them, and their effect on CUDA graphs."""
    facts = derived.facts
    if facts[SCHEDULE][0] is None:
        return
    if series >= (0, 26) and data_parallel_size(options) > 1:
        derived.facts[SCHEDULE] = None, options.place("data_parallel_size")
    elif series >= (0, 33) and facts["speculative_config.method"][0] not in DYNAMIC_ON_V1 and not runs_on_v2():
        derived.facts[SCHEDULE] = None, derived.facts["speculative_config.method"][1]
    elif series >= (0, 24) and made.graph in FULL and (series < (0, 25) or not runs_on_v2()):
        made.set_graph("PIECEWISE", derived.facts[SCHEDULE][1])


def _parallelise_sequences(made: Compilation, target: Target, options: ParsedOptions, platform: str) -> None:
    if not made.sp:
        return
    if options.get("tensor_parallel_size", 1) == 1:
        made.sp, made.sp_from = False, options.place("tensor_parallel_size")
        return
    given = options.get("compilation_config")
    passes = given.get("pass_config") if isinstance(given, dict) else None
    if isinstance(passes, dict) and passes.get("sp_min_token_num") is not None:
        return
    hidden = target.configuration.text().get("hidden_size")
    if platform != "cuda" or not isinstance(hidden, int) or hidden < LEAST_HIDDEN_SIZE:
        made.sp, made.sp_from = False, f"{target.origin}/hidden_size" if platform == "cuda" else PLATFORM


def _limit_graphs(made: Compilation, target: Target, options: ParsedOptions, platform: str, by_runner: str) -> None:
    """Limit CUDA graphs by the platform, pooling (from ``by_runner``), an encoder and a layer-wise connector."""
    if platform not in WITH_GRAPHS:
        made.set_graph("NONE", PLATFORM)
        return
    if made.graph in FULL and target.is_pooling:
        made.set_graph("PIECEWISE", by_runner)
    elif target.is_encoder_decoder and made.graph not in {"NONE", "FULL_DECODE_ONLY"}:
        made.set_graph("FULL_DECODE_ONLY", f"{target.origin}/is_encoder_decoder")
    if made.graph in FULL and _is_layerwise(options.get("kv_transfer_config")):
        made.set_graph("PIECEWISE", options.place("kv_transfer_config"))


def _is_layerwise(config: object, depth: int = 0) -> bool:
    """Whether a KV connector, or one of several, loads and saves layer by layer, which CUDA graphs do not support."""
    if not isinstance(config, dict):
        return False
    extra = config.get("kv_connector_extra_config")
    if not isinstance(extra, dict):
        return False
    if config.get("kv_connector") == "LMCacheConnectorV1":
        return bool(extra.get("use_layerwise"))
    several = extra.get("connectors")
    if config.get("kv_connector") != "MultiConnector" or not isinstance(several, list) or depth == MAX_CONNECTORS:
        return False
    return any(_is_layerwise(each, depth + 1) for each in several)


def _on_platform(
    made: Compilation, options: ParsedOptions, env: Mapping[str, str], platform: str, series: tuple[int, int]
) -> None:
    """Apply the platform's own hook."""
    if platform == "cpu":
        if options.get("enable_lora"):
            made.set_mode("NONE", PLATFORM)
        elif made.mode == "VLLM_COMPILE":
            made.set_mode("DYNAMO_TRACE_ONCE", PLATFORM)
    elif platform == "rocm":
        decode = options.get("decode_context_parallel_size", 1) > 1 and series < (0, 29)
        if made.graph in FULL and (decode or options.get("prefill_context_parallel_size", 1) > 1):
            made.set_graph("PIECEWISE", PLATFORM)
    elif platform == "xpu":
        without = (
            env.get("VLLM_XPU_ENABLE_XPU_GRAPH", "0").strip() in {"", "0"}
            if series < (0, 31)
            else options.get("enable_sleep_mode")
        )
        if without:
            made.set_graph("NONE", PLATFORM)
        if made.sp and series < (0, 24):
            made.sp, made.sp_from = False, PLATFORM
