"""A release's source → its decision as code that runs by itself: the property, the lists, the refusals, and all they call.

Owns what is taken, by its syntax tree, and what stands in for the rest: configuration objects hold facts, the
platform and Triton are facts, the log is silent. Methods and constants that the decision asks for are taken
out of the source as well, wherever in the package they stand. Nothing of vLLM is imported, and nothing of it
is kept.

What runs here is the release's code, so it runs in a process of its own (``worker``).
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from policy.intake.making.wheels import Reading

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
FLAGS: Final = __future__.annotations.compiler_flag


class NotThere(Exception):
    """Something that the decision needs is not where it was looked for."""


class Silent:
    """A log that nobody reads."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


class Object:
    """A configuration object: facts by their names, and the methods that its class has in the release."""

    def __init__(self, path: str, members: Mapping[str, Any], release: Extraction) -> None:
        self.__dict__.update(members)
        self.__dict__["_path"], self.__dict__["_release"] = path, release

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_release"].member(self, self.__dict__["_path"], name)


class Extraction:
    """The decision of one release, ready to be asked; what cannot be taken out of the source raises ``NotThere`` at once."""

    def __init__(self, source: Reading) -> None:
        self._source = source
        self._trees: dict[str, ast.Module] = {}
        self._classes = {
            node.name.lower(): (path, node) for path in source.under("vllm/config/") for node in self._tree(path).body if isinstance(node, ast.ClassDef)
        }
        self.platform: dict[str, bool] = {}
        self.plugins: Sequence[str] = ()
        self.has_triton = True
        self._namespaces: dict[str, dict[str, Any]] = {}
        self._taken: dict[str, ast.AST] = {}
        self._members: dict[tuple[str, str], tuple[Any, bool] | None] = {}
        self._config = self._class(CONFIG, CLASS)
        self._methods = {node.name: node for node in self._config.body if isinstance(node, ast.FunctionDef)}
        self.has_property = PROPERTY in self._methods
        for name in (PROPERTY, V2_LIST) if self.has_property else (GATE,):
            if name not in self._methods:
                raise NotThere(f"`{CLASS}` in {CONFIG} has no `{name}`; there are {_names(self._methods)}")
        self._take([name for name in (PROPERTY, V2_LIST, V1_LIST, GATE) if name in self._methods])
        self.parse = self._parser()
        self.guards = list(self._guards())
        self.said = [each.value for each in ast.walk(self._config) if isinstance(each, ast.Constant) and isinstance(each.value, str)]

    def _take(self, names: Sequence[str]) -> None:
        """Take these methods, and all of the class that they ask for."""
        left = [name for name in names if ("", name) not in self._members]
        while left:
            name = left.pop()
            self._method("", name)
            called = (each.attr for each in ast.walk(self._methods[name]) if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self")
            left += [other for other in called if other in self._methods and ("", other) not in self._members]

    # The parts of the source.

    def _tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            if path not in self._source:
                raise NotThere(f"the source has no {path}")
            self._trees[path] = self._source.tree(path)
        return self._trees[path]

    def _class(self, path: str, name: str) -> ast.ClassDef:
        for node in self._tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
        raise NotThere(f"{path} has no class `{name}`")

    def _parser(self) -> Callable[[], Any]:
        """What reads the operator's variable: the entry of ``environment_variables``, as the release writes it."""
        for node in ast.walk(self._tree(ENVS)):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == VARIABLE:
                        self._note(ENVS, VARIABLE, value)
                        found: Callable[[], Any] = self._evaluated(ENVS, value)
                        return found
        raise NotThere(f"{ENVS} has no entry `{VARIABLE}`")

    def constants(self) -> tuple[set[str], set[int]]:
        """Every text and whole number that stands in what was taken."""
        texts, numbers = set[str](), set[int]()
        for node in self._taken.values():
            for each in ast.walk(node):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    texts.add(each.value)
                elif isinstance(each, ast.Constant) and type(each.value) is int:
                    numbers.add(each.value)
        return texts, numbers

    def taken(self) -> dict[str, str]:
        """What was taken, by its name, without comments and layout: what a later release is compared by."""
        return {name: ast.unparse(node) for name, node in sorted(self._taken.items())}

    def _note(self, path: str, name: str, node: ast.AST) -> None:
        self._taken[f"{path}:{name}"] = node

    # Names → what they stand for.

    def _namespace(self, path: str) -> dict[str, Any]:
        return self._namespaces.setdefault(path, {"__name__": path, "__builtins__": builtins})

    def _evaluated(self, path: str, node: ast.expr) -> Any:
        self._provide(path, node)
        return eval(compile(ast.Expression(node), path, "eval", FLAGS), self._namespace(path))  # noqa: S307  # in a process of its own

    def _provide(self, path: str, node: ast.AST) -> None:
        """Put every name that a piece of code reads into its module's namespace."""
        namespace = self._namespace(path)
        inner = dict(_imports(node))
        for name in sorted({each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)} | set(inner)):
            if name not in namespace and not hasattr(builtins, name) and not _is_bound(name, node):
                namespace[name] = UNKNOWN  # a name that leads back to itself is there by then
                namespace[name] = self._named(path, name, inner)

    def _named(self, path: str, name: str, inner: Mapping[str, tuple[str, str | None]]) -> Any:
        found = self._namespace(path).get(name, UNKNOWN)
        if found is not UNKNOWN:
            return found
        stands_in = self._stand_ins().get(name)
        if stands_in is not None:
            return stands_in
        for node in self._tree(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                return self._defined(path, node)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and name in _targets(node):
                self._note(path, name, node)
                found = self._namespace(path)[name] = self._evaluated(path, node.value)
                return found
        module, member = inner.get(name) or dict(_imports(self._tree(path))).get(name) or (None, None)
        if module is None:
            raise NotThere(f"{path} uses `{name}` and does not say where it is from")
        if module.split(".")[0] in STANDARD:
            imported = importlib.import_module(module)
            return getattr(imported, member) if member else imported
        for place in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
            if member and place in self._source:
                return self._named(place, member, {})
        raise NotThere(f"{path} takes `{name}` from {module}, which the source does not have")

    def _stand_ins(self) -> dict[str, Any]:
        return {
            "envs": _Variables(self),
            "logger": Silent(),
            "init_logger": lambda _: Silent(),
            "current_platform": _Platform(self),
            "HAS_TRITON": _Triton(self),
            "entry_points": lambda **asked: self.plugins if asked == {"group": "vllm.logits_processors"} else (),
            "config": lambda *found, **_: found[0] if found else lambda each: each,
            "cache": _uncached,
            "lru_cache": _uncached,
            "functools": _Functools(),
        }

    def _defined(self, path: str, node: ast.FunctionDef | ast.ClassDef) -> Any:
        self._note(path, node.name, node)
        bare = _without_imports(node)
        self._provide(path, node)
        namespace = self._namespace(path)
        exec(compile(ast.Module([bare], []), path, "exec", FLAGS), namespace)  # noqa: S102  # in a process of its own
        return namespace[node.name]

    @property
    def reasons(self) -> list[str]:
        """The texts of the lists, in their order."""
        nodes = [each for name in (V2_LIST, V1_LIST, GATE) if name in self._methods for each in ast.walk(self._methods[name])]
        texts = [
            ast.unparse(each.args[0]) for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "append"
        ]
        return list(dict.fromkeys(texts))

    @property
    def has_v1_list(self) -> bool:
        """Whether the release knows what V1 does not support."""
        return V1_LIST in self._methods

    # The decision.

    def member(self, of: Object, path: str, name: str) -> Any:
        """A member that is no fact: what the object's class has in the release. Raises AttributeError where it has none."""
        derived = DERIVED.get(f"{path}.{name}")
        if derived is not None:
            return derived(of)
        found = self._method(path, name)
        if found is None:
            raise AttributeError(f"`{path}.{name}` is no fact")
        method, is_property = found
        return method(of) if is_property else method.__get__(of)

    def _method(self, path: str, name: str) -> tuple[Any, bool] | None:
        """A method of an object's class, and whether it is a property."""
        if (path, name) not in self._members:
            file, klass = self._class_of(path)
            node = next((node for node in klass.body if isinstance(node, ast.FunctionDef) and node.name == name), None) if klass else None
            self._members[path, name] = None if klass is None or node is None else (self._function(file, f"{klass.name}.{name}", node), _is_property(node))
        return self._members[path, name]

    def _class_of(self, path: str) -> tuple[str, ast.ClassDef | None]:
        return self._classes.get(path.rpartition(".")[2].replace("_", ""), ("", None)) if path else (CONFIG, self._config)

    def _function(self, path: str, name: str, node: ast.FunctionDef) -> Any:
        self._note(path, name, node)
        bare = _without_imports(node)
        bare.decorator_list = []
        self._provide(path, bare)
        self._provide(path, node)
        scope: dict[str, Any] = {}
        exec(compile(ast.Module([bare], []), path, "exec", FLAGS), self._namespace(path), scope)  # noqa: S102  # in a process of its own
        return scope[node.name]

    def is_method(self, path: str, name: str) -> bool:
        """Whether the object's class in the release has a method of a fact's name, which is called where a fact is read."""
        _, klass = self._class_of(path)
        return klass is not None and any(isinstance(node, ast.FunctionDef) and node.name == name and not _is_property(node) for node in klass.body)

    def enumeration(self, name: str) -> Any:
        """An enum of the release's configuration, such as ``CUDAGraphMode``."""
        path, node = self._classes[name.lower()]
        namespace = self._namespace(path)
        if name not in namespace:
            namespace[name] = self._defined(path, node)
        return namespace[name]

    def _guards(self) -> Iterator[tuple[str, Any]]:
        """What refuses a configuration because of the runner: each place in the class where a raise depends on it."""
        for method in self._methods.values():
            if method.name in {PROPERTY, V2_LIST, V1_LIST}:
                continue
            places = (node for node in ast.walk(method) if _asks_for_the_runner(node) and _refuses(node))
            for number, node in enumerate(places, 1):
                if isinstance(node, ast.stmt):
                    body: list[Any] = [node] if method.name == POST_INIT else _needed(_slice(method.body, node))
                    name = f"{method.name}:{getattr(node, 'lineno', 0)}"
                    function = ast.parse("def guard(self): ...").body[0]
                    assert isinstance(function, ast.FunctionDef)
                    function.body = body
                    yield name, self._function(CONFIG, f"{CLASS}.{method.name} ({number})", ast.fix_missing_locations(function))


class _Variables:
    """``vllm.envs``: the operator's variable as the release reads it; every other has its default."""

    def __init__(self, release: Extraction) -> None:
        self._release = release

    def __getattr__(self, name: str) -> Any:
        return self._release.parse() if name == VARIABLE else None


class _Platform:
    """``current_platform``: its questions are facts, and where none says another it is CUDA."""

    def __init__(self, release: Extraction) -> None:
        self._release = release

    def __getattr__(self, name: str) -> Callable[[], bool]:
        known = self._release.platform
        match name:
            case "is_cuda":
                return lambda: not any(known.values())
            case "is_cuda_alike":
                return lambda: known.get("is_rocm", False) or not any(known.values())
        return lambda: known.get(name, False)


class _Triton:
    """``HAS_TRITON``: a fact."""

    def __init__(self, release: Extraction) -> None:
        self._release = release

    def __bool__(self) -> bool:
        return self._release.has_triton


def _uncached(*found: Any, **_: Any) -> Any:
    """In place of a cache: the platform is another one from case to case."""
    return found[0] if found and callable(found[0]) else lambda function: function


class _Functools:
    """``functools`` without its caches."""

    cache = staticmethod(_uncached)
    lru_cache = staticmethod(_uncached)

    def __getattr__(self, name: str) -> Any:
        return getattr(functools, name)


DERIVED: Final[dict[str, Callable[[Object], Any]]] = {
    "model_config.architecture": lambda model: model.architectures[0] if model.architectures else None,
}
"""What a release asks for in place of a fact and cannot be computed here: the class that a model resolves to, which is the first of its architectures."""


def _names(methods: Mapping[str, Any]) -> str:
    """The methods that may have taken the place of what is missing."""
    return ", ".join(name for name in methods if "runner" in name or name.startswith("__")) or "none that speak of a runner"


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def _imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Every name that is imported, with its module and its name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name.split(".")[0], (alias.name if alias.asname else alias.name.split(".")[0], None)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from ((alias.asname or alias.name, (module if not node.level else f"vllm.config.{module}", alias.name)) for alias in node.names)


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _is_bound(name: str, node: ast.AST) -> bool:
    """Whether a piece of code gives a name itself: an argument, a local, a loop's or comprehension's."""
    return any(
        (isinstance(each, ast.arg) and each.arg == name) or (isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id == name)
        for each in ast.walk(node)
    )


class _Bare(ast.NodeTransformer):
    """Imports inside functions go; what they name is provided."""

    def visit_Import(self, node: ast.Import) -> ast.Pass:
        return ast.copy_location(ast.Pass(), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.Pass:
        return ast.copy_location(ast.Pass(), node)


def _without_imports(node: Any) -> Any:
    return _Bare().visit(ast.parse(ast.unparse(node)).body[0])


def _asks_for_the_runner(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If | ast.Assert) else None
    return test is not None and any(isinstance(each, ast.Attribute) and each.attr in {PROPERTY, VARIABLE} for each in ast.walk(test))


def _refuses(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or any(
        isinstance(each, ast.Raise) or (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and "_model_runner" in each.func.attr)
        for each in ast.walk(node)
    )


def _slice(body: Sequence[ast.stmt], target: ast.AST) -> list[Any]:
    """What of a body leads to a statement: names that are given, early returns, and the branches around it."""
    kept: list[Any] = []
    for statement in body:
        if statement is target:
            return [*kept, statement]
        if any(each is target for each in ast.walk(statement)):
            if isinstance(statement, ast.If):
                inside = any(each is target for part in statement.body for each in ast.walk(part))
                test = statement.test if inside else ast.UnaryOp(ast.Not(), statement.test)
                return [*kept, ast.If(test, _slice(statement.body if inside else statement.orelse, target), [])]
            return [*kept, statement]
        gives = isinstance(statement, ast.Assign | ast.AnnAssign) and bool(_targets(statement))
        leaves = isinstance(statement, ast.If) and not statement.orelse and all(isinstance(each, ast.Return) for each in statement.body)
        if gives or leaves or isinstance(statement, ast.Import | ast.ImportFrom):
            kept.append(statement)
    return kept


def _needed(body: list[Any]) -> list[Any]:
    """The same without the names that nothing after them reads."""
    kept: list[Any] = []
    read: set[str] = set()
    for statement in reversed(body):
        gives = isinstance(statement, ast.Assign | ast.AnnAssign)
        if gives and not _targets(statement) & read:
            continue
        kept.append(statement)
        read |= {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return kept[::-1]
