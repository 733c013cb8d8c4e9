"""A test over a table fails if a row does, and names all rows that fail."""

from __future__ import annotations

import inspect

import pytest
from tables import table


def test_every_row_is_called_and_each_that_fails_is_named() -> None:
    called = []

    @table(("word", "expected"), [("a", 1), pytest.param("bb", 3, id="two letters"), ("c", 1), ("", 1)])
    def test(word: str, expected: int) -> None:
        called.append(word)
        if len(word) != expected:
            raise ValueError(word)

    with pytest.raises(ExceptionGroup) as raised:
        test()
    assert raised.value.message == "2 of 4 rows:\ntwo letters\n'', 1\n"
    assert [(repr(error), error.__notes__) for error in raised.value.exceptions] == [
        ("ValueError('bb')", ["in the row two letters"]),
        ("ValueError('')", ["in the row '', 1"]),
    ]
    assert called == ["a", "bb", "c", ""]


def test_one_row_that_fails_is_the_error_of_the_test() -> None:
    @table("number", [1, 2], ids=["one", "two"])
    def test(number: int) -> None:
        if number > 1:
            pytest.fail("large")

    with pytest.raises(pytest.fail.Exception, match="large") as raised:
        test()
    assert raised.value.__notes__ == ["in the row two"]


def test_rows_that_pass_let_the_test_pass_with_its_fixtures_and_other_tables() -> None:
    called = []

    @table("first", [1, 2], ids=str)
    @table("second", "ab")
    def test(first: int, client: object, second: str) -> None:
        called.append((first, second, client))

    assert list(inspect.signature(test).parameters) == ["client"]
    test(client=None)
    assert called == [(1, "a", None), (1, "b", None), (2, "a", None), (2, "b", None)]


def test_a_table_has_rows_and_none_has_a_mark() -> None:
    with pytest.raises(AssertionError, match="a table without rows"):
        table("number", [])
    with pytest.raises(AssertionError, match="a row of a table has a mark"):
        table("number", [1, pytest.param(2, marks=pytest.mark.slow)])
    with pytest.raises(ValueError, match="argument"):
        table("first, second", [(1, 2), (1, 2, 3)])
