"""The flags that vLLM makes from the fields of its dataclasses: their legal values, from each field's type.

Follows `_compute_kwargs` of `vllm/engine/arg_utils.py`. Up to 0.8 most flags state their values instead.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from policy.vllm.tablegen.flag_texts import docstrings
from policy.vllm.tablegen.modules import Module, SourceDefinition, World
from policy.vllm.tablegen.values import Name, SourceUnreadable, value

ENGINE = "vllm.engine.arg_utils"
SIMPLE_TYPES = {
    "CompilationConfig.from_cli": "text",
    "KVTransferConfig.from_cli": "object",
    "PoolerConfig.from_json": "object",
    "bool": "text",  # any text: all but the empty one are true
    "human_readable_int": "human",
    "nullable_kvs": "pairs",
    "int": "int",
    "float": "float",
    "str": "text",
    "json.loads": "json",
    "parse_reasoning_parser": "text-none-unsets",
}
WRAPPERS = ("Annotated", "SkipValidation", "Optional", "Union")
MAX_DEPTH = 2
"""The maximum depth of an object's fields: `compilation_config.pass_config.enable_sp` is two deep."""

Kwargs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hint:
    """One alternative of a field's type: `name` is the builtin, `Literal`, `None`, or `other`."""

    name: str
    arguments: tuple[object, ...] = ()
    definition: SourceDefinition | None = None


class DataclassReader:
    """Reads the fields of dataclasses as a release makes flags of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.read: dict[tuple[str, str], dict[str, Kwargs]] = {}
        engine = world.module(ENGINE)
        compute = engine.bound.get("_compute_kwargs") if engine else None
        text = ast.unparse(compute) if isinstance(compute, ast.stmt) else ""
        self.suffixed = _suffixed_fields(compute)
        self.optional_valued = "'const'" in text
        self.null_choice = "append(None)" in text
        self.dict_subclasses = "is_dict_subclass" in text
        # up to 0.8.4 only the type of a field is used, not its alternatives; before, no field is
        self.types_alone = engine is not None and engine.bound.keys().isdisjoint({"get_kwargs", "_compute_kwargs"})
        self.takes_pairs = engine is not None and "nullable_kvs" in engine.bound  # `image=1,video=2` instead of JSON

    def fields_of(self, module: Module, name: str) -> dict[str, Kwargs]:
        """The row properties of the flags of a dataclass, inherited fields included, by field."""
        found = self.world.find(module, name)
        if not isinstance(found, SourceDefinition):
            return {}
        key = (found.module.name, found.name)
        if key not in self.read:
            self.read[key] = {
                field: given
                for klass in reversed(list(self.lineage(found)))
                for field, given in self.kwargs(klass).items()
            }
        return {field: dict(given) for field, given in self.read[key].items()}

    def lineage(self, definition: SourceDefinition) -> Iterator[SourceDefinition]:
        """A class and the classes that it inherits fields from, itself first."""
        yield definition
        assert isinstance(definition.node, ast.ClassDef)
        for base in definition.node.bases:
            parent = self.world.find(definition.module, base.id) if isinstance(base, ast.Name) else None
            if isinstance(parent, SourceDefinition) and isinstance(parent.node, ast.ClassDef):
                yield from self.lineage(parent)

    def _own_fields(self, klass: SourceDefinition) -> Iterator[tuple[str, ast.AnnAssign]]:
        """The fields in a dataclass's own body."""
        assert isinstance(klass.node, ast.ClassDef)
        for node in klass.node.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    if not ast.unparse(annotation).startswith(("ClassVar", "InitVar")):
                        yield name, node

    def kwargs(self, klass: SourceDefinition) -> dict[str, Kwargs]:
        """The row properties of each field's flag."""
        documented = docstrings(klass)
        found = {}
        for name, node in self._own_fields(klass):
            hints = self._hints(klass.module, node.annotation)
            inner = next((hint.definition for hint in hints if hint.name == "dataclass"), None)
            found[name] = self._field(name, hints) | {
                "help": documented.get(name, ""),
                "field": name,
                "field_of": klass,
                "klass": inner,
            }
        return found

    def _field(self, name: str, hints: list[Hint]) -> Kwargs:
        """The row properties of the flag of a field with this name and type, in the order of `_compute_kwargs`."""
        names = {hint.name for hint in hints}
        by_name = {hint.name: hint for hint in hints}
        foreign = "other" in names
        kwargs: Kwargs = {}
        if self.types_alone:
            return _of_type(names)
        if "dataclass" in names:
            found = by_name["dataclass"].definition
            assert found is not None
            kwargs = {"type": "object", "members": self._members(found, MAX_DEPTH)}
        elif names == {"bool", "str", "None"} and self.optional_valued:
            kwargs = {"type": "text", "nargs": "?"}
        elif "bool" in names:
            return {"action": "pair"}
        elif "Literal" in names:
            words = dict.fromkeys(word for hint in hints if hint.name == "Literal" for word in hint.arguments)
            kwargs = _choices(tuple(words), closed="str" not in names)
        elif kind := next((kind for kind in ("tuple", "list", "set") if kind in names), None):
            kwargs = self._collection(kind, by_name[kind].arguments)
        elif "int" in names:
            kwargs = {
                "type": "human-or-auto" if name == "max_model_len" else "human" if name in self.suffixed else "int"
            }
        elif "float" in names:
            kwargs = {"type": "float"}
        elif "dict" in names:
            kwargs = {"type": "json-or-text" if "str" in names or foreign or self.takes_pairs else "json"}
        elif "IntEnum" in names:
            kwargs = {"type": "int", "choices": list(by_name["IntEnum"].arguments)}
        else:
            kwargs = {"type": "text"}
        if "None" in names:
            kwargs["optional"] = True
            if self.null_choice and kwargs.get("choices"):
                kwargs["choices"] = [*kwargs["choices"], None]
        return kwargs

    def _collection(self, kind: str, arguments: tuple[object, ...]) -> Kwargs:
        """The row properties of a collection's flag: one or more words, or as many as a tuple has elements."""
        elements = [item for item in arguments if isinstance(item, list)]
        open_end = len(elements) < len(arguments)
        nargs: object = "+" if kind != "tuple" or open_end else len(elements)
        hints = elements[0] if elements else [Hint("str")]
        if len(hints) == 1 and hints[0].name == "Literal":
            return {**_choices(hints[0].arguments, closed=True), "nargs": nargs}
        element = hints[0].name if len(hints) == 1 else "str"
        return {"type": SIMPLE_TYPES.get(element, "text"), "nargs": nargs}

    def _members(self, klass: SourceDefinition, depth: int) -> dict[str, object] | None:
        """An object's legal fields; None if any field is legal.

        The value of a field is its kind, its choices, its own fields, or None if that is unknown.
        """
        found: dict[str, object] = {}
        for part in reversed(list(self.lineage(klass))):
            assert isinstance(part.node, ast.ClassDef)
            marked = _validators(part.node)
            if None in marked or not any(_decorator_name(mark) == "config" for mark in part.node.decorator_list):
                return None
            for name, node in self._own_fields(part):
                if node.value is not None and "init=False" in ast.unparse(node.value):
                    found.pop(name, None)
                    continue
                mode = marked.get(name)
                hints = self._hints(part.module, node.annotation)
                nested = any(hint.name == "dataclass" for hint in hints)
                unchecked = (mode in {"before", "plain"} and not nested) or "SkipValidation" in ast.unparse(
                    node.annotation
                )
                found[name] = (
                    None if unchecked else self._member([*hints, *([Hint("None")] if mode == "wrap" else [])], depth)
                )
        return dict(sorted(found.items()))

    def _member(self, hints: list[Hint], depth: int) -> object:
        named = [hint for hint in hints if hint.name != "None"]
        null = "?" if len(named) < len(hints) else ""
        if len(named) != 1:
            return None
        match named[0]:
            case Hint(name="dataclass", definition=SourceDefinition() as inner) if depth > 1:
                return self._members(inner, depth - 1)
            case Hint(name="bool" | "int" | "float" as name):
                return name + null
            case Hint(name="Literal", arguments=words) if all(isinstance(word, str) for word in words):
                return [*sorted(set(map(str, words))), *([None] if null else [])]
        return None

    def _hints(self, module: Module, node: ast.expr) -> list[Hint]:
        """The alternatives of a type, with unions and aliases expanded."""
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return _distinct([*self._hints(module, left), *self._hints(module, right)])
            case ast.Constant(value=None):
                return [Hint("None")]
            case ast.Constant(value=str(text)):
                return self._hints(module, ast.parse(text, mode="eval").body)
            case ast.Subscript(value=ast.Name(id="Literal")):
                try:
                    words = value(self.world, module, node)
                except SourceUnreadable:
                    return [Hint("other")]
                found_words = words if isinstance(words, tuple) else (words,)
                return [
                    Hint("other")
                    if any(isinstance(word, Name) for word in found_words)
                    else Hint("Literal", found_words)
                ]
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in WRAPPERS:
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                parts = parts[:1] if name == "Annotated" else parts
                found = [hint for part in parts for hint in self._hints(module, part)]
                return _distinct([*found, Hint("None")] if name == "Optional" else found)
            case ast.Subscript(value=ast.Name(id="list" | "tuple" | "set" | "dict" | "type" as name), slice=inner):
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                known = tuple(
                    None if isinstance(part, ast.Constant) and part.value is ... else self._hints(module, part)
                    for part in parts
                )
                return [Hint(name, known if name in {"list", "tuple", "set"} else ())]
            case ast.Name(id="int" | "float" | "str" | "bool" | "dict" | "list" | "tuple" | "set" | "type" as name):
                return [Hint(name)]
            case ast.Name(id=name):
                found_name = self.world.find(module, name)
                if isinstance(found_name, SourceDefinition) and isinstance(found_name.node, ast.ClassDef):
                    return [self._klass(found_name)]
                if isinstance(found_name, SourceDefinition) and isinstance(found_name.node, ast.expr):
                    return self._hints(found_name.module, found_name.node)
        return [Hint("other")]

    def _klass(self, definition: SourceDefinition) -> Hint:
        assert isinstance(definition.node, ast.ClassDef)
        if any(_decorator_name(mark) in {"config", "dataclass"} for mark in definition.node.decorator_list):
            return Hint("dataclass", definition=definition)
        if self.dict_subclasses and any(
            isinstance(base, ast.Name) and base.id == "dict" for base in definition.node.bases
        ):
            return Hint("dict")
        if any(isinstance(base, ast.Name) and base.id == "IntEnum" for base in definition.node.bases):
            members = [node.value for node in definition.node.body if isinstance(node, ast.Assign)]
            return Hint("IntEnum", tuple(member.value for member in members if isinstance(member, ast.Constant)))
        return Hint("other", (definition.module.name, definition.name))


def _decorator_name(decorator: ast.expr) -> str:
    """A decorator's name: a `config` refuses unknown fields, a `dataclass` does not."""
    return ast.unparse(decorator).partition("(")[0].rpartition(".")[2]


def _distinct(hints: list[Hint]) -> list[Hint]:
    return [hint for index, hint in enumerate(hints) if hint not in hints[:index]]


def _of_type(names: set[str]) -> Kwargs:
    """The row properties of a flag that states whether it takes a value, as 0.8.4 derives them from a field's type."""
    if names == {"bool"}:
        return {}
    if "None" in names:
        return {"type": "text", "optional": True}
    return {"type": "text" if "str" in names else SIMPLE_TYPES[next(iter(names))]}


def _choices(words: tuple[object, ...], *, closed: bool) -> Kwargs:
    kind = "int" if all(isinstance(word, int) and not isinstance(word, bool) for word in words) else "text"
    return {"type": kind, **({"choices": sorted(words, key=choice_order)} if closed else {})}


def choice_order(word: object) -> tuple[int, str]:
    """The order of a flag's choices: numbers by value, then texts."""
    return (word if isinstance(word, int) else 0, str(word))


def _suffixed_fields(compute: object) -> frozenset[str]:
    """The names of the fields whose flags accept `1k` and `2M`."""
    for node in ast.walk(compute) if isinstance(compute, ast.AST) else ():
        if isinstance(node, ast.Tuple | ast.Set):
            words = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            if "max_num_batched_tokens" in words:
                return frozenset(words)
    return frozenset()


def _validators(klass: ast.ClassDef) -> dict[str | None, str]:
    """The mode of the validator that runs before a field's type is checked, by field.

    The key None is for a validator of the whole object. A field validator of mode `wrap` is assumed to accept null and
    to check the type otherwise, as all of them do in these releases.
    """
    found: dict[str | None, str] = {}
    for node in klass.body:
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            match mark:
                case ast.Call(
                    func=ast.Name(id="field_validator" | "model_validator" as name),
                    args=fields,
                    keywords=[ast.keyword(arg="mode", value=ast.Constant(value=str(mode)))],
                ):
                    if name == "field_validator":
                        found |= {
                            field.value: mode
                            for field in fields
                            if isinstance(field, ast.Constant)
                            and isinstance(field.value, str)
                            and found.get(field.value) != "before"
                        }
                    elif mode != "after":
                        found[None] = mode
    return found
