"""Tests over tables: one test for all rows of a table, whose failure names each row that fails."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

LONGEST_NAME: Final = 200
"""The maximum number of characters of a row that a failure shows as its name."""


def table(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Iterable[str] | Callable[[Any], object] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test for each row, as ``pytest.mark.parametrize`` does, but report all rows as one test.

    pytest and xdist take longer for a test than most checks of a row: 1,882 tests of the intake took 16.5 s of
    processor time, and 9.0 s as 438 tests with tables. All rows are called, also after one that fails. They share the
    test's fixtures, so use it only if a row leaves those as they are.
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    found = [row if hasattr(row, "marks") else pytest.param(*((row,) if len(parameters) == 1 else row)) for row in rows]
    assert found, "a table without rows"
    assert not any(row.marks for row in found), "a row of a table has a mark"
    show = ids if callable(ids) else repr
    shown = None if ids is None or callable(ids) else list(ids)
    assert shown is None or len(shown) == len(found), "as many names as rows"
    calls = [dict(zip(parameters, row.values, strict=True)) for row in found]

    def name_of(place: int) -> str:
        """The name of a row, which only a failure shows: most rows take longer to write than to check."""
        row = found[place]
        name = shown[place] if shown else row.id or ", ".join(str(show(value)) for value in row.values)
        return str(name)[:LONGEST_NAME]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def test(**fixtures: Any) -> None:
            failures: list[tuple[str, BaseException]] = []
            for place, arguments in enumerate(calls):
                try:
                    function(**fixtures, **arguments)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  # reported with those of other rows
                    name = name_of(place)
                    error.add_note(f"in the row {name}")
                    failures.append((name, error))
            if len(failures) == 1:
                raise failures[0][1]
            if failures:  # Python shows the first 15 errors of a group, and its whole message
                names = "\n".join(name for name, _ in failures)
                message = f"{len(failures)} of {len(calls)} rows:\n{names}\n"
                raise BaseExceptionGroup(message, [error for _, error in failures])

        signature = inspect.signature(function)
        fixtures = [each for name, each in signature.parameters.items() if name not in parameters]
        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]  # pytest reads it
        return test

    return decorate
