"""The impact of a fleet as tables on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from policy.escaping import escape_line
from policy.impact.changes import KINDS, ChangeKind
from policy.impact.counts import ReleaseCounts
from policy.impact.rows import LABELS, headline
from policy.impact.summary import WORDS
from policy.messages import counted
from policy.render import BAD, QUIET, STRONG, WIDTH, as_text
from policy.render_rows import table_of
from policy.request.items import ignored_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from policy.impact.counts import ImpactCounts
    from policy.impact.rows import ImpactRow, ImpactRows

STYLES: Final = {
    ChangeKind.NO_START: BAD,
    ChangeKind.LAUNCH_ERROR: BAD,
    ChangeKind.UNDECIDED: BAD,
    ChangeKind.RUNNER_WITH_PROBLEM: "yellow",
    ChangeKind.TO_V2: "yellow",
    ChangeKind.TO_V1: "yellow",
    ChangeKind.OTHER_RUNNER: "yellow",
    ChangeKind.PROBLEM: "yellow",
}
MAX_CAUSES_SHOWN: Final = 10
GAP: Final = 3
"""The blanks between two columns."""
MIN_NAME: Final = 16
DEPLOYMENT: Final = "deployment"
COLUMNS: Final = ReleaseCounts.__struct_fields__


def text(rows: ImpactRows[Any], counts: ImpactCounts, width: int = WIDTH) -> RenderableType:
    """A fleet's impact as tables: the worst deployments, the causes of the changes, and the counts."""
    parts: list[RenderableType] = []
    changed = rows.worst()
    if changed:
        parts += [_deployments(changed, width), *_cut(counts, len(changed)), Text(), *_causes(rows), Text()]
    if rows.remedies:
        parts += [*_remedies(rows), Text()]
    if rows.undecided:
        parts += [*_undecided(rows, counts), Text()]
    return Group(*parts, Text(headline(counts), STRONG), Text(), _by_kind(counts), Text(), _by_release(counts))


def answer_text(rows: ImpactRows[Any], counts: ImpactCounts, ignored: list[str]) -> str:
    """A fleet's impact as text, with the names of the objects in which nothing that starts vLLM was found."""
    found = as_text(text(rows, counts))
    return f"{found}\n{escape_line(ignored_objects(ignored))}\n" if ignored else found


def _deployments(changed: list[ImpactRow[Any]], width: int) -> RenderableType:
    """A line for each deployment, in this width: long names lose their start, as their end tells them apart."""
    releases = {row.at for row in changed}
    labels = ["change", *(["at"] if len(releases) > 1 else []), DEPLOYMENT, "made by"]
    table = table_of(*labels)
    for column in table.columns:
        column.no_wrap = True
        column.overflow = "ellipsis"
    used = max(len(row.label) for row in changed) + (max(map(len, releases)) + GAP if len(releases) > 1 else 0)
    left = max(2 * MIN_NAME, width - used - 2 * GAP)
    causes = [escape_line(row.cause) for row in changed]
    names = [escape_line(row.entry.name) for row in changed]
    longest = max(len(DEPLOYMENT), *map(cell_len, names))
    for_name = min(longest, max(left * 3 // 5, left - max(map(cell_len, causes))))
    for row, name, cause in zip(changed, names, causes, strict=True):
        change = row.summary.change
        assert change is not None
        at = [row.at] if len(releases) > 1 else []
        shown = Text(cause, QUIET)
        shown.truncate(max(left - for_name, MIN_NAME), overflow="ellipsis")
        table.add_row(Text(row.label, STYLES.get(change.kind, "")), *at, Text(end_of(name, for_name)), shown)
    return table


def end_of(name: str, width: int) -> str:
    """A name, or as much of its end as fits."""
    if cell_len(name) <= width:
        return name
    while cell_len(name) >= width:
        name = name[max(1, cell_len(name) - width) :]
    return f"…{name}"


def _cut(counts: ImpactCounts, shown: int) -> Iterator[RenderableType]:
    left = counts.deployments - counts.undecided - counts.unchanged - shown
    if left > 0:
        yield Text(f"… and {left:,} more; `--limit N` shows more, `--format csv` all", QUIET)


def _causes(rows: ImpactRows[Any]) -> Iterator[RenderableType]:
    yield Text("What makes the changes", STRONG)
    found = rows.worst_causes()
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for cause in found[:MAX_CAUSES_SHOWN]:
        action = f"; {cause.action}" if cause.action else ""
        why = "" if cause.why == cause.rules else f": {cause.why}"
        style = STYLES.get(cause.kind, "")
        said = escape_line(f"at {cause.at}, {cause.rules}{why}{action}")
        table.add_row(Text(f"{cause.number:,}×", style), Text.assemble((f"{LABELS[cause.kind]} ", style), said))
    yield table
    left = sum(cause.number for cause in found[MAX_CAUSES_SHOWN:]) + rows.others
    if left:
        yield Text(f"… and {counted(left, 'deployment', 'deployments')} by other causes", QUIET)


def _remedies(rows: ImpactRows[Any]) -> Iterator[RenderableType]:
    yield Text("What helps", STRONG)
    found = rows.first_remedies()
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for each in found[:MAX_CAUSES_SHOWN]:
        more = [f"{each.number - len(each.names):,} more"] if each.number > len(each.names) else []
        names = Text(escape_line(f" [{', '.join([*each.names, *more])}]"), QUIET)
        table.add_row(f"{each.number:,}×", Text.assemble(escape_line(each.text), names))
    yield table
    if left := sum(each.number for each in found[MAX_CAUSES_SHOWN:]) + rows.other_remedies:
        yield Text(
            f"… and {counted(left, 'deployment', 'deployments')} by other changes; `--format json` has all", QUIET
        )


def _undecided(rows: ImpactRows[Any], counts: ImpactCounts) -> Iterator[RenderableType]:
    yield Text("Not decided", STRONG)
    for row in rows.undecided:
        yield Text(escape_line(f"{row.entry.title}: {row.cause}"))
    if left := counts.undecided - len(rows.undecided):
        yield Text(f"… and {left:,} more", QUIET)


def _by_kind(counts: ImpactCounts) -> RenderableType:
    table = table_of("change", "deployments")
    table.columns[1].justify = "right"
    for kind in KINDS:
        if number := counts.kinds[str(kind)]:
            table.add_row(Text(LABELS[kind], STYLES.get(kind, "")), f"{number:,}")
    table.add_row("unchanged", f"{counts.unchanged:,}")
    if counts.undecided:
        table.add_row(Text("not decided", BAD), f"{counts.undecided:,}")
    table.add_row(Text("all", STRONG), Text(f"{counts.deployments:,}", STRONG))
    return table


def _by_release(counts: ImpactCounts) -> RenderableType:
    shown = [name for name in COLUMNS if any(getattr(found, name) for found in counts.releases.values())]
    table = table_of("release", *(WORDS[name] for name in shown))
    for column in table.columns[1:]:
        column.justify = "right"
    for release, found in counts.releases.items():
        table.add_row(escape_line(release), *(f"{getattr(found, name):,}" for name in shown))
    return table
