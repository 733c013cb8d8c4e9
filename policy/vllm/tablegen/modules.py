"""Modules as they would be after their import on one platform, without importing them: the binding of each name.

Covers the top level of modules, and names through imports. Not here: values (`values`) and classes (`classes`).
"""

import ast
import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policy.vllm.tablegen.wheels import SourceReader

PLATFORMS = ("cuda", "rocm", "xpu", "cpu", "tpu")


@dataclass(frozen=True, slots=True)
class ImportedName:
    """`from module import name`, or `import module` if the name is None."""

    module: str
    name: str | None


Bound = ast.stmt | ast.expr | ImportedName


@dataclass(slots=True)
class Module:
    """One module's top level: the binding of each name."""

    name: str
    is_package: bool
    tree: ast.Module
    bound: dict[str, Bound] = field(default_factory=dict)
    typing_only: dict[str, Bound] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    attributes: dict[str, dict[str, ast.expr]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """The module in which a name is finally defined, and the statement or expression that defines it."""

    module: Module
    name: str
    node: ast.stmt | ast.expr


class World:
    """All modules of the sources, read on demand, as they are on one platform."""

    def __init__(self, reading: SourceReader, platform: str = "cuda") -> None:
        self.reading = reading
        self.platform = platform
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of a dotted name; None if it is not in the sources."""
        if name not in self._modules:
            self._modules[name] = None
            path = name.replace(".", "/")
            for candidate, is_package in ((f"{path}/__init__.py", True), (f"{path}.py", False)):
                if candidate in self.reading:
                    module = Module(name, is_package, self.reading.tree(candidate))
                    self._bind(module, module.tree.body, module.bound)
                    self._modules[name] = module
                    break
        return self._modules[name]

    def find(self, module: Module, name: str, depth: int = 0) -> SourceDefinition | ImportedName | None:
        """The definition of a name, through imports and aliases; an `ImportedName` if the sources do not have it."""
        bound = module.bound.get(name, module.typing_only.get(name))
        if depth > 40:  # noqa: PLR2004 circular imports
            return None
        if bound is None:
            return next(
                (
                    found
                    for star in module.stars
                    if self._may_define(star, name) and (found := self._find_in(star, name, depth)) is not None
                ),
                None,
            )
        if isinstance(bound, ImportedName):
            if bound.name is None:
                return bound
            return self._find_in(bound.module, bound.name, depth) or bound
        if isinstance(bound, ast.Name) and bound.id != name:
            return self.find(module, bound.id, depth + 1)
        return SourceDefinition(module, name, bound)

    def _may_define(self, module_name: str, name: str) -> bool:
        """Whether a star-imported module can define a name; its text is checked first, which avoids much parsing."""
        path = f"{module_name.replace('.', '/')}.py"
        return path not in self.reading or name in self.reading.text(path)

    def _find_in(self, module_name: str, name: str, depth: int) -> SourceDefinition | ImportedName | None:
        module = self.module(module_name)
        found = self.find(module, name, depth + 1) if module is not None else None
        if found is None and self.module(f"{module_name}.{name}") is not None:
            return ImportedName(f"{module_name}.{name}", None)
        return found

    def statements(self, body: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
        """The statements that run at import, and whether only a type checker runs them."""
        for statement in body:
            match statement:
                case ast.If(
                    test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"), body=then, orelse=otherwise
                ):
                    yield from ((inner, True) for inner, _ in self.statements(then))
                    yield from self.statements(otherwise)
                case ast.If(test=test, body=then, orelse=otherwise):
                    truth = self.truth(test)
                    if truth is not True:
                        yield from self.statements(otherwise)
                    if truth is not False:
                        yield from self.statements(then)
                case ast.Try(body=then, handlers=handlers, orelse=otherwise):
                    for handler in handlers:
                        yield from self.statements(handler.body)
                    yield from self.statements([*then, *otherwise])
                case ast.With(body=then):
                    yield from self.statements(then)
                case _:
                    yield statement, False

    def truth(self, test: ast.expr) -> bool | None:
        """Whether a test on the platform is true; None if the sources do not determine it."""
        match test:
            case ast.Constant(value=bool(value)):
                return value
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                return False
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = self.truth(operand)
                return None if truth is None else not truth
            case ast.BoolOp(op=op, values=values):
                truths = [self.truth(value) for value in values]
                decisive = isinstance(op, ast.Or)
                return decisive if decisive in truths else None if None in truths else not decisive
            case ast.Call(func=ast.Attribute(value=ast.Name(id="current_platform"), attr=attr)):
                return self._is_platform(attr)
            case ast.Compare(
                left=ast.Attribute(value=ast.Name(id="current_platform"), attr="device_type"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=str(value))],
            ):
                return value == ("cuda" if self.platform == "rocm" else self.platform)
        return None

    def _is_platform(self, method: str) -> bool | None:
        if method == "is_cuda_alike":
            return self.platform in {"cuda", "rocm"}
        platform = method.removeprefix("is_")
        return platform == self.platform if platform in PLATFORMS else None

    def _bind(self, module: Module, body: list[ast.stmt], bound: dict[str, Bound]) -> None:
        for statement, typing_only in self.statements(body):
            into = module.typing_only if typing_only else bound
            match statement:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    into[name] = statement
                case ast.ImportFrom():
                    self._bind_import(module, statement, into)
                case ast.Import(names=names):
                    for alias in names:
                        into[alias.asname or alias.name.partition(".")[0]] = ImportedName(
                            alias.name if alias.asname else alias.name.partition(".")[0], None
                        )
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind_target(module, target, value, into)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind_target(module, target, value, into)

    @staticmethod
    def _bind_target(module: Module, target: ast.expr, value: ast.expr, into: dict[str, Bound]) -> None:
        match target:
            case ast.Name(id=name):
                into[name] = _with_earlier_value(name, value, into)
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                module.attributes.setdefault(name, {})[attr] = value

    @staticmethod
    def _bind_import(module: Module, statement: ast.ImportFrom, into: dict[str, Bound]) -> None:
        origin = statement.module or ""
        if statement.level:
            parts = module.name.split(".")
            parts = parts[: len(parts) - statement.level + (1 if module.is_package else 0)]
            origin = ".".join([*parts, origin] if origin else parts)
        for alias in statement.names:
            if alias.name == "*":
                module.stars.append(origin)
            else:
                into[alias.asname or alias.name] = ImportedName(origin, alias.name)


def _with_earlier_value(name: str, value: ast.expr, into: dict[str, Bound]) -> ast.expr:
    """The value of a name that is reassigned; the earlier value, if used, is bound to a new name: `A = dict(**A)`."""
    if name not in into or not any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value)):
        return value
    earlier = f"{name}'"
    while earlier in into:
        earlier += "'"
    into[earlier] = into[name]
    renamed = copy.deepcopy(value)
    for node in ast.walk(renamed):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = earlier
    return renamed
