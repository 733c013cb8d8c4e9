"""The parts of large files of a fleet, which several machines read: lines of JSON by bytes, rows of Parquet by groups.

A part knows how many lines or rows are before it, so that places and names are those of the whole file. A file may be
on a path that all machines share, or at a URI such as ``s3://bucket/fleet.parquet``.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import Struct

from policy.cli.fleet_parquet import PARQUET, PARQUET_MAGIC, text_column
from policy.cli.fleet_sources import (
    DECISION,
    LINES,
    MAX_LINE,
    RawDocument,
    first_lines,
    is_line,
    lines_of,
    row_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEME: Final = "://"


class LineSplit(Struct, frozen=True):
    """Lines of a file: ``size`` bytes from ``start``, after ``before`` other lines."""

    file: str
    start: int
    size: int
    before: int


class RowSplit(Struct, frozen=True):
    """Rows of a Parquet file: ``size`` from ``start`` of a row group, after ``before`` other rows of the file."""

    file: str
    group: int
    start: int
    size: int
    before: int
    columns: tuple[str, ...]


Split: TypeAlias = LineSplit | RowSplit


def is_uri(name: str) -> bool:
    """Whether a name is not that of a local file."""
    return SCHEME in name


def splits_of(name: str, most: int) -> list[Split] | None:
    """The parts of a file, each of at most ``most`` lines or rows; ``None`` if it has neither, or is damaged.

    The parts have its absolute path, because other processes have other working directories.

    Raises:
        OSError: it cannot be read.
    """
    name = name if is_uri(name) else str(Path(name).absolute())
    with opened(name) as stream:
        blank, first = first_lines(stream, MAX_LINE)
    if name.endswith(PARQUET) or (not blank and first.startswith(PARQUET_MAGIC)):
        return _row_splits(name, most)
    if name.endswith(LINES) or is_line(first):
        return [*_line_splits(name, most)]
    return None


def _line_splits(name: str, most: int) -> Iterator[LineSplit]:
    start = before = size = lines = 0
    with opened(name) as stream:
        while line := stream.readline(MAX_LINE):
            size += len(line)
            lines += line.endswith(b"\n")
            if lines == most:
                yield LineSplit(name, start, size, before)
                start, before, size, lines = start + size, before + lines, 0, 0
    if size:
        yield LineSplit(name, start, size, before)


def _row_splits(name: str, most: int) -> list[Split] | None:
    from pyarrow import ArrowException  # noqa: PLC0415  # comes with Ray Data, and is not installed without it
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  # as above

    try:
        with opened(name) as stream, ParquetFile(stream) as file:
            names = file.schema_arrow.names
            groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except (ArrowException, OSError):
        return None
    column = text_column(names)
    if column is None:
        return None
    columns = (column, DECISION) if DECISION in names else (column,)
    found: list[Split] = []
    before = 0
    for group, number in enumerate(groups):
        for start in range(0, number, most):
            size = min(most, number - start)
            found.append(RowSplit(name, group, start, size, before + start, columns))
        before += number
    return found


def documents_in(split: Split) -> Iterator[RawDocument]:
    """The documents of a part, in their order."""
    with opened(split.file) as stream:
        if isinstance(split, LineSplit):
            stream.seek(split.start)
            part = _Part(stream, split.size)
            yield from lines_of(part.readline(MAX_LINE + 1), part, split.before, most=MAX_LINE)
        else:
            yield from _rows_in(split, stream)


def _rows_in(split: RowSplit, stream: IO[bytes]) -> Iterator[RawDocument]:
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415  # as above

    with ParquetFile(stream) as file:
        rows = file.read_row_group(split.group, columns=list(split.columns)).slice(split.start, split.size)
    values = rows.column(split.columns[0]).to_pylist()
    decisions = rows.column(DECISION).to_pylist() if DECISION in split.columns else [""] * len(values)
    for number, (value, decision) in enumerate(zip(values, decisions, strict=True), split.before + 1):
        yield row_of(number, split.columns[0], value, decision)


class _Part:
    """The next ``size`` bytes of a stream."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def readline(self, size: int, /) -> bytes:
        line = self._stream.readline(min(size, self._left))
        self._left -= len(line)
        return line


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """A file on a path or at a URI.

    Raises:
        OSError: it cannot be read.
    """
    if not is_uri(name):
        with Path(name).open("rb") as file:
            yield file
        return
    from io import BufferedReader  # noqa: PLC0415  # as below

    from pyarrow import ArrowException  # noqa: PLC0415  # as above
    from pyarrow.fs import FileSystem  # noqa: PLC0415  # as above

    try:
        system, path = FileSystem.from_uri(name)
        source = system.open_input_file(path)
    except ArrowException as error:
        raise OSError(str(error)) from error
    with BufferedReader(cast("Any", source)) as stream:
        yield stream
