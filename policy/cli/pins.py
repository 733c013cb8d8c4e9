"""The command ``pins``: every place that sets the variable for the runner, and what each does now and later."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

import typer

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, DefaultOption, JsonOption, RulesOption, err, fail
from policy.cli.fleet import FleetOptions, ignored_line, read_fleet, request_of
from policy.cli.fleet_log import log_files, logged, read_part
from policy.cli.fleet_size import FleetSize
from policy.cli.impact import IMPACT_REMEDIES
from policy.cli.impact_run import Interrupt, read_later_targets, shows_progress, with_progress
from policy.cli.outputs import check_is_no_input, check_names, format_name, output_file, write_report
from policy.cli.pin_formats import FORMATS
from policy.cli.pin_places import PinPlaces
from policy.cli.pin_rows import PinLine, PinReport
from policy.cli.report_options import (
    DEFAULT_LIMIT,
    FleetArgument,
    JobsOption,
    LogOption,
    OutputOption,
    PlatformOption,
    RecursiveOption,
    RenderOption,
    SinceOption,
    UntilOption,
    fail_on_option,
    format_option,
    limit_option,
    reaches,
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
from policy.impact.run import Run
from policy.pins.run import PinCounts, PinJob
from policy.pins.verdicts import VERDICTS, PinVerdict
from policy.processes import available_cores
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet import FleetEntry
    from policy.impact.targets import TargetRelease
    from policy.pins.run import PinResult

app = command_app()
TITLE: Final = "Pins of the model runner"


@app.command()
def pins(
    context: typer.Context,
    fleet: FleetArgument = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="VERSION",
            help="A later release; may be repeated, or be a list: `0.33.0,v1-removed`, `0.30.0..0.33.0`.",
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="VERSION", help="The current release.  [default: what each image says]"),
    ] = None,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: OutputOption = None,
    log: LogOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    recursive: RecursiveOption = False,  # noqa: FBT002  # a typer flag
    runs_renderer: RenderOption = False,  # noqa: FBT002  # a typer flag
    fail_on: Annotated[
        str | None,
        fail_on_option("VERDICT", "a pin has this verdict or a worse one, in any release", VERDICTS),
    ] = None,
    limit: Annotated[int, limit_option("pins")] = DEFAULT_LIMIT,
    jobs: JobsOption = None,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Find every `VLLM_USE_V2_MODEL_RUNNER`, and say whether it is needed, redundant, harmful or fatal.

    Each verdict comes from deciding with the variable and without it. Exits with 1 if something could not be decided.
    `runner-policy fix --for pins --write` removes the redundant ones. Examples:
    `kubectl get deploy -A -o yaml | runner-policy pins - --to 0.33.0,v1-removed --models models`,
    `runner-policy pins -R deploy/ --to 0.33.0 --fail-on harmful --format markdown`
    """
    if not fleet and log is None:
        fail(USAGE, "name the fleet: files, folders, `-` for standard input, or a decision log with `--log`")
    part = read_part(log, since, until)
    check_names(fleet or [])
    file = output_file(output)
    check_is_no_input(file, [*(fleet or []), *log_files(log)], recursive=recursive)
    name = format_name(form, file, FORMATS, as_json=as_json)
    threshold = read_threshold(fail_on, VERDICTS)
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    sources, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    targets = read_later_targets(policy.releases, from_, to or [])
    options = FleetOptions(
        recursive=recursive,
        render=runs_renderer,
        version=None if from_ is None else targets[0].release,
        nearest=nearest,
        environment={} if platform is None else {"platform": str(platform)},
        remedies=IMPACT_REMEDIES,
    )
    job = PinJob(
        sources, default_release, targets, today(), from_ is None, IMPACT_REMEDIES, models.named, model_folder, hub
    )
    run, counts, interrupt = Run(job, policy, models, jobs or available_cores()), PinCounts(), Interrupt()
    later = tuple(target for target in targets if from_ is None or target is not targets[0])
    counts.releases = {target.name: dict.fromkeys(map(str, VERDICTS), 0) for target in later}
    ignored: list[str] = []
    size = FleetSize() if shows_progress() and log is None else None
    with interrupt.handled():
        found = read_fleet(fleet or [], policy.releases, options, ignored, "pins", size)
        if part is not None:
            found = chain(found, logged(part, context.obj, policy, options))
        results = with_progress(
            run.results(interrupt.until(found), request_of), lambda: None if size is None else size.total
        )
        report = PinReport(
            _lines(results, counts, later),
            counts,
            tuple(target.name for target in targets),
            TITLE,
            limit,
            lambda: interrupt.signal is None,
        )
        write_report(report, FORMATS[name], file)
    _end(counts, interrupt, ignored, threshold)


def _lines(
    results: Iterator[tuple[FleetEntry, PinResult]], counts: PinCounts, later: tuple[TargetRelease, ...]
) -> Iterator[PinLine]:
    """The pins with their places, and the deployments that cannot be read; each deployment is counted."""
    places = PinPlaces()
    for entry, result in results:
        counts.add(result, later)
        if result.problem is not None:
            yield PinLine(entry, entry.place, None, None, result.problem.detail, result)
        for pin in result.pins:
            yield PinLine(entry, places.of(entry, pin), result.from_, pin)


def _end(counts: PinCounts, interrupt: Interrupt, ignored: list[str], threshold: PinVerdict | None) -> None:
    """Print what the report does not say on standard error, and exit."""
    if not counts.deployments:
        err.print("no vLLM container found", markup=False)
    if ignored:
        err.print(ignored_line(ignored), markup=False)
    interrupt.exit_if_set(counts.deployments)
    found = {verdict for verdict in VERDICTS for each in (counts.now, *counts.releases.values()) if each[str(verdict)]}
    is_bad = any(reaches(each, threshold, VERDICTS) for each in found)
    raise typer.Exit(FOUND if counts.unread or PinVerdict.UNDECIDED in found or is_bad else 0)
