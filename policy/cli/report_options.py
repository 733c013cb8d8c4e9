"""Options of the commands that decide many deployments or decisions and write a report of them.

Owns the options of the fleet, of the run and of the report, and how ``--fail-on`` is checked. Options of only one
command are in its module; ``policy.cli.requests`` has those for models and versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from policy.cli.console import USAGE, fail
from policy.intake.deployment import Platform
from policy.messages import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Kind = TypeVar("Kind", bound=str)
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100_000
MAX_JOBS: Final = 256
KIND_OR_WORSE: Final = "of this kind or worse (`no-start` includes `launch-error`)"
"""Which changes ``--fail-on KIND`` is about."""

FleetArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FLEET",
        help="Files or folders with what `decide` reads, JSON lines or Parquet (a column `request`, or an export "
        "of the decision log); `-` reads standard input.",
    ),
]
LogOption = Annotated[
    str | None,
    typer.Option("--log", metavar="URL", help="Read the requests of a decision log too, as for `log query`."),
]
TIME_HELP: Final = "`30m`, `12h` or `7d` ago, a date, or a time such as `2026-11-21T12:00:00Z`."
"""How a time of the decision log is written."""
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help=f"With --log: requests since {TIME_HELP}",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="With --log: requests before this time, written as for --since."),
]
RecursiveOption = Annotated[bool, typer.Option("--recursive", "-R", help="Read the subfolders of a folder too.")]
RenderOption = Annotated[
    bool,
    typer.Option("--render", help="Run `kustomize build`, `helm template` or `docker compose config` on a folder."),
]
PlatformOption = Annotated[
    Platform | None, typer.Option("--platform", help="Where engines run that do not state it; defaults to `cuda`.")
]
OutputOption = Annotated[
    list[Path] | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write, instead of printing.")
]
"""The files of the option ``--output``; ``output_file`` refuses several."""
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, max=MAX_JOBS, help="How many processes decide.  [default: all cores]"),
]


def format_option(formats: Iterable[str]) -> Any:
    """The option ``--format`` of a report with these formats."""
    return typer.Option("--format", metavar="|".join(formats), help="The format.  [default: by the file's suffix]")


def limit_option(noun: str) -> Any:
    """The option ``--limit`` of a report whose table has rows of this noun."""
    return typer.Option("--limit", min=1, max=MAX_LIMIT, help=f"How many {noun} the table shows.")


def fail_on_option(metavar: str, condition: str, kinds: Iterable[str]) -> Any:
    """The option ``--fail-on``: the command exits with 1 if the condition holds for one of these kinds, worst first."""
    return typer.Option("--fail-on", metavar=metavar, help=f"Exit with 1 if {condition}: {', '.join(kinds)}.")


def read_threshold(name: str | None, kinds: Sequence[Kind]) -> Kind | None:
    """The kind that ``--fail-on`` names; the command fails if there is no such kind."""
    if name is None:
        return None
    if name not in kinds:
        fail(USAGE, f"--fail-on: expected one of {listed(list(kinds))}, got {quoted(name)}")
    return next(kind for kind in kinds if kind == name)


def reaches(kind: Kind, threshold: Kind | None, kinds: Sequence[Kind]) -> bool:
    """Whether a kind is at least as bad as the threshold; ``kinds`` has the worst first."""
    return threshold is not None and kinds.index(kind) <= kinds.index(threshold)
