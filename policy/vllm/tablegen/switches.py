"""The configuration defaults of a release: model hooks, CUDA graphs, async scheduling and prefix caching.

Reads `VllmConfig` and the hooks of `models/config.py`. All results are formulas or lists; `policy.intake.model.tables`
lists their keys.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from policy.vllm.tablegen.branches import RETURN_PATH, Branches, ObjectPath, method_of, substitute
from policy.vllm.tablegen.classes import Klass, klass_of
from policy.vllm.tablegen.modules import SourceDefinition
from policy.vllm.tablegen.values import SourceUnreadable, value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.vllm.tablegen.modules import World

VLLM = "vllm.config.vllm"
MODEL = "vllm.config.model"
ARGUMENTS = "vllm.engine.arg_utils"
CACHING_SUPPORT = "model_config.is_prefix_caching_supported"
HOOKS = "vllm.model_executor.models.config"
BREAKABLE_VARIABLE = "VLLM_USE_BREAKABLE_CUDAGRAPH"
ASYNC = "scheduler_config.async_scheduling"
HOOK_PATHS = ("cache_config.mamba_cache_mode", "compilation_config.mode", "compilation_config.cudagraph_mode")
ENUMS = ("CompilationMode", "CUDAGraphMode")
Table = dict[str, Any]


def switches(worlds: Sequence[World]) -> Table:
    """The release's constants for these defaults."""
    world = worlds[0]
    found = {
        "async_scheduling": _async_scheduling(world),
        "breakable_cudagraph_architectures": _on_platforms(worlds),
        "hook_changes": _hook_changes(world),
        "prefix_caching": _prefix_caching(world),
    }
    return {name: constant for name, constant in found.items() if constant is not None and constant != {}}


def _async_scheduling(world: World) -> Any:
    """The value that vLLM gives to `--async-scheduling` if the flag is not set."""
    found = method_of(world, VLLM, "VllmConfig", "__post_init__")
    for block in (
        (node.body for node in ast.walk(found[1]) if isinstance(node, ast.FunctionDef | ast.If))
        if found is not None
        else ()
    ):
        starts = [
            index
            for index, statement in enumerate(block)
            if isinstance(statement, ast.Assign) and "supports_async_scheduling" in ast.unparse(statement)
        ]
        if starts and found is not None:
            after = [
                index
                for index, statement in enumerate(block)
                if index > starts[0] and _writes(statement, "async_scheduling")
            ]
            run = Branches(world, found[0].module)
            run.run(block[starts[0] : after[0] + 1] if after else [])
            return run.written.get(ASYNC)
    return None


def _writes(statement: ast.stmt, attr: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == attr and isinstance(node.ctx, ast.Store)
        for node in ast.walk(statement)
    )


def _prefix_caching(world: World) -> Any:
    """Whether prefix caching is on by default, from what the model supports and the command line's defaults."""
    found = method_of(world, MODEL, "ModelConfig", "is_prefix_caching_supported")
    default = method_of(world, ARGUMENTS, "EngineArgs", "_set_default_chunked_prefill_and_prefix_caching_args")
    if found is None or default is None:
        return None
    supported = Branches(world, found[0].module)
    supported.run(found[1].body)
    run = Branches(world, default[0].module)
    run.run([statement for statement in default[1].body if isinstance(statement, ast.Assign)])
    made = run.local.get("default_prefix_caching")
    return substitute(
        ["key", str(made)] if isinstance(made, ObjectPath) else made,
        ["key", CACHING_SUPPORT],
        supported.written.get(RETURN_PATH),
    )


def _hook_changes(world: World) -> Table:
    """Hook class → the fields that its `verify_and_update_config` changes."""
    module = world.module(HOOKS)
    changes: Table = {}
    for name, node in module.bound.items() if module is not None else ():
        klass = (
            klass_of(world, module, ast.Name(name)) if isinstance(node, ast.ClassDef) and module is not None else None
        )
        if isinstance(klass, Klass) and module is not None:
            run = Branches(world, module)
            run.method(klass, "verify_and_update_config")
            changed = {path: _with_enum_names(run.written[path]) for path in HOOK_PATHS if path in run.written}
            if changed:
                changes[name] = changed
    return changes


def _with_enum_names(formula: Any) -> Any:
    """A formula with the members of vLLM's enums replaced by their names."""
    match formula:
        case ["key", str(key)] if key.partition(".")[0] in ENUMS:
            return key.partition(".")[2]
        case list():
            return [_with_enum_names(part) for part in formula]
    return formula


def _on_platforms(worlds: Sequence[World]) -> dict[str, list[str]]:
    """Platform → the architectures with breakable CUDA graphs, and so without compilation, by default.

    Platforms equal to the first are left out.
    """
    first, *others = [(world.platform, sorted(_breakable(world))) for world in worlds]
    return {
        platform: names for platform, names in (first, *(other for other in others if other[1] != first[1])) if first[1]
    }


def _breakable(world: World) -> set[str]:
    module = world.module(VLLM)
    found = world.find(module, "default_breakable_cudagraph_architectures") if module is not None else None
    if isinstance(found, SourceDefinition) and isinstance(found.node, ast.FunctionDef):
        for statement, _ in world.statements(found.node.body):
            if isinstance(statement, ast.Return) and statement.value is not None:
                return _names(world, found, statement.value)
    method = method_of(world, VLLM, "VllmConfig", "__post_init__")
    return (
        {name for node in ast.walk(method[1]) if _enables(node) for name in _compared_names(node)}
        if method is not None
        else set()
    )


def _names(world: World, definition: SourceDefinition, node: ast.expr) -> set[str]:
    """The names of a set expression, which may subtract another set."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return _names(world, definition, node.left) - _names(world, definition, node.right)
    names = value(world, definition.module, node)
    if not isinstance(names, tuple | list):
        raise SourceUnreadable(ast.unparse(node))
    return {str(name) for name in names}


def _enables(node: ast.AST) -> bool:
    """Whether a statement enables breakable CUDA graphs; up to 0.28 its test has the architectures."""
    return isinstance(node, ast.If) and f"'{BREAKABLE_VARIABLE}' not in os.environ" in ast.unparse(node.test)


def _compared_names(node: ast.AST) -> Iterator[str]:
    for test in ast.walk(node.test) if isinstance(node, ast.If) else ():
        match test:
            case ast.Compare(
                ops=[ast.In()],
                comparators=[ast.Tuple(elts=elements) | ast.Set(elts=elements) | ast.List(elts=elements)],
            ):
                yield from (
                    element.value
                    for element in elements
                    if isinstance(element, ast.Constant) and isinstance(element.value, str)
                )
