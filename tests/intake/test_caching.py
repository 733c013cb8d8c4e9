"""The mode of the Mamba cache, from the arguments, the model's class and the release's prefix caching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deployments import HEADS, MODELS
from tables import table

if TYPE_CHECKING:
    from deployments import Asking

MODE = "cache_config.mamba_cache_mode"
CACHING = "--enable-prefix-caching"
NO_CACHING = "--no-enable-prefix-caching"
ALL = ["--mamba-cache-mode", "all"]
ALIGN = ["--mamba-cache-mode", "align"]

MODES: list[tuple[list[str], dict[str, tuple[str, str]]]] = [
    (["dense"], {"0.20.0": ("none", "default"), "0.33.0": ("none", "default")}),
    (["dense", *ALL], {"0.22.0": ("all", "args[2]"), "0.31.0": ("all", "args[2]")}),
    (["dense", *ALIGN], {"0.32.0": ("align", "args[2]"), "0.33.0": ("none", "args[2]")}),
    (["dense", CACHING, *ALIGN], {"0.32.0": ("align", "args[3]")}),
    (["hybrid"], {"0.27.1": ("none", "default"), "0.28.0": ("align", "default"), "0.33.0": ("align", "default")}),
    (["hybrid", CACHING], {"0.27.1": ("all", "args[2]"), "0.28.0": ("align", "args[2]")}),
    (["hybrid", NO_CACHING], {"0.27.1": ("none", "default"), "0.28.0": ("none", "default")}),
    (["hybrid", *ALL], {"0.27.1": ("none", "default"), "0.28.0": ("all", "args[2]"), "0.31.0": ("all", "args[2]")}),
    (["hybrid", NO_CACHING, *ALIGN], {"0.28.0": ("none", "args[2]"), "0.33.0": ("none", "args[2]")}),
    (["mamba"], {"0.27.1": ("none", "default"), "0.28.0": ("none", "default")}),
    (["mamba", CACHING], {"0.27.1": ("all", "args[2]"), "0.28.0": ("align", "args[2]")}),
    (["qwen3-next", CACHING], {"0.27.1": ("align", "args[2]"), "0.28.0": ("align", "args[2]")}),
    (["qwen3-next", CACHING, *ALL], {"0.27.1": ("align", "args[2]"), "0.28.0": ("align", "args[2]")}),
]


MODULES = {"a/modules.json": '[{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]'}
POOLINGS: list[tuple[str, list[str], str | None, str]] = [
    ("0.31.0", [], '{"pooling_mode_mean_tokens": true}', "none"),
    ("0.31.0", [], '{"pooling_mode_mean_tokens": false, "pooling_mode_lasttoken": true}', "align"),
    ("0.31.0", [], '{"pooling_mode_lasttoken": true, "pooling_mode_cls_token": true}', "none"),
    ("0.31.0", [], '{"pooling_mode": "mean"}', "none"),
    ("0.29.0", [], '{"pooling_mode": "mean"}', "align"),
    ("0.31.0", [], '{"pooling_mode": "weightedmean"}', "align"),
    ("0.31.0", [], '["pooling_mode_mean_tokens"]', "align"),
    ("0.31.0", [], None, "align"),
    ("0.31.0", ["--pooler-config", '{"pooling_type": "LAST"}'], '{"pooling_mode_mean_tokens": true}', "align"),
    ("0.31.0", ["--pooler-config", '{"pooling_type": "STEP"}'], None, "none"),
    ("0.31.0", ["--pooler-config.seq_pooling_type", "MEAN"], '{"pooling_mode_lasttoken": true}', "none"),
    ("0.31.0", ["--pooler-config", '{"use_activation": true}'], '{"pooling_mode_mean_tokens": true}', "none"),
]


@table(("release", "args", "pooling", "expected"), POOLINGS)
def test_the_cache_mode_of_a_pooling_hybrid_depends_on_its_pooling(
    ask: Asking, release: str, args: list[str], pooling: str | None, expected: str
) -> None:
    files = MODULES if pooling is None else {**MODULES, "a/1_Pooling/config.json": pooling}
    found = ask.fact(MODE, ["--model", "a", *args], release, models={"a": MODELS["hybrid"]}, files=files)
    assert found == (expected, "default")


@table(("args", "expected"), MODES, ids=[" ".join(args) for args, _ in MODES])
def test_the_hooks_of_a_release_determine_the_mode(
    ask: Asking, args: list[str], expected: dict[str, tuple[str, str]]
) -> None:
    assert {release: ask.fact(MODE, ["--model", *args], release) for release in expected} == expected


ENCODER_ONLY = "--mm-encoder-only"
VISION = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "text_config": {"model_type": "qwen3_5_text", **HEADS},
}
ENCODERS: list[tuple[list[str], dict[str, tuple[str, str]]]] = [
    ([], {"0.27.1": ("none", "default"), "0.28.0": ("align", "default"), "0.31.0": ("align", "default")}),
    ([ENCODER_ONLY, CACHING], {"0.30.0": ("align", "args[3]"), "0.31.0": ("none", "default")}),
    ([ENCODER_ONLY, *ALIGN], {"0.30.0": ("align", "args[3]"), "0.31.0": ("none", "args[2]")}),
]


@pytest.mark.parametrize(("args", "expected"), ENCODERS)
def test_from_0_31_on_an_encoder_only_engine_caches_no_prefixes(
    ask: Asking, args: list[str], expected: dict[str, tuple[str, str]]
) -> None:
    found = {
        release: ask.fact(MODE, ["--model", "vision-hybrid", *args], release, models={"vision-hybrid": VISION})
        for release in expected
    }
    assert found == expected


POOLED: list[tuple[str, dict[str, object], list[str], tuple[str, str]]] = [
    ("0.33.0", {}, ["--runner", "pooling"], ("align", "default")),
    ("0.33.0", {"is_causal": False}, ["--runner", "pooling"], ("none", "default")),
    ("0.27.1", {}, ["--runner", "pooling"], ("none", "default")),
]


@pytest.mark.parametrize(("release", "members", "args", "expected"), POOLED)
def test_a_pooling_model_caches_prefixes_only_if_it_is_causal(
    ask: Asking, release: str, members: dict[str, object], args: list[str], expected: tuple[str, str]
) -> None:
    models = {"x": {**MODELS["hybrid"], **members}}
    assert ask.fact(MODE, ["--model", "x", *args], release, models=models) == expected


def test_the_mode_all_is_illegal_from_0_32_on(ask: Asking) -> None:
    problem = ask.refusal(["--model", "hybrid", *ALL], "0.32.0")
    assert problem == (
        "invalid-request",
        [("/deployment/args/3", "`--mamba-cache-mode`: `all` is not legal; legal: `align`, `none`")],
    )
