"""The command ``lint``: which engines in files would not start, a line each, for editors and hooks before a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, DefaultOption, RulesOption, err, out
from policy.cli.fleet import FleetOptions, entries_of
from policy.cli.fleet_sources import documents_of
from policy.cli.outputs import check_names
from policy.cli.report_options import RecursiveOption
from policy.cli.requests import (
    REMEDIES,
    FolderOption,
    HubOption,
    ModelOption,
    NearestOption,
    load_policy,
    models_of,
    today,
)
from policy.errors import RequestInvalid
from policy.escaping import escape_line
from policy.impact.answers import Undecided
from policy.impact.impact import Impact
from policy.problems import request_problem
from policy.request.request import is_bare_manifest
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet import FleetEntry
    from policy.policy import Policy

app = command_app()
INPUTS: Final = frozenset({"facts", "deployment", "manifest"})
"""The fields of which a request has exactly one."""
NO_RUNNER: Final = "the runner is refused"


@app.command()
def lint(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files or folders with what `decide` reads.")],
    recursive: RecursiveOption = False,  # noqa: FBT002  # a typer flag
    strict: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--strict", help="Exit with 1 too if something cannot be read or decided.")
    ] = False,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Print a line for each engine in files that would not start, with file, line and column.

    Files without engines are skipped. Exits with 1 if an engine would not start, and with 2 if a file is missing or
    exceeds a limit. Example:
    `runner-policy lint deploy/*.yaml --models models`
    """
    check_names(files)
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    _, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    options = FleetOptions(recursive=recursive, nearest=nearest, remedies=REMEDIES)
    impact = Impact(policy, (), today(), from_own=True, remedies=REMEDIES)
    stopped = left = unread = 0
    for entry, is_unread in _entries(files, policy, options):
        errors, undecided = _judged(entry, impact)
        place = escape_line(f"{_place(entry)}: {entry.name}")
        for message in errors:
            out.print(f"{place}: vLLM would not start: {escape_line(message)}", markup=False)
        if undecided:
            err.print(f"{place}: not decided: {escape_line(undecided)}", markup=False)
        stopped += bool(errors)
        left += bool(undecided)
        unread += is_unread
    if unread:
        raise typer.Exit(USAGE)
    raise typer.Exit(FOUND if stopped or (left and strict) else 0)


def _entries(files: list[str], policy: Policy, options: FleetOptions) -> Iterator[tuple[FleetEntry, bool]]:
    """The deployments in files, without what is neither a manifest nor a request, such as a tool's configuration.

    Each is with whether it is what could not be read, because it is missing or exceeds a limit.
    """
    for file in files:
        for found in documents_of(file, recursive=options.recursive, render=False, command="lint"):
            document = found.document
            is_other = type(document) is dict and INPUTS.isdisjoint(document)
            if not is_other or is_bare_manifest(document, policy.releases.images):
                yield from ((entry, found.is_unread) for entry in entries_of(found, policy.releases, options, []))


def _judged(entry: FleetEntry, impact: Impact) -> tuple[list[str], str]:
    """Why an engine would not start, and why that cannot be decided; both are empty if it starts."""
    if isinstance(entry.request, RequestInvalid):
        return [], request_problem(entry.request, remedies=REMEDIES).detail
    answer = impact.answer(entry.request)
    if isinstance(answer, Undecided):
        return [], answer.problem.detail
    return ([] if answer.starts else [*answer.launch_errors, *answer.startup_errors] or [NO_RUNNER]), ""


def _place(entry: FleetEntry) -> str:
    """The place of an engine, as compilers print it."""
    place = entry.place
    return ":".join(str(part) for part in (entry.path, place.line, place.column) if part)
