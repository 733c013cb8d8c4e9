"""The model tables: what each vLLM release knows about architectures, model types and configuration classes.

Reads `data/` once, on first use, and defines the types of the tables. Not here: generating them
(`policy.vllm.tablegen`), and applying them to a deployment (`configuration`, `registry`).

`Tables.constants` holds the constants and decisions of a release under the names below, except those that the release
does not have. A *formula* is computed by `policy.intake.model.formula.compute(formula, key)`, where `key` returns the
value of a name in the formula.

Lists and names:

- `architecture_to_model_type`: architecture → the model type of a `config.json` without one (0.32).
- `attention_only_layer_types`: a model of a hybrid class is not hybrid if all its layers are of these types.
- `backend_asks`, `use_mla_asks`, `compress_ratios_asks`, `hooks_ask`: further conditions in a method of the release, as
  identifiers of its source.
- `breakable_cudagraph_architectures`: platform → the architectures that get breakable CUDA graphs, and with them
  compilation mode NONE, unless `VLLM_USE_BREAKABLE_CUDAGRAPH` is set. Other platforms use the entry of `cuda`. Taken
  from `default_breakable_cudagraph_architectures` (0.29), before that from a test in `VllmConfig.__post_init__` (0.23).
- `config_attribute_renames`: field of `config.json` → the name under which vLLM reads it.
- `mla_model_types`, `mla_eagle_model_types`: model types with multi-head latent attention, of a model and of the model
  within an EAGLE draft.
- `mtp_model_types`, `eagle_model_types`, `speculative_methods`: the literals of `SpeculativeConfig`.
  `xpress_architectures`: its set (0.33).
- `num_experts_names`: the fields with the number of experts, in the order in which they are read.
- `runner_converts`: the conversions of each runner. `suffix_defaults`: suffix of an architecture's name → runner and
  conversion; the first match wins.
- `draft_architecture_methods`: draft architecture → the method, if the architecture alone determines it.
  `dspark_architectures`: the DSpark drafts that keep their names.

Decisions, as formulas:

- `mtp_overrides`: ordered rows, one for each statement of `SpeculativeConfig.hf_config_override`. A row with `when`
  applies if that is true. Its other fields are `model_type`, `architectures`, `layer_types`: their new values; `part`:
  the nested configuration that replaces the whole; `return`: this is the last row; any other name is a value for later
  rows. Keys are fields of the configuration before the row, dotted if nested, and `initial_architecture`.
  `configuration.as_draft` applies the rows.
- `draft_method`: the method that `SpeculativeConfig.__post_init__` chooses for a model-based draft. Keys: `method` so
  far, `draft_model_config.model` (the name as written), `draft_model_config.architectures` and
  `draft_model_config.hf_config.model_type` after `mtp_overrides`, `using_transformers_mtp`.
- `draft_overrides`: such rows for what `__post_init__` does next: `draft_model_config.architectures` (the names of
  EAGLE, DFlash and DSpark drafts), `draft_model_config.hf_config.model_type`, `parallel_drafting`. Keys: the same, and
  `draft_model_config.hf_config.class` (the name of the configuration class) and
  `target_model_config.hf_config.model_type`. `configuration.evaluate_rows` applies the rows.
- `speculators`: `formats`: `speculators_model_type` → the changes of that format to `transformer_layer_config` (keys:
  its fields, and `config_dict.X` for those of the whole document); `speculative_config`: the `method` and
  `parallel_drafting` of a repository that is given as the target.
- `async_scheduling`: `scheduler_config.async_scheduling` after `VllmConfig.__post_init__`. Keys are names of vLLM's
  configuration, as facts have, and `executor_class.supports_async_scheduling`, `use_v2_model_runner`,
  `platform.is_rocm`.
- `prefix_caching`: whether prefix caching is on by default, from `ModelConfig.is_prefix_caching_supported` and
  `EngineArgs`. Keys: `attn_type` (`ModelConfig.attn_type`), `pooler_config` and its `seq_pooling_type` and
  `tok_pooling_type`, `model_config.is_hybrid`.
- `hook_changes`: hook class → field that its `verify_and_update_config` changes → formula:
  `cache_config.mamba_cache_mode`, `compilation_config.mode`, `compilation_config.cudagraph_mode`. `Tables.hooks` names
  the hook of an architecture; a hybrid model also has `HybridAttentionMambaModelConfig`. Keys: names of vLLM's
  configuration, `cache_config.enable_prefix_caching`, `model_config.supports_mamba_prefix_caching`,
  `speculative_config`.

`Tables.names` has the names that a release knows, by set, such as `kv_connectors`, and as `without_lora` the
architectures whose class does not support LoRA. `Tables.bounds` has the bounds of options and of fields of JSON
options, with the class that checks them.

`Tables.convertors` has the class of each model type's convertor, its changes, and a formula for the `architectures` it
sets (keys: fields of the configuration, `name_or_path`, and `file NAME`, which is whether the model has that file).
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from packaging.version import Version

from policy.intake.model.formula import formula_keys
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Mapping

TABLES_FOLDER: Final = Path(__file__).parent / "data"
VLLM_TABLES: Final = (
    "architectures",
    "bounds",
    "constants",
    "convertors",
    "hooks",
    "names",
    "out_of_tree",
    "previously",
    "vllm_configs",
)
ARGUMENTS: Final = "arguments"
"""The table of the flags, which older releases have as well."""
VARIABLES: Final = "variables"
"""The table of the environment variables, which older releases have as well."""
DEPRECATIONS: Final = "deprecations"
"""The table of the flags that a release accepts but calls deprecated, which older releases have as well."""
TRANSFORMERS_TABLES: Final = (
    "auto_models",
    "backend_models",
    "legacy_layer_types",
    "renamed_layer_types",
    "transformers_configs",
)
MAX_TABLES: Final = 64
"""The maximum number of pairs of releases, of vLLM and Transformers, whose tables are cached."""
NO_MODELS: Final[Mapping[str, Any]] = MappingProxyType({})
SET_CONSTANTS: Final = frozenset(
    {
        "dspark_architectures",
        "eagle_model_types",
        "mla_eagle_model_types",
        "mla_model_types",
        "mtp_model_types",
        "speculative_methods",
        "xpress_architectures",
    }
)
PLATFORM_CONSTANT: Final = "breakable_cudagraph_architectures"


class Model(Struct, frozen=True):
    """An entry of a release's model registry. The flags are those of vLLM's `_ModelInfo`, with its names."""

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


class ConfigClass(Struct, frozen=True):
    """A configuration class: what it adds to a `config.json`.

    `defaults` has the values of fields that are not stated. `formulas` has the attributes that the class computes, None
    if a formula could not be translated. `aliases` maps a name to the name under which it is stored; `spellings` maps a
    stored name to all its names, itself first. `parts` has the fields with nested configurations, and their default
    model types. `text` is the field of the language model, if the class defines it. `flattens` is the field whose
    fields the class adopts as its own. `special` has the attributes with aliases or formulas, and `layer_types`;
    `known` has these and the attributes with defaults. `inputs` has the fields of the document that each formula
    depends on. `sources` has the formula of the mapping that a part is built from, if that is not the part itself, and
    `built` its class, if that does not follow from its model type. `forwards` is the part whose attributes the class
    returns in place of its own. `other_model` is the field with the name of another model, whose configuration becomes
    that of the language model. `is_own`: whether vLLM registers the class, as it does its own and few of Transformers'.
    """

    class_name: str
    defaults: Mapping[str, Any] = {}
    formulas: Mapping[str, Any] = {}
    aliases: Mapping[str, str] = {}
    spellings: Mapping[str, tuple[str, ...]] = {}
    parts: Mapping[str, str | None] = {}
    sources: Mapping[str, Any] = {}
    built: Mapping[str, ConfigClass] = {}
    text: str | None = None
    flattens: str | None = None
    forwards: str | None = None
    other_model: str | None = None
    is_own: bool = False
    special: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    inputs: Mapping[str, tuple[str, ...]] = {}


class Tables(Struct, frozen=True, eq=False):
    """All tables of one vLLM release, with those of its Transformers release.

    `resolutions` is the cache of `registry`: architecture and query → class. `computed` is the cache of
    `configuration`: formula and inputs → value.
    """

    release: str
    series: tuple[int, int]
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
    renamed_layer_types: Mapping[str, str]
    names: Mapping[str, frozenset[str]] = {}
    bounds: Mapping[str, Mapping[str, Any]] = {}
    resolutions: dict[Any, Any] = {}
    computed: dict[Any, Any] = {}

    def model(self, architecture: str, platform: str = "cuda") -> Model | None:
        """The registry's entry of an architecture, with its flags on the platform; None if there is no entry."""
        return self.other_platforms.get(platform, NO_MODELS).get(architecture) or self.models.get(architecture)


FLAGS: Final = frozenset(field.name for field in msgspec.structs.fields(Model) if field.type is bool)
TEXT_FIELDS: Final = ("attn_type", "seq_pooling_type", "tok_pooling_type", "score_type")
CLASS_FIELDS: Final = (
    "defaults",
    "formulas",
    "aliases",
    "parts",
    "sources",
    "text",
    "flattens",
    "forwards",
    "other_model",
)


@cache
def provenance(folder: Path = TABLES_FOLDER) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The wheels from which the tables were generated: `vllm` and `transformers`, by release."""
    return msgspec.json.decode((folder / "releases.json").read_bytes(), type=dict[str, dict[str, dict[str, Any]]])


@cache
def releases(folder: Path = TABLES_FOLDER) -> tuple[str, ...]:
    """The vLLM releases with tables of models, oldest first."""
    known = provenance(folder)["vllm"]
    return tuple(release for release in releases_with_flags(folder) if known[release]["transformers"] is not None)


@cache
def releases_with_flags(folder: Path = TABLES_FOLDER) -> tuple[str, ...]:
    """The vLLM releases with a table of flags, oldest first; the older ones have no tables of models."""
    return tuple(sorted(provenance(folder)["vllm"], key=Version))


def tables_of_transformers(release: str, stated: str = "", folder: Path = TABLES_FOLDER) -> str:
    """The Transformers release whose tables apply: the newest that is not newer than ``stated``, else the oldest.

    Without ``stated`` it is the newest that the vLLM release allowed when it was published.
    """
    if not stated:
        return str(provenance(folder)["vllm"][release]["transformers"])
    known = tuple(_positions(folder, "transformers"))
    asked = Version(stated)
    return next((version for version in reversed(known) if Version(version) <= asked), known[0])


@lru_cache(maxsize=MAX_TABLES)
def tables(release: str, folder: Path = TABLES_FOLDER, transformers: str = "") -> Tables:
    """The tables of a release, read on first use, with those for a stated Transformers release, if it is not empty.

    Cached although ``_tables`` is: resolving the release of Transformers takes 1 % of the time to derive facts.

    Raises KeyError for a release without tables of models.
    """
    if release not in releases(folder):
        raise KeyError(release)
    return _tables(release, tables_of_transformers(release, transformers, folder), folder)


@lru_cache(maxsize=MAX_TABLES)
def _tables(release: str, transformers: str, folder: Path) -> Tables:
    vllm = _vllm_tables(folder, release)
    other = _transformers_tables(folder, transformers)
    return Tables(
        release=release,
        series=series(release),
        transformers=transformers,
        models=vllm["models"],
        other_platforms=vllm["other_platforms"],
        previously=vllm["previously"],
        out_of_tree=vllm["out_of_tree"],
        hooks=vllm["hooks"],
        convertors=vllm["convertors"],
        constants=vllm["constants"],
        configs=other["transformers_configs"] | vllm["vllm_configs"],
        auto_models=other["auto_models"],
        backend_models=other["backend_models"],
        legacy_layer_types=other["legacy_layer_types"],
        renamed_layer_types=other["renamed_layer_types"],
        names=vllm["names"],
        bounds=vllm["bounds"],
    )


@cache
def _vllm_tables(folder: Path, release: str) -> dict[str, Any]:
    found = {name: _table_at(folder, name, "vllm", release) for name in VLLM_TABLES}
    rows = found["architectures"]
    return found | {
        "models": {architecture: _model(architecture, row, row["flags"]) for architecture, row in rows.items()},
        "other_platforms": _other_platforms(rows),
        "constants": {name: _constant(name, value) for name, value in found["constants"].items()},
        "vllm_configs": {model_type: _config(row, is_own=True) for model_type, row in found["vllm_configs"].items()},
        "names": {name: frozenset(values) for name, values in found["names"].items()},
    }


@cache
def _transformers_tables(folder: Path, version: str) -> dict[str, Any]:
    found = {name: _table_at(folder, name, "transformers", version) for name in TRANSFORMERS_TABLES}
    return found | {
        "transformers_configs": {model_type: _config(row) for model_type, row in found["transformers_configs"].items()},
        "backend_models": {architecture: frozenset(words) for architecture, words in found["backend_models"].items()},
    }


def transformers_releases(folder: Path = TABLES_FOLDER) -> tuple[str, ...]:
    """The Transformers releases with tables, oldest first."""
    return tuple(_positions(folder, "transformers"))


@cache
def history(name: str, folder: Path = TABLES_FOLDER) -> Mapping[str, Mapping[str, Any]]:
    """A table with its history: key → the releases that changed its value."""
    return dict(_lines(folder, name))


@cache
def all_model_types(folder: Path = TABLES_FOLDER) -> frozenset[str]:
    """The model types for which any known release of vLLM or Transformers has a class."""
    return frozenset(
        key for name in ("auto_models", "transformers_configs", "vllm_configs") for key, _ in _lines(folder, name)
    )


@cache
def _positions(folder: Path, package: str) -> Mapping[str, int]:
    """The position of each release of a package in their order."""
    return {version: index for index, version in enumerate(sorted(provenance(folder)[package], key=Version))}


@cache
def _lines(folder: Path, name: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    decoder = msgspec.json.Decoder(tuple[str, dict[str, Any]])
    return tuple(decoder.decode_lines((folder / f"{name}.jsonl").read_bytes()))


def _table_at(folder: Path, name: str, package: str, release: str) -> dict[str, Any]:
    """A table as of one release: each key's latest value at or before it."""
    positions = _positions(folder, package)
    here = positions[release]
    table = {}
    for key, since in _lines(folder, name):
        found = None
        for version, row in since.items():
            if positions[version] > here:
                break
            found = row
        if found is not None:
            table[key] = found
    return table


def _constant(name: str, found: Any) -> Any:
    if name == PLATFORM_CONSTANT:
        return {platform: frozenset(names) for platform, names in found.items()}
    return frozenset(found) if name in SET_CONSTANTS else found


def _model(architecture: str, row: Mapping[str, Any], flags: list[str] | None) -> Model:
    texts = {name: row[name] for name in TEXT_FIELDS if name in row}
    given: dict[str, Any] = dict.fromkeys(FLAGS.intersection(flags or ()), True) | texts
    return Model(architecture, row["module"], row["class"], row["group"], **given)


def _other_platforms(rows: Mapping[str, Any]) -> dict[str, dict[str, Model]]:
    other: dict[str, dict[str, Model]] = {}
    for architecture, row in rows.items():
        for platform, flags in row.get("on", {}).items():
            other.setdefault(platform, {})[architecture] = _model(architecture, row, flags)
    return other


_configs: Final[dict[int, tuple[Mapping[str, Any], ConfigClass]]] = {}
"""Rows and their classes by the rows' ids, which are not reused while the rows are referenced here."""


def _config(row: Mapping[str, Any], *, is_own: bool = False) -> ConfigClass:
    """The class of a row, made once for all releases that have the row.

    This saves 0.04 of 0.11 s for the tables of all releases, which an explained decision needs.
    """
    found = _configs.get(id(row))
    if found is None:
        found = _configs[id(row)] = row, _read_config(row, is_own=is_own)
    return found[1]


def _read_config(row: Mapping[str, Any], *, is_own: bool) -> ConfigClass:
    given = {name: row[name] for name in CLASS_FIELDS if name in row}
    spellings: dict[str, tuple[str, ...]] = {}
    for alias, stored in row.get("aliases", {}).items():
        spellings[stored] = (*spellings.get(stored, (stored,)), alias)
    special = frozenset({"layer_types", *row.get("aliases", ()), *row.get("formulas", ()), *spellings})
    inputs = {name: _inputs(name, formula, spellings) for name, formula in row.get("formulas", {}).items()}
    known = special.union(given.get("defaults", ()))
    built = {part: _read_config(inner, is_own=is_own) for part, inner in row.get("built", {}).items()}
    return ConfigClass(
        row["class"],
        spellings=spellings,
        built=built,
        is_own=is_own,
        special=special,
        known=known,
        inputs=inputs,
        **given,
    )


def _inputs(name: str, formula: Any, spellings: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The inputs of a formula, under every name that a document may use for them."""
    return tuple(
        sorted({spelling for each in {name, *formula_keys(formula)} for spelling in spellings.get(each, (each,))})
    )
