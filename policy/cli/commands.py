"""Commands that are imported when they run: the list of commands starts without them, and so does every other command.

Owns the loading. The tables of commands are in ``policy.cli.app`` and ``service.cli.app``.
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
    """A command in the list, with its summary; its module is imported when the command runs.

    The module's ``app`` is a Typer that has the command, or is the group itself.
    """

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self.module = module

    def load(self) -> Any:
        """The command or group.

        Raises:
            ImportError: the rule engine cannot be used; then no command runs.
        """
        import_module("policy.engine.rete")
        group = get_group(import_module(self.module).app)
        return group if group.name == self.name else group.commands[str(self.name)]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the loaded command, which parses the arguments and runs."""
        command = self.load()
        for parameter in command.get_params(parent):
            convert_lazily(parameter)
        for each in (command, *getattr(command, "commands", {}).values()):
            hide_flag_types(each.get_params(parent))
        return command.make_context(info_name, args, parent, **extra)


class LazyConversion:
    """A parameter's conversion, built when there is something to convert.

    Typer builds it with pydantic, and importing that takes longer than everything else that Typer does.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as Typer converts it."""
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, str) and param.type_descriptor.annotation is str:
            return value
        return self._build().coerce(value, param, ctx)


def hide_flag_types(parameters: Iterable[Any]) -> None:
    """Let the help show no ``<bool>`` after flags, as if a value followed."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""


def convert_lazily(parameter: Any) -> None:
    """Let a parameter of a command build its conversion when it is needed."""
    conversion = LazyConversion(parameter.get_runtime_param)
    parameter.get_runtime_param = lambda: conversion


COMMANDS: Final[dict[str, LazyCommand]] = {}


class CommandList(TyperGroup):
    """The group of all ``COMMANDS``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {**COMMANDS}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the list itself."""
        for parameter in self.get_params(ctx):
            convert_lazily(parameter)
        hide_flag_types(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the list, which parses the arguments."""
        with escaped_messages():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command of the context."""
        with escaped_messages():
            return super().invoke(ctx)


@contextmanager
def escaped_messages() -> Iterator[None]:
    """Escape control characters of arguments in the usage errors of the block, which typer prints itself."""
    try:
        yield
    except TyperException as error:
        error.message = escape_lines(error.message)
        raise


def add_command(name: str, module: str, summary: str) -> None:
    """Add a command to the list; ``summary`` is the first line of its help."""
    COMMANDS[name] = LazyCommand(name, module, summary)


def command_app(name: str | None = None, summary: str | None = None) -> typer.Typer:
    """The Typer of a module: a group of this name, or without one, commands of the top level."""
    return typer.Typer(
        name=name, help=summary, no_args_is_help=name is not None, rich_markup_mode="markdown", add_completion=False
    )
