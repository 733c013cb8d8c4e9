"""The model tables as they are shipped: what each release knows."""

from __future__ import annotations

import pytest
from tables import table

from policy.intake.model.tables import Model, provenance, releases, releases_with_flags, tables


def test_the_tables_cover_every_release_with_the_digests_of_its_sources() -> None:
    assert releases()[0] == "0.20.0"
    assert releases()[-1] == "0.33.0"
    assert len(releases()) == 19
    assert (releases_with_flags()[0], releases_with_flags()[-len(releases()) :]) == ("0.3.0", releases())
    assert len(releases_with_flags()) == 83
    assert all(len(row["sha256"]) == 64 for rows in provenance().values() for row in rows.values())


@table("release", releases())
def test_every_class_of_a_release_could_be_read(release: str) -> None:
    found = tables(release)
    models = found.models.values()
    assert len(found.models) > 300
    assert {
        "suffix_defaults",
        "num_experts_names",
        "mla_model_types",
        "attention_only_layer_types",
        "mtp_overrides",
    } <= found.constants.keys()
    assert sum(model.is_text_generation_model or model.is_pooling_model for model in models) > 0.95 * len(found.models)


def test_tables_are_read_once() -> None:
    assert tables("0.33.0") is tables("0.33.0")


def test_a_model_changes_with_the_release() -> None:
    hybrid = {
        release: model is not None and model.is_hybrid
        for release in ("0.23.0", "0.27.1")
        for model in [tables(release).model("MiniMaxText01ForCausalLM")]
    }
    assert hybrid == {"0.23.0": True, "0.27.1": False}
    assert tables("0.27.1").previously["BambaForCausalLM"] == "0.23.0"


def test_a_model_has_the_flags_of_its_platform() -> None:
    newest = tables("0.33.0")
    flags = {
        platform: model.supports_pp
        for platform in ("cuda", "rocm")
        if (model := newest.model("DeepseekV41ForCausalLM", platform)) is not None
    }
    other = newest.other_platforms
    assert flags.keys() == {"cuda", "rocm"}
    assert {type(model) for models in other.values() for model in models.values()} == {Model}
    assert newest.model("NoSuchModel", "rocm") is None


def test_an_unknown_release_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        tables("0.1.0")


BREAKABLE = [
    ("0.22.1", "cuda", "DeepseekV4ForCausalLM", False),
    ("0.23.0", "cuda", "DeepseekV4ForCausalLM", True),
    ("0.26.0", "cuda", "KimiLinearForCausalLM", False),
    ("0.27.0", "cuda", "KimiLinearForCausalLM", True),
    ("0.28.0", "cuda", "GlmMoeDsaForCausalLM", False),
    ("0.29.0", "cuda", "GlmMoeDsaForCausalLM", True),
    ("0.29.0", "cuda", "DeepseekV32ForCausalLM", True),
    ("0.29.0", "rocm", "DeepseekV32ForCausalLM", False),
    ("0.33.0", "rocm", "DeepseekV41ForCausalLM", True),
    ("0.33.0", "rocm", "DeepseekV4ForCausalLM", False),
]


@table(("release", "platform", "architecture", "expected"), BREAKABLE)
def test_some_architectures_get_breakable_cuda_graphs_by_default(
    release: str, platform: str, architecture: str, *, expected: bool
) -> None:
    by_platform = tables(release).constants.get("breakable_cudagraph_architectures", {"cuda": frozenset()})
    assert (architecture in by_platform.get(platform, by_platform["cuda"])) is expected


DRAFT_METHODS = {
    "0.20.0": {},
    "0.24.0": {},
    "0.29.0": {
        "Gemma4DSparkModel": "dspark",
        "MuseGlimmerAssistantModel": "dflash",
        "Qwen3DSparkModel": "dspark",
        "Qwen3OmniDSparkModel": "dspark",
    },
}


@pytest.mark.parametrize("release", DRAFT_METHODS)
def test_some_draft_architectures_decide_the_method_alone(release: str) -> None:
    assert tables(release).constants.get("draft_architecture_methods", {}) == DRAFT_METHODS[release]
