"""The reader of the decision log for the commands that take it as a fleet: ``--log``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.cli.fleet_sources import of_json
from service.cli.log import log_store, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet_sources import Found
    from service.log.store import Store


def documents(url: str) -> Iterator[Found]:
    """The requests of the log, the oldest first, each by its decision; the command fails if there is no log."""
    return _requests(log_store(url or None))


def _requests(store: Store) -> Iterator[Found]:
    from service.log.query import LogFilter, stream  # noqa: PLC0415  # other commands need no database

    with store_errors():
        for part in stream(store, LogFilter()):
            for row in part:
                found = of_json(row.input.encode(), f"log {row.decision_id}", 0)
                found.name = row.decision_id
                yield found
