"""Every regular expression of the packages, and the methods with which each is used."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT: Final = Path(__file__).resolve().parents[2]
METHODS: Final = {"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"}
TRUSTED_PACKAGES: Final = ("policy.vllm.tablegen", "policy.vllm.verify")
"""They read vLLM's sources, never texts of users, and build patterns from them at run time."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules whose patterns search texts of users, by name."""
    for package in ("policy", "service"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if not name.startswith(TRUSTED_PACKAGES):
                yield name, ast.parse(path.read_text())


def _value(node: ast.expr, module: ModuleType) -> Any:
    """The value of an expression in a module, if it is a constant or a global; else ``None``."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return getattr(module, name, None)
        case ast.Attribute(value, name):
            return getattr(_value(value, module), name, None)
        case _:
            return None


def _uses(tree: ast.Module) -> Iterator[tuple[ast.expr, str, list[ast.expr]]]:
    """The method calls on ``re`` and on constants that may be patterns: the object, the method, the arguments."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(ast.Name(name) | ast.Attribute(attr=name) as owner, method), args=arguments
            ) if method in METHODS:
                if name == "re" or name.isupper():
                    yield owner, method, arguments


def uses() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """The position of each use of a pattern, the pattern, and the method."""
    for name, tree in modules():
        for owner, method, arguments in _uses(tree):
            module = importlib.import_module(name)
            pattern = _value(owner, module)
            if pattern is re:
                pattern = re.compile(_value(arguments[0], module))
            if isinstance(pattern, re.Pattern):
                yield f"{name}:{owner.lineno}", pattern, method
