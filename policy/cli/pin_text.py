"""A report about pins as tables for a terminal and for a text file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from policy.cli.pin_rows import by_release, headline, later_text, place_text, sorted_causes, value_text
from policy.escaping import escape_line
from policy.pins.verdicts import VERDICTS, PinVerdict
from policy.render import BAD, QUIET, STRONG
from policy.render_impact import end_of
from policy.render_rows import table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from policy.cli.pin_rows import PinLine, PinReport, PinRows
    from policy.pins.run import PinCounts

MAX_CAUSES_SHOWN: Final = 10
MIN_NAME: Final = 16
GAP: Final = 3


def text(rows: PinRows, report: PinReport, width: int) -> RenderableType:
    """The pins as tables, the worst first, what makes the verdicts, and the counts."""
    counts = report.counts
    parts: list[RenderableType] = []
    if rows.pins:
        parts.append(_pins([line for _, line in rows.pins], width))
        if (left := counts.pins - len(rows.pins)) > 0:
            parts.append(Text(f"… and {left:,} more; `--limit N` shows more, `--format csv` all", QUIET))
        parts += [Text(), Text("What makes the verdicts", STRONG)]
        for cause in sorted_causes(rows)[:MAX_CAUSES_SHOWN]:
            rule = f"{cause.rules}: " if cause.rules else ""
            parts.append(Text(escape_line(f"{cause.number:,}× {cause.verdict} at {cause.releases}, {rule}{cause.why}")))
        parts.append(Text())
    if rows.unread:
        parts.append(Text("Not read", STRONG))
        parts += [Text(escape_line(f"{line.entry.title}: {line.problem}")) for line in rows.unread]
        parts.append(Text())
    parts += [Text(headline(counts), STRONG), Text(), _counts(counts)]
    return Group(*parts)


def _pins(lines: list[PinLine], width: int) -> RenderableType:
    later = [later_text(line) for line in lines]
    columns = ["verdict", "value", "deployment", "place", *(["later"] if any(later) else [])]
    table = table_of(*columns)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    names = [escape_line(line.entry.name) for line in lines]
    places = [escape_line(place_text(line)) for line in lines]
    left = width - 11 - max(5, *(len(value_text(line.pin)) for line in lines if line.pin)) - GAP * (len(columns) - 1)
    share = max(MIN_NAME, left // (len(columns) - 2))
    for line, name, place, then in zip(lines, names, places, later, strict=True):
        assert line.pin is not None
        style = {PinVerdict.FATAL: BAD, PinVerdict.HARMFUL: BAD, PinVerdict.NEEDED: ""}.get(line.pin.now, "yellow")
        cells = [Text(str(line.pin.now), style), Text(escape_line(value_text(line.pin)))]
        cells += [Text(_fit(name, share)), Text(_fit(place, share), QUIET)]
        if any(later):
            cells.append(Text(escape_line(then)))
        table.add_row(*cells)
    return table


def _fit(name: str, width: int) -> str:
    return name if cell_len(name) <= width else end_of(name, width)


def _counts(counts: PinCounts) -> RenderableType:
    shown = [v for v in VERDICTS if any(each[str(v)] for each in (counts.now, *counts.releases.values()))]
    table = table_of("release", *(str(verdict) for verdict in shown or VERDICTS))
    for column in table.columns[1:]:
        column.justify = "right"
    for release, found in by_release(counts):
        table.add_row(escape_line(release), *(f"{found[str(verdict)]:,}" for verdict in shown or VERDICTS))
    return table
