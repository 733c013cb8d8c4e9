"""Convert what a configuration class computes on construction to formulas over the keys of `config.json`.

Runs `__post_init__` or `__init__` symbolically: assignments, branches, comprehensions. Unsupported code becomes
unreadable. A formula is JSON: a constant, or a list whose first item is the operation; `policy.intake.model.formula`
computes it.
"""

import ast
from dataclasses import dataclass, field

from policy.vllm.tablegen.classes import Klass
from policy.vllm.tablegen.values import Name, SourceUnreadable, value

BASES = frozenset({"PreTrainedConfig", "PretrainedConfig"})
UNREADABLE = ["unreadable"]
MAX_DEPTH = 5
"""The maximum nesting of helper method calls."""

OPERATIONS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Mod: "%", ast.FloorDiv: "//",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "==", ast.IsNot: "!=", ast.In: "in", ast.NotIn: "not in", ast.And: "and", ast.Or: "or",
}  # fmt: skip
PLAIN_CALLS = {
    "bool": "bool",
    "dict": "dict",
    "int": "int",
    "len": "len",
    "list": "list",
    "set": "list",
    "range": "range",
    "min": "min",
    "max": "max",
    "remap_legacy_layer_types": "remap",
}


@dataclass(slots=True)
class SymbolicRun:
    """One symbolic run: the current values of `self`'s attributes and of the local names."""

    klass: Klass
    aliases: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, object] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=dict)
    returned: object = None
    depth: int = 0
    built: dict[str, object] = field(default_factory=dict)
    """Attribute → the mapping whose items it is built from, for those that are configurations."""

    def method(self, name: str, after: Klass | None = None) -> bool:
        """Run the first method of this name in the resolution order, or after ``after``; false if there is none."""
        order = [klass for klass in self.klass.order() if isinstance(klass, Klass)]
        rest = order[order.index(after) + 1 :] if after is not None else order
        for klass in rest:
            found = klass.namespace().get(name)
            if isinstance(found, ast.FunctionDef) and klass.name not in BASES:
                self.names = {
                    argument.arg: ["key", argument.arg] for argument in (*found.args.args[1:], *found.args.kwonlyargs)
                }
                self.body(found.body, klass)
                return True
        return False

    def body(self, statements: list[ast.stmt], owner: Klass) -> None:
        """Run statements in order, until one returns or raises."""
        for index, statement in enumerate(statements):
            match statement:
                case ast.Assign(targets=targets, value=assigned):
                    self._build(targets[0], assigned, owner)
                    result = self.formula(assigned, owner)
                    for target in targets:
                        self._assign(target, result)
                case ast.AnnAssign(target=target, value=ast.expr() as assigned):
                    self._build(target, assigned, owner)
                    self._assign(target, self.formula(assigned, owner))
                case ast.If(test=test, body=then, orelse=otherwise):
                    rest = statements[index + 1 :] if has_return(then) or has_return(otherwise) else []
                    self._branch(test, then, otherwise, rest, owner)
                    if rest:
                        return
                case ast.Return(value=returned):
                    self.returned = self.formula(returned, owner) if returned is not None else None
                    return
                case ast.Raise():
                    return
                case ast.Expr(
                    value=ast.Call(
                        func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name), keywords=keywords
                    )
                ):
                    self._super(name, keywords, owner)
                case ast.Expr() | ast.Pass() | ast.Assert():
                    pass
                case _:
                    self._mark_unreadable(statement)

    def formula(self, node: ast.expr, owner: Klass) -> object:
        """The formula of an expression, or `UNREADABLE` if a part of it is not supported."""
        try:
            return self._formula(node, owner)
        except SourceUnreadable:
            return UNREADABLE

    def _super(self, name: str, keywords: list[ast.keyword], owner: Klass) -> None:
        given = {keyword.arg: self.formula(keyword.value, owner) for keyword in keywords if keyword.arg is not None}
        before = dict(self.names)
        if not self.method(name, owner) and name == "__init__":
            self.method("__post_init__", owner)
        self.names = before
        for argument, result in given.items():
            self.attributes[self._stored_name(argument)] = result

    def _assign(self, target: ast.expr, result: object) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = result
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                self.attributes[self._stored_name(attr)] = result
            case ast.Subscript(value=ast.Name(id=name)):
                self.names[name] = UNREADABLE
            case ast.Tuple(elts=elements):
                for element in elements:
                    self._assign(element, UNREADABLE)

    def _build(self, target: ast.expr, assigned: ast.expr, owner: Klass) -> None:
        """Record the mapping of `self.part = SomeConfig(**mapping)`, or of `self.part = another_config`."""
        match target, assigned:
            case (
                ast.Attribute(value=ast.Name(id="self"), attr=part),
                ast.Call(func=ast.Name(id=name), args=[], keywords=[ast.keyword(arg=None, value=mapping)]),
            ) if name.endswith("Config"):
                self.built[self._stored_name(part)] = self.formula(mapping, owner)
            case ast.Attribute(value=ast.Name(id="self"), attr=part), ast.Name(id=name) if name.endswith("_config"):
                self.built[self._stored_name(part)] = ["given", name, {}]

    def _branch(
        self, test: ast.expr, then: list[ast.stmt], otherwise: list[ast.stmt], rest: list[ast.stmt], owner: Klass
    ) -> None:
        condition = self.formula(test, owner)
        branch, other = self._copy(), self._copy()
        branch.body([*then, *rest], owner)
        other.body([*otherwise, *rest], owner)
        if ends_in_raise(then) or ends_in_raise(otherwise):
            branch = other = other if ends_in_raise(then) else branch
        for mine, one, two, missing in (
            (self.attributes, branch.attributes, other.attributes, True),
            (self.names, branch.names, other.names, False),
        ):
            for name in sorted(one.keys() | two.keys()):
                left = one.get(name, ["key", name] if missing else UNREADABLE)
                right = two.get(name, ["key", name] if missing else UNREADABLE)
                mine[name] = (
                    left if left == right else UNREADABLE if condition == UNREADABLE else ["if", condition, left, right]
                )
        if branch.returned == other.returned:
            self.returned = branch.returned
        else:
            self.returned = (
                UNREADABLE
                if UNREADABLE in (condition, branch.returned, other.returned)
                else ["if", condition, branch.returned, other.returned]
            )

    def _copy(self) -> "SymbolicRun":
        return SymbolicRun(
            self.klass, self.aliases, dict(self.attributes), dict(self.names), depth=self.depth, built=self.built
        )

    def _mark_unreadable(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                self._assign(node, UNREADABLE)

    def _formula(self, node: ast.expr, owner: Klass) -> object:
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str() as constant):
                return constant
            case ast.Name(id=name) if name in self.names:
                return self._readable(self.names[name])
            case ast.Name():
                found = value(owner.world, owner.module, node)
                if isinstance(found, Name):
                    raise SourceUnreadable(found)
                return literal(found)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                return self._attribute(attr)
            case ast.BoolOp(op=op, values=values):
                return [OPERATIONS[type(op)], *(self._formula(part, owner) for part in values)]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ["not", self._formula(operand, owner)]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return -number
            case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In()], comparators=[ast.Name(id="kwargs")]):
                return ["stated", key]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in OPERATIONS:
                return [OPERATIONS[type(op)], self._formula(left, owner), self._formula(right, owner)]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                return [OPERATIONS[type(op)], self._formula(left, owner), self._formula(right, owner)]
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return ["if", self._formula(test, owner), self._formula(then, owner), self._formula(otherwise, owner)]
            case ast.NamedExpr(target=ast.Name(id=name), value=assigned):
                self.names[name] = self._formula(assigned, owner)
                return self.names[name]
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return ["items", *(self._formula(element, owner) for element in elements)]
            case ast.Subscript(value=items, slice=ast.Slice(lower=None, upper=ast.expr() as upper, step=None)):
                return ["first", self._formula(items, owner), self._formula(upper, owner)]
            case ast.Dict():
                return literal(value(owner.world, owner.module, node))
            case ast.Subscript(value=table, slice=ast.expr() as key):
                return ["at", self._formula(table, owner), self._formula(key, owner)]
            case (
                ast.ListComp(
                    elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=items, ifs=tests)]
                )
                | ast.SetComp(
                    elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=items, ifs=tests)]
                )
            ):
                return self._comprehension(element, name, items, tests, owner)
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=part), attr=attr):
                return ["get", ["key", self._stored_name(part)], attr, None]
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="kwargs"), attr="pop" | "get"),
                args=[ast.Constant(value=str(key)), *default],
            ):
                return ["given", key, self._formula(default[0], owner) if default else None]
            case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name(id="self"), ast.Constant(value=str(attr)), *_]):
                return self._attribute(attr)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in PLAIN_CALLS:
                return [PLAIN_CALLS[name], *(self._formula(argument, owner) for argument in arguments)]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name), args=arguments, keywords=[]):
                return self._inline(name, arguments, owner)
            case ast.Call(func=ast.Attribute(value=holder, attr="get"), args=[ast.Constant(value=str(key)), *default]):
                return ["get", self._formula(holder, owner), key, self._formula(default[0], owner) if default else None]
        raise SourceUnreadable(ast.unparse(node)[:60])

    def _comprehension(
        self, element: ast.expr, name: str, items: ast.expr, tests: list[ast.expr], owner: Klass
    ) -> object:
        source = self._formula(items, owner)
        inner = self._copy()
        inner.names[name] = ["each"]
        for test in tests:
            source = ["where", source, inner._formula(test, owner)]  # noqa: SLF001 the same class
        made = inner._formula(element, owner)  # noqa: SLF001 the same class
        return source if made == ["each"] else ["for each", source, made]

    def _inline(self, name: str, arguments: list[ast.expr], owner: Klass) -> object:
        """The result of a helper method of the class for its arguments."""
        found = self.klass.attribute(name)
        if found is None or not isinstance(found[1], ast.FunctionDef) or self.depth > MAX_DEPTH:
            raise SourceUnreadable(name)
        static = any(
            isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in found[1].decorator_list
        )
        parameters = [argument.arg for argument in found[1].args.args[0 if static else 1 :]]
        run = SymbolicRun(self.klass, self.aliases, dict(self.attributes), depth=self.depth + 1)
        run.names = dict(zip(parameters, (self._formula(argument, owner) for argument in arguments), strict=False))
        run.body(found[1].body, found[0])
        if run.returned is None:
            raise SourceUnreadable(name)
        return self._readable(run.returned)

    def _stored_name(self, attr: str) -> str:
        """The name under which the class stores an attribute: its `attribute_map` applies to reads and writes."""
        return self.aliases.get(attr, attr)

    def _attribute(self, attr: str) -> object:
        stored = self._stored_name(attr)
        return self._readable(self.attributes.get(stored, ["key", stored]))

    @staticmethod
    def _readable(formula: object) -> object:
        if formula == UNREADABLE:
            raise SourceUnreadable("an attribute with an unreadable value")
        return formula


def has_return(statements: list[ast.stmt]) -> bool:
    """Whether a branch contains a `return`; what runs afterwards then depends on the branch taken."""
    return any(isinstance(node, ast.Return) for statement in statements for node in ast.walk(statement))


def ends_in_raise(statements: list[ast.stmt]) -> bool:
    """Whether a branch ends in an error: a refused configuration has no facts."""
    return bool(statements) and isinstance(statements[-1], ast.Raise)


def literal(constant: object) -> object:
    """A literal value as a formula: lists are marked, so that their first item is not read as an operation.

    Raises:
        SourceUnreadable: the value is not a JSON value.
    """
    if isinstance(constant, tuple | list):
        return ["items", *(literal(item) for item in constant)]
    if isinstance(constant, dict):
        if all(isinstance(key, str) for key in constant):
            return {str(key): literal(item) for key, item in constant.items()}
        return ["mapping", *([key, literal(item)] for key, item in constant.items())]  # JSON keys are strings
    if constant is None or isinstance(constant, bool | int | float | str):
        return constant
    raise SourceUnreadable("a value that is not JSON")


def keys_of(formula: object) -> set[str]:
    """The keys of `config.json` that a formula reads."""
    if not isinstance(formula, list):
        return set()
    if len(formula) == 2 and formula[0] in {"key", "stated"}:  # noqa: PLR2004 operation and key
        return {str(formula[1])}
    return {key for part in formula for key in keys_of(part)}
