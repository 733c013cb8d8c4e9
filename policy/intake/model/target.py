"""The served model: its configuration with the command line's overrides, its class, and the facts ``model_config.*``.

Follows the order of ``ModelConfig.__post_init__``, the same in vLLM 0.20 to 0.33 except where noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.model.configuration import Configuration
from policy.intake.model.gguf import with_causal_class
from policy.intake.model.pooling import read_pooling, with_module
from policy.intake.model.quantization import (
    FIELD,
    OPTION,
    QUANTIZATION,
    needs_quantization_file,
    read_quantization,
)
from policy.intake.model.registry import (
    ModelQuery,
    ResolvedModel,
    architectures_of,
    experts,
    is_encoder_decoder,
    is_hybrid,
    select_class,
    use_mla,
)
from policy.intake.model.unusual_fields import prepare_overrides, unusual_fields
from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.pooling import Pooling
    from policy.intake.model.tables import Tables
    from policy.intake.provenance import Provenance

QUANTIZED: Final = "model_config.is_quantized"
ROPE_FIELDS: Final = frozenset({"rope_scaling", "rope_parameters"})
"""The fields of a `config.json` that stretch the rotary embedding; the second is the newer name."""


ADOPTING_CLASSES: Final = frozenset({"KimiK25Config", "KimiK3Config"})
"""The configuration classes of vLLM that adopt the quantization of their language model."""
BIDIRECTIONAL_ARCHITECTURES: Final = frozenset(
    {
        "LlamaBidirectionalForSequenceClassification",
        "LlamaBidirectionalModel",
        "LlamaNemotronVLForSequenceClassification",
        "LlamaNemotronVLModel",
        "VoyageQwen3BidirectionalEmbedModel",
    }
)
"""The architectures for which vLLM sets ``is_causal`` to false, whatever is stated (``MODELS_CONFIG_MAP``)."""
BIDIRECTIONAL_FIELDS: Final = {"Gemma3TextModel": ("use_bidirectional_attention", True)}
"""As ``BIDIRECTIONAL_ARCHITECTURES``, if a field has this value."""


class ServedModel(Struct, frozen=True):
    """The served model as vLLM sees it. ``origin`` is the origin of its configuration: ``model_configs/NAME``.

    ``quantization_file`` is the origin of its quantization if that is in a separate file. ``has_causal_class`` is true
    if its architecture follows from its model type, as a GGUF model's does. ``unusual`` says why vLLM may read
    its configuration differently.
    """

    name: str
    origin: str
    configuration: Configuration
    architectures: list[str]
    resolved: ResolvedModel
    is_hybrid: bool
    is_encoder_decoder: bool
    seq_pooling_type: str
    tok_pooling_type: str
    quantization_file: str | None = None
    has_causal_class: bool = False
    unusual: list[str] = []

    @property
    def config_name(self) -> str:
        """The name of its configuration."""
        return self.origin.partition("/")[2]

    @property
    def is_pooling(self) -> bool:
        """Whether the engine runs it as a pooling model."""
        return self.resolved.runner_type == "pooling"


def with_overrides(config: Mapping[str, Any], overrides: object) -> Mapping[str, Any]:
    """A ``config.json`` overlaid with ``--hf-overrides``: objects are merged, other values replaced."""
    if not isinstance(overrides, dict) or not overrides:
        return config
    merged = dict(config)
    for key, value in overrides.items():
        below = config.get(key)
        merged[key] = with_overrides(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def read_target(
    name: str,
    config_name: str,
    config: Mapping[str, Any],
    options: ParsedOptions,
    files: Mapping[str, str],
    tables: Tables,
    platform: str,
) -> ServedModel:
    """Resolve the served model.

    ``config_name`` is the name of its configuration, which differs from the model's with ``--hf-config-path``.

    Raises:
        CompanionInvalid: a file about the model's pooling or quantization is not valid JSON.
        Unsupported: the release has no class for it.
    """
    pooling = read_pooling(name, files, options, tables.series)
    quantization = read_quantization(config_name, config, files) if files else None
    if quantization is not None:
        config = {**config, FIELD: quantization}
    overrides = options.values.get("hf_overrides")
    config, has_causal_class = with_causal_class(config_name, config, overrides, tables.release)
    config, overrides = prepare_overrides(config, overrides, tables)
    configuration = Configuration(with_overrides(config, overrides), tables)
    below = f"{config_name}/"
    own = frozenset([file.removeprefix(below) for file in files if file.startswith(below)] if files else ())
    architectures = architectures_of(configuration, own)
    resolved = select_class(tables, configuration, architectures, _query(options, pooling, platform))
    return ServedModel(
        name,
        f"model_configs/{config_name}",
        configuration,
        architectures,
        resolved,
        is_hybrid(resolved.model, configuration),
        is_encoder_decoder(configuration),
        pooling.sequence or resolved.model.seq_pooling_type,
        pooling.tokens or resolved.model.tok_pooling_type,
        f"files/{config_name}/{QUANTIZATION}" if quantization is not None else None,
        has_causal_class,
        unusual_fields(config_name, configuration, config, overrides),
    )


def with_pooling_module(
    target: ServedModel, files: Mapping[str, str], options: ParsedOptions, platform: str
) -> ServedModel:
    """The served model if it had a pooling module, whose own configuration may be in ``files``.

    Raises:
        CompanionInvalid, Unsupported: as ``read_target``.
    """
    configuration = target.configuration
    pooling = with_module(target.name, files, options, configuration.tables.series)
    query = _query(options, pooling, platform)
    resolved = select_class(configuration.tables, configuration, target.architectures, query)
    return replace(
        target,
        resolved=resolved,
        is_hybrid=is_hybrid(resolved.model, configuration),
        seq_pooling_type=pooling.sequence or resolved.model.seq_pooling_type,
        tok_pooling_type=pooling.tokens or resolved.model.tok_pooling_type,
    )


def with_quantization(target: ServedModel) -> ServedModel:
    """The served model if a file beside its configuration stated a quantization."""
    before = target.configuration
    stated = {**before.stated, FIELD: {}}
    return replace(target, configuration=Configuration(stated, before.tables, before.model_type, before.kind))


def _query(options: ParsedOptions, pooling: Pooling, platform: str) -> ModelQuery:
    get = options.values.get
    return ModelQuery(
        get("runner", "auto"), get("convert", "auto"), get("model_impl", "auto"), pooling.has_module, platform
    )


def derive_model(
    derived: Provenance, target: ServedModel, options: ParsedOptions, env: Mapping[str, str], series: tuple[int, int]
) -> None:
    """Set the facts ``model_config.*``, except those that depend only on other options."""
    facts, configuration, model = derived.facts, target.configuration, target.resolved.model
    by_class = origin_of(target, options, "architectures")
    facts["model_config"] = True, options.places.get("model", DEFAULT)
    facts["model_config.runner_type"] = target.resolved.runner_type, _runner_origin(options, by_class)
    facts["model_config.convert_type"] = target.resolved.convert_type, options.places.get("convert", by_class)
    facts["model_config.architectures"] = target.architectures, by_class
    facts["model_config.attn_type"] = _attention(target, options, by_class)
    has_experts, counted = experts(configuration)
    facts["model_config.is_moe"] = has_experts, DEFAULT if counted is None else origin_of(target, options, counted)
    facts[QUANTIZED] = _quantized(target, options, series)
    facts["model_config.is_hybrid"] = target.is_hybrid, by_class
    facts["model_config.has_inner_state"] = model.has_inner_state, by_class
    facts["model_config.is_attention_free"] = model.is_attention_free, by_class
    facts["model_config.is_diffusion"] = (
        configuration.get("canvas_length") is not None,
        origin_of(target, options, "canvas_length"),
    )
    if overrides_rope(options.values.get("hf_overrides")):
        facts["model_config.hf_overrides.rope_parameters"] = True, options.place("hf_overrides")
    disabled = _is_true(env.get("VLLM_MLA_DISABLE"))
    facts["model_config.use_mla"] = (
        not disabled and use_mla(target.resolved, configuration),
        "env.VLLM_MLA_DISABLE" if disabled else origin_of(target, options, "kv_lora_rank"),
    )
    facts["model_config.is_multimodal_model"] = model.supports_multimodal, by_class
    facts["model_config.is_encoder_decoder"] = (
        target.is_encoder_decoder,
        origin_of(target, options, "is_encoder_decoder"),
    )


def _attention(target: ServedModel, options: ParsedOptions, by_class: str) -> tuple[str, str]:
    """``ModelConfig.attn_type``, the same in every release, and its origin."""
    configuration, model = target.configuration, target.resolved.model
    if target.is_pooling:
        if model.seq_pooling_type == "CLS" or model.architecture in BIDIRECTIONAL_ARCHITECTURES:
            return "encoder_only", by_class
        stated, expected = BIDIRECTIONAL_FIELDS.get(model.architecture, ("is_causal", False))
        bidirectional = configuration.get(stated) is expected
        return ("encoder_only", origin_of(target, options, stated)) if bidirectional else (model.attn_type, by_class)
    if target.is_hybrid:
        return "hybrid", by_class
    if model.is_attention_free:
        return "attention_free", by_class
    if target.is_encoder_decoder:
        return "encoder_decoder", origin_of(target, options, "is_encoder_decoder")
    return "decoder", by_class


def overrides_rope(overrides: object) -> bool:
    """Whether ``--hf-overrides`` changes the rotary embedding, of the model or of its language model."""
    if not isinstance(overrides, dict):
        return False
    text = overrides.get("text_config")
    return any(isinstance(part, dict) and not ROPE_FIELDS.isdisjoint(part) for part in (overrides, text))


def origin_of(target: ServedModel, options: ParsedOptions, name: str) -> str:
    """The origin of an attribute: an override, the ``config.json``, its text configuration, or the default."""
    if "hf_overrides" in options.values:
        overrides = options.values["hf_overrides"]
        if isinstance(overrides, dict) and name in overrides:
            return options.place(f"hf_overrides.{name}")
    if name == FIELD and target.quantization_file is not None:
        return target.quantization_file
    if name == "architectures" and target.has_causal_class:
        name = "model_type"
    configuration = target.configuration
    if name in configuration.stated:
        return f"{target.origin}/{name}"
    text = configuration.text()
    if text is not configuration and name in text.stated:
        return f"{target.origin}/{text.path}/{name}"
    return target.origin if name == "architectures" else DEFAULT


def _quantized(target: ServedModel, options: ParsedOptions, series: tuple[int, int]) -> tuple[bool, str]:
    """Whether the configuration declares quantized weights, and the origin of that.

    From 0.33 on, the older field and the language model's configuration count too. Before, the latter counts where the
    configuration class adopts it. A method of ModelOpt needs the file that declares them.
    """
    configuration = target.configuration
    for name in ("quantization_config", "compression_config") if series >= (0, 33) else ("quantization_config",):
        if configuration.get(name) is not None:
            return True, origin_of(target, options, name)
    text = configuration.text()
    counts = series >= (0, 33) or configuration.kind.class_name in ADOPTING_CLASSES
    within = counts and text is not configuration and text.get("quantization_config") is not None
    if not within and OPTION in options.others and needs_quantization_file(options):
        return True, options.kept_place(OPTION)
    return within, origin_of(target, options, "quantization_config")


def _runner_origin(options: ParsedOptions, by_class: str) -> str:
    for name in ("runner", "convert"):
        if name in options.values and options.values[name] != "auto":
            return options.places.get(name, DEFAULT)
    return by_class


def _is_true(text: str | None) -> bool:
    """Whether a variable that vLLM parses as an integer is not 0; false if it is not an integer."""
    try:
        return text is not None and int(text) != 0
    except ValueError:
        return False
