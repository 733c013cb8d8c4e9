"""The model class that a vLLM release selects, and the facts that follow from it.

Follows `_ModelRegistry.inspect_model_cls` and `ModelConfig._get_runner_type` step by step; they are the same in 0.20 to
0.33 except where noted. Raises Unsupported with vLLM's own reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.deployment import PLATFORMS
from policy.intake.model.configuration import Configuration, architectures_stated
from policy.intake.model.expert_count import blocks_have_experts, is_positive
from policy.intake.model.formula import Incomputable, compute
from policy.masking import masked
from policy.messages import MAX_QUOTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.model.tables import Model, Tables

FILE_PREFIX: Final = "file "
MAX_ARCHITECTURES: Final = 64
"""The most architectures of a document that are tried; no model has more than a few."""
MAX_SHOWN: Final = 8
"""The maximum number of architectures in a message."""
BACKEND: Final = "transformers"
POOLING_SUFFIXES: Final = {"embed": "EmbeddingModel", "classify": "ForSequenceClassification"}
"""The suffix of the Transformers backend's class for each conversion; the class for any other is `ForCausalLM`."""


class Unsupported(Exception):
    """The release does not support the architecture."""


class ResolvedModel(Struct, frozen=True):
    """The selected class of a model. `architecture` is the name that vLLM reports as the one it used."""

    architecture: str
    model: Model
    runner_type: str
    convert_type: str


class ModelQuery(Struct, frozen=True):
    """The options and repository properties that affect which class is selected."""

    runner: str = "auto"
    convert: str = "auto"
    model_impl: str = "auto"
    sentence_transformers: bool = False
    platform: str = "cuda"


DEFAULT_QUERY: Final = ModelQuery()


def select_class(
    tables: Tables, configuration: Configuration, architectures: Sequence[str], query: ModelQuery = DEFAULT_QUERY
) -> ResolvedModel:
    """Select a model's class, runner type and conversion. Raises Unsupported.

    The result is cached if the first architecture alone decides, as it mostly does.
    """
    if not architectures:
        raise Unsupported("No model architectures are specified")
    key = (architectures[0], query)
    known = tables.resolutions.get(key)
    if known is None:
        known = _ClassSelection(tables, configuration, tuple(architectures[:MAX_ARCHITECTURES]), query).select()
        if _first_decides(tables, architectures[0], query):
            tables.resolutions[key] = known
    result: ResolvedModel = known
    return result


def _first_decides(tables: Tables, architecture: str, query: ModelQuery) -> bool:
    """Whether the first architecture alone decides; there are few enough such queries to cache every result.

    It does not for a generative model with a pooling module: the names of later architectures may decide the
    conversion.
    """
    model = tables.model(architecture, query.platform)
    options = (query.runner, query.convert, query.model_impl)
    return (
        model is not None
        and (model.is_pooling_model or (model.is_text_generation_model and not query.sentence_transformers))
        and options == ("auto",) * 3
        and query.platform in PLATFORMS
    )


def is_moe(configuration: Configuration) -> bool:
    """Whether vLLM's `get_num_experts` is above 0."""
    return experts(configuration)[0]


def experts(configuration: Configuration) -> tuple[bool, str | None]:
    """Whether the language model has experts, and the field that determines it; None if there is no such field.

    It has none if vLLM refuses their number.
    """
    text = configuration.text()
    found = None
    names = configuration.tables.constants["num_experts_names"]
    for name in text.names_among(names):
        if text.has(name):
            found = name
            count = text.get(name)
            if isinstance(count, list):
                return bool(count) and bool(is_positive(count[0])), name
            if count:
                return bool(is_positive(count)), name
            break
    return (True, "block_configs") if blocks_have_experts(text.get("block_configs")) else (False, found)


def is_hybrid(model: Model, configuration: Configuration) -> bool:
    """Whether the class is hybrid and not all layers are attention layers."""
    if not model.is_hybrid:
        return False
    layers = configuration.get("layer_types")
    only = configuration.tables.constants["attention_only_layer_types"]
    return not isinstance(layers, list) or not all(layer in only for layer in layers)


def is_encoder_decoder(configuration: Configuration) -> bool:
    """Whether the configuration or its language model is an encoder-decoder."""
    text = configuration.text()
    found = configuration.get("is_encoder_decoder")
    return bool(found or (text is not configuration and text.get("is_encoder_decoder")))


def use_mla(resolved: ResolvedModel, configuration: Configuration) -> bool:
    """Whether the language model has multi-head latent attention; the caller handles `VLLM_MLA_DISABLE`."""
    text = configuration.text()
    rank = text.get("kv_lora_rank") is not None
    asks = configuration.tables.constants.get("use_mla_asks", ())
    if "using_transformers_backend" in asks and resolved.model.module == BACKEND:
        return rank
    if "is_causal" in asks and text.get("is_causal") is False:
        return False
    if text.model_type not in configuration.tables.constants["mla_model_types"]:
        return False
    compressed = text.get("compress_ratios")
    if compressed is None and configuration.tables.constants.get("compress_ratios_asks"):
        compressed = text.get("compress_rates") is not None and text.get("layer_types")
    return text.get("head_dim") is not None if compressed else rank


def architectures_of(configuration: Configuration, files: frozenset[str] = frozenset()) -> list[str]:
    """The architectures that vLLM uses, as rewritten by its convertor.

    They are those in `config.json`, or else the base architecture of its model type. `files` has the names of the
    model's other known files; some releases look for `joint_head_config.json`.
    """
    named = architectures_stated(configuration)
    base = (
        configuration.tables.auto_models.get(configuration.model_type or "")
        if not configuration.stated.get("architectures")
        else None
    )
    if isinstance(base, str):
        named = [base]
    convertor = configuration.tables.convertors.get(configuration.model_type or "", {})
    if "architectures" not in convertor:
        return named

    def key(name: str) -> Any:
        known = {"architectures": named, "name_or_path": True}
        if name.startswith(FILE_PREFIX):
            return name.removeprefix(FILE_PREFIX) in files
        return known[name] if name in known else configuration.at(name)

    try:
        found = compute(convertor["architectures"], key)
    except Incomputable:
        return named
    return list(found) if isinstance(found, list) else named


class _ClassSelection:
    __slots__ = ("architectures", "configuration", "query", "tables")

    def __init__(
        self, tables: Tables, configuration: Configuration, architectures: tuple[str, ...], query: ModelQuery
    ) -> None:
        self.tables = tables
        self.configuration = configuration
        self.architectures = architectures
        self.query = query

    def select(self) -> ResolvedModel:
        early, _ = self._inspect(None, None)
        runner = self._runner_type(early)
        convert = self._convert_type(early, runner)
        model, architecture = self._inspect(runner, convert)
        return ResolvedModel(architecture, model, runner, convert)

    def _runner_type(self, early: Model) -> str:
        if self.query.runner != "auto":
            return self.query.runner
        if self.query.convert not in {"auto", "none"} or self.query.sentence_transformers:
            return "pooling"
        for architecture in self.architectures:
            if architecture in self.tables.models:
                if early.is_pooling_model:
                    return "pooling"
                if early.is_text_generation_model:
                    return "generate"
            match = self._suffix(architecture)
            if match is not None:
                return match[1]
        return "generate"

    def _convert_type(self, early: Model, runner: str) -> str:
        if self.query.convert != "auto":
            return self.query.convert
        for architecture in self.architectures:
            if architecture in self.tables.models and (
                (runner == "generate" and early.is_text_generation_model)
                or (runner == "pooling" and early.is_pooling_model)
            ):
                return "none"
            match = self._suffix(architecture, runner)
            if match is not None:
                return match[2]
        return "embed" if runner == "pooling" else "none"

    def _suffix(
        self, architecture: str, runner: str | None = None, convert: str | None = None
    ) -> tuple[str, str, str] | None:
        """The first matching suffix of a name, with its runner and conversion; None if there is none."""
        for suffix, (default_runner, default_convert) in self.tables.constants["suffix_defaults"]:
            if (
                runner in {None, default_runner}
                and convert in {None, default_convert}
                and architecture.endswith(suffix)
            ):
                return suffix, default_runner, default_convert
        return None

    def _inspect(self, runner: str | None, convert: str | None) -> tuple[Model, str]:
        """The registry's entry and the architecture by which it was found; the runner and conversion may be unknown."""
        if self.query.model_impl == "terratorch":
            return self._registered("Terratorch"), "Terratorch"
        if self.query.model_impl == BACKEND:
            backend = self._backend()
            found = self._of_backend(backend)
            if backend is not None and found is not None:
                return found, backend
            if backend is None and "auto_map" not in self.configuration.stated:
                raise Unsupported(
                    f"The Transformers implementation of {masked(self.architectures[0])[:MAX_QUOTED]!r} "
                    "is not compatible with vLLM."
                )
        unknown = not any(architecture in self.tables.models for architecture in self.architectures)
        fallback = self._backend() if unknown and self.query.model_impl == "auto" else None
        of_fallback = self._of_backend(fallback)
        if fallback is not None and of_fallback is not None and convert in {None, "none"}:
            return of_fallback, fallback
        for architecture in self.architectures:
            model = self.tables.model(self._normalized(architecture, runner, convert), self.query.platform)
            if model is not None:
                return model, architecture
        if fallback is not None and of_fallback is not None:
            return of_fallback, fallback
        raise Unsupported(self._refusal())

    def _of_backend(self, architecture: str | None) -> Model | None:
        """A class of the Transformers backend; None if the release has no class of this name."""
        return None if architecture is None else self.tables.model(architecture, self.query.platform)

    def _registered(self, architecture: str) -> Model:
        model = self.tables.model(architecture, self.query.platform)
        if model is None:
            raise Unsupported(self._refusal())
        return model

    def _normalized(self, architecture: str, runner: str | None, convert: str | None) -> str:
        """The registered variant of a name, `Qwen3ForCausalLM` for `Qwen3Model`; the name itself if there is none."""
        if architecture in self.tables.models:
            return architecture
        match = self._suffix(architecture, runner, convert)
        for suffix, _ in self.tables.constants["suffix_defaults"] if match is not None else ():
            base = architecture.replace(match[0], suffix) if match is not None else architecture
            if base in self.tables.models:
                return base
        return architecture

    def _backend(self) -> str | None:
        """The Transformers backend's class for the first architecture; None if it does not support it."""
        first = self.architectures[0]
        entry = self.tables.models.get(first)
        if entry is not None and entry.group == "transformers_backend":
            return first
        if self.tables.backend_models.get(first, frozenset()).isdisjoint(self.tables.constants.get("backend_asks", ())):
            return None
        nested = self.configuration.text() is not self.configuration
        name = "Transformers" + ("MultiModal" if nested else "") + ("MoE" if is_moe(self.configuration) else "")
        match = self._suffix(first)
        runner = self.query.runner if self.query.runner != "auto" else match[1] if match is not None else None
        task = match[2] if match is not None else None
        return name + (POOLING_SUFFIXES.get(task or "", "ForCausalLM") if runner == "pooling" else "ForCausalLM")

    def _refusal(self) -> str:
        """The message of vLLM, with long names and long lists truncated."""
        shown = [masked(architecture)[:MAX_QUOTED] for architecture in self.architectures[:MAX_SHOWN]]
        more = f" and {len(self.architectures) - MAX_SHOWN} more" if len(self.architectures) > MAX_SHOWN else ""
        for architecture in self.architectures:
            if architecture in self.tables.previously:
                return (
                    f"Model architecture {architecture} was supported in vLLM until "
                    f"v{self.tables.previously[architecture]}, and is not supported anymore."
                )
            if architecture in self.tables.out_of_tree:
                plugin = self.tables.out_of_tree[architecture]
                return (
                    f"Model architecture {architecture} is not supported in-tree anymore. "
                    f"Please install the plugin at {plugin}"
                )
        return f"Model architectures {shown}{more} are not supported for now."
