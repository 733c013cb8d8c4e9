"""The whole command line: the commands of `policy`, and `serve`, `health`, `log` and `token`."""

import sys

from policy.garbage import collect_rarely


def main() -> None:
    """Run the command line; exit with 3 and a line if the rule engine is not usable."""
    collect_rarely()
    try:
        from service.cli.app import main as run  # noqa: PLC0415  # imports make most of the objects

        run()
    except ImportError as error:
        if error.name != "durable_rules_engine":
            raise
        sys.stderr.write(f"{error}\n")
        sys.exit(3)
