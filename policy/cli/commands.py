"""Commands whose modules are imported only when they run, so that the other commands start quickly.

Owns the loading. ``policy.cli.app`` and ``service.cli.app`` list the commands.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from policy.escaping import escape_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class LazyCommand(TyperCommand):
    """A listed command with its summary; its module is imported when the command runs.

    The module's ``app`` is a Typer that contains the command, or the group itself.
    """

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self.module = module

    def load(self) -> Any:
        """Import the command or group.

        Raises:
            ImportError: the rule engine cannot be imported; no command runs without it.
        """
        import_module("policy.engine.rete")
        group = get_group(import_module(self.module).app)
        return group if group.name == self.name else group.commands[str(self.name)]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and create its context, which parses the arguments."""
        command = self.load()
        for parameter in command.get_params(parent):
            convert_lazily(parameter)
        for each in (command, *getattr(command, "commands", {}).values()):
            hide_flag_types(each.get_params(parent))
        return command.make_context(info_name, args, parent, **extra)


class LazyConversion:
    """The type conversion of a parameter, built when a value has to be converted.

    Typer builds it with pydantic, whose import takes longer than the rest of Typer.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a value as Typer does."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, str) and param.type_descriptor.annotation is str:
            return value
        return self._build().coerce(value, param, ctx)


def hide_flag_types(parameters: Iterable[Any]) -> None:
    """Remove ``<bool>`` after flags in the help, which suggests that they take a value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def convert_lazily(parameter: Any) -> None:
    """Make a parameter build its conversion only when it is needed."""
    conversion = LazyConversion(parameter.get_runtime_param)
    parameter.get_runtime_param = lambda: conversion


COMMANDS: Final[dict[str, LazyCommand]] = {}


class CommandList(TyperGroup):
    """The group of all ``COMMANDS``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {**COMMANDS}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the top-level options."""
        for parameter in self.get_params(ctx):
            convert_lazily(parameter)
        hide_flag_types(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Create the top-level context, which parses the arguments."""
        with escaped_messages():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command of the context."""
        with escaped_messages():
            return super().invoke(ctx)


@contextmanager
def escaped_messages() -> Iterator[None]:
    """Escape control characters in the usage errors of the block: Typer prints them, and they quote arguments."""
    try:
        yield
    except TyperException as error:
        error.message = escape_lines(error.message)
        raise


def add_command(name: str, module: str, summary: str) -> None:
    """Add a command to the list; ``summary`` is the first line of its help."""
    COMMANDS[name] = LazyCommand(name, module, summary)


def command_app(name: str | None = None, summary: str | None = None) -> typer.Typer:
    """The Typer of a module: a group of this name, or top-level commands without a name."""
    return typer.Typer(
        name=name, help=summary, no_args_is_help=name is not None, rich_markup_mode="markdown", add_completion=False
    )
