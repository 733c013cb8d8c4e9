"""Parquet that is written in batches, with the errors of what makes them and of the file that receives them."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Target(io.RawIOBase):
    """A file for Parquet's writer, which panics if it fails: after the first error the rest is dropped."""

    def __init__(self, file: IO[bytes], failed: list[BaseException]) -> None:
        self._file, self._failed = file, failed

    def writable(self) -> bool:
        """Whether it can be written: always."""
        return True

    def write(self, data: Any) -> int:
        """Write all of the data, or keep the error."""
        if not self._failed:
            try:
                self._file.write(data)
            except OSError as error:
                self._failed.append(error)
        return len(data)

    def flush(self) -> None:
        """Flush the file, or keep the error."""
        if not self._failed:
            try:
                self._file.flush()
            except OSError as error:
                self._failed.append(error)


def write_batches(schema: Any, batches: Iterator[Any], file: IO[bytes], compression: str) -> None:
    """Write batches as Parquet; the first error of ``batches`` or of ``file`` ends it, and is raised as it is."""
    from arro3.core import RecordBatchReader  # noqa: PLC0415  # only needed for Parquet
    from arro3.io import write_parquet  # noqa: PLC0415  # as above

    failed: list[BaseException] = []
    reader = RecordBatchReader.from_batches(schema, _until_failure(batches, failed))
    target: Any = _Target(file, failed)
    write_parquet(reader, target, compression=compression)
    if failed:
        raise failed[0]


def _until_failure(batches: Iterator[Any], failed: list[BaseException]) -> Iterator[Any]:
    """The batches up to the first error, which is kept: Parquet's writer would turn it into text."""
    try:
        for batch in batches:
            if failed:
                return
            yield batch
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # raised by the caller
        failed.append(error)
