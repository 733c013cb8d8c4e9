"""The commands of the decision log: follow, query, export.

Owns their options and how records are shown. They read the store directly, so no service has to run.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
import typer
from msgspec.structs import replace
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, JsonOption, err, fail, out
from policy.cli.report_options import TIME_HELP
from policy.errors import RequestInvalid
from policy.escaping import escape_line
from service.log.filters import DEFAULT_LIMIT, MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.log.query import LogFilter
    from service.log.record import LogRecord, StoredRow
    from service.log.store import Store

app = command_app("log", "The decision log: follow, query, export.")

LogOption = Annotated[
    str | None,
    typer.Option(
        "--log", metavar="URL", help="The log's URL, as for `serve`.  [default: RUNNER_POLICY_LOG, else the local file]"
    ),
]
Filters: TypeAlias = dict[str, str | bool | None]
OPTIONS: Final[dict[str, Any]] = {
    "since": Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help=f"Records since {TIME_HELP}",
        ),
    ],
    "until": Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Records before this time, written as for `--since`.")
    ],
    "runner": Annotated[
        str | None, typer.Option("--runner", help="v1, v2, or null where neither of vLLM's was decided.")
    ],
    "outcome": Annotated[
        str | None,
        typer.Option("--outcome", help="override, required, default, not-default, fallback or not-applicable."),
    ],
    "starts": Annotated[bool | None, typer.Option("--starts/--no-starts", help="Whether vLLM starts.")],
    "vllm_version": Annotated[
        str | None, typer.Option("--vllm-version", metavar="VERSION", help="The release that decided.")
    ],
    "rule": Annotated[str | None, typer.Option("--rule", metavar="ID", help="A rule in the reasons.")],
    "requested_by": Annotated[str | None, typer.Option("--requested-by", metavar="NAME", help="The caller.")],
}
"""The options of the filters, by name."""
POLL: Final = 0.5
"""Seconds between two queries for new records."""


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """The command with ``OPTIONS`` in place of its parameter ``filters``, which receives their values by name."""
    own = signature(command, eval_str=True)
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=option) for name, option in OPTIONS.items()
    ]
    parameters: list[Parameter] = []
    for name, parameter in own.parameters.items():
        parameters += options if name == "filters" else [parameter.replace(kind=Parameter.KEYWORD_ONLY)]

    @wraps(command)
    def filtering(**given: Any) -> None:
        filters = {name: given.pop(name) for name in OPTIONS}
        command(**given, filters=filters)

    filtering.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    return filtering


class LogFormat(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    PARQUET = "parquet"


@app.command()
def tail(
    url: LogOption = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=MAX_LIMIT, help="The number of records to show first.")
    ] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow new records until interrupted.")] = False,  # noqa: FBT002  # typer's flags
    as_json: JsonOption = False,  # noqa: FBT002  # typer's flags
) -> None:
    """Show the newest decisions, the newest last.

    Example: `runner-policy log tail -f`
    """
    from service.log.tail import LogTail  # noqa: PLC0415  # other commands need no database

    store = log_store(url)
    with store_errors():
        with err.working("reading the log"):
            following = LogTail(store, lines)
        for record in following.newest:
            _show(record, as_json=as_json)
        try:
            while follow:
                time.sleep(POLL)
                for record in following.new_records():
                    _show(record, as_json=as_json)
        except KeyboardInterrupt:
            raise typer.Exit from None


@app.command()
@with_filters
def query(
    url: LogOption = None,
    *,
    filters: Filters,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=MAX_LIMIT, help="The maximum number of records.")
    ] = DEFAULT_LIMIT,
    as_json: JsonOption = False,
) -> None:
    """Find decisions, the newest first.

    Exits with 1 if nothing is found. Example: `runner-policy log query --since 1d --no-starts`
    """
    log_filter = read_filters(filters)
    store = log_store(url)
    with store_errors():
        records = _find_records(store, replace(log_filter, limit=limit))
        number = _print_records(records) if as_json or not out.is_terminal else _print_table(records)
    raise typer.Exit(0 if number else FOUND)


def _print_records(records: Iterator[LogRecord]) -> int:
    """Print each record as a line of JSON; return their number."""
    number = 0
    for record in records:
        number += 1
        _show(record, as_json=True)
    return number


def _print_table(records: Iterator[LogRecord]) -> int:
    """Print a table of the records; return their number."""
    table = Table(
        "time", "decision", "runner", "outcome", "starts", "vLLM", "caller", "summary", box=None, pad_edge=False
    )
    with err.working("reading the log"):
        for record in records:
            table.add_row(*map(Text, _cells(record)))  # callers' text is not markup
    out.print(table)
    return table.row_count


@app.command()
@with_filters
def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; `-` is standard output, for JSON lines only.")
    ],
    url: LogOption = None,
    form: Annotated[
        LogFormat | None, typer.Option("--format", help="The format.  [default: by the file's suffix]")
    ] = None,
    *,
    filters: Filters,
) -> None:
    """Export decisions, the oldest first, in constant memory.

    Example: `runner-policy log export november.parquet --since 30d`
    """
    from policy.cli.outputs import check_is_no_input  # noqa: PLC0415  # other commands write no file
    from policy.cli.replaced_files import written  # noqa: PLC0415  # as above
    from service.log.export import as_lines, as_parquet, json_lines  # noqa: PLC0415  # as above
    from service.log.query import stream  # noqa: PLC0415  # as above

    form = form or (LogFormat.PARQUET if file.suffix == ".parquet" else LogFormat.JSONL)
    log_filter = read_filters(filters)
    if form is LogFormat.PARQUET and str(file) == "-":
        fail(USAGE, "Parquet is a file; name one")
    store = log_store(url)
    check_is_no_input(None if str(file) == "-" else file, files_of(store))
    number = 0

    def counted() -> Iterator[list[StoredRow]]:
        nonlocal number
        with Progress(
            console=err.console, transient=True, redirect_stdout=False, disable=not err.is_terminal
        ) as progress:
            task = progress.add_task("decisions", total=None)
            for part in stream(store, log_filter):
                number += len(part)
                progress.update(task, completed=number)
                yield part

    try:
        with store_errors():
            if str(file) == "-":
                for lines in json_lines(counted()):
                    typer.echo(lines.decode(), nl=False)
            else:
                with written(file) as target:
                    (as_parquet if form is LogFormat.PARQUET else as_lines)(counted(), target)
    except OSError as error:
        if str(file) == "-":
            raise  # as for every command
        fail(USAGE, f"{file}: {error.strerror or error}")
    err.print(f"{number} decisions", markup=False)


def read_filters(filters: Filters) -> LogFilter:
    """The filter that options state; the command fails if one is not legal."""
    from service.log.query import read_filter  # noqa: PLC0415  # other commands need no database

    texts = [
        (name, str(value).lower() if isinstance(value, bool) else value)
        for name, value in filters.items()
        if value is not None
    ]
    try:
        return read_filter(texts, lambda name: f"--{name.replace('_', '-')}")
    except RequestInvalid as error:
        fail(USAGE, *(fault.message for fault in error.faults))


def log_store(url: str | None) -> Store:
    """The log's store; the command fails if it does not exist."""
    from pydantic import ValidationError  # noqa: PLC0415  # other commands need no settings

    from service.log.store import InvalidStoreUrl, Store, read_url  # noqa: PLC0415  # other commands need no database
    from service.settings import PREFIX, Settings, invalid_settings  # noqa: PLC0415  # as above

    try:
        text = Settings(**({"log": url} if url else {})).log_url()  # type: ignore[arg-type]  # pydantic makes a secret of it
        if text is None:
            fail(USAGE, f"no decision is logged: {PREFIX}LOG is `off`; name a log with --log")
        place = read_url(text)
    except InvalidStoreUrl as error:
        fail(USAGE, f"--log: {error}")
    except ValidationError as error:
        fail(USAGE, *invalid_settings(error))
    if place.get_backend_name() == "sqlite" and not Path(place.database or "").is_file():
        fail(USAGE, f"no log found at {place.database}; `runner-policy serve` creates it, --log names another")
    return Store(place, 30.0)


def files_of(store: Store) -> list[str]:
    """The file of a log, if it has one."""
    from service.log.store import is_file  # noqa: PLC0415  # other commands need no database

    return [store.url.database or ""] if is_file(store.url) else []


@contextmanager
def store_errors() -> Iterator[None]:
    """End the command if the store fails in the block."""
    from service.log.store import StoreFailed  # noqa: PLC0415  # as above

    try:
        yield
    except StoreFailed as error:
        fail(USAGE, f"the log cannot be read: {error}")


def _find_records(store: Store, log_filter: LogFilter) -> Iterator[LogRecord]:
    """As many records as requested, from several pages if needed; one page is in memory at once."""
    from service.log.query import page  # noqa: PLC0415  # as above

    while True:
        found = page(store, log_filter)
        yield from found.items
        left = log_filter.limit - len(found.items)
        if not left or found.next is None:
            return
        log_filter = replace(log_filter, until=found.next, limit=left)


class _ShownRelease(msgspec.Struct):
    decided_as: str


class _ShownResult(msgspec.Struct):
    """The fields of a decision that a table shows."""

    runner: str | None
    outcome: str | None
    starts: bool
    release: _ShownRelease
    summary: str


def _cells(record: LogRecord) -> list[str]:
    try:
        result = msgspec.json.decode(record.result, type=_ShownResult)
    except msgspec.DecodeError as error:
        shown = ["-", "-", "-", "-", record.requested_by, f"the record was changed by hand: {error}"]
    else:
        starts = "yes" if result.starts else "no"
        decided = [result.runner or "-", result.outcome or "-", starts, result.release.decided_as]
        shown = [*decided, record.requested_by, result.summary]
    return list(map(escape_line, [record.timestamp, record.decision_id, *shown]))


def _show(record: LogRecord, *, as_json: bool) -> None:
    if as_json or not out.is_terminal:
        from policy.decision.decision import encode  # noqa: PLC0415  # the command line starts without it

        typer.echo(encode(record).decode())
    else:
        out.print("  ".join(_cells(record)), markup=False)
