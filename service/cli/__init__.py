"""The whole command line: the commands of `policy`, and `serve`, `health`, `log` and `token`."""

import sys

from service.cli.app import main as run


def main() -> None:
    """Run the command line; exit with 3 and a line if the rule engine is not usable."""
    try:
        run()
    except ImportError as error:
        if error.name != "durable_rules_engine":
            raise
        sys.stderr.write(f"{error}\n")
        sys.exit(3)
