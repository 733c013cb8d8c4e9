"""Transformers' own classes: those that can run under vLLM, and the base architecture of each model type.

Reads `modeling_*.py` and `modeling_auto.py`.
"""

import ast
import re

from policy.vllm.tablegen.classes import Klass, constant, klass_of
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.values import SourceUnreadable, named_value

Table = dict[str, object]


def auto_models(world: World) -> Table:
    """Model type → the base architecture, which vLLM uses if `config.json` names none."""
    found = named_value(world, "transformers.models.auto.modeling_auto", "MODEL_MAPPING_NAMES")
    return (
        {str(key): list(name) if isinstance(name, tuple) else name for key, name in found.items()}
        if isinstance(found, dict)
        else {}
    )


def backend_models(world: World) -> Table:
    """Architecture → which of `is_backend_compatible` and `can_set_attn_implementation` are true; no row if neither."""
    can_set = _SourceTest(world)
    table: Table = {}
    for path in world.reading.under("transformers/models/"):
        if not path.rpartition("/")[2].startswith("modeling_") or "/auto/" in path:
            continue
        name = path.removesuffix(".py").replace("/", ".")
        module = world.module(name)
        if module is None:
            continue
        words = ["can_set_attn_implementation"] if can_set(world.reading.text(path)) else []
        for architecture in _public(world, name):
            klass = klass_of(world, module, ast.Name(architecture))
            if isinstance(klass, Klass) and any(
                isinstance(part, Klass) and part.name == "PreTrainedModel" for part in klass.order()
            ):
                holds = (["is_backend_compatible"] if _compatible(klass) else []) + words
                if holds and not architecture.endswith("PreTrainedModel"):
                    table[architecture] = sorted(holds)
    return table


def legacy_layer_types(world: World) -> Table:
    """Old layer type → new one, for releases in which every configuration renames them; empty for other releases."""
    module = world.module("transformers.configuration_utils")
    klass = klass_of(world, module, ast.Name("PreTrainedConfig")) if module is not None else None
    made = klass.namespace().get("__post_init__") if isinstance(klass, Klass) else None
    calls = (
        [node for node in ast.walk(made) if isinstance(node, ast.Name) and node.id == "remap_legacy_layer_types"]
        if made is not None
        else []
    )
    found = named_value(world, "transformers.configuration_utils", "_LEGACY_LAYER_TYPE_REMAP") if calls else None
    return {str(key): name for key, name in found.items()} if isinstance(found, dict) else {}


def renamed_layer_types(world: World) -> Table:
    """Old layer type → new one, as a configuration renames them that calls the function; empty without the function."""
    found = named_value(world, "transformers.configuration_utils", "_LEGACY_LAYER_TYPE_REMAP")
    return {str(key): name for key, name in found.items()} if isinstance(found, dict) else {}


def _compatible(klass: Klass) -> bool:
    try:
        return bool(constant(klass, "_supports_attention_backend"))
    except SourceUnreadable:
        return False


def _public(world: World, module: str) -> list[str]:
    try:
        found = named_value(world, module, "__all__")
    except SourceUnreadable:
        return []
    return [str(name) for name in found] if isinstance(found, list | tuple) else []


class _SourceTest:
    """The test that `_can_set_attn_implementation` makes on a model's source, with the release's own patterns."""

    def __init__(self, world: World) -> None:
        module = world.module("transformers.modeling_utils")
        klass = klass_of(world, module, ast.Name("PreTrainedModel")) if module is not None else None
        method = klass.namespace().get("_can_set_attn_implementation") if isinstance(klass, Klass) else None
        self.pattern: re.Pattern[str] | None = None
        self.needed: list[str] = []
        for node in ast.walk(method) if method is not None else ():
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr="search"),
                    args=[ast.Constant(value=str(pattern)), *_],
                ):
                    self.pattern = re.compile(pattern, re.MULTILINE)
                case ast.Compare(
                    left=ast.Constant(value=str(needed)), ops=[ast.In()], comparators=[ast.Name(id="code")]
                ):
                    self.needed.append(needed)

    def __call__(self, text: str) -> bool:
        if self.pattern is None:
            return False
        return not self.pattern.search(text) or all(needed in text for needed in self.needed)
