"""The impact of a fleet as Markdown for a pull request: it fits a screen, and folds the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.cli.markdown import code_span
from policy.impact.counts import ReleaseCounts
from policy.impact.rows import LABELS, cause_of, headline
from policy.impact.summary import WORDS
from policy.messages import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.impact.counts import ImpactCounts
    from policy.impact.rows import Row, Rows

SHOWN: Final = 10
"""The deployments that are not folded."""
FOLDED: Final = 200
"""The deployments that are folded."""
MAX_MARKDOWN: Final = 60_000
"""Characters of Markdown; a comment of GitHub may have 65,536."""
MAX_WHY: Final = 300
COLUMNS: Final = ReleaseCounts.__struct_fields__


def markdown(rows: Rows[Any], counts: ImpactCounts, title: str) -> str:
    """A fleet's impact as Markdown that fits a screen and folds the rest."""
    changed = rows.worst()
    lines = [f"### {title}", "", f"**{headline(counts)}.**", ""]
    if changed:
        lines += [*_table(changed[:SHOWN]), ""]
    parts = [*details("Where each release stands", [*_releases(counts)])]
    if rest := changed[SHOWN : SHOWN + FOLDED]:
        parts += details(f"{counted(len(rest), 'more deployment', 'more deployments')}", [*_table(rest)])
    causes = rows.worst_causes()
    if causes:
        said = [
            f"- {cause.number:,}× {LABELS[cause.kind]} at {code_span(cause.at)}, {code_text(cause.rules)}"
            + ("" if cause.why == cause.rules else f": {code_text(cause.why)}")
            + (f"; {code_text(cause.action)}" if cause.action else "")
            for cause in causes[:FOLDED]
        ]
        parts = details("What makes the changes", said) + parts
    if remedies := rows.first_remedies():
        said = [
            f"- {each.number:,}× {code_text(each.text)}: {', '.join(map(code_text, each.names))}"
            + (f" and {each.number - len(each.names):,} more" if each.number > len(each.names) else "")
            for each in remedies[:FOLDED]
        ]
        parts = details("What helps", said) + parts
    if rows.undecided:
        said = [f"- {code_text(row.entry.title)}: {code_text(row.cause)}" for row in rows.undecided[:FOLDED]]
        parts += details(f"{counted(counts.undecided, 'deployment', 'deployments')} not decided", said)
    left = counts.deployments - counts.undecided - counts.unchanged - min(len(changed), SHOWN + FOLDED)
    end = [f"{left:,} more changed deployments are not listed."] if left else []
    return bounded("\n".join(lines), parts, end)


def bounded(head: str, parts: list[str], end: list[str]) -> str:
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


def details(title: str, lines: list[str]) -> list[str]:
    """Lines of Markdown, folded below a title."""
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _table(rows: list[Row[Any]]) -> Iterator[str]:
    yield "| change | deployment | made by | to do |"
    yield "|---|---|---|---|"
    for row in rows:
        name, cause, *actions = map(
            cell, (row.entry.name, cause_of(row.summary), row.summary.action, row.summary.remedy)
        )
        yield f"| {_change(row)} | {name} | {cause} | {'; '.join(filter(None, actions))} |"


def _change(row: Row[Any]) -> str:
    """The kind of a change, the runners unless the kind names them, and the release."""
    step = "" if row.step.replace("→", "to") == row.label else f", {row.step}"
    return f"{row.label}{step} at {cell(row.at)}"


def _releases(counts: ImpactCounts) -> Iterator[str]:
    yield f"| release | {' | '.join(WORDS[name] for name in COLUMNS)} |"
    yield f"|---|{'---:|' * len(COLUMNS)}"
    for release, found in counts.releases.items():
        yield f"| {cell(release)} | {' | '.join(f'{getattr(found, name):,}' for name in COLUMNS)} |"


def cell(value: str) -> str:
    """A text as code in a cell of a table, which a pipe would end even inside code."""
    return code_text(value).replace("\\", "\\\\").replace("|", "\\|") if value else ""


def code_text(value: str) -> str:
    """A text as code, cut if it is long."""
    shown = value if len(value) <= MAX_WHY else f"{value[:MAX_WHY]}…"
    return code_span(shown)
