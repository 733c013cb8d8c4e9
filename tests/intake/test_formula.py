"""Formulas of the tables: what each operation means, and that every computation ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from policy.intake.model.formula import (
    MAX_COMPILED,
    MAX_ITEMS,
    Incomputable,
    TooManyIterations,
    compute,
    request_iterations,
)
from policy.intake.model.tables import releases, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUES: dict[str, Any] = {"n": 4, "names": ["a", "b"], "text": "Deep-Eagle", "none": None, "part": {"x": 1}}
MEANINGS: list[tuple[Any, Any]] = [
    (3, 3),
    ({"a": 1}, {"a": 1}),
    (["key", "n"], 4),
    (["key", "missing"], None),
    (["stated", "n"], True),
    (["stated", "missing"], False),
    (["given", "n", 1], 4),
    (["given", "missing", ["+", 1, 2]], 3),
    (["items", 1, ["key", "n"]], [1, 4]),
    (["if", ["key", "none"], 1, 2], 2),
    (["and", 1, 0, ["%", 1, 0]], 0),
    (["or", 0, "x", ["%", 1, 0]], "x"),
    (["or"], None),
    (["for each", ["range", ["key", "n"]], ["%", ["each"], 2]], [0, 1, 0, 1]),
    (["where", ["range", 1, 5], [">", ["each"], 2]], [3, 4]),
    (["for each", ["key", "names"], ["+", ["each"], "!"]], ["a!", "b!"]),
    (["remap", ["items", "mamba", "other"]], ["linear_attention", "other"]),
    (["min", 3, 2], 2),
    (["max", 3, 2], 3),
    (["*", ["items", 1], 2], [1, 1]),
    (["*", 2, ["items", 1]], [1, 1]),
    (["//", 5, 2], 2),
    (["-", 5, 2], 3),
    (["first", ["key", "names"], 1], ["a"]),
    (["at", ["key", "names"], 1], "b"),
    (["at", {"M": "mamba"}, "M"], "mamba"),
    (["at", ["mapping", [0, "sliding"], [4, "sparse"]], ["key", "n"]], "sparse"),
    (["get", ["key", "part"], "x", 0], 1),
    (["get", ["key", "part"], "y", 0], 0),
    (["in", "a", ["key", "names"]], True),
    (["in", "Eagle", ["key", "text"]], True),
    (["not in", "c", ["key", "names"]], True),
    (["starts", ["key", "text"], "Deep"], True),
    (["ends", ["key", "text"], "Eagle"], True),
    (["lower", ["key", "text"]], "deep-eagle"),
    (["not", ["bool", ["int", "0"]]], True),
    (["len", ["list", ["range", 3]]], 3),
    (["dict", ["key", "part"]], {"x": 1}),
    (["==", ["key", "none"], None], True),
    (["!=", 1, 2], True),
    (["<", 1, 2], True),
    (["<=", 1, ["key", "n"]], True),
    ([">=", 1, 2], False),
]


@table(("formula", "expected"), MEANINGS)
def test_an_operation_has_one_meaning(formula: Any, expected: Any) -> None:
    assert compute(formula, VALUES.get, VALUES, {"mamba": "linear_attention"}) == expected


INVALID: list[Any] = [
    [],
    ["unreadable"],
    ["no such", 1, 2],
    ["if", 1],
    ["range"],
    ["*", ["items", 1], 10**9],
    ["*", ["items", 1], "x"],
    ["*", "x", 10**9],
    ["%", "%999999999d", 1],
    ["//", "x", 1],
    ["range", "three"],
    ["range", 10**9],
    ["range", 10**400],
    ["for each", 3, 1],
    ["for each", ["range", 300], ["for each", ["range", 300], 1]],
    ["%", 1, 0],
    ["at", ["items"], 0],
    ["at", {}, "x"],
    ["get", ["items"], "x", 0],
    ["lower", 3],
    ["starts", None, "x"],
    ["<", None, 1],
    ["int", float("inf")],
    ["int", "9" * 5000],
    ["dict", 1],
    ["in", 1, None],
    ["remap", ["items", ["items"]]],
]


@table("formula", INVALID)
def test_an_invalid_formula_is_incomputable(formula: Any) -> None:
    with pytest.raises(Incomputable):
        compute(formula, VALUES.get)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["full_attention", "*", "M*", 10**400, 10**9]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=8,
)


def every_formula() -> Iterator[Any]:
    for release in (releases()[0], releases()[-1]):
        found = tables(release)
        yield from (formula for kind in found.configs.values() for formula in kind.formulas.values())
        yield from (
            formula
            for row in (*found.constants["mtp_overrides"], *found.constants["draft_overrides"])
            for formula in row.values()
        )
        yield from (found.constants[name] for name in ("draft_method", "async_scheduling", "prefix_caching"))


FORMULAS = list(every_formula())


@given(value=JSON, other=JSON, index=st.integers(0, len(FORMULAS) - 1))
def test_a_formula_of_the_tables_has_a_value_or_none_for_any_values(value: Any, other: Any, index: int) -> None:
    try:
        found = compute(
            FORMULAS[index], lambda name: value if len(name) % 2 else other, {"full_attention_interval": value}
        )
    except Incomputable:
        return
    assert not isinstance(found, list) or len(found) <= MAX_ITEMS


def test_any_number_of_formulas_can_be_computed() -> None:
    formulas = [["items", number] for number in range(MAX_COMPILED + 2)]
    assert [compute(formula, VALUES.get) for formula in formulas] == [[number] for number in range(MAX_COMPILED + 2)]


def test_the_formulas_of_a_request_have_a_common_limit() -> None:
    formula = ["for each", ["range", 100], ["each"]]
    with request_iterations(300) as iterations:
        for _ in range(3):
            compute(formula, VALUES.get)
        assert iterations.remaining == 0
        with pytest.raises(TooManyIterations):
            compute(formula, VALUES.get)
    assert len(compute(formula, VALUES.get)) == 100
