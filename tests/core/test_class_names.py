"""Each class of the packages has a name of its own, so that a name says which one is meant."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def test_no_two_classes_have_the_same_name(root: Path) -> None:
    names = Counter(
        node.name
        for package in ("policy", "service")
        for file in (root / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert names["Policy"] == 1
    assert {name: number for name, number in names.items() if number > 1} == {}
