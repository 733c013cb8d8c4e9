"""The flags of `vllm serve`: their spellings and legal values, read from the release's own sources.

Makes one row per flag from `make_arg_parser` and the dataclasses behind it. It follows `_compute_kwargs` of
`vllm/engine/arg_utils.py`, which derives a flag's values from a field's type; up to 0.8 most flags state them. Releases
0.3 to 0.33 were read. `policy.intake.command.flags` describes the rows.
"""

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from policy.vllm.tablegen.modules import Module, SourceDefinition, World
from policy.vllm.tablegen.values import Name, SourceUnreadable, value

PARSERS = (
    ("vllm.entrypoints.common.cli_args", "make_arg_parser"),
    ("vllm.entrypoints.launchers.cli_args", "make_arg_parser"),
    ("vllm.entrypoints.openai.cli_args", "make_arg_parser"),
    ("vllm.entrypoints.openai.api_server", "parse_args"),
)
"""The modules and their functions that make the server's parser, newest first."""

ENGINE = "vllm.engine.arg_utils"
SERVE = "vllm.entrypoints.cli.serve"
"""The module of `vllm serve`, which adds some flags of its own."""
SCRIPTS = "vllm.scripts"
"""The module of all commands of `vllm`, up to 0.7.2; `serve_parser` is the parser of `vllm serve`."""
PARSER_CLASS = "vllm.utils.argparse_utils"
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
INVERSES = {"--enable-": "--disable-", "--disable-": "--enable-"}


@dataclass(frozen=True, slots=True)
class Hint:
    """One alternative of a field's type: `name` is the builtin, `Literal`, `None`, or `other`."""

    name: str
    arguments: tuple[object, ...] = ()
    definition: SourceDefinition | None = None


@dataclass(frozen=True, slots=True)
class FlagTexts:
    """What the sources say of a flag: its help, and whether argparse marks it as deprecated.

    ``field`` is the field behind it and ``field_of`` the class of that field; ``klass`` is the class of its object.
    """

    flags: tuple[str, ...]
    help: str = ""
    deprecated: bool = False
    field: str = ""
    field_of: SourceDefinition | None = None
    klass: SourceDefinition | None = None


def arguments(world: World) -> dict[str, object]:
    """The flags of a release, by the attribute in which each is stored."""
    return _read(world).rows


def flag_texts(world: World) -> dict[str, FlagTexts]:
    """What the sources of a release say of each flag, by the attribute in which it is stored."""
    return _read(world).texts


def _read(world: World) -> "_OptionReader":
    reader = _OptionReader(world)
    parser, function = next(
        ((module, function) for name, function in PARSERS if (module := world.module(name)) is not None), (None, "")
    )
    if parser is None:
        return reader
    reader.function(parser, function, None)
    frontend = world.find(parser, "FrontendArgs")
    if isinstance(frontend, SourceDefinition):
        reader.frontend(frontend)
    engine = world.module(ENGINE)
    if engine is not None:
        reader.function(engine, "add_cli_args", "EngineArgs")
        reader.function(engine, "add_cli_args_for_vlm", "EngineArgs")
        reader.function(engine, "add_cli_args", "AsyncEngineArgs")
    serve = world.module(SERVE)
    if serve is not None:
        reader.function(serve, "subparser_init", "ServeSubcommand")
    elif (scripts := world.module(SCRIPTS)) is not None:
        reader.function(scripts, "main", None, "serve_parser")
    return reader


class _OptionReader:
    """Interprets the functions that add flags; `rows` has the flags added so far, `texts` what is said of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: dict[str, object] = {}
        self.texts: dict[str, FlagTexts] = {}
        self.fields: dict[tuple[str, str], dict[str, Kwargs]] = {}
        engine, parser = world.module(ENGINE), world.module(PARSER_CLASS)
        compute = engine.bound.get("_compute_kwargs") if engine else None
        text = ast.unparse(compute) if isinstance(compute, ast.stmt) else ""
        self.suffixed = _suffixed_fields(compute)
        self.optional_valued = "'const'" in text
        self.null_choice = "append(None)" in text
        self.dict_subclasses = "is_dict_subclass" in text
        made = (
            next(
                (
                    node
                    for node in ast.walk(engine.tree)
                    if isinstance(node, ast.FunctionDef) and node.name == "create_speculative_config"
                ),
                None,
            )
            if engine
            else None
        )
        # up to 0.8.4 only the type of a field is used, not its alternatives; before, no field is
        self.types_alone = engine is not None and engine.bound.keys().isdisjoint({"get_kwargs", "_compute_kwargs"})
        self.dashed_keys = made is not None and ".replace('-', '_')" in ast.unparse(made)
        self.takes_pairs = engine is not None and "nullable_kvs" in engine.bound  # `image=1,video=2` instead of JSON
        self.inverses = INVERSES if parser is not None and "EnableDisableAction" in parser.bound else {}

    # functions

    def function(self, module: Module, name: str, owner: str | None, parser: str = "") -> None:
        """Interpret a module's function, or a class's method, that adds flags, or that adds those of one parser."""
        body = module.tree.body
        if owner is not None:
            body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner), [])
        found = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)
        if found is not None:
            body = [each for each in found.body if ast.unparse(each).startswith(f"{parser}.")] if parser else found.body
            self.run(module, body, {})

    def frontend(self, definition: SourceDefinition) -> None:
        """Add a flag for each field of the frontend's dataclass, as its own methods customize it."""
        classes = list(self.lineage(definition))
        kwargs = {name: given for klass in reversed(classes) for name, given in self.kwargs(klass).items()}
        for klass in reversed(classes):
            assert isinstance(klass.node, ast.ClassDef)
            for node in klass.node.body:
                if isinstance(node, ast.FunctionDef) and node.name == "_customize_cli_kwargs":
                    self.run(klass.module, node.body, {"frontend_kwargs": kwargs})
        for name, given in kwargs.items():
            self.add([f"--{name.replace('_', '-')}"], given)

    def run(self, module: Module, body: list[ast.stmt], local: dict[str, Any]) -> None:
        """Interpret the few kinds of statements that add and change flags."""
        for statement in body:
            match statement:
                case ast.If(body=inner):
                    self.run(module, inner, local)
                case ast.For(target=target, iter=ast.List(elts=items) | ast.Tuple(elts=items), body=inner):
                    for item in items:
                        self.run(module, _with_item(inner, target, item), local)
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=class_name)]),
                ):
                    if class_name != "cls":
                        local[name] = self.fields_of(module, class_name)
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() as source):
                    local[name] = self.pick(module, source, local)
                case ast.Assign(targets=[ast.Subscript(value=target, slice=ast.Constant(value=str(key)))], value=given):
                    self.pick(module, target, local).update(self.keyword(module, key, given))
                case ast.AugAssign(target=ast.Subscript(value=target, slice=ast.Constant(value="choices"))):
                    self.pick(module, target, local).pop("choices", None)
                case ast.Delete(targets=[ast.Subscript(value=target, slice=ast.Constant(value=str(key)))]):
                    self.pick(module, target, local).pop(key, None)
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(value=ast.Subscript(value=target), attr="remove"), args=[gone])
                ):
                    kwargs = self.pick(module, target, local)
                    word = value(self.world, module, gone)
                    kwargs["choices"] = [choice for choice in kwargs["choices"] if choice != word]
                case ast.Expr(
                    value=ast.Call(func=ast.Attribute(attr="add_argument"), args=[*words], keywords=keywords)
                ):
                    flags = [
                        word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)
                    ]
                    if flags and flags[0].startswith("-"):
                        self.add(flags, self.call_keywords(module, keywords, local))

    def call_keywords(self, module: Module, keywords: list[ast.keyword], local: Mapping[str, Any]) -> Kwargs:
        """The keywords of a call, with those of spread dicts."""
        found: Kwargs = {}
        for keyword in keywords:
            if keyword.arg is not None:
                found.update(self.keyword(module, keyword.arg, keyword.value))
                continue
            spread = keyword.value
            given: Kwargs = {}
            if isinstance(spread, ast.Dict):
                for key, inner in zip(spread.keys, spread.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "help":
                        given = self.keyword(module, "help", inner)
                spread = next(inner for key, inner in zip(spread.keys, spread.values, strict=True) if key is None)
            found.update(self.pick(module, spread, local) | given)
        return found

    def pick(self, module: Module, node: ast.expr, local: Mapping[str, Any]) -> Kwargs:
        """The value of `name`, `name["field"]` or `get_kwargs(Class)["field"]`."""
        match node:
            case ast.Name(id=name):
                return dict_of(local.get(name))
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=class_name)]),
                slice=ast.Constant(value=str(key)),
            ):
                return dict_of(self.fields_of(module, class_name).get(key))
            case ast.Subscript(value=inner, slice=ast.Constant(value=str(key))):
                return dict_of(self.pick(module, inner, local).get(key))
        return {}

    def keyword(self, module: Module, key: str, node: ast.expr) -> Kwargs:
        """One keyword as the rows store it; keywords that do not change a flag's values are left out."""
        match key, node:
            case "type", ast.Call(func=ast.Name(id="optional_type"), args=[inner]):
                return {"type": SIMPLE_TYPES[ast.unparse(inner)], "optional": True}
            case "type", ast.Name(id="nullable_str"):
                return {"type": "text", "optional": True}
            case "type", ast.Lambda(body=ast.DictComp()):
                return {"type": "text"}
            case "type", ast.Lambda(body=ast.Call(func=ast.Attribute(attr="replace"))):
                return {"type": "dashed"}
            case "type", ast.Lambda():
                return {"type": "devices"}
            case "type", _:
                return {"type": SIMPLE_TYPES[ast.unparse(node)], "optional": False}
            case "action", ast.Constant(value=str(action)):
                return {"action": action}
            case "action", ast.Attribute(attr="BooleanOptionalAction"):
                return {"action": "pair"}
            case "action", ast.Name(id="StoreBoolean"):
                return {"type": "boolean"}
            case "nargs" | "dest" | "deprecated", ast.Constant(value=found):
                return {key: found}
            case "help", _:
                return {"help": text_of(self.world, module, node)}
            case "choices", ast.ListComp(
                elt=ast.Attribute(attr="value"), generators=[ast.comprehension(iter=ast.Name(id=name))]
            ):
                return {"choices": sorted(self.enumerated(module, name))}
            case "choices", _:
                try:
                    choices = value(self.world, module, node)
                except SourceUnreadable:
                    return {}
                return {"choices": _sorted_choices(choices)} if isinstance(choices, tuple | list) else {}
        return {}

    def enumerated(self, module: Module, name: str) -> list[str]:
        """The values of an enum of texts."""
        found = self.world.find(module, name)
        assert isinstance(found, SourceDefinition)
        assert isinstance(found.node, ast.ClassDef)
        return [
            node.value.value
            for node in found.node.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ]

    def add(self, flags: list[str], kwargs: Kwargs) -> None:
        """Add one flag to the rows."""
        dest = kwargs.get("dest") or next((flag for flag in flags if flag.startswith("--")), flags[0]).lstrip(
            "-"
        ).replace("-", "_")
        row: dict[str, object] = {"flags": flags}
        match kwargs.get("action"):
            case "pair":
                off = [f"--no-{flag[2:]}" for flag in flags if flag.startswith("--")]
                off += [
                    inverse + flag.removeprefix(prefix)
                    for flag in flags
                    for prefix, inverse in self.inverses.items()
                    if flag.startswith(prefix)
                ]
                row |= {"kind": "bool", "off": off}
            case "store_true":
                row["kind"] = "bool"
            case action:
                row["kind"] = kwargs.get("type", "text")
                row |= {key: kwargs[key] for key in ("nargs", "choices", "optional", "members") if kwargs.get(key)}
                if dest == "speculative_config" and self.dashed_keys:
                    row["dashes"] = True
                if action == "append":
                    row["repeats"] = True
        assert dest not in self.rows, dest  # INVARIANT: a second flag with this name would hide the first
        self.rows[dest] = row
        self.texts[dest] = FlagTexts(
            tuple(flags),
            kwargs.get("help", ""),
            kwargs.get("deprecated", False),
            kwargs.get("field", ""),
            kwargs.get("field_of"),
            kwargs.get("klass"),
        )

    # types

    def fields_of(self, module: Module, name: str) -> dict[str, Kwargs]:
        found = self.world.find(module, name)
        if not isinstance(found, SourceDefinition):
            return {}
        key = (found.module.name, found.name)
        if key not in self.fields:
            self.fields[key] = {
                field: given
                for klass in reversed(list(self.lineage(found)))
                for field, given in self.kwargs(klass).items()
            }
        return {field: dict(given) for field, given in self.fields[key].items()}

    def lineage(self, definition: SourceDefinition) -> Iterator[SourceDefinition]:
        """A class and the classes that it inherits fields from, itself first."""
        yield definition
        assert isinstance(definition.node, ast.ClassDef)
        for base in definition.node.bases:
            parent = self.world.find(definition.module, base.id) if isinstance(base, ast.Name) else None
            if isinstance(parent, SourceDefinition) and isinstance(parent.node, ast.ClassDef):
                yield from self.lineage(parent)

    def own_fields(self, klass: SourceDefinition) -> Iterator[tuple[str, ast.AnnAssign]]:
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
        for name, node in self.own_fields(klass):
            hints = self.hints(klass.module, node.annotation)
            inner = next((hint.definition for hint in hints if hint.name == "dataclass"), None)
            found[name] = self.field(name, hints) | {
                "help": documented.get(name, ""),
                "field": name,
                "field_of": klass,
                "klass": inner,
            }
        return found

    def field(self, name: str, hints: list[Hint]) -> Kwargs:
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
            kwargs = {"type": "object", "members": self.members(found, MAX_DEPTH)}
        elif names == {"bool", "str", "None"} and self.optional_valued:
            kwargs = {"type": "text", "nargs": "?"}
        elif "bool" in names:
            return {"action": "pair"}
        elif "Literal" in names:
            words = dict.fromkeys(word for hint in hints if hint.name == "Literal" for word in hint.arguments)
            kwargs = _choices(tuple(words), closed="str" not in names)
        elif kind := next((kind for kind in ("tuple", "list", "set") if kind in names), None):
            kwargs = self.collection(kind, by_name[kind].arguments)
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

    def collection(self, kind: str, arguments: tuple[object, ...]) -> Kwargs:
        """The row properties of a collection's flag: one or more words, or as many as a tuple has elements."""
        elements = [item for item in arguments if isinstance(item, list)]
        open_end = len(elements) < len(arguments)
        nargs: object = "+" if kind != "tuple" or open_end else len(elements)
        hints = elements[0] if elements else [Hint("str")]
        if len(hints) == 1 and hints[0].name == "Literal":
            return {**_choices(hints[0].arguments, closed=True), "nargs": nargs}
        element = hints[0].name if len(hints) == 1 else "str"
        return {"type": SIMPLE_TYPES.get(element, "text"), "nargs": nargs}

    def members(self, klass: SourceDefinition, depth: int) -> dict[str, object] | None:
        """An object's legal fields; None if any field is legal.

        The value of a field is its kind, its choices, its own fields, or None if that is unknown.
        """
        found: dict[str, object] = {}
        for part in reversed(list(self.lineage(klass))):
            assert isinstance(part.node, ast.ClassDef)
            marked = _validators(part.node)
            if None in marked or not any(_decorator_name(mark) == "config" for mark in part.node.decorator_list):
                return None
            for name, node in self.own_fields(part):
                if node.value is not None and "init=False" in ast.unparse(node.value):
                    found.pop(name, None)
                    continue
                mode = marked.get(name)
                hints = self.hints(part.module, node.annotation)
                nested = any(hint.name == "dataclass" for hint in hints)
                unchecked = (mode in {"before", "plain"} and not nested) or "SkipValidation" in ast.unparse(
                    node.annotation
                )
                found[name] = (
                    None if unchecked else self.member([*hints, *([Hint("None")] if mode == "wrap" else [])], depth)
                )
        return dict(sorted(found.items()))

    def member(self, hints: list[Hint], depth: int) -> object:
        named = [hint for hint in hints if hint.name != "None"]
        null = "?" if len(named) < len(hints) else ""
        if len(named) != 1:
            return None
        match named[0]:
            case Hint(name="dataclass", definition=SourceDefinition() as inner) if depth > 1:
                return self.members(inner, depth - 1)
            case Hint(name="bool" | "int" | "float" as name):
                return name + null
            case Hint(name="Literal", arguments=words) if all(isinstance(word, str) for word in words):
                return [*sorted(set(map(str, words))), *([None] if null else [])]
        return None

    def hints(self, module: Module, node: ast.expr) -> list[Hint]:
        """The alternatives of a type, with unions and aliases expanded."""
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return _distinct([*self.hints(module, left), *self.hints(module, right)])
            case ast.Constant(value=None):
                return [Hint("None")]
            case ast.Constant(value=str(text)):
                return self.hints(module, ast.parse(text, mode="eval").body)
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
                found = [hint for part in parts for hint in self.hints(module, part)]
                return _distinct([*found, Hint("None")] if name == "Optional" else found)
            case ast.Subscript(value=ast.Name(id="list" | "tuple" | "set" | "dict" | "type" as name), slice=inner):
                parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                known = tuple(
                    None if isinstance(part, ast.Constant) and part.value is ... else self.hints(module, part)
                    for part in parts
                )
                return [Hint(name, known if name in {"list", "tuple", "set"} else ())]
            case ast.Name(id="int" | "float" | "str" | "bool" | "dict" | "list" | "tuple" | "set" | "type" as name):
                return [Hint(name)]
            case ast.Name(id=name):
                found_name = self.world.find(module, name)
                if isinstance(found_name, SourceDefinition) and isinstance(found_name.node, ast.ClassDef):
                    return [self.klass(found_name)]
                if isinstance(found_name, SourceDefinition) and isinstance(found_name.node, ast.expr):
                    return self.hints(found_name.module, found_name.node)
        return [Hint("other")]

    def klass(self, definition: SourceDefinition) -> Hint:
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


def docstrings(klass: SourceDefinition) -> dict[str, str]:
    """The text below each field of a class."""
    assert isinstance(klass.node, ast.ClassDef)
    body = klass.node.body
    return {
        name: text
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and (name := field.target.id)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(text := below.value.value, str)
    }


class _Substitution(ast.NodeTransformer):
    """Replaces names by expressions."""

    def __init__(self, by_name: Mapping[str, ast.expr]) -> None:
        self.by_name = by_name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.by_name.get(node.id, node)


def _with_item(body: list[ast.stmt], target: ast.expr, item: ast.expr) -> list[ast.stmt]:
    """A loop's body for one item."""
    match target, item:
        case ast.Tuple(elts=names), ast.Tuple(elts=values):
            pairs = zip(names, values, strict=True)
        case _:
            pairs = zip([target], [item], strict=True)
    by_name = {name.id: given for name, given in pairs if isinstance(name, ast.Name)}
    return [_Substitution(by_name).visit(copy.deepcopy(each)) for each in body]


def text_of(world: World, module: Module, node: ast.expr) -> str:
    """A text that is written out, or that a name of the module has; empty if it is computed."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "" for part in parts)
    try:
        found = value(world, module, node)
    except SourceUnreadable:
        return ""
    return found if isinstance(found, str) and not isinstance(found, Name) else ""


def dict_of(local: object) -> Kwargs:
    """The dict itself, to be changed in place; an empty one if the sources do not show it."""
    return local if isinstance(local, dict) else {}


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
    return {"type": kind, **({"choices": sorted(words, key=_rank)} if closed else {})}


def _sorted_choices(words: Sequence[object]) -> list[object]:
    """The choices of one flag, of which null is the last."""
    stated = [word if isinstance(word, int) else str(word) for word in words if word is not None]
    return [*sorted(stated, key=_rank), *([None] if None in words else [])]


def _rank(word: object) -> tuple[int, str]:
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
