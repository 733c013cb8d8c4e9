"""A model's `config.json` as vLLM sees it: with what the configuration class adds, and with the language model's part found.

Owns defaults, aliases and formulas of configuration classes, applied to one document. Reads nothing; the tables are given.
"""

from collections.abc import Mapping
from typing import Any

from policy.intake.formula import Incomputable, compute
from policy.intake.tables import ConfigClass, Tables

BARE = ConfigClass("PreTrainedConfig")
TEXT_PARTS = ("text_encoder", "decoder", "generator", "text_config")


class Configuration:
    """One `config.json`, or one part of it."""

    def __init__(self, stated: Mapping[str, Any], tables: Tables, model_type: str | None = None) -> None:
        renames = tables.constants.get("config_attribute_renames", {})
        self.stated = {renames[name]: item for name, item in stated.items() if name in renames} | dict(stated)
        self.tables = tables
        self.model_type = self._model_type(stated, model_type)
        self.kind = tables.configs.get(self.model_type or "", BARE)

    def get(self, name: str) -> Any:
        """An attribute of the configuration: stated, computed by its class, or its default; None where there is none."""
        stored = self.kind.aliases.get(name, name)
        formula = self.kind.formulas.get(stored)
        found = self._raw(stored) if formula is None else self._computed(stored, formula)
        if "layer_types" in {name, stored} and isinstance(found, list):
            return [self.tables.legacy_layer_types.get(item, item) if isinstance(item, str) else item for item in found]
        return found

    def has(self, name: str) -> bool:
        """Whether the attribute is there with a value of its own, null included."""
        stored = self.kind.aliases.get(name, name)
        return stored in self.kind.formulas or any(known in self.stated or known in self.kind.defaults for known in self._names(stored))

    def text(self) -> "Configuration":
        """The part that describes the language model; the configuration itself where it has no such part."""
        for name in [self.kind.text] if self.kind.text is not None else TEXT_PARTS:
            part = self.stated.get(name)
            stated = part if isinstance(part, Mapping) else {}
            if stated or self.kind.parts.get(name) is not None:
                inner = Configuration(stated, self.tables, self.kind.parts.get(name))
                return inner.text() if self.kind.text is not None else inner
        return self

    def _model_type(self, stated: Mapping[str, Any], model_type: str | None) -> str | None:
        found = stated.get("model_type")
        if isinstance(found, str) and (found in self.tables.configs or model_type is None):
            return found
        if model_type is not None:
            return model_type
        if stated.get("speculators_config") is not None:
            return "speculators"
        architectures = stated.get("architectures")
        named = self.tables.constants.get("architecture_to_model_type", {})
        return named.get(architectures[0]) if isinstance(architectures, list) and architectures and isinstance(architectures[0], str) else None

    def _raw(self, stored: str) -> Any:
        names = self._names(stored)
        for known in (self.stated, self.kind.defaults):
            for name in names:
                if name in known:
                    return known[name]
        return None

    def _names(self, stored: str) -> list[str]:
        """The names under which an attribute may be stated, or have its default: a class may declare one under its alias."""
        return [stored, *(alias for alias, name in self.kind.aliases.items() if name == stored)]

    def _computed(self, stored: str, formula: Any) -> Any:
        try:
            return compute(formula, self.stated, self._raw, self.tables.legacy_layer_types)
        except Incomputable:
            return self._raw(stored)
