"""Tables for a terminal and for plain text: those of rich, and one for many rows, which takes a tenth of the time."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from rich import box
from rich.cells import cell_len
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType

GAP: Final = "   "
MIN_LAST_WIDTH: Final = 24
"""The least width of the last column; a narrower terminal gets a table of rich, whose columns all wrap."""


def table_of(*columns: str) -> Table:
    """An empty table whose cells wrap."""
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


class LongTable(Struct, frozen=True):
    """A table of texts of which only the last column wraps; it looks like one of ``table_of``."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType | Segment]:
        """The lines of the table."""
        *widths, longest = (max(map(cell_len, column)) for column in zip(self.header, *self.rows, strict=True))
        last = min(longest, options.max_width - sum(widths) - len(GAP) * len(widths))
        if last < min(longest, MIN_LAST_WIDTH):
            yield self._wrapping()
            return
        rule = "─" * (sum(widths) + len(GAP) * len(widths) + last)
        margin = "".join(" " * width + GAP for width in widths)
        strong = console.get_style("bold")
        for place, row in enumerate(chain([self.header], self.rows)):
            *cells, text = row
            beginning = "".join(
                f"{cell}{' ' * (width - cell_len(cell))}{GAP}" for cell, width in zip(cells, widths, strict=True)
            )
            lines = Text(text).wrap(console, last, overflow="fold") if cell_len(text) > last else [text]
            for line in map(str, lines):
                yield Segment(f"{beginning}{line}\n", None if place else strong)
                beginning = margin
            if not place:
                yield Segment(f"{rule}\n")

    def _wrapping(self) -> Table:
        table = table_of(*self.header)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table
