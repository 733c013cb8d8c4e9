"""The impact of a fleet as tables on a terminal, and as Markdown for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from policy.cli.impact_rows import LABELS, cause_of, headline, place_text
from policy.cli.markdown import code_span
from policy.escaping import escape_line
from policy.impact.changes import KINDS, ChangeKind
from policy.impact.counts import ReleaseCounts
from policy.impact.summary import WORDS
from policy.messages import counted
from policy.render import BAD, QUIET, STRONG, WIDTH, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from policy.cli.impact_rows import Row, Rows
    from policy.impact.counts import ImpactCounts

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
SHOWN: Final = 10
"""The deployments of Markdown that are not folded."""
FOLDED: Final = 200
"""The deployments of Markdown that are folded."""
MAX_MARKDOWN: Final = 60_000
"""Characters of Markdown; a comment of GitHub may have 65,536."""
MAX_WHY: Final = 300
COLUMNS: Final = ReleaseCounts.__struct_fields__


def text(rows: Rows, counts: ImpactCounts, width: int = WIDTH) -> RenderableType:
    """A fleet's impact as tables: the worst deployments, what makes the changes, and the counts."""
    parts: list[RenderableType] = []
    changed = rows.worst()
    if changed:
        parts += [_deployments(changed, width), *_cut(counts, len(changed)), Text(), *_causes(rows), Text()]
    if rows.undecided:
        parts += [*_undecided(rows, counts), Text()]
    return Group(*parts, Text(headline(counts), STRONG), Text(), _by_kind(counts), Text(), _by_release(counts))


def _deployments(changed: list[Row], width: int) -> RenderableType:
    """A line for each deployment, in this width: long names lose their start, as their end tells them apart."""
    releases = {row.at for row in changed}
    labels = ["change", *(["at"] if len(releases) > 1 else []), "deployment", "made by"]
    table = table_of(*labels)
    for column in table.columns:
        column.no_wrap = True
        column.overflow = "ellipsis"
    used = max(len(row.label) for row in changed) + (max(map(len, releases)) + GAP if len(releases) > 1 else 0)
    left = max(2 * MIN_NAME, width - used - 2 * GAP)
    causes = [escape_line(row.cause) for row in changed]
    names = [escape_line(row.entry.name) for row in changed]
    for_name = min(max(map(cell_len, names)), max(left * 3 // 5, left - max(map(cell_len, causes))))
    for row, name, cause in zip(changed, names, causes, strict=True):
        change = row.summary.change
        assert change is not None
        at = [row.at] if len(releases) > 1 else []
        shown = Text(cause, QUIET)
        shown.truncate(max(left - for_name, MIN_NAME), overflow="ellipsis")
        table.add_row(Text(row.label, STYLES.get(change.kind, "")), *at, Text(_end_of(name, for_name)), shown)
    return table


def _end_of(name: str, width: int) -> str:
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


def _causes(rows: Rows) -> Iterator[RenderableType]:
    yield Text("What makes the changes", STRONG)
    found = rows.worst_causes()
    for cause in found[:MAX_CAUSES_SHOWN]:
        action = f"; {cause.action}" if cause.action else ""
        why = "" if cause.why == cause.rules else f": {cause.why}"
        yield Text.assemble(
            (f"{cause.number:,}× {LABELS[cause.kind]} ", STYLES.get(cause.kind, "")),
            escape_line(f"at {cause.at}, {cause.rules}{why}{action}"),
        )
    left = sum(cause.number for cause in found[MAX_CAUSES_SHOWN:]) + rows.others
    if left:
        yield Text(f"… and {counted(left, 'deployment', 'deployments')} by other causes", QUIET)


def _undecided(rows: Rows, counts: ImpactCounts) -> Iterator[RenderableType]:
    yield Text("Not decided", STRONG)
    for row in rows.undecided:
        yield Text(escape_line(f"{_named(row)}: {row.cause}"))
    if left := counts.undecided - len(rows.undecided):
        yield Text(f"… and {left:,} more", QUIET)


def _named(row: Row) -> str:
    """The name of a deployment and its place, unless that is its name."""
    place, name = place_text(row.entry), row.entry.name
    return place if name.startswith(row.entry.place.file) else f"{name} ({place})"


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


def markdown(rows: Rows, counts: ImpactCounts, title: str) -> str:
    """A fleet's impact as Markdown that fits a screen and folds the rest."""
    changed = rows.worst()
    lines = [f"### {title}", "", f"**{headline(counts)}.**", ""]
    if changed:
        lines += [*_table(changed[:SHOWN]), ""]
    parts = [*_details("Where each release stands", [*_releases(counts)])]
    if rest := changed[SHOWN : SHOWN + FOLDED]:
        parts += _details(f"{counted(len(rest), 'more deployment', 'more deployments')}", [*_table(rest)])
    causes = rows.worst_causes()
    if causes:
        said = [
            f"- {cause.number:,}× {LABELS[cause.kind]} at {code_span(cause.at)}, {_text(cause.rules)}"
            + ("" if cause.why == cause.rules else f": {_text(cause.why)}")
            + (f"; {_text(cause.action)}" if cause.action else "")
            for cause in causes[:FOLDED]
        ]
        parts = _details("What makes the changes", said) + parts
    if rows.undecided:
        said = [f"- {_text(_named(row))}: {_text(row.cause)}" for row in rows.undecided[:FOLDED]]
        parts += _details(f"{counted(counts.undecided, 'deployment', 'deployments')} not decided", said)
    left = counts.deployments - counts.undecided - counts.unchanged - min(len(changed), SHOWN + FOLDED)
    end = [f"{left:,} more changed deployments are not listed."] if left else []
    return _bounded("\n".join(lines), parts, end)


def _bounded(head: str, parts: list[str], end: list[str]) -> str:
    """The Markdown with as many whole lines of its folded parts as fit."""
    found, size = [head], len(head)
    is_cut, is_open = False, False
    for line in parts:
        closes = line == "</details>"
        if (is_cut or size + len(line) > MAX_MARKDOWN) and not (closes and is_open):
            is_cut = True
            continue
        is_open = not closes if line.startswith(("<details>", "</details>")) else is_open
        if closes and is_cut:
            found.append("")
        found.append(line)
        size += len(line) + 1
    if is_cut:
        end = [*end, "More was left out: a comment has a maximum length."]
    return "\n".join([*found, *end])


def _details(title: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _table(rows: list[Row]) -> Iterator[str]:
    yield "| change | at | runner | deployment | made by | to do |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        cells = (row.entry.name, cause_of(row.summary), row.summary.action)
        name, cause, action = (_cell(each) for each in cells)
        yield f"| {row.label} | {_cell(row.at)} | {row.step} | {name} | {cause} | {action} |"


def _releases(counts: ImpactCounts) -> Iterator[str]:
    yield f"| release | {' | '.join(WORDS[name] for name in COLUMNS)} |"
    yield f"|---|{'---:|' * len(COLUMNS)}"
    for release, found in counts.releases.items():
        yield f"| {_cell(release)} | {' | '.join(f'{getattr(found, name):,}' for name in COLUMNS)} |"


def _cell(value: str) -> str:
    """A text as code in a cell of a table, which a pipe would end even inside code."""
    return _text(value).replace("\\", "\\\\").replace("|", "\\|") if value else ""


def _text(value: str) -> str:
    shown = value if len(value) <= MAX_WHY else f"{value[:MAX_WHY]}…"
    return code_span(shown)
