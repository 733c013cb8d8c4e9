"""How a release turns a target's configuration into its MTP draft: `SpeculativeConfig.hf_config_override`, as rows.

Owns the reading of that one method: which model types or architectures it looks for, in order, and what they become.
"""

import ast

from policy.intake.making.classes import Klass, klass_of
from policy.intake.making.modules import World

Row = dict[str, object]


def mtp_overrides(world: World) -> list[Row]:
    """One row for each top-level test of the method, in order.

    A row with `model_types` and `architectures` holds for either. `part_of_name` marks texts that are looked for inside a name, `also` a test that
    asks for more than the row says; of several `draft_architectures` the release chooses by more than the row says.
    """
    module = world.module("vllm.config.speculative")
    klass = klass_of(world, module, ast.Name("SpeculativeConfig")) if module is not None else None
    found = klass.attribute("hf_config_override") if isinstance(klass, Klass) else None
    if found is None or not isinstance(found[1], ast.FunctionDef):
        return []
    return [row for statement in found[1].body if isinstance(statement, ast.If) for row in _rows(statement)]


def _rows(statement: ast.If) -> list[Row]:
    row = _tested(statement.test)
    for inner in statement.body:
        for node in ast.walk(inner):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="hf_config"), attr="model_type")], value=ast.Constant(value=str(becomes))):
                    row["becomes"] = becomes
                case ast.Dict(keys=keys, values=values):
                    _take_architectures(row, keys, values)
                case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value="architectures"))], value=assigned):
                    row["draft_architectures"] = _texts(assigned)
    rows = [row] if {"becomes", "draft_architectures"} & row.keys() and {"model_types", "architectures"} & row.keys() else []
    for other in statement.orelse:
        rows += _rows(other) if isinstance(other, ast.If) else []
    return rows


def _take_architectures(row: Row, keys: list[ast.expr | None], values: list[ast.expr]) -> None:
    for key, item in zip(keys, values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "architectures" and (texts := _texts(item)):
            row["draft_architectures"] = texts


def _texts(node: ast.expr) -> list[str]:
    """The architectures that an expression can give: of a choice, both."""
    return [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)]


def _tested(test: ast.expr) -> Row:
    row: Row = {}
    also = False
    for part in test.values if isinstance(test, ast.BoolOp) else [test]:
        match part:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.In() as op], comparators=[right]):
                kind = _asked(left)
                texts = _texts(right)
                if kind is None and isinstance(op, ast.In) and isinstance(left, ast.Constant) and _asked(right) is not None:
                    kind, texts = _asked(right), _texts(left)
                    row["part_of_name"] = True
                if kind is None:
                    also = True
                else:
                    row[kind] = texts
            case _:
                also = True
    return row | ({"also": True} if also else {})


def _asked(left: ast.expr) -> str | None:
    if isinstance(left, ast.NamedExpr):
        left = left.value
    match left:
        case ast.Attribute(attr="model_type"):
            return "model_types"
        case ast.Subscript(value=ast.Attribute(attr="architectures")) | ast.Name(id="initial_architecture" | "architectures"):
            return "architectures"
    return None
