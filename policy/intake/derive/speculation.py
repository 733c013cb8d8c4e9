"""Speculative decoding: vLLM's method, the draft's architectures, and the facts ``speculative_config.*``.

Follows ``SpeculativeConfig.__post_init__`` and ``maybe_override_with_speculators``, 0.20 to 0.33; differences between
releases name the release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from policy.facts.vocabulary import MAX_INTEGER
from policy.intake.model.configuration import Configuration, as_draft, evaluate_rows
from policy.intake.model.gguf import with_causal_class
from policy.intake.model.registry import BACKEND, architectures_of, is_moe
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel
    from policy.intake.provenance import Provenance

TARGET_DRAFT_METHODS: Final = frozenset({"ngram", "ngram_gpu", "custom_class"})
SUFFIX: Final = "suffix"
SUFFIX_DEPTH: Final = "suffix_decoding_max_tree_depth", 24
"""The field that suffix decoding uses without `num_speculative_tokens`, and its default in all releases."""
METHODS_WITHOUT_DRAFT: Final = frozenset({SUFFIX})
HIDDEN_STATES: Final = "extract_hidden_states"
SPECULATORS: Final = "speculators_config"
"""The field that identifies a *speculators* repository."""
DRAFT: Final = "draft_model_config"
CONFIG: Final = f"{DRAFT}.hf_config."
DOCUMENT: Final = "config_dict."
MTP: Final = "mtp"
BACKEND_MTP: Final = ("TransformersForMTP", "TransformersMoEForMTP")
"""The Transformers backend's drafts of a dense model and of one with experts; the older releases have none."""
MEDUSA: Final = "medusa"
"""The method of Medusa heads, and their model type."""
MEDUSA_ARCHITECTURES: Final = ("MedusaModel",)
MEDUSA_TYPE_SINCE: Final = (0, 25)
"""The first minor series in which the method decides the model type: heads in their first format state none."""
UNRECOGNIZED_METHOD: Final = "unrecognized"


class Speculation(Struct, frozen=True):
    """Requested speculative decoding; ``keys`` has the fields of ``--speculative-config``, ``place`` is its origin."""

    keys: dict[str, Any]
    place: str


class DraftModel(Struct, frozen=True):
    """A draft: its architectures as vLLM rewrites them, and its layer types; ``parallel`` if it drafts in parallel.

    ``configuration`` is its own, None if it is the target's. ``is_recognized``: whether its name or its configuration
    determines the method.
    """

    architectures: list[str]
    layer_types: Any
    origin: str
    parallel: bool = False
    configuration: Configuration | None = None
    is_recognized: bool = True


DraftReader: TypeAlias = "Callable[[], tuple[str, DraftModel | None]]"
"""Returns the method, and the draft with a configuration of its own."""


def read_speculators(config: Mapping[str, Any], tables: Tables) -> tuple[str, dict[str, Any]] | None:
    """The verifier's name and the speculative configuration of a *speculators* repository; ``None`` for any other."""
    inner = config.get(SPECULATORS)
    if not isinstance(inner, dict):
        return None
    verifier, methods = inner.get("verifier"), inner.get("proposal_methods")
    name = verifier.get("name_or_path") if isinstance(verifier, dict) else None
    first = methods[0] if isinstance(methods, list) and methods else None
    kind = config.get("speculators_model_type")
    if not isinstance(name, str) or not isinstance(first, dict) or not isinstance(kind, str):
        return None
    settings = evaluate_rows([tables.constants["speculators"]["speculative_config"]], config.get)
    keys = {key: value for key, value in settings.items() if value is not None}
    return name, {"method": kind} | keys | {"num_speculative_tokens": first.get("speculative_tokens")}


def read_speculation(options: ParsedOptions) -> Speculation | None:
    """The command line's speculative decoding; ``None`` if it has none."""
    given = options.values.get("speculative_config")
    return Speculation(given, options.place("speculative_config")) if isinstance(given, dict) else None


def speculation_fault(speculation: Speculation) -> str | None:
    """Why vLLM refuses a speculative configuration before it reads the draft; ``None`` if it does not."""
    method, model = speculation.keys.get("method"), speculation.keys.get("model")
    if model is not None and not isinstance(model, str):
        return f"`model`: expected a string, got {quoted(model)}"
    return (
        None if method or model else 'it names neither a `method` nor a `model`; write one such as `"method": "ngram"`'
    )


def draft_model(speculation: Speculation, target: str) -> str | None:
    """The draft model's name, which defaults to the target's for MTP and DSpark; ``None`` if there is no draft."""
    method, model = speculation.keys.get("method"), speculation.keys.get("model")
    if isinstance(model, str):
        return model
    return target if isinstance(method, str) and (method.endswith("mtp") or method == "dspark") else None


def needs_draft(speculation: Speculation, tables: Tables) -> bool:
    """Whether the method has a draft whose configuration vLLM reads."""
    return method_before_draft(speculation, tables) not in {
        *TARGET_DRAFT_METHODS,
        *METHODS_WITHOUT_DRAFT,
        HIDDEN_STATES,
    }


def method_before_draft(speculation: Speculation, tables: Tables) -> str:
    """The method as vLLM determines it before it reads the draft."""
    method, model = speculation.keys.get("method"), speculation.keys.get("model")
    if (
        isinstance(model, str)
        and tables.series >= (0, 22)
        and (method is None or tables.series < (0, 26))
        and _is_class_path(model, tables.series)
    ):
        return "custom_class"
    if not isinstance(method, str):
        return "ngram" if isinstance(model, str) and model in {"ngram", "[ngram]"} else "draft_model"
    if method in tables.constants["mtp_model_types"]:
        return "mtp"
    return "ngram" if method == "[ngram]" else method


def _is_class_path(model: str, series: tuple[int, int]) -> bool:
    """Whether a draft is named as a Python class, such as ``package.Class``; before 0.26 any name with a dot is."""
    if "." not in model or "/" in model:  # no URL either, because those have slashes
        return False
    return series < (0, 26) or all(part.isidentifier() for part in model.split("."))


def derive_speculation(
    derived: Provenance,
    speculation: Speculation,
    target: ServedModel,
    read_draft: DraftReader,
    tables: Tables,
) -> None:
    """Set the facts ``speculative_config.*``."""
    keys, place, facts = speculation.keys, speculation.place, derived.facts
    method = method_before_draft(speculation, tables)
    draft: DraftModel | None = None
    origin = place
    if method in TARGET_DRAFT_METHODS:
        draft = DraftModel(target.architectures, target.configuration.get("layer_types"), target.origin)
    elif method == HIDDEN_STATES:
        draft = DraftModel(["ExtractHiddenStatesModel"], target.configuration.get("layer_types"), target.origin)
    else:
        method, draft = read_draft()
        if draft is not None and keys.get("method") is None:
            origin = draft.origin
    facts["speculative_config"] = True, place
    facts["speculative_config.method"] = method, origin
    facts["speculative_config.parallel_drafting"] = (
        (draft is not None and draft.parallel) or bool(keys.get("parallel_drafting")),
        place,
    )
    for key in ("num_speculative_tokens_per_batch_size", "draft_lm_head_quantization"):
        facts[f"speculative_config.{key}"] = keys.get(key), place
    drafts = keys.get("num_speculative_tokens")
    if drafts is None and method == SUFFIX:
        drafts = keys.get(*SUFFIX_DEPTH)
    if type(drafts) is int and 0 < drafts <= MAX_INTEGER:
        facts["speculative_config.num_speculative_tokens"] = drafts, place
    for key in ("enable_adaptive_verification", "use_heterogeneous_vocab"):
        facts[f"speculative_config.{key}"] = bool(keys.get(key)), place
    facts["speculative_config.draft_model_config"] = draft is not None, place
    if draft is not None:
        facts["speculative_config.draft_model_config.architectures"] = draft.architectures, draft.origin
        facts["speculative_config.draft_model_config.hf_config.layer_types"] = draft.layer_types, draft.origin
        xpress = tables.constants.get("xpress_architectures", frozenset())
        facts["speculative_config.is_xpress"] = (
            method == "dflash" and not xpress.isdisjoint(draft.architectures),
            draft.origin,
        )


def read_draft(
    speculation: Speculation,
    target: ServedModel,
    draft_config: Callable[[str], Mapping[str, Any] | None],
    tables: Tables,
) -> tuple[str, DraftModel | None]:
    """The method and the draft; the draft is ``None`` if it has no configuration of its own or if that is missing."""
    method, name = method_before_draft(speculation, tables), draft_model(speculation, target.name)
    config = draft_config(name) if name is not None and needs_draft(speculation, tables) else None
    return (method, None) if name is None or config is None else _read_draft(method, name, config, target, tables)


def _read_draft(
    method: str, name: str, config: Mapping[str, Any], target: ServedModel, tables: Tables
) -> tuple[str, DraftModel]:
    """The method and the draft, from the draft's configuration."""
    config, _ = with_causal_class(name.rstrip("/"), config, None, tables.release)
    origin = f"model_configs/{name.rstrip('/')}"
    if method == MTP and _is_of_backend(target, tables):
        own = Configuration(config, tables)
        names = [BACKEND_MTP[is_moe(target.configuration)]]
        return method, DraftModel(names, own.get("layer_types"), origin, configuration=own)
    stated = Configuration(_from_speculators(config, tables) or _as_medusa(method, config, tables), tables)
    configuration, architectures = as_draft(stated, architectures_of(stated))
    known: dict[str, Any] = {
        "method": method,
        f"{DRAFT}.model": name,
        f"{DRAFT}.architectures": architectures,
        "target_model_config.hf_config.model_type": target.configuration.model_type,
    }

    def key(name: str) -> Any:
        if name in known:
            return known[name]
        return configuration.at(name.removeprefix(CONFIG)) if name.startswith(CONFIG) else None

    known["method"] = UNRECOGNIZED_METHOD
    by_method = [{"method": tables.constants["draft_method"]}]
    is_recognized = evaluate_rows(by_method, key).get("method") != UNRECOGNIZED_METHOD
    known["method"] = method
    known["method"] = method = evaluate_rows(by_method, key).get("method", method)
    written = evaluate_rows(tables.constants["draft_overrides"], key)
    names = written.get(f"{DRAFT}.architectures", architectures)
    return method, DraftModel(
        names,
        configuration.get("layer_types"),
        origin,
        bool(written.get("parallel_drafting")),
        configuration,
        is_recognized,
    )


def _is_of_backend(target: ServedModel, tables: Tables) -> bool:
    """Whether the Transformers backend runs the model and also its MTP layers."""
    return (
        BACKEND_MTP[False] in tables.models
        and target.resolved.model.module == BACKEND
        and target.configuration.text().get("num_mtp_layers") is not None
    )


def _as_medusa(method: str, config: Mapping[str, Any], tables: Tables) -> Mapping[str, Any]:
    """The draft's configuration, with what vLLM adds to that of Medusa heads."""
    if method == MEDUSA and tables.series >= MEDUSA_TYPE_SINCE:
        config = {**config, "model_type": MEDUSA}
    if config.get("model_type") == MEDUSA and MEDUSA in tables.configs:
        config = {"architectures": list(MEDUSA_ARCHITECTURES), **config}
    return config


def _from_speculators(config: Mapping[str, Any], tables: Tables) -> dict[str, Any] | None:
    """The draft's configuration in a *speculators* repository; ``None`` for any other."""
    kind, inner = config.get("speculators_model_type"), config.get("transformer_layer_config")
    formats = tables.constants["speculators"]["formats"]
    if not isinstance(config.get(SPECULATORS), dict) or not isinstance(kind, str) or kind not in formats:
        return None
    stated = inner if isinstance(inner, dict) else {}

    def key(name: str) -> Any:
        return config.get(name.removeprefix(DOCUMENT)) if name.startswith(DOCUMENT) else stated.get(name)

    return {**stated, **evaluate_rows([formats[kind]], key), "model_type": "speculators"}
