"""The names that one vLLM release knows, such as KV connectors and parsers, and the bounds of its numeric options.

Owns where each set is defined. Plugins may register more names at startup, which the sources do not show.
"""

import ast
from typing import Final

from policy.vllm.tablegen.classes import Klass, constant, klass_of
from policy.vllm.tablegen.modules import SourceDefinition, World
from policy.vllm.tablegen.registry import REGISTRY
from policy.vllm.tablegen.values import SourceUnreadable, named_value

Table = dict[str, object]

NAMES: Final = {
    "deprecated_quantization": ("vllm.model_executor.layers.quantization", "DEPRECATED_QUANTIZATION_METHODS"),
    "float16_not_supported": ("vllm.config.model", "_FLOAT16_NOT_SUPPORTED_MODELS"),
    "kv_cache_dtypes": ("vllm.config.cache", "CacheDType"),
    "load_formats": ("vllm.model_executor.model_loader", "_LOAD_FORMAT_TO_MODEL_LOADER"),
    "mamba_ssm_cache_dtypes": ("vllm.config.cache", "MambaDType"),
    "quantization": ("vllm.model_executor.layers.quantization", "QuantizationMethods"),
    "reasoning_parsers": ("vllm.reasoning", "_REASONING_PARSERS_TO_REGISTER"),
    "tokenizer_modes": ("vllm.tokenizers.registry", "_VLLM_TOKENIZERS"),
    "tool_parsers": ("vllm.tool_parsers", "_TOOL_PARSERS_TO_REGISTER"),
}
"""Name in the table → module and name in vLLM: a list, a `Literal`, or a dict whose keys are the names."""

FACTORIES: Final = {
    "ec_connectors": "vllm.distributed.ec_transfer.ec_connector.factory",
    "kv_connectors": "vllm.distributed.kv_transfer.kv_connector.factory",
}
"""Name in the table → the module that registers the names by `register_connector`."""

BOUNDS: Final = frozenset({"ge", "gt", "le", "lt"})
JSON_OPTIONS: Final = {
    "compilation_config": "CompilationConfig",
    "eplb_config": "EPLBConfig",
    "kv_transfer_config": "KVTransferConfig",
    "profiler_config": "ProfilerConfig",
    "speculative_config": "SpeculativeConfig",
}
"""Option with a JSON value → its class in vLLM."""

ENUMS: Final = {"attention_backends": ("vllm.v1.attention.backends.registry", "AttentionBackendEnum")}
"""Name in the table → the enumeration whose members are the names."""


def names(world: World) -> Table:
    """Name of the set → its members, sorted; sets that the release does not have, or that cannot be read, are left out.

    `without_lora` has the architectures whose class does not support LoRA.
    """
    table: Table = {}
    for name, (module, variable) in NAMES.items():
        try:
            found = named_value(world, module, variable)
        except SourceUnreadable:
            continue
        if isinstance(found, dict | tuple | list):
            table[name] = sorted(str(item) for item in found if item is not None)
    table |= {name: sorted(found) for name, module in FACTORIES.items() if (found := _registered(world, module))}
    table |= {name: found for name, place in ENUMS.items() if (found := _members(world, *place))}
    if found := _field_names(world, "vllm.config.pooler", "PoolerConfig"):
        table["pooler_fields"] = found
    table["without_lora"] = _without_lora(world)
    return table


def bounds(world: World) -> Table:
    """Option, or field of a JSON option → the class that checks it, and its bounds: `gt`, `ge`, `lt`, `le`.

    They are those of pydantic's `Field`, on the fields from which `EngineArgs` takes its options.
    """
    module = world.module("vllm.engine.arg_utils")
    engine = module.bound.get("EngineArgs") if module is not None else None
    table: Table = {}
    for statement in engine.body if isinstance(engine, ast.ClassDef) else ():
        match statement:
            case ast.AnnAssign(
                target=ast.Name(id=option),
                value=ast.Attribute(value=ast.Name(id=owner), attr=field)
                | ast.Call(func=ast.Name(id="get_field"), args=[ast.Name(id=owner), ast.Constant(value=str(field))]),
            ) if found := _fields(world, owner).get(field):
                table[option] = {"class": owner, **found}
    for option, owner in JSON_OPTIONS.items():
        table |= {f"{option}.{field}": {"class": owner, **found} for field, found in _fields(world, owner).items()}
    return table


def _fields(world: World, owner: str) -> dict[str, dict[str, float]]:
    """The fields of a configuration class with bounds."""
    package = world.module("vllm.config")
    definition = world.find(package, owner) if package is not None else None
    if not isinstance(definition, SourceDefinition):
        module = world.module("vllm.engine.arg_utils")
        definition = world.find(module, owner) if module is not None else None
    if not isinstance(definition, SourceDefinition) or not isinstance(definition.node, ast.ClassDef):
        return {}
    found = {}
    for statement in definition.node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=field), value=ast.Call(func=ast.Name(id="Field"), keywords=given)):
                limits = {
                    str(keyword.arg): ast.literal_eval(keyword.value)
                    for keyword in given
                    if keyword.arg in BOUNDS and _is_number(keyword.value)
                }
                if limits:
                    found[field] = limits
    return found


def _is_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and isinstance(inner.value, int | float)


def _registered(world: World, module_name: str) -> list[str]:
    """The names that a module registers by `register_connector("name", …)` when it is imported."""
    module = world.module(module_name)
    found = []
    for statement in module.tree.body if module is not None else ():
        match statement:
            case ast.Expr(
                value=ast.Call(func=ast.Attribute(attr="register_connector"), args=[ast.Constant(value=str(name)), *_])
            ):
                found.append(name)
    return found


def _members(world: World, module_name: str, name: str) -> list[str]:
    """The members of an enumeration."""
    module = world.module(module_name)
    node = module.bound.get(name) if module is not None else None
    if not isinstance(node, ast.ClassDef):
        return []
    targets = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
    return sorted(target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper())


def _field_names(world: World, module_name: str, name: str) -> list[str]:
    """The fields of a configuration class."""
    module = world.module(module_name)
    node = module.bound.get(name) if module is not None else None
    body = node.body if isinstance(node, ast.ClassDef) else ()
    targets = [each.target for each in body if isinstance(each, ast.AnnAssign)]
    return sorted(target.id for target in targets if isinstance(target, ast.Name))


def _without_lora(world: World) -> list[str]:
    """The registered architectures whose class, read completely from the sources, does not support LoRA."""
    entries = named_value(world, REGISTRY, "_VLLM_MODELS")
    found = []
    for architecture, (module_name, name) in entries.items() if isinstance(entries, dict) else ():
        path = module_name if str(module_name).startswith("vllm.") else f"vllm.model_executor.models.{module_name}"
        module = world.module(str(path))
        klass = klass_of(world, module, ast.Name(str(name))) if module is not None else None
        if isinstance(klass, Klass) and not constant(klass, "supports_lora"):
            found.append(str(architecture))
    return sorted(found)
