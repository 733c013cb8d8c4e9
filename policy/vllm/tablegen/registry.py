"""The model registry of one vLLM release: architecture → class and flags, and formerly supported architectures.

Reads `model_executor/models/registry.py`; a class's flags come from `flags`.
"""

import ast

from policy.vllm.tablegen.classes import Klass, klass_of
from policy.vllm.tablegen.flags import flags_of
from policy.vllm.tablegen.modules import SourceDefinition, World
from policy.vllm.tablegen.values import SourceUnreadable, named_value

REGISTRY = "vllm.model_executor.models.registry"
Table = dict[str, object]


def architectures(worlds: list[World]) -> Table:
    """Architecture → its row on the first platform, with `on` for platforms whose flags differ."""
    first, *others = worlds
    entries = named_value(first, REGISTRY, "_VLLM_MODELS")
    if not isinstance(entries, dict):
        raise SourceUnreadable("_VLLM_MODELS")
    groups = _groups(first)
    table: Table = {}
    for architecture, entry in entries.items():
        is_entry = isinstance(entry, tuple) and len(entry) == 2  # noqa: PLR2004 module and class
        if not (isinstance(architecture, str) and is_entry):
            raise SourceUnreadable(f"_VLLM_MODELS[{architecture!r}]")
        module, name = entry
        row = _row(first, str(module), str(name))
        on = {
            world.platform: other
            for world in others
            if (other := _row(world, str(module), str(name))).get("flags") != row.get("flags")
        }
        table[architecture] = {"module": module, "group": groups.get(architecture, "other"), **row} | (
            {"on": {platform: other["flags"] for platform, other in on.items()}} if on else {}
        )
    return table


def named_table(world: World, name: str) -> Table:
    """A registry dict of strings, such as `_PREVIOUSLY_SUPPORTED_MODELS`; empty if the release has none."""
    found = named_value(world, REGISTRY, name)
    return {str(key): text for key, text in found.items()} if isinstance(found, dict) else {}


def _row(world: World, module_name: str, name: str) -> Table:
    path = module_name if module_name.startswith("vllm.") else f"vllm.model_executor.models.{module_name}"
    module = world.module(path)
    klass = klass_of(world, module, ast.Name(name)) if module is not None else None
    if not isinstance(klass, Klass):
        return {"class": name, "flags": None}
    return {"class": klass.name, **flags_of(klass)}


def _groups(world: World) -> dict[str, str]:
    """Architecture → the group of the registry that lists it: `text_generation`, `multimodal` and so on."""
    module = world.module(REGISTRY)
    found = world.find(module, "_VLLM_MODELS") if module is not None else None
    if not isinstance(found, SourceDefinition) or not isinstance(found.node, ast.Dict):
        raise SourceUnreadable("_VLLM_MODELS")
    groups: dict[str, str] = {}
    for key, part in zip(found.node.keys, found.node.values, strict=True):
        if key is None and isinstance(part, ast.Name):
            members = named_value(world, REGISTRY, part.id)
            group = part.id.strip("_").removesuffix("_MODELS").lower()
            groups |= {str(member): group for member in members} if isinstance(members, dict) else {}
    return groups
