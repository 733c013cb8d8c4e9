"""Where the report of a fleet goes, and in which format: a file, standard output or a terminal."""

from __future__ import annotations

import csv
import io
import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct

from policy.cli.console import USAGE, fail, out, show
from policy.cli.fleet_sources import STANDARD_INPUT
from policy.cli.folder import ENDINGS
from policy.cli.replaced_files import written
from policy.escaping import escape_line
from policy.messages import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

ReportT = TypeVar("ReportT")
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\uff0b", "\uff0d", "\uff1d", "\uff20")
"""The characters that begin a cell that a spreadsheet reads as a formula, also in full width."""
SEPARATORS: Final = " ;,|\"'"
"""The characters that may be lost before a formula, if a spreadsheet splits cells at other characters or trims them."""
INNER_FORMULA: Final = re.compile(rf"([;|])(?=[ \"']*[{''.join(map(re.escape, FORMULA_STARTS))}])")
"""Matches a separator of cells before what would be a formula in the next one."""


class Format(Struct, Generic[ReportT], frozen=True):
    """A format: how a report is written, and the endings of its files; ``is_binary``: it needs a file.

    ``tables`` are what a terminal shows instead, ``None`` if it shows what is written.
    """

    write: Callable[[ReportT, IO[bytes]], None]
    suffixes: tuple[str, ...]
    is_binary: bool = False
    tables: Callable[[ReportT], RenderableType] | None = None


def check_names(names: list[str]) -> None:
    """Fail if a file or folder does not exist: a report without it would look like one of the whole fleet."""
    missing = [name for name in names if name != STANDARD_INPUT and not Path(name).exists()]
    if missing:
        fail(USAGE, *(f"{escape_line(name)}: there is no such file or folder" for name in missing))


def output_file(output: list[Path] | None) -> Path | None:
    """The file that the option names; the command fails if it names several, because it writes only one."""
    if output and len(output) > 1:
        named = listed([escape_line(str(path)) for path in output])
        fail(USAGE, f"--output: a report is written to one file, got {named}; run the command once for each")
    return output[0] if output else None


def check_is_no_input(output: Path | None, names: Sequence[str], *, recursive: bool = False) -> None:
    """Fail if the file to write is one of the inputs, or is read as a file of a folder among them."""
    status = None if output is None else _status_of(output)
    if output is None or status is None or not stat.S_ISREG(status.st_mode):
        return
    for name in names:
        found = _status_of(sys.stdin if name == STANDARD_INPUT else Path(name))
        if found is None:
            continue
        shown = escape_line(str(output))
        if os.path.samestat(found, status):
            fail(USAGE, f"{shown}: the output is also an input; name another file")
        if stat.S_ISDIR(found.st_mode) and output.name.endswith(ENDINGS):
            parents = Path(os.path.realpath(output)).parents
            if Path(os.path.realpath(name)) in (parents if recursive else parents[:1]):
                fail(USAGE, f"{shown}: the output is also an input, in {escape_line(name)}; name another file")


def _status_of(file: Path | IO[str]) -> os.stat_result | None:
    with suppress(OSError, ValueError):  # a standard input without a file
        return file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
    return None


def format_name(form: str | None, output: Path | None, formats: Mapping[str, Format[Any]], *, as_json: bool) -> str:
    """The format that the options name; the command fails if there is none, or if it needs a file."""
    by_suffix = next((key for key, each in formats.items() if output and output.name.endswith(each.suffixes)), None)
    name = form or ("json" if as_json else None) or by_suffix
    name = name or ("text" if out.is_terminal or output else "json")
    if name not in formats:
        fail(USAGE, f"--format: expected one of {listed(list(formats))}, got {quoted(name)}")
    if formats[name].is_binary and output is None:
        fail(USAGE, f"--format {name}: it is a file; name one with --output")
    return name


def write_report(report: ReportT, form: Format[ReportT], output: Path | None) -> None:
    """Write a report to the file, to a terminal as its tables, or to standard output."""
    if form.tables is not None and output is None and out.is_terminal:
        show(form.tables(report))
        return
    with _output_file(output) as target:
        form.write(report, target)


@contextmanager
def _output_file(output: Path | None) -> Iterator[IO[bytes]]:
    """The file to write, or standard output; the command fails if it cannot be written.

    A file has its new content only if the block succeeds. What a library prints meanwhile, such as Ray that a worker
    has ended, goes to standard error: standard output has only the report.
    """
    if output is None:
        sys.stdout.flush()
        target = sys.stdout.buffer
        with redirect_stdout(sys.stderr):
            yield target
        target.flush()
        return
    try:
        with written(output) as target:
            yield target
    except OSError as error:
        fail(USAGE, f"{escape_line(str(output))}: {error.strerror or error}")


def write_csv(target: IO[bytes], columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as CSV, below the names of their columns."""
    text = io.TextIOWrapper(target, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    text.detach()


def _csv_cell(value: Any) -> Any:
    """A cell that neither a spreadsheet reads as a formula nor a terminal as a control sequence."""
    if value is None:
        return ""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is not str:
        return value
    text = INNER_FORMULA.sub(r"\1'", escape_line(value))
    return f"'{text}" if text.lstrip(SEPARATORS).startswith(FORMULA_STARTS) else text
