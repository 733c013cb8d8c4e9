"""Shared by all commands: exit codes, output, the options for rules, and the loading of a policy.

Results go to standard output, as a table on a terminal and as JSON in a pipe. Diagnostics go to standard error, with
control characters of user input escaped.
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
from policy.parser.yamltree import read_documents, too_many
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
MAX_VALUES: Final = 300_000
"""Values of a YAML file. Reading as many takes some seconds and about 150 MB; JSON takes far less."""
SMALLER: Final = " in YAML; write the file as JSON, which has no such limit, or in parts"
SLOW: Final = 1 << 19
"""Reading YAML of more characters takes seconds."""

out = Console(soft_wrap=True)
err = Console(stderr=True, soft_wrap=True, highlight=False)

RulesOption = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        envvar="RUNNER_POLICY_RULES",
        help="The rules folder; defaults to `rules/` here, else to the bundled rules.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, also on a terminal.")]
DefaultOption = Annotated[
    str | None,
    typer.Option(
        "--default-release",
        envvar="RUNNER_POLICY_DEFAULT_RELEASE",
        help="The release that decides if a request names none.",
    ),
]


def show_answer(answer: Any, table: RenderableType, *, as_json: bool) -> None:
    """Print a table on a terminal, JSON in a pipe or with ``as_json``."""
    if as_json or not out.is_terminal:
        typer.echo(encode(answer).decode())
    else:
        Console().print(table)


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

    The command fails if it cannot be read, or has more than ``most`` bytes.
    """
    try:
        data = sys.stdin.buffer.read(most + 1) if str(path) == "-" else read_at_most(Path(path), most + 1, pipes=pipes)
        if len(data) > most:
            fail(USAGE, f"{path}: cannot be read: more than {most:,} bytes")
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        fail(USAGE, f"{path}: cannot be read: {error}")


def read_document(file: str) -> Any:
    """The document of a JSON or YAML file; several YAML documents are returned as a list."""
    return parsed(read_text(file), file)


def parsed(text: str, file: str) -> Any:
    """The document in a file's text; YAML is tried if it is not JSON, since the YAML reader has lower limits."""
    try:
        return read_json(text.encode())
    except NotJson as no_json:
        if text.lstrip().startswith(("{", "[")):
            fail(USAGE, f"{file}: {no_json}")
    try:
        with err.status(f"reading {file}") if err.is_terminal and len(text) > SLOW else nullcontext():
            documents = read_documents(text, file, MAX_FILE, MAX_VALUES)
    except RulesInvalid as error:
        fail(USAGE, *(f"{fault}{SMALLER if fault.message == too_many(MAX_VALUES) else ''}" for fault in error.faults))
    return documents[0] if len(documents) == 1 else documents


def annotation(level: str, fault: Fault) -> str:
    """A fault as a workflow command of GitHub, on one line."""
    message = fault.message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    column = f",col={fault.column}" if fault.column else ""
    return f"::{level} file={fault.path},line={fault.line}{column}::{message}"
