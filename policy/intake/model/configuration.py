"""A model's `config.json` as vLLM sees it, with what its configuration class adds.

Applies the defaults, aliases and formulas of configuration classes to a document, finds the language model's
configuration in it, and applies the rows by which a release rewrites a draft's configuration. Reads no files: the
tables are passed in. Getting an attribute never fails, whatever the document contains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from policy.intake.model.formula import Incomputable, compute
from policy.intake.model.tables import ConfigClass, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

BASE_CLASS: Final = ConfigClass(
    "PreTrainedConfig", special=frozenset({"layer_types"}), known=frozenset({"layer_types"})
)
TEXT_FIELDS: Final = ("text_encoder", "decoder", "generator", "text_config")
FLAT_MODEL_TYPES: Final = frozenset({"qwen2_vl", "qwen2_5_vl"})
"""Model types whose class builds its text configuration from the document's own fields if none is nested in it."""
ROW_FIELDS: Final = frozenset({"model_type", "architectures", "layer_types", "part", "return"})
UNSTATED: Final = object()
CACHEABLE_TYPES: Final = frozenset({bool, int, float, type(None), type(UNSTATED)})
MAX_CACHED: Final = 128
MAX_CACHED_ITEMS: Final = 256
MAX_NESTED: Final = 4
"""The maximum nesting of text configurations; no class needs more than two."""


class Configuration:
    """A `config.json`, or a configuration nested in one.

    `stated` is the document, with renamed attributes under their new names. `model_type` is None if unknown; `kind` is
    the configuration class. `path` is where a nested one is in the document, with `/` between the fields.
    """

    __slots__ = ("_found", "_text", "_whole", "kind", "model_type", "path", "stated", "tables")

    def __init__(
        self,
        stated: Mapping[str, Any],
        tables: Tables,
        model_type: str | None = None,
        kind: ConfigClass | None = None,
    ) -> None:
        """`model_type` and `kind` are those of a part, if the class around it defines them."""
        self.tables = tables
        self.path = ""
        self.model_type = _model_type(stated, tables, model_type)
        self.kind = tables.configs.get(self.model_type or "", BASE_CLASS) if kind is None else kind
        for name, renamed in tables.constants.get("config_attribute_renames", {}).items():
            if name in stated and not has_attribute(self.kind, renamed):
                stated = {renamed: stated[name], **stated}
        flattened = stated.get(self.kind.flattens) if self.kind.flattens is not None else None
        if isinstance(flattened, Mapping):
            stated = {**flattened, **{name: item for name, item in stated.items() if name != self.kind.flattens}}
        self.stated = stated
        self._found: dict[str, Any] = {}
        self._text: Configuration | None = None
        self._whole = False

    def get(self, name: str) -> Any:
        """The value of an attribute: stated, computed by the class, or the default; None if there is none."""
        kind = self.kind
        if name not in kind.known:
            return self.stated.get(name)
        if name in kind.special:
            return self._special(name)
        return self.stated[name] if name in self.stated else kind.defaults[name]

    def _special(self, name: str) -> Any:
        """The value of an attribute with aliases or a formula, or of the layer types."""
        kind = self.kind
        stored = kind.aliases.get(name, name)
        found = self._computed(stored, kind.formulas[stored]) if stored in kind.formulas else self._stored(stored)
        if isinstance(found, list) and "layer_types" in {name, stored}:
            # Some releases of Transformers rename them in every configuration. Earlier ones do so in classes of other
            # packages, when they compare their number with that of the layers.
            is_compared = kind.is_own and self.has("num_hidden_layers")
            renamed = self.tables.legacy_layer_types or (self.tables.renamed_layer_types if is_compared else None)
            if renamed:
                return [renamed.get(item, item) if isinstance(item, str) else item for item in found]
        return found

    def has(self, name: str) -> bool:
        """Whether the configuration has the attribute; its value may be null."""
        kind = self.kind
        if name not in kind.special:
            return name in self.stated or name in kind.defaults
        stored = kind.aliases.get(name, name)
        names = kind.spellings.get(stored, (stored,))
        return stored in kind.formulas or any(known in self.stated or known in kind.defaults for known in names)

    def names_among(self, names: Collection[str]) -> list[str]:
        """The names that may have a value, because the document or the class has them."""
        stated, known = self.stated, self.kind.known
        if stated.keys().isdisjoint(names) and known.isdisjoint(names):
            return []  # at a quarter of the cost of asking for each name
        return [name for name in names if name in stated or name in known]

    def text(self) -> Configuration:
        """The language model's configuration, nested or the configuration itself."""
        if self._whole:
            return self
        if self._text is None:
            found = self
            for _ in range(MAX_NESTED):
                inner = found._text_part()
                if inner is None:
                    break
                deeper, found = found.kind.text is not None, inner
                if not deeper:
                    break
            if found is self:
                self._whole = True
            else:
                self._text = found
            return found
        return self._text

    def size_part(self) -> Configuration:
        """The configuration that states the language model's sizes; for flat documents, this is the whole one."""
        is_flat = self.model_type in FLAT_MODEL_TYPES and not isinstance(self.stated.get("text_config"), Mapping)
        return self if is_flat else self.text()

    def part(self, name: str) -> Configuration | None:
        """The configuration nested in a field; None if there is none."""
        part = self.stated_part(name)
        return self._part(name, part) if isinstance(part, Mapping) else None

    def stated_part(self, name: str) -> Any:
        """What the document states for a part, which may be in another field; None if nothing."""
        source = self.kind.sources.get(name)
        if source is None:
            return self.stated.get(name)
        try:
            return compute(source, self._stored, self.stated)
        except Incomputable:
            return None

    def _part(self, name: str, stated: Mapping[str, Any]) -> Configuration:
        kind = self.kind
        part = Configuration(stated, self.tables, kind.parts.get(name), kind.built.get(name))
        source = kind.sources.get(name)
        part.path = f"{self.path}/{name if source is None else _path_of(source)}".removeprefix("/")
        return part

    def at(self, path: str) -> Any:
        """The value at a dotted path through nested configurations; None if missing. `class` is the class's name."""
        name, dot, rest = path.partition(".")
        if dot:
            inner = self.part(name)
            return inner.at(rest) if inner is not None else None
        return self.kind.class_name if name == "class" else self.model_type if name == "model_type" else self.get(name)

    def _text_part(self) -> Configuration | None:
        kind = self.kind
        names = TEXT_FIELDS if kind.text is None else (kind.text,)
        if self.stated.keys().isdisjoint(names) and kind.parts.keys().isdisjoint(names):
            return None
        for name in names:
            part = self.stated_part(name)
            stated: Mapping[str, Any] = part if isinstance(part, Mapping) else {}
            if stated or kind.parts.get(name) is not None:
                return self._part(name, stated)
        return None

    def _stored(self, stored: str) -> Any:
        """The stated value of an attribute under any of its names, else its default."""
        kind = self.kind
        names = kind.spellings.get(stored)
        if names is None:
            return self.stated[stored] if stored in self.stated else kind.defaults.get(stored)
        for known in (self.stated, kind.defaults):
            for name in names:
                if name in known:
                    return known[name]
        return None

    def _computed(self, stored: str, formula: Any) -> Any:
        if formula is None:
            return self._stored(stored)
        values = tuple([self.stated.get(name, UNSTATED) for name in self.kind.inputs[stored]])
        types = tuple(map(type, values))
        if not CACHEABLE_TYPES.issuperset(types):
            return self._compute_once(stored, formula)
        known = self.tables.computed
        key = (id(self.kind), stored, values, types)
        if key not in known:
            found = self._compute_once(stored, formula)
            if isinstance(found, list) and len(found) > MAX_CACHED_ITEMS:
                return found
            if len(known) >= MAX_CACHED:
                known.clear()
            known[key] = found
        return known[key]

    def _compute_once(self, stored: str, formula: Any) -> Any:
        """The result of a formula, computed once per document, because some are slow and several facts need them."""
        if stored not in self._found:
            try:
                self._found[stored] = compute(formula, self._stored, self.stated, self.tables.renamed_layer_types)
            except Incomputable:
                self._found[stored] = self._stored(stored)
        return self._found[stored]


def _path_of(source: Any) -> str:
    """The path of the mapping that the formula of a part's source gets."""
    match source:
        case ["key" | "given", str() as name, *_]:
            return name
        case ["get", holder, str() as name, *_]:
            return f"{_path_of(holder)}/{name}"
        case ["or", first, *_]:
            return _path_of(first)
    return ""


def has_attribute(kind: ConfigClass, name: str) -> bool:
    """Whether each configuration of a class has an attribute, even if the document does not state it."""
    return name in kind.parts or name in kind.known or name == kind.text


def evaluate_rows(rows: Iterable[Mapping[str, Any]], key: Callable[[str], Any]) -> dict[str, Any]:
    """The values that rows of the tables set; a later row sees and replaces the values of earlier ones."""
    written: dict[str, Any] = {}

    def known(name: str) -> Any:
        return written[name] if name in written else key(name)

    for row in rows:
        written.update(_written(row, known))
    return written


def as_draft(configuration: Configuration, architectures: list[str]) -> tuple[Configuration, list[str]]:
    """A draft's configuration and architectures as `SpeculativeConfig.hf_config_override` rewrites them."""
    known: dict[str, Any] = {
        "initial_architecture": architectures[0] if architectures else None,
        "transformers_mtp_overrides": None,
    }
    for row in configuration.tables.constants.get("mtp_overrides", ()):
        known["architectures"] = architectures
        written = _written(row, _keys(known, configuration))
        if not written:
            continue
        part = configuration.part(written["part"]) if isinstance(written.get("part"), str) else None
        if part is not None:
            configuration, architectures = part, architectures_stated(part)
        configuration = _rewritten(configuration, written)
        found = written.get("architectures")
        architectures = [name for name in found if isinstance(name, str)] if isinstance(found, list) else architectures
        known |= {name: item for name, item in written.items() if name not in ROW_FIELDS}
        if written.get("return"):
            break
    return configuration, architectures


def architectures_stated(configuration: Configuration) -> list[str]:
    """The architectures that a document lists, without values that are not strings."""
    named = configuration.stated.get("architectures")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _written(row: Mapping[str, Any], key: Callable[[str], Any]) -> dict[str, Any]:
    """The values that a row sets; empty if its condition is false or a formula cannot be computed."""
    try:
        if not compute(row.get("when", True), key):
            return {}
        return {name: compute(formula, key) for name, formula in row.items() if name != "when"}
    except Incomputable:
        return {}


def _keys(known: Mapping[str, Any], configuration: Configuration) -> Callable[[str], Any]:
    return lambda name: known[name] if name in known else configuration.at(name)


def _rewritten(configuration: Configuration, written: Mapping[str, Any]) -> Configuration:
    """The configuration with the written model type and layer types, and the same class."""
    changed = {name: written[name] for name in ("model_type", "layer_types") if name in written}
    if not changed or all(configuration.at(name) == item for name, item in changed.items()):
        return configuration
    made = Configuration({**configuration.stated, **changed}, configuration.tables)
    made.kind = configuration.kind
    made.model_type = changed.get("model_type", configuration.model_type)
    return made


def _model_type(stated: Mapping[str, Any], tables: Tables, model_type: str | None) -> str | None:
    """The model type that a document states, else the expected one, else one that follows from its fields."""
    found = stated.get("model_type")
    if isinstance(found, str) and (model_type is None or found in tables.configs):
        return found
    if model_type is not None:
        return model_type
    if stated.get("speculators_config") is not None:
        return "speculators"
    architectures = stated.get("architectures")
    named: Mapping[str, str] | None = tables.constants.get("architecture_to_model_type")
    if not named or not isinstance(architectures, list) or not architectures or not isinstance(architectures[0], str):
        return None
    return named.get(architectures[0])
