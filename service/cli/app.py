"""The whole command line: ``policy.cli.app``, ``serve``, ``health``, ``log`` and ``token``."""

from __future__ import annotations

import sys
from contextlib import suppress

from policy.cli import streams
from policy.cli.app import app
from policy.cli.commands import add_command
from policy.cli.console import FOUND, INVALID, USAGE, err
from policy.errors import EngineFailed

add_command("serve", "service.cli.serve", "Serve the policy over HTTP.")
add_command(
    "health",
    "service.cli.serve",
    "Ask the service on this machine whether it is ready: exit code 0 if ready, else 1.",
)
add_command(
    "impact",
    "service.cli.impact",
    "Show what another vLLM release changes for everything that you run, the worst first.",
)
add_command(
    "pins",
    "service.cli.pins",
    "Find every `VLLM_USE_V2_MODEL_RUNNER`, and say whether it is needed, redundant, harmful or fatal.",
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


def main() -> None:
    """Run the command line; a failure of the engine or of an output ends any command with an error message."""
    streams.prepare()
    try:
        try:
            app()
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
