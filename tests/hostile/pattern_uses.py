"""Every regular expression of the packages, and the ways in which each is used."""

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
TRUSTED: Final = ("policy.vllm.tablegen", "policy.vllm.verify")
"""They read vLLM's sources, never what users send, and make patterns of them as they run."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The modules whose patterns meet what users send, by name."""
    for package in ("policy", "service"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if not name.startswith(TRUSTED):
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
    """The calls of ``re`` and of constants by a method that patterns have: whose, which, and with what."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(ast.Name(name) | ast.Attribute(attr=name) as whose, method), args=arguments
            ) if method in METHODS:
                if name == "re" or name.isupper():
                    yield whose, method, arguments


def uses() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Where a pattern is used, the pattern, and the method."""
    for name, tree in modules():
        for whose, method, arguments in _uses(tree):
            module = importlib.import_module(name)
            pattern = _value(whose, module)
            if pattern is re:
                pattern = re.compile(_value(arguments[0], module))
            if isinstance(pattern, re.Pattern):
                yield f"{name}:{whose.lineno}", pattern, method
