"""Fields of a model's configuration that vLLM, or Transformers below it, may read differently from this package.

A value of an unusual type is refused or converted, depending on the configuration class and the release of
Transformers. Some fields change what others mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from policy.intake.model.configuration import BASE_CLASS, MAX_NESTED, TEXT_FIELDS, Configuration, has_attribute
from policy.intake.model.expert_count import blocks_have_experts, is_plain, is_positive
from policy.intake.model.registry import is_moe
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from policy.intake.model.tables import ConfigClass, Tables

MAY_DIFFER: Final = "vLLM may read the configuration of {} differently from here, or refuse it: {}"


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_name, value))


def _is_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_object, value)) and blocks_have_experts(value) is not None


USUAL_TYPES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "architectures": (_is_names, "a list of names"),
    "block_configs": (_is_blocks, "a list of blocks with numbers of experts"),
    "canvas_length": (_is_integer, "an integer"),
    "compression_config": (_is_object, "an object"),
    "is_causal": (_is_boolean, "true or false"),
    "is_encoder_decoder": (_is_boolean, "true or false"),
    "kv_lora_rank": (_is_integer, "an integer"),
    "layer_types": (_is_names, "a list of names"),
    "model_type": (_is_name, "a name"),
    "quantization_config": (_is_object, "an object"),
}
"""The fields that decide, each with a test for its usual type, and that type. Null counts as not stated."""
LAYER_TYPES: Final = ("layer_types", "layers_block_type")
"""The names by which most classes state the types of layers."""
ALIASES: Final = "attribute_map"
"""The field by which a configuration gives other names to the fields of its class."""


def prepare_overrides(
    config: Mapping[str, Any], overrides: Any, tables: Tables
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """A `config.json` and its overrides, ready to be merged: vLLM renames fields of the file, and then overrides them.

    An override under a field's earlier name has no effect, unless the file has that name, or the class has such a part.
    The last override of a field replaces it under all names that the class gives it.
    """
    if not isinstance(overrides, dict):
        return config, None
    renames = tables.constants.get("config_attribute_renames", {})
    kind = Configuration(config, tables).kind
    for name, renamed in renames.items():
        if renamed in overrides and name in config and not has_attribute(kind, renamed):
            config = {renamed: config[name], **config}
    if not overrides.keys().isdisjoint(renames):
        overrides = {
            name: value
            for name, value in overrides.items()
            if name not in renames or name in config or name in kind.parts or name == kind.text
        }
    return _without_spellings(config, overrides, kind, tables, MAX_NESTED)


def _without_spellings(
    config: Mapping[str, Any], overrides: Mapping[str, Any], kind: ConfigClass, tables: Tables, depth: int
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The same without a field under other names than the one by which it is overridden last."""
    last = {kind.aliases.get(name, name): name for name in overrides}
    replaced = {other for stored, name in last.items() for other in kind.spellings.get(stored, ()) if other != name}
    if not replaced.isdisjoint(config) or not replaced.isdisjoint(overrides):
        config = {name: value for name, value in config.items() if name not in replaced}
        overrides = {name: value for name, value in overrides.items() if name not in replaced}
    for name, value in overrides.items() if depth else ():
        below = config.get(name)
        if isinstance(value, dict) and isinstance(below, Mapping) and (name in kind.parts or name == kind.text):
            inner = Configuration(below, tables, kind.parts.get(name), kind.built.get(name)).kind
            part, changed = _without_spellings(below, value, inner, tables, depth - 1)
            config, overrides = {**config, name: part}, {**overrides, name: changed}
    return config, overrides


def unusual_fields(name: str, configuration: Configuration, config: Mapping[str, Any], overrides: Any) -> list[str]:
    """Why fields of a model's configuration may be read differently; `config` is without the overrides."""
    text = configuration.text()
    found = _of_part(configuration)
    if text is not configuration:
        found += _of_part(text)
    found += _of_experts(text)
    found += _of_two_names(text)
    found += _of_text_part(configuration)
    if overrides:
        found += _of_overrides(configuration.tables, config, overrides)
    return [MAY_DIFFER.format(quoted(name), why) for why in dict.fromkeys(found)] if found else found


def unusual_in_others(read: Mapping[str, Mapping[str, Any]], served: Collection[str], tables: Tables) -> list[str]:
    """The same for models that are not in ``served``, such as drafts; ``read`` has all configurations by name."""
    return [
        why
        for name, config in read.items()
        if name not in served
        for why in unusual_fields(name, Configuration(config, tables), config, None)
    ]


def _of_part(part: Configuration) -> list[str]:
    """The fields of one configuration, without the experts'."""
    stated = part.stated
    found = [
        f"its `{name}` is not {USUAL_TYPES[name][1]}"
        for name in USUAL_TYPES.keys() & stated.keys()
        if stated[name] is not None and not USUAL_TYPES[name][0](stated[name])
    ]
    found.sort()
    if ALIASES in stated:
        found.append(f"its `{ALIASES}` gives other names to its fields")
    kind = part.kind
    parts = TEXT_FIELDS if kind.text is None else (kind.text,)
    if not stated.keys().isdisjoint(parts):
        values = ((name, stated.get(name)) for name in parts)
        found += [
            f"its `{name}` is not an object" for name, value in values if not (value is None or _is_object(value))
        ]
    return found


def _of_experts(text: Configuration) -> Iterator[str]:
    """The field with the number of experts, if pydantic refuses it, or converts it but the class may refuse it."""
    for name in text.names_among(text.tables.constants["num_experts_names"]):
        if not text.has(name):
            continue
        count = text.get(name)
        if not is_plain(count):
            first = count[0] if isinstance(count, list) and count else count
            is_refused = is_positive(first) is None and (isinstance(count, list) or bool(count))
            if is_refused or name in text.kind.known:
                yield f"its `{name}` is not an integer"
        return


def _of_two_names(text: Configuration) -> Iterator[str]:
    """The number of experts, if two names of one field state it: which of them counts depends on the class."""
    for name in text.tables.constants["num_experts_names"]:
        names = [each for each in text.kind.spellings.get(name, ()) if each in text.stated]
        if len({bool(text.stated[each]) for each in names}) > 1:
            yield f"its `{names[0]}` and `{names[1]}` are one field with two values"


def _of_text_part(configuration: Configuration) -> Iterator[str]:
    """The language model's part, if it has experts by one reading only.

    Some classes take the class of the part from its ``model_type``, others always have the same one. Some pass their
    own fields to a part that is not stated.
    """
    kind, tables = configuration.kind, configuration.tables
    name = next((each for each in TEXT_FIELDS if each in kind.parts), None) if kind.text is None else kind.text
    if kind.other_model is not None and configuration.stated.get(kind.other_model) is not None:
        yield f"its language model's configuration is that of the model in its `{kind.other_model}`, which is not read"
    if name is None or name not in kind.parts or name in kind.built:
        return
    stated = configuration.stated_part(name)
    part: Mapping[str, Any] = stated if isinstance(stated, Mapping) else {}
    if _is_object(stated) and kind.forwards == name:
        yield f"its class takes its fields from its `{name}`, also those that it states itself"
    own = kind.parts[name]
    if own is None:
        is_unknown = Configuration(part, tables).kind is BASE_CLASS
        if is_unknown and part.keys().isdisjoint(tables.constants["num_experts_names"]):
            yield f"the class of its `{name}` is not known"
        return
    readings = [part] if part else [part, configuration.stated]
    others = [Configuration({**reading, "model_type": own}, tables, own) for reading in readings]
    if {*map(is_moe, others)} != {is_moe(configuration)}:
        yield f"its `{name}` has experts by the class of one model type, and none by that of another"


def _of_overrides(tables: Tables, config: Mapping[str, Any], overrides: Any) -> Iterator[str]:
    if not isinstance(overrides, dict):
        return
    kind = Configuration(config, tables).kind
    for name in dict.fromkeys((*kind.spellings.get("layer_types", ()), *LAYER_TYPES)):
        layers = overrides.get(name)
        if isinstance(layers, list) and any(layer in tables.renamed_layer_types for layer in layers if _is_name(layer)):
            yield f"`{name}` in `--hf-overrides` keeps names of layer types that the class changes in the file"
    changed = overrides.get("model_type")
    if isinstance(changed, str) and kind is not BASE_CLASS and tables.configs.get(changed, BASE_CLASS) is not kind:
        yield "`model_type` in `--hf-overrides` may not change its class"
    if "architectures" in overrides and not overrides["architectures"]:
        yield "`--hf-overrides` leaves it without `architectures`"
    for name in TEXT_FIELDS if kind.text is None else ():
        if name not in overrides:
            continue
        value, has_part = overrides[name], name in config or name in kind.parts
        if value is None and has_part:
            yield f"`--hf-overrides` leaves it without its `{name}`"
        elif isinstance(value, dict) and not has_part and not _is_refused(name, value):
            yield f"its class has no part `{name}`, which `--hf-overrides` sets"
    for name in tables.constants.get("config_attribute_renames", {}):
        if isinstance(overrides.get(name), dict) and name in config and name not in kind.parts and name != kind.text:
            yield f"`{name}` in `--hf-overrides` may not change its language model"


def _is_refused(name: str, part: Mapping[str, Any]) -> bool:
    """Whether a check of `launch` refuses a part that the class does not have: vLLM looks for attention heads in it."""
    return name == "text_config" and "num_attention_heads" not in part
