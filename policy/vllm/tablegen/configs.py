"""Configuration classes: model type → the defaults and formulas for what `config.json` leaves out.

Only fields from which facts are derived. The classes are Transformers', or vLLM's own in their place.
"""

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from policy.vllm.tablegen.classes import Klass, klass_of
from policy.vllm.tablegen.formulas import BASES, UNREADABLE, SymbolicRun, keys_of
from policy.vllm.tablegen.modules import Module, World
from policy.vllm.tablegen.values import Name, SourceUnreadable, named_value, value

FIELDS = (
    "block_configs", "canvas_length", "compress_rates", "compress_ratios", "hidden_size", "is_causal",
    "is_encoder_decoder", "kv_lora_rank", "layer_types", "layers_block_type", "moe_num_experts", "n_routed_experts",
    "num_experts", "num_hidden_layers", "num_local_experts",
)  # fmt: skip
DEFAULT_ONLY = ("head_dim",)
FIRST_COUNTS = ("moe_num_experts", "n_routed_experts", "num_experts", "num_local_experts")
"""Fields of which vLLM takes the first that a configuration has, even if it is null."""
TEXT_PARTS = (
    "decoder",
    "decoder_config",
    "generator",
    "language_config",
    "llm_config",
    "text_config",
    "text_encoder",
    "thinker_config",
    "vlm_config",
)
TRANSFORMERS_MODELS = "transformers/models/"
VLLM_CONFIGS = "vllm/transformers_utils/configs/"
Row = dict[str, object]


def transformers_configs(world: World) -> dict[str, Row]:
    """Model type → row, for every model type that `AutoConfig` knows."""
    return _rows(world, _transformers_classes(world), TRANSFORMERS_MODELS)


def vllm_configs(world: World) -> dict[str, Row]:
    """Model type → row, for the model types whose configuration class is in vLLM."""
    names = named_value(world, "vllm.transformers_utils.config", "_CONFIG_REGISTRY")
    own = {str(model_type): str(name) for model_type, name in names.items()} if isinstance(names, dict) else {}
    return _rows(world, own, VLLM_CONFIGS, _transformers_classes(world))


def _transformers_classes(world: World) -> dict[str, str]:
    """Model type → the name of Transformers' class."""
    names = named_value(world, "transformers.models.auto.configuration_auto", "CONFIG_MAPPING_NAMES")
    return {str(model_type): str(name) for model_type, name in names.items()} if isinstance(names, dict) else {}


def _rows(
    world: World, classes: dict[str, str], folder: str, others: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Row]:
    """Model type → row, for the `classes` that are in a folder or in Transformers.

    `others` are registered too, and have no row here.
    """
    rows = {}
    paths = _class_paths(world, TRANSFORMERS_MODELS) | _class_paths(world, folder)
    registered = {**others, **classes}
    for model_type, name in classes.items():
        module = world.module(paths[name].partition(":")[0]) if name in paths else None
        klass = klass_of(world, module, ast.Name(name)) if module is not None else None
        if isinstance(klass, Klass):
            rows[model_type] = _row(klass, registered)
    return rows


def _class_paths(world: World, folder: str) -> dict[str, str]:
    """Class name → `module:Class`, for the configuration files of a folder."""
    paths: dict[str, str] = {}
    for path in world.reading.under(folder):
        file = path.rpartition("/")[2]
        if not (file.startswith("configuration_") or folder.startswith("vllm/")):
            continue
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = world.module(name)
        for bound, node in module.bound.items() if module is not None else ():
            if isinstance(node, ast.ClassDef):
                paths.setdefault(bound, f"{name}:{bound}")
    return paths


def _row(klass: Klass, registered: Mapping[str, str]) -> Row:
    aliases = _aliases(klass)
    run = SymbolicRun(klass, aliases)
    constructor = _constructor(klass)
    parameters = _defaults(constructor) if constructor is not None else {}
    if constructor is not None:
        run.method(constructor.name)
    formulas = {
        name: run.attributes[name]
        for name in FIELDS
        if name in run.attributes and run.attributes[name] != ["key", name]
    }
    formulas |= _properties(klass, run)
    read = {key for formula in formulas.values() for key in keys_of(formula)} | {*FIELDS, *DEFAULT_ONLY}
    defaults = {
        name: default
        for name in sorted(read)
        if (default := _default(klass, parameters, name)) is not None
        or (name in FIRST_COUNTS and name not in formulas and _is_null(klass, parameters, name))
    }
    row: Row = {"class": klass.name}
    for name, part in (
        ("defaults", defaults),
        ("formulas", {name: None if formula == UNREADABLE else formula for name, formula in sorted(formulas.items())}),
        ("aliases", {alias: name for alias, name in sorted(aliases.items()) if {alias, name} & read}),
        ("parts", _parts(klass)),
        ("sources", _sources(run)),
        ("built", _built_rows(klass, registered)),
    ):
        if part:
            row[name] = part
    row |= {
        name: part
        for name, part in (
            ("text", _text_part(klass)),
            ("flattens", _flattened_part(constructor)),
            ("forwards", _forwarding_part(klass)),
            ("other_model", _other_model_field(klass)),
        )
        if part
    }
    return row


def _sources(run: SymbolicRun) -> dict[str, object]:
    """Part → the formula of the mapping that it is built from, if that is not the part itself."""
    return {
        part: formula
        for part, formula in sorted(run.built.items())
        if part in TEXT_PARTS and formula != UNREADABLE and not _mentions(formula, part)
    }


def _mentions(formula: object, key: str) -> bool:
    """Whether a formula reads a key of `config.json`."""
    return isinstance(formula, list) and (
        (len(formula) > 1 and formula[0] in {"key", "given", "stated"} and formula[1] == key)
        or any(_mentions(part, key) for part in formula)
    )


def _built_rows(klass: Klass, registered: Mapping[str, str]) -> dict[str, Row]:
    """Part → the row of the class that it is built from, if its model type is registered with another class or none."""
    rows: dict[str, Row] = {}
    for method in ("__post_init__", "__init__"):
        for owner, node in _calls_of(klass, method):
            for part, assigned in _assigned_parts(node):
                match assigned:
                    case ast.Call(func=ast.Name(id=name)) if name.endswith("Config") and part not in rows:
                        built = klass_of(owner.world, owner.module, ast.Name(name))
                        kind = _model_type(owner.world, owner.module, ast.Name(name))
                        if isinstance(built, Klass) and kind is not None and registered.get(kind) != built.name:
                            rows[part] = _row(built, registered)
    return dict(sorted(rows.items()))


def _constructor(klass: Klass) -> ast.FunctionDef | None:
    """The method that sets the attributes: the nearest `__post_init__` or `__init__` below the common base."""
    for part in klass.order():
        if not isinstance(part, Klass) or part.name in BASES:
            break
        for name in ("__init__", "__post_init__"):
            found = part.namespace().get(name)
            if isinstance(found, ast.FunctionDef):
                return found
    return None


def _flattened_part(constructor: ast.FunctionDef | None) -> str | None:
    """The part whose fields the constructor copies to the object one by one."""
    for node in ast.walk(constructor) if constructor is not None else ():
        match node:
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=key), ast.Name()]),
                iter=ast.Call(func=ast.Attribute(value=ast.Name(id=part), attr="items")),
            ) if part in TEXT_PARTS and any(
                isinstance(inner, ast.Call) and ast.unparse(inner).startswith(f"setattr(self, {key},")
                for inner in ast.walk(node)
            ):
                return part
    return None


def _forwarding_part(klass: Klass) -> str | None:
    """The part whose attributes the class returns in place of its own."""
    found = klass.attribute("__getattribute__")
    if found is None:
        return None
    names = {node.value for node in ast.walk(found[1]) if isinstance(node, ast.Constant)}
    return next((part for part in TEXT_PARTS if part in names), None)


def _other_model_field(klass: Klass) -> str | None:
    """The field with the name of another model, whose configuration becomes that of the language model."""
    found = klass.attribute("__setattr__")
    for node in ast.walk(found[1]) if found is not None else ():
        match node:
            case ast.Constant(value=str(name)) if name.startswith("text_") and name.endswith("_id"):
                return name
    return None


def _defaults(method: ast.FunctionDef) -> dict[str, ast.expr]:
    """Parameter → default, of an `__init__` that lists its parameters."""
    positional = method.args.args[len(method.args.args) - len(method.args.defaults) :]
    pairs = [
        *zip(positional, method.args.defaults, strict=True),
        *zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True),
    ]
    return {argument.arg: default for argument, default in pairs if default is not None}


def _is_null(klass: Klass, parameters: dict[str, ast.expr], name: str) -> bool:
    """Whether the default of an attribute is null."""
    _, node = _default_node(klass, parameters, name)
    return isinstance(node, ast.Constant) and node.value is None


def _default_node(klass: Klass, parameters: dict[str, ast.expr], name: str) -> tuple[Klass, ast.AST | None]:
    """The expression of an attribute's default, and the class that has it; the constructor's parameter comes first."""
    if name in parameters:
        return klass, parameters[name]
    return klass.attribute(name) or (klass, None)


def _default(klass: Klass, parameters: dict[str, ast.expr], name: str) -> object:
    """The default of an attribute; None if it is missing, null or unreadable."""
    owner, node = _default_node(klass, parameters, name)
    if not isinstance(node, ast.expr):
        return None
    try:
        default = value(owner.world, owner.module, node)
    except SourceUnreadable:
        return None
    if isinstance(default, Name) or default is False:
        return None
    return list(default) if isinstance(default, tuple) else default


def _properties(klass: Klass, constructed: SymbolicRun) -> dict[str, object]:
    formulas: dict[str, object] = {}
    for name in (
        "layers_block_type",
        "layer_types",
        "num_experts",
        "n_routed_experts",
        "num_local_experts",
        "is_causal",
    ):
        found = klass.attribute(name)
        if found is not None and isinstance(found[1], ast.FunctionDef):
            run = SymbolicRun(klass, constructed.aliases, dict(constructed.attributes) | formulas)
            run.body(found[1].body, found[0])
            formulas[name] = run.returned if run.returned is not None else UNREADABLE
    return formulas


def _aliases(klass: Klass) -> dict[str, str]:
    """Name in `config.json` → the attribute in which the class stores it, if the two differ."""
    found = klass.attribute("attribute_map")
    try:
        mapping = (
            value(found[0].world, found[0].module, found[1])
            if found is not None and isinstance(found[1], ast.expr)
            else {}
        )
    except SourceUnreadable:
        return {}
    return {str(alias): str(name) for alias, name in mapping.items()} if isinstance(mapping, dict) else {}


def _parts(klass: Klass) -> dict[str, str | None]:
    """Part that can contain the language model → the model type of its class; None if the part states it."""
    parts: dict[str, str | None] = {}
    for found in map(klass.attribute, ("sub_configs", "sub_configs_defaults")):
        if found is not None and isinstance(found[1], ast.Dict):
            for key, declared in zip(found[1].keys, found[1].values, strict=True):
                if isinstance(key, ast.Constant) and key.value in TEXT_PARTS:
                    parts[str(key.value)] = _declared_type(found[0], declared)
    for method in ("__post_init__", "__init__"):
        for owner, node in _calls_of(klass, method):
            for part, assigned in _assigned_parts(node):
                if parts.get(part) is None:
                    kinds = (_constructed_type(owner, inner) for inner in ast.walk(assigned))
                    parts[part] = next((kind for kind in kinds if kind is not None), None)
    return dict(sorted(parts.items()))


def _assigned_parts(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The parts that a method assigns to its object, each with what it assigns.

    A model that is wrapped is the part `text_config`, by which `config.json` states it.
    """
    for statement in ast.walk(node):
        match statement:
            case ast.Assign(targets=[target], value=assigned):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as assigned):
                pass
            case _:
                continue
        match target:
            case ast.Attribute(value=ast.Name(id="self"), attr="wrapped_model_config"):
                yield "text_config", assigned
            case ast.Attribute(value=ast.Name(id="self"), attr=part) if part in TEXT_PARTS:
                yield part, assigned


def _calls_of(klass: Klass, method: str) -> Iterator[tuple[Klass, ast.stmt | ast.expr]]:
    """The definitions of a method that a call runs: the nearest, and those that it calls by `super()`."""
    for part in klass.order():
        if isinstance(part, Klass) and method in part.namespace():
            node = part.namespace()[method]
            yield part, node
            if not any(_is_super_call(inner, method) for inner in ast.walk(node)):
                return


def _is_super_call(node: ast.AST, method: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name)):
            return name == method
    return False


def _declared_type(owner: Klass, node: ast.expr) -> str | None:
    """The model type of a part: of its class, or from Transformers 5.20 on of `SubConfigSpec(…)`."""
    if not isinstance(node, ast.Call):
        return _model_type(owner.world, owner.module, node)
    given = dict(zip(("config_class", "model_type"), node.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
    stated = given.get("model_type")
    if isinstance(stated, ast.Constant) and isinstance(stated.value, str):
        return stated.value
    return _model_type(owner.world, owner.module, given["config_class"]) if "config_class" in given else None


def _constructed_type(owner: Klass, node: ast.AST) -> str | None:
    """The model type of `SomeConfig(…)` or of `CONFIG_MAPPING["…"]`."""
    match node:
        case ast.Subscript(value=ast.Name(id="CONFIG_MAPPING"), slice=ast.Constant(value=str(model_type))):
            return model_type
        case ast.Subscript(
            value=ast.Attribute(attr="CONFIG_MAPPING"),
            slice=ast.Call(
                func=ast.Attribute(attr="get"),
                args=[ast.Constant(value="model_type"), ast.Constant(value=str(model_type))],
            ),
        ):
            return model_type
        case ast.Call(func=ast.Name(id=name)) if name.endswith("Config"):
            return _model_type(owner.world, owner.module, ast.Name(name))
    return None


def _model_type(world: World, module: Module, node: ast.expr) -> str | None:
    klass = klass_of(world, module, node)
    found = klass.attribute("model_type") if isinstance(klass, Klass) else None
    return str(found[1].value) if found is not None and isinstance(found[1], ast.Constant) and found[1].value else None


def _text_part(klass: Klass) -> str | None:
    """The part that a class's own `get_text_config` returns."""
    own = klass.attribute("text_config")
    if own is not None and isinstance(own[1], ast.FunctionDef) and "get_text_config()" in ast.unparse(own[1]):
        return "text_config"
    found = klass.attribute("get_text_config")
    if found is None or found[0].name in BASES:
        return None
    for node in ast.walk(found[1]):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=part) if part in TEXT_PARTS:
                return part
    return None
