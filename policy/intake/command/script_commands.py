"""The simple commands of a script, in order, with doubts about whether a shell runs them as parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.builtin_tables import INTERPRETED_COMMANDS
from policy.intake.command.programs import mentions_vllm
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from policy.intake.command.substituted_commands import ShellExpansion

ENDING_COMMANDS: Final = frozenset({"exit", "exec", "true", "false", ":", "[", "test"})
"""Commands from which it is known that others never run, unless the script has a function with the name of one."""
REDEFINED_DOUBT: Final = "the script has a function of that name"


class Command(Struct, frozen=True, gc=False):
    """One simple command: its words without the assignments before it, and its variables.

    Commands share ``env`` if nothing is set between them, so it must not be modified. ``writes``: whether its output
    goes to a file. ``doubt``: why its words or variables may differ when it runs.
    """

    words: list[str]
    env: dict[str, str | None]
    writes: bool = False
    doubt: str = ""
    condition: object = None
    """The condition on which the command runs and succeeds; None if it certainly runs.

    It runs only if the earlier commands with the same condition have run. Conditions are compared by identity.
    """
    unreached: str = ""
    """Why the command certainly never runs, as after `exit`; empty if it may run."""
    is_masked: bool = False
    """Whether the commands after it run even if it fails or has not ended, as before `|` or `&`, or after `!`."""
    is_background: bool = False
    """Whether it runs at the same time as commands after it, because its list ends with `&`."""
    is_repeated: bool = False
    """Whether it may run after later commands, or several times: in a loop or a function."""
    outputs: Sequence[str] = ()
    """The files of its output, as written where they are not known."""
    is_required: bool = False
    """Whether its script ends if it fails, as under `set -e`."""
    joiner: str = ""
    """The operator before it in its list: `&&`, `||`, or none."""
    depth: int = 0
    """How many compound commands and functions enclose it."""
    substituted: Sequence[ShellExpansion] = ()
    """The expansions in it with `$(…)` or backticks that may change something; their commands run before it."""
    is_piped: bool = False
    """Whether it reads from a pipe, so that it runs at the same time as the one before it."""
    removed: Collection[str] = ()
    """The variables of ``env`` that it certainly does not have, because `unset` removed them; shared like ``env``."""
    arguments: Sequence[str] | None = None
    """The name and the arguments of its script, for `eval`; None if they are not known, or it is another command."""


class ScriptCommands(Struct):
    """The commands of a script so far. ``is_bash``: whether its shell is certainly bash."""

    is_bash: bool
    commands: list[Command] = []
    doubt: str = ""
    """Why the whole script may run other commands than those parsed; the first reason is kept."""
    later_doubt: tuple[int, str] | None = None
    """Why the commands from a position on may not run as parsed; the first position is kept."""
    function_names: set[str] = set()
    located: set[str] = set()
    """The variables whose values are not known and may name the files of vLLM or Python."""
    texts: list[str] = []
    """The words and values with a literal `$(…)` that names vLLM's server, which a shell may evaluate later."""

    def add(
        self,
        words: list[str],
        env: dict[str, str | None],
        *,
        writes: bool = False,
        condition: object = None,
        unreached: str = "",
        is_masked: bool = False,
        is_repeated: bool = False,
        outputs: Sequence[str] = (),
        is_required: bool = False,
        joiner: str = "",
        depth: int = 0,
        substituted: Sequence[ShellExpansion] = (),
        is_piped: bool = False,
        removed: Collection[str] = (),
        arguments: Sequence[str] | None = None,
    ) -> None:
        """Add a command."""
        command = Command(
            words,
            env,
            writes,
            "",
            condition,
            unreached,
            is_masked,
            is_repeated=is_repeated,
            outputs=outputs,
            is_required=is_required and condition is None and not is_masked,
            joiner=joiner,
            depth=depth,
            substituted=substituted,
            is_piped=is_piped,
            removed=removed,
            arguments=arguments,
        )
        self.commands.append(command)

    def note_texts(self, texts: Iterable[str | None]) -> None:
        """Note those of the texts that start vLLM if a shell evaluates them: `PS4='$(vllm serve MODEL)'`."""
        for text in texts:
            if text is not None and ("$(" in text or "`" in text) and type(text) is not Unknown and mentions_vllm(text):
                self.texts.append(text)

    def doubt_all(self, doubt: str) -> None:
        """Put the whole script in doubt."""
        self.doubt = self.doubt or doubt

    def doubt_after(self, doubt: str) -> None:
        """Put the commands after the current one, which is added next, in doubt."""
        self.later_doubt = self.later_doubt or (len(self.commands) + 1, doubt)

    def may_fail(self, start: int, condition: object) -> None:
        """Make the unconditional commands from ``start`` on conditional: the script continues if they fail."""
        for index in range(start, len(self.commands)):
            if self.commands[index].condition is None:
                self.commands[index] = replace(self.commands[index], condition=condition)

    def run_in_background(self, start: int) -> None:
        """Note that the commands from ``start`` on run at the same time as those after them."""
        for index in range(start, len(self.commands)):
            self.commands[index] = replace(self.commands[index], is_background=True)

    def require_bash(self, construct: str) -> None:
        """Doubt a script with a construct of bash, unless its shell is bash."""
        if not self.is_bash:
            self.doubt = self.doubt or f"only bash has {construct}, and the shell may be another one"

    def doubt_range(self, start: int, stop: int, doubt: str) -> None:
        """Add a doubt to the commands from ``start`` to ``stop`` that have none."""
        if doubt:
            for index in range(start, min(stop, len(self.commands))):
                if not self.commands[index].doubt:
                    self.commands[index] = replace(self.commands[index], doubt=doubt)

    def define_function(self, name: str) -> None:
        """Record a function: any command of that name may run it."""
        self.function_names.add(name)
        if name in INTERPRETED_COMMANDS:
            self.doubt_all(f"the script replaces `{name}` with a function")

    def with_doubts(self) -> list[Command]:
        """All commands, with the doubts about the whole script.

        A script in doubt may evaluate its texts, such as those in arithmetic, in `${A@P}` or in `PS4`, so each of them
        is also a command that is not known.
        """
        if self.doubt:
            for text in self.texts:
                self.add([Unknown(text)], {})
        if not self.function_names.isdisjoint(ENDING_COMMANDS):
            self.commands = [replace(command, unreached="") for command in self.commands]
        for index, command in enumerate(self.commands if self.function_names else ()):
            if not self.function_names.isdisjoint(word.rpartition("/")[2] for word in command.words):
                self.doubt_range(index, index + 1, REDEFINED_DOUBT)
        self.doubt_range(0, len(self.commands), self.doubt)
        if self.later_doubt is not None:
            start, doubt = self.later_doubt
            self.doubt_range(start, len(self.commands), doubt)
        return self.commands
