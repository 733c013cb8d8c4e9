"""Single values that Helm sets by a path, ``--set a.b[0]=text`` and ``--set-string`` (read at Helm 3.17).

Only what Helm certainly does is applied. Not here: escapes, lists (``{a,b}``), several assignments in one text, and a
path that does not fit the values.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

MAX_STEPS: Final = 30
PATH: Final = re.compile(r"[A-Za-z0-9_-]++(?:\[[0-9]{1,4}\])*+(?:\.[A-Za-z0-9_-]++(?:\[[0-9]{1,4}\])*+)*+", re.ASCII)
STEP: Final = re.compile(r"([A-Za-z0-9_-]++)|\[([0-9]++)\]", re.ASCII)
UNCERTAIN_TEXT: Final = re.compile(r"[,\\{}$]")
"""Matches what separates, escapes or begins a list in Helm, or is replaced before Helm reads it."""
INTEGER: Final = re.compile(r"0|[+-]?[1-9][0-9]{0,17}|[+-]0[0-9]{0,17}", re.ASCII)
CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


class Assignment(Struct, frozen=True):
    """A value that is set at a path of a chart's values; ``is_text``: whether it stays a text (``--set-string``)."""

    path: str
    value: str
    is_text: bool = False


def apply_assignments(values: dict[str, Any], assignments: list[Assignment]) -> tuple[dict[str, Any], list[Assignment]]:
    """A copy of the values with the assignments applied, and the uncertain assignments that it leaves out."""
    found = dict(values)
    copied = {id(found)}
    skipped = []
    for each in sorted(assignments, key=lambda each: each.is_text):  # Helm applies `--set-string` last
        steps = _steps(each.path)
        is_certain = len(steps) <= MAX_STEPS and UNCERTAIN_TEXT.search(each.value) is None
        value = each.value if each.is_text else _typed(each.value)
        if not (is_certain and _assign(found, steps, value, copied)):
            skipped.append(each)
    return found, skipped


def _steps(path: str) -> list[str | int]:
    """The names and indexes of a path; empty if it has anything else."""
    if PATH.fullmatch(path) is None:
        return []
    return [found[1] if found[1] is not None else int(found[2]) for found in STEP.finditer(path)]


def _typed(text: str) -> str | int | bool | None:
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    return int(text) if INTEGER.fullmatch(text) is not None else text


def _assign(values: dict[str, Any], steps: list[str | int], value: object, copied: set[int]) -> bool:
    """Set a value; false if the path does not fit. ``copied`` has the ids of what may be changed in place."""
    node: Any = values
    step: Any
    for place, step in enumerate(steps):
        if not isinstance(node, list if isinstance(step, int) else dict):
            return False
        below = steps[place + 1 :]
        is_new = len(node) <= step if isinstance(step, int) else step not in node
        if is_new:
            if any(isinstance(each, int) and each for each in below) or (isinstance(step, int) and step > len(node)):
                return False
            added = _nested(below, value, copied)
            node.append(added) if isinstance(node, list) else node.update({step: added})
            return True
        child = node[step]
        if not below:
            if isinstance(child, dict | list):
                return False
            node[step] = value
            return True
        if isinstance(child, dict | list) and id(child) not in copied:
            child = node[step] = child.copy()
            copied.add(id(child))
        node = child
    return False


def _nested(steps: list[str | int], value: object, copied: set[int]) -> object:
    for step in reversed(steps):
        value = [value] if isinstance(step, int) else {step: value}
        copied.add(id(value))
    return value
