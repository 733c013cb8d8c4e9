"""Which parts of a script run certainly, once, and in the running shell: branches, loops, functions, subshells, chains.

Acts on the variables: what a part sets that may not run, or runs elsewhere, is unknown or dropped after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.script_variables import Chain, ScriptVariables, VariablesSnapshot

if TYPE_CHECKING:
    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_commands import ScriptCommands

PIPES: Final = frozenset({"|", "|&"})
APART: Final = PIPES | {"&"}
"""The operators after a command that runs in a shell of its own."""
BEGIN: Final = {"if": "if", "while": "do", "until": "do", "for": "do", "case": "case"}
END: Final = {"fi": "if", "done": "do", "esac": "case", "}": "{"}
"""The words between which a part of a script runs conditionally, repeatedly, or not at all."""
FUNCTIONS: Final = frozenset({"{", "f("})
"""The kinds of parts that are the body of a function: in braces, or in a subshell."""
OPENERS: Final = frozenset({"then", "do", "else", "{", "!", "time", "if", "while", "until", "elif"})
"""Words after which a command begins."""
FUNCTION_DOUBT: Final = "a function runs later than it is read, and variables change in between"
LOOP_DOUBT: Final = "a loop sets variables, which may change the next time"


class _Part(Struct, gc=False):
    """A part of the script that is open, with the state before it; ``start`` is the index of its first command."""

    kind: str
    before: VariablesSnapshot
    chain: Chain
    start: int
    is_piped: bool


class ControlFlow(Struct):
    """The place of the current command in the parts, chains and pipelines of a script."""

    variables: ScriptVariables
    script: ScriptCommands
    budget: ExpansionBudget
    parts: list[_Part] = []
    is_piped: bool = False
    """Whether the current command reads from a pipe."""
    succeeds: bool = False
    """Whether the command before the current one certainly succeeds."""
    defines: bool = False
    """Whether the body of a function comes next."""
    bodies: list[tuple[int, int]] = []
    """The commands of each function, by their positions."""
    changed_in_group: list[str] = []
    """The variables that the braces before set, in case they run in a shell of their own: `{ A=b; } &`."""

    @property
    def is_conditional(self) -> bool:
        """Whether the current command may not run, or run again."""
        return bool(self.parts) or self.variables.chain.is_conditional

    @property
    def condition(self) -> object:
        """On what it depends that the current command runs: None if it certainly runs.

        Commands that `&&` joins have the same object: a later one runs only if the earlier ones have run. So have those
        before `||`, after whose failure the script goes on. A command after `||`, or in a branch, a loop, a function or
        any other part, has an object of its own, which says only that it may not run.
        """
        chain = self.variables.chain
        if self.parts or chain.joiner == "||":
            return object()
        return chain.group if chain.is_conditional else None

    @property
    def is_in_case(self) -> bool:
        """Whether the current words may be the pattern of a branch of `case`."""
        return bool(self.parts) and self.parts[-1].kind == "case"

    def read_keyword(self, word: str) -> bool:
        """Read the first word of a command, which may begin or end a part; false if a command begins after it."""
        if self.defines and word in BEGIN:
            self.doubt_body()
        if word in BEGIN or word == "{":
            self.enter(BEGIN.get(word, "{" if self.defines else "group"))
        elif word in END:
            self.leave(END[word])
        self.defines = False
        if word not in OPENERS:
            return True
        if word == "time":
            self.script.require_bash("`time`")
        return False

    def doubt_body(self) -> None:
        """Doubt a script with a function whose body is another command than braces or a subshell."""
        self.script.doubt_all("the body of a function has no braces")

    def enter(self, kind: str) -> None:
        """Begin a subshell, or a part that runs conditionally."""
        variables = self.variables
        before, start = variables.snapshot(), len(self.script.found)
        self.parts.append(_Part(kind, before, variables.chain, start, self.is_piped))
        variables.chain = Chain()
        variables.function_depth += kind in FUNCTIONS

    def leave(self, kind: str) -> None:
        """End it: what a subshell set is dropped, and what a branch, a loop or a function set becomes unknown."""
        if not self.parts:
            return
        opened = self.parts[-1].kind
        if opened != kind and (opened, kind) not in {("group", "{"), ("f(", "(")}:
            return
        variables, part, stop = self.variables, self.parts.pop(), len(self.script.found)
        variables.function_depth -= opened in FUNCTIONS
        variables.chain = part.chain
        variables.chain.is_waiting = False
        if opened == "do" and variables.changes != part.before.changes:
            self.budget.copy(stop - part.start)
            self.script.doubt_range(part.start, stop, LOOP_DOUBT)
        if kind == "(":
            variables.restore(part.before)
        else:
            changed = variables.changed_since(part.before)
            self.changed_in_group = changed
            if opened != "group" or part.is_piped:
                variables.doubt_exports_since(part.before)
                variables.forget(changed)
            elif variables.chain.is_conditional:
                variables.chain.doubtful.extend(changed)
        if opened in FUNCTIONS:
            self.bodies.append((part.start, stop))
            variables.follows_function = True

    def end_command(self, operator: str) -> bool:
        """Whether a command runs in a shell of its own: before that operator, or after a pipe."""
        self.variables.chain.is_waiting = False
        is_apart = operator in APART or self.is_piped
        if is_apart:
            self.variables.forget(self.changed_in_group)
        self.changed_in_group = []
        self.is_piped = operator in PIPES
        return is_apart

    def join(self, operator: str) -> None:
        """End one command of a chain: its success decides whether the next one runs."""
        chain = self.variables.chain
        if operator == "&":
            self.end_chain()
            return
        if operator == "||" and not self.parts:  # the commands in a part have a condition already
            self.script.may_fail(chain.start, chain.group)
            chain.start = len(self.script.found)
        if operator == "||" or chain.joiner == "||":
            self.variables.forget_doubtful()
            chain.group = object()
        chain.is_conditional = chain.is_conditional or operator == "||" or not self.succeeds
        chain.joiner, chain.is_waiting = operator, True
        self.succeeds = False

    def end_chain(self) -> None:
        """End the chain: what a part of it set that may not have run becomes unknown."""
        self.variables.forget_doubtful()
        self.variables.chain = Chain(start=len(self.script.found))
        self.succeeds = False

    def doubt_functions(self) -> None:
        """Doubt the commands of functions if variables change after them."""
        if self.variables.changed_after_function:
            for start, stop in self.bodies:
                self.script.doubt_range(start, stop, FUNCTION_DOUBT)
