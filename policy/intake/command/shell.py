"""Split a shell script into commands and words, with the variables that the script sets. Nothing is run.

Handles quotes, line continuations, comments, arrays and separators. Not here: building words (`command_builder`),
expansions (`parameter_expansion`), redirections (`redirections`), the effects of commands (`shell_builtins`) and of
branches and loops (`control_flow`), and which command starts vLLM (`launcher`). A word whose value only a running
shell knows stays as written and is an `Unknown`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.intake.command.ambiguous_text import OTHER_READING, hiding_text
from policy.intake.command.certain_scripts import uncertain_construct
from policy.intake.command.command_builder import CommandBuilder
from policy.intake.command.control_flow import PIPES, SUBSHELL_OPERATORS, ControlFlow
from policy.intake.command.expansion import MAX_TEXT, ExpansionBudget, ExpansionExhausted, ShellSyntaxError
from policy.intake.command.here_documents import HereDocuments, with_here_documents
from policy.intake.command.installation import may_install
from policy.intake.command.known_status import TESTS
from policy.intake.command.parameter_expansion import ParameterExpansion
from policy.intake.command.positional_parameters import PositionalParameters
from policy.intake.command.programs import STARTS_VLLM
from policy.intake.command.redirections import REDIRECTION, Redirections
from policy.intake.command.replaced_program import names_changed_files
from policy.intake.command.script_commands import Command, ScriptCommands
from policy.intake.command.script_variables import ScriptVariables, SimpleCommand
from policy.intake.command.shell_builtins import ShellBuiltins
from policy.intake.command.substitutions import SUBSTITUTION_DOUBT, Substitutions
from policy.intake.command.words import Array, Pattern, Unknown, replaced_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.substituted_commands import ShellExpansion

PLAIN_TEXT: Final = re.compile(r"(?:[^ \t\r\n'\"\\$`;&|<>()#]|\r(?!\n))++")
OPERATORS: Final = re.compile(r"[;\n()]+|&&|\|\||\|&|[&|]")
BLANKS: Final = re.compile(r"(?:[ \t]|\r(?=\n))++")
"""Matches what separates words in a line. A shell would keep the `\\r` of a line that ends with `\\r\\n`."""
ARITHMETIC: Final = re.compile(r"\(\((?:[^()\n]++|\([^()\n]*+\))*+\)\)")
ARITHMETIC_MARKS: Final = frozenset("$|&;\n")
"""The characters with which a shell without `((…))` may run a value, or a part of it, as a command in a subshell."""
DOUBLE_QUOTED_TEXT: Final = re.compile(r'[^"\\$`]+')
"""Matches literal characters between double quotes."""


def parse_script(
    text: str,
    env: Mapping[str, str | None],
    arguments: Sequence[str] = (),
    budget: ExpansionBudget | None = None,
    *,
    is_bash: bool = False,
    has_hidden_variables: bool = False,
    ends_on_failure: bool = False,
    has_pipefail: bool = False,
    refuses_unset: bool = False,
    has_other_output: bool = False,
    keeps_returns: bool = False,
    substitution_budget: ExpansionBudget | None = None,
) -> list[Command]:
    """Parse a script into its commands, in order.

    `env` is its environment, with None for unknown values, and `arguments` are `$0`, `$1` …. A nested script shares the
    `budget` of the outer one. If the text is an Unknown, a part of it is replaced before any shell reads it, even
    within single quotes. With `is_bash` the shell is bash, which expands `{a,b}`; otherwise it may be any shell. With
    `has_hidden_variables` any variable may be set by a source that is not shown: a Secret, or the script around `eval`.
    With `ends_on_failure` the shell has the option `-e`, with `has_pipefail` `pipefail`, and with `refuses_unset` `-u`.
    With `has_other_output` its standard output may be a file or closed, so that a command may fail to write to it.
    A backslash before a carriage return and a line break continues the line, as the author of a text means; with
    `keeps_returns` it ends the line, as in a shell. With a `substitution_budget`, the commands within `$(…)` and
    backticks that may start a container follow those of the script.

    `A=b` sets a variable for the rest of the script, `export A=b` also for its commands, and `A=b command` only for
    that command. A Command's `env` has only the variables that the script itself sets for it.

    `$A`, `${A}`, `${A:-b}`, `${A-b}`, `${A:=b}`, `${A:+b}` and `${A+b}` are expanded, and split at blanks outside
    quotes, as in a shell. An unset variable, `$(…)`, `` `…` `` and any other `${…}` give an Unknown. The default of an
    unset variable is used unless a shell, Kubernetes, an image or a hidden source may set it.

    Raises:
        ShellSyntaxError: a quote, a bracket or a here-document is not closed, or a limit is exceeded.
    """
    if len(text) > MAX_TEXT:
        raise ShellSyntaxError(f"expected a text of at most {MAX_TEXT} characters, got {len(text)}")
    budget = budget or ExpansionBudget()
    reader = _ShellReader(text, env, arguments, budget, is_bash=is_bash, has_hidden_variables=has_hidden_variables)
    reader.flow.ends_on_failure, reader.flow.has_pipefail = ends_on_failure, has_pipefail
    reader.variables.refuses_unset, reader.keeps_returns = refuses_unset, keeps_returns
    reader.builtins.has_other_output = has_other_output
    if substitution_budget is not None:
        reader.builder.substitutions = Substitutions(substitution_budget)
    return reader.commands()


class _ShellReader:
    """Parses a script in one pass; `at` is the current position."""

    def __init__(
        self,
        text: str,
        env: Mapping[str, str | None],
        arguments: Sequence[str],
        budget: ExpansionBudget,
        *,
        is_bash: bool,
        has_hidden_variables: bool,
    ) -> None:
        self.text = text
        self.at = 0
        self.budget = budget
        self.script = ScriptCommands(is_bash)
        self.command = SimpleCommand()
        self.variables = ScriptVariables(env, budget, self.command, replaced_names([text]))
        self.flow = ControlFlow(self.variables, self.script, budget)
        parameters = PositionalParameters(arguments, budget)
        self.builtins = ShellBuiltins(self.variables, parameters, self.flow, self.script, budget)
        self.builder = CommandBuilder(self.variables, self.flow, self.script, budget)
        self.expansion = ParameterExpansion(text, self.builder, parameters, has_hidden_variables=has_hidden_variables)
        self.here_documents = here = HereDocuments(text)
        self.redirections = Redirections(text, self.builder, self.expansion, here, self.read_file_name)
        self.length = len(text)
        self.start = 0
        """Where the current command starts."""
        self.arguments = arguments
        self.keeps_returns = False
        """Whether a backslash before a carriage return quotes it, also before a line break."""

    def commands(self) -> list[Command]:
        """Read the whole script, and return its commands."""
        end = len(self.text)
        while self.at < end:
            self.read_piece()
        self.end_command()
        self.budget.hidden = self.budget.hidden or self.here_documents.doubt or hiding_text(self.text)
        self.flow.doubt_functions()
        if not self.script.doubt and (construct := uncertain_construct(self.text, is_bash=self.script.is_bash)):
            self.script.doubt_all(f"the script has {construct}; a shell may interpret it differently")
        if self.builder.substitutions is not None:
            self.read_substitutions(self.builder.substitutions)
        return self.script.with_doubts()

    def read_substitutions(self, substitutions: Substitutions) -> None:
        """Add the commands of the substitutions; if one exceeds a limit, the whole script is in doubt."""
        budget, is_bash = substitutions.budget, self.script.is_bash
        for each in substitutions.found:
            try:
                commands = parse_script(
                    each.script, each.variables, self.arguments, budget, is_bash=is_bash, substitution_budget=budget
                )
                budget.copy(len(each.env) * len(commands))
            except ExpansionExhausted:
                raise
            except ShellSyntaxError as error:
                self.script.doubt_all(SUBSTITUTION_DOUBT.format(error))
            else:
                budget.reread(len(each.script))
                self.script.commands += [replace(command, env={**each.env, **command.env}) for command in commands]

    def read_piece(self) -> None:
        """Read the next run of plain characters, or one special character with what belongs to it."""
        plain = PLAIN_TEXT.match(self.text, self.at)
        if plain is not None:
            self.builder.put(plain.group())
            self.at = plain.end()
        else:
            self.read_special(self.text[self.at])

    def read_special(self, character: str) -> None:
        """Read what begins with a special character; most of them end a short command, for which each call counts."""
        text = self.text
        if character == "\\":
            self.read_escape()
        elif character == "'":
            self.read_single_quotes()
        elif character == '"':
            self.read_double_quotes()
        elif character in "$`":
            self.at = self.expansion.read(self.at, in_quotes=False)
        elif character == "#":
            self.skip_comment()
        elif character in " \t\r" and (blanks := BLANKS.match(text, self.at)) is not None:
            if "\r" in blanks.group() and self.builder.parts is not None:
                self.builder.has_pattern = True
            self.builder.end_word()
            self.at = blanks.end()
        elif character in "<>&" and (direction := REDIRECTION.match(text, self.at)) is not None:
            self.at = self.redirections.read(direction.group(), self.at, direction.end())
        elif character != "(" or not (self.read_array() or self.read_arithmetic()):
            self.read_operator()

    def read_escape(self) -> None:
        """Read a backslash outside quotes: it quotes the next character, or continues the line."""
        text = self.text
        if text[self.at + 1 : self.at + 2] == "\n":
            self.at += 2
        elif not self.keeps_returns and text.startswith("\r\n", self.at + 1):
            self.at += 3
        else:
            self.builder.put(text[self.at + 1 : self.at + 2] or "\\", bare=False)
            self.at += 2

    def read_single_quotes(self) -> None:
        """Read `'…'`."""
        text = self.text
        end = text.find("'", self.at + 1)
        if end < 0:
            raise ShellSyntaxError(f"the quote `'` at character {self.at + 1} is not closed; close it")
        quoted = text[self.at + 1 : end]
        self.builder.put(quoted, bare=False)
        self.builder.is_kept = True
        if type(text) is Unknown and ("$" in quoted or "`" in quoted):
            self.builder.is_unknown = True  # references in an Unknown text are replaced even within quotes
        self.at = end + 1

    def read_double_quotes(self) -> None:
        """Read `"…"`."""
        start, text, builder = self.at, self.text, self.builder
        opened = builder.open_quotes()
        self.at += 1
        while self.at < len(text):
            plain = DOUBLE_QUOTED_TEXT.match(text, self.at)
            if plain is not None:
                builder.put(plain.group(), bare=False)
                self.at = plain.end()
                continue
            character = text[self.at]
            if character == '"':
                self.at += 1
                builder.close_quotes(opened)
                return
            if character == "\\":
                escaped = text[self.at + 1 : self.at + 2]
                builder.put("" if escaped == "\n" else escaped if escaped in '"\\$`' else "\\" + escaped, bare=False)
                self.at += 2
            else:
                self.at = self.expansion.read(self.at, in_quotes=True)
        raise ShellSyntaxError(f'the quote `"` at character {start + 1} is not closed; close it')

    def skip_comment(self) -> None:
        """Skip a comment; within a word, `#` is literal."""
        if self.builder.parts is None:
            line = self.text.find("\n", self.at)
            self.at = line if line >= 0 else len(self.text)
        else:
            self.builder.put("#")
            self.at += 1

    def read_operator(self) -> None:
        """Read an operator, which ends a command."""
        here, flow = self.here_documents, self.flow
        stop = here.line_end + 1 if self.at <= here.line_end else self.length
        operator = OPERATORS.match(self.text, self.at, stop)
        found = operator.group() if operator else ""
        may_name = found[:2] == "()" or self.command.words[:1] == ["function"]
        is_function = may_name and self.builder.names_function(found)
        if is_function:
            self.builder.define_function()
        if found == "|&":
            self.script.require_bash("`|&`")
        is_defining = is_function or flow.defines
        self.end_command(found)
        flow.defines = is_function or (is_defining and not found.strip("\n"))
        if found in PIPES:
            flow.is_piped = True  # also after a subshell, which is no command of its own
        if found in {"&&", "||", "&"}:
            if found == "&" and self.variables.chain.changes_shell:
                self.builtins.parameters.forget()
            flow.join(found)
        for mark in found.replace("()", "") if "()" in found else found:
            if mark == "(":
                flow.enter("f(" if is_defining else "(")
            elif mark == ")":
                flow.end_chain()
                flow.leave("(")
            elif mark == ";" or (mark == "\n" and not self.variables.chain.is_waiting):
                flow.end_chain()
        self.at = operator.end() if operator else self.at + 1
        if ";;" in found and not self.text.startswith("&", self.at):
            flow.end_case_branch()
        if stop == self.at == here.line_end + 1:
            self.at = here.end + 1

    def end_command(self, operator: str = "") -> None:
        """End the current command at an operator.

        A command in a pipeline or in the background sets variables only in its subshell.
        """
        self.builder.end_word()
        words, assignments = self.command.words, self.command.assignments
        written, self.start = self.text[self.start : self.at], self.at
        redirections, noted, self.builder.noted = self.redirections, self.builder.noted, []
        writes, outputs, texts = redirections.writes, redirections.outputs, redirections.texts
        redirections.writes, redirections.outputs, redirections.texts = False, [], []
        if not words and not assignments:
            if outputs or noted:
                is_piped, env = self.flow.piped_depth > 0, self.variables.share_environment()
                self.script.add([":"], env, outputs=outputs, substituted=noted, is_piped=is_piped)
            if written.strip():
                self.flow.condition_status = None
            return
        self.command.words, self.command.assignments = [], {}
        if operator[:1] in {")", "|"} and self.flow.is_in_case and len(words) == 1 and type(words[0]) is Pattern:
            words = [str(words[0])]  # the pattern of a branch
        is_piped = self.flow.is_piped or self.flow.piped_depth > 0
        is_in_subshell = self.flow.end_command(operator, is_redirected=redirections.has_any)
        for text in words:  # most commands have none: a call for each would be a twentieth of the work
            if "$(" in text or "`" in text:
                self.script.note_texts(words)
                break
        if assignments:
            self.script.note_texts(assignments.values())
        is_added = False
        is_redirected, is_negated = redirections.has_any, self.flow.is_negated
        unreached = ""
        if words:
            is_literal = words[0] in TESTS and "$" not in written and "`" not in written
            unreached = self.flow.reach(
                words, operator, is_in_subshell=is_in_subshell, is_redirected=is_redirected, is_literal=is_literal
            )
            if words[0] == "exec" and words[1:] and words[1][:1] == "-":
                self.script.require_bash("options of `exec`")
        if words:
            self.builtins.read_effects(words, assignments, is_in_subshell=is_in_subshell, is_redirected=is_redirected)
        if words[:1] == ["for"]:
            self.flow.iterate(words, self.builtins.parameters.words[1:], operator)
        succeeds = self.builtins.succeeds(words) if words else None not in assignments.values()
        self.flow.succeeds = succeeds and not is_in_subshell and not is_redirected
        if redirections.may_be_output and words == ["exec"]:
            self.builtins.has_other_output = True
        redirections.has_any = redirections.may_be_output = False
        if not words:
            self.flow.status = self.flow.condition_status = None
            for name, value in () if is_in_subshell else assignments.items():
                self.variables.assign(name, value)
        elif not self.builtins.read_builtin(words, is_in_subshell=is_in_subshell):
            env = self.variables.environment_with(assignments) if assignments else self.variables.share_environment()
            words = with_here_documents(words, texts) if texts else words
            is_added = True
            self.script.add(
                words,
                env,
                writes=writes,
                condition=self.flow.condition,
                unreached=unreached,
                is_masked=is_negated or operator in SUBSHELL_OPERATORS,
                is_repeated=self.flow.is_repeated,
                outputs=outputs,
                is_required=self.flow.ends_on_failure and operator not in {"&&", "||"},
                joiner=self.variables.chain.joiner,
                depth=self.flow.depth,
                substituted=noted,
                is_piped=is_piped,
                removed=self.variables.removed_without(assignments),
                arguments=self.known_arguments() if words[0] == "eval" else None,
            )
        if assignments or not is_added:
            self.note_statement(written, outputs, () if is_added else noted, unreached, is_added=is_added)

    def known_arguments(self) -> Sequence[str] | None:
        """The name and the arguments of the script as `eval` has them; None in a function, or with other separators."""
        is_known = not (self.variables.function_depth or self.variables.sets_separators)
        return self.builtins.parameters.words if is_known else None

    def note_statement(
        self, written: str, outputs: Sequence[str], noted: Sequence[ShellExpansion], unreached: str, *, is_added: bool
    ) -> None:
        """Add a statement that sets variables, or starts no program, as `:` if it may change more.

        The statement is unknown if a substitution in it may install vLLM, or if it names vLLM's files.
        """
        words = [":"]
        if may_install(written) or names_changed_files(written, self.script.located):
            words.append(Unknown(written))
        elif is_added or not (outputs or noted):
            return
        self.script.add(
            words,
            self.variables.share_environment(),
            condition=self.flow.condition if noted else None,
            unreached=unreached,
            is_repeated=self.flow.is_repeated,
            outputs=outputs,
            joiner=self.variables.chain.joiner if noted else "",
            depth=self.flow.depth if noted else 0,
            substituted=noted,
            is_piped=self.flow.piped_depth > 0,
        )

    def read_arithmetic(self) -> bool:
        """Read `((…))`; false if the bracket opens a subshell or a function, or the text may start vLLM."""
        words = self.command.words
        is_first = self.builder.parts is None and words in ([], ["for"])
        arithmetic = ARITHMETIC.match(self.text, self.at) if is_first else None
        if arithmetic is None or STARTS_VLLM.search(arithmetic.group()) is not None:
            return False
        if self.flow.defines:
            self.flow.doubt_body()
        if not self.script.is_bash and not ARITHMETIC_MARKS.isdisjoint(arithmetic.group()):
            self.budget.hidden = self.budget.hidden or f"`((…))` {OTHER_READING}"
        self.variables.forget_assigned(arithmetic.group())
        if "$(" in arithmetic.group() or "`" in arithmetic.group():
            self.builder.note_substituted(arithmetic.group())
        self.budget.add_word()
        words.append("((")
        self.at = arithmetic.end()
        return True

    def read_array(self) -> bool:
        """Read an array from its bracket on and assign it; false if no array is assigned.

        Elements with an index make the array unknown. An array that may start vLLM is also added as an unknown command,
        in case its use is not recognized.
        """
        target = self.builder.array_name()
        if target is None:
            return False
        (name, is_appending), command, variables = target, self.command, self.variables
        words, assignments = command.words, command.assignments
        elements = self.read_elements()
        before = variables.elements(name, assignments) if is_appending else ()
        is_indexed = "-A" in words or any(element.startswith("[") and "]=" in element for element in elements)
        if before is not None:
            self.budget.fill(len(before) + sum(map(len, before)))
        for element in elements if is_indexed else ():
            subscript, _, given = element.partition("]=")
            self.budget.note_element(name, subscript, given)
        value = None if before is None or is_indexed else Array((*before, *elements))
        written = " ".join([*(before or ()), *elements])
        if STARTS_VLLM.search(written) is not None:
            self.script.add([Unknown(f"{name}=({written})")], variables.share_environment())
        if words:
            variables.assign(name, value)
        else:
            assignments[name] = value
            self.budget.note_value(name, value)
        return True

    def read_elements(self) -> list[str]:
        """Read the elements of an array from its bracket on, as words of a command."""
        start, text, command = self.at, self.text, self.command
        words, assignments = command.words, command.assignments
        command.words, command.assignments, self.builder.parts = [""], {}, None
        self.at += 1
        while text[self.at : self.at + 1] != ")":
            if text[self.at : self.at + 1] == "\n":
                self.builder.end_word()
                self.at += 1
            elif self.at >= len(text) or text[self.at] in ";&|<>(":  # a backslash may have quoted nothing
                raise ShellSyntaxError(f"the array at character {start + 1} is not closed; close it with `)`")
            else:
                self.read_piece()
        self.builder.end_word()
        self.at += 1
        elements = command.words[1:]
        command.words, command.assignments = words, assignments
        return elements

    def read_file_name(self, at: int) -> tuple[str, int]:
        """The file name of a redirection from a position on, and where it ends."""
        self.at, text, command = at, self.text, self.command
        words, command.words = command.words, [""]
        while self.at < len(text) and text[self.at] in " \t":
            self.at += 1
        while self.at < len(text) and not (text[self.at].isspace() or text[self.at] in ";&|()<>"):
            self.read_piece()
        file = "".join(self.builder.parts or ())
        self.builder.parts, command.words = None, words
        return file, self.at
