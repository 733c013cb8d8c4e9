"""The rows of Parquet files, read in parts.

Not here: what a row means (``fleet_sources``), and the parts that machines of a cluster read (``fleet_splits``).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from policy.cli.requests import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PARQUET: Final = ".parquet"
PARQUET_MAGIC: Final = b"PAR1"
MIN_PARQUET: Final = 12
TEXT_COLUMNS: Final = ("request", "input")
"""The columns of a Parquet file that may have a request as JSON: in a user's own file, in an export of the log."""


def parquet_rows(name: str, shown: str, choose: Callable[[Sequence[str]], Sequence[str]]) -> Iterator[dict[str, Any]]:
    """The values of each row of a Parquet file, which is read in parts; ``choose`` chooses columns by their names.

    The value is ``None`` in a column that the file does not have.

    Raises:
        Unreadable: the file is not whole, or cannot be read any further.
    """
    _check_ends(Path(name), shown)
    done = [0]
    with _faults(shown, done):
        reader = _reader(name)
        names = reader.schema.names
        chosen = choose(names)
        for batch in reader:
            columns = [batch.column(each).to_pylist() if each in names else [None] * batch.num_rows for each in chosen]
            for values in zip(*columns, strict=True):
                done[0] += 1
                yield dict(zip(chosen, values, strict=True))


def number_of_rows(name: str) -> int:
    """The number of rows of a Parquet file; no values are converted.

    Raises:
        Unreadable: the file is not whole, or cannot be read any further.
    """
    _check_ends(Path(name), name)
    done = [0]
    with _faults(name, done):
        for batch in _reader(name):
            done[0] += batch.num_rows
    return done[0]


def _reader(name: str) -> Any:
    from arro3.io import read_parquet  # noqa: PLC0415  # only needed for Parquet

    return read_parquet(name)


@contextmanager
def _faults(shown: str, done: list[int]) -> Iterator[None]:
    """Raise the library's errors, which have no common class, as ``Unreadable`` after the rows ``done``."""
    try:
        yield
    except (Unreadable, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # panics are no `Exception`
        message = str(error).partition("\n")[0]
        raise Unreadable(f"{shown}: cannot be read as Parquet after {done[0]} rows: {message}") from error


def is_parquet(name: str) -> bool:
    """Whether a file is Parquet, by its name or its first bytes.

    Raises:
        OSError: it cannot be read.
    """
    if name.endswith(PARQUET):
        return True
    with Path(name).open("rb") as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def text_column(names: Sequence[str]) -> str | None:
    """The column with requests among those of a Parquet file; ``None`` if there is none."""
    return next((each for each in TEXT_COLUMNS if each in names), None)


def _check_ends(path: Path, shown: str) -> None:
    """Check that a file begins and ends like Parquet, because the reader does not check it."""
    with path.open("rb") as file:
        first = file.read(len(PARQUET_MAGIC))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(PARQUET_MAGIC)))
        if size < MIN_PARQUET or first != PARQUET_MAGIC or file.read() != PARQUET_MAGIC:
            raise Unreadable(f"{shown}: cannot be read: not a whole Parquet file")
