"""Format what engines did, next to what was decided for them, as a table for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET
from rich.console import Group
from rich.text import Text

from policy.decision.decision import NO_RUNNER, OWN_RUNNER
from policy.escaping import escape_line
from policy.observation.comparison import LogVerdict
from policy.problems import fault_lines
from policy.render import BAD, GOOD, STRONG, compact
from policy.render_rows import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from policy.observation.comparison import LogComparison, LogDifference

STYLES: Final[dict[str, str]] = {
    LogVerdict.AGREED: GOOD,
    LogVerdict.DIFFERED: BAD,
    LogVerdict.UNRELATED: STRONG,
    LogVerdict.UNDECIDED: STRONG,
}
UNKNOWN: Final = "-"


def comparisons(rows: Sequence[LogComparison]) -> RenderableType:
    """The engines of a log, a row each, and below them what differed and why."""
    table = table_of("verdict", "decided", "log", "vLLM", "engine")
    details: list[RenderableType] = []
    for row in rows:
        name = engine_name(row)
        verdict = Text(row.verdict, STYLES[row.verdict])
        release = row.observed.release or " or ".join(row.observed.releases) or UNKNOWN
        table.add_row(
            verdict, _decided(row), _observed(row), Text(escape_line(release)), Text(escape_line(name), STRONG)
        )
        lines = list(_lines(row))
        if lines:
            details += [Text(), Text(escape_line(name), STRONG), *lines]
    return Group(table, *details)


def engine_name(row: LogComparison) -> str:
    """The name of an engine: its place in the log, or its model, with the line at which its log begins."""
    observed = row.observed
    name = observed.source or row.engine or observed.model or "engine"
    return f"{name}, line {observed.first_line}"


def _decided(row: LogComparison) -> str:
    predicted = row.predicted
    if predicted is None:
        return UNKNOWN
    runner = predicted.runner.upper() if predicted.runner else OWN_RUNNER if predicted.starts else NO_RUNNER
    return f"{runner}, {'starts' if predicted.starts else 'does not start'}"


def _observed(row: LogComparison) -> str:
    observed = row.observed
    runner = observed.runner.upper() if observed.runner else "no runner shown"
    state = "no end shown" if observed.starts is None else "started" if observed.starts else "did not start"
    return f"{runner}, {state}"


def _lines(row: LogComparison) -> list[Text]:
    found = [text for difference in row.differences for text in _difference(difference)]
    failure = row.observed.failure
    if failure is not None and not row.observed.starts:
        found.append(Text(escape_line(f"line {failure.line}: {failure.text}")))
    found += [Text(escape_line(note)) for note in row.notes]
    if row.problem is not UNSET:
        found += map(Text, fault_lines(row.problem))
    return found


def _difference(difference: LogDifference) -> list[Text]:
    values = f"decided {compact(difference.predicted)}, log {compact(difference.observed)}"
    head = Text.assemble((f"{difference.member}: ", BAD), escape_line(values))
    return [head, *(Text(escape_line(f"  {each.cause}: {each.message}")) for each in difference.explanations)]
