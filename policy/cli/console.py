"""What every command shares: exit codes, where output goes, the options for rules, and the loading of a policy.

Owns that results go to standard output, a table on a terminal and JSON in a pipe, and diagnostics to standard error, where nothing that
users wrote is obeyed by the terminal.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from policy.decision.decision import encode
from policy.errors import EngineFailed, Fault, PolicyError, RulesInvalid
from policy.intake.intake import no_models
from policy.parser.files import read_at_most
from policy.parser.jsontext import NotJson, read_json
from policy.parser.yamltree import read_documents
from policy.policy import Policy
from policy.render import escape_control
from policy.rules.catalogue import load
from policy.rules.loader import read_folder

if TYPE_CHECKING:
    from rich.console import RenderableType

    from policy.intake.intake import Find
    from policy.rules.loader import Sources

FOUND, USAGE, INVALID = 1, 2, 3
MAX_FILE: Final = 32 << 20
MAX_VALUES: Final = 2_000_000
SLOW: Final = 1 << 19
"""From so many characters on, reading YAML takes seconds."""

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True, highlight=False)

RulesOption = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        envvar="RUNNER_POLICY_RULES",
        help="The rules folder; by default `rules/` here, else the one that came along.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on a terminal, too.")]
DefaultOption = Annotated[
    str | None,
    typer.Option(
        "--default-release",
        envvar="RUNNER_POLICY_DEFAULT_RELEASE",
        help="The release that decides where a request names none.",
    ),
]


def show_answer(answer: Any, picture: RenderableType, *, as_json: bool) -> None:
    """A table on a terminal, JSON in a pipe or on demand."""
    if as_json or not out.is_terminal:
        typer.echo(encode(answer).decode())
    else:
        Console().print(picture)


def fail(code: int, *lines: str) -> NoReturn:
    """End the command with an exit code and these lines on standard error."""
    for line in lines:
        err.print(escape_control(line))
    raise typer.Exit(code)


def loaded(folder: Path, default_release: str | None, find: Find = no_models) -> tuple[Sources, Policy]:
    """The rules of a folder, ready to decide."""
    try:
        sources = read_folder(folder)
        return sources, Policy(load(sources), default_release, find)
    except RulesInvalid as error:
        fail(INVALID, str(error.under(folder)))
    except EngineFailed as error:
        fail(INVALID, str(error))
    except PolicyError as error:
        fail(USAGE, f"--default-release: {error}")


def read_text(path: Path | str, most: int = MAX_FILE, *, pipes: bool = True) -> str:
    """The text of a file, with ``pipes`` also of a pipe, or of standard input for ``-``.

    The command ends where it cannot be read, or has more than ``most`` bytes.
    """
    try:
        data = sys.stdin.buffer.read(most + 1) if str(path) == "-" else read_at_most(Path(path), most + 1, pipes=pipes)
        if len(data) > most:
            fail(USAGE, f"{path}: cannot be read: more than the {most:,} bytes that are read")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        fail(USAGE, f"{path}: cannot be read: {error}")


def read_document(file: str) -> Any:
    """The document of a file: JSON, or YAML, whose several documents are a list."""
    return parsed(read_text(file), file)


def parsed(text: str, file: str) -> Any:
    """The document in a file's text: JSON is YAML to the reader, but for its bounds, so YAML is tried where JSON fails."""
    try:
        return read_json(text.encode())
    except NotJson as no_json:
        if text.lstrip().startswith(("{", "[")):
            fail(USAGE, f"{file}: {no_json}")
    try:
        with err.status(f"reading {file}") if err.is_terminal and len(text) > SLOW else nullcontext():
            documents = read_documents(text, file, MAX_FILE, MAX_VALUES)
    except RulesInvalid as error:
        fail(USAGE, *map(str, error.faults))
    return documents[0] if len(documents) == 1 else documents


def annotation(level: str, fault: Fault) -> str:
    """A fault as a workflow command of GitHub, which takes everything on one line."""
    message = fault.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    column = f",col={fault.column}" if fault.column else ""
    return f"::{level} file={fault.path},line={fault.line}{column}::{message}"
