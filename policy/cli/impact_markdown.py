"""The impact of a fleet as Markdown for a pull request: it fits a screen, and folds the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.cli.markdown import bounded, cell, code_span, code_text, details
from policy.impact.counts import ReleaseCounts
from policy.impact.rows import LABELS, cause_of, headline
from policy.impact.summary import WORDS
from policy.messages import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.impact.counts import ImpactCounts
    from policy.impact.rows import ImpactRow, ImpactRows

MAX_SHOWN: Final = 10
"""How many deployments are not folded."""
MAX_FOLDED: Final = 200
"""How many deployments are folded at most."""
COLUMNS: Final = ReleaseCounts.__struct_fields__


def markdown(rows: ImpactRows[Any], counts: ImpactCounts, title: str) -> str:
    """A fleet's impact as Markdown that fits a screen and folds the rest."""
    changed = rows.worst()
    lines = [f"### {title}", "", f"**{headline(counts)}.**", ""]
    if changed:
        lines += [*_table(changed[:MAX_SHOWN]), ""]
    parts = [*details("Where each release stands", [*_releases(counts)])]
    if rest := changed[MAX_SHOWN : MAX_SHOWN + MAX_FOLDED]:
        parts += details(f"{counted(len(rest), 'more deployment', 'more deployments')}", [*_table(rest)])
    causes = rows.worst_causes()
    if causes:
        said = [
            f"- {cause.number:,}× {LABELS[cause.kind]} at {code_span(cause.at)}, {code_text(cause.rules)}"
            + ("" if cause.why == cause.rules else f": {code_text(cause.why)}")
            + (f"; {code_text(cause.action)}" if cause.action else "")
            for cause in causes[:MAX_FOLDED]
        ]
        parts = details("What makes the changes", said) + parts
    if remedies := rows.first_remedies():
        said = [
            f"- {each.number:,}× {code_text(each.text)}: {', '.join(map(code_text, each.names))}"
            + (f" and {each.number - len(each.names):,} more" if each.number > len(each.names) else "")
            for each in remedies[:MAX_FOLDED]
        ]
        parts = details("What helps", said) + parts
    if rows.undecided:
        said = [f"- {code_text(row.entry.title)}: {code_text(row.cause)}" for row in rows.undecided[:MAX_FOLDED]]
        parts += details(f"{counted(counts.undecided, 'deployment', 'deployments')} not decided", said)
    left = counts.deployments - counts.undecided - counts.unchanged - min(len(changed), MAX_SHOWN + MAX_FOLDED)
    end = [f"{left:,} more changed deployments are not listed."] if left else []
    return bounded("\n".join(lines), parts, end)


def _table(rows: list[ImpactRow[Any]]) -> Iterator[str]:
    yield "| change | deployment | made by | to do |"
    yield "|---|---|---|---|"
    for row in rows:
        name, cause, *actions = map(
            cell, (row.entry.name, cause_of(row.summary), row.summary.action, row.summary.remedy)
        )
        yield f"| {_change(row)} | {name} | {cause} | {'; '.join(filter(None, actions))} |"


def _change(row: ImpactRow[Any]) -> str:
    """The kind of a change, the runners unless the kind names them, and the release."""
    step = "" if row.step.replace("→", "to") == row.label else f", {row.step}"
    return f"{row.label}{step} at {cell(row.at)}"


def _releases(counts: ImpactCounts) -> Iterator[str]:
    yield f"| release | {' | '.join(WORDS[name] for name in COLUMNS)} |"
    yield f"|---|{'---:|' * len(COLUMNS)}"
    for release, found in counts.releases.items():
        yield f"| {cell(release)} | {' | '.join(f'{getattr(found, name):,}' for name in COLUMNS)} |"
