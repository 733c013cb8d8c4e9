"""Analyse syntax trees: the names that code imports, reads and assigns, and the statements that lead to another one.

It is independent of any release: its functions take trees, and return trees and names.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


def is_property(node: ast.FunctionDef) -> bool:
    """Whether a method is a property."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def imports(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Every name that is imported, with its module and its name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (
                    alias.asname or alias.name.split(".")[0],
                    (alias.name if alias.asname else alias.name.split(".")[0], None),
                )
                for alias in node.names
            )
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from (
                (alias.asname or alias.name, (module if not node.level else f"vllm.config.{module}", alias.name))
                for alias in node.names
            )


def targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    """The names that an assignment binds."""
    assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in assigned if isinstance(target, ast.Name)}


def is_bound(name: str, node: ast.AST) -> bool:
    """Whether a piece of code binds a name itself: as an argument, a local, or in a loop or comprehension."""
    return any(
        (isinstance(each, ast.arg) and each.arg == name)
        or (isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id == name)
        for each in ast.walk(node)
    )


class _ImportRemover(ast.NodeTransformer):
    """Removes imports inside functions; the caller provides the imported names."""

    def visit_Import(self, node: ast.Import) -> ast.Pass:
        return ast.copy_location(ast.Pass(), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.Pass:
        return ast.copy_location(ast.Pass(), node)


def without_imports(node: Any) -> Any:
    """The definition without its imports; the caller provides the imported names."""
    return _ImportRemover().visit(ast.parse(ast.unparse(node)).body[0])


def tests_any(names: Collection[str], node: ast.AST) -> bool:
    """Whether a statement tests an attribute with one of these names."""
    test = node.test if isinstance(node, ast.If | ast.Assert) else None
    return test is not None and any(isinstance(each, ast.Attribute) and each.attr in names for each in ast.walk(test))


def refuses(node: ast.AST) -> bool:
    """Whether a statement raises, asserts, or calls a check of the runner."""
    return isinstance(node, ast.Assert) or any(
        isinstance(each, ast.Raise)
        or (isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and "_model_runner" in each.func.attr)
        for each in ast.walk(node)
    )


def statements_leading_to(body: Sequence[ast.stmt], target: ast.AST) -> list[Any]:
    """The statements of a body that lead to a statement: assignments, early returns, and the branches around it."""
    kept: list[Any] = []
    for statement in body:
        if statement is target:
            return [*kept, statement]
        if any(each is target for each in ast.walk(statement)):
            if isinstance(statement, ast.If):
                inside = any(each is target for part in statement.body for each in ast.walk(part))
                test = statement.test if inside else ast.UnaryOp(ast.Not(), statement.test)
                return [
                    *kept,
                    ast.If(test, statements_leading_to(statement.body if inside else statement.orelse, target), []),
                ]
            return [*kept, statement]
        assigns = isinstance(statement, ast.Assign | ast.AnnAssign) and bool(targets(statement))
        returns = (
            isinstance(statement, ast.If)
            and not statement.orelse
            and all(isinstance(each, ast.Return) for each in statement.body)
        )
        if assigns or returns or isinstance(statement, ast.Import | ast.ImportFrom):
            kept.append(statement)
    return kept


def without_unread_assignments(body: list[Any]) -> list[Any]:
    """The statements without assignments to names that are not read afterwards."""
    kept: list[Any] = []
    read: set[str] = set()
    for statement in reversed(body):
        assigns = isinstance(statement, ast.Assign | ast.AnnAssign)
        if assigns and not targets(statement) & read:
            continue
        kept.append(statement)
        read |= {
            each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
        }
    return kept[::-1]
