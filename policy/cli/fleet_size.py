"""How many deployments a fleet has, for the end of a run's progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from policy.cli.fleet_parquet import is_parquet, number_of_rows
from policy.cli.fleet_sources import LINES, MAX_LINE, first_lines, is_line, lines_of
from policy.cli.requests import Unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence


class FleetSize:
    """How many deployments a fleet has, as far as that is known while it is read.

    Lines of JSON and rows of Parquet are counted first, one deployment each; a manifest or a folder is counted when it
    has been read.
    """

    def __init__(self) -> None:
        self._records: dict[str, int | None] = {}
        self._number = self._left = 0
        self._uncounted: int | None = None

    @property
    def total(self) -> int | None:
        """The number of deployments; ``None`` if it is not known yet."""
        return self._number + self._left if self._uncounted == 0 else None

    def start(self, names: Sequence[str]) -> None:
        """Count the lines and rows of these inputs, before the first of them is read."""
        self._records = {name: number_of_records(name) for name in names}
        self._number = sum(self._records[name] or 0 for name in names)
        self._uncounted = sum(self._records[name] is None for name in names)

    def start_counted(self, number: int | None) -> None:
        """Take the number of records of a log, which counts them itself; ``None`` if it is not known."""
        self._number, self._uncounted = number or 0, int(number is None)

    def is_counted(self, name: str) -> bool:
        """Whether the deployments of an input were counted before it is read."""
        return self._records[name] is not None

    def add(self, number: int, left: int) -> None:
        """Count deployments that are used next; the same document has ``left`` items after them."""
        self._number += number
        self._left = left

    def end(self) -> None:
        """Note that the next document is the last one of its input."""
        if self._uncounted is not None:
            self._uncounted -= 1


def number_of_records(name: str) -> int | None:
    """The number of records of a file with lines of JSON or of a Parquet file; ``None`` if it is neither.

    A blank line is not a record, and the last line may have no newline. Nothing is counted in a file that cannot be
    read.
    """
    try:
        if not Path(name).is_file():
            return None
        if is_parquet(name):
            return number_of_rows(name)
        with Path(name).open("rb") as file:
            _, first = first_lines(file, MAX_LINE + 1)
            if not (name.endswith(LINES) or is_line(first)):
                return None
            return sum(1 for _ in lines_of(first, file, most=MAX_LINE))
    except (OSError, ValueError, Unreadable):
        return None
