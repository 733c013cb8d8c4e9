"""Configuration classes: model type → the defaults and formulas for what `config.json` leaves out.

Only fields from which facts are derived. The classes are Transformers', or vLLM's own in their place.
"""

import ast

from policy.vllm.tablegen.classes import Klass, klass_of
from policy.vllm.tablegen.formulas import BASES, UNREADABLE, Run, keys_of
from policy.vllm.tablegen.modules import Module, World
from policy.vllm.tablegen.values import Name, SourceUnreadable, named_value, value

FIELDS = (
    "block_configs", "canvas_length", "compress_rates", "compress_ratios", "hidden_size", "is_causal",
    "is_encoder_decoder", "kv_lora_rank", "layer_types", "layers_block_type", "moe_num_experts", "n_routed_experts",
    "num_experts", "num_hidden_layers", "num_local_experts",
)  # fmt: skip
DEFAULT_ONLY = ("head_dim",)
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
Row = dict[str, object]


def transformers_configs(world: World) -> dict[str, Row]:
    """Model type → row, for every model type that `AutoConfig` knows."""
    names = named_value(world, "transformers.models.auto.configuration_auto", "CONFIG_MAPPING_NAMES")
    paths = _class_paths(world, "transformers/models/")
    return _rows(
        world,
        {str(model_type): paths[str(name)] for model_type, name in names.items() if str(name) in paths}
        if isinstance(names, dict)
        else {},
    )


def vllm_configs(world: World) -> dict[str, Row]:
    """Model type → row, for the model types whose configuration class is in vLLM."""
    names = named_value(world, "vllm.transformers_utils.config", "_CONFIG_REGISTRY")
    paths = _class_paths(world, "vllm/transformers_utils/configs/")
    return _rows(
        world,
        {str(model_type): paths[str(name)] for model_type, name in names.items() if str(name) in paths}
        if isinstance(names, dict)
        else {},
    )


def _rows(world: World, classes: dict[str, str]) -> dict[str, Row]:
    rows = {}
    for model_type, module_name in classes.items():
        module_path, _, name = module_name.partition(":")
        module = world.module(module_path)
        klass = klass_of(world, module, ast.Name(name)) if module is not None else None
        if isinstance(klass, Klass):
            rows[model_type] = _row(klass)
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


def _row(klass: Klass) -> Row:
    aliases = _aliases(klass)
    run = Run(klass, aliases)
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
    defaults = {name: default for name in sorted(read) if (default := _default(klass, parameters, name)) is not None}
    row: Row = {"class": klass.name}
    for name, part in (
        ("defaults", defaults),
        ("formulas", {name: None if formula == UNREADABLE else formula for name, formula in sorted(formulas.items())}),
        ("aliases", {alias: name for alias, name in sorted(aliases.items()) if {alias, name} & read}),
        ("parts", _parts(klass)),
    ):
        if part:
            row[name] = part
    row |= {
        name: part for name, part in (("text", _text_part(klass)), ("flattens", _flattened_part(constructor))) if part
    }
    return row


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


def _defaults(method: ast.FunctionDef) -> dict[str, ast.expr]:
    """Parameter → default, of an `__init__` that lists its parameters."""
    positional = method.args.args[len(method.args.args) - len(method.args.defaults) :]
    pairs = [
        *zip(positional, method.args.defaults, strict=True),
        *zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True),
    ]
    return {argument.arg: default for argument, default in pairs if default is not None}


def _default(klass: Klass, parameters: dict[str, ast.expr], name: str) -> object:
    """The default of an attribute; None if it is missing, null or unreadable."""
    found = klass.attribute(name)
    node: ast.AST | None = parameters.get(name, found[1] if found is not None else None)
    owner = found[0] if found is not None and name not in parameters else klass
    if not isinstance(node, ast.expr):
        return None
    try:
        default = value(owner.world, owner.module, node)
    except SourceUnreadable:
        return None
    if isinstance(default, Name) or default is False:
        return None
    return list(default) if isinstance(default, tuple) else default


def _properties(klass: Klass, constructed: Run) -> dict[str, object]:
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
            run = Run(klass, constructed.aliases, dict(constructed.attributes) | formulas)
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
            for key, node in zip(found[1].keys, found[1].values, strict=True):
                if isinstance(key, ast.Constant) and key.value in TEXT_PARTS:
                    parts[str(key.value)] = _declared_type(found[0], node)
    for method in ("__post_init__", "__init__"):
        constructed = klass.attribute(method)
        if constructed is None:
            continue
        for statement in ast.walk(constructed[1]):
            match statement:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=part)], value=assigned) if (
                    part in TEXT_PARTS and parts.get(part) is None
                ):
                    parts[part] = next(
                        (
                            kind
                            for inner in ast.walk(assigned)
                            if (kind := _constructed_type(constructed[0], inner)) is not None
                        ),
                        None,
                    )
    return dict(sorted(parts.items()))


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
        case ast.Call(func=ast.Name(id=name)) if name.endswith("Config"):
            return _model_type(owner.world, owner.module, ast.Name(name))
    return None


def _model_type(world: World, module: Module, node: ast.expr) -> str | None:
    klass = klass_of(world, module, node)
    found = klass.attribute("model_type") if isinstance(klass, Klass) else None
    return str(found[1].value) if found is not None and isinstance(found[1], ast.Constant) and found[1].value else None


def _text_part(klass: Klass) -> str | None:
    """The part that a class's own `get_text_config` returns."""
    found = klass.attribute("get_text_config")
    if found is None or found[0].name in BASES:
        return None
    for node in ast.walk(found[1]):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=part) if part in TEXT_PARTS:
                return part
    return None
