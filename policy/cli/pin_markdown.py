"""A report about pins as Markdown, for a comment or a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.cli.markdown import bounded, cell, code_text, details
from policy.cli.pin_rows import by_release, headline, later_text, place_text, sorted_causes, value_text
from policy.messages import counted
from policy.pins.verdicts import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.pin_rows import PinLine, PinReport, PinRows

MAX_SHOWN: Final = 10
"""How many pins are shown unfolded."""
MAX_FOLDED: Final = 200
"""The most rows that a folded part has."""


def markdown(rows: PinRows, report: PinReport) -> str:
    """The pins as Markdown that fits a screen and folds the rest."""
    counts = report.counts
    lines = [line for _, line in rows.pins]
    head = [f"### {report.title}", "", f"**{headline(counts)}.**", ""]
    head += [*_table(lines[:MAX_SHOWN]), ""] if lines else []
    verdicts = list(VERDICTS)
    table = [f"| release | {' | '.join(verdicts)} |", f"|---|{'---:|' * len(verdicts)}"]
    table += [
        f"| {cell(release)} | {' | '.join(f'{found[str(each)]:,}' for each in verdicts)} |"
        for release, found in by_release(counts)
    ]
    parts: list[str] = []
    if causes := sorted_causes(rows):
        said = [
            f"- {cause.number:,}× {cause.verdict} at {cause.releases}"
            + (f", {code_text(cause.rules)}" if cause.rules else "")
            + (f": {code_text(cause.why)}" if cause.why else "")
            for cause in causes[:MAX_FOLDED]
        ]
        parts += details("What makes the verdicts", said)
    parts += details("Verdicts by release", table)
    if rest := lines[MAX_SHOWN : MAX_SHOWN + MAX_FOLDED]:
        parts += details(f"{counted(len(rest), 'more pin', 'more pins')}", [*_table(rest)])
    if rows.unread:
        said = [f"- {code_text(line.entry.title)}: {code_text(line.problem)}" for line in rows.unread[:MAX_FOLDED]]
        parts += details(f"{counted(counts.unread, 'deployment', 'deployments')} not read", said)
    left = counts.pins - min(len(lines), MAX_SHOWN + MAX_FOLDED)
    return bounded("\n".join(head), parts, [f"{left:,} more pins are not listed."] if left > 0 else [])


def _table(lines: list[PinLine]) -> Iterator[str]:
    yield "| verdict | value | deployment | place | later | why |"
    yield "|---|---|---|---|---|---|"
    for line in lines:
        assert line.pin is not None
        why = next(iter(line.pin.releases.values())).why
        cells = (value_text(line.pin), line.entry.name, place_text(line), later_text(line), why)
        yield f"| {line.pin.now} | {' | '.join(cell(each) for each in cells)} |"
