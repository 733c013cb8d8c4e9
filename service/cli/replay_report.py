"""The report of a replay: what is decided differently, with counts and examples, and the formats.

``FORMATS`` is the table of formats. ``jsonl`` and ``csv`` have every decision that differs, the others its groups.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.cli.markdown import bounded, cell, code_text, details
from policy.cli.outputs import Format, write_csv
from policy.decision.decision import encode
from policy.escaping import escape_line
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import KINDS, ReleaseChange
from policy.impact.rows import LABELS, PHRASES
from policy.impact.summary import summary_of_change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from policy.replay.groups import Group, Replay
    from policy.replay.records import Recorded

COLUMNS: Final = (
    "decision_id",
    "requested_by",
    "vllm_version",
    "change",
    "runner_before",
    "runner",
    "starts_before",
    "starts",
    "rules",
    "why",
    "action",
    "problem",
)
MAX_SHOWN: Final = 10
MAX_FOLDED: Final = 200


class ReplayReport(Struct):
    """What a format writes: each decision with what is decided now, then the ``replay``, complete at their end.

    ``name`` is that of the replayed answer, ``limit`` how many differences a table shows, ``is_complete`` whether the
    run was not interrupted.
    """

    results: Iterator[tuple[Recorded, ReleaseAnswer | Undecided, ReleaseChange | None]]
    replay: Replay
    name: str
    title: str
    limit: int
    is_complete: Callable[[], bool]


def finish(report: ReplayReport) -> Replay:
    """The replay after all decisions."""
    for _ in report.results:
        pass
    return report.replay


def headline(replay: Replay) -> str:
    """The counts in one sentence."""
    counts = replay.counts
    changed = counts.decisions - counts.undecided - counts.unchanged
    parts = [f"{number:,} {PHRASES[kind][number != 1]}" for kind in KINDS if (number := counts.kinds[str(kind)])]
    whole = f"{counts.decisions:,} {'decision' if counts.decisions == 1 else 'decisions'}"
    text = f"{changed:,} of {whole} {'differs' if changed == 1 else 'differ'}"
    text += f": {', '.join(parts)}" if parts else ""
    if counts.undecided:
        text += f"; {counts.undecided:,} {'was' if counts.undecided == 1 else 'were'} not decided"
    return text


def text(report: ReplayReport) -> RenderableType:
    """The differences as tables, the worst first, what could not be decided, and the counts."""
    from rich.console import Group as Lines  # noqa: PLC0415  # other formats need no rich
    from rich.text import Text  # noqa: PLC0415  # as above

    from policy.render import QUIET, STRONG  # noqa: PLC0415  # as above
    from policy.render_rows import table_of  # noqa: PLC0415  # as above

    replay = finish(report)
    groups = replay.groups()
    parts: list[RenderableType] = []
    if groups:
        table = table_of("change", "decisions", "runner", "made by")
        table.columns[1].justify = "right"
        for group in groups[: report.limit]:
            step, made = escape_line(group.step), escape_line(_made_by(group))
            table.add_row(LABELS[group.kind], f"{group.decisions:,}", step, made)
        parts += [table, Text()]
        for group in groups[: report.limit]:
            examples = ", ".join(f"{each.decision_id} ({each.requested_by})" for each in group.examples)
            action = f"; {group.action}" if group.action else ""
            parts.append(Text(escape_line(f"{_made_by(group)}: {group.why}{action}")))
            parts.append(Text(escape_line(f"  such as {examples}"), QUIET))
        if left := len(groups) - report.limit:
            parts += [Text(f"… and {left:,} more; `--limit N` shows more", QUIET)] if left > 0 else []
        parts.append(Text())
    if replay.reasons:
        parts.append(Text("Not decided", STRONG))
        for reason, number in _reasons(replay)[: report.limit]:
            parts.append(Text(escape_line(f"{number:,}× {reason}")))
        parts.append(Text())
    return Lines(*parts, Text(headline(replay), STRONG))


def _made_by(group: Group) -> str:
    return ", ".join(group.rules) or group.why


def _reasons(replay: Replay) -> list[tuple[str, int]]:
    return sorted(replay.reasons.items(), key=lambda each: (-each[1], each[0]))


def _text(report: ReplayReport, target: IO[bytes]) -> None:
    from policy.render import as_text  # noqa: PLC0415  # other formats need no rich

    target.write(as_text(text(report)).encode())


def _json(report: ReplayReport, target: IO[bytes]) -> None:
    replay = finish(report)
    document = {
        "name": report.name,
        "groups": replay.groups(),
        "undecided": replay.undecided,
        "undecided_reasons": dict(_reasons(replay)),
        "counts": replay.counts,
        "complete": report.is_complete(),
    }
    target.write(encode(document) + b"\n")


def _json_lines(report: ReplayReport, target: IO[bytes]) -> None:
    for recorded, after, change in report.results:
        if isinstance(after, Undecided):
            line = {"decision_id": recorded.decision_id, "place": recorded.place, "problem": after.problem}
        elif change is not None:
            line = {
                "decision_id": recorded.decision_id,
                "requested_by": recorded.requested_by,
                "vllm_version": recorded.vllm_version,
                "change": change,
                "before": recorded.before,
                "after": after,
            }
        else:
            continue
        target.write(encode(line) + b"\n")
    target.write(encode({"counts": report.replay.counts, "complete": report.is_complete()}) + b"\n")


def _csv(report: ReplayReport, target: IO[bytes]) -> None:
    write_csv(target, COLUMNS, (row for each in report.results if (row := _row(*each)) is not None))


def _row(recorded: Recorded, after: ReleaseAnswer | Undecided, change: ReleaseChange | None) -> tuple[Any, ...] | None:
    own = (recorded.decision_id, recorded.requested_by, recorded.vllm_version)
    if isinstance(after, Undecided):
        return (*own, *[None] * (len(COLUMNS) - len(own) - 1), after.problem.detail)
    if change is None or recorded.before is None:
        return None
    summary = summary_of_change(change, recorded.before, after)
    sides = (*change.runner, *change.starts)
    return (*own, str(change.kind), *sides, " ".join(change.rules), summary.why, summary.action, "")


def _markdown(report: ReplayReport, target: IO[bytes]) -> None:
    target.write(markdown(report).encode() + b"\n")


def markdown(report: ReplayReport) -> str:
    """A summary for a pull request: ten differences, the rest and the examples folded."""
    replay = finish(report)
    groups = replay.groups()
    head = [f"### {report.title}", "", f"**{headline(replay)}.**", ""]
    head += [*_table(groups[:MAX_SHOWN]), ""] if groups else []
    parts: list[str] = []
    if groups:
        said = []
        for group in groups[:MAX_FOLDED]:
            examples = ", ".join(code_text(each.decision_id) for each in group.examples)
            action = f"; {code_text(group.action)}" if group.action else ""
            said.append(f"- {LABELS[group.kind]}, {code_text(_made_by(group))}: {code_text(group.why)}{action}")
            said.append(f"  such as {examples}")
        parts += details("What makes the differences, with examples", said)
    if rest := groups[MAX_SHOWN : MAX_SHOWN + MAX_FOLDED]:
        parts += details(f"{len(rest):,} more differences", [*_table(rest)])
    if replay.reasons:
        said = [f"- {number:,}× {code_text(reason)}" for reason, number in _reasons(replay)[:MAX_FOLDED]]
        number = replay.counts.undecided
        parts += details(f"{number:,} {'decision' if number == 1 else 'decisions'} not decided", said)
    left = len(groups) - MAX_SHOWN - MAX_FOLDED
    return bounded("\n".join(head), parts, [f"{left:,} more differences are not listed."] if left > 0 else [])


def _table(groups: list[Group]) -> Iterator[str]:
    yield "| change | decisions | runner | made by | to do |"
    yield "|---|---:|---|---|---|"
    for group in groups:
        step, made, action = (cell(each) for each in (group.step, _made_by(group), group.action))
        yield f"| {LABELS[group.kind]} | {group.decisions:,} | {step} | {made} | {action} |"


FORMATS: Final = {
    "text": Format(_text, (".txt",), tables=text),
    "json": Format(_json, (".json",)),
    "jsonl": Format(_json_lines, (".jsonl", ".ndjson")),
    "csv": Format(_csv, (".csv",)),
    "markdown": Format(_markdown, (".md",)),
}
"""The formats by name."""
