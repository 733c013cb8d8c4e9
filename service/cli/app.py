"""The whole command line: ``policy.cli.app``, ``serve``, ``health``, ``log`` and ``token``."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from policy.cli import streams
from policy.cli.app import app
from policy.cli.commands import add_command
from policy.cli.console import FOUND, INVALID, USAGE, err
from policy.errors import EngineFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet_log import LogPart
    from policy.cli.fleet_sources import Found

add_command("serve", "service.cli.serve", "Serve the policy over HTTP.")
add_command(
    "health",
    "service.cli.serve",
    "Ask the service on this machine whether it is ready: exit code 0 if ready, else 1.",
)
add_command("log", "service.cli.log", "The decision log: follow, query, export.")
add_command(
    "replay",
    "service.cli.replay",
    "Decide past decisions again, under other rules or by another release, and show what differs.",
)
add_command(
    "openreports",
    "service.cli.openreports",
    "Report the decisions about all vLLM pods of a cluster as OpenReports objects, one for each pod.",
)
add_command("token", "service.cli.token", "Manage API tokens.")


def read_log(part: LogPart) -> Iterator[Found]:
    """The requests of the decision log, for the commands that take it as a fleet."""
    from service.cli.fleet_log import documents  # noqa: PLC0415  # other commands need no log

    return documents(part)


def main() -> None:
    """Run the command line; a failure of the engine or of an output ends any command with an error message."""
    streams.prepare()
    try:
        try:
            app(obj=read_log)
        finally:
            streams.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        streams.discard()
        sys.exit(FOUND)
    except OSError as error:
        with suppress(OSError):
            err.print(streams.failure(error), markup=False)
        streams.discard()
        sys.exit(USAGE)
    except EngineFailed as error:
        err.print(f"the rule engine failed: {error}; no decision was made", markup=False)
        sys.exit(INVALID)
