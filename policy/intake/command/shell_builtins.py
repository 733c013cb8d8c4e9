"""The effects of shell builtins on the rest of a script: on variables, arguments and doubts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.builtin_tables import (
    CONVERTING_OPTIONS,
    DECLARATIONS,
    IMPLICIT_VARIABLES,
    SAFE_LETTERS,
    SAFE_OPTIONS,
    SETTERS,
    SH_LETTERS,
    SH_OPTIONS,
    SHELL_CHANGES,
    SPECIAL_BUILTINS,
    STATE_CHANGES,
    SUCCESSFUL_COMMANDS,
    TRAP_COMMANDS,
    TRAP_SIGNALS,
    VARIABLE_CHANGES,
)
from policy.intake.command.certain_builtins import CHECKS
from policy.intake.command.command_builder import QUOTED_PART
from policy.intake.command.programs import STARTS_VLLM
from policy.intake.command.script_variables import NAME, ScriptVariables
from policy.intake.command.shell_options import MISSING_OPTION_DOUBT
from policy.intake.command.words import is_uncertain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.control_flow import ControlFlow
    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.positional_parameters import PositionalParameters
    from policy.intake.command.script_commands import ScriptCommands

DECLARED_NAME: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|)")
"""Matches the name in an argument of `export` and the like, and `=` or `+=` if a value follows."""


COUNT_FORMAT: Final = re.compile(r"%[^%A-Za-z]*+[hjlLtqz]*+n")
"""Matches what lets bash's `printf` store the number of characters that it has written: `%n`, `%ln`."""


EVAL_DOUBT: Final = "`eval` may change the rest of the script"
SHIFT_DOUBT: Final = "`shift` takes more arguments than there are, which ends the script"

PLAIN_START: Final = re.compile(
    r"""(?:[A-Za-z_][A-Za-z0-9_]*+=(?:[\w.:/=,-]++|'[^']*+'|"[^"$`\\]*+")*+\ ++)*+(?:(?:exec|nohup)\ ++)?+
        (?:ray\ start|vllm\ serve|python3?\ -m\ vllm\.entrypoints\.openai\.api_server)
        (?:\ ++(?:[\w.:/=,-]++|'[^']*+'|"[^"$`\\]*+")++)*+\ *+""",
    re.VERBOSE,
)
"""Matches a text that only starts Ray or vLLM's server, without anything that a shell changes or expands.

Variables that it sets before the program are those of the program only.
"""
TRAP_TEXT: Final = re.compile(
    r"""(?:[\w.:/=,%+@*?~!^;&| \t\n-]++|\[[\w.:/*?!^, -]*+\]|\{(?:[\w.:/*?-]*+,)++[\w.:/*?-]*+\}
        |(?<![^ \t\n;&|])\#[^\n]*+|'[^']*+'
        |"(?:[^"$`\\]++|\\[\w"$\\]
            |\$(?:\w++|\{(?:\w++(?:\[[@*]\])?+|[!?$])(?::?+[-?+][\w./:-]*+)?+\}|[!?$]|\(jobs\ -p\)))*+"
        |\$(?:\w++|\{(?:\w++(?:\[[@*]\])?+|[!?$])(?::?+[-?+][\w./:-]*+)?+\}|[!?$]|\(jobs\ -p\)))*+""",
    re.VERBOSE,
)
"""Matches commands of plain and quoted words, in which a shell expands variables but sets none, and writes no file.

A default such as `${A:-b}` is plain. Braces have a comma, as `{A}>` sets a variable.
"""
TRAP_WORD: Final = re.compile(r"""'[^']*+(?:'|\Z)|"(?:[^"\\]|\\.?)*+(?:"|\Z)|(?<![^ \t\n;&|])#[^\n]*+""", re.DOTALL)
"""Matches quoted text and comments in such commands."""
DISCARDED_OUTPUT: Final = re.compile(
    r"[0-9&]?>{1,2}[ \t]?(?:/dev/null|/dev/std(?:out|err)|/proc/(?:1|self)/fd/[12]|&[12])(?=[ \t\n;&|]|\Z)"
)
"""Matches a redirection that writes no file."""


class ShellBuiltins(Struct):
    """Interprets the commands of a script that change the running shell."""

    variables: ScriptVariables
    parameters: PositionalParameters
    flow: ControlFlow
    script: ScriptCommands
    budget: ExpansionBudget
    has_other_output: bool = False
    """Whether the standard output may be a file or closed, so that a command may fail to write to it."""

    def read_effects(
        self,
        words: Sequence[str],
        assignments: Mapping[str, str | None],
        *,
        is_in_subshell: bool,
        is_redirected: bool = False,
    ) -> None:
        """Mark what a command or loop sets as unknown, and doubt the script if it may change more.

        ``is_in_subshell``: whether the command runs in a subshell; ``is_redirected``: whether a redirection of it may
        fail, so that it does not run.
        """
        name = words[0]
        if name == "unset":
            self._unset(words, is_certain=not (is_in_subshell or is_redirected or self.flow.blocks))
        elif name in VARIABLE_CHANGES:
            self._forget_set(words)
        if is_in_subshell or not (name in SHELL_CHANGES or name in self.script.function_names):
            return
        if name in self.script.function_names:
            self.variables.changed_after_function |= bool(assignments)
            self.variables.forget_set_in_functions()
        if name in SPECIAL_BUILTINS:
            self.variables.forget(assignments)  # they stay set in some shells
        self.script.doubt_all(self._doubt(words))

    def read_builtin(self, words: list[str], *, is_in_subshell: bool) -> bool:
        """Apply a declaration, `set` or `shift`; false for any other command."""
        if words[0] in DECLARATIONS:
            if not is_in_subshell:
                self._declare(words)
        elif words[0] == "shift":
            if not is_in_subshell:
                self.variables.chain.changes_shell = True
                ends = self.flow.ends_on_failure or not self.script.is_bash
                if ends and not self.flow.is_conditional and self.parameters.cannot_shift(words[1:]):
                    self.script.doubt_all(SHIFT_DOUBT)
                self.parameters.shift(words[1:], is_certain=not self.flow.is_conditional)
        elif words[0] == "set":
            if not is_in_subshell:
                self.variables.chain.changes_shell = True
                self._set(words)
        else:
            return False
        return True

    def succeeds(self, words: Sequence[str]) -> bool:
        """Whether a command certainly succeeds, such as `true`, `set -e`, or `export` with known arguments.

        A command that prints succeeds only if it can write.
        """
        if words[0] != "set" and words[0] not in SUCCESSFUL_COMMANDS and words[0] not in DECLARATIONS:
            return False
        options = [word for word in words[1:] if word[:1] in {"-", "+"}]
        if self.has_other_output and _prints(words):
            return False
        if any(map(is_uncertain, words)) or not set("".join(word[1:] for word in options)) <= SAFE_LETTERS:
            return words[0] in {"true", ":"}
        if words[0] == "set":
            return len(options) + words.count("pipefail") == len(words) - 1
        names = [DECLARED_NAME.match(word) for word in words[1:] if word not in options]
        is_declared = all(found is not None and found.group(1) not in self.variables.readonly for found in names)
        return words[0] in SUCCESSFUL_COMMANDS or (words[0] in DECLARATIONS and words[0] != "local" and is_declared)

    def _forget_set(self, words: Sequence[str]) -> None:
        """Mark as unknown the variables that a command or a loop sets."""
        self.variables.forget(IMPLICIT_VARIABLES.get(words[0], ()))
        has_options = words[1:2] and words[1].startswith("-")
        if words[0] == "printf" and has_options:
            named = words[2:] if words[1] == "-v" else words[1:]
            for value in named[1:]:
                self.budget.note_value(named[0], value)
        if words[0] == "let":
            self.variables.forget_assigned(" ".join(words[1:]))
            if any(map(is_uncertain, words)):
                self.script.doubt_all("`let` evaluates an unknown expression")
        elif words[0] == "printf" and _may_store_count(words[1:]):
            if any(map(is_uncertain, words[2:])):
                self.script.doubt_all("`printf` may set a variable whose name is not known")
            for word in words[2:]:
                if NAME.fullmatch(word) is not None:
                    self.variables.assign(word, None)
        elif words[0] in SETTERS or (words[0] in {"printf", "wait"} and has_options):
            named = words[1:2] if words[0] in {"for", "select"} else words[1:]
            if any(map(is_uncertain, named[:2] if words[0] in {"printf", "wait"} else named)):
                self.script.doubt_all(f"`{words[0]}` sets a variable whose name is not known")
            for word in named:
                if NAME.fullmatch(word) is not None:
                    self.variables.assign(word, None)
                elif word.startswith("-") or "[" in word:
                    self.variables.forget_ending(word.partition("[")[0])

    def _unset(self, words: Sequence[str], *, is_certain: bool) -> None:
        """Apply `unset`, which removes functions with `-f`; other options, and what is no name, may be refused."""
        is_known = not any(map(is_uncertain, words))
        if not is_known:
            self.script.doubt_all("`unset` sets a variable whose name is not known")
        named = words[2:] if words[1:2] in (["-v"], ["-f"]) else words[1:]
        is_plain = is_known and all(map(NAME.fullmatch, named))
        if is_plain and words[1:2] == ["-f"]:
            return
        is_certain = is_certain and is_plain and "unset" not in self.script.function_names
        for word in named:
            if NAME.fullmatch(word) is not None:
                self.variables.apply_unset(word, is_certain=is_certain)
            elif word.startswith("-") or "[" in word:
                self.variables.forget_ending(word.partition("[")[0])

    def _doubt(self, words: Sequence[str]) -> str:
        """Why a command changes the rest of the script in an unknown way; empty if it does not."""
        name = words[0]
        if name == "eval":
            text = " ".join(words[1:])
            if self.variables.sets_separators:
                return EVAL_DOUBT
            if not any(map(is_uncertain, words)) and PLAIN_START.fullmatch(text) is not None:
                return ""
            if STARTS_VLLM.search(text) is None or self.flow.is_repeated or self.script.function_names:
                return EVAL_DOUBT
            self.script.doubt_after(EVAL_DOUBT)  # it is probably the server
            return ""
        if name in {".", "source"}:
            return f"the file that `{name}` reads may set any variable"
        if name == "trap":
            is_harmless = len(words) == 1 or self._is_harmless_trap(words[1], words[2:])
            return "" if is_harmless else "`trap` runs other commands"
        if name in {"alias", "enable", "hash"} and len(words) > 1:
            return f"`{name}` may change which program a name runs"
        if name == "coproc":
            return "`coproc` sets variables"
        if name in {"command", "builtin"} and not STATE_CHANGES.isdisjoint(words[1:3]):
            return f"the command that `{name}` runs may change the rest of the script"
        if name == "shopt" and not SAFE_OPTIONS.issuperset(words[1:]):
            return "`shopt` changes how the shell parses the script"
        return ""

    def _is_harmless_trap(self, text: str, signals: Sequence[str]) -> bool:
        """Whether a command that `trap` runs sets no variable and starts no unknown program."""
        if is_uncertain(text) or not TRAP_SIGNALS.issuperset(signal.upper().removeprefix("SIG") for signal in signals):
            return False
        text = DISCARDED_OUTPUT.sub(" ", text)
        if TRAP_TEXT.fullmatch(text) is None:
            return False
        text = TRAP_WORD.sub(lambda found: "" if found[0][0] == "#" else QUOTED_PART, text)
        commands = [words for part in re.split(r"[;&|\n]+", text) if (words := part.split())]
        names = {words[0] for words in commands}
        return names <= (TRAP_COMMANDS | (self.script.function_names if signals else set())) and all(
            CHECKS["wait"](words) for words in commands if words[0] == "wait"
        )

    def _set(self, words: list[str]) -> None:
        """Apply `set`: its options, and the arguments that it sets."""
        at = 1
        while at < len(words) and words[at][:1] in {"-", "+"} and words[at] not in {"-", "--"}:
            word, letters = words[at], set(words[at][1:])
            names = words[at + 1 : at + 1 + word.count("o")]
            at += 1 + len(names)
            is_safe = letters <= SAFE_LETTERS and all(name in SAFE_OPTIONS and name[0] != "-" for name in names)
            if is_uncertain(word) or not is_safe:
                self.script.doubt_all("`set` changes how the shell parses the script")
            if "e" in letters or "errexit" in names:
                self.flow.ends_on_failure = word[0] == "-" and not self.flow.is_conditional
            if "u" in letters or "nounset" in names:
                self.variables.refuses_unset = word[0] == "-"
            missing = [f"-{letter}" for letter in word[1:] if letter not in SH_LETTERS]
            missing += (name for name in names if name not in SH_OPTIONS)
            if missing and not self.script.is_bash:
                self.script.doubt_all(MISSING_OPTION_DOUBT.format(missing[0]))
            if "pipefail" in names:
                self.flow.has_pipefail = word[0] == "-" and not self.flow.is_conditional
            if "a" in letters or "allexport" in names:
                if self.flow.is_conditional:
                    self.script.doubt_all("it is not known whether `set -a` runs")
                self.variables.export_all(is_on=word[0] == "-")
        if at < len(words):
            if is_uncertain(words[at]):
                self.script.doubt_all("`set` has options that are not known")
            others = words[at + 1 :] if words[at] in {"-", "--"} else words[at:]
            if others or words[at] != "-":
                self.parameters.replace(others, is_certain=not self.flow.is_conditional)

    def _declare(self, words: list[str]) -> None:
        """Apply `export A=b` and similar commands."""
        command = words[0]
        options = [word for word in words[1:] if word[:1] in {"-", "+"}]
        letters = {letter for word in options for letter in word[1:]}
        if command not in {"export", "readonly", "local"}:
            self.script.require_bash(f"`{command}`")
        if "f" in letters or "F" in letters:
            return
        unexports = (command == "export" and "n" in letters) or any(word[0] == "+" and "x" in word for word in options)
        exports = not unexports and (command == "export" or "x" in letters)
        refers = "n" in letters and command not in {"export", "readonly"}
        if letters & CONVERTING_OPTIONS and not (command == "export" and "n" in letters):
            self.script.doubt_all(f"the options of `{command}` change the values of variables")
        for word in words[1:]:
            if word[:1] not in {"-", "+"}:
                self._declare_one(word, command, exports=exports, unexports=unexports)
                if refers and (found := DECLARED_NAME.match(word)) is not None:
                    self.variables.refer(found.group(1), word[found.end() :])
                if "a" in letters and command in {"declare", "typeset", "local"} and (found := NAME.match(word)):
                    self.variables.make_array(found.group())
                if (command == "readonly" or "r" in letters) and (found := NAME.match(word)) is not None:
                    self.variables.readonly.add(found.group())
                is_outside = command == "local" and not self.variables.function_depth
                if is_outside and (found := NAME.match(word)) is not None:
                    self.variables.assign(found.group(), None)  # an error, which sets nothing

    def _declare_one(self, word: str, command: str, *, exports: bool, unexports: bool) -> None:
        """Apply one argument of `export` and the like: a name, or an assignment."""
        variables, found = self.variables, DECLARED_NAME.match(word)
        if found is None:
            if is_uncertain(word):
                self.script.doubt_all(f"`{command}` sets variables that are not known")
            return
        name, operator = found.groups()
        value = word[found.end() :]
        if operator == "" and value:
            variables.assign(name, None)  # an element of an array
            subscript, _, given = value.partition("=")
            self.budget.note_element(name, subscript, given)
            return
        if exports:
            variables.export(name)
        if operator == "":
            if exports and name in variables.values:
                variables.assign(name, variables.values[name])
        elif is_uncertain(word) or value.startswith("("):
            variables.assign(name, None)
            self.budget.note_value(name, value)
        elif operator == "=":
            variables.assign(name, value)
        else:
            before = variables.value(name)
            self.script.require_bash("`+=`")
            self.budget.fill(len(before or ""))
            variables.assign(name, None if before is None else f"{before}{value}")
        if unexports:
            variables.unexport(name)


def _prints(words: Sequence[str]) -> bool:
    """Whether `echo`, `set` or a declaration writes to the standard output: one without operands lists variables."""
    if words[0] == "set":
        return len(words) == 1 or (words[-1][:1] in {"-", "+"} and words[-1].endswith("o"))
    return words[0] == "echo" or (words[0] in DECLARATIONS and all(word[:1] in {"-", "+"} for word in words[1:]))


def _may_store_count(arguments: Sequence[str]) -> bool:
    """Whether `printf` may store the number of characters that it writes in variables that its arguments name."""
    if len(arguments) < 2:  # noqa: PLR2004  # a format and a name
        return False
    return is_uncertain(arguments[0]) or COUNT_FORMAT.search(arguments[0].replace("%%", "")) is not None
