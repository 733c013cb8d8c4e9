"""The variables at the current position of a script: their values, and which of them its commands get.

A value that only a running shell knows is None. Not here: which command sets which variable (`shell_builtins`), whether
a block runs (`control_flow`), and how `${A:-b}` uses a value (`parameter_expansion`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from policy.intake.command.words import Array, Unknown, is_uncertain
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from policy.intake.command.expansion import ExpansionBudget

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Matches the name of a variable."""
REFERENCE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*+)")
"""Matches the use of a variable."""
ARITHMETIC_ASSIGNMENT: Final = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+)(?:\[[^]]{0,256}\])?+\s*+(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    r"|(?:\+\+|--)\s*+([A-Za-z_][A-Za-z0-9_]*+)"
)
"""Matches an assignment within arithmetic."""
SHELL_VARIABLES: Final = re.compile(
    r"BASH\w*|COLUMNS|COMP_\w+|DIRSTACK|EPOCH\w+|EUID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|LINES|OLDPWD"
    r"|OPT(?:ARG|ERR|IND)|PIPESTATUS|PPID|PS[124]|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_"
)
"""Matches the variables that a shell itself sets and changes; after each program bash sets the size of its terminal."""
ONE_WORD_VARIABLE: Final = re.compile(
    r"HOSTNAME|JOB_COMPLETION_INDEX|KUBERNETES_\w+|LWS_\w+|PPID|\w+_(?:SERVICE_HOST|SERVICE_PORT\w*)"
)
"""Matches variables that every shell, Kubernetes or LeaderWorkerSet sets to a number, a name or an address."""
GROUP_VARIABLES: Final = frozenset({"LWS_GROUP_SIZE", "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"})
"""The variables that LeaderWorkerSet sets in every container of a group."""


NO_ELEMENTS: Final = Array([])


class SimpleCommand(Struct):
    """The current command: its words so far, and the assignments before them."""

    words: list[str] = []
    assignments: dict[str, str | None] = {}


ALWAYS_EXPORTED: Final = frozenset({"HOME", "PATH"})
"""The variables that every container and service has, so that a new value reaches commands without `export`."""


class Chain(Struct, gc=False):
    """Commands joined by `&&` and `||`; the later ones may not run.

    ``joiner`` is the operator before the current command; ``is_waiting``: whether this command has not begun.
    ``doubtful`` has the variables set by commands that may not run, and ``before`` their values before. ``group``
    identifies the commands between two `||`: each runs only if those before it in the group have run. ``start`` is the
    position of the first command that may be unconditional.
    """

    joiner: str = ""
    is_waiting: bool = False
    is_conditional: bool = False
    doubtful: list[str] = []
    before: dict[str, str | None] = {}
    group: object = field(default_factory=object)
    start: int = 0
    mark: int = 0
    """How many variables had been changed before the chain."""
    unreached: str = ""
    """Why none of its commands runs; empty if they may."""
    changes_shell: bool = False
    """Whether it changes options or arguments of its shell."""


class VariablesSnapshot(Struct, frozen=True, gc=False):
    """The variables before a block of the script."""

    values: dict[str, str | None]
    environment: dict[str, str | None]
    exported: frozenset[str]
    perhaps_exported: frozenset[str]
    not_exported: frozenset[str]
    readonly: frozenset[str]
    arrays: frozenset[str]
    exports_all: bool
    changes: int


class ScriptVariables(Struct):
    """The variables of a script, and those of its ``outer`` environment.

    Assignments before a ``command`` see the preceding ones. The variables set by a command that may not run are
    recorded in its ``chain``, and become unknown after it.
    """

    outer: Mapping[str, str | None]
    budget: ExpansionBudget
    command: SimpleCommand
    replaced: frozenset[str] = frozenset()
    """The variables that are replaced in the script before its shell reads it, by values that are not known."""
    values: dict[str, str | None] = {}
    """The variables that the script itself sets."""
    environment: dict[str, str | None] = {}
    """Those of ``values`` that the commands get."""
    is_environment_shared: bool = False
    """Whether an earlier command refers to `environment` and `removed`, so that they are copied before a change."""
    exported: set[str] = field(default_factory=lambda: set(ALWAYS_EXPORTED))
    perhaps_exported: set[str] = set()
    """Names exported by a block that may not run: their values for commands are unknown."""
    unset_names: set[str] = set()
    """The variables that `unset` may have removed, and that nothing sets after it."""
    removed: set[str] = set()
    """Those of ``environment`` that `unset` has certainly removed, so that the commands do not get them."""
    listed: set[str] = set()
    """The variables of the loops around the current command whose values are all listed, and are one word each."""
    refuses_unset: bool = False
    """Whether the use of a variable that is not set may end the script, as after `set -u`."""
    not_exported: set[str] = set()
    """Names of variables that were unset or no longer exported, so that a new value may not reach commands."""
    readonly: set[str] = set()
    arrays: set[str] = set()
    """Names of variables that are or were arrays."""
    references: set[str] = set()
    """Names of variables that refer to others by name, as after `declare -n`, and of those others: none is known."""
    exports_all: bool = False
    """Whether `set -a` is on."""
    chain: Chain = field(default_factory=Chain)
    function_depth: int = 0
    """How many functions enclose the current command."""
    follows_function: bool = False
    """Whether the body of a function has ended."""
    set_in_functions: set[str] = set()
    changes: int = 0
    """How often a variable was assigned a value or exported, or a known value became unknown."""
    changed: list[str] = []
    """The variables that were changed or exported, in order."""
    changed_after_function: bool = False
    """Whether a variable was changed after the definition of a function, which may run later."""

    @property
    def sets_separators(self) -> bool:
        """Whether the script sets `IFS`, so that values may not be split at blanks."""
        return "IFS" in self.values

    def is_stated(self, name: str) -> bool:
        """Whether a variable is set, even if to an unknown value."""
        return (
            name in self.values
            or name in self.outer
            or name in self.replaced
            or (not self.command.words and name in self.command.assignments)
        )

    def value(self, name: str) -> str | None:
        """The value of a variable, or of an array's first element; None if it is unknown.

        An assignment sees the preceding ones in the same command.
        """
        if not self.command.words and name in self.command.assignments:
            value = self.command.assignments[name]
        else:
            value = self.values[name] if name in self.values else self.outer.get(name)
        if name in self.replaced or SHELL_VARIABLES.fullmatch(name) is not None:
            return None
        if isinstance(value, Array):
            first = value.elements[0] if value.elements else ""
            return None if is_uncertain(first) else first
        return value

    def elements(self, name: str, assignments: Mapping[str, str | None]) -> tuple[str, ...] | None:
        """The elements of a variable as an array; None if they are unknown. `assignments` take precedence."""
        found = self.array(name, assignments)
        return None if found is None else found.elements

    def array(self, name: str, assignments: Mapping[str, str | None]) -> Array | None:
        """A variable as an array; None if it is unknown. `assignments` take precedence."""
        if name in self.replaced or SHELL_VARIABLES.fullmatch(name) is not None:
            return None
        for variables in (assignments, self.values, self.outer):
            if name in variables:
                value = variables[name]
                return value if isinstance(value, Array) else None if value is None else Array([value])
        return NO_ELEMENTS

    def is_array(self, name: str) -> bool:
        """Whether a variable is an array that the script made."""
        return isinstance(self.values.get(name), Array)

    def is_one_word(self, name: str, *, is_hidden: bool) -> bool:
        """Whether a variable that the script does not set has a one-word value, because of what sets it.

        So has that of a loop over words.

        With ``is_hidden`` a hidden source may set it instead, except for LeaderWorkerSet's, which take precedence. If
        something else states one of those, the reader of the manifest adds the doubt.
        """
        if name in self.listed:
            return not self.sets_separators
        if ONE_WORD_VARIABLE.fullmatch(name) is None or name in self.values or name in self.command.assignments:
            return False
        if self.sets_separators:
            return False
        is_set_by_others = is_hidden or name in self.outer
        return not is_set_by_others or name in GROUP_VARIABLES

    def note_listed(self, name: str) -> None:
        """Note that each value of the variable of a loop is one word, until something else sets it."""
        is_own = name in self.readonly or name in self.references or SHELL_VARIABLES.fullmatch(name) is not None
        if not is_own and name not in self.replaced:
            self.listed.add(name)

    def assign(self, name: str, value: str | None) -> None:
        """Set a variable, and export the value if the variable is exported.

        One that is set after `set -a` stays exported, also after `set +a`.
        """
        self.budget.note_value(name, value)
        if self.unset_names:
            self.unset_names.discard(name)
        if self.listed:
            self.listed.discard(name)
        if name in self.removed:
            self._copy_if_shared()
            self.removed.discard(name)
        if isinstance(value, Array):
            self.arrays.add(name)
        elif name in self.arrays:
            value = None  # only the first element is set, if it is an array
        if value is not None or (self.is_stated(name) and self.value(name) is not None):
            self.changes += 1
            self.changed_after_function |= self.follows_function and not self.function_depth
        self.changed.append(name)
        if name in self.readonly:
            value = None
        if name in self.references:
            self._refer_to(value)
            value = None
        if self.function_depth:
            self.set_in_functions.add(name)
        if self.exports_all:
            self.export(name)
        is_passed = name in self.exported or name in self.outer
        is_new = (
            name not in self.values
            or self.values[name] != value
            or (is_passed and name not in self.environment and name not in self.outer)
        )
        if self.chain.is_conditional and value is not None and is_new:
            self.chain.doubtful.append(name)
            self.chain.before.setdefault(name, self.values.get(name))
        self.values[name] = value
        if is_passed:
            self._copy_if_shared()
            is_certain = name in self.exported and name not in self.perhaps_exported
            is_certain = is_certain or self.outer.get(name) is not None  # one that is not known may not be set
            is_passed_on = is_certain and name not in self.not_exported
            is_passed_on = is_passed_on and not isinstance(value, Array)  # bash exports no arrays
            self.environment[name] = value if is_passed_on else None

    def refer(self, name: str, value: str) -> None:
        """Make a variable a reference to the one that its value names, if it names one."""
        self.references.add(name)
        self.assign(name, value or None)

    def _refer_to(self, value: str | None) -> None:
        """Note that a reference may get another variable by its name."""
        if value and value not in self.references and NAME.fullmatch(value) is not None:
            self.references.add(value)
            self.assign(value, None)

    def note_sources(self, name: str, written: str) -> None:
        """Record the values of the variables in an unknown word, if it is assigned to a name like that of a secret."""
        if is_secret(name):
            for found in REFERENCE.finditer(written):
                value = self.value(found[1])
                self.budget.fill(len(value or ""))
                self.budget.note_value(name, value)

    def forget(self, names: Iterable[str]) -> None:
        """Mark variables as unknown."""
        for name in names:
            self.assign(name, None)

    def forget_assigned(self, text: str) -> None:
        """Mark as unknown the variables that arithmetic in ``text`` assigns."""
        for found in ARITHMETIC_ASSIGNMENT.finditer(text):
            self.assign(found.group(1) or found.group(2), None)

    def forget_ending(self, text: str) -> None:
        """Mark the variables whose names end ``text`` as unknown, as in an option with its value: `-aNAME`."""
        self.budget.copy(len(self.values) + len(self.outer))
        self.forget([name for name in {*self.values, *self.outer} if text.endswith(name)])

    def forget_background(self) -> None:
        """Mark what the chain changed as unknown, as it runs in a subshell: `A=b && c &`."""
        mark = self.chain.mark
        names = list(dict.fromkeys(self.changed[mark:]))
        self.budget.copy(len(names))
        self.forget_subshell(names)
        self.changed[mark:] = names

    def forget_subshell(self, names: Sequence[str]) -> None:
        """Mark the variables that a subshell changed as unknown, and their exports as uncertain."""
        self.perhaps_exported.update(name for name in names if self.exports_all or name in self.exported)
        self.forget(names)

    def forget_doubtful(self) -> None:
        """Mark as unknown the variables that conditional commands of the chain set."""
        if not self.chain.doubtful:
            return
        names, self.chain.doubtful = self.chain.doubtful, []
        before, self.chain.before = self.chain.before, {}
        self.perhaps_exported.update(name for name in names if name in self.exported)
        self.doubt(names, before)

    def doubt(self, names: Iterable[str], before: Mapping[str, str | None]) -> None:
        """Mark variables as unknown because they have either their values from ``before`` or the present ones.

        An array keeps the elements that it has either way.
        """
        for name in names:
            kept, value = before.get(name), self.values.get(name)
            self.assign(name, None)
            if isinstance(kept, Array) and isinstance(value, Array) and name not in self.readonly:
                self.budget.fill(len(kept))
                if value.elements[: len(kept.elements)] == kept.elements:
                    self.values[name] = _perhaps_more(name, kept)

    def forget_set_in_functions(self) -> None:
        """Mark as unknown the variables that functions set."""
        self.budget.copy(len(self.set_in_functions))
        self.forget(sorted(self.set_in_functions))

    def export(self, name: str) -> None:
        """Export a variable, with effect from its next assignment on."""
        if name not in self.exported:
            self.changes += 1
            self.changed.append(name)
            if self.chain.is_conditional:
                self.chain.doubtful.append(name)
        self.exported.add(name)
        if not self.chain.is_conditional:
            self.not_exported.discard(name)

    def make_array(self, name: str) -> None:
        """Turn a variable into an array whose first element is its value."""
        if isinstance(self.values.get(name), Array):
            return
        value = self.value(name)
        if value is not None:
            self.assign(name, Array([value]))
        else:
            self.assign(name, None if self.is_stated(name) else Array([]))
        self.not_exported.add(name)

    def apply_unset(self, name: str, *, is_certain: bool) -> None:
        """Apply the shell's `unset`: the value is unknown, and a variable that is not read-only counts as unset.

        ``is_certain``: whether the command certainly runs if the chain does, in the script's own shell.
        """
        self.unset(name)
        if name in self.readonly:
            return
        self.unset_names.add(name)
        is_own = name in self.references or SHELL_VARIABLES.fullmatch(name) is not None
        if is_certain and name in self.environment and not is_own:
            self._copy_if_shared()
            self.removed.add(name)
            if self.chain.is_conditional:
                self.chain.doubtful.append(name)
                self.chain.before.setdefault(name, self.values.get(name))

    def unset(self, name: str) -> None:
        """Mark a variable as unknown, and as no longer certain to be exported."""
        self.assign(name, None)
        self.not_exported.add(name)

    def unexport(self, name: str) -> None:
        """Stop exporting a variable."""
        self.unset(name)
        self.exported.discard(name)

    def export_all(self, *, is_on: bool) -> None:
        """Start or stop exporting every variable that is set, as `set -a` does."""
        self.exports_all = is_on
        if is_on:
            self._copy_environment()

    def share_environment(self) -> dict[str, str | None]:
        """The variables of a command without assignments before it."""
        self.is_environment_shared = True
        return self.environment

    def removed_without(self, assignments: Mapping[str, str | None]) -> Collection[str]:
        """The variables that a command with assignments before it certainly does not have."""
        if not self.removed:
            return ()
        if not assignments:
            return self.removed
        self.budget.copy(len(self.removed))
        return self.removed.difference(assignments)

    def environment_with(self, assignments: Mapping[str, str | None]) -> dict[str, str | None]:
        """The variables of a command with assignments before it."""
        self.budget.copy(len(self.environment) + len(assignments))
        own = {name: None if isinstance(value, Array) else value for name, value in assignments.items()}
        return {**self.environment, **own}

    def snapshot(self) -> VariablesSnapshot:
        """The variables before a block of the script."""
        sets = (self.exported, self.perhaps_exported, self.not_exported, self.readonly, self.arrays)
        self.budget.copy(len(self.values) + sum(map(len, sets)))
        self.is_environment_shared = True
        return VariablesSnapshot(
            self.values.copy(),
            self.environment,
            frozenset(self.exported),
            frozenset(self.perhaps_exported),
            frozenset(self.not_exported),
            frozenset(self.readonly),
            frozenset(self.arrays),
            self.exports_all,
            self.changes,
        )

    def restore(self, before: VariablesSnapshot) -> None:
        """Discard what a subshell set, exported or declared."""
        self.values, self.environment, self.exports_all = before.values, before.environment, before.exports_all
        self.exported, self.perhaps_exported = set(before.exported), set(before.perhaps_exported)
        self.not_exported, self.readonly, self.arrays = map(set, (before.not_exported, before.readonly, before.arrays))
        self.is_environment_shared = True

    def leave_branch(self, before: VariablesSnapshot) -> None:
        """Go back to the values and exports ``before`` a branch, for a branch that runs in its place."""
        self.values, self.environment = before.values.copy(), before.environment
        self.exported, self.is_environment_shared = set(before.exported), True

    def changed_since(self, before: VariablesSnapshot) -> list[str]:
        """The names of the variables whose values have changed, or that are exported now or no longer."""
        exports = self.exported ^ before.exported
        return [
            name
            for name, value in self.values.items()
            if name not in before.values or before.values[name] != value or (name in exports and name not in self.outer)
        ]

    def doubt_exports_since(self, before: VariablesSnapshot) -> None:
        """Mark the exports since ``before`` as uncertain."""
        self.perhaps_exported |= self.exported - before.exported

    def _copy_if_shared(self) -> None:
        if self.is_environment_shared:
            self._copy_environment()

    def _copy_environment(self) -> None:
        self.budget.copy(len(self.environment) + len(self.removed))
        self.environment, self.removed = self.environment.copy(), self.removed.copy()
        self.is_environment_shared = False


def _perhaps_more(name: str, array: Array) -> Array:
    """An array to which elements may have been added."""
    others = f"${{{name}[@]}}"
    if array.elements and type(array.elements[-1]) is Unknown and array.elements[-1] == others:
        return array
    return Array((*array.elements, Unknown(others, is_several=True)))
