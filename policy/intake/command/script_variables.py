"""The variables of a script while it is read: their values, and which of them its commands get.

A value that only a running shell knows is None. Not here: which command sets what (`shell_builtins`), when a part of
the script runs (`control_flow`), and how `${A:-b}` uses a value (`parameter_expansion`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from policy.intake.command.words import Array, is_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policy.intake.command.expansion import ExpansionBudget

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Matches the name of a variable."""
CALCULATED: Final = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+)(?:\[[^]]{0,256}\])?+\s*+(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    r"|(?:\+\+|--)\s*+([A-Za-z_][A-Za-z0-9_]*+)"
)
"""Matches what arithmetic assigns."""
CHANGING: Final = re.compile(
    r"BASH\w*|COMP_\w+|DIRSTACK|EPOCH\w+|EUID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|OLDPWD|OPT(?:ARG|ERR|IND)|PIPESTATUS"
    r"|PPID|PS4|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_"
)
"""Matches the variables to which a shell gives values of its own."""
ONE_WORD: Final = re.compile(
    r"HOSTNAME|JOB_COMPLETION_INDEX|KUBERNETES_\w+|LWS_\w+|PPID|\w+_(?:SERVICE_HOST|SERVICE_PORT\w*)"
)
"""Matches variables that every shell, Kubernetes or LeaderWorkerSet sets to a number, a name or an address."""


class SimpleCommand(Struct):
    """The command that is being read: its words so far, and the assignments before them."""

    words: list[str] = []
    assignments: dict[str, str | None] = {}


class Chain(Struct, gc=False):
    """Commands joined by `&&` and `||`, of which the later ones may not run.

    ``joiner`` is the operator before the current command, ``is_waiting`` says that this command has not begun.
    ``doubtful`` has the variables set by a command that may not run. ``group`` stands for the commands between two
    `||`: one of them runs only if those before it in the group have run. ``start`` is the position of the first command
    that may have no condition.
    """

    joiner: str = ""
    is_waiting: bool = False
    is_conditional: bool = False
    doubtful: list[str] = []
    group: object = field(default_factory=object)
    start: int = 0


class VariablesSnapshot(Struct, frozen=True, gc=False):
    """The variables as they were before a part of the script."""

    values: dict[str, str | None]
    environment: dict[str, str | None]
    exported: frozenset[str]
    changes: int


class ScriptVariables(Struct):
    """The variables that the current command sees, and those ``around`` the script.

    Assignments before the ``command`` are seen by those that follow them in it. What a command sets that may not run
    is noted in its ``chain``, and is unknown after that.
    """

    around: Mapping[str, str | None]
    budget: ExpansionBudget
    command: SimpleCommand
    values: dict[str, str | None] = {}
    """The variables that the script itself sets."""
    environment: dict[str, str | None] = {}
    """Those of them that the commands get."""
    is_environment_shared: bool = False
    """Whether a command that was found has `environment`, which is copied before the next change."""
    exported: set[str] = set()
    perhaps_exported: set[str] = set()
    """Names that are exported by a part of the script that may not run: their value for commands is unknown."""
    not_exported: set[str] = set()
    """Names of variables that were removed, or hidden from commands, so that a new value is not passed on."""
    readonly: set[str] = set()
    exports_all: bool = False
    """Whether `set -a` is on."""
    chain: Chain = field(default_factory=Chain)
    function_depth: int = 0
    """How many functions the current command is in."""
    follows_function: bool = False
    """Whether the body of a function has ended."""
    set_in_functions: set[str] = set()
    changes: int = 0
    """How often a variable got a value, or a known one became unknown."""
    changed_after_function: bool = False
    """Whether that happened after a function, which runs later than it is read."""

    @property
    def sets_separators(self) -> bool:
        """Whether the script sets `IFS`, so that values are not split at blanks."""
        return "IFS" in self.values

    def is_stated(self, name: str) -> bool:
        """Whether a variable is known to be set, or was set to an unknown value."""
        return (
            name in self.values or name in self.around or (not self.command.words and name in self.command.assignments)
        )

    def value(self, name: str) -> str | None:
        """The value of a variable, of an array that of its first element; None if it is not known.

        An assignment sees those before it in the same command.
        """
        if not self.command.words and name in self.command.assignments:
            value = self.command.assignments[name]
        else:
            value = self.values[name] if name in self.values else self.around.get(name)
        if CHANGING.fullmatch(name) is not None:
            return None
        if isinstance(value, Array):
            first = value.elements[0] if value.elements else ""
            return None if is_open(first) else first
        return value

    def elements(self, name: str, assignments: Mapping[str, str | None]) -> tuple[str, ...] | None:
        """The elements of a variable as an array; None if they are not known. `assignments` go before all others."""
        for variables in (assignments, self.values, self.around):
            if name in variables:
                value = variables[name]
                return value.elements if isinstance(value, Array) else None if value is None else (value,)
        return ()

    def is_one_word(self, name: str, *, is_hidden: bool) -> bool:
        """Whether the value of a variable that the text does not set is one word, as who sets it is known.

        With ``is_hidden`` others may set it too, except for LeaderWorkerSet's: those win over what is not shown.
        """
        if ONE_WORD.fullmatch(name) is None or name in self.values or name in self.command.assignments:
            return False
        if self.sets_separators:
            return False
        is_set_by_others = is_hidden or name in self.around
        return not is_set_by_others or name.startswith("LWS_")  # a manifest cannot set those to unknown values

    def assign(self, name: str, value: str | None) -> None:
        """Set a variable, for the commands that follow too if it is exported."""
        if isinstance(self.values.get(name), Array) and not isinstance(value, Array):
            value = None  # only the first element is set
        if value is not None or (self.is_stated(name) and self.value(name) is not None):
            self.changes += 1
            self.changed_after_function |= self.follows_function and not self.function_depth
        if name in self.readonly:
            value = None
        if self.function_depth:
            self.set_in_functions.add(name)
        is_passed = self.exports_all or name in self.exported or name in self.around
        is_new = (
            name not in self.values
            or self.values[name] != value
            or (is_passed and name not in self.environment and name not in self.around)
        )
        if self.chain.is_conditional and value is not None and is_new:
            self.chain.doubtful.append(name)
        self.values[name] = value
        if is_passed:
            if self.is_environment_shared:
                self._copy_environment()
            is_certain = name not in self.perhaps_exported or name in self.around
            is_passed_on = is_certain and name not in self.not_exported
            is_passed_on = is_passed_on and not isinstance(value, Array)  # bash exports no arrays
            self.environment[name] = value if is_passed_on else None

    def forget(self, names: Iterable[str]) -> None:
        """Make variables unknown."""
        for name in names:
            self.assign(name, None)

    def forget_calculated(self, text: str) -> None:
        """Make the variables unknown that arithmetic sets."""
        for found in CALCULATED.finditer(text):
            self.assign(found.group(1) or found.group(2), None)

    def forget_ending(self, text: str) -> None:
        """Make the variables unknown with whose name a text ends, such as an option with a value: `-aNAME`."""
        self.budget.copy(len(self.values) + len(self.around))
        self.forget([name for name in {*self.values, *self.around} if text.endswith(name)])

    def forget_doubtful(self) -> None:
        """Make the variables unknown that commands of the chain set which may not have run."""
        if not self.chain.doubtful:
            return
        names, self.chain.doubtful = self.chain.doubtful, []
        self.perhaps_exported.update(name for name in names if name in self.exported)
        self.forget(names)

    def forget_set_in_functions(self) -> None:
        """Make the variables unknown that functions set."""
        self.budget.copy(len(self.set_in_functions))
        self.forget(sorted(self.set_in_functions))

    def export(self, name: str) -> None:
        """Pass a variable to commands from its next assignment on."""
        if self.chain.is_conditional and name not in self.exported:
            self.chain.doubtful.append(name)
        self.exported.add(name)
        if not self.chain.is_conditional:
            self.not_exported.discard(name)

    def make_array(self, name: str) -> None:
        """Make an array of a variable, of which its value is the first element."""
        if isinstance(self.values.get(name), Array):
            return
        value = self.value(name)
        if value is not None:
            self.assign(name, Array([value]))
        else:
            self.assign(name, None if self.is_stated(name) else Array([]))
        self.not_exported.add(name)

    def unset(self, name: str) -> None:
        """Make a variable unknown that may be removed: then a new value is not passed to commands."""
        self.assign(name, None)
        self.not_exported.add(name)

    def hide(self, name: str) -> None:
        """Pass a variable to commands no longer."""
        self.unset(name)
        self.exported.discard(name)

    def export_all(self, *, is_on: bool) -> None:
        """Pass every variable that is set from here on to commands, or no longer."""
        self.exports_all = is_on
        if is_on:
            self._copy_environment()

    def share_environment(self) -> dict[str, str | None]:
        """The variables of a command without assignments of its own."""
        self.is_environment_shared = True
        return self.environment

    def environment_with(self, assignments: Mapping[str, str | None]) -> dict[str, str | None]:
        """The variables of a command with assignments before it."""
        self.budget.copy(len(self.environment) + len(assignments))
        own = {name: None if isinstance(value, Array) else value for name, value in assignments.items()}
        return {**self.environment, **own}

    def snapshot(self) -> VariablesSnapshot:
        """The variables before a part of the script."""
        self.budget.copy(len(self.values))
        self.is_environment_shared = True
        return VariablesSnapshot(self.values.copy(), self.environment, frozenset(self.exported), self.changes)

    def restore(self, before: VariablesSnapshot) -> None:
        """Drop what a subshell set."""
        self.values, self.environment, self.exported = before.values, before.environment, set(before.exported)
        self.is_environment_shared = True

    def changed_since(self, before: VariablesSnapshot) -> list[str]:
        """The names of the variables that have another value than before."""
        return [
            name for name, value in self.values.items() if name not in before.values or before.values[name] != value
        ]

    def doubt_exports_since(self, before: VariablesSnapshot) -> None:
        """Count what was exported since then as perhaps exported."""
        self.perhaps_exported |= self.exported - before.exported

    def _copy_environment(self) -> None:
        self.budget.copy(len(self.environment))
        self.environment, self.is_environment_shared = self.environment.copy(), False
