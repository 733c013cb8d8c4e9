"""The flags of `vllm serve`: their spellings and legal values, read from the release's own sources.

Makes one row per flag from `make_arg_parser`; ``field_types`` reads the dataclasses behind it. Releases 0.3 to 0.33
were read. `policy.intake.command.flags` describes the rows.
"""

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Any

from policy.vllm.tablegen.field_types import ENGINE, SIMPLE_TYPES, DataclassReader, Kwargs, choice_order
from policy.vllm.tablegen.flag_texts import FlagTexts, text_of
from policy.vllm.tablegen.modules import Module, SourceDefinition, World
from policy.vllm.tablegen.values import SourceUnreadable, value

PARSERS = (
    ("vllm.entrypoints.common.cli_args", "make_arg_parser"),
    ("vllm.entrypoints.launchers.cli_args", "make_arg_parser"),
    ("vllm.entrypoints.openai.cli_args", "make_arg_parser"),
    ("vllm.entrypoints.openai.api_server", "parse_args"),
)
"""The modules and their functions that make the server's parser, newest first."""

SERVE = "vllm.entrypoints.cli.serve"
"""The module of `vllm serve`, which adds some flags of its own."""
SCRIPTS = "vllm.scripts"
"""The module of all commands of `vllm`, up to 0.7.2; `serve_parser` is the parser of `vllm serve`."""
PARSER_CLASS = "vllm.utils.argparse_utils"
INVERSES = {"--enable-": "--disable-", "--disable-": "--enable-"}


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
        self.fields = DataclassReader(world)
        engine, parser = world.module(ENGINE), world.module(PARSER_CLASS)
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
        self.dashed_keys = made is not None and ".replace('-', '_')" in ast.unparse(made)
        self.inverses = INVERSES if parser is not None and "EnableDisableAction" in parser.bound else {}

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
        classes = list(self.fields.lineage(definition))
        kwargs = {name: given for klass in reversed(classes) for name, given in self.fields.kwargs(klass).items()}
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
                        local[name] = self.fields.fields_of(module, class_name)
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
                return dict_or_empty(local.get(name))
            case ast.Subscript(
                value=ast.Call(func=ast.Name(id="get_kwargs"), args=[ast.Name(id=class_name)]),
                slice=ast.Constant(value=str(key)),
            ):
                return dict_or_empty(self.fields.fields_of(module, class_name).get(key))
            case ast.Subscript(value=inner, slice=ast.Constant(value=str(key))):
                return dict_or_empty(self.pick(module, inner, local).get(key))
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


def dict_or_empty(local: object) -> Kwargs:
    """The dict itself, to be changed in place; an empty one if the sources do not show it."""
    return local if isinstance(local, dict) else {}


def _sorted_choices(words: Sequence[object]) -> list[object]:
    """The choices of one flag, sorted, with null at the end."""
    stated = [word if isinstance(word, int) else str(word) for word in words if word is not None]
    return [*sorted(stated, key=choice_order), *([None] if None in words else [])]
