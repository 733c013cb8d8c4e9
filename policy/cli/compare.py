"""The command ``compare``: what an edit of manifests, charts or rules changes for the deployments in them.

Owns how the deployments of two folders are matched: by their files and names, then by their names. ``policy.impact``
compares the answers.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct

from policy.cli.commands import command_app
from policy.cli.console import FOUND, DefaultOption, JsonOption, RulesOption, err
from policy.cli.fleet import FleetOptions, entries_of
from policy.cli.fleet_sources import documents_of
from policy.cli.impact import IMPACT_REMEDIES
from policy.cli.impact_formats import FORMATS, ImpactReport
from policy.cli.outputs import check_is_no_input, check_names, format_name, write_report
from policy.cli.report_options import (
    DEFAULT_LIMIT,
    KIND_OR_WORSE,
    PlatformOption,
    RecursiveOption,
    RenderOption,
    fail_on_option,
    format_option,
    limit_option,
    read_threshold,
)
from policy.cli.requests import (
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
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import KINDS, change_of, change_reaches
from policy.impact.impact import Impact, ReleaseComparison
from policy.impact.run import ImpactResult
from policy.impact.summary import summary_of, undecidable
from policy.impact.tally import Tally
from policy.impact.targets import BASE, HEAD, TargetRelease
from policy.messages import counted, listed
from policy.problems import request_problem
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet import FleetEntry, FleetPlace
    from policy.impact.changes import Answer
    from policy.policy import Policy

app = command_app()
TITLE: Final = "What this change does to the model runner"
MAX_NAMED: Final = 10


@app.command()
def compare(
    context: typer.Context,
    base: Annotated[str, typer.Argument(metavar="BASE", help="The file or folder before the change.")],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="The file or folder after the change.")],
    base_rules: Annotated[
        Path | None,
        typer.Option("--base-rules", metavar="FOLDER", help="The rules before the change.  [default: the same]"),
    ] = None,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", metavar="FILE", help="A file to write, instead of printing; may be repeated."),
    ] = None,
    recursive: RecursiveOption = False,  # noqa: FBT002  # a typer flag
    runs_renderer: RenderOption = False,  # noqa: FBT002  # a typer flag
    fail_on: Annotated[
        str | None,
        fail_on_option("KIND", f"there is a change {KIND_OR_WORSE}, or a new deployment that does not start", KINDS),
    ] = None,
    limit: Annotated[int, limit_option("deployments")] = DEFAULT_LIMIT,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show what an edit of manifests, charts or rules changes for the deployments in them, the worst first.

    Each deployment is decided as it is before and after, by the release of its image. Exits with 1 if one cannot be
    decided or BASE cannot be read. Example:
    `runner-policy compare ../main/deploy deploy -R --models models --fail-on no-start`
    """
    check_names([base, head])
    files: list[Path | None] = [*output] if output else [None]
    for file in files:
        check_is_no_input(file, [base, head], recursive=recursive)
    names = [format_name(form, file, FORMATS, as_json=as_json) for file in files]
    threshold = read_threshold(fail_on, KINDS)
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder, within=Path())
    folder = rules or default_folder()
    _, after = load_policy(folder, default_release, models.find, compile_all=False)
    before = load_policy(base_rules, default_release, models.find, compile_all=False)[1] if base_rules else after
    options = FleetOptions(
        recursive=recursive,
        render=runs_renderer,
        nearest=nearest,
        environment={} if platform is None else {"platform": str(platform)},
        remedies=IMPACT_REMEDIES,
    )
    with err.working("comparing"):
        old = [*_named(base, before, options, may_be_empty=True)]
        new = [*_named(head, after, options)]
        partners = _partners(old, new)
        compared = [
            (each.entry, _comparison(None if partner is None else partner.entry, each.entry, before, after))
            for each, partner in zip(new, partners, strict=True)
        ]
    targets = (TargetRelease(BASE, before.releases.default), TargetRelease(HEAD, after.releases.default))
    tally = Tally(targets)
    for _, found in compared:
        tally.add(_result(found, None).summary)
    tally.end()
    for name, file in zip(names, files, strict=True):
        piece = FORMATS[name].piece
        results = ((entry, _result(found, piece)) for entry, found in compared)
        report = ImpactReport(results, tally.counts, targets, after, TITLE, limit, today(), lambda: True)
        write_report(report, FORMATS[name], file)
    found_again = {id(partner) for partner in partners}
    alone = [each for each in old if id(each) not in found_again]
    unread = [
        (each.entry.place, each.entry.request) for each in alone if isinstance(each.entry.request, RequestInvalid)
    ]
    _say_others([each.name for each, partner in zip(new, partners, strict=True) if partner is None], "new")
    _say_others([each.name for each in alone if not isinstance(each.entry.request, RequestInvalid)], "gone")
    _say_unread(unread)
    worst = tally.worst()
    is_bad = change_reaches(worst, threshold)
    is_bad = is_bad or (threshold is not None and any(_fails_newly(found) for _, found in compared))
    raise typer.Exit(FOUND if tally.has_undecided or unread or is_bad else 0)


def _fails_newly(found: ReleaseComparison | RequestInvalid) -> bool:
    """Whether a deployment is new and does not start."""
    if isinstance(found, RequestInvalid) or found.from_ is not None:
        return False
    return any(isinstance(answer, ReleaseAnswer) and not answer.starts for answer in found.releases.values())


class _Named(Struct, frozen=True, gc=False):
    """A deployment, and its file and name without the path that is given to the command.

    The place of an unnamed deployment serves as its name.
    """

    file: str
    name: str
    entry: FleetEntry


def _named(name: str, policy: Policy, options: FleetOptions, *, may_be_empty: bool = False) -> Iterator[_Named]:
    """The deployments of one side; that a folder has no file to read is a fault unless it ``may_be_empty``."""
    for found in documents_of(name, recursive=options.recursive, render=options.render, command="compare"):
        if found.is_empty and may_be_empty:
            continue
        for entry in entries_of(found, policy.releases, options, []):
            file = entry.place.file
            if entry.root:
                yield _Named(file, entry.name, entry)
                continue
            own = _below(name, entry.name) if entry.name.startswith(file) else entry.name
            yield _Named(_below(name, file), own, entry)


def _below(name: str, text: str) -> str:
    """A file, or a name that begins with it, without the path that is given to the command, with which it begins."""
    return text.removeprefix(escape_line(name)).lstrip("/:")


def _partners(old: list[_Named], new: list[_Named]) -> list[_Named | None]:
    """For each new deployment the old one with the same file and name, else of those left the one with the same name.

    Those with an equal file and name, or an equal name, are matched in their order. Names alone are not enough: with a
    folder for each environment the same name is often in several.
    """
    found: dict[int, _Named] = {}
    for key in (_file_and_name, _name_of):
        taken = {id(each) for each in found.values()}
        left: dict[tuple[str, ...], deque[_Named]] = {}
        for each in old:
            if id(each) not in taken:
                left.setdefault(key(each), deque()).append(each)
        for number, each in enumerate(new):
            if number not in found and (equal := left.get(key(each))):
                found[number] = equal.popleft()
    return [found.get(number) for number in range(len(new))]


def _file_and_name(each: _Named) -> tuple[str, ...]:
    return each.file, each.name


def _name_of(each: _Named) -> tuple[str, ...]:
    return (each.name,)


def _comparison(
    old: FleetEntry | None, new: FleetEntry, before: Policy, after: Policy
) -> ReleaseComparison | RequestInvalid:
    """What changes for a deployment; a new one has only the answer of the head."""
    if isinstance(new.request, RequestInvalid):
        return new.request
    impact = Impact(after, (), today(), from_own=True, remedies=IMPACT_REMEDIES)
    answer = impact.answer(new.request)
    if old is None:
        return ReleaseComparison(None, {HEAD: answer}, [], None)
    if isinstance(old.request, RequestInvalid):
        earlier: Answer = Undecided(request_problem(old.request, remedies=IMPACT_REMEDIES))
    elif before is after and impact.key(old.request) == impact.key(new.request):
        earlier = answer
    else:
        earlier = Impact(before, (), today(), from_own=True, remedies=IMPACT_REMEDIES).answer(old.request)
    change = change_of(BASE, earlier, HEAD, answer)
    changes = [] if change is None else [change]
    return ReleaseComparison(BASE, {BASE: earlier, HEAD: answer}, changes, None if change is None else change.kind)


def _result(found: ReleaseComparison | RequestInvalid, piece: object) -> ImpactResult:
    """A comparison as a format writes it."""
    if isinstance(found, RequestInvalid):
        problem = request_problem(found, remedies=IMPACT_REMEDIES)
        return ImpactResult(undecidable(problem.detail), None, problem)
    return ImpactResult(summary_of(found), piece(found) if callable(piece) else None)


def _say_others(names: list[str], what: str) -> None:
    """Say which deployments are only on one side."""
    if names:
        shown = listed(sorted(names)[:MAX_NAMED])
        more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
        number = counted(len(names), "deployment is", "deployments are")
        err.print(escape_line(f"{number} {what}: {shown}{more}"), markup=False)


def _say_unread(unread: list[tuple[FleetPlace, RequestInvalid]]) -> None:
    """Say what of the old side has no answer to compare with."""
    for place, error in unread[:MAX_NAMED]:
        why = request_problem(error, remedies=IMPACT_REMEDIES).detail
        err.print(escape_line(f"BASE: {place.text}: {why}"), markup=False)
    if len(unread) > MAX_NAMED:
        err.print(f"BASE: {len(unread) - MAX_NAMED:,} more cannot be read", markup=False)
