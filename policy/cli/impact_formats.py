"""The formats of a fleet's impact, and how each is written while the deployments are compared.

``FORMATS`` is the table of formats. A format writes a stream of results and then their counts.
"""

from __future__ import annotations

from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.cli.console import out
from policy.cli.impact_html import Data, html
from policy.cli.impact_sarif import MAX_RESULTS, sarif
from policy.cli.outputs import Format, write_csv
from policy.decision.decision import PolicyRef, encode
from policy.impact.items import item_json
from policy.impact.rows import ImpactRows
from policy.impact.run import json_piece, no_piece
from policy.impact.summary import COLUMNS, problem_row, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

    from rich.console import RenderableType

    from policy.cli.fleet import FleetEntry
    from policy.impact.counts import ImpactCounts
    from policy.impact.impact import ReleaseComparison
    from policy.impact.run import ImpactResult
    from policy.impact.targets import TargetRelease
    from policy.policy import Policy


class ImpactReport(Struct):
    """What a format writes: the results in their order, then the ``counts``, which are complete at their end.

    ``limit`` is how many deployments a table shows, ``day`` the day for which the rules decide, and ``is_complete``
    tells whether the run was not interrupted.
    """

    results: Iterator[tuple[FleetEntry, ImpactResult]]
    counts: ImpactCounts
    targets: tuple[TargetRelease, ...]
    policy: Policy
    title: str
    limit: int
    day: date
    is_complete: Callable[[], bool]


class ImpactFormat(Format[ImpactReport], frozen=True, kw_only=True):
    """A format; ``piece`` converts each comparison for it, and with ``reads_requests`` it shows places in requests."""

    piece: Callable[[ReleaseComparison], Any]
    reads_requests: bool = False


OWN_COLUMNS: Final = ("deployment", "request_id", "file", "line", "column")
"""The columns of a row before those of ``rows_of``."""
COLUMN_TYPES: Final = {"line": "int32", "column": "int32", "starts": "bool"}
"""The types of columns of Parquet that are not texts."""
ROWS_OF_BATCH: Final = 20_000


def _text(report: ImpactReport, target: IO[bytes]) -> None:
    from policy.render import as_text  # noqa: PLC0415  # other formats need no rich
    from policy.render_impact import text  # noqa: PLC0415  # as above

    target.write(as_text(text(collected(report), report.counts)).encode())


def _tables(report: ImpactReport) -> RenderableType:
    from policy.render_impact import text  # noqa: PLC0415  # other formats need no rich

    return text(collected(report), report.counts, out.console.width)


def _markdown(report: ImpactReport, target: IO[bytes]) -> None:
    from policy.cli.impact_markdown import markdown  # noqa: PLC0415  # only needed for Markdown

    target.write(markdown(collected(report), report.counts, report.title).encode() + b"\n")


def collected(report: ImpactReport) -> ImpactRows[FleetEntry]:
    """The rows that people read, of all results."""
    rows: ImpactRows[FleetEntry] = ImpactRows(report.limit)
    for entry, result in report.results:
        rows.add(entry, result.summary)
    return rows


def _json(report: ImpactReport, target: IO[bytes]) -> None:
    names, revision = [target.name for target in report.targets], PolicyRef(report.policy.revision)
    target.write(b'{"targets":%b,"policy":%b,"items":[' % (encode(names), encode(revision)))
    separator = b"\n"
    for entry, result in report.results:
        target.write(separator + _item(entry, result))
        separator = b",\n"
    target.write(b'\n],"counts":%b,"complete":%b}\n' % (encode(report.counts), encode(report.is_complete())))


def _json_lines(report: ImpactReport, target: IO[bytes]) -> None:
    for entry, result in report.results:
        target.write(_item(entry, result) + b"\n")
    target.write(b'{"counts":%b,"complete":%b}\n' % (encode(report.counts), encode(report.is_complete())))


def _item(entry: FleetEntry, result: ImpactResult) -> bytes:
    """A deployment as a JSON object: its name and place, and the fields of its ``ReleaseComparison`` or the problem."""
    return item_json(entry.name, entry.request_id, entry.place, result.problem or result.piece)


def row_piece(found: ReleaseComparison) -> tuple[tuple[Any, ...], ...]:
    """A comparison as columns of rows."""
    return tuple(zip(*rows_of(found), strict=True))


def _columns(entry: FleetEntry, result: ImpactResult) -> tuple[tuple[Any, ...], ...]:
    piece = result.piece
    if piece is None:
        piece = tuple((value,) for value in problem_row(result.summary.why))
    number = len(piece[0])
    place = entry.place
    own = (entry.name, entry.request_id, place.file, place.line or None, place.column or None)
    return (*((value,) * number for value in own), *piece)


def _csv(report: ImpactReport, target: IO[bytes]) -> None:
    rows = (zip(*_columns(entry, result), strict=True) for entry, result in report.results)
    write_csv(target, [*OWN_COLUMNS, *COLUMNS], chain.from_iterable(rows))


def _parquet(report: ImpactReport, target: IO[bytes]) -> None:
    from arro3.core import Array, DataType, Field, RecordBatch, Schema  # noqa: PLC0415  # only needed for Parquet

    from policy.parquet_output import write_batches  # noqa: PLC0415  # as above

    names = [*OWN_COLUMNS, *COLUMNS]
    types = [getattr(DataType, COLUMN_TYPES.get(name, "string"))() for name in names]
    schema = Schema([Field(name, kind, nullable=True) for name, kind in zip(names, types, strict=True)])

    def batch(columns: list[list[Any]]) -> Any:
        return RecordBatch.from_arrays(
            [Array(values, kind) for values, kind in zip(columns, types, strict=True)], schema=schema
        )

    def batches() -> Iterator[Any]:
        columns: list[list[Any]] = [[] for _ in names]
        for entry, result in report.results:
            for values, more in zip(columns, _columns(entry, result), strict=True):
                values.extend(more)
            if len(columns[0]) >= ROWS_OF_BATCH:
                yield batch(columns)
                columns = [[] for _ in names]
        if columns[0]:
            yield batch(columns)

    write_batches(schema, batches(), target, "snappy")


def _sarif(report: ImpactReport, target: IO[bytes]) -> None:
    report.limit = MAX_RESULTS
    rows = collected(report)
    target.write(encode(sarif(rows, report.policy, complete=report.is_complete())) + b"\n")


def _html(report: ImpactReport, target: IO[bytes]) -> None:
    data = Data()
    for entry, result in report.results:
        data.add(entry, result)
    targets = [each.name for each in report.targets]
    document = data.document(report.title, targets, report.policy, report.day, complete=report.is_complete())
    target.writelines(html(document))


FORMATS: Final[dict[str, ImpactFormat]] = {
    "text": ImpactFormat(_text, (".txt",), piece=no_piece, tables=_tables),
    "json": ImpactFormat(_json, (".json",), piece=json_piece),
    "jsonl": ImpactFormat(_json_lines, (".jsonl", ".ndjson"), piece=json_piece),
    "csv": ImpactFormat(_csv, (".csv",), piece=row_piece),
    "parquet": ImpactFormat(_parquet, (".parquet",), piece=row_piece, is_binary=True),
    "markdown": ImpactFormat(_markdown, (".md",), piece=no_piece),
    "sarif": ImpactFormat(_sarif, (".sarif",), piece=no_piece, reads_requests=True),
    "html": ImpactFormat(_html, (".html", ".htm"), piece=json_piece),
}
"""The formats by name."""
