"""The decision log as a fleet: the requests that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.cli.console import USAGE, fail
from policy.cli.fleet import entries_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.cli.fleet import Entry, FleetOptions
    from policy.cli.fleet_sources import Found
    from policy.policy import Policy

readers: list[Callable[[str], Iterator[Found]]] = []
"""Reads the requests of a decision log by its URL; the service adds the reader, as the log is its own."""


def logged(log: str, policy: Policy, options: FleetOptions) -> Iterator[Entry]:
    """The deployments of the requests in a decision log; the command fails if there is no log."""
    if not readers:
        fail(USAGE, "--log: the log is read by the installed command `runner-policy`")
    documents = readers[0](log)
    return (entry for found in documents for entry in entries_of(found, policy.releases, options, []))
