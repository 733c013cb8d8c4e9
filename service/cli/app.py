"""The whole command line: ``policy.cli.app``, ``serve``, ``health``, ``log`` and ``token``."""

from __future__ import annotations

import sys

from policy.cli.app import app
from policy.cli.commands import add_command
from policy.errors import EngineFailed

add_command("serve", "service.cli.serve", "Serve the policy over HTTP.")
add_command(
    "health",
    "service.cli.serve",
    "Ask the service on this machine whether it is ready: exit code 0 if ready, else 1.",
)
add_command("log", "service.cli.log", "The decision log: follow, query, export.")
add_command("token", "service.cli.token", "Manage API tokens.")


def main() -> None:
    """Run the command line; an engine failure ends any command with an error message."""
    try:
        app()
    except EngineFailed as error:
        from policy.cli.console import INVALID, err  # noqa: PLC0415  # the list of commands starts without it

        err.print(f"the rule engine failed: {error}; no decision was made", markup=False)
        sys.exit(INVALID)
