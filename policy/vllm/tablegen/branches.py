"""Convert a method's branches to formulas: the value of each path that it assigns, with the tests for it.

Runs statements symbolically over dotted paths (`cache_config.mamba_cache_mode`). A path that is never assigned is a key
of the formula; the code that computes the formula provides its value. `configs` reads constructors with `formulas`;
this module is for all other methods.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from policy.vllm.tablegen.classes import Klass, klass_of
from policy.vllm.tablegen.formulas import OPERATIONS, UNREADABLE, ends_in_raise, has_return, literal
from policy.vllm.tablegen.modules import SourceDefinition
from policy.vllm.tablegen.values import Name, SourceUnreadable, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.vllm.tablegen.modules import Module, World

RETURN_PATH = "return"
"""The path of a method's result, which is True for a bare `return`."""

FILE = "file "
"""The prefix of a key that is true if the model has a file; the file's name follows."""

TEXT_TESTS = {"startswith": "starts", "endswith": "ends"}
ROOTS = {"current_platform": "platform", "self": "", "vllm_config": ""}
"""Names that are omitted from paths, or replaced in them."""


class ObjectPath(str):
    """The dotted path of an object, as distinct from a value."""

    __slots__ = ()


@dataclass(slots=True)
class Branches:
    """One symbolic run of a method.

    `written` has the formula of each assigned path, `local` the paths and formulas of local names. `roots` are the
    arguments whose names are omitted from the paths of their fields. `opaque` are local names that stay keys, even if
    the method assigns to them. `calls` has replacements for calls, by name.
    """

    world: World
    module: Module
    roots: Mapping[str, str] = field(default_factory=lambda: ROOTS)
    aliases: Mapping[str, str] = field(default_factory=dict)
    opaque: frozenset[str] = frozenset()
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)
    owner: Klass | None = None

    def run(self, statements: list[ast.stmt]) -> None:
        """Run statements until one returns or raises."""
        for index, statement in enumerate(statements):
            match statement:
                case ast.If(test=test, body=then, orelse=otherwise):
                    rest = statements[index + 1 :]
                    if has_return(then) or has_return(otherwise):
                        self._branch(test, then, otherwise, rest)
                        return
                    self._branch(test, then, otherwise, [])
                case ast.Assign(targets=[target], value=assigned):
                    self._assign(target, assigned)
                case ast.AnnAssign(target=target, value=ast.expr() as assigned):
                    self._assign(target, assigned)
                case ast.Expr(value=ast.Call() as call):
                    self._call(call)
                case ast.Return(value=returned):
                    self.written[RETURN_PATH] = (
                        self.formula(returned) if returned is not None and not self._is_root(returned) else True
                    )
                    return
                case ast.Raise():
                    return
                case _:
                    pass

    def method(self, klass: Klass, name: str) -> None:
        """Run a method of a class, or of its nearest base that has it."""
        self._method_of([part for part in klass.order() if isinstance(part, Klass)], name)

    def formula(self, node: ast.expr) -> Any:
        """The formula of an expression, or `UNREADABLE`."""
        try:
            return self._formula(node)
        except SourceUnreadable:
            return UNREADABLE

    def _is_root(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.roots

    def _method_of(self, order: list[Klass], name: str) -> None:
        for klass in order:
            found = klass.namespace().get(name)
            if isinstance(found, ast.FunctionDef):
                inner = replace(self, module=klass.module, owner=klass, local={}, written=dict(self.written))
                inner.run(found.body)
                self.written = inner.written
                return

    def _branch(self, test: ast.expr, then: list[ast.stmt], otherwise: list[ast.stmt], rest: list[ast.stmt]) -> None:
        condition = self.formula(test)
        if ends_in_raise(then) or ends_in_raise(otherwise):
            self.run([*(otherwise if ends_in_raise(then) else then), *rest])
            return
        branch, other = self._copy(), self._copy()
        branch.run([*then, *rest])
        other.run([*otherwise, *rest])
        self.written = {
            name: _choice(
                condition, branch.written.get(name, unwritten(name)), other.written.get(name, unwritten(name))
            )
            for name in sorted(branch.written.keys() | other.written.keys())
        }
        self.local = {
            name: _choice(condition, branch.local.get(name, UNREADABLE), other.local.get(name, UNREADABLE))
            for name in sorted(branch.local.keys() | other.local.keys())
        }

    def _copy(self) -> Branches:
        return replace(self, written=dict(self.written), local=dict(self.local))

    def _assign(self, target: ast.expr, assigned: ast.expr) -> None:
        if isinstance(assigned, ast.Call) and isinstance(assigned.func, ast.Name) and assigned.func.id in self.calls:
            self.written.update(self.calls[assigned.func.id])
            return
        if isinstance(target, ast.Name):
            if target.id in self.roots:
                self.written["part"] = str(self._object_path(assigned))
            elif target.id not in self.opaque:
                self._name(target.id, assigned)
            return
        path = self._target(target)
        if path is not None:
            self.written[path] = self.formula(assigned)

    def _name(self, name: str, assigned: ast.expr) -> None:
        path = self._object_path(assigned)
        self.local[name] = self.formula(assigned) if path is None else path
        if isinstance(assigned, ast.Dict):
            self.local[name] = ObjectPath(name)
            self._update(name, assigned)

    def _call(self, call: ast.Call) -> None:
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name)) if (
                self.owner is not None
            ):
                order = [part for part in self.owner.order() if isinstance(part, Klass)]
                self._method_of(order[1:], name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="update"), args=[ast.Dict() as updated]):
                self._update(self._prefix(holder), updated)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr="update"), args=[ast.Name(id=name)]) if (
                self.local.get(name) == ObjectPath(name)
            ):
                for path in [path for path in self.written if path.startswith(f"{name}.")]:
                    into = _joined_path(self._prefix(holder), path.removeprefix(f"{name}."))
                    self.written[into] = substitute(self.written[path], ["key", path], ["key", into])
            case ast.Call(func=ast.Attribute(value=ast.Name(id=holder), attr=name)):
                klass = klass_of(self.world, self.module, ast.Name(holder))
                if isinstance(klass, Klass):
                    self.method(klass, name)
            case ast.Call(func=ast.Name(id=name)):
                found = self.world.find(self.module, name)
                if (
                    isinstance(found, SourceDefinition)
                    and isinstance(found.node, ast.FunctionDef)
                    and found.module is self.module
                ):
                    self.run(found.node.body)

    def _update(self, prefix: str, updated: ast.Dict) -> None:
        for key, item in zip(updated.keys, updated.values, strict=True):
            if isinstance(key, ast.Constant):
                self.written[self._resolve_alias(_joined_path(prefix, str(key.value)))] = self.formula(item)

    def _prefix(self, name: str) -> str:
        return self.roots.get(name, str(self.local.get(name, name)))

    def _target(self, target: ast.expr) -> str | None:
        """The path that an assignment writes to; a root's field keeps its path, even if the root was reassigned."""
        match target:
            case ast.Attribute(value=ast.Name(id=root), attr=attr) if root in self.roots:
                return self._resolve_alias(_joined_path(self.roots[root], attr))
            case ast.Attribute() | ast.Subscript(slice=ast.Constant(value=str())):
                path = self._object_path(target)
                return str(path) if path is not None else None
        return None

    def _object_path(self, node: ast.expr | None) -> ObjectPath | None:
        """The path of an object: attributes, constant keys, and `getattr` with a default that is not an object."""
        match node:
            case ast.Name(id=name) if name in self.roots:
                return ObjectPath(_joined_path(self.roots[name], self.written.get("part", "")))
            case ast.Name(id=name) if name in self.local:
                return self.local[name] if isinstance(self.local[name], ObjectPath) else None
            case ast.Name(id=name):
                return (
                    ObjectPath(name)
                    if name in self.opaque or not isinstance(self.world.find(self.module, name), SourceDefinition)
                    else None
                )
            case (
                ast.Attribute(value=owner, attr=name) | ast.Subscript(value=owner, slice=ast.Constant(value=str(name)))
            ):
                return self._member(owner, name)
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *default]) if (
                not default or self._is_empty_default(default[0])
            ):
                return self._member(owner, name)
            case ast.Call(func=ast.Name(id="set") | ast.Attribute(attr="deepcopy"), args=[inner]):
                return self._object_path(inner)
        return None

    def _is_empty_default(self, default: ast.expr) -> bool:
        return (
            isinstance(default, ast.Name)
            or (isinstance(default, ast.Constant) and default.value is None)
            or self.formula(default) in ([], ["items"])
        )

    def _member(self, owner: ast.expr, name: str) -> ObjectPath | None:
        path = self._object_path(owner)
        return ObjectPath(self._resolve_alias(_joined_path(path, name))) if path is not None else None

    def _resolve_alias(self, path: str) -> str:
        return self.aliases.get(path, path)

    def _formula(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in self.local and not isinstance(self.local[name], ObjectPath):
                return _readable(self.local[name])
            case ast.BoolOp(op=op, values=values):
                return [OPERATIONS[type(op)], *(self._formula(part) for part in values)]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ["not", self._formula(operand)]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATIONS:
                return [OPERATIONS[type(op)], self._formula(left), self._formula(right)]
            case ast.BinOp(left=left, op=ast.Add() | ast.Mult() as op, right=right):
                return [OPERATIONS[type(op)], self._formula(left), self._formula(right)]
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return ["if", self._formula(test), self._formula(then), self._formula(otherwise)]
            case ast.NamedExpr(target=ast.Name(id=name), value=assigned):
                self._name(name, assigned)
                return self._formula(assigned)
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return self._items(elements)
            case ast.JoinedStr(values=values):
                return self._joined_text(values)
            case ast.ListComp(
                elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=items, ifs=tests)]
            ):
                inner = self._copy()
                inner.local[name] = ["each"]
                found = self._formula(items)
                for test in tests:
                    found = ["where", found, inner.formula(test)]
                return ["for each", found, inner.formula(element)] if UNREADABLE not in found else UNREADABLE
            case ast.Subscript(value=items, slice=ast.Constant(value=int(index))):
                return ["at", self._formula(items), index]
            case ast.Subscript(value=ast.Name(id=table), slice=ast.Name() as key) if self.local.get(
                table
            ) == ObjectPath(table):
                return self._lookup(table, self._formula(key))
            case ast.Call():
                return self._call_formula(node)
        path = self._object_path(node)
        if path is not None:
            return _readable(self.written.get(path, ["key", str(path)]))
        found = value(self.world, self.module, node)
        if isinstance(found, Name):
            raise SourceUnreadable(found)
        return literal(found)

    def _call_formula(self, node: ast.Call) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *default]):
                return self._field_or_default(node, owner, name, default)
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(name)), *default]):
                return self._field_or_default(node, owner, name, default)
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
                return ["!=", self._field_or_default(node, owner, name, []), None]
            case ast.Call(func=ast.Name(id="isinstance"), args=[owner, kinds]) if (
                path := self._object_path(owner)
            ) is not None:
                names = [kind.id for kind in ast.walk(kinds) if isinstance(kind, ast.Name)]
                return ["in", ["key", f"{path}.class"], ["items", *names]]
            case ast.Call(func=ast.Name(id="file_or_path_exists"), args=[_, ast.Constant(value=str(file)), *_]):
                return ["key", f"{FILE}{file}"]
            case ast.Call(func=ast.Attribute(value=ast.Set(elts=elements), attr="intersection"), args=[other]):
                return ["or", *(["in", self._formula(element), self._formula(other)] for element in elements)]
            case ast.Call(func=ast.Attribute(value=text, attr=name), args=[ast.Constant(value=str(part))]) if (
                name in TEXT_TESTS
            ):
                return [TEXT_TESTS[name], self._formula(text), part]
            case ast.Call(func=ast.Attribute(value=text, attr="lower"), args=[]):
                return ["lower", self._formula(text)]
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]) if (
                path := self._member(owner, name)
            ) is not None:
                return ["key", str(path)]
        return literal(value(self.world, self.module, node))

    def _field_or_default(self, node: ast.Call, owner: ast.expr, name: str, default: list[ast.expr]) -> Any:
        """A field, or its default if it is null or missing."""
        path = self._member(owner, name)
        if path is None:
            raise SourceUnreadable(ast.unparse(node))
        key = self.written.get(path, ["key", str(path)])
        return (
            key
            if not default or self._is_empty_default(default[0])
            else ["if", ["!=", key, None], key, self._formula(default[0])]
        )

    def _items(self, elements: list[ast.expr]) -> Any:
        """A list, or the sum of its parts if other lists are spread into it."""
        runs: list[Any] = []
        for element in elements:
            if isinstance(element, ast.Starred):
                runs.append(self._formula(element.value))
            elif runs and isinstance(runs[-1], list) and runs[-1][:1] == ["items"]:
                runs[-1].append(self._formula(element))
            else:
                runs.append(["items", self._formula(element)])
        joined = runs[0] if runs else ["items"]
        for one in runs[1:]:
            joined = ["+", joined, one]
        return joined

    def _joined_text(self, values: list[ast.expr]) -> Any:
        parts = [
            self._formula(part.value) if isinstance(part, ast.FormattedValue) else self._formula(part)
            for part in values
        ]
        joined = parts[0] if parts else ""
        for part in parts[1:]:
            joined = ["+", joined, part]
        return joined

    def _lookup(self, table: str, key: Any) -> Any:
        found: Any = None
        for path in reversed([path for path in self.written if path.startswith(f"{table}.")]):
            found = ["if", ["==", key, path.removeprefix(f"{table}.")], self.written[path], found]
        return found


def method_of(world: World, module_name: str, klass_name: str, method: str) -> tuple[Klass, ast.FunctionDef] | None:
    """A method and the class that defines it; None if the release has none."""
    module = world.module(module_name)
    klass = klass_of(world, module, ast.Name(klass_name)) if module is not None else None
    found = klass.attribute(method) if isinstance(klass, Klass) else None
    return (found[0], copy.deepcopy(found[1])) if found is not None and isinstance(found[1], ast.FunctionDef) else None


def _joined_path(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name


def unwritten(name: str) -> Any:
    """The value of a path that was never assigned."""
    return False if name == RETURN_PATH else "" if name == "part" else ["key", name]


def _choice(condition: Any, then: Any, otherwise: Any) -> Any:
    if then == otherwise and type(then) is type(otherwise):
        return then
    if UNREADABLE in (condition, then, otherwise):
        return UNREADABLE
    return ["if", condition, _as_formula(then), _as_formula(otherwise)]


def _as_formula(local: Any) -> Any:
    return ["key", str(local)] if isinstance(local, ObjectPath) else local


def substitute(formula: Any, old: Any, new: Any) -> Any:
    """Replace every occurrence of one formula in another."""
    if formula == old:
        return new
    return [substitute(part, old, new) for part in formula] if isinstance(formula, list) else formula


def _readable(formula: Any) -> Any:
    if formula == UNREADABLE:
        raise SourceUnreadable("a path with an unreadable value")
    return formula
