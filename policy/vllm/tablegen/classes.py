"""Classes as Python would build them: bases across modules, resolution order, resolved attributes.

Resolves inheritance from source text. Not here: what an attribute means to vLLM (`flags`).
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from policy.vllm.tablegen.modules import ImportedName, Module, SourceDefinition, World
from policy.vllm.tablegen.values import SourceUnreadable, value


@dataclass(frozen=True, slots=True)
class Outside:
    """A base that is not in the sources: `torch.nn.Module`, `Protocol`."""

    name: str


@dataclass(slots=True, eq=False)
class Klass:
    """A class of the sources; inside a factory function, `local` has the classes passed to it."""

    world: World
    module: Module
    node: ast.ClassDef
    local: Mapping[str, "Klass | Outside"] = field(default_factory=dict)
    _order: "tuple[Klass | Outside, ...] | None" = None
    _namespace: dict[str, ast.stmt | ast.expr] | None = None

    @property
    def name(self) -> str:
        """The name of the class statement."""
        return self.node.name

    def order(self) -> "tuple[Klass | Outside, ...]":
        """The method resolution order, this class first."""
        if self._order is None:
            self._order = (self,)  # ends the recursion of a class that inherits from itself
            bases = [
                found
                for base in self.node.bases
                if (found := klass_of(self.world, self.module, base, self.local)) is not None
            ]
            self._order = (self, *_resolution_order(bases))
        return self._order

    def namespace(self) -> dict[str, ast.stmt | ast.expr]:
        """The attributes that the class's own body, its decorators and later assignments define."""
        if self._namespace is None:
            self._namespace = dict(self._definitions())
        return self._namespace

    def attribute(self, name: str) -> "tuple[Klass, ast.stmt | ast.expr] | None":
        """The first definition of an attribute in the resolution order, and the class that has it."""
        for klass in self.order():
            if isinstance(klass, Klass) and name in klass.namespace():
                return klass, klass.namespace()[name]
        return None

    def _definitions(self) -> Iterator[tuple[str, ast.stmt | ast.expr]]:
        for statement, typing_only in self.world.statements(self.node.body):
            if typing_only:
                continue
            match statement:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name, statement
                case ast.Assign(targets=targets, value=assigned):
                    yield from ((target.id, assigned) for target in targets if isinstance(target, ast.Name))
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as assigned):
                    yield name, assigned
        for decorator in reversed(self.node.decorator_list):
            yield from _decorator_attributes(decorator)
        yield from self.module.attributes.get(self.name, {}).items()


def klass_of(
    world: World, module: Module, node: ast.expr, local: Mapping[str, Klass | Outside] | None = None
) -> Klass | Outside | None:
    """The class that a base expression refers to; None if it cannot be a class."""
    local = local or {}
    match node:
        case ast.Name(id=name) if name in local:
            return local[name]
        case ast.Name(id=name):
            return _defined_class(world, world.find(module, name), name)
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            holder = world.find(module, owner)
            if (
                isinstance(holder, ImportedName)
                and holder.name is None
                and (inner := world.module(holder.module)) is not None
            ):
                return _defined_class(world, world.find(inner, name), name)
            return Outside(ast.unparse(node))
        case ast.Subscript(value=generic):
            return klass_of(world, module, generic, local)
        case ast.Call(func=ast.Name(id=factory), args=arguments):
            return _factory_class(
                world, module, factory, [klass_of(world, module, argument, local) for argument in arguments]
            )
    return Outside(ast.unparse(node)[:60])


def _defined_class(
    world: World, definition: SourceDefinition | ImportedName | None, name: str
) -> Klass | Outside | None:
    match definition:
        case SourceDefinition(module=module, node=ast.ClassDef() as node):
            return world_klass(world, module, node)
        case SourceDefinition(module=module, node=ast.expr() as node):
            return klass_of(world, module, node)
        case ImportedName(module=origin):
            return Outside(f"{origin}.{name}")
    return Outside(name)


def world_klass(world: World, module: Module, node: ast.ClassDef) -> Klass:
    """The one `Klass` of a class statement, so that resolution orders can be compared."""
    known: dict[int, Klass] = world.__dict__.setdefault("_klasses", {})
    return known.setdefault(id(node), Klass(world, module, node))


def _factory_class(
    world: World, module: Module, factory: str, arguments: list[Klass | Outside | None]
) -> Klass | Outside:
    """The class that `as_embedding_model(Base)` returns: the nested class that its last `return` names."""
    found = world.find(module, factory)
    if not isinstance(found, SourceDefinition) or not isinstance(found.node, ast.FunctionDef):
        return Outside(factory)
    parameters = [argument.arg for argument in found.node.args.args]
    local = {name: klass for name, klass in zip(parameters, arguments, strict=False) if klass is not None}
    nested = {statement.name: statement for statement in found.node.body if isinstance(statement, ast.ClassDef)}
    for statement in reversed(found.node.body):
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name) and statement.value.id in nested:
            return Klass(world, found.module, nested[statement.value.id], local)
    return Outside(factory)


def _resolution_order(bases: list[Klass | Outside]) -> tuple[Klass | Outside, ...]:
    """Python's C3 order; classes outside the sources have no order of their own and go last if they conflict."""
    lists = [list(base.order()) if isinstance(base, Klass) else [base] for base in bases] + [list(bases)]
    merged: list[Klass | Outside] = []
    while lists := [items for items in lists if items]:
        head = next((items[0] for items in lists if not any(items[0] in other[1:] for other in lists)), None)
        if head is None:
            head = lists[0][0]  # Python refuses such a class; here it means that two bases became one `Outside`
            lists = [[item for item in items if item is not head] for items in lists]
        else:
            lists = [[item for item in items if item != head] for items in lists]
        merged.append(head)
    return tuple(merged)


def _decorator_attributes(decorator: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The class attributes that vLLM's two decorators set."""
    match decorator:
        case ast.Call(func=ast.Name(id="attn_type"), args=[kind]):
            yield "attn_type", kind
        case ast.Call(func=ast.Name(id="default_pooling_type"), keywords=keywords):
            given = {keyword.arg: keyword.value for keyword in keywords}
            yield "default_seq_pooling_type", given.get("seq_pooling_type", ast.Constant("LAST"))
            yield "default_tok_pooling_type", given.get("tok_pooling_type", ast.Constant("ALL"))


def constant(klass: Klass, name: str) -> object:
    """The value of a class attribute; None if it is missing, True for a method or property.

    Raises:
        SourceUnreadable: its value cannot be read from the sources.
    """
    found = klass.attribute(name)
    if found is None:
        return None
    owner, node = found
    if isinstance(node, ast.stmt):
        return True
    try:
        return value(owner.world, owner.module, node)
    except RecursionError as error:
        raise SourceUnreadable(name) from error
