"""The model tables: what each vLLM release knows of an architecture, a model type and its configuration class.

Owns the reading of `models/`, once and when first asked, and the shapes in which the tables are handed out. How they are made is for
`maketables`; what follows from them for a deployment is for `configuration` and `resolution`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from packaging.version import Version

MODELS = Path(__file__).parent / "models"
VLLM_TABLES = ("architectures", "constants", "convertors", "hooks", "out_of_tree", "previously", "vllm_configs")
TRANSFORMERS_TABLES = ("auto_models", "backend_models", "legacy_layer_types", "transformers_configs")
EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of a release's model registry. The flags are those of vLLM's `_ModelInfo`, under its names."""

    architecture: str
    module: str
    class_name: str
    group: str
    is_text_generation_model: bool = False
    is_pooling_model: bool = False
    is_hybrid: bool = False
    is_attention_free: bool = False
    has_inner_state: bool = False
    has_noops: bool = False
    supports_mamba_prefix_caching: bool = False
    supports_multimodal: bool = False
    supports_multimodal_raw_input_only: bool = False
    supports_multimodal_encoder_tp_data: bool = False
    supports_pp: bool = False
    supports_replayssm: bool = False
    supports_transcription: bool = False
    supports_transcription_only: bool = False
    requires_raw_input_tokens: bool = False
    attn_type: str = "decoder"
    seq_pooling_type: str = "LAST"
    tok_pooling_type: str = "ALL"
    score_type: str = "bi-encoder"


FLAGS = frozenset(flag.name for flag in fields(Model) if flag.type is bool)
TEXTS = ("attn_type", "seq_pooling_type", "tok_pooling_type", "score_type")


@dataclass(frozen=True, slots=True)
class ConfigClass:
    """What a configuration class adds to a `config.json`.

    `defaults` holds where a key is not stated; `formulas` what the class computes, None for what could not be read;
    `aliases` names that it stores under another; `parts` the members that can hold the language model, with the model type of each where
    the member does not say it; `text` the member that is the language model where the class says so itself.
    """

    class_name: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    formulas: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str | None] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """All tables of one vLLM release, with those of the Transformers release that goes with it."""

    release: str
    transformers: str
    models: Mapping[str, Model]
    other_platforms: Mapping[str, Mapping[str, Model]]
    previously: Mapping[str, str]
    out_of_tree: Mapping[str, str]
    hooks: Mapping[str, str]
    convertors: Mapping[str, Mapping[str, Any]]
    constants: Mapping[str, Any]
    configs: Mapping[str, ConfigClass]
    auto_models: Mapping[str, Any]
    backend_models: Mapping[str, frozenset[str]]
    legacy_layer_types: Mapping[str, str]

    def model(self, architecture: str, platform: str = "cuda") -> Model | None:
        """The registry's entry of an architecture, with the flags that it has on a platform; None where the release has none."""
        return self.other_platforms.get(platform, EMPTY).get(architecture) or self.models.get(architecture)


def lookup(release: str, architecture: str, platform: str = "cuda") -> Model | None:
    """What a release's registry says of an architecture; None for one that it does not have. Raises KeyError for an unknown release."""
    return tables(release).model(architecture, platform)


@cache
def provenance(folder: Path = MODELS) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Which wheels the tables were read from: `vllm` and `transformers`, by release."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads((folder / "releases.json").read_text(encoding="utf-8"))
    return found


@cache
def releases(folder: Path = MODELS) -> tuple[str, ...]:
    """The vLLM releases that there are tables of, oldest first."""
    return tuple(sorted(provenance(folder)["vllm"], key=Version))


@cache
def tables(release: str, folder: Path = MODELS) -> Tables:
    """The tables of a release. Raises KeyError for a release that there are none of."""
    transformers = str(provenance(folder)["vllm"][release]["transformers"])
    vllm = {name: _at(folder, name, "vllm", release) for name in VLLM_TABLES}
    other = {name: _at(folder, name, "transformers", transformers) for name in TRANSFORMERS_TABLES}
    return Tables(
        release=release,
        transformers=transformers,
        models={architecture: _model(architecture, row, row["flags"]) for architecture, row in vllm["architectures"].items()},
        other_platforms=_other_platforms(vllm["architectures"]),
        previously=vllm["previously"],
        out_of_tree=vllm["out_of_tree"],
        hooks=vllm["hooks"],
        convertors=vllm["convertors"],
        constants=vllm["constants"],
        configs={model_type: _config(row) for model_type, row in (other["transformers_configs"] | vllm["vllm_configs"]).items()},
        auto_models=other["auto_models"],
        backend_models={architecture: frozenset(words) for architecture, words in other["backend_models"].items()},
        legacy_layer_types=other["legacy_layer_types"],
    )


@cache
def _lines(folder: Path, name: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    text = (folder / f"{name}.jsonl").read_text(encoding="utf-8")
    return tuple((key, since) for key, since in map(json.loads, text.splitlines()))


def _at(folder: Path, name: str, package: str, release: str) -> dict[str, Any]:
    """A table as it is in one release: the last value that began at or before it."""
    known = sorted(provenance(folder)[package], key=Version)
    place = {version: index for index, version in enumerate(known)}
    table = {}
    for key, since in _lines(folder, name):
        began = [version for version in since if place[version] <= place[release]]
        if began and since[began[-1]] is not None:
            table[key] = since[began[-1]]
    return table


def _model(architecture: str, row: Mapping[str, Any], flags: list[str] | None) -> Model:
    texts = {name: row[name] for name in TEXTS if name in row}
    given: dict[str, Any] = dict.fromkeys(FLAGS.intersection(flags or ()), True) | texts
    return Model(architecture, row["module"], row["class"], row["group"], **given)


def _other_platforms(rows: Mapping[str, Any]) -> dict[str, dict[str, Model]]:
    other: dict[str, dict[str, Model]] = {}
    for architecture, row in rows.items():
        for platform, flags in row.get("on", {}).items():
            other.setdefault(platform, {})[architecture] = _model(architecture, row, flags)
    return other


def _config(row: Mapping[str, Any]) -> ConfigClass:
    given = {name: row[name] for name in ("defaults", "formulas", "aliases", "parts", "text") if name in row}
    return ConfigClass(row["class"], **given)
