"""What the sources of a release say of a flag: the texts and marks beside its definition."""

import ast
from dataclasses import dataclass
from itertools import pairwise

from policy.vllm.tablegen.modules import Module, SourceDefinition, World
from policy.vllm.tablegen.values import Name, SourceUnreadable, value


@dataclass(frozen=True, slots=True)
class FlagTexts:
    """What the sources say of a flag: its help, and whether argparse marks it as deprecated.

    ``field`` is the field behind it and ``field_of`` the class of that field; ``klass`` is the class of its object.
    """

    flags: tuple[str, ...]
    help: str = ""
    deprecated: bool = False
    field: str = ""
    field_of: SourceDefinition | None = None
    klass: SourceDefinition | None = None


def docstrings(klass: SourceDefinition) -> dict[str, str]:
    """The text below each field of a class."""
    assert isinstance(klass.node, ast.ClassDef)
    body = klass.node.body
    return {
        name: text
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and (name := field.target.id)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(text := below.value.value, str)
    }


def text_of(world: World, module: Module, node: ast.expr) -> str:
    """A text that is written out, or that a name of the module has; empty if it is computed."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "" for part in parts)
    try:
        found = value(world, module, node)
    except SourceUnreadable:
        return ""
    return found if isinstance(found, str) and not isinstance(found, Name) else ""
