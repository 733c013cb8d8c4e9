"""No regular expression of the packages rescans a text."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from hostile.counting import count, growth, readers_of
from hostile.pattern_uses import modules, uses

if TYPE_CHECKING:
    from collections.abc import Iterator


def _compiled() -> Iterator[tuple[str, ast.stmt | None]]:
    """Each call of ``re.compile`` by its position, with the statement that contains it."""
    for name, tree in modules():
        for statement in tree.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                    yield f"{name}:{node.lineno}", statement


@pytest.mark.slow
def test_every_pattern_is_a_constant_of_its_module_and_is_tested() -> None:
    tested = {pattern.pattern for _, pattern, _ in uses()}
    assert tested
    for position, statement in _compiled():
        assert isinstance(statement, ast.AnnAssign), position
        assert isinstance(statement.target, ast.Name), position
        assert statement.target.id.isupper(), position


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_no_pattern_rescans_a_text(half: int) -> None:
    positions = list(readers_of("hostile.patterns", ()))[half::2]
    found = {
        position: growth(counts)
        for position, counts in count("hostile.patterns", names=positions).items()
        if growth(counts) is not None
    }
    assert found == {}


@pytest.mark.slow
def test_patterns_that_rescan_a_text_are_found() -> None:
    found = {name: growth(counts) is None for (name, _), counts in count("hostile.rescanning", seconds=2).items()}
    assert found == {
        "numbers of JSON": False,
        "numbers with a suffix": False,
        "blanks at the end": False,
        "words": True,
        "ambiguous words": False,
    }
