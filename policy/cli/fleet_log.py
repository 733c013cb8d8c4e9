"""The decision log as a fleet: the requests that it has.

Not here: how a log is read. The program that has a log passes a ``LogReader`` as its commands' ``context.obj``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from policy.cli.console import USAGE, fail
from policy.cli.fleet import entries_of
from policy.cli.fleet_sources import Found

if TYPE_CHECKING:
    from policy.cli.fleet import FleetEntry, FleetOptions
    from policy.policy import Policy

SQLITE: Final = "sqlite"
"""The scheme of the URL of a log that is a file; a driver may follow it: ``sqlite+pysqlite:///log.db``."""


class LogPart(Struct, frozen=True):
    """A decision log by its URL, and the times of ``--since`` and ``--until`` as they are written."""

    url: str
    since: str | None = None
    until: str | None = None


LogReader: TypeAlias = Callable[[LogPart], Iterator[Found]]
"""Reads the requests of a decision log, the oldest first; the command fails if there is no log or a time is invalid."""


def read_part(log: str | None, since: str | None, until: str | None) -> LogPart | None:
    """The part of the log that options name; the command fails if they have times without a log."""
    if log is None and (since is not None or until is not None):
        fail(USAGE, "`--since` and `--until` go with `--log`, the decision log")
    return None if log is None else LogPart(log, since, until)


def log_files(log: str | None) -> list[str]:
    """The file of the log with this URL, if it has one."""
    scheme, _, file = (log or "").partition(":///")
    return [file] if file and scheme.partition("+")[0] == SQLITE else []


def logged(part: LogPart, reader: LogReader | None, policy: Policy, options: FleetOptions) -> Iterator[FleetEntry]:
    """The deployments of the requests in a decision log; the command fails if there is no log or no reader."""
    if reader is None:
        fail(USAGE, "--log: the log is read by the installed command `runner-policy`")
    return (entry for found in reader(part) for entry in entries_of(found, policy.releases, options, []))
