"""The reader of the decision log for the commands that take it as a fleet: ``--log``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.cli.fleet_sources import of_json
from service.cli.log import log_store, read_filters, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet_log import LogPart
    from policy.cli.fleet_sources import Found
    from service.log.query import LogFilter
    from service.log.store import Store


def documents(part: LogPart) -> Iterator[Found]:
    """The requests of the log, the oldest first, each named by the id of its decision.

    The command fails if there is no log, or a time is not legal.
    """
    selected = read_filters({"since": part.since, "until": part.until})
    return _requests(log_store(part.url or None), selected)


def _requests(store: Store, selected: LogFilter) -> Iterator[Found]:
    from service.log.query import stream  # noqa: PLC0415  # other commands need no database

    with store_errors():
        for rows in stream(store, selected):
            for row in rows:
                found = of_json(row.input.encode(), f"log {row.decision_id}", 0)
                found.name = row.decision_id
                yield found
