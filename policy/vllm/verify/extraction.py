"""Extract the decision from a release's source as code that runs on its own.

The decision is the property, its lists, its refusals, and everything that they call.

Owns what is extracted, by syntax tree. Methods and constants that the decision uses are extracted as well, from
anywhere in the package; the rest of vLLM is replaced by stand-ins (``standins``). vLLM is never imported, and no code
of it is stored.

The extracted code runs in a separate process (``worker``).
"""

from __future__ import annotations

import ast
import builtins
import importlib
from typing import TYPE_CHECKING, Any, Final

from policy.vllm.verify.standins import DERIVED_ATTRIBUTES, Machine, stand_ins
from policy.vllm.verify.syntax import (
    imports,
    is_bound,
    is_property,
    refuses,
    statements_leading_to,
    targets,
    tests_any,
    without_imports,
    without_unread_assignments,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policy.vllm.tablegen.wheels import SourceReader
    from policy.vllm.verify.standins import Object

CONFIG: Final = "vllm/config/vllm.py"
ENVS: Final = "vllm/envs.py"
CLASS: Final = "VllmConfig"
PROPERTY: Final = "use_v2_model_runner"
VARIABLE: Final = "VLLM_USE_V2_MODEL_RUNNER"
V2_LIST: Final = "_get_v2_model_runner_unsupported_features"
V1_LIST: Final = "_get_v1_model_runner_unsupported_features"
GATE: Final = "_validate_v2_model_runner"
POST_INIT: Final = "__post_init__"
STANDARD: Final = frozenset({"enum", "functools", "itertools", "math", "os", "re", "typing"})
UNKNOWN: Final = object()


class SourceNotFound(Exception):
    """A definition that the decision needs was not found in the source."""


class Extraction:
    """The decision of one release, ready to run; raises ``SourceNotFound`` at once if a part of it is missing."""

    _config: ast.ClassDef | None = None
    """The class of the whole configuration, if the decision is a part of it."""

    def __init__(self, source: SourceReader) -> None:
        self.prepare(source)
        config = self._class(CONFIG, CLASS)
        self._config = config
        self._methods = {node.name: node for node in config.body if isinstance(node, ast.FunctionDef)}
        self.has_property = PROPERTY in self._methods
        for name in (PROPERTY, V2_LIST) if self.has_property else (GATE,):
            if name not in self._methods:
                raise SourceNotFound(f"`{CLASS}` in {CONFIG} has no `{name}`; its methods: {_names(self._methods)}")
        self._extract([name for name in (PROPERTY, V2_LIST, V1_LIST, GATE) if name in self._methods])
        self._variables[VARIABLE] = self._evaluate(ENVS, self._entry(VARIABLE))
        self.guards: list[tuple[str, Any]] = list(self._guards())
        self.messages: list[str] = [
            each.value for each in ast.walk(config) if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]

    def prepare(self, source: SourceReader) -> None:
        """Find the classes of the configuration; nothing is extracted yet."""
        self._source = source
        self._classes = {
            node.name.lower(): (path, node)
            for path in source.under("vllm/config/")
            for node in self._tree(path).body
            if isinstance(node, ast.ClassDef)
        }
        self.machine = Machine()
        self._stand_ins = stand_ins(self.machine, self.variable)
        self._variables: dict[str, Callable[[], Any]] = {}
        self._namespaces: dict[str, dict[str, Any]] = {}
        self._extracted: dict[str, ast.AST] = {}
        self._members: dict[tuple[str, str], tuple[Any, bool] | None] = {}

    def _extract(self, names: Sequence[str]) -> None:
        """Extract these methods, and all methods of the class that they use."""
        remaining = [name for name in names if ("", name) not in self._members]
        while remaining:
            name = remaining.pop()
            self._method("", name)
            called = (
                each.attr
                for each in ast.walk(self._methods[name])
                if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"
            )
            remaining += [other for other in called if other in self._methods and ("", other) not in self._members]

    # Source files.

    def _tree(self, path: str) -> ast.Module:
        if path not in self._source:
            raise SourceNotFound(f"the source has no {path}")
        return self._source.tree(path)

    def _class(self, path: str, name: str) -> ast.ClassDef:
        for node in self._tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
        raise SourceNotFound(f"{path} has no class `{name}`")

    def variable(self, name: str) -> Any:
        """The value of an environment variable as the release reads it, by its entry in ``environment_variables``.

        Raises:
            SourceNotFound: the release has no such entry.
        """
        if name not in self._variables:
            self._variables[name] = self._evaluate(ENVS, self._entry(name))
        return self._variables[name]()

    def _entry(self, name: str) -> ast.expr:
        for node in ast.walk(self._tree(ENVS)):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == name:
                        self._record(ENVS, name, value)
                        return value
        raise SourceNotFound(f"{ENVS} has no entry `{name}`")

    def constants(self) -> tuple[set[str], set[int]]:
        """All strings and integers in the extracted code."""
        texts, numbers = set[str](), set[int]()
        for node in self._extracted.values():
            for each in ast.walk(node):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    texts.add(each.value)
                elif isinstance(each, ast.Constant) and type(each.value) is int:
                    numbers.add(each.value)
        return texts, numbers

    def code(self) -> dict[str, str]:
        """The extracted code by name, without comments and layout, for comparison with a later release."""
        return {name: ast.unparse(node) for name, node in sorted(self._extracted.items())}

    def _record(self, path: str, name: str, node: ast.AST) -> None:
        self._extracted[f"{path}:{name}"] = node

    # Evaluation of names.

    def _namespace(self, path: str) -> dict[str, Any]:
        return self._namespaces.setdefault(path, {"__name__": path, "__builtins__": builtins})

    def _evaluate(self, path: str, node: ast.expr) -> Any:
        self._provide(path, node)
        return eval(compile(ast.Expression(node), path, "eval"), self._namespace(path))  # noqa: S307  # in a separate process

    def _provide(self, path: str, node: ast.AST) -> None:
        """Define every name that a piece of code reads in its module's namespace."""
        namespace = self._namespace(path)
        inner = dict(imports(node))
        for name in sorted(
            {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
            | set(inner)
        ):
            if name not in namespace and not hasattr(builtins, name) and not is_bound(name, node):
                namespace[name] = UNKNOWN  # so that a recursive name is already bound
                namespace[name] = self._resolve(path, name, inner)

    def _resolve(self, path: str, name: str, inner: Mapping[str, tuple[str, str | None]]) -> Any:
        found = self._namespace(path).get(name, UNKNOWN)
        if found is not UNKNOWN:
            return found
        if name in self._stand_ins:
            return self._stand_ins[name]
        for node in self._tree(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                return self._define(path, node)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and name in targets(node):
                self._record(path, name, node)
                found = self._namespace(path)[name] = self._evaluate(path, node.value)
                return found
        module, member = inner.get(name) or dict(imports(self._tree(path))).get(name) or (None, None)
        if module is None:
            raise SourceNotFound(f"{path} uses `{name}` and does not import it")
        if module.split(".")[0] in STANDARD:
            imported = importlib.import_module(module)
            return getattr(imported, member) if member else imported
        for file in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
            if member and file in self._source:
                return self._resolve(file, member, {})
        raise SourceNotFound(f"{path} imports `{name}` from {module}, which the source does not have")

    def _define(self, path: str, node: ast.FunctionDef | ast.ClassDef) -> Any:
        self._record(path, node.name, node)
        bare = without_imports(node)
        self._provide(path, node)
        namespace = self._namespace(path)
        exec(compile(ast.Module([bare], []), path, "exec"), namespace)  # noqa: S102  # in a separate process
        return namespace[node.name]

    @property
    def reasons(self) -> list[str]:
        """The expressions that the lists append, in their order."""
        nodes = [
            each for name in (V2_LIST, V1_LIST, GATE) if name in self._methods for each in ast.walk(self._methods[name])
        ]
        texts = [
            ast.unparse(each.args[0])
            for each in nodes
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "append"
        ]
        return list(dict.fromkeys(texts))

    @property
    def has_v1_list(self) -> bool:
        """Whether the release has a list of what V1 does not support."""
        return V1_LIST in self._methods

    # The decision.

    def member(self, of: Object, path: str, name: str) -> Any:
        """An attribute that is not a fact, from the object's class in the release.

        Raises:
            AttributeError: the class does not have it.
        """
        derived = DERIVED_ATTRIBUTES.get(f"{path}.{name}")
        if derived is not None:
            return derived(of)
        found = self._method(path, name)
        if found is None:
            raise AttributeError(f"unknown fact `{path}.{name}`")
        method, is_property = found
        return method(of) if is_property else method.__get__(of)

    def _method(self, path: str, name: str) -> tuple[Any, bool] | None:
        """A method of an object's class, and whether it is a property."""
        if (path, name) not in self._members:
            file, klass = self._class_of(path)
            node = (
                next((node for node in klass.body if isinstance(node, ast.FunctionDef) and node.name == name), None)
                if klass
                else None
            )
            self._members[path, name] = (
                None
                if klass is None or node is None
                else (self._function(file, f"{klass.name}.{name}", node), is_property(node))
            )
        return self._members[path, name]

    def _class_of(self, path: str) -> tuple[str, ast.ClassDef | None]:
        return (
            self._classes.get(path.rpartition(".")[2].replace("_", ""), ("", None)) if path else (CONFIG, self._config)
        )

    def _function(self, path: str, name: str, node: ast.FunctionDef) -> Any:
        self._record(path, name, node)
        bare = without_imports(node)
        bare.decorator_list = []
        self._provide(path, bare)
        self._provide(path, node)
        scope: dict[str, Any] = {}
        exec(compile(ast.Module([bare], []), path, "exec"), self._namespace(path), scope)  # noqa: S102  # in a separate process
        return scope[node.name]

    def is_method(self, path: str, name: str) -> bool:
        """Whether the object's class in the release has a method with a fact's name.

        Such a method is called instead of being read.
        """
        _, klass = self._class_of(path)
        return klass is not None and any(
            isinstance(node, ast.FunctionDef) and node.name == name and not is_property(node) for node in klass.body
        )

    def enumeration(self, name: str) -> Any:
        """An enum of the release's configuration, such as ``CUDAGraphMode``.

        Raises:
            SourceNotFound: the release has none of that name.
        """
        if name.lower() not in self._classes:
            raise SourceNotFound(f"no file below vllm/config/ has a class `{name}`")
        path, node = self._classes[name.lower()]
        namespace = self._namespace(path)
        if name not in namespace:
            namespace[name] = self._define(path, node)
        return namespace[name]

    def _guards(self) -> Iterator[tuple[str, Any]]:
        """The checks that refuse a configuration because of the runner: each statement of the class that does so."""
        for method in self._methods.values():
            if method.name in {PROPERTY, V2_LIST, V1_LIST}:
                continue
            checks = (node for node in ast.walk(method) if tests_any({PROPERTY, VARIABLE}, node) and refuses(node))
            for number, node in enumerate(checks, 1):
                if isinstance(node, ast.stmt):
                    body: list[Any] = (
                        [node]
                        if method.name == POST_INIT
                        else without_unread_assignments(statements_leading_to(method.body, node))
                    )
                    name = f"{method.name}:{getattr(node, 'lineno', 0)}"
                    function = ast.parse("def guard(self): ...").body[0]
                    assert isinstance(function, ast.FunctionDef)
                    function.body = body
                    yield (
                        name,
                        self._function(
                            CONFIG, f"{CLASS}.{method.name} ({number})", ast.fix_missing_locations(function)
                        ),
                    )


def _names(methods: Mapping[str, Any]) -> str:
    """The methods that may have replaced a missing one."""
    return ", ".join(name for name in methods if "runner" in name or name.startswith("__")) or "none about a runner"
