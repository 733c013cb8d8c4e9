"""Split a shell's text into commands and words, with the variables that the text itself sets. Nothing is run.

Handles the characters: quotes, line continuations, comments, redirections and the separators of commands. Not here:
the words that they make (`command_builder`), expansions (`parameter_expansion`), the effects of commands
(`shell_builtins`) and of branches and loops (`control_flow`), and which command starts vLLM (`launcher`). A word whose
value only a running shell knows stays as written and is an `Unknown`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.certain_scripts import uncertain_construct
from policy.intake.command.command_builder import CommandBuilder
from policy.intake.command.control_flow import ControlFlow
from policy.intake.command.expansion import MAX_TEXT, ExpansionBudget, ShellSyntaxError
from policy.intake.command.parameter_expansion import ParameterExpansion
from policy.intake.command.positional_parameters import PositionalParameters
from policy.intake.command.programs import STARTS_VLLM
from policy.intake.command.script_commands import Command, ScriptCommands
from policy.intake.command.script_variables import ScriptVariables, SimpleCommand
from policy.intake.command.shell_builtins import ShellBuiltins
from policy.intake.command.words import Array, Pattern, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLAIN: Final = re.compile(r"(?:[^ \t\r\n'\"\\$`;&|<>()#]|\r(?!\n))++")
OPERATORS: Final = re.compile(r"[;\n()]+|&&|\|\||\|&|[&|]")
BLANKS: Final = re.compile(r"(?:[ \t]|\r(?=\n))++")
"""Matches what separates words in a line; a shell would keep the `\\r` of a line that ends with `\\r\\n`."""
CALCULATION: Final = re.compile(r"\(\((?:[^()\n]++|\([^()\n]*+\))*+\)\)")
STORED: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Matches `{A}` before a redirection, which sets the variable to the number of the file."""
REDIRECTION: Final = re.compile(r"[0-9]*(?:<<<|<<-?|>>|<>|>\||[<>]&?|&>>?)[-0-9]*")
QUOTED: Final = re.compile(r'[^"\\$`]+')
"""Matches what a shell reads as it is between double quotes."""


def split(
    text: str,
    env: Mapping[str, str | None],
    arguments: Sequence[str] = (),
    budget: ExpansionBudget | None = None,
    *,
    is_bash: bool = False,
    has_hidden_variables: bool = False,
) -> list[Command]:
    """The commands of a text, in order.

    `env` has the variables around the text; one that is set to an unknown value is None. `arguments` are `$0`, `$1` ….
    A text that is part of a larger one shares its `budget`. If the text is an Unknown, what is around it replaces a
    part of it before any shell reads it, within single quotes too. `is_bash` says that the shell is bash, which expands
    `{a,b}`; otherwise it may be bash or another one. With `has_hidden_variables` any variable may be set by what is not
    shown: by another script around the text, as for `eval`, or by a Secret.

    `A=b` sets a variable for the rest of the text, `export A=b` for its commands too, and `A=b command` for that
    command alone. A Command's `env` has only the variables that the text itself sets for it.

    `$A`, `${A}`, `${A:-b}`, `${A-b}`, `${A:=b}`, `${A:+b}` and `${A+b}` are expanded, and split at blanks outside
    quotes, as in a shell. A name that is not set, `$(…)`, `` `…` `` and any other `${…}` give an Unknown. The default
    of a name that is not set counts, unless a shell, Kubernetes or an image usually sets it, or what is not shown may.

    Raises:
        ShellSyntaxError: a quote, a bracket or a here-document does not end, or there are too many words or values.
    """
    if len(text) > MAX_TEXT:
        raise ShellSyntaxError(f"the text has {len(text)} characters, and at most {MAX_TEXT} are read")
    budget = budget or ExpansionBudget()
    reader = _ShellReader(text, env, arguments, budget, is_bash=is_bash, has_hidden_variables=has_hidden_variables)
    return reader.commands()


class _ShellReader:
    """Reads the text in one pass, from the character `at`."""

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
        self.variables = ScriptVariables(env, budget, self.command)
        self.flow = ControlFlow(self.variables, self.script, budget)
        parameters = PositionalParameters(arguments, budget)
        self.builtins = ShellBuiltins(self.variables, parameters, self.flow, self.script, budget)
        self.builder = CommandBuilder(self.variables, self.flow, self.script, budget)
        self.expansion = ParameterExpansion(text, self.builder, parameters, has_hidden_variables=has_hidden_variables)
        self.is_redirected = False
        """Whether the current command has a redirection, which may fail."""
        self.writes = False
        """Whether the output of the current command goes to a file."""

    def commands(self) -> list[Command]:
        """The commands of the whole text."""
        end = len(self.text)
        while self.at < end:
            self.piece()
        self.end_command()
        self.flow.doubt_functions()
        if not self.script.doubt and (construct := uncertain_construct(self.text, is_bash=self.script.is_bash)):
            self.script.doubt_all(f"the script has {construct}; a shell may interpret it differently")
        return self.script.doubted()

    def piece(self) -> None:
        """Read the next characters that belong together."""
        plain = PLAIN.match(self.text, self.at)
        if plain is not None:
            self.builder.put(plain.group())
            self.at = plain.end()
        else:
            self.special(self.text[self.at])

    def special(self, character: str) -> None:
        """Read what begins with a character that has a meaning for a shell."""
        text = self.text
        if character == "\\":
            self.escape()
        elif character == "'":
            self.single_quotes()
        elif character == '"':
            self.double_quotes()
        elif character in "$`":
            self.at = self.expansion.read(self.at, inside=False)
        elif character == "#":
            self.comment()
        elif (blanks := BLANKS.match(text, self.at)) is not None:
            if "\r" in blanks.group() and self.builder.parts is not None:
                self.builder.has_pattern = True
            self.builder.end_word()
            self.at = blanks.end()
        elif (direction := REDIRECTION.match(text, self.at)) is not None:
            self.redirection(direction.group(), direction.end())
        elif character != "(" or not (self.array() or self.calculation()):
            self.operator()

    def escape(self) -> None:
        """Read a backslash outside quotes: it quotes the next character, or continues the line."""
        text = self.text
        if text[self.at + 1 : self.at + 2] == "\n":
            self.at += 2
        elif text.startswith("\r\n", self.at + 1):
            self.at += 3
        else:
            self.builder.put(text[self.at + 1 : self.at + 2] or "\\", bare=False)
            self.at += 2

    def single_quotes(self) -> None:
        """Read `'…'`."""
        text = self.text
        end = text.find("'", self.at + 1)
        if end < 0:
            raise ShellSyntaxError(f"the quote `'` at character {self.at + 1} is not closed; close it")
        quoted = text[self.at + 1 : end]
        self.builder.put(quoted, bare=False)
        if type(text) is Unknown and ("$" in quoted or "`" in quoted):
            self.builder.is_unknown = True  # what is around the text replaces a reference in any quotes
        self.at = end + 1

    def double_quotes(self) -> None:
        """Read `"…"`."""
        start, text, builder = self.at, self.text, self.builder
        builder.put("", bare=False)
        self.at += 1
        while self.at < len(text):
            plain = QUOTED.match(text, self.at)
            if plain is not None:
                builder.put(plain.group(), bare=False)
                self.at = plain.end()
                continue
            character = text[self.at]
            if character == '"':
                self.at += 1
                return
            if character == "\\":
                escaped = text[self.at + 1 : self.at + 2]
                builder.put("" if escaped == "\n" else escaped if escaped in '"\\$`' else "\\" + escaped, bare=False)
                self.at += 2
            else:
                self.at = self.expansion.read(self.at, inside=True)
        raise ShellSyntaxError(f'the quote `"` at character {start + 1} is not closed; close it')

    def comment(self) -> None:
        """Skip a comment; within a word, `#` is a character."""
        if self.builder.parts is None:
            line = self.text.find("\n", self.at)
            self.at = line if line >= 0 else len(self.text)
        else:
            self.builder.put("#")
            self.at += 1

    def operator(self) -> None:
        """Read an operator, which ends a command."""
        operator, flow = OPERATORS.match(self.text, self.at), self.flow
        found = operator.group() if operator else ""
        is_function = self.builder.names_function(found)
        if is_function:
            self.builder.define_function()
        if found == "|&":
            self.script.require_bash("`|&`")
        is_defining = is_function or flow.defines
        self.end_command(found)
        flow.defines = is_function or (is_defining and not found.strip("\n"))
        if found in {"&&", "||", "&"}:
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

    def end_command(self, operator: str = "") -> None:
        """End a command before an operator.

        A command in a pipeline or in the background sets variables only in a shell of its own.
        """
        self.builder.end_word()
        words, assignments = self.command.words, self.command.assignments
        writes, self.writes = self.writes, False
        if not words and not assignments:
            return
        self.command.words, self.command.assignments = [], {}
        if operator[:1] in {")", "|"} and self.flow.is_in_case and len(words) == 1 and type(words[0]) is Pattern:
            words = [str(words[0])]  # the pattern of a branch
        is_apart = self.flow.end_command(operator)
        if words:
            self.builtins.read_effects(words, assignments, is_apart=is_apart)
        succeeds = self.builtins.succeeds(words) if words else None not in assignments.values()
        self.flow.succeeds = succeeds and not is_apart and not self.is_redirected
        self.is_redirected = False
        if not words:
            for name, value in () if is_apart else assignments.items():
                self.variables.assign(name, value)
        elif not self.builtins.read_builtin(words, is_apart=is_apart):
            env = self.variables.environment_with(assignments) if assignments else self.variables.share_environment()
            self.script.add(words, env, writes=writes, condition=self.flow.condition)

    def calculation(self) -> bool:
        """Read `((…))` at a bracket; false if it opens a subshell or a function, or may start vLLM."""
        words = self.command.words
        is_first = self.builder.parts is None and words in ([], ["for"])
        calculation = CALCULATION.match(self.text, self.at) if is_first else None
        if calculation is None or STARTS_VLLM.search(calculation.group()) is not None:
            return False
        if self.flow.defines:
            self.flow.doubt_body()
        self.variables.forget_calculated(calculation.group())
        self.budget.add_word()
        words.append("((")
        self.at = calculation.end()
        return True

    def array(self) -> bool:
        """Read the elements of an array at a bracket, and set it; false if no array is assigned.

        Elements with an index of their own make it unknown. One that starts vLLM counts as a command that cannot be
        read, in case its use cannot be read.
        """
        target = self.builder.array_name()
        if target is None:
            return False
        (name, is_appending), command, variables = target, self.command, self.variables
        words, assignments = command.words, command.assignments
        elements = self.elements()
        before = variables.elements(name, assignments) if is_appending else ()
        is_indexed = "-A" in words or any(element.startswith("[") and "]=" in element for element in elements)
        if before is not None:
            self.budget.fill(len(before) + sum(map(len, before)))
        value = None if before is None or is_indexed else Array((*before, *elements))
        written = " ".join([*(before or ()), *elements])
        if STARTS_VLLM.search(written) is not None:
            self.script.add([Unknown(f"{name}=({written})")], variables.share_environment())
        if words:
            variables.assign(name, value)
        else:
            assignments[name] = value
        return True

    def elements(self) -> list[str]:
        """Read the elements of an array from its bracket on: words, as those of a command."""
        start, text, command = self.at, self.text, self.command
        words, assignments = command.words, command.assignments
        command.words, command.assignments, self.builder.parts = [""], {}, None
        self.at += 1
        while text[self.at : self.at + 1] != ")":
            if text[self.at : self.at + 1] == "\n":
                self.builder.end_word()
                self.at += 1
            elif self.at == len(text) or text[self.at] in ";&|<>(":
                raise ShellSyntaxError(f"the array at character {start + 1} is not closed; close it with `)`")
            else:
                self.piece()
        self.builder.end_word()
        self.at += 1
        elements = command.words[1:]
        command.words, command.assignments = words, assignments
        return elements

    def redirection(self, operator: str, end: int) -> None:
        """Skip a redirection with its file; a here-document is an error.

        A here-string that may start vLLM is a command `<<<`: the program that reads it may be a shell.
        """
        if operator.lstrip("0123456789").startswith("<<") and "<<<" not in operator:
            raise ShellSyntaxError(
                f"the here-document at character {self.at + 1} is not supported; write the command without it"
            )
        is_output = ">" in operator
        self.is_redirected = True
        if operator.startswith("&"):
            self.script.require_bash("`&>`")
        if operator in {"<", ">"} and self.text.startswith("(", end):
            self.script.doubt_all(f"`{operator}(…)` is an argument that is not read")
        builder = self.builder
        before = "".join(builder.parts or ())
        if (stored := STORED.fullmatch(before)) is not None:
            self.variables.assign(stored.group(1), None)
        if before.isdecimal() and builder.begins_bare:
            is_output = is_output and builder.parts == ["1"]
            builder.parts = None  # the 2 of 2>&1
        builder.end_word()
        self.at = end
        if operator[-1] in "-0123456789" and "&" in operator:
            return
        file = self.file_name()
        if operator.endswith("<<<") and STARTS_VLLM.search(file) is not None:
            self.script.add([operator, file], self.variables.share_environment())
        self.writes = self.writes or (is_output and not file.startswith(("/dev/", "/proc/")))

    def file_name(self) -> str:
        """Read the file of a redirection."""
        text, command = self.text, self.command
        words, command.words = command.words, [""]
        while self.at < len(text) and text[self.at] in " \t":
            self.at += 1
        while self.at < len(text) and not (text[self.at].isspace() or text[self.at] in ";&|()<>"):
            self.piece()
        file = "".join(self.builder.parts or ())
        self.builder.parts, command.words = None, words
        return file
