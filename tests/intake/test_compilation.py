"""The compile mode, CUDA graphs and sequence parallelism that are derived for a deployment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deployments import DENSE as CONFIG
from deployments import MODELS
from tables import table

if TYPE_CHECKING:
    from deployments import Asking

Origin = tuple[Any, str]
MODE, GRAPH, SP = (
    "compilation_config.mode",
    "compilation_config.cudagraph_mode",
    "compilation_config.pass_config.enable_sp",
)
SCHEDULE = "speculative_config.num_speculative_tokens_per_batch_size"
DENSE = ["--model", "dense"]
LARGE = ["--model", "large"]
DEFAULT_MODE, DEFAULT_GRAPH = ("VLLM_COMPILE", "default"), ("FULL_AND_PIECEWISE", "default")
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
BREAK = "VLLM_USE_BREAKABLE_CUDAGRAPH"


def modes(ask: Asking, args: list[str], release: str, **given: Any) -> tuple[Origin | None, Origin | None]:
    return ask.fact(MODE, args, release, **given), ask.fact(GRAPH, args, release, **given)


def cc(**keys: Any) -> list[str]:
    return ["--compilation-config", json.dumps(keys)]


HERE = "args[2]"
MODES: list[tuple[list[str], Origin, Origin]] = [
    ([], DEFAULT_MODE, DEFAULT_GRAPH),
    (["-O0"], ("NONE", HERE), ("NONE", HERE)),
    (["-O1"], ("VLLM_COMPILE", HERE), ("PIECEWISE", HERE)),
    (["-O2"], ("VLLM_COMPILE", HERE), ("FULL_AND_PIECEWISE", HERE)),
    (["-O3"], ("VLLM_COMPILE", HERE), ("FULL_AND_PIECEWISE", HERE)),
    (["--enforce-eager"], ("NONE", HERE), ("NONE", HERE)),
    (["--enforce-eager", "-cc.mode=3"], ("NONE", HERE), ("NONE", HERE)),
    (["-cc.mode=0"], ("NONE", HERE), ("FULL_DECODE_ONLY", HERE)),
    (["-cc.mode=none"], ("NONE", HERE), ("FULL_DECODE_ONLY", HERE)),
    (["-cc.mode=0", "-cc.cudagraph_mode=FULL"], ("NONE", HERE), ("FULL", "args[3]")),
    (["-cc.mode=DYNAMO_TRACE_ONCE", "-cc.cudagraph_mode=piecewise"], ("DYNAMO_TRACE_ONCE", HERE), ("NONE", HERE)),
    (cc(mode="VLLM_COMPILE", cudagraph_mode=2), ("VLLM_COMPILE", HERE), ("FULL", HERE)),
    (cc(mode="3", cudagraph_mode="full_decode_only"), ("VLLM_COMPILE", HERE), ("FULL_DECODE_ONLY", HERE)),
    (cc(cudagraph_mode="NONE"), DEFAULT_MODE, ("NONE", HERE)),
]


@table(("args", "mode", "graph"), MODES, ids=[" ".join(args) for args, _, _ in MODES])
def test_the_modes_come_from_the_arguments_or_the_level(
    ask: Asking, args: list[str], mode: Origin, graph: Origin
) -> None:
    assert modes(ask, [*DENSE, *args], "0.31.0") == (mode, graph)


STOCK = ("STOCK_TORCH_COMPILE", HERE)
BREAKABLE = ("NONE", "model_configs/breakable")
NONE_BY_VARIABLE = ("NONE", "env.TORCH_COMPILE_DISABLE")
CHANGES: list[tuple[list[str], dict[str, str], dict[str, tuple[Origin, Origin]]]] = [
    (
        [*DENSE, "-cc.mode=1"],
        {},
        {
            "0.29.0": (STOCK, ("NONE", HERE)),
            "0.30.0": (STOCK, ("FULL_DECODE_ONLY", HERE)),
            "0.31.0": (STOCK, ("FULL_DECODE_ONLY", HERE)),
        },
    ),
    ([*DENSE, "-cc.mode=1"], V2, {"0.31.0": (STOCK, ("FULL_DECODE_ONLY", HERE)), "0.32.0": (STOCK, ("NONE", HERE))}),
    (
        DENSE,
        {"TORCH_COMPILE_DISABLE": "1"},
        {
            "0.29.0": (NONE_BY_VARIABLE, ("NONE", "env.TORCH_COMPILE_DISABLE")),
            "0.30.0": (NONE_BY_VARIABLE, ("FULL_DECODE_ONLY", "env.TORCH_COMPILE_DISABLE")),
        },
    ),
    (DENSE, {"TORCH_COMPILE_DISABLE": "0"}, {"0.33.0": (DEFAULT_MODE, DEFAULT_GRAPH)}),
    (
        ["--model", "breakable"],
        {},
        {
            "0.22.1": (DEFAULT_MODE, DEFAULT_GRAPH),
            "0.23.0": (BREAKABLE, DEFAULT_GRAPH),
            "0.33.0": (BREAKABLE, DEFAULT_GRAPH),
        },
    ),
    (["--model", "breakable"], {BREAK: "0"}, {"0.33.0": (DEFAULT_MODE, DEFAULT_GRAPH)}),
    (
        DENSE,
        {BREAK: "1"},
        {"0.21.0": (DEFAULT_MODE, DEFAULT_GRAPH), "0.22.0": (("NONE", f"env.{BREAK}"), DEFAULT_GRAPH)},
    ),
]


@table(("args", "env", "expected"), CHANGES)
def test_a_change_of_modes_applies_from_its_release_on(
    ask: Asking, args: list[str], env: dict[str, str], expected: dict[str, tuple[Origin, Origin]]
) -> None:
    assert {release: modes(ask, args, release, env=env) for release in expected} == expected


PLATFORM = "environment.platform"
BY_PLATFORM: list[tuple[str, list[str], dict[str, str], str, tuple[Origin, Origin]]] = [
    ("rocm", DENSE, {}, "0.33.0", (DEFAULT_MODE, DEFAULT_GRAPH)),
    ("out-of-tree", DENSE, {}, "0.33.0", (DEFAULT_MODE, DEFAULT_GRAPH)),
    ("tpu", DENSE, {}, "0.33.0", (DEFAULT_MODE, ("NONE", PLATFORM))),
    ("unspecified", DENSE, {}, "0.33.0", (DEFAULT_MODE, ("NONE", PLATFORM))),
    ("cpu", DENSE, {}, "0.33.0", (("DYNAMO_TRACE_ONCE", PLATFORM), ("NONE", PLATFORM))),
    ("cpu", [*DENSE, "--enable-lora"], {}, "0.33.0", (("NONE", PLATFORM), ("NONE", PLATFORM))),
    ("cpu", [*DENSE, "-cc.mode=1"], {}, "0.31.0", (STOCK, ("NONE", PLATFORM))),
    ("xpu", DENSE, {}, "0.30.0", (DEFAULT_MODE, ("NONE", PLATFORM))),
    ("xpu", DENSE, {"VLLM_XPU_ENABLE_XPU_GRAPH": "1"}, "0.30.0", (DEFAULT_MODE, DEFAULT_GRAPH)),
    ("xpu", DENSE, {}, "0.31.0", (DEFAULT_MODE, DEFAULT_GRAPH)),
    (
        "xpu",
        [*DENSE, "--enable-sleep-mode"],
        {"VLLM_XPU_ENABLE_XPU_GRAPH": "1"},
        "0.31.0",
        (DEFAULT_MODE, ("NONE", PLATFORM)),
    ),
    ("rocm", [*DENSE, "-pcp", "2"], {}, "0.33.0", (DEFAULT_MODE, ("PIECEWISE", PLATFORM))),
    ("rocm", ["--model", "mla", "-tp", "2", "-dcp", "2"], {}, "0.28.0", (DEFAULT_MODE, ("PIECEWISE", PLATFORM))),
    ("rocm", ["--model", "mla", "-tp", "2", "-dcp", "2"], {}, "0.29.0", (DEFAULT_MODE, DEFAULT_GRAPH)),
    ("rocm", [*DENSE, "-pcp", "2", "-cc.cudagraph_mode=NONE"], {}, "0.33.0", (DEFAULT_MODE, ("NONE", "args[4]"))),
    ("rocm", ["--model", "breakable"], {}, "0.29.0", (BREAKABLE, DEFAULT_GRAPH)),
    ("rocm", ["--model", "breakable"], {}, "0.30.0", (DEFAULT_MODE, DEFAULT_GRAPH)),
]


@table(("platform", "args", "env", "release", "expected"), BY_PLATFORM)
def test_the_hook_of_the_platform_decides_last(
    ask: Asking, platform: str, args: list[str], env: dict[str, str], release: str, expected: tuple[Origin, Origin]
) -> None:
    assert modes(ask, args, release, env=env, environment={"platform": platform}) == expected


LAYERWISE = {
    "kv_connector": "LMCacheConnectorV1",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"use_layerwise": True},
}


def several(*connectors: Any) -> dict[str, Any]:
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": list(connectors)},
    }


def nested(depth: int) -> dict[str, Any]:
    return LAYERWISE if depth == 0 else several(nested(depth - 1))


def transfer(config: dict[str, Any]) -> list[str]:
    return [*DENSE, "--kv-transfer-config", json.dumps(config)]


WITHOUT_GRAPHS = ("PIECEWISE", HERE)
LIMITED: list[tuple[list[str], Origin]] = [
    (["--model", "pooling"], ("PIECEWISE", "model_configs/pooling/architectures")),
    ([*DENSE, "--runner", "pooling"], ("PIECEWISE", HERE)),
    (["--model", "encoder-decoder"], ("FULL_DECODE_ONLY", "model_configs/encoder-decoder/is_encoder_decoder")),
    (["--model", "encoder-decoder", "-O0"], ("NONE", HERE)),
    (transfer(LAYERWISE), WITHOUT_GRAPHS),
    (transfer({**LAYERWISE, "kv_connector_extra_config": {"use_layerwise": False}}), DEFAULT_GRAPH),
    (transfer({**LAYERWISE, "kv_connector": "NixlConnector"}), DEFAULT_GRAPH),
    (transfer({"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}), DEFAULT_GRAPH),
    (transfer(several({"kv_connector": "NixlConnector"}, LAYERWISE)), WITHOUT_GRAPHS),
    (transfer(several({"kv_connector": "NixlConnector"}, 3)), DEFAULT_GRAPH),
    (transfer({**several(), "kv_connector_extra_config": {"connectors": 3}}), DEFAULT_GRAPH),
    (transfer(nested(4)), WITHOUT_GRAPHS),
    (transfer(nested(6)), DEFAULT_GRAPH),
]


@table(("args", "graph"), LIMITED)
def test_pooling_encoders_and_layerwise_connectors_limit_graphs(ask: Asking, args: list[str], graph: Origin) -> None:
    assert ask.fact(GRAPH, args) == graph


SP_ON = "-cc.pass_config.enable_sp=true"
FUSED = "-cc.pass_config.fuse_gemm_comms=true"
LEAST = cc(pass_config={"enable_sp": True, "sp_min_token_num": 1})
TWO = ["-tp", "2"]
SEQUENCES: list[tuple[list[str], str, str, Origin, str]] = [
    ([*LARGE, *TWO], "cuda", "0.31.0", (False, "default"), "FULL_AND_PIECEWISE"),
    ([*LARGE, SP_ON, *TWO], "cuda", "0.31.0", (True, HERE), "FULL"),
    ([*LARGE, FUSED, *TWO], "cuda", "0.31.0", (True, HERE), "FULL"),
    ([*LARGE, SP_ON], "cuda", "0.31.0", (False, "default"), "FULL_AND_PIECEWISE"),
    ([*LARGE, SP_ON, "-tp", "1"], "cuda", "0.31.0", (False, "args[3]"), "FULL_AND_PIECEWISE"),
    ([*DENSE, SP_ON, *TWO], "cuda", "0.31.0", (False, "model_configs/dense/hidden_size"), "FULL_AND_PIECEWISE"),
    ([*LARGE, SP_ON, *TWO], "rocm", "0.31.0", (False, PLATFORM), "FULL_AND_PIECEWISE"),
    ([*DENSE, *LEAST, *TWO], "cuda", "0.31.0", (True, HERE), "FULL"),
    ([*DENSE, *LEAST, *TWO], "xpu", "0.23.0", (False, PLATFORM), "NONE"),
    ([*DENSE, *LEAST, *TWO], "xpu", "0.24.0", (True, HERE), "NONE"),
    (
        [*LARGE, *cc(pass_config={"enable_sp": True}, use_inductor_graph_partition=True), *TWO],
        "cuda",
        "0.31.0",
        (True, HERE),
        "FULL_AND_PIECEWISE",
    ),
    ([*LARGE, *cc(pass_config={"enable_sp": True}, mode=1), *TWO], "cuda", "0.31.0", (True, HERE), "FULL_DECODE_ONLY"),
]


@table(("args", "platform", "release", "expected", "graph"), SEQUENCES)
def test_sequence_parallelism_is_switched_off_if_it_brings_no_benefit(
    ask: Asking, args: list[str], platform: str, release: str, expected: Origin, graph: str
) -> None:
    given = {"environment": {"platform": platform}}
    found = ask.fact(GRAPH, args, release, **given)
    assert (ask.fact(SP, args, release, **given), found and found[0]) == (expected, graph)


def test_a_hidden_size_of_a_part_counts_as_the_models(ask: Asking) -> None:
    vision = MODELS["vision"]
    models = {"x": {**vision, "text_config": {**vision["text_config"], "hidden_size": 8192}}}
    assert ask.fact(SP, ["--model", "x", SP_ON, *TWO], "0.31.0", models=models) == (True, HERE)


def drafts(**keys: Any) -> list[str]:
    keys = {"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": [[1, 4, 3]], **keys}
    return [*DENSE, "--speculative-config", json.dumps(keys)]


STATED = ([[1, 4, 3]], HERE)
EAGLE = drafts(model="eagle3-draft")
SCHEDULES: list[tuple[list[str], dict[str, str], dict[str, tuple[Origin, Origin]]]] = [
    (EAGLE, {}, {"0.24.0": (STATED, ("PIECEWISE", HERE)), "0.25.0": (STATED, DEFAULT_GRAPH)}),
    (EAGLE, V1, {"0.25.0": (STATED, ("PIECEWISE", HERE)), "0.33.0": (STATED, ("PIECEWISE", HERE))}),
    ([*EAGLE, "-cc.cudagraph_mode=NONE"], V1, {"0.33.0": (STATED, ("NONE", "args[4]"))}),
    ([*EAGLE, "-dp", "2"], {}, {"0.25.1": (STATED, DEFAULT_GRAPH), "0.26.0": ((None, "args[4]"), DEFAULT_GRAPH)}),
    (EAGLE, {"VLLM_DP_SIZE": "2"}, {"0.26.0": ((None, "env.VLLM_DP_SIZE"), DEFAULT_GRAPH)}),
    (drafts(method="suffix"), V1, {"0.32.0": (STATED, ("PIECEWISE", HERE)), "0.33.0": ((None, HERE), DEFAULT_GRAPH)}),
    (drafts(method="ngram"), V1, {"0.33.0": (STATED, ("PIECEWISE", HERE))}),
]


@table(("args", "env", "expected"), SCHEDULES)
def test_drafts_by_batch_size_cost_graphs_or_are_dropped(
    ask: Asking, args: list[str], env: dict[str, str], expected: dict[str, tuple[Origin, Origin]]
) -> None:
    found = {
        release: (ask.fact(SCHEDULE, args, release, env=env), ask.fact(GRAPH, args, release, env=env))
        for release in expected
    }
    assert found == expected


THROUGHPUT = ["--all2all-backend", "deepep_high_throughput"]
SPLIT: list[tuple[list[str], dict[str, str], Origin]] = [
    ([*DENSE, *cc(splitting_ops=[])], {}, ("FULL", HERE)),
    ([*DENSE, "-cc.splitting_ops=[]"], {}, ("FULL", HERE)),
    ([*DENSE, *cc(splitting_ops=[], cudagraph_mode="PIECEWISE")], {}, ("NONE", HERE)),
    ([*DENSE, *cc(splitting_ops=[], cudagraph_mode="FULL_DECODE_ONLY")], {}, ("FULL_DECODE_ONLY", HERE)),
    ([*DENSE, *cc(splitting_ops=["x"])], {}, DEFAULT_GRAPH),
    ([*DENSE, *cc(splitting_ops=[])], {"VLLM_USE_V2_MODEL_RUNNER": "x"}, DEFAULT_GRAPH),
    (["--model", "moe", *THROUGHPUT, "-dp", "2"], {}, ("NONE", HERE)),
    (["--model", "moe", *THROUGHPUT], {}, DEFAULT_GRAPH),
    ([*DENSE, *THROUGHPUT, "-dp", "2"], {}, DEFAULT_GRAPH),
]


@table(("args", "env", "graph"), SPLIT)
def test_splitting_the_graph_changes_its_mode_after_the_runner_is_chosen(
    ask: Asking, args: list[str], env: dict[str, str], graph: Origin
) -> None:
    assert ask.fact(GRAPH, args, env=env) == graph


def test_a_model_without_a_hidden_size_has_no_sequence_parallelism(ask: Asking) -> None:
    models = {"x": {**CONFIG, "hidden_size": "many"}}
    assert ask.fact(SP, ["--model", "x", SP_ON, *TWO], "0.31.0", models=models) == (
        False,
        "model_configs/x/hidden_size",
    )


LEGAL_MODES = "`NONE`, `STOCK_TORCH_COMPILE`, `DYNAMO_TRACE_ONCE`, `VLLM_COMPILE`"
LEGAL_GRAPHS = "`NONE`, `PIECEWISE`, `FULL`, `FULL_DECODE_ONLY`, `FULL_AND_PIECEWISE`"
UNKNOWN_MODES: list[tuple[str, Any, str]] = [
    ("mode", "fast", f"`fast` is not legal for `{MODE}`; legal: {LEGAL_MODES}"),
    ("mode", 4, f"`4` is not legal for `{MODE}`; legal: {LEGAL_MODES}"),
    ("mode", -1, f"`-1` is not legal for `{MODE}`; legal: {LEGAL_MODES}"),
    ("mode", "4", f"`4` is not legal for `{MODE}`; legal: {LEGAL_MODES}"),
    ("cudagraph_mode", "all", f"`all` is not legal for `{GRAPH}`; legal: {LEGAL_GRAPHS}"),
    ("cudagraph_mode", 5, f"`5` is not legal for `{GRAPH}`; legal: {LEGAL_GRAPHS}"),
]


@table(("key", "value", "message"), UNKNOWN_MODES)
def test_an_unknown_mode_is_a_fault_at_its_argument(ask: Asking, key: str, value: Any, message: str) -> None:
    assert ask.refusal([*DENSE, *cc(**{key: value})]) == ("invalid-request", [("/deployment/args/2", message)])


NGRAM = {**CONFIG, "architectures": ["LongcatFlashNgramForCausalLM"], "model_type": "longcat_flash_ngram"}


@table(
    ("flags", "release", "mode", "graph"),
    [
        ([], "0.26.0", ("NONE", "model_configs/x"), ("FULL", "model_configs/x")),
        ([], "0.33.0", ("NONE", "model_configs/x"), ("FULL", "model_configs/x")),
        (["-O0"], "0.33.0", ("NONE", "model_configs/x"), ("FULL", "model_configs/x")),
        (["-cc.mode=3"], "0.33.0", ("VLLM_COMPILE", HERE), ("FULL", "model_configs/x")),
        (["-cc.cudagraph_mode=full_decode_only"], "0.33.0", ("NONE", "model_configs/x"), ("FULL_DECODE_ONLY", HERE)),
        (["--enforce-eager"], "0.33.0", ("NONE", "model_configs/x"), ("NONE", HERE)),
    ],
)
def test_a_hook_sets_the_modes_that_are_not_stated(
    ask: Asking, flags: list[str], release: str, mode: Origin, graph: Origin
) -> None:
    assert modes(ask, ["--model", "x", *flags], release, models={"x": NGRAM}) == (mode, graph)
