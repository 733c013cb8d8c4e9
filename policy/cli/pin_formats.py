"""The formats of a report about pins.

``FORMATS`` is the table of formats; each writes a stream of pins and then their counts.
"""

from __future__ import annotations

from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final

from policy.cli.console import out
from policy.cli.outputs import Format, write_csv
from policy.cli.pin_markdown import markdown
from policy.cli.pin_rows import rows_of, value_text
from policy.decision.decision import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from policy.cli.pin_rows import PinLine, PinReport

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


def _text(report: PinReport, target: IO[bytes]) -> None:
    from policy.cli.pin_text import text  # noqa: PLC0415  # other formats need no rich
    from policy.render import WIDTH, as_text  # noqa: PLC0415  # as above

    target.write(as_text(text(rows_of(report), report, WIDTH)).encode())


def _tables(report: PinReport) -> RenderableType:
    from policy.cli.pin_text import text  # noqa: PLC0415  # as above

    return text(rows_of(report), report, out.console.width)


def _markdown(report: PinReport, target: IO[bytes]) -> None:
    target.write(markdown(rows_of(report), report).encode() + b"\n")


def _item(line: PinLine) -> bytes:
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


def _json(report: PinReport, target: IO[bytes]) -> None:
    target.write(b'{"targets":%b,"items":[' % encode(report.targets))
    separator = b"\n"
    for line in report.lines:
        target.write(separator + _item(line))
        separator = b",\n"
    target.write(b'\n],"counts":%b,"complete":%b}\n' % (encode(report.counts), encode(report.is_complete())))


def _json_lines(report: PinReport, target: IO[bytes]) -> None:
    for line in report.lines:
        target.write(_item(line) + b"\n")
    target.write(b'{"counts":%b,"complete":%b}\n' % (encode(report.counts), encode(report.is_complete())))


def _csv(report: PinReport, target: IO[bytes]) -> None:
    write_csv(target, COLUMNS, chain.from_iterable(map(_rows, report.lines)))


def _rows(line: PinLine) -> Iterator[tuple[Any, ...]]:
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


FORMATS: Final = {
    "text": Format(_text, (".txt",), tables=_tables),
    "json": Format(_json, (".json",)),
    "jsonl": Format(_json_lines, (".jsonl", ".ndjson")),
    "csv": Format(_csv, (".csv",)),
    "markdown": Format(_markdown, (".md",)),
}
"""The formats by name."""
