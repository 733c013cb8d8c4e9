"""Track branches, loops, functions, subshells and chains, to know which commands certainly run once in this shell.

What a block sets becomes unknown after it if the block may not run, and is discarded if it runs in a subshell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.builtin_tables import TRAP_SIGNALS
from policy.intake.command.expansion import ShellSyntaxError
from policy.intake.command.known_status import CERTAIN_STATUS, TESTS, test_status
from policy.intake.command.script_variables import Chain, ScriptVariables, VariablesSnapshot
from policy.intake.command.words import Array, is_plain
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_commands import ScriptCommands

MAX_BLOCKS: Final = 1000
"""The maximum depth of blocks; shells themselves overflow their stack at some thousands."""
PIPES: Final = frozenset({"|", "|&"})
SUBSHELL_OPERATORS: Final = PIPES | {"&"}
"""The operators after a command that runs in a subshell."""
BLOCK_STARTS: Final = {"if": "if", "while": "do", "until": "do", "for": "do", "case": "case"}
BLOCK_ENDS: Final = {"fi": "if", "done": "do", "esac": "case", "}": "{"}
"""The words that begin and end a block, which may run once, repeatedly, or not at all."""
FUNCTION_BLOCKS: Final = frozenset({"{", "f("})
"""The kinds of blocks that are the body of a function: in braces, or in a subshell."""
CERTAIN_BLOCKS: Final = frozenset({"group", "if"})
"""The kinds of blocks that begin with a command that certainly runs if they are reached."""
OPENERS: Final = frozenset({"then", "do", "else", "{", "!", "time", "if", "while", "until", "elif"})
"""The words after which a command begins."""
BRANCHES: Final = frozenset({"then", "elif", "else", "do"})
CONDITIONS: Final = frozenset({"if", "elif", "while", "until"})
NEVER_RUN_MESSAGE: Final = "the commands after {} never run"
MAX_SHOWN: Final = 40
"""The maximum number of characters of a test that are shown."""
FUNCTION_DOUBT: Final = "a function runs after its definition, and variables change in between"
LOOP_DOUBT: Final = "a loop sets variables, which may have other values in the next iteration"


class _Block(Struct, gc=False):
    """An open block of the script, with the state before it and the word that opens it.

    ``start`` is the index of its first command.
    """

    kind: str
    before: VariablesSnapshot
    chain: Chain
    start: int
    is_piped: bool
    opener: str
    never: str = ""
    """Why no command of the current branch or loop runs; empty if one may."""
    is_decided: bool = False
    """Whether an earlier branch certainly runs, so that no later one does."""
    is_certain: bool = False
    """Whether the current branch certainly runs once, in the script's own shell unless the block turns out to be in a
    subshell."""
    is_next_certain: bool = False
    """Whether `elif` or `else` would begin such a branch."""
    unreached: str = ""
    """What ``ControlFlow.unreached`` was before the block."""
    before_branch: VariablesSnapshot | None = None
    """The state before the current branch; None if it is the state before the block."""
    mark: int = 0
    """How many variables had been changed before the block."""
    changed: dict[str, str | None] = {}
    """The variables that earlier branches change, each with what is known of its value after them."""
    exported: set[str] = set()
    """The variables that earlier branches export."""
    variable: str = ""
    """The variable of a loop over words that are listed."""


class ControlFlow(Struct):
    """The blocks, the chain and the pipeline that the current command is in."""

    variables: ScriptVariables
    script: ScriptCommands
    budget: ExpansionBudget
    blocks: list[_Block] = []
    is_piped: bool = False
    """Whether the current command reads from a pipe."""
    succeeds: bool = False
    """Whether the command before the current one certainly succeeds."""
    defines: bool = False
    """Whether the body of a function comes next."""
    bodies: list[tuple[int, int]] = []
    """The positions of the first command of each function, and of the first one after it."""
    unreached: str = ""
    """Why no further command of the script runs; empty if one may."""
    is_negated: bool = False
    """Whether `!` precedes the current command."""
    status: bool | None = None
    """Whether the chain so far has certainly succeeded or failed; None if that is not known."""
    status_of: str = ""
    """The command that decided ``status``."""
    condition_status: bool | None = None
    """Whether the last command, if it is a condition before `then` or `do`, has certainly succeeded or failed."""
    ends_on_failure: bool = False
    """Whether a command that fails certainly ends the script, as after `set -e`."""
    has_pipefail: bool = False
    """Whether a pipeline certainly fails if one of its commands does, as after `set -o pipefail`."""
    is_in_pipeline: bool = False
    """Whether the preceding command ended with a pipe."""
    pipeline_fails: bool = False
    """Whether a command of the current pipeline makes it certainly fail."""
    is_pipeline_negated: bool = False
    depth: int = 0
    """The number of ``blocks``; counting them for each command would be 2 % of the calls for a script."""
    loop_depth: int = 0
    piped_depth: int = 0
    """How many of the ``blocks`` read from a pipe."""
    unreached_before_block: str | None = None
    """What ``unreached`` was before the block that has just ended, which may turn out to run in a subshell, or not to
    run because of a redirection; None if the current command ends no block."""
    changed_in_group: list[str] = []
    """The variables set by the preceding braces, which may turn out to run in a subshell: `{ A=b; } &`."""

    @property
    def is_conditional(self) -> bool:
        """Whether the current command may not run, or may run repeatedly."""
        return bool(self.blocks) or self.variables.chain.is_conditional

    @property
    def _certainly_runs(self) -> bool:
        """Whether the current command certainly runs, also in a block."""
        is_certain = not self.blocks or self.blocks[-1].is_certain
        return is_certain and not self.variables.chain.is_conditional

    @property
    def is_repeated(self) -> bool:
        """Whether the current command is in a loop or a function."""
        return bool(self.loop_depth or self.variables.function_depth)

    @property
    def condition(self) -> object:
        """The condition on which the current command runs; None if it certainly runs.

        Commands joined by `&&` share a condition: a later one runs only if the earlier ones have run. So do the
        commands before `||`: if they fail, the script continues. A command after `||`, or in a block, has its own
        condition, which only means that it may not run.
        """
        chain = self.variables.chain
        if self.blocks or chain.joiner == "||":
            return object()
        return chain.group if chain.is_conditional else None

    @property
    def is_in_case(self) -> bool:
        """Whether the current words may be a pattern of `case`."""
        return bool(self.blocks) and self.blocks[-1].kind == "case"

    def read_keyword(self, word: str) -> bool:
        """Read the first word of a command, which may begin or end a block; false if the command begins after it."""
        if self.defines and word in BLOCK_STARTS:
            self.doubt_body()
        if word in BLOCK_STARTS or word == "{":
            self.enter(BLOCK_STARTS.get(word, "{" if self.defines else "group"), word)
        elif word in BRANCHES:
            self._begin_branch(word)
        elif word in BLOCK_ENDS:
            self.leave(BLOCK_ENDS[word])
        self.defines = False
        self.is_negated = self.is_negated is not (word == "!")
        if word not in OPENERS:
            return True
        if word == "time":
            self.script.require_bash("`time`")
        return False

    def doubt_body(self) -> None:
        """Doubt a script with a function whose body is neither in braces nor a subshell."""
        self.script.doubt_all("the body of a function has no braces")

    def _begin_branch(self, word: str) -> None:
        """Note at `then`, `elif`, `else` and `do` whether what follows never runs, because of a certain condition."""
        if not self.blocks or not self.blocks[-1].opener:
            return
        block, status = self.blocks[-1], self.condition_status
        if word == "then":
            block.is_next_certain = block.is_certain and status is False
            block.is_certain = block.is_certain and status is True
        elif word in {"elif", "else"}:
            block.is_certain = block.is_next_certain
        if word == "then" and len(self.variables.changed) != block.mark:
            block.before_branch = self.variables.snapshot()
        elif word in {"elif", "else"}:
            self._leave_branch(block)
        outer = self.blocks[-2].never if len(self.blocks) > 1 else ""
        if word in {"else", "elif"}:
            block.never = outer or (NEVER_RUN_MESSAGE.format(f"`{word}`") if block.is_decided else "")
            block.opener = word
        elif status is not None and block.opener in CONDITIONS:
            is_run = status is not (block.opener == "until")
            if not (is_run or block.never):
                block.never = NEVER_RUN_MESSAGE.format(f"`{block.opener} {self.status_of}`")
            block.is_decided = block.is_decided or (is_run and word == "then")

    def end_case_branch(self) -> None:
        """End a branch of `case`, after which another one may run in its place."""
        if self.is_in_case:
            self._leave_branch(self.blocks[-1])

    def _leave_branch(self, block: _Block) -> None:
        """End a branch before another one begins: keep what it changes, and restore the state before it."""
        variables, before = self.variables, block.before_branch or block.before
        self.budget.copy(len(variables.values))
        changed = variables.changed_since(before)
        variables.doubt_exports_since(before)
        variables.doubt(changed, before.values)
        for name in changed:
            value = variables.values[name]
            block.changed[name] = value if block.changed.get(name, value) == value else None
        block.exported |= variables.exported - before.exported
        variables.leave_branch(before)

    def _join_branches(self, block: _Block) -> None:
        """Make what the earlier branches of `if` or `case` change uncertain after the last one."""
        variables = self.variables
        variables.exported |= block.exported
        for name, value in block.changed.items():
            last, kept = variables.values.get(name), block.before.values.get(name)
            variables.assign(name, None)
            if isinstance(value, Array) and isinstance(last, Array) and isinstance(kept, Array):
                self.budget.fill(len(kept))
                if name not in variables.readonly and last.elements[: len(kept.elements)] == kept.elements:
                    variables.values[name] = value

    def iterate(self, words: Sequence[str], arguments: Sequence[str], operator: str) -> None:
        """Note that a loop over no words never runs: `for i in; do`, or `for i; do` without ``arguments``.

        The variable of a loop over plain words has one word in it.

        After `for i` and a line break, `in` may follow; in a function the arguments are its own.
        """
        is_over_arguments = len(words) == 2 and operator[:1] == ";" and not self.variables.function_depth  # noqa: PLR2004  # `for i`
        if self.blocks and (list(words[2:]) == ["in"] or (is_over_arguments and not arguments)):
            self.blocks[-1].never = self.blocks[-1].never or NEVER_RUN_MESSAGE.format(quoted(" ".join(words)))
        if self.blocks and words[2:3] == ["in"] and all(map(is_plain, words[1:])):
            self.blocks[-1].variable = words[1]
            self.variables.note_listed(words[1])

    def enter(self, kind: str, opener: str = "") -> None:
        """Begin a block.

        Raises:
            ShellSyntaxError: blocks are nested too deep.
        """
        if len(self.blocks) == MAX_BLOCKS:
            raise ShellSyntaxError(f"its blocks are nested more than {MAX_BLOCKS} deep, which is the limit")
        self.status, self.condition_status, self.is_negated = None, None, False
        variables = self.variables
        before, start = variables.snapshot(), len(self.script.commands)
        never = self.blocks[-1].never if self.blocks else ""
        mark = len(variables.changed)
        is_certain = kind in CERTAIN_BLOCKS and not (self.defines or self.is_piped) and self._certainly_runs
        block = _Block(kind, before, variables.chain, start, self.is_piped, opener, never, mark=mark)
        block.is_certain, block.unreached = is_certain, self.unreached
        self.blocks.append(block)
        variables.chain = Chain(start=start, mark=len(variables.changed), unreached=self.unreached)
        self.depth += 1
        self.piped_depth += self.is_piped
        self.is_piped = False  # the block as a whole reads from the pipe
        variables.function_depth += kind in FUNCTION_BLOCKS
        self.loop_depth += kind == "do"

    def leave(self, kind: str) -> None:
        """End a block: what a subshell set is discarded; what a branch, a loop or a function set becomes unknown."""
        self.status = self.condition_status = None
        if not self.blocks:
            return
        opened = self.blocks[-1].kind
        if opened != kind and (opened, kind) not in {("group", "{"), ("f(", "(")}:
            return
        variables, block, stop = self.variables, self.blocks.pop(), len(self.script.commands)
        self.unreached_before_block = block.unreached
        self.depth -= 1
        self.piped_depth -= block.is_piped
        variables.function_depth -= opened in FUNCTION_BLOCKS
        self.loop_depth -= opened == "do"
        variables.listed.discard(block.variable)
        variables.chain = block.chain
        variables.chain.is_waiting = False
        if opened == "do" and variables.changes != block.before.changes:
            self.budget.copy(stop - block.start)
            self.script.doubt_range(block.start, stop, LOOP_DOUBT)
        if kind == "(":
            variables.restore(block.before)
        else:
            changed = variables.changed_since(block.before)
            self.changed_in_group = changed
            if opened != "group" or block.is_piped:
                variables.doubt_exports_since(block.before)
                variables.doubt(changed, block.before.values)
                self._join_branches(block)
            elif variables.chain.is_conditional:
                variables.chain.doubtful.extend(changed)
                for name in changed:
                    variables.chain.before.setdefault(name, block.before.values.get(name))
        if opened in FUNCTION_BLOCKS:
            self.bodies.append((block.start, stop))
            variables.follows_function = True

    def end_command(self, operator: str, *, is_redirected: bool) -> bool:
        """End a command at ``operator``; returns whether it runs in a subshell."""
        self.variables.chain.is_waiting = False
        is_in_subshell = operator in SUBSHELL_OPERATORS or self.is_piped
        if self.unreached_before_block is not None:
            if is_in_subshell or is_redirected:
                self.unreached = self.unreached_before_block
            self.unreached_before_block = None
        if is_in_subshell:
            self.variables.forget_subshell(self.changed_in_group)
        self.changed_in_group = []
        self.is_piped = operator in PIPES
        return is_in_subshell

    def reach(
        self, words: Sequence[str], operator: str, *, is_in_subshell: bool, is_redirected: bool, is_literal: bool
    ) -> str:
        """Note what a command before ``operator`` means for later ones; return why it never runs, empty if it may.

        A redirection may fail, and then bash goes on after the command. After `set -e` a failure ends the script,
        except before `&&` or `||`, after `!`, and in a condition. ``is_literal``: whether the command has no
        expansions.
        """
        joiner = self.variables.chain.joiner
        is_negated, self.is_negated = self.is_negated, False
        if self.is_in_pipeline or operator in PIPES:
            is_negated = self._reach_in_pipeline(words[0], operator, is_negated=is_negated)
        why = self.unreached or (self.blocks[-1].never if self.blocks else "")
        if not why and self.status is not None and joiner == ("||" if self.status else "&&"):
            return f"the command after `{self.status_of} {joiner}` never runs"
        name = words[0]
        is_test = name in TESTS
        status: bool | None = None
        if name in CERTAIN_STATUS:  # without a call for every command, of which scripts may have many
            status = CERTAIN_STATUS[name]
        elif is_test and is_literal:
            status = test_status(words)
        is_known = not (is_in_subshell or (is_redirected and status is not False))
        is_success = status if is_known else None
        name = " ".join(words)[:MAX_SHOWN] if is_test else name
        if name == "trap" and not (is_in_subshell or is_redirected) and _sets_trap(words):
            is_success = True
        own = None if is_success is None else is_success is not is_negated
        if self.status is None and own is (joiner == "&&") and joiner:
            own = None  # the chain also depends on what is before it: `A && true`, `A || false`
        self.status = self.condition_status = own
        self.status_of = f"! {name}" if is_negated else name
        if is_in_subshell:
            return why
        if not is_redirected and (name == "exit" or (name == "exec" and _names_program(words))):
            if self._certainly_runs:
                self.unreached = f"{quoted(' '.join(words[:2]))} ends the script before it starts vLLM"
        elif self.is_conditional:
            return why
        elif self.ends_on_failure and not is_negated and self.status is False and operator not in {"&&", "||"}:
            self.unreached = f"`{name}` fails and ends the script, because of `-e`, before it starts vLLM"
        return why

    def _reach_in_pipeline(self, name: str, operator: str, *, is_negated: bool) -> bool:
        """Note the command of a pipeline before ``operator``; returns whether the pipeline is negated."""
        is_first, is_last = not self.is_in_pipeline, operator not in PIPES
        self.is_in_pipeline = not is_last
        if is_first:
            self.pipeline_fails, self.is_pipeline_negated = False, is_negated
        self.pipeline_fails = self.pipeline_fails or (name == "false" and (is_last or self.has_pipefail))
        is_negated = self.is_pipeline_negated
        ends = self.ends_on_failure and not (is_negated or self.is_conditional or operator in {"&&", "||", "&"})
        if is_last and self.pipeline_fails and ends and not self.unreached:
            self.unreached = "`false` fails in a pipeline and ends the script, because of `-e`, before it starts vLLM"
        return is_negated

    def join(self, operator: str) -> None:
        """Continue the chain after a command, whose success decides whether the next one runs."""
        chain = self.variables.chain
        if operator == "&":
            self._end_background()
            return
        if operator == "||" and not self.blocks:  # commands in a block already have a condition
            self.script.may_fail(chain.start, chain.group)
            chain.start = len(self.script.commands)
        if operator == "||" or chain.joiner == "||":
            self.variables.forget_doubtful()
            chain.group = object()
        chain.is_conditional = chain.is_conditional or operator == "||" or not self.succeeds
        chain.joiner, chain.is_waiting = operator, True
        self.succeeds = False

    def end_chain(self) -> None:
        """End the chain: what its conditional commands set becomes unknown."""
        self.status = None
        self.variables.forget_doubtful()
        start, mark = len(self.script.commands), len(self.variables.changed)
        self.variables.chain = Chain(start=start, mark=mark, unreached=self.unreached)
        self.succeeds = False

    def _end_background(self) -> None:
        """End a chain before `&`: all of it runs in a subshell, so that nothing that it changes is known after it.

        The commands after it may run before those of the chain.
        """
        if self.variables.chain.changes_shell:
            self.script.doubt_all("a list of commands in the background changes options or arguments of its shell")
        if self.blocks:  # each of the blocks around it may end with `&`, too
            self.budget.copy(len(self.script.commands) - self.variables.chain.start)
        self.script.run_in_background(self.variables.chain.start)
        self.unreached = self.variables.chain.unreached
        if not self.blocks:
            self.script.may_fail(self.variables.chain.start, self.variables.chain.group)
        self.variables.forget_background()
        self.end_chain()

    def doubt_functions(self) -> None:
        """Doubt the commands of functions if variables change after the definitions."""
        if self.variables.changed_after_function:
            for start, stop in self.bodies:
                self.script.doubt_range(start, stop, FUNCTION_DOUBT)


def _sets_trap(words: Sequence[str]) -> bool:
    """Whether `trap` has an action and signals that every shell knows, so that it certainly succeeds."""
    is_action = len(words) > 2 and type(words[1]) is str and (words[1] == "-" or words[1][:1] != "-")  # noqa: PLR2004  # with a signal
    return is_action and TRAP_SIGNALS.issuperset(words[2:])


def _names_program(words: Sequence[str]) -> bool:
    """Whether `exec` certainly has a program, and not only redirections or words that may be empty."""
    return len(words) > 1 and type(words[1]) is str and words[1] != "" and not words[1].startswith(("-", "{"))
