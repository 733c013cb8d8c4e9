"""Exit codes, output and options that all commands share.

Results go to standard output, as a table on a terminal and as JSON in a pipe. Diagnostics go to standard error, with
control characters of user input escaped.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from policy.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console, RenderableType
    from rich.status import Status

    from policy.decision.decision import Decision
    from policy.errors import Fault

FOUND, USAGE, INVALID = 1, 2, 3
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as a shell has it."""

DELAY: Final = 0.5
"""Seconds after which a command shows what it is doing, so that this is less than two seconds after its start."""
TERMINAL_VARIABLES: Final = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables that make rich treat a pipe as a terminal."""


class Output:
    """Standard output or standard error; rich is imported on first use, so JSON in a pipe does not need it."""

    def __init__(self, *, is_error: bool = False) -> None:
        self._is_error = is_error

    @cached_property
    def console(self) -> Console:
        """The rich console."""
        from policy.render import EscapingConsole  # noqa: PLC0415  # JSON in a pipe needs no rich

        return (
            EscapingConsole(stderr=True, soft_wrap=True, highlight=False)
            if self._is_error
            else EscapingConsole(soft_wrap=True)
        )

    @property
    def is_terminal(self) -> bool:
        """Whether it is a terminal, or a variable makes rich treat it as one."""
        stream = sys.stderr if self._is_error else sys.stdout
        return (stream.isatty() or any(name in os.environ for name in TERMINAL_VARIABLES)) and self.console.is_terminal

    def print(self, *objects: Any, markup: bool | None = None) -> None:
        """Print as ``Console.print`` does, without wrapping long lines."""
        self.console.print(*objects, markup=markup)

    def status(self, text: str) -> Status:
        """Show a status on a terminal while the block runs."""
        from rich.markup import escape  # noqa: PLC0415  # as above

        return self.console.status(escape(text))

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show a status on a terminal if the block takes more than ``DELAY`` seconds."""
        if not (self.is_terminal and self.console.is_interactive):
            yield
            return
        status = self.status(text)
        timer = Timer(DELAY, status.start)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            status.stop()


out = Output()
err = Output(is_error=True)

RulesOption = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        metavar="FOLDER",
        envvar="RUNNER_POLICY_RULES",
        help="The rules folder; defaults to `rules/` here, else to the bundled rules.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, also on a terminal.")]
DefaultOption = Annotated[
    str | None,
    typer.Option(
        "--default-release",
        metavar="VERSION",
        envvar="RUNNER_POLICY_DEFAULT_RELEASE",
        help="The release for a request without a version.",
    ),
]


def show_answer(answer: Any, table: Callable[[], RenderableType], *, as_json: bool) -> None:
    """Print a table on a terminal, JSON in a pipe or with ``as_json``."""
    from policy.decision.decision import encode  # noqa: PLC0415  # only commands with an answer need it

    if as_json or not out.is_terminal:
        typer.echo(encode(answer).decode())
    else:
        show(table())


def show(table: RenderableType) -> None:
    """Print a table on the terminal, fitted to its width."""
    from policy.render import EscapingConsole  # noqa: PLC0415  # as above

    EscapingConsole().print(table)


def show_text(text: RenderableType) -> None:
    """Print a text, wrapped to the width of the terminal, or else to 120 columns."""
    from policy.render import as_text  # noqa: PLC0415  # as above

    if out.is_terminal:
        show(text)
    else:
        typer.echo(as_text(text), nl=False)


def decision_table(answer: Decision) -> RenderableType:
    """A decision as a table."""
    from policy import render  # noqa: PLC0415  # as above

    return render.decision(answer)


def fail(code: int, *lines: str) -> NoReturn:
    """End the command with an exit code and these lines on standard error."""
    from policy.render import escape_control  # noqa: PLC0415  # as above

    for line in lines:
        err.print(escape_control(line))
    raise typer.Exit(code)


def annotation(level: str, fault: Fault) -> str:
    """A fault as a GitHub workflow command, on one line."""
    column = f",col={fault.column}" if fault.column else ""
    path = _command_text(fault.path).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} file={path},line={fault.line}{column}::{_command_text(fault.message)}"


def _command_text(text: str) -> str:
    """A text escaped for a workflow command, so that it cannot end the command."""
    return escape_line(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))
