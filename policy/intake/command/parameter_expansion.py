"""Expand what follows `$` in a script: variables, arguments, arrays, defaults; also backticks.

An expansion whose value only a running shell knows, such as `$(…)`, stays as written.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from policy.intake.command.ambiguous_text import OTHER_READING
from policy.intake.command.arithmetic import CalculationRefused, calculate
from policy.intake.command.brackets import backtick_end, bracket_end
from policy.intake.command.script_variables import NAME
from policy.intake.command.words import Unknown, is_uncertain
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.command_builder import CommandBuilder
    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.positional_parameters import PositionalParameters
    from policy.intake.command.script_commands import ScriptCommands
    from policy.intake.command.script_variables import ScriptVariables

SPECIAL_PARAMETERS: Final = frozenset("#?$!-0123456789")
"""The special parameters other than `@` and `*`, and the digits."""
SELECTION: Final = re.compile(r"\[([@*]|[0-9]{1,4})\](?::([0-9]{1,4}))?")
"""Matches what follows the name in `${A[@]}`, `${A[0]}` and `${A[@]:1}`."""
OPERATOR: Final = re.compile(r"(?P<colon>:?)(?P<operator>[-=+?])")
"""Matches the operator after the name in `${A:-word}`."""
DEFAULT: Final = re.compile(r"(?P<plain>[^'\"\\$`]*)|\"(?P<double>[^\"\\$`]*)\"|'(?P<single>[^']*)'")
"""Matches the word of `${A:-word}` if it is literal."""
DEFAULT_IN_QUOTES: Final = re.compile(r"(?P<plain>[^\"\\$`]*)|\"(?P<double>[^\"\\$`]*)\"(?P<single>(?!))?")
"""Like `DEFAULT`, but for `"${A:-word}"`, where a single quote is literal."""
INNER_ASSIGNMENT: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[^]]{0,256}\])?:?=")
"""Matches `${A:=` within another expansion."""
EXTERNAL_VARIABLE: Final = re.compile(
    r"(?:AZURE_|BASH|COMP_|CUDA|DEBIAN_|EPOCH|GPG_|HIST|KUBERNETES_|LC_|LD_|NCCL_|NV|PYTHON|READLINE_|ROCM_|UV_|XPC_)\w*"
    r"|VLLM_(?:USAGE_SOURCE|ENABLE_CUDA_COMPATIBILITY|WORKER_MULTIPROC_METHOD)|\w+_(?:SERVICE_HOST|SERVICE_PORT\w*)"
    r"|COLUMNS|DIRSTACK|EUID|FUNCNAME|GROUPS|HOME|HOSTNAME|HOSTTYPE|IFS|LANG|LANGUAGE|LINENO|LINES|LOGNAME|MACHTYPE"
    r"|MAPFILE|OLDPWD|OPTARG|OPTERR|OPTIND|OSTYPE|PATH|PIPESTATUS|PPID|PS[0-4]|PWD|RANDOM|REPLY|SECONDS|SHELL|SHELLOPTS"
    r"|SHLVL|SRANDOM|TERM|TMOUT|TMPDIR|TZ|UID|USER|_"
)
"""Matches the variables that a shell, Kubernetes or common images set, so that their defaults may not be used."""
REQUIRED_VARIABLE: Final = re.compile(r"#?([A-Za-z_][A-Za-z0-9_]*+)(?!:?[-+=]|\[)")
"""Matches the inside of a `${…}` that a shell refuses after `set -u` if the variable is not set."""
ANSI_C: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
"""Matches `$'…'`, in which bash interprets ANSI C escapes."""
ANSI_C_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
ANSI_C_LETTERS: Final = {
    **dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True)),
    **{each: each for each in "\\'\"?"},
}


class ParameterExpansion:
    """Expands the text of a script. With ``has_hidden_variables`` a hidden source may set any variable."""

    def __init__(
        self,
        text: str,
        builder: CommandBuilder,
        parameters: PositionalParameters,
        *,
        has_hidden_variables: bool,
    ) -> None:
        self.text = text
        self.last_bracket = text.rfind("]")
        """Where the last `]` is, which may end a `$[…]`; -1 if there is none."""
        self.builder = builder
        self.variables: ScriptVariables = builder.variables
        self.script: ScriptCommands = builder.script
        self.budget: ExpansionBudget = builder.budget
        self.parameters = parameters
        self.has_hidden_variables = has_hidden_variables

    def for_text(self, text: str) -> ParameterExpansion:
        """The expansion of a text within the script."""
        hidden = self.has_hidden_variables
        return ParameterExpansion(text, self.builder, self.parameters, has_hidden_variables=hidden)

    def read(self, start: int, *, in_quotes: bool) -> int:
        """Expand at ``start``, a dollar or a backtick, and return where the expansion ends.

        ``in_quotes``: whether it is in double quotes.

        Raises:
            ShellSyntaxError: it is not closed, or its end is not certain.
        """
        text = self.text
        if text[start] == "`":
            end = backtick_end(text, start)
            self.builder.fill(text[start:end], None, in_quotes=in_quotes)
            return end
        if text.startswith("$(", start):
            return self._read_substitution(start, in_quotes=in_quotes)
        if text.startswith("${", start):
            end = bracket_end(text, start)
            self._read_braces(text[start:end], in_quotes=in_quotes)
            return end
        if (name := NAME.match(text, start + 1)) is not None:
            in_quotes = in_quotes or self._is_one_word(name.group())
            if self.variables.unset_names:
                self._doubt_unset(name.group())
            self.builder.fill(text[start : name.end()], self.variables.value(name.group()), in_quotes=in_quotes)
            return name.end()
        character = text[start + 1 : start + 2]
        if character in {"@", "*"}:
            self._read_arguments(text[start : start + 2], in_quotes=in_quotes)
            return start + 2
        if character in SPECIAL_PARAMETERS or (self.variables.function_depth and character.isdecimal()):
            self.builder.fill(text[start : start + 2], self._special(character), in_quotes=in_quotes)
            return start + 2
        if character == "[" and start < self.last_bracket:
            end = text.find("]", start)
            self.variables.forget_assigned(text[start:end])
            self.builder.fill(text[start : end + 1], None, in_quotes=in_quotes)
            return end + 1
        return self._read_dollar(start, in_quotes=in_quotes)

    def _doubt_unset(self, name: str) -> None:
        """Doubt a script that uses a variable that is not set, after `set -u`."""
        is_unset = name in self.variables.unset_names and name not in self.variables.command.assignments
        if self.variables.refuses_unset and is_unset:
            self.script.doubt_all(f"`${name}` is not set, which ends the script because of `-u`")

    def _read_substitution(self, start: int, *, in_quotes: bool) -> int:
        """Read `$(…)`, whose output is unknown, or `$((…))`, which is one word unless the script sets `IFS`."""
        text, end = self.text, bracket_end(self.text, start)
        is_number, value = False, None
        if text.startswith("$((", start):
            self.variables.forget_assigned(text[start:end])
            is_number = text.endswith("))", start, end) and not self.variables.sets_separators
            if is_number and type(text) is not Unknown:
                value = self._calculated(text[start:end])
        self.builder.fill(text[start:end], value, in_quotes=in_quotes or is_number)
        return end

    def _calculated(self, calculation: str) -> str | None:
        """The value of `$((…))`; None if it is not known, with a doubt if a shell refuses it."""
        try:
            return calculate(calculation[3:-2], self._number)
        except CalculationRefused:
            self.script.doubt_all(f"a shell refuses {quoted(calculation)}, which may end the script there")
            return None

    def _number(self, name: str, default: str | None) -> str | None:
        """The value of a variable in a calculation, in which ``default`` replaces one that is not set or empty."""
        value, is_stated = self.variables.value(name), self.variables.is_stated(name)
        if default is None or value or (is_stated and value is None) or (not is_stated and self._may_be_set(name)):
            return value
        return default

    def _read_dollar(self, start: int, *, in_quotes: bool) -> int:
        """Read `$'…'` or the dollar of `$"…"`; any other dollar is literal."""
        text = self.text
        if not in_quotes and (ansi_c := ANSI_C.match(text, start)) is not None:
            self.script.require_bash("`$'…'`")
            if not self.script.is_bash and "\\'" in ansi_c.group():
                self.budget.hidden = self.budget.hidden or f"`$'…'` {OTHER_READING}"
            self.budget.fill(ansi_c.end() - start)
            self.builder.put(ANSI_C_ESCAPE.sub(_ansi_c, ansi_c.group(1)).partition("\0")[0], bare=False)
            return ansi_c.end()
        if text[start + 1 : start + 2] in {"'", '"'} and not in_quotes:
            self.script.require_bash('`$"…"`')  # bash translates it to the user's language; it is left as written
        else:
            self.builder.put("$", bare=False)
        return start + 1

    def _special(self, character: str) -> str | None:
        """The value of `$1`, `$#` and the like; None for all but the script's arguments."""
        if (
            not character.isdecimal()
            or character in self.variables.replaced
            or (self.variables.function_depth and character != "0")
        ):
            return None
        return self.parameters.value(int(character))

    def _read_arguments(self, written: str, *, in_quotes: bool) -> None:
        """Expand `$@` or `$*`: each argument after `$0` is a separate word, except in `"$*"`."""
        words = self.parameters.words[1:]
        is_joined = in_quotes and written == "$*"
        self.budget.copy(len(words) if is_joined else 0)
        is_unknown = is_joined and (any(map(is_uncertain, words)) or self.variables.sets_separators)
        if self.variables.function_depth or is_unknown or written[1] in self.variables.replaced:
            self.builder.fill(written, None, in_quotes=in_quotes)
        elif is_joined:
            self.builder.fill(written, " ".join(words), in_quotes=True)
        else:
            self.builder.fill_words(words, in_quotes=in_quotes)

    def _read_braces(self, written: str, *, in_quotes: bool) -> None:
        """Expand `${…}`; variables that it may set become unknown."""
        inner = written[2:-1]
        if self.variables.unset_names and (used := REQUIRED_VARIABLE.match(inner)) is not None:
            self._doubt_unset(used.group(1))
        elements = self._selected(inner, in_quotes=in_quotes)
        if elements is not None:
            self.builder.fill_words(elements, in_quotes=in_quotes)
            return
        value, is_quoted = self._braced(inner, in_quotes=in_quotes)
        self.builder.fill(written, value, in_quotes=in_quotes or is_quoted or self._is_one_word(inner))
        if value is None:
            self.variables.forget_assigned(inner)
            self.variables.forget(found.group(1) for found in INNER_ASSIGNMENT.finditer(inner))

    def _selected(self, inner: str, *, in_quotes: bool) -> Sequence[str] | None:
        """The elements that `${A[@]}`, `${A[0]}` or `${A[@]:1}` selects; None if unknown, or for any other form."""
        name, variables = NAME.match(inner), self.variables
        selection = SELECTION.fullmatch(inner, name.end()) if name is not None else None
        if name is None or selection is None:
            return None
        if name.group() not in variables.values and name.group() not in variables.outer:
            return None
        array = variables.array(name.group(), {})
        if array is None:
            return None
        which, first = selection.groups()
        elements, is_certain = array.elements, array.certain_count == len(array.elements)
        is_part = first is not None or which not in {"@", "*"}
        if is_part and not is_certain:
            return None
        if which not in {"@", "*"}:
            missing = ("",) if in_quotes else ()
            return (elements[int(which) : int(which) + 1] or missing) if first is None else None
        if first is not None and not variables.is_array(name.group()):
            return None  # the characters of a text from there on
        chosen = elements[int(first or 0) :]
        if which == "@" or not in_quotes:
            return chosen
        return [" ".join(chosen)] if is_certain and not variables.sets_separators else None

    def _braced(self, inner: str, *, in_quotes: bool) -> tuple[str | None, bool]:
        """The value of `${A}` or `${A:-word}`, and whether the value is quoted.

        The value is None if it is unknown.
        """
        found = NAME.match(inner)
        if found is None:
            return None, False
        name, value = found.group(), self.variables.value(found.group())
        expansion = OPERATOR.match(inner, found.end())
        if expansion is None:
            return (value if found.end() == len(inner) else None), False
        is_stated = self.variables.is_stated(name)
        other, is_quoted = _default(inner[expansion.end() :], in_quotes=in_quotes)
        self.budget.note_value(name, other)
        operator = expansion["operator"]
        is_given = is_stated and (value != "" or not expansion["colon"])
        if operator == "=" and not is_given:
            other = None if value is None and (is_stated or self._may_be_set(name)) else other
            self.variables.assign(name, other)
            return other, False
        if is_stated and value is None:
            return None, False
        if operator == "+":
            return (other, is_quoted) if is_given else ("" if is_stated else None, False)
        if is_given or operator == "?":
            return value, False
        if not is_stated and self._may_be_set(name):
            return None, False
        return other, is_quoted

    def _is_one_word(self, name: str) -> bool:
        """Whether the value of a variable that the script does not set is one word."""
        return self.variables.is_one_word(name, is_hidden=self.has_hidden_variables)

    def _may_be_set(self, name: str) -> bool:
        """Whether a variable that is not stated may be set by a shell, an image, or a hidden source."""
        return self.has_hidden_variables or EXTERNAL_VARIABLE.fullmatch(name) is not None


def _default(word: str, *, in_quotes: bool) -> tuple[str | None, bool]:
    """The value of the word in `${A:-word}`, None if it is not literal, and whether it is quoted."""
    found = (DEFAULT_IN_QUOTES if in_quotes else DEFAULT).fullmatch(word)
    if found is None or word[:1] == "~":
        return None, False
    quoted = found["double"] if found["double"] is not None else found["single"]
    return (found["plain"], False) if quoted is None else (quoted, True)


def _ansi_c(escape: re.Match[str]) -> str:
    """The character of an escape in `$'…'`; an invalid one stays as written."""
    octal, *hexadecimal, letter = escape.groups()
    if letter is not None:
        return ANSI_C_LETTERS.get(letter, escape.group())
    code = int(octal, 8) if octal is not None else int(next(digits for digits in hexadecimal if digits is not None), 16)
    is_character = code <= sys.maxunicode and not "\ud800" <= chr(code) <= "\udfff"
    return chr(code) if is_character else escape.group()
