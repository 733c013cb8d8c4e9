"""Run one of the checks: ``python -m bench.reliability NAME``; exits with 1 if an expectation fails."""

from __future__ import annotations

import argparse
import sys

from bench.reliability import database, disk, hostile, inforce, kill, load, reloads, restarts, slow
from bench.reliability.verdict import failed


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.reliability", description="Check the service under stress; each check prints its figures."
    )
    commands = parser.add_subparsers(dest="name", required=True)
    for name, check, flag, default in (
        ("load", load.check, "--minutes", 15.0),
        ("reloads", reloads.check, "--seconds", 30.0),
        ("inforce", inforce.check, "--edits", 10),
        ("kill", kill.check, "--rounds", 100),
        ("restarts", restarts.check, "--requests", 100_000),
        ("database", database.check, "--away", 60.0),
        ("disk", disk.check, "--megabytes", 16),
        ("slow", slow.check, "--seconds", 15.0),
        ("hostile", hostile.check, "--seconds", 5.0),
    ):
        command = commands.add_parser(name, help=(check.__doc__ or "").splitlines()[0].replace("%", "%%"))
        command.add_argument(flag, dest="value", type=type(default), default=default)
        command.set_defaults(check=check)
    options = parser.parse_args()
    options.check(options.value)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
