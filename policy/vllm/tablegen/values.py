"""Evaluate constant expressions of the sources: literals, dicts spread into dicts, unions, filtered copies.

Evaluation has no side effects. An unsupported expression raises `SourceUnreadable`; nothing is guessed.
"""

import ast
from collections.abc import Mapping

from policy.vllm.tablegen.modules import Module, SourceDefinition, World


class SourceUnreadable(Exception):
    """An expression whose value cannot be read from the sources."""


class Name(str):
    """The name of a class or function, used as its value."""

    __slots__ = ()


CONTAINERS = {"frozenset": tuple, "set": tuple, "tuple": tuple, "list": list}
MAPPINGS = ("dict", "OrderedDict", "LazyConfigDict")


def value(world: World, module: Module, node: ast.expr, local: Mapping[str, object] | None = None) -> object:
    """The value of an expression: JSON's types, tuples for sets and `Literal`s, `Name` for classes.

    Raises:
        SourceUnreadable: its value cannot be read from the sources.
    """
    local = local or {}
    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name) if name in local:
            return local[name]
        case ast.Name(id=name):
            return _resolve(world, module, name)
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            items = _items(world, module, elements, local)
            return items if isinstance(node, ast.List) else tuple(items)
        case ast.Dict(keys=keys, values=values):
            return _mapping(world, module, keys, values, local)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=[]) if name in CONTAINERS:
            return CONTAINERS[name]()
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[argument], keywords=[]) if (
            name in CONTAINERS
        ):
            found = value(world, module, argument, local)
            return CONTAINERS[name](found) if isinstance(found, tuple | list) else found
        case ast.Call(func=ast.Name(id="get_args"), args=[argument]):
            return value(world, module, argument, local)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments, keywords=keywords) if (
            name in MAPPINGS
        ):
            return _called_mapping(world, module, arguments, keywords, local)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            members = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return tuple(_flat([value(world, module, member, local) for member in members]))
        case ast.BinOp(left=left, op=ast.BitOr() | ast.Add(), right=right):
            return _join(value(world, module, left, local), value(world, module, right, local))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.DictComp():
            return _comprehension(world, module, node, local)
    raise SourceUnreadable(ast.unparse(node)[:80])


def named_value(world: World, module_name: str, name: str) -> object:
    """The value of a module's name; None if the module or the name does not exist.

    Raises:
        SourceUnreadable: its value cannot be read from the sources.
    """
    module = world.module(module_name)
    if module is None or name not in module.bound:
        return None
    return _resolve(world, module, name)


def _resolve(world: World, module: Module, name: str) -> object:
    found = world.find(module, name)
    if not isinstance(found, SourceDefinition):
        return Name(name)
    if isinstance(found.node, ast.ClassDef | ast.FunctionDef):
        return Name(found.name)
    if isinstance(found.node, ast.expr):
        return value(world, found.module, found.node)
    raise SourceUnreadable(name)


def _items(world: World, module: Module, elements: list[ast.expr], local: Mapping[str, object]) -> list[object]:
    items: list[object] = []
    for element in elements:
        if isinstance(element, ast.Starred):
            spread = value(world, module, element.value, local)
            if not isinstance(spread, tuple | list | dict):
                raise SourceUnreadable(ast.unparse(element))
            items.extend(spread)  # the keys of a dict
        else:
            items.append(value(world, module, element, local))
    return items


def _mapping(
    world: World, module: Module, keys: list[ast.expr | None], values: list[ast.expr], local: Mapping[str, object]
) -> dict[object, object]:
    mapping: dict[object, object] = {}
    for key, item in zip(keys, values, strict=True):
        found = value(world, module, item, local)
        if key is None:
            if not isinstance(found, dict):
                raise SourceUnreadable(ast.unparse(item))
            for name, inner in found.items():
                mapping.pop(name, None)
                mapping[name] = inner
        else:
            mapping[value(world, module, key, local)] = found
    return mapping


def _called_mapping(
    world: World, module: Module, arguments: list[ast.expr], keywords: list[ast.keyword], local: Mapping[str, object]
) -> dict[object, object]:
    mapping: dict[object, object] = {}
    for argument in arguments:
        pairs = value(world, module, argument, local)
        mapping.update(
            pairs
            if isinstance(pairs, dict)
            else {pair[0]: pair[1] for pair in pairs if isinstance(pair, tuple)}
            if isinstance(pairs, list | tuple)
            else {}
        )
    for keyword in keywords:
        found = value(world, module, keyword.value, local)
        if keyword.arg is not None:
            mapping[keyword.arg] = found
        elif isinstance(found, dict):
            mapping.update(found)
    return mapping


def _join(left: object, right: object) -> object:
    if isinstance(left, dict) and isinstance(right, dict):
        return {**left, **right}
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    raise SourceUnreadable("a union of different types")


def _comprehension(
    world: World, module: Module, node: ast.DictComp, local: Mapping[str, object]
) -> dict[object, object]:
    """`{k: (a, b) for k, (a, b) in TABLE.items() if b == "…"}`, the only form that the registry uses."""
    match node.generators:
        case [
            ast.comprehension(
                target=target, iter=ast.Call(func=ast.Attribute(value=source, attr="items"), args=[]), ifs=tests
            )
        ]:
            table = value(world, module, source, local)
            if not isinstance(table, dict):
                raise SourceUnreadable(ast.unparse(source))
            rows: dict[object, object] = {}
            for pair in table.items():
                inner = {**local, **_unpack(target, pair)}
                if all(_holds(world, module, test, inner) for test in tests):
                    rows[value(world, module, node.key, inner)] = value(world, module, node.value, inner)
            return rows
    raise SourceUnreadable(ast.unparse(node)[:80])


def _unpack(target: ast.expr, item: object) -> dict[str, object]:
    match target:
        case ast.Name(id=name):
            return {name: item}
        case ast.Tuple(elts=elements) if isinstance(item, tuple) and len(item) == len(elements):
            return {
                name: found
                for element, inner in zip(elements, item, strict=True)
                for name, found in _unpack(element, inner).items()
            }
    raise SourceUnreadable(ast.unparse(target))


def _holds(world: World, module: Module, test: ast.expr, local: Mapping[str, object]) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn() as op], comparators=[right]):
            one, other = value(world, module, left, local), value(world, module, right, local)
            if isinstance(op, ast.Eq | ast.NotEq):
                return (one == other) is isinstance(op, ast.Eq)
            if isinstance(other, tuple | list | dict):
                return (one in other) is isinstance(op, ast.In)
    raise SourceUnreadable(ast.unparse(test))


def _flat(items: list[object]) -> list[object]:
    return [inner for item in items for inner in (_flat(list(item)) if isinstance(item, tuple) else [item])]
