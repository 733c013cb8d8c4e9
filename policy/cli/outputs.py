"""Where the report of a fleet goes, and in which format: a file, standard output or a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from policy.cli.console import USAGE, fail, out
from policy.cli.fleet_sources import STANDARD_INPUT
from policy.escaping import escape_line
from policy.messages import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class AnyFormat(Protocol):
    """What is known of a format: the endings of its files, and whether it needs one."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The endings of its files."""

    @property
    def is_binary(self) -> bool:
        """Whether it is not for a terminal."""


def check_names(names: list[str]) -> None:
    """Fail if a file or folder does not exist: a report without it would look like one of the whole fleet."""
    missing = [name for name in names if name != STANDARD_INPUT and not Path(name).exists()]
    if missing:
        fail(USAGE, *(f"{escape_line(name)}: there is no such file or folder" for name in missing))


def format_name(form: str | None, output: Path | None, formats: Mapping[str, AnyFormat], *, as_json: bool) -> str:
    """The format that the options name; the command fails if there is none, or if it needs a file."""
    by_suffix = next((key for key, each in formats.items() if output and output.name.endswith(each.suffixes)), None)
    name = form or ("json" if as_json else None) or by_suffix
    name = name or ("text" if out.is_terminal or output else "json")
    if name not in formats:
        fail(USAGE, f"--format: expected one of {listed(list(formats))}, got {quoted(name)}")
    if formats[name].is_binary and output is None:
        fail(USAGE, f"--format {name}: it is a file; name one with --output")
    return name


@contextmanager
def output_file(output: Path | None) -> Iterator[IO[bytes]]:
    """The file to write, or standard output; the command fails if it cannot be written."""
    if output is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with output.open("wb") as target:
            yield target
    except OSError as error:
        fail(USAGE, f"{escape_line(str(output))}: {error.strerror or error}")
