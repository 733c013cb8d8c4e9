"""The command ``replay``: past decisions of the log, decided again under other rules or by another release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, JsonOption, RulesOption, err, fail
from policy.cli.fleet_parquet import is_parquet, parquet_rows
from policy.cli.fleet_size import FleetSize
from policy.cli.fleet_sources import lines_of
from policy.cli.impact_run import Interrupt, shows_progress, with_progress
from policy.cli.outputs import check_is_no_input, check_names, format_name, output_file, write_report
from policy.cli.report_options import (
    DEFAULT_LIMIT,
    KIND_OR_WORSE,
    JobsOption,
    OutputOption,
    fail_on_option,
    format_option,
    limit_option,
    read_threshold,
)
from policy.cli.requests import REMEDIES, Unreadable, load_policy, today
from policy.errors import PolicyError, RequestFault, RequestInvalid
from policy.escaping import escape_line
from policy.impact.changes import KINDS, change_reaches
from policy.impact.run import Run
from policy.impact.targets import target_of
from policy.intake.model_finder import ModelFinder
from policy.messages import listed
from policy.processes import available_cores
from policy.replay.groups import Replay
from policy.replay.records import Recorded, read_record
from policy.replay.run import REPLAYED, ReplayJob, difference
from policy.rules.loader import default_folder
from service.cli.log import Filters, files_of, log_store, read_filters, store_errors, with_filters
from service.cli.replay_report import FORMATS, ReplayReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from policy.impact.answers import ReleaseAnswer, Undecided
    from policy.impact.changes import ChangeKind, ReleaseChange
    from policy.impact.targets import TargetRelease
    from policy.policy import Policy
    from policy.replay.records import PastRequest
    from policy.rules.releases import Releases
    from service.log.query import LogFilter
    from service.log.store import Store

app = command_app()
STANDARD_INPUT: Final = "-"
MAX_LINE: Final = 32 << 20
COLUMNS: Final = ("decision_id", "requested_by", "input", "result")
"""The columns of an export as Parquet that are needed."""


@app.command()
@with_filters
def replay(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Exports of the log (`log export FILE.jsonl` or `FILE.parquet`), instead of the log; `-` reads lines "
            "of JSON from standard input.",
        ),
    ] = None,
    rules: RulesOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="VERSION", help="Decide for this release, or `v1-removed`.  [default: that of each record]"
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--log", metavar="URL", help="The log's URL.  [default: RUNNER_POLICY_LOG, else the local file]"),
    ] = None,
    *,
    filters: Filters,
    as_of_today: Annotated[
        bool,
        typer.Option("--today", help="Apply the house rules in force today, instead of those of each decision's day."),
    ] = False,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: OutputOption = None,
    fail_on: Annotated[str | None, fail_on_option("KIND", f"there is a difference {KIND_OR_WORSE}", KINDS)] = None,
    limit: Annotated[int, limit_option("differences")] = DEFAULT_LIMIT,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide past decisions again, under other rules or by another release, and show what differs.

    Exits with 1 if a record could not be decided. Examples:
    `runner-policy replay --rules new-rules --since 7d`,
    `runner-policy replay --to 0.33.0 --format markdown -o replay.md`
    """
    names = list(files or [])
    _check(names, url, filters)
    file = output_file(output)
    name = format_name(form, file, FORMATS, as_json=as_json)
    threshold = read_threshold(fail_on, KINDS)
    folder = rules or default_folder()
    sources, policy = load_policy(folder, None, compile_all=False)
    target = _target(to, policy.releases)
    selected = read_filters(filters)
    store = None if names else log_store(url)
    check_is_no_input(file, names if store is None else files_of(store))
    job = ReplayJob(sources, target, today() if as_of_today else None, REMEDIES)
    found, interrupt = Replay(), Interrupt()
    shown = REPLAYED if target is None else target.name
    with store_errors(), interrupt.handled():
        size = FleetSize() if shows_progress() else None
        records = _of_files(names, policy, size) if store is None else _of_log(store, selected, policy, size)
        results = _results(job, policy, interrupt.until(records), jobs or available_cores(), shown, found)
        title = "Past decisions by the rules of " + str(folder) if target is None else f"Past decisions by vLLM {shown}"
        report = ReplayReport(
            with_progress(results, lambda: None if size is None else size.total, "decisions"),
            found,
            shown,
            title,
            limit,
            lambda: interrupt.signal is None,
        )
        write_report(report, FORMATS[name], file)
    _end(found, interrupt, threshold)


def _check(names: list[str], url: str | None, filters: Filters) -> None:
    check_names(names)
    if folders := [name for name in names if name != STANDARD_INPUT and Path(name).is_dir()]:
        fail(USAGE, f"{escape_line(folders[0])}: expected an export of the log, got a folder")
    given = [f"--{each.replace('_', '-')}" for each, value in filters.items() if value is not None]
    if names and (url is not None or given):
        other = listed(["--log", *given] if url is not None else given)
        fail(USAGE, f"{other}: they are for the log; filter an export when it is made")


def _target(name: str | None, releases: Releases) -> TargetRelease | None:
    try:
        return None if name is None else target_of(name, releases)
    except PolicyError as error:
        fail(USAGE, f"--to: {error}; also `v1-removed`")


def _results(
    job: ReplayJob, policy: Policy, records: Iterator[Recorded], processes: int, name: str, found: Replay
) -> Iterator[tuple[Recorded, ReleaseAnswer | Undecided, ReleaseChange | None]]:
    """Each record with what is decided now and what differs; each is counted."""
    run = Run(job, policy, ModelFinder({}, hub=False), processes)
    for recorded, after in run.results(records, _past):
        change = None if recorded.before is None else difference(recorded, after, name)
        found.add(recorded, after, change)
        yield recorded, after, change


def _past(recorded: Recorded) -> PastRequest | RequestInvalid:
    return recorded.past


def _of_log(store: Store, selected: LogFilter, policy: Policy, size: FleetSize | None) -> Iterator[Recorded]:
    """The records of the log, the oldest first; one part of them is in memory at once. ``size`` counts them first."""
    from service.log.query import count, stream  # noqa: PLC0415  # other commands need no database

    if size is not None:
        size.start_counted(count(store, selected))
    for part in stream(store, selected):
        for row in part:
            yield read_record(
                row.decision_id, row.requested_by, row.input.encode(), row.result.encode(), policy.releases
            )


class _Exported(msgspec.Struct, frozen=True):
    """The fields of an exported record that are needed; ``input`` may be missing in logs of other programs."""

    result: msgspec.Raw
    decision_id: str = ""
    requested_by: str = ""
    input: msgspec.Raw = msgspec.Raw(b"")


_exported: Final = msgspec.json.Decoder(_Exported).decode


def _of_files(names: list[str], policy: Policy, size: FleetSize | None) -> Iterator[Recorded]:
    """The records of exports, a line at a time; ``size`` counts them first, unless one is standard input."""
    if size is not None:
        size.start(names)
    for name in names:
        shown = escape_line(name)
        try:
            if name == STANDARD_INPUT:
                yield from _of_lines(sys.stdin.buffer, shown, policy)
            elif is_parquet(name):
                yield from _of_rows(name, shown, policy)
            else:
                with Path(name).open("rb") as stream:
                    yield from _of_lines(stream, shown, policy)
        except OSError as error:
            fail(USAGE, f"{shown}: cannot be read: {error.strerror or error}")


def _of_rows(name: str, shown: str, policy: Policy) -> Iterator[Recorded]:
    """The records of an export as Parquet; if the rest cannot be read, one more record says so."""
    number = 0

    def chosen(names: Sequence[str]) -> Sequence[str]:
        if missing := [each for each in COLUMNS if each not in names]:
            raise Unreadable(f"{shown}: expected an export of the decision log, without a column {listed(missing)}")
        return COLUMNS

    try:
        for row in parquet_rows(name, shown, chosen):
            number += 1
            texts = [row[each] for each in COLUMNS]
            place = f"{shown}:{number}"
            if not all(type(text) is str for text in texts):
                yield _unreadable(place, f"expected texts in the columns {listed(COLUMNS)}")
                continue
            decision, caller, given, result = texts
            recorded = read_record(decision, caller, given.encode(), result.encode(), policy.releases)
            yield msgspec.structs.replace(recorded, place=place)
    except Unreadable as error:
        yield _unreadable(shown, "; ".join(error.lines).removeprefix(f"{shown}: "))


def _of_lines(stream: IO[bytes], shown: str, policy: Policy) -> Iterator[Recorded]:
    for each in lines_of(stream.readline(MAX_LINE + 1), stream, most=MAX_LINE):
        place = f"{shown}:{each.number}"
        yield _of_line(each.text, place, policy) if each.fault is None else _unreadable(place, each.fault)


def _of_line(line: bytes, place: str, policy: Policy) -> Recorded:
    try:
        found = _exported(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _unreadable(place, f"expected a record of the decision log: {error}")
    recorded = read_record(
        found.decision_id, found.requested_by, bytes(found.input), bytes(found.result), policy.releases
    )
    return msgspec.structs.replace(recorded, place=place)


def _unreadable(place: str, why: str) -> Recorded:
    return Recorded("", "", "", None, RequestInvalid([RequestFault("", why)]), place)


def _end(found: Replay, interrupt: Interrupt, threshold: ChangeKind | None) -> None:
    """Print what the report does not say on standard error, and exit."""
    counts = found.counts
    if not counts.decisions:
        err.print("no decision found", markup=False)
    interrupt.exit_if_set(counts.decisions, "decisions")
    worst = next((kind for kind in KINDS if counts.kinds[str(kind)]), None)
    is_bad = change_reaches(worst, threshold)
    raise typer.Exit(FOUND if counts.undecided or is_bad else 0)
