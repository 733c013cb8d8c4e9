"""The messages between ``client`` and the log process: the configuration, and the acknowledgements of batches."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MAINTENANCE_INTERVAL: Final = 5.0
"""Seconds between two runs of the log process's maintenance, each of which is acknowledged within the timeout."""


class LogConfig(Struct, frozen=True):
    """The settings of a log: the store's URL, the spill folder, limits (seconds, bytes), and the labels as JSON."""

    url: str
    spill: str
    spill_size: int
    timeout: float
    durable: bool
    keep_seconds: float | None
    keep_size: int | None
    labels: str


class Counts(Struct):
    """Counts of rows, and whether the store accepted the last ones; ``lost`` ones are neither there nor on disk.

    ``lost_files`` were deleted, replaced or damaged after this process wrote ``lost_file_records`` to them.
    ``can_record`` is whether the store or the disk accepts rows.
    """

    written: int = 0
    spilled: int = 0
    replayed: int = 0
    lost: int = 0
    deleted: int = 0
    store_up: bool = True
    last_error: str = ""
    spill_bytes: int = 0
    lost_files: int = 0
    lost_file_records: int = 0
    last_lost_file: str = ""
    can_record: bool = False


class Ack(Struct, frozen=True):
    """An acknowledgement of batches, recorded or failed with ``error``; none if only the counts changed."""

    batches: list[int]
    error: str | None
    counts: Counts
