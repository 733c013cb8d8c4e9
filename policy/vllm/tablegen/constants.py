"""The constants of one vLLM release that the derivation of facts needs: lists, literals, small dicts.

Owns where each is defined. Not here: the registry (`registry`) and configuration classes (`configs`).
"""

import ast

from policy.vllm.tablegen.branches import Branches
from policy.vllm.tablegen.classes import Klass, klass_of
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.values import SourceUnreadable, named_value, value

MODEL = "vllm.config.model"
CONVERTORS = "vllm.transformers_utils.model_arch_config_convertor"
CONFIG = "vllm.transformers_utils.config"
SPECULATIVE = "vllm.config.speculative"
Table = dict[str, object]

ORDERED_CONSTANTS = {
    "architecture_to_model_type": (CONFIG, "_ARCHITECTURE_TO_MODEL_TYPE"),
    "config_attribute_renames": (CONFIG, "_CONFIG_ATTRS_MAPPING"),
    "runner_converts": (MODEL, "_RUNNER_CONVERTS"),
    "suffix_defaults": (MODEL, "_SUFFIX_TO_DEFAULTS"),
}
"""Name in the table → module and name in vLLM."""

UNORDERED_CONSTANTS = {
    "eagle_model_types": (SPECULATIVE, "EagleModelTypes"),
    "mtp_model_types": (SPECULATIVE, "MTPModelTypes"),
    "speculative_methods": (SPECULATIVE, "SpeculativeMethod"),
    "xpress_architectures": (SPECULATIVE, "XPRESS_ARCHITECTURES"),
}
"""The same for sets and `Literal`s of strings, whose order has no meaning."""

CONDITION_MARKS = {
    "backend_asks": (
        ("vllm.model_executor.models.registry", "_ModelRegistry", "_try_resolve_transformers"),
        ("is_backend_compatible", "_can_set_attn_implementation"),
    ),
    "compress_ratios_asks": ((CONVERTORS, "ModelArchConfigConvertorBase", "is_deepseek_mla"), ("get_compress_ratios",)),
    "hooks_ask": (("vllm.config.vllm", "VllmConfig", "try_verify_and_update_config"), ("_normalize_arch",)),
    "use_mla_asks": ((MODEL, "ModelConfig", "use_mla"), ("using_transformers_backend", "is_causal")),
}
"""Name in the table → a method, and the identifiers whose use in it marks a further condition."""


def constants(world: World) -> Table:
    """Name → value, for the constants that the release has."""
    table: Table = {
        name: found
        for name, (module, constant) in ORDERED_CONSTANTS.items()
        if (found := _readable(world, module, constant)) is not None
    }
    table |= {
        name: _sorted_names(found)
        for name, (module, constant) in UNORDERED_CONSTANTS.items()
        if isinstance(found := _readable(world, module, constant), tuple)
    }
    table |= _expert_names(world)
    table |= _mla(world)
    table |= _hybrid_attention_layers(world)
    table |= {
        name: identifiers
        for name, (method, words) in CONDITION_MARKS.items()
        if (identifiers := _marks_in(world, method, words))
    }
    return table


def architecture_hooks(world: World) -> Table:
    """Architecture → the class of `MODELS_CONFIG_MAP` that adjusts the configuration."""
    found = named_value(world, "vllm.model_executor.models.config", "MODELS_CONFIG_MAP")
    return {str(key): str(name) for key, name in found.items()} if isinstance(found, dict) else {}


def convertors(world: World) -> Table:
    """Model type → the convertor class, the methods of the base convertor that it overrides, and its architectures."""
    found = named_value(world, CONVERTORS, "MODEL_ARCH_CONFIG_CONVERTORS")
    module = world.module(CONVERTORS)
    table: Table = {}
    for model_type, name in found.items() if isinstance(found, dict) else ():
        klass = klass_of(world, module, ast.Name(str(name))) if module is not None else None
        parts = [part for part in klass.order() if isinstance(part, Klass)] if isinstance(klass, Klass) else []
        changed = {
            attribute for part in parts if part.name != "ModelArchConfigConvertorBase" for attribute in part.namespace()
        }
        rewritten = _rewritten_architectures(world, klass) if isinstance(klass, Klass) else None
        table[str(model_type)] = {"class": str(name), "changes": sorted(changed)} | (
            {"architectures": rewritten} if rewritten is not None else {}
        )
    return table


def _rewritten_architectures(world: World, klass: Klass) -> object:
    """The constructor's value of `architectures`, as a formula over the keys of the configuration."""
    run = Branches(world, klass.module, {"hf_config": ""})
    run.method(klass, "__init__")
    return run.written.get("architectures")


def _readable(world: World, module: str, name: str) -> object:
    try:
        return named_value(world, module, name)
    except SourceUnreadable:
        return None


def _sorted_names(values: tuple[object, ...]) -> list[str]:
    return sorted({str(item) for item in values})


def _method(world: World, module_name: str, klass_name: str, method: str) -> ast.FunctionDef | None:
    module = world.module(module_name)
    klass = klass_of(world, module, ast.Name(klass_name)) if module is not None else None
    found = klass.attribute(method) if isinstance(klass, Klass) else None
    return found[1] if found is not None and isinstance(found[1], ast.FunctionDef) else None


def _expert_names(world: World) -> Table:
    """The attributes that `get_num_experts` reads, in its order."""
    aliases = _readable(world, CONFIG, "CONFIG_FIELD_ALIASES")
    if isinstance(aliases, dict):
        return {"num_experts_names": aliases["num_experts"]}
    method = _method(world, CONVERTORS, "ModelArchConfigConvertorBase", "get_num_experts")
    module = world.module(CONVERTORS)
    for node in ast.walk(method) if method is not None else ():
        match node:
            case ast.Assign(targets=[ast.Name(id="num_expert_names")], value=names) if module is not None:
                return {"num_experts_names": value(world, module, names)}
    return {}


def _mla(world: World) -> Table:
    """The model types of `is_deepseek_mla`: those of a model, then those below an EAGLE draft."""
    method = _method(world, CONVERTORS, "ModelArchConfigConvertorBase", "is_deepseek_mla")
    lists = (
        [names for node in ast.walk(method) if (names := _compared_strings(node, "model_type")) and len(names) > 1]
        if method is not None
        else []
    )
    return dict(zip(("mla_model_types", "mla_eagle_model_types"), (sorted(names) for names in lists), strict=False))


def _hybrid_attention_layers(world: World) -> Table:
    """The layer types that do not make a model hybrid if all of its layers have one of them."""
    method = _method(world, MODEL, "ModelConfig", "is_hybrid")
    names = (
        [name for node in ast.walk(method) for name in _compared_strings(node, "layer")] if method is not None else []
    )
    return {"attention_only_layer_types": sorted(names)} if names else {}


def _marks_in(world: World, method: tuple[str, str, str], words: tuple[str, ...]) -> list[str]:
    node = _method(world, *method)
    text = ast.unparse(node) if node is not None else ""
    return sorted(word.strip("_") for word in words if word in text)


def _compared_strings(node: ast.AST, left: str) -> list[str]:
    """The strings that a name, or an attribute of that name, is compared with."""
    match node:
        case ast.Compare(
            left=ast.Name(id=name) | ast.Attribute(attr=name), ops=[ast.Eq() | ast.In()], comparators=[right]
        ) if name == left:
            elements = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
            return [
                element.value
                for element in elements
                if isinstance(element, ast.Constant) and isinstance(element.value, str)
            ]
    return []
