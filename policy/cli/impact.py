"""The command ``impact``: what another vLLM release changes for all deployments of a fleet."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from policy.cli.commands import command_app
from policy.cli.console import (
    FOUND,
    USAGE,
    DefaultOption,
    JsonOption,
    RulesOption,
    err,
    fail,
)
from policy.cli.fleet import FleetOptions, ignored_line, read_fleet, request_of
from policy.cli.fleet_log import log_files, logged, read_part
from policy.cli.fleet_size import FleetSize
from policy.cli.fleet_sources import STANDARD_INPUT
from policy.cli.fleet_splits import is_uri
from policy.cli.impact_formats import FORMATS, ImpactReport
from policy.cli.impact_run import ALL, RANGE, Interrupt, read_targets, shows_progress, with_progress
from policy.cli.outputs import check_is_no_input, check_names, format_name, output_file, write_report
from policy.cli.report_options import (
    DEFAULT_LIMIT,
    KIND_OR_WORSE,
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
    read_threshold,
)
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
from policy.errors import Remedies, RemedyKind
from policy.impact.changes import KINDS, change_reaches
from policy.impact.run import ImpactJob, Run
from policy.impact.tally import Tally
from policy.processes import available_cores
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.cli.impact_ray import ClusterJob
    from policy.impact.changes import ChangeKind
    from policy.impact.targets import TargetRelease

app = command_app()
IMPACT_REMEDIES: Final[Remedies] = {
    **REMEDIES,
    RemedyKind.KNOWN_RELEASE: "compare two releases with `--from` and `--to`, or use the closest with `--nearest`",
    RemedyKind.VERSION: "state it with `--from`",
}
"""The remedies as ``impact`` words them; it has no ``--vllm-version``."""


@app.command()
def impact(
    context: typer.Context,
    fleet: FleetArgument = None,
    to: Annotated[str | None, typer.Option("--to", metavar="VERSION", help="The release to go to.")] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="VERSION", help="The current release.  [default: what each image says]"),
    ] = None,
    releases: Annotated[
        str | None,
        typer.Option(
            "--releases",
            metavar="LIST",
            help="Compare each of these with the one before: `0.22.0,0.23.0`, `0.22.0..0.33.0`, `all`, `v1-removed`.",
        ),
    ] = None,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: OutputOption = None,
    log: LogOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    recursive: RecursiveOption = False,  # noqa: FBT002  # a typer flag
    runs_renderer: RenderOption = False,  # noqa: FBT002  # a typer flag
    explain: Annotated[  # noqa: FBT002  # a typer flag
        bool,
        typer.Option(
            "--explain",
            help="Add the smallest changes that help each deployment in the release to go to, or with `--releases` in "
            "each, at most in the 8 newest in which it needs them.",
        ),
    ] = False,
    fail_on: Annotated[str | None, fail_on_option("KIND", f"there is a change {KIND_OR_WORSE}", KINDS)] = None,
    limit: Annotated[int, limit_option("deployments")] = DEFAULT_LIMIT,
    jobs: JobsOption = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray",
            metavar="ADDRESS",
            help="Decide on the Ray cluster at this address, or at `local`; needs `pip install 'runner-policy[ray]'`.",
        ),
    ] = None,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    platform: PlatformOption = None,
    model_configs: ModelOption = None,
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
    as_json: JsonOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Show what another vLLM release changes for everything that you run, the worst first.

    Exits with 1 if a deployment could not be decided. Examples:
    `kubectl get deploy -A -o yaml | runner-policy impact - --to 0.33.0 --models models`,
    `runner-policy impact -R deploy/ --from 0.22.0 --to 0.33.0 --format markdown`,
    `runner-policy impact fleet.jsonl --releases 0.22.0..0.33.0 -o impact.parquet`
    """
    if not fleet and log is None:
        fail(USAGE, "name the fleet: files, folders, `-` for standard input, or a decision log with `--log`")
    part = read_part(log, since, until)
    if ray is not None and (log is not None or STANDARD_INPUT in (fleet or []) or jobs is not None):
        fail(USAGE, "--ray: name files, without `--log`, `-` and `--jobs`; `log export` writes a log as a file")
    check_names([each for each in fleet or [] if ray is None or not is_uri(each)])
    file = output_file(output)
    check_is_no_input(file, [*(fleet or []), *log_files(log)], recursive=recursive)
    name = format_name(form, file, FORMATS, as_json=as_json)
    threshold = read_threshold(fail_on, KINDS)
    models = models_of(model_configs or [], context, hub=hub, folder=model_folder)
    sources, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    targets = tuple(read_targets(policy.releases, from_, to, releases))
    from_own = releases is None and from_ is None
    options = FleetOptions(
        recursive=recursive,
        render=runs_renderer,
        version=None if from_own else targets[0].release,
        nearest=nearest,
        environment={} if platform is None else {"platform": str(platform)},
        remedies=IMPACT_REMEDIES,
    )
    job = ImpactJob(
        sources,
        default_release,
        targets,
        today(),
        from_own,
        FORMATS[name].piece,
        IMPACT_REMEDIES,
        models.named,
        model_folder,
        hub,
        () if not explain else targets if releases is not None else targets[-1:],
    )
    run, tally, interrupt = Run(job, policy, models, jobs or available_cores()), Tally(targets), Interrupt()
    ignored: list[str] = []
    title = f"vLLM {_compared(releases, targets)}: what changes"
    size = FleetSize() if shows_progress() and log is None and ray is None else None
    with interrupt.handled():
        if ray is None:
            found = read_fleet(fleet or [], policy.releases, options, ignored, "impact", size)
            if part is not None:
                found = chain(found, logged(part, context.obj, policy, options))
            compared = run.results(interrupt.until(found), request_of)
        else:
            cluster_results, work = _cluster(job, options, name)
            compared = interrupt.until(cluster_results(fleet or [], ray, policy.releases, work, ignored))
        results = with_progress(tally.counted(compared), lambda: None if size is None else size.total)
        report = ImpactReport(
            results, tally.counts, targets, policy, title, limit, job.today, lambda: interrupt.signal is None
        )
        write_report(report, FORMATS[name], file)
    _end(tally, interrupt, ignored, threshold)


def _cluster(job: ImpactJob, options: FleetOptions, name: str) -> tuple[Callable[..., Any], ClusterJob]:
    """The function that decides on a cluster, and its job; the command fails without Ray."""
    try:
        from policy.cli.impact_ray import ClusterJob, cluster_results  # noqa: PLC0415  # an optional package
    except ImportError as error:
        fail(USAGE, f"--ray: {error}; install it on each machine: pip install 'runner-policy[ray]'")
    return cluster_results, ClusterJob(job, options, FORMATS[name].reads_requests)


def _compared(releases: str | None, targets: tuple[TargetRelease, ...]) -> str:
    """What is compared, in a title: the target, or the releases as they were named."""
    if releases is None:
        return targets[-1].name
    if releases.strip() == ALL:
        return f"{targets[0].name}{RANGE}{targets[-1].name}"
    return ", ".join(each.strip() for each in releases.split(","))


def _end(tally: Tally, interrupt: Interrupt, ignored: list[str], threshold: ChangeKind | None) -> None:
    """Print what the report does not say on standard error, and exit."""
    if not tally.counts.deployments:
        err.print("no vLLM container found", markup=False)
    if ignored:
        err.print(ignored_line(ignored), markup=False)
    interrupt.exit_if_set(tally.counts.deployments)
    worst = tally.worst()
    is_bad = change_reaches(worst, threshold)
    raise typer.Exit(FOUND if tally.has_undecided or is_bad else 0)
