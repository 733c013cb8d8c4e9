"""Tables whose every row is run by CI, and of which `make test` runs some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def slow_except(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """The values as parameters, slow except the ``quick`` ones, which are representative of all."""
    found = list(values)
    assert all(value in found for value in quick), quick
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in found]


def slow_rows_except(quick: Collection[Any], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As ``slow_except``, for rows with the values of several parameters."""
    found = list(rows)
    assert all(row in found for row in quick), quick
    return [row if row in quick else pytest.param(*row, marks=pytest.mark.slow) for row in found]
