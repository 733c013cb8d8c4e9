"""The simple commands of a script, in order, and why it is doubtful that they run as they are read."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.builtin_tables import INTERPRETED

REDEFINED_DOUBT: Final = "the script has a function of that name"


class Command(Struct, frozen=True, gc=False):
    """One simple command: its words without the assignments before it, and its variables.

    Commands share ``env`` if nothing is set between them, so it must not be changed. ``writes`` says that its output
    goes to a file. ``doubt`` says why the words or the variables may be others when the command runs.
    """

    words: list[str]
    env: dict[str, str | None]
    writes: bool = False
    doubt: str = ""
    condition: object = None
    """On what it depends that the command runs and succeeds; None if it certainly runs.

    It runs only if the earlier commands with the same object have run. Objects are compared by identity.
    """


class ScriptCommands(Struct):
    """The commands that a script has so far. ``is_bash`` says that bash reads it, not perhaps another shell."""

    is_bash: bool
    found: list[Command] = []
    doubt: str = ""
    """Why the script as a whole may run other commands than those that are read; the first reason is kept."""
    function_names: set[str] = set()

    def add(
        self, words: list[str], env: dict[str, str | None], *, writes: bool = False, condition: object = None
    ) -> None:
        """Add a command."""
        self.found.append(Command(words, env, writes, "", condition))

    def doubt_all(self, doubt: str) -> None:
        """Put the whole script in doubt."""
        self.doubt = self.doubt or doubt

    def may_fail(self, start: int, condition: object) -> None:
        """Give the commands from ``start`` that have no condition this one: the script goes on if they fail."""
        for index in range(start, len(self.found)):
            if self.found[index].condition is None:
                self.found[index] = replace(self.found[index], condition=condition)

    def require_bash(self, construct: str) -> None:
        """Doubt a script with a construct of bash that another shell reads differently."""
        if not self.is_bash:
            self.doubt = self.doubt or f"only bash has {construct}, and the shell may be another one"

    def doubt_range(self, start: int, stop: int, doubt: str) -> None:
        """Add a doubt to those of the commands from ``start`` to ``stop`` that have none."""
        if doubt:
            for index in range(start, min(stop, len(self.found))):
                if not self.found[index].doubt:
                    self.found[index] = replace(self.found[index], doubt=doubt)

    def define_function(self, name: str) -> None:
        """Count a function: commands of that name, before or after, may run it."""
        self.function_names.add(name)
        if name in INTERPRETED:
            self.doubt_all(f"the script replaces `{name}` with a function")

    def doubted(self) -> list[Command]:
        """All commands, with the doubts that hold for the whole script."""
        for index, command in enumerate(self.found if self.function_names else ()):
            if not self.function_names.isdisjoint(word.rpartition("/")[2] for word in command.words):
                self.doubt_range(index, index + 1, REDEFINED_DOUBT)
        self.doubt_range(0, len(self.found), self.doubt)
        return self.found
