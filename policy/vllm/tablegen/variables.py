"""The environment variables of vLLM, read from the release's own sources.

Makes one row per variable. Those of `environment_variables` in `vllm/envs.py` have their type and default, as annotated
there, where both can be read. Other names that begin with `VLLM_` and occur in any file have the row
`{"listed": false}`: code outside `vllm/envs.py` may read them. `policy.intake.variables` describes the rows.
"""

import ast
import re

from policy.vllm.tablegen.wheels import SourceReader

ENVS = "vllm/envs.py"
TABLE = "environment_variables"
NAME = re.compile(r"\bVLLM_[A-Z0-9_]*[A-Z0-9]\b")
WARNING_FUNCTION = "deprecated_env"
"""The function of 0.22 and 0.23 that wraps a deprecated variable: its name, the release, and what to use instead."""
DEPRECATION = re.compile(r"(VLLM_[A-Z0-9_]+) is deprecated")
REPLACEMENT = re.compile(r"VLLM_[A-Z0-9_]*[A-Z0-9]|--[a-z][a-z-]*[a-z]")


def variables(reading: SourceReader) -> dict[str, object]:
    """The variables of a release, by name."""
    tree = reading.tree(ENVS) if ENVS in reading else ast.Module(body=[], type_ignores=[])
    listed = dict.fromkeys(_names(tree))
    annotated = _annotated(tree)
    deprecated = _deprecated(tree)
    rows: dict[str, object] = {name: annotated.get(name, {}) | deprecated.get(name, {}) for name in listed}
    for path in reading.under("vllm/"):
        for name in NAME.findall(reading.text(path)):
            rows.setdefault(name, {"listed": False})
    return rows


def _names(tree: ast.Module) -> list[str]:
    """The keys of the dictionary, also of one that has no annotation."""
    for node in tree.body:
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(keys=keys))
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys))
            ) if name == TABLE:
                return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return []


def _annotated(tree: ast.Module) -> dict[str, dict[str, object]]:
    """The types and defaults that are stated for type checkers."""
    found = {}
    for node in tree.body:
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                row: dict[str, object] = {"type": _type(each.annotation)}
                if isinstance(each.value, ast.Constant | ast.List | ast.UnaryOp):
                    row["default"] = ast.literal_eval(each.value)
                found[each.target.id] = row
    return found


def _type(annotation: ast.expr) -> str:
    """The annotation as text, in today's notation: `int | None` also for `Optional[int]`."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return f"{ast.unparse(inner)} | None"
        case _:
            return ast.unparse(annotation)


def _deprecated(tree: ast.Module) -> dict[str, dict[str, object]]:
    """The variables that the file itself marks as deprecated, with the replacements that it names."""
    found: dict[str, dict[str, object]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id=function),
                args=[ast.Constant(value=str(name)), ast.Constant(), ast.Constant(value=str(text)), *_],
            ) if function == WARNING_FUNCTION:
                pass
            case ast.Constant(value=str(text)) if (warned := DEPRECATION.match(text)) is not None:
                name, text = warned[1], text[warned.end() :]
            case _:
                continue
        found[name] = {"deprecated": True, "replaced_by": list(dict.fromkeys(REPLACEMENT.findall(text)))}
    return found
