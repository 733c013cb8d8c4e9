"""Export of records: lines of JSON, or Parquet.

Parquet has the store's columns and a timestamp. Both are written in parts.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

from policy.decision.decision import encode
from service.log.record import milliseconds, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.record import StoredRow

TEXTS: Final = (
    "decision_id",
    "requested_by",
    "path",
    "runner",
    "outcome",
    "vllm_version",
    "revision",
    "labels",
    "input",
    "result",
)


def as_lines(parts: Iterator[list[StoredRow]], target: IO[bytes]) -> None:
    """Write each record as a line of JSON, as in ``GET /v1/log``."""
    target.writelines(json_lines(parts))


def json_lines(parts: Iterator[list[StoredRow]]) -> Iterator[bytes]:
    """The lines of each part."""
    return (b"".join(encode(record(row)) + b"\n" for row in part) for part in parts)


def as_parquet(parts: Iterator[list[StoredRow]], target: IO[bytes]) -> None:
    """Write a Parquet file with the store's columns as strings, booleans and an integer, and ``timestamp`` in UTC."""
    from arro3.core import Array, DataType, RecordBatch, Schema  # noqa: PLC0415  # only needed for Parquet

    from policy.parquet_output import write_batches  # noqa: PLC0415  # as above

    timestamp_type = DataType.timestamp("ms", tz="UTC")
    fields: list[tuple[str, Any]] = [("timestamp", timestamp_type), *((name, DataType.string()) for name in TEXTS)]
    fields += [("starts", DataType.bool()), ("erased", DataType.bool()), ("nanoseconds", DataType.int64())]
    schema = Schema([_field(name, kind) for name, kind in fields])

    def batches() -> Iterator[Any]:
        for part in parts:
            arrays = [Array([milliseconds(row.decision_id) for row in part], DataType.int64()).cast(timestamp_type)]
            arrays += [Array([getattr(row, name) for row in part], kind) for name, kind in fields[1:]]
            yield RecordBatch.from_arrays(arrays, schema=schema)

    write_batches(schema, batches(), target, "zstd(3)")


def _field(name: str, kind: Any) -> Any:
    from arro3.core import Field  # noqa: PLC0415  # as above

    return Field(name, kind, nullable=name in {"runner", "outcome"})
