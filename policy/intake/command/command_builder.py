"""Build the words of the current command from their pieces.

A finished word is an assignment before the command, or one of its words. Not here: splitting a script into pieces
(`shell`), and the values of `$A` and `${A}` (`parameter_expansion`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.builtin_tables import DECLARATIONS
from policy.intake.command.programs import LISTED_PROCESSES, QUOTES, STARTS_VLLM, mentions_vllm
from policy.intake.command.substituted_commands import READING_SUBSTITUTION, ShellExpansion
from policy.intake.command.words import ASSIGNMENT, Array, Pattern, Unknown, has_braces, has_bracket_expression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.control_flow import ControlFlow
    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_commands import ScriptCommands
    from policy.intake.command.script_variables import ScriptVariables
    from policy.intake.command.substitutions import Substitutions

APPENDING_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+=")
ELEMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[([^]]*)\]\+?=")
"""Matches the assignment of one element of an array."""
ASSIGNMENT_START: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
"""Matches the beginning of a word that assigns or appends to a variable."""
SPLIT_WORD: Final = re.compile(r"[^ \t\n]+")
"""Matches a word of an expanded value that is split by the default `IFS`."""
SEPARATORS: Final = re.compile(r"[^A-Za-z0-9./]")
"""Matches a character that may separate words of a value, if `IFS` is set or a part of the value is cut off."""
MAX_NAME_PARTS: Final = 8
"""The maximum number of pieces of an assignment's name, such as `A` and `=` on two lines."""
REPLACED_NAME: Final = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*+|[0-9@*#])")
"""Matches the name of a variable or parameter that a shell replaces."""
EMPTY_LIST: Final = '"$@"'
"""Stands for a word that a shell may drop."""
QUOTED_PART: Final = "\0"
"""Replaces a quoted piece where only the bare pieces of a word matter."""
REFERENCE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*+)\}|([A-Za-z_][A-Za-z0-9_]*+))")
UNKNOWN_PROGRAM: Final = re.compile(
    r"""(?:\$\((?!\()|`|[;&|{\n]|(?<![$(])\(|(?<![\w.-])(?:command|do|else|env|exec|nohup|then|time)\s|!\s)"""
    r"""[ \t]{0,64}+["']?(?:\$|`[^`]|\.\s|[\w./-]{1,256}+"""
    r"""(?:(?<=\.sh)|(?<=\bbash)|(?<=\bdash)|(?<=\beval)|(?<=\bsh)|(?<=\bsource)))"""
)
"""Matches where a command of a substitution begins with an expansion, or starts a script."""


class CommandBuilder:
    """Builds the current command; `parts` are the pieces of the current word, None between words."""

    def __init__(
        self, variables: ScriptVariables, flow: ControlFlow, script: ScriptCommands, budget: ExpansionBudget
    ) -> None:
        self.variables = variables
        self.flow = flow
        self.script = script
        self.budget = budget
        self.substitutions: Substitutions | None = None
        """The substitutions that may start a container; None if they are not read."""
        self.noted: list[ShellExpansion] = []
        """The expansions of the current command with commands that may change something."""
        self.command = variables.command
        self.parts: list[str] | None = None
        self.bare_parts: list[str] = []
        """The pieces, with a character that no shell expands in place of each quoted one."""
        self.begins_bare = True
        """Whether the first piece is bare, so that it may be a name."""
        self.is_unknown = False
        self.replaced: set[str] = set()
        """The variables in an unknown word that are replaced before any other shell reads it."""
        self.is_several = False
        """Whether an unknown word may expand to any number of words."""
        self.has_pattern = False
        self.has_name = False
        """Whether the word is known to begin like an assignment."""
        self.is_kept = False
        """Whether a quoted part keeps the word even if it is empty."""
        self.is_dropped = False
        """Whether a part `"$@"` without arguments drops the word if it is empty and nothing keeps it."""
        self.may_be_dropped = False
        """Whether shells differ in dropping the word if it is empty: `"$@$A"`."""
        self.empty_lists = 0
        """The number of lists without words, such as `$@`, in the current double quotes."""

    def put(self, piece: str, *, bare: bool = True) -> None:
        """Add a piece to the current word, or begin a word with it."""
        if self.parts is None:
            self.parts, self.bare_parts, self.begins_bare = [], [], bare
            self.is_unknown = self.is_several = self.has_pattern = self.has_name = False
            self.is_kept = self.is_dropped = self.may_be_dropped = False
            if self.replaced:
                self.replaced = set()
        self.bare_parts.append(piece if bare else QUOTED_PART)
        self.parts.append(piece)

    def open_quotes(self) -> int:
        """Begin double quotes, and return the value that ``close_quotes`` takes."""
        self.put("", bare=False)
        self.empty_lists = 0
        return 0 if self.parts is None else len(self.parts)

    def close_quotes(self, opened: int) -> None:
        """End double quotes. Shells drop a word of nothing but `"$@"` without arguments, and keep one with `""`."""
        if not self.empty_lists:
            self.is_kept = True
        elif self.parts is not None and (self.empty_lists > 1 or len(self.parts) > opened) and not self.script.is_bash:
            self.may_be_dropped = True  # dash keeps `"$@$A"`, bash does not
        else:
            self.is_dropped = True

    def fill(self, written: str, value: str | None, *, in_quotes: bool) -> None:
        """Insert a variable's value; outside quotes it is split at blanks."""
        in_quotes = in_quotes or self.is_assigning()
        if value is None or (not in_quotes and value and self.variables.sets_separators):
            if value:
                self._note_parts(value)
            self._put_unknown(written, in_quotes=in_quotes)
            return
        self.budget.fill(len(value))
        if in_quotes:
            self.put(value, bare=False)
            return
        pieces = SPLIT_WORD.findall(value)
        self.budget.expand_words(len(pieces))
        for index, piece in enumerate(pieces):
            if index or value[0] in " \t\n":
                self.end_word()
            self.put(piece, bare=False)
            self.has_pattern = self.has_pattern or "*" in piece or "?" in piece or has_bracket_expression(piece)
        if value[-1:] in {" ", "\t", "\n"}:
            self.end_word()

    def _put_unknown(self, written: str, *, in_quotes: bool) -> None:
        """Add an expansion as written. If it may start vLLM, it is also added as a command, since the shell runs it."""
        self.put(written, bare=False)
        self.is_unknown = True
        if not written.startswith(("`", "$(")):
            self.replaced.update(REPLACED_NAME.findall(written))
            if written.startswith("${") and not self.command.words and self.parts == [written]:
                for name in self.replaced:
                    self._note_parts(self.variables.value(name) or "")
        self.is_several = self.is_several or not in_quotes or "@" in written or written.startswith("${!")
        is_quoted = any(mark in written for mark in "'\"\\")
        is_named = STARTS_VLLM.search(written) or (is_quoted and STARTS_VLLM.search(QUOTES.sub("", written)))
        is_text = is_named and LISTED_PROCESSES.fullmatch(written) is not None
        if not is_text and (is_named or (("$(" in written or "`" in written) and self._may_start_vllm(written))):
            self.script.add([Unknown(written)], self.variables.share_environment())
        if "$(" in written or "`" in written:
            self.note_substituted(written)
        if self.substitutions is not None and written.startswith(("`", "$(")):
            self.script.doubt_all(self.substitutions.note(written, self.variables))

    def _note_parts(self, value: str) -> None:
        """Add a value as a command that is not known if parts of it name vLLM's server: `vllm_serve` with `IFS=_`."""
        if value in self.budget.other_values:
            return
        self.budget.fill(len(value))
        if "vllm" in value and "serve" in value:
            self.script.add([Unknown(f"{SEPARATORS.sub(' ', value)} ")], self.variables.share_environment())
        else:
            self.budget.other_values.add(value)

    def note_substituted(self, written: str) -> None:
        """Note an expansion whose commands may change something, with the variables of its shell."""
        if READING_SUBSTITUTION.fullmatch(written) is not None:
            return
        values: dict[str, str | None] = {}
        is_short = len(self.variables.values) <= self.budget.copied
        if "$" in written[2:] and is_short:
            self.budget.copy(len(self.variables.values))
            values = dict(self.variables.values)
        self.noted.append(ShellExpansion(written, values, self.script.is_bash, is_complete=is_short))

    def _may_start_vllm(self, written: str) -> bool:
        """Whether a command in a substitution is a program that is not known, or vLLM by the value of a variable."""
        if "$" in written[1:]:
            filled = REFERENCE.sub(self._value_of, written)
            if mentions_vllm(filled):
                return True
            written = filled
        return UNKNOWN_PROGRAM.search(written) is not None

    def _value_of(self, reference: re.Match[str]) -> str:
        """The value that a reference stands for; the reference itself if that is not known."""
        value = self.variables.value(reference.group(1) or reference.group(2))
        if value is None:
            return reference.group()
        self.budget.fill(len(value))
        return value

    def fill_words(self, words: Sequence[str], *, in_quotes: bool) -> None:
        """Insert several words; outside quotes each of them is split at blanks."""
        if len(words) != 1 and self.is_assigning():
            self._put_unknown(EMPTY_LIST, in_quotes=True)  # shells join the words, or refuse them
            return
        self.empty_lists += in_quotes and not words
        self.budget.expand_words(len(words))
        for index, word in enumerate(words):
            if index:
                self.end_word()
            if type(word) is Unknown:
                self.fill(word, None, in_quotes=in_quotes and not word.is_several)
            else:
                self.fill(word, word, in_quotes=in_quotes)
                self.has_pattern = self.has_pattern or type(word) is Pattern

    def is_assigning(self) -> bool:
        """Whether the current word is an assignment, in which values are not split."""
        if not self._may_assign() or self.parts is None:
            return False
        if not self.has_name and len(self.parts) <= MAX_NAME_PARTS:
            self.has_name = ASSIGNMENT_START.match("".join(self.parts)) is not None
        return self.has_name

    def array_name(self) -> tuple[str, bool] | None:
        """The array to which `=(` or `+=(` assigns, and whether it appends; None if no array is assigned."""
        if not self._may_assign() or self.parts is None:
            return None
        found = ASSIGNMENT_START.fullmatch("".join(self.parts))
        return None if found is None else (found.group(1), found.group(2) == "+")

    def _may_assign(self) -> bool:
        words = self.command.words
        return self.begins_bare and (not words or words[0] in DECLARATIONS)

    def end_word(self) -> None:
        """End the current word, if any, and add it to the command as a word or an assignment."""
        if self.parts is None:
            return
        parts = self.parts
        word = "".join(parts) if parts[1:] else parts[0]  # most words have one piece
        self.parts = None
        if not word and not self.is_kept:
            if self.may_be_dropped:
                self.is_unknown = self.is_several = True
                word = EMPTY_LIST
            elif self.is_dropped:
                return
        self.budget.add_word()
        words = self.command.words
        bare = "".join(self.bare_parts) if parts[1:] else self.bare_parts[0]
        is_assignment = self.begins_bare and "=" in word  # spares most words the patterns
        if is_assignment and ASSIGNMENT_START.match(word) and (not words or words[0] in DECLARATIONS):
            has_brace = bool(words) and has_braces(bare)
            is_late = len(parts) > MAX_NAME_PARTS and ASSIGNMENT_START.match("".join(parts[:MAX_NAME_PARTS])) is None
            self.is_unknown = self.is_unknown or has_brace or is_late or "=~" in bare or ":~" in bare
            self.has_pattern = False
        else:
            has_brace = "{" in bare and has_braces(bare)
            has_glob = "*" in bare or "?" in bare or ("[" in bare and has_bracket_expression(bare))
            self.has_pattern = self.has_pattern or has_brace or bare[:1] == "~" or has_glob
            if has_brace and self.script.is_bash:
                self.is_unknown = self.is_several = True
        if is_assignment and not words and self._assign(word):
            return
        if self.is_unknown:
            several = self.is_several or self.has_pattern
            self._add_word(Unknown(word, is_several=several, names=frozenset(self.replaced)))
        else:
            self._add_word(Pattern(word) if self.has_pattern else word)

    def _assign(self, word: str) -> bool:
        """Read an assignment before a command; false if the word is not an assignment."""
        assignments = self.command.assignments
        if (element := ELEMENT.match(word)) is not None:
            assignments[element.group(1)] = None
            self.budget.note_element(element.group(1), element.group(2), word[element.end() :])
        elif (assignment := ASSIGNMENT.match(word)) is not None:
            assignments[assignment.group(1)] = None if self.is_unknown else word[assignment.end() :]
            self.budget.note_value(assignment.group(1), word[assignment.end() :])
            if self.is_unknown:
                self.variables.note_sources(assignment.group(1), word)
        elif (appending := APPENDING_ASSIGNMENT.match(word)) is not None:
            self.script.require_bash("`+=`")
            name = appending.group(1)
            before = assignments[name] if name in assignments else self.variables.value(name)
            self.budget.fill(len(before or ""))
            is_unknown = self.is_unknown or before is None or isinstance(before, Array)
            assignments[name] = None if is_unknown else f"{before}{word[appending.end() :]}"
            self.budget.note_value(name, word[appending.end() :])
        else:
            return False
        return True

    def _add_word(self, word: str) -> None:
        """Add a word to the command, unless it is a keyword."""
        command = self.command
        if word == "{" and command.words[:1] == ["function"] and len(command.words) == 2:  # noqa: PLR2004  # `function` and its name
            self.define_function(command.words[1])
            command.words, self.flow.defines = [], True
        if command.words or command.assignments or self.flow.read_keyword(word):
            command.words.append(word)

    def names_function(self, operator: str) -> bool:
        """Whether the words before an operator begin the definition of a function: `f()`, `function f`."""
        words = self.command.words
        count = len(words) + (self.parts is not None)
        if words[:1] == ["function"]:
            return count == 2 and operator[:1] in {"(", "\n"}  # noqa: PLR2004  # `function` and its name
        return count == 1 and operator[:2] == "()"

    def define_function(self, name: str | None = None) -> None:
        """Record the definition of a function; by default its name is the last word."""
        if name is None:
            name = "".join(self.parts) if self.parts is not None else self.command.words[-1]
        if self.command.words[:1] == ["function"]:
            self.script.require_bash("`function`")
        self.script.define_function(name)
