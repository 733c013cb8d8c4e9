"""Extract the decision of releases before 0.20, in which the worker chooses the runner.

There the configuration has no check of the runner. From 0.12 on the worker reads the variable, and V2's model runner
refuses what it lacks when it is made; ``WorkerChoice`` follows the statements of its constructor that lead to a
refusal. Older releases have no V2, and before 0.6.4 there is no V1 engine either. From 0.6.4 to 0.11.0 the variable of
the engine is read as well, in the last of them by a server that has no V0 engine any more.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, Final

from policy.vllm.verify.extraction import CONFIG, ENVS, GATE, PROPERTY, VARIABLE, Extraction, SourceNotFound
from policy.vllm.verify.syntax import imports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policy.vllm.tablegen.wheels import SourceReader
    from policy.vllm.verify.standins import Object

WORKER: Final = "vllm/v1/worker/gpu_worker.py"
OLD_WORKER: Final = "vllm/worker/worker.py"
"""The worker of the V0 engine, the only one before 0.6.4."""
CHOICE: Final = "use_v2_model_runner"
V2_FOLDER: Final = "vllm/v1/worker/gpu/"
V2_RUNNER: Final = f"{V2_FOLDER}model_runner.py"
RUNNER_CLASS: Final = "GPUModelRunner"
PARTS: Final = ("init_speculator", "Sampler")
"""What V2's model runner makes that may refuse the configuration: a function and a class."""
SERVER: Final = "vllm/entrypoints/openai/api_server.py"
ENGINE: Final = "build_async_engine_client_from_engine_args"
ENGINE_VARIABLE: Final = "VLLM_USE_V1"


def decides_in_worker(source: SourceReader) -> bool:
    """Whether the configuration has no check of the runner: the worker chooses it, or there is only V1."""
    if WORKER not in source:
        return OLD_WORKER in source
    if CONFIG in source and any(
        isinstance(node, ast.FunctionDef) and node.name in {PROPERTY, GATE} for node in ast.walk(source.tree(CONFIG))
    ):
        return False
    return not _reads(source, VARIABLE) or any(_choices(source))


def _reads(source: SourceReader, variable: str) -> bool:
    """Whether vLLM's variables include this one; before 0.4.3 they have no module of their own."""
    return ENVS in source and f'"{variable}"' in source.text(ENVS)


def _choices(source: SourceReader) -> Iterator[ast.expr]:
    """The values that the worker assigns to its choice."""
    for node in ast.walk(source.tree(WORKER)) if WORKER in source else ():
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Attribute) and target.attr == CHOICE for target in node.targets
        ):
            yield node.value


class WorkerChoice(Extraction):
    """The decision of a release whose worker chooses the runner; ``SourceNotFound`` if a part of it is missing."""

    def __init__(self, source: SourceReader) -> None:
        self.prepare(source)
        self.has_property = False
        self.guards = []
        self._choice = next(_choices(source), None)
        if self._choice is None and any(source.under(V2_FOLDER)):
            raise SourceNotFound(f"{WORKER} does not set `{CHOICE}`, but the source has {V2_FOLDER}")
        self._functions: dict[str, ast.FunctionDef] = {}
        if self._choice is not None:
            self._record(WORKER, CHOICE, self._choice)
            self._functions[""] = self._method_of(V2_RUNNER, RUNNER_CLASS)
            self._functions |= {name: self._part(name) for name in PARTS}
        self._engine = self._engine_check(source) if _reads(source, ENGINE_VARIABLE) else None
        self._variables_read = [
            name for name in (VARIABLE, ENGINE_VARIABLE) if _reads(source, name) and self._entry(name)
        ]
        for name, function in self._functions.items():
            self._record(V2_RUNNER, name or RUNNER_CLASS, function)
        self.messages = [
            each.value
            for function in self._functions.values()
            for each in ast.walk(function)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        self.messages += [ast.unparse(self._engine)] if self._engine is not None else []

    @property
    def reasons(self) -> list[str]:
        """Empty: such a release has no lists of reasons."""
        return []

    @property
    def has_v1_list(self) -> bool:
        """False: such a release has no list of features that V1 lacks."""
        return False

    def enumeration(self, name: str) -> Any:  # noqa: ARG002  # the interface of ``Extraction``
        """Enums are not read by the decision; their names stand for them."""
        return _Names()

    def answer(self, config: Object) -> dict[str, Any]:
        """The decision on a configuration, with the variables in the environment."""
        lists: dict[str, Any] = {"unsupported_features": [], "v1_unsupported_features": []}
        try:
            values = {name: self.variable(name) for name in self._variables_read}
        except ValueError as error:
            return {"runner": None, "startup_errors": [str(error)], **lists}
        if self._choice is not None and self._evaluate(WORKER, self._choice):
            errors = _Construction(self._functions, config).errors
            return {"runner": "v2", "startup_errors": errors, **lists}
        refused = self._engine is not None and not values[ENGINE_VARIABLE]
        errors = [ast.unparse(self._engine)] if refused and self._engine is not None else []
        return {"runner": "v1", "startup_errors": errors, **lists}

    def _method_of(self, path: str, name: str) -> ast.FunctionDef:
        """The constructor of a class."""
        for node in self._class(path, name).body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                return node
        raise SourceNotFound(f"`{name}` in {path} has no `__init__`")

    def _part(self, name: str) -> ast.FunctionDef:
        """The function, or the constructor of the class, that V2's model runner imports under a name."""
        module, member = dict(imports(self._tree(V2_RUNNER))).get(name, ("", None))
        for path in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
            if module and path in self._source:
                for node in self._tree(path).body:
                    if isinstance(node, ast.FunctionDef) and node.name == member:
                        return node
                return self._method_of(path, name)
        raise SourceNotFound(f"{V2_RUNNER} does not import `{name}`")

    def _engine_check(self, source: SourceReader) -> ast.Assert | None:
        """The server's assertion that the V1 engine is used, if it has no other."""
        for node in source.tree(SERVER).body:
            if isinstance(node, ast.AsyncFunctionDef) and node.name == ENGINE:
                for statement in node.body:
                    if isinstance(statement, ast.Assert) and ast.unparse(statement.test) == f"envs.{ENGINE_VARIABLE}":
                        return statement
        return None


class _Names:
    """Stands for an enum."""

    def __getitem__(self, name: str) -> str:
        return name


class _Anything:
    """Stands for everything that the refusals do not depend on: devices, process groups, other objects."""

    def __getattr__(self, _: str) -> _Anything:
        return self

    def __call__(self, *_: Any, **__: Any) -> _Anything:
        return self


class _Scope(dict[str, Any]):
    """The names of a function: its locals and arguments; any other is a builtin or stands for anything.

    Expressions are evaluated in their scope when a name is read, because most of them are not facts.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(names)
        self._expressions: dict[str, tuple[ast.expr, _Scope]] = {}

    def assign(self, name: str, expression: ast.expr, scope: _Scope) -> None:
        """Set a name to an expression in a scope."""
        self._expressions[name] = expression, scope

    def __missing__(self, name: str) -> Any:
        found = self._expressions.get(name)
        return getattr(builtins, name, _Anything()) if found is None else _value(*found)


class _Runner:
    """V2's model runner in the making: an attribute is evaluated when it is read, as its constructor assigns it."""

    def __init__(self, constructor: ast.FunctionDef, config: Object) -> None:
        self._assigned: dict[str, ast.expr] = {}
        self._config = config
        for node in ast.walk(constructor):
            match node:
                case (
                    ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=found)
                    | ast.AnnAssign(
                        target=ast.Attribute(value=ast.Name(id="self"), attr=name), value=ast.expr() as found
                    )
                ):
                    self._assigned.setdefault(name, found)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._assigned.get(name)
        names = {"self": self, "vllm_config": self._config}
        return _Anything() if found is None else _value(found, _Scope(names))


class _Construction:
    """Follows the statements by which V2's model runner is made; ``errors`` has the text of each refusal.

    Statements that read the model are skipped if the configuration has none, which no real deployment lacks.
    """

    def __init__(self, functions: Mapping[str, ast.FunctionDef], config: Object) -> None:
        self._functions = functions
        self._config = config
        self.errors: list[str] = []
        scope = _Scope({"self": _Runner(functions[""], config), "vllm_config": config})
        for statement in functions[""].body:
            try:
                self._run([statement], scope)
            except AttributeError:
                if config.model_config is not None:
                    raise

    def _run(self, body: Sequence[ast.stmt], scope: _Scope) -> bool:
        """Follow statements; whether they end the function.

        Assignments to attributes are not made, and statements with nothing else are not followed.
        """
        for statement in body:
            if not any(map(self._is_followed, ast.walk(statement))):
                continue
            match statement:
                case ast.If(test=test, body=then, orelse=other):
                    if self._run(then if _value(test, scope) else other, scope):
                        return True
                case ast.Raise(exc=ast.Call(args=[text])):
                    self.errors.append(str(_value(text, scope)))
                    return True
                case ast.Return() | ast.Raise():
                    return True
                case (
                    ast.Assign(value=ast.Call(func=ast.Name(id=name)) as call)
                    | ast.AnnAssign(value=ast.Call(func=ast.Name(id=name)) as call)
                ) if name in self._functions:
                    self._call(self._functions[name], call, scope)
                case ast.Assign(targets=[ast.Name(id=name)], value=found):
                    scope.assign(name, found, scope)
        return False

    def _is_followed(self, node: ast.AST) -> bool:
        """Whether a part of a statement may refuse, ends the function, or sets a local."""
        return (
            isinstance(node, ast.Raise | ast.Return)
            or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
            or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._functions)
        )

    def _call(self, function: ast.FunctionDef, call: ast.Call, scope: _Scope) -> None:
        """Follow a function or a constructor with the arguments of a call."""
        names = [argument.arg for argument in function.args.args if argument.arg != "self"]
        defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
        given: dict[str, ast.expr] = {**defaults, **dict(zip(names, call.args, strict=False))}
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        own = _Scope({})
        for name, expression in given.items():
            own.assign(name, expression, scope)
        self._run(function.body, own)


def _value(node: ast.expr, scope: _Scope) -> Any:
    code = compile(ast.fix_missing_locations(ast.Expression(node)), "vllm", "eval")
    return eval(code, {"__builtins__": {}}, scope)  # noqa: S307  # in a separate process
