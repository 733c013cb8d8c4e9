"""The Transformers releases with which a vLLM release may run, and those that read a deployment's models differently.

Owns the warning about a stated release, and the choice of releases to try. What each of them adds to a configuration is
in the tables (`tables`); each line there names the releases that changed its entry.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from policy.intake.model.tables import history, provenance, tables_of_transformers, transformers_releases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAX_KEYS: Final = 64
"""The most model types, and the most architectures, of a configuration that are looked at."""
LAYER_TYPES: Final = ("layer_types", "layers_block_type")


def transformers_warnings(release: str, stated: str) -> list[str]:
    """What is uncertain about a stated Transformers release; ``stated`` is empty if none was."""
    if not stated:
        return []
    found = []
    required = required_releases(release)
    if stated not in required:
        found.append(f"vLLM {release} is not installed with Transformers {stated}; it requires {required}")
    known = tables_of_transformers(release, stated)
    if known != stated:
        found.append(f"Transformers {stated} is not known here; the model is read as by Transformers {known}")
    return found


def other_transformers(release: str, models: Iterable[Mapping[str, Any]]) -> list[str]:
    """The allowed releases to try, oldest first: one for each change in what is known about one of the models."""
    assumed = tables_of_transformers(release)
    legal = [version for version in transformers_releases() if version in required_releases(release)]
    older = [version for version in legal if Version(version) < Version(assumed)]
    newer = [version for version in legal if Version(version) > Version(assumed)]
    found: set[str] = set()
    for changed in _changes(models):
        place = Version(changed)
        if place > Version(assumed):
            found.update([version for version in newer if Version(version) >= place][:1])
        else:
            found.update([version for version in older if Version(version) < place][-1:])
    return sorted(found, key=Version)


@cache
def required_releases(release: str) -> SpecifierSet:
    """The Transformers releases that a vLLM release requires."""
    return SpecifierSet(provenance()["vllm"][release]["requires_transformers"])


def _changes(models: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The Transformers releases that changed what is known about one of the models."""
    for model in models:
        types, architectures = _names(model)
        for name, keys in (("transformers_configs", types), ("auto_models", types), ("backend_models", architectures)):
            for key in keys:
                yield from history(name).get(key, ())
        for name in ("legacy_layer_types", "renamed_layer_types"):
            for layer_type in _layer_types(model):
                yield from history(name).get(layer_type, ())


def _names(model: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The model types of a configuration and its parts, and its architectures."""
    parts = [model, *(part for part in model.values() if isinstance(part, dict))][:MAX_KEYS]
    types = [part["model_type"] for part in parts if isinstance(part.get("model_type"), str)]
    architectures = model.get("architectures")
    named = architectures[:MAX_KEYS] if isinstance(architectures, list) else []
    return types, [name for name in named if isinstance(name, str)]


def _layer_types(model: Mapping[str, Any]) -> set[str]:
    lists = [model.get(name) for name in LAYER_TYPES]
    return {item for found in lists if isinstance(found, list) for item in found if isinstance(item, str)}
