"""The report of a fleet's pins: what people read, the counts, and the formats.

``FORMATS`` is the table of formats; each writes a stream of pins and then their counts.
"""

from __future__ import annotations

import csv
import io
from typing import IO, TYPE_CHECKING, Any, Final

from msgspec import Struct
from rich.cells import cell_len

from policy.cli.impact_formats import csv_cell
from policy.cli.impact_markdown import bounded, cell, code_text, details
from policy.decision.decision import encode
from policy.escaping import escape_line
from policy.messages import counted
from policy.pins.pins import Source
from policy.pins.verdicts import MEANINGS, VERDICTS, Verdict
from policy.render_impact import end_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from policy.cli.fleet import Entry, Place
    from policy.pins.decider import PinVerdicts
    from policy.pins.run import PinCounts, Result
    from policy.pins.verdicts import PinAnswer

NOW: Final = "now"
COLUMNS: Final = (
    "deployment",
    "request_id",
    "file",
    "line",
    "column",
    "set_by",
    "at",
    "value",
    "release",
    "verdict",
    "rules",
    "why",
    "runner",
    "starts",
    "runner_without",
    "starts_without",
    "problem",
)
"""The columns of a row, one for each pin and release."""
BY: Final = {
    Source.FACTS: "a stated fact",
    Source.VARIABLES: "a variable",
    Source.COMMAND: "the command",
    Source.IMAGE: "the image",
}
SHOWN: Final = 10
FOLDED: Final = 200
MAX_CAUSES: Final = 1_000
MAX_CAUSES_SHOWN: Final = 10
MIN_NAME: Final = 16
GAP: Final = 3


class Line(Struct, frozen=True):
    """A deployment's pin with its place; a deployment that cannot be read has none, and ``problem`` says why."""

    entry: Entry
    place: Place
    from_: str | None
    pin: PinVerdicts | None
    problem: str = ""
    result: Result | None = None


class Report(Struct):
    """What a format writes: the pins in the order of the fleet, then the ``counts``, which are complete at their end.

    ``limit`` is how many pins a table shows; ``is_complete`` whether the run was not interrupted.
    """

    lines: Iterator[Line]
    counts: PinCounts
    targets: tuple[str, ...]
    title: str
    limit: int
    is_complete: Callable[[], bool]


class Cause(Struct):
    """What makes a verdict in the same releases for how many pins, with the words of the first."""

    verdict: Verdict
    releases: str
    rules: str
    why: str
    number: int = 0


class Rows(Struct):
    """The worst pins, at most ``limit``, as many deployments that cannot be read, and what makes the verdicts."""

    limit: int
    pins: list[tuple[tuple[int, int, int], Line]] = []
    unread: list[Line] = []
    causes: dict[tuple[str, str, str], Cause] = {}
    number: int = 0

    def add(self, line: Line) -> None:
        """Add a pin, or a deployment that cannot be read."""
        self.number += 1
        if line.pin is None:
            if len(self.unread) < self.limit:
                self.unread.append(line)
            return
        rank = (VERDICTS.index(line.pin.now), VERDICTS.index(line.pin.worst), self.number)
        self.pins.append((rank, line))
        if len(self.pins) > 2 * self.limit:
            self.cut()
        for answer, releases in _by_cause(line):
            key = (str(answer.verdict), releases, " ".join(answer.rules))
            if key not in self.causes and len(self.causes) < MAX_CAUSES:
                self.causes[key] = Cause(answer.verdict, releases, ", ".join(answer.rules), answer.why)
            if key in self.causes:
                self.causes[key].number += 1

    def cut(self) -> None:
        """Keep the worst pins only."""
        self.pins.sort(key=lambda each: each[0])
        del self.pins[self.limit :]


def _by_cause(line: Line) -> Iterator[tuple[PinAnswer, str]]:
    """The different verdicts of a pin, each with its releases, such as ``now, 0.22.0 to 0.24.0``."""
    assert line.pin is not None
    groups: dict[tuple[str, str], tuple[PinAnswer, list[list[str]]]] = {}
    before = None
    for release, answer in line.pin.releases.items():
        key = (str(answer.verdict), " ".join(answer.rules))
        shown = NOW if line.from_ == release else release
        _, runs = groups.setdefault(key, (answer, []))
        if key == before and runs[-1][-1] != NOW:
            runs[-1].append(shown)
        else:
            runs.append([shown])
        before = key
    for answer, runs in groups.values():
        yield answer, ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def rows_of(report: Report) -> Rows:
    """The rows that people read."""
    rows = Rows(report.limit, [], [], {})
    for line in report.lines:
        rows.add(line)
    rows.cut()
    return rows


def headline(counts: PinCounts) -> str:
    """The counts in one sentence."""
    parts = [f"{counts.now[str(verdict)]:,} {verdict}" for verdict in VERDICTS if counts.now[str(verdict)]]
    whole = counted(counts.deployments, "deployment", "deployments")
    text = f"{counts.pinned:,} of {whole} {'has' if counts.pinned == 1 else 'have'} a pin"
    text += f"; {counted(counts.pins, 'pin', 'pins')}: {', '.join(parts)}" if parts else ""
    if counts.unread:
        text += f"; {counts.unread:,} could not be read"
    return text


def later_text(line: Line) -> str:
    """The verdicts of the releases after the first, each where it changes, such as ``0.33.0 redundant``."""
    assert line.pin is not None
    found, before = [], line.pin.now
    for release, answer in [*line.pin.releases.items()][1:]:
        if answer.verdict is not before:
            found.append(f"{release} {answer.verdict}")
            before = answer.verdict
    return ", ".join(found)


def value_text(pin: PinVerdicts) -> str:
    """The value as people read it."""
    return "?" if pin.value is None else f"{pin.value}".lower() if type(pin.value) is bool else str(pin.value)


def text(rows: Rows, report: Report, width: int) -> RenderableType:
    """The pins as tables, the worst first, what makes the verdicts, and the counts."""
    from rich.console import Group  # noqa: PLC0415  # other formats need no rich
    from rich.text import Text  # noqa: PLC0415  # as above

    from policy.render import QUIET, STRONG  # noqa: PLC0415  # as above

    counts = report.counts
    parts: list[RenderableType] = []
    if rows.pins:
        parts.append(_pins([line for _, line in rows.pins], width))
        if (left := counts.pins - len(rows.pins)) > 0:
            parts.append(Text(f"… and {left:,} more; `--limit N` shows more, `--format csv` all", QUIET))
        parts += [Text(), Text("What makes the verdicts", STRONG)]
        for cause in _causes(rows)[:MAX_CAUSES_SHOWN]:
            rule = f"{cause.rules}: " if cause.rules else ""
            parts.append(Text(escape_line(f"{cause.number:,}× {cause.verdict} at {cause.releases}, {rule}{cause.why}")))
        parts.append(Text())
    if rows.unread:
        parts.append(Text("Not read", STRONG))
        parts += [Text(escape_line(f"{line.entry.title}: {line.problem}")) for line in rows.unread]
        parts.append(Text())
    parts += [Text(headline(counts), STRONG), Text(), _counts(report)]
    return Group(*parts)


def _causes(rows: Rows) -> list[Cause]:
    """The causes, of the worst verdict first, then those of now, then by the number of pins."""
    return sorted(rows.causes.values(), key=_order)


def _order(cause: Cause) -> tuple[int, bool, int, str, str]:
    is_later = not cause.releases.startswith(NOW)
    return VERDICTS.index(cause.verdict), is_later, -cause.number, cause.releases, cause.rules


def _pins(lines: list[Line], width: int) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415  # other formats need no rich

    from policy.render import BAD, QUIET, table_of  # noqa: PLC0415  # as above

    later = [later_text(line) for line in lines]
    columns = ["verdict", "value", "deployment", "place", *(["later"] if any(later) else [])]
    table = table_of(*columns)
    for column in table.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    names = [escape_line(line.entry.name) for line in lines]
    places = [escape_line(_place(line)) for line in lines]
    left = width - 11 - max(5, *(len(value_text(line.pin)) for line in lines if line.pin)) - GAP * (len(columns) - 1)
    share = max(MIN_NAME, left // (len(columns) - 2))
    for line, name, place, then in zip(lines, names, places, later, strict=True):
        assert line.pin is not None
        style = {Verdict.FATAL: BAD, Verdict.HARMFUL: BAD, Verdict.NEEDED: ""}.get(line.pin.now, "yellow")
        cells = [Text(str(line.pin.now), style), Text(escape_line(value_text(line.pin)))]
        cells += [Text(_fit(name, share)), Text(_fit(place, share), QUIET)]
        if any(later):
            cells.append(Text(escape_line(then)))
        table.add_row(*cells)
    return table


def _fit(name: str, width: int) -> str:
    return name if cell_len(name) <= width else end_of(name, width)


def _place(line: Line) -> str:
    place = line.place
    position = f":{place.line}" + (f":{place.column}" if place.column else "") if place.line else ""
    return f"{place.file}{position}"


def _counts(report: Report) -> RenderableType:
    from policy.render import table_of  # noqa: PLC0415  # other formats need no rich

    shown = [v for v in VERDICTS if any(each[str(v)] for each in (report.counts.now, *report.counts.releases.values()))]
    table = table_of("release", *(str(verdict) for verdict in shown or VERDICTS))
    for column in table.columns[1:]:
        column.justify = "right"
    for release, found in _by_release(report):
        table.add_row(escape_line(release), *(f"{found[str(verdict)]:,}" for verdict in shown or VERDICTS))
    return table


def _by_release(report: Report) -> Iterator[tuple[str, dict[str, int]]]:
    yield NOW, report.counts.now
    yield from report.counts.releases.items()


def _text(report: Report, target: IO[bytes]) -> None:
    from policy.render import WIDTH, as_text  # noqa: PLC0415  # other formats need no rich

    target.write(as_text(text(rows_of(report), report, WIDTH)).encode())


def _markdown(report: Report, target: IO[bytes]) -> None:
    target.write(markdown(rows_of(report), report).encode() + b"\n")


def markdown(rows: Rows, report: Report) -> str:
    """The pins as Markdown that fits a screen and folds the rest."""
    counts = report.counts
    lines = [line for _, line in rows.pins]
    head = [f"### {report.title}", "", f"**{headline(counts)}.**", ""]
    head += [*_table(lines[:SHOWN]), ""] if lines else []
    verdicts = list(VERDICTS)
    table = [f"| release | {' | '.join(verdicts)} |", f"|---|{'---:|' * len(verdicts)}"]
    table += [
        f"| {cell(release)} | {' | '.join(f'{found[str(each)]:,}' for each in verdicts)} |"
        for release, found in _by_release(report)
    ]
    parts: list[str] = []
    if causes := _causes(rows):
        said = [
            f"- {cause.number:,}× {cause.verdict} at {cause.releases}"
            + (f", {code_text(cause.rules)}" if cause.rules else "")
            + (f": {code_text(cause.why)}" if cause.why else "")
            for cause in causes[:FOLDED]
        ]
        parts += details("What makes the verdicts", said)
    parts += details("Verdicts by release", table)
    if rest := lines[SHOWN : SHOWN + FOLDED]:
        parts += details(f"{counted(len(rest), 'more pin', 'more pins')}", [*_table(rest)])
    if rows.unread:
        said = [f"- {code_text(line.entry.title)}: {code_text(line.problem)}" for line in rows.unread[:FOLDED]]
        parts += details(f"{counted(counts.unread, 'deployment', 'deployments')} not read", said)
    left = counts.pins - min(len(lines), SHOWN + FOLDED)
    return bounded("\n".join(head), parts, [f"{left:,} more pins are not listed."] if left > 0 else [])


def _table(lines: list[Line]) -> Iterator[str]:
    yield "| verdict | value | deployment | place | later | why |"
    yield "|---|---|---|---|---|---|"
    for line in lines:
        assert line.pin is not None
        why = next(iter(line.pin.releases.values())).why
        cells = (value_text(line.pin), line.entry.name, _place(line), later_text(line), why)
        yield f"| {line.pin.now} | {' | '.join(cell(each) for each in cells)} |"


def _item(line: Line) -> bytes:
    """A pin as a JSON object: the deployment's name, the place, and what the pin does in each release."""
    entry = line.entry
    start = b'{"name":%b,"request_id":%b,"place":%b,' % (
        encode(entry.name),
        encode(getattr(entry.request, "request_id", None)),
        encode(line.place),
    )
    if line.pin is None:
        assert line.result is not None
        return b'%b"problem":%b}' % (start, encode(line.result.problem))
    pin = {
        "set_by": line.pin.source,
        "at": line.pin.at,
        "value": line.pin.value,
        "from": line.from_,
        "verdict": line.pin.now,
        "releases": line.pin.releases,
    }
    return start + encode(pin)[1:]


def _json(report: Report, target: IO[bytes]) -> None:
    target.write(b'{"targets":%b,"items":[' % encode(report.targets))
    separator = b"\n"
    for line in report.lines:
        target.write(separator + _item(line))
        separator = b",\n"
    target.write(b'\n],"counts":%b,"complete":%b}\n' % (encode(report.counts), encode(report.is_complete())))


def _json_lines(report: Report, target: IO[bytes]) -> None:
    for line in report.lines:
        target.write(_item(line) + b"\n")
    target.write(b'{"counts":%b,"complete":%b}\n' % (encode(report.counts), encode(report.is_complete())))


def _csv(report: Report, target: IO[bytes]) -> None:
    stream = io.TextIOWrapper(target, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in report.lines:
        writer.writerows([csv_cell(value) for value in row] for row in _rows(line))
    stream.detach()


def _rows(line: Line) -> Iterator[tuple[Any, ...]]:
    entry, place, pin = line.entry, line.place, line.pin
    own = (entry.name, getattr(entry.request, "request_id", None), place.file, place.line or None, place.column or None)
    if pin is None:
        yield (*own, *[None] * (len(COLUMNS) - len(own) - 1), line.problem)
        return
    for release, answer in pin.releases.items():
        without = answer.without
        yield (
            *own,
            str(pin.source),
            pin.at,
            value_text(pin),
            release,
            str(answer.verdict),
            " ".join(answer.rules),
            answer.why,
            answer.runner,
            answer.starts,
            None if without is None else without.runner,
            None if without is None else without.starts,
            "",
        )


class Format(Struct, frozen=True):
    """A format: how it is written, and the endings of its files."""

    write: Callable[[Report, IO[bytes]], None]
    suffixes: tuple[str, ...]
    is_binary: bool = False


FORMATS: Final = {
    "text": Format(_text, (".txt",)),
    "json": Format(_json, (".json",)),
    "jsonl": Format(_json_lines, (".jsonl", ".ndjson")),
    "csv": Format(_csv, (".csv",)),
    "markdown": Format(_markdown, (".md",)),
}
"""The formats by name."""
HELP: Final = "; ".join(f"`{verdict}`: {meaning}" for verdict, meaning in MEANINGS.items())
