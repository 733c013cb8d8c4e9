"""The decision log as a fleet: the requests that it has.

Not here: how a log is read. The program that has a log passes a ``LogReader`` as its commands' ``context.obj``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from policy.cli.console import USAGE, fail
from policy.cli.fleet import entries_of
from policy.cli.fleet_sources import Found

if TYPE_CHECKING:
    from policy.cli.fleet import Entry, FleetOptions
    from policy.policy import Policy

LogReader: TypeAlias = Callable[[str], Iterator[Found]]
"""Reads the requests of a decision log by its URL, the oldest first; the command fails if there is no log."""


def logged(log: str, reader: LogReader | None, policy: Policy, options: FleetOptions) -> Iterator[Entry]:
    """The deployments of the requests in a decision log; the command fails if there is no log or no reader."""
    if reader is None:
        fail(USAGE, "--log: the log is read by the installed command `runner-policy`")
    return (entry for found in reader(log) for entry in entries_of(found, policy.releases, options, []))
