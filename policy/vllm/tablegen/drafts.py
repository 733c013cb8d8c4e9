"""How a release treats a draft model: MTP rewriting, the choice of the method, and the draft's architectures.

Reads `SpeculativeConfig`, `EAGLEConfig` and the speculators formats. All results are formulas;
`policy.intake.model.tables` lists their keys.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from policy.vllm.tablegen.branches import RETURN_PATH, Branches, method_of, substitute, unwritten
from policy.vllm.tablegen.formulas import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.vllm.tablegen.modules import World

SPECULATIVE = "vllm.config.speculative"
EAGLE = "vllm.transformers_utils.configs.eagle"
ALGORITHMS = "vllm.transformers_utils.configs.speculators.algos"
SPECULATORS = "vllm.transformers_utils.configs.speculators.base"
DRAFT_ARCHITECTURES = "draft_model_config.architectures"
DRAFT_TYPE = "draft_model_config.hf_config.model_type"
REWRITTEN_PATHS = ("model_type", "architectures", "layer_types", "part", RETURN_PATH)
DRAFT_PATHS = (DRAFT_ARCHITECTURES, DRAFT_TYPE, "parallel_drafting")
Table = dict[str, Any]


def drafts(world: World) -> Table:
    """The release's constants for draft models: MTP rewriting, the choice of the method, and speculators formats."""
    found = {"mtp_overrides": mtp_overrides(world), **_draft_method(world), "speculators": _speculators(world)}
    return {name: constant for name, constant in found.items() if constant}


def mtp_overrides(world: World) -> list[Table]:
    """The rows of `SpeculativeConfig.hf_config_override`, one per statement."""
    found = method_of(world, SPECULATIVE, "SpeculativeConfig", "hf_config_override")
    if found is None:
        return []
    klass, method = found
    rows: list[Table] = []
    named: dict[str, Any] = {}
    for statement in method.body:
        run = Branches(
            world,
            klass.module,
            {"hf_config": ""},
            opaque=frozenset({"initial_architecture", "transformers_mtp_overrides"}),
            local=dict(named),
        )
        run.run([statement])
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if name in run.local:
                rows.append({name: run.local[name]})
                named[name] = ["key", name]
            case ast.If():
                rows.append(_row({path: formula for path, formula in run.written.items() if path in REWRITTEN_PATHS}))
    return [
        row
        for index, row in enumerate(rows)
        if row.keys() & set(REWRITTEN_PATHS) or row.keys() & _keys_read(rows[index + 1 :])
    ]


def _row(written: Table) -> Table:
    """The assignments of a statement; a test that all of them share is stated once, as `when`."""
    tests = {str(formula[1]) if _is_choice(path, formula) else None for path, formula in written.items()}
    if len(tests) != 1 or None in tests:
        return written
    return {"when": next(iter(written.values()))[1], **{path: formula[2] for path, formula in written.items()}}


def _is_choice(path: str, formula: Any) -> bool:
    return isinstance(formula, list) and formula[:1] == ["if"] and formula[3] == unwritten(path)


def _keys_read(rows: list[Table]) -> set[str]:
    return {key for row in rows for formula in row.values() for key in keys_of(formula)}


def _draft_method(world: World) -> Table:
    """`draft_method` and `draft_overrides` from `SpeculativeConfig.__post_init__`.

    The first is from the detection of the method, the second from the statements after it.
    """
    found = method_of(world, SPECULATIVE, "SpeculativeConfig", "__post_init__")
    block, index = _detection(found[1]) if found is not None else ([], 0)
    if found is None or not block:
        return {}

    def run(statement: ast.stmt) -> Branches:
        aliases = {"draft_model_config.hf_config.architectures": DRAFT_ARCHITECTURES}
        calls = {"EAGLEConfig": {DRAFT_ARCHITECTURES: _eagle_names(world)}}
        branches = Branches(
            world, found[0].module, aliases=aliases, opaque=frozenset({"using_transformers_mtp"}), calls=calls
        )
        branches.run([statement])
        return branches

    rows = [
        _row({path: formula for path, formula in run(statement).written.items() if path in DRAFT_PATHS})
        for statement in block[index + 1 :]
    ]
    method = run(block[index]).written.get("method")
    overrides = [row for row in rows if row]
    return {
        "draft_method": method,
        "draft_overrides": overrides,
        "draft_architecture_methods": dict(sorted(_architecture_methods(method))),
        "dspark_architectures": sorted({name for row in overrides for name in _dspark_names(row)}),
    }


def _architecture_methods(formula: Any) -> Iterator[tuple[str, str]]:
    """The architectures that suffice to determine the method, each with its method."""
    match formula:
        case ["if", ["or", *tests], str(method), otherwise]:
            yield from (
                (str(test[1]), method) for test in tests if test[0] == "in" and test[2] == ["key", DRAFT_ARCHITECTURES]
            )
            yield from _architecture_methods(otherwise)
        case ["if", _, _, otherwise]:
            yield from _architecture_methods(otherwise)


def _dspark_names(formula: Any) -> Iterator[str]:
    """The architectures of DSpark drafts that keep their names: those compared with `not in`."""
    match formula:
        case ["not in", str(name), ["key", str(path)]] if path == DRAFT_ARCHITECTURES:
            yield name
        case dict():
            yield from _dspark_names(list(formula.values()))
        case list():
            for part in formula:
                yield from _dspark_names(part)


def _detection(method: ast.FunctionDef) -> tuple[list[ast.stmt], int]:
    """The block that contains the detection of the method, and the index of the statement."""
    for block in _blocks(method):
        for index, statement in enumerate(block):
            if isinstance(statement, ast.If) and _mentions(statement.orelse) and not _mentions(statement.body):
                return block, index
    return [], 0


def _mentions(statements: list[ast.stmt], text: str = "eagle-") -> bool:
    return any(
        isinstance(node, ast.Constant) and node.value == text
        for statement in statements
        for node in ast.walk(statement)
    )


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The blocks of a method, inner ones first."""
    for child in ast.iter_child_nodes(node):
        yield from _blocks(child)
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _eagle_names(world: World) -> Any:
    """The architectures that `EAGLEConfig` gives to a draft, by its method."""
    found = method_of(world, EAGLE, "EAGLEConfig", "__init__")
    if found is None:
        return ["unreadable"]
    run = Branches(
        world,
        found[0].module,
        aliases={"model.architectures": DRAFT_ARCHITECTURES},
        opaque=frozenset({"model", "method"}),
    )
    run.run(
        [
            statement
            for statement in found[1].body
            if isinstance(statement, ast.If) and "architectures" in ast.unparse(statement)
        ]
    )
    return run.written.get("kwargs.architectures", ["unreadable"])


def _speculators(world: World) -> Table:
    """`formats`: the changes of each speculators format to a draft; `speculative_config`: those for a target."""
    module = world.module(ALGORITHMS)
    if module is None:
        return {}
    formats: Table = {}
    for node in module.tree.body:
        match node:
            case ast.FunctionDef(
                decorator_list=[ast.Call(func=ast.Name(id="register_speculator"), args=[ast.Constant(value=str(name))])]
            ):
                run = Branches(world, module, {"pre_trained_config": ""})
                run.run(node.body)
                formats[name] = {
                    path: run.written[path]
                    for path in ("architectures", "model_type", "layer_types")
                    if path in run.written
                }
    found = method_of(world, SPECULATORS, "SpeculatorsConfig", "build_vllm_speculative_config")
    if found is None:
        return {}
    run = Branches(world, found[0].module, {"config_dict": ""})
    run.run([statement for statement in found[1].body if not isinstance(statement, ast.Return)])
    members = ("method", "parallel_drafting")
    sets = {
        name: substitute(run.written[path], ["key", path], None)
        for name in members
        if (path := f"result.{name}") in run.written
    }
    return {"formats": formats, "speculative_config": sets}
