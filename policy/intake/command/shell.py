"""Split a shell's text into commands and words, with the variables that the text itself sets. Nothing is run.

Handles quotes, line continuations, comments, variables and the separators of commands. Not here: which of the commands
starts vLLM (`launcher`). A word whose value only a running shell knows stays as written and is an `Unknown`.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.intake.command.brackets import backtick_end, bracket_end
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS, ExpansionBudget, ShellSyntaxError
from policy.intake.command.programs import QUOTES, STARTS_VLLM
from policy.intake.command.words import Array, Pattern, Unknown, has_braces, has_class, is_open

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
APPENDING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+=")
PLAIN: Final = re.compile(r"(?:[^ \t\r\n'\"\\$`;&|<>()#]|\r(?!\n))++")
OPERATORS: Final = re.compile(r"[;\n()]+|&&|\|\||\|&|[&|]")
BLANKS: Final = re.compile(r"(?:[ \t]|\r(?=\n))++")
"""Matches what separates words in a line; a shell would keep the `\\r` of a line that ends with `\\r\\n`."""
SPLIT: Final = re.compile(r"[^ \t\n]+")
"""Matches a word of an expanded value, as the default `IFS` separates them."""
ARRAY: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
ELEMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[^]]*\]\+?=")
"""Matches the assignment of one element of an array."""
SELECTION: Final = re.compile(r"\[([@*]|[0-9]{1,4})\](?::([0-9]{1,4}))?")
"""Matches what follows the name in `${A[@]}`, `${A[0]}` and `${A[@]:1}`."""
CALCULATION: Final = re.compile(r"\(\((?:[^()\n]++|\([^()\n]*+\))*+\)\)")
CALCULATED: Final = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+)(?:\[[^]]{0,256}\])?+\s*+(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    r"|(?:\+\+|--)\s*+([A-Za-z_][A-Za-z0-9_]*+)"
)
"""Matches what arithmetic assigns."""
DEFAULT: Final = re.compile(r"(?P<plain>[^'\"\\$`]*)|\"(?P<double>[^\"\\$`]*)\"|'(?P<single>[^']*)'")
"""Matches the word of `${A:-word}` if it is certain."""
DEFAULT_IN_QUOTES: Final = re.compile(r"(?P<plain>[^\"\\$`]*)|\"(?P<double>[^\"\\$`]*)\"(?P<single>(?!))?")
"""The same in `"${A:-word}"`, where a single quote is a character."""
ASSIGNED_INSIDE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[^]]{0,256}\])?:?=")
"""Matches `${A:=` within another expansion."""
CHANGING: Final = re.compile(
    r"BASH\w*|COMP_\w+|DIRSTACK|EPOCH\w+|EUID|FUNCNAME|GROUPS|HISTCMD|IFS|LINENO|OLDPWD|OPT(?:ARG|ERR|IND)|PIPESTATUS"
    r"|PPID|PS4|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_"
)
"""Matches the variables to which a shell gives values of its own."""
STORED: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Matches `{A}` before a redirection, which sets the variable to the number of the file."""
DECLARED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|)")
EXPANSION: Final = re.compile(r"(?P<colon>:?)(?P<operator>[-=+?])")
"""Matches the operator after the name in `${A:-word}`."""
SET_BY_OTHERS: Final = re.compile(
    r"(?:BASH|COMP_|CUDA|DEBIAN_|EPOCH|GPG_|HIST|KUBERNETES_|LC_|LD_|NCCL_|NV|PYTHON|READLINE_|ROCM_|UV_|XPC_)\w*"
    r"|VLLM_(?:USAGE_SOURCE|ENABLE_CUDA_COMPATIBILITY|WORKER_MULTIPROC_METHOD)|\w+_(?:SERVICE_HOST|SERVICE_PORT\w*)"
    r"|COLUMNS|DIRSTACK|EUID|FUNCNAME|GROUPS|HOME|HOSTNAME|HOSTTYPE|IFS|LANG|LANGUAGE|LINENO|LINES|LOGNAME|MACHTYPE"
    r"|MAPFILE|OLDPWD|OPTARG|OPTERR|OPTIND|OSTYPE|PATH|PIPESTATUS|PPID|PS[0-4]|PWD|RANDOM|REPLY|SECONDS|SHELL|SHELLOPTS"
    r"|SHLVL|SRANDOM|TERM|TMOUT|TMPDIR|TZ|UID|USER|_"
)
"""Matches the variables that a shell, Kubernetes or common images set, so that a default for them may not count."""
ONE_WORD: Final = re.compile(
    r"HOSTNAME|JOB_COMPLETION_INDEX|KUBERNETES_\w+|LWS_\w+|PPID|\w+_(?:SERVICE_HOST|SERVICE_PORT\w*)"
)
"""Matches variables that every shell, Kubernetes or LeaderWorkerSet sets to a number, a name or an address."""
REDIRECTION: Final = re.compile(r"[0-9]*(?:<<<|<<-?|>>|<>|>\||[<>]&?|&>>?)[-0-9]*")
QUOTED: Final = re.compile(r'[^"\\$`]+')
_SPECIAL: Final = frozenset("#?$!-0123456789")
NAME_PARTS: Final = 8
"""In how many parts of a word the name of an assignment may be, such as `A` and `=` on two lines."""
QUOTED_PART: Final = "\0"
"""A quoted part of a word, where only its bare parts matter."""
ANSI_C: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
"""Matches `$'…'`, in which bash reads escapes as C does."""
ANSI_C_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
ANSI_C_LETTERS: Final = {
    **dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True)),
    **{each: each for each in "\\'\"?"},
}
PIPES: Final = frozenset({"|", "|&"})
APART: Final = PIPES | {"&"}
SETTING: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "for", "select"})
"""Commands and loops that set or unset the variables that they name to a value that is not known here."""
IMPLIED: Final = {
    **dict.fromkeys(["read", "select"], ("REPLY",)),
    **dict.fromkeys(["mapfile", "readarray"], ("MAPFILE",)),
    **dict.fromkeys(["cd", "pushd", "popd"], ("PWD", "OLDPWD", "DIRSTACK")),
    "getopts": ("OPTARG", "OPTIND"),
}
"""The variables that commands set without naming them."""
DECLARING: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
SUCCEEDING: Final = frozenset({"true", ":", "echo"})
"""Commands that succeed, so that what follows after `&&` runs, unless a redirection fails."""
SPECIAL_BUILTINS: Final = frozenset(
    {":", ".", "source", "eval", "exec", "export", "readonly", "set", "shift", "times", "trap", "unset"}
)
"""Commands of a shell after which an assignment before them may stay."""
INTERPRETED: Final = frozenset(
    {*SETTING, *DECLARING, *SUCCEEDING, *SPECIAL_BUILTINS, "let", "printf", "command", "builtin", "alias", "shopt", "["}
)
"""Commands whose effect is read, so that a function of that name changes it."""
EFFECTIVE: Final = DECLARING | SETTING | {"eval", ".", "source", "set", "shift", "alias", "let", "printf", "trap"}
"""Commands that change how the rest of a script is read."""
FORGETTING: Final = frozenset({*IMPLIED, *SETTING, "let", "printf", "wait"})
"""Commands and loops after which variables are unknown."""
AFFECTING: Final = frozenset({*SPECIAL_BUILTINS, "alias", "builtin", "command", "coproc", "enable", "hash", "shopt"})
"""Commands that may change the running shell, and with it what follows."""
CONVERTING: Final = frozenset("nilucI")
"""The options of `declare` that change what an assignment means."""
SAFE_LETTERS: Final = frozenset("abBCeEfghHmouvxPT")
SAFE_OPTIONS: Final = frozenset(
    {
        *("-s", "-u", "-q", "nullglob", "globstar", "dotglob", "failglob", "inherit_errexit", "huponexit"),
        *("allexport", "errexit", "errtrace", "monitor", "noclobber", "noglob", "nounset", "pipefail", "verbose"),
        *("xtrace", "braceexpand", "hashall"),
    }
)
"""Options of `set` and `shopt` that do not change what is read here."""
TRAPS: Final = frozenset({"EXIT", "0", "HUP", "1", "INT", "2", "QUIT", "3", "TERM", "15", "PIPE", "USR1", "USR2"})
"""Signals that only end a script, as far as what it starts is concerned."""
HARMLESS: Final = frozenset({"kill", "wait", "exit", "echo", "rm", "true", ":", "-", "pkill", "killall"})
FUNCTION_DOUBT: Final = "a function runs later than it is read, and variables change in between"
REDEFINED_DOUBT: Final = "the script has a function of that name"
LOOP_DOUBT: Final = "a loop sets variables, which may change the next time"
BEGIN: Final = {"if": "if", "while": "do", "until": "do", "for": "do", "case": "case"}
END: Final = {"fi": "if", "done": "do", "esac": "case", "}": "{"}
"""The words between which a part of a script runs conditionally, repeatedly, or not at all."""
FUNCTIONS: Final = frozenset({"{", "f("})
"""The kinds of parts that are the body of a function: in braces, or in a subshell."""
OPENERS: Final = frozenset({"then", "do", "else", "{", "!", "time", "if", "while", "until", "elif"})


class _Chain(Struct, gc=False):
    """Commands joined by `&&` and `||`, of which the later ones may not run.

    ``joiner`` is the operator before the current command. ``doubtful`` has the variables set by a command that may not
    run.
    """

    joiner: str = ""
    is_waiting: bool = False
    is_conditional: bool = False
    doubtful: list[str] = []


class _Part(Struct, gc=False):
    """A part of the script that is open, with the state before it."""

    kind: str
    variables: dict[str, str | None]
    passed: dict[str, str | None]
    chain: _Chain
    changes: int
    start: int
    exported: frozenset[str]
    is_piped: bool


class Command(Struct, frozen=True, gc=False):
    """One simple command: its words without the assignments before it, and its variables.

    Commands share ``env`` if nothing is set between them, so it must not be changed. ``writes`` says that its output
    goes to a file. ``doubt`` says why the words or the variables may be others when the command runs.
    """

    words: list[str]
    env: dict[str, str | None]
    writes: bool = False
    doubt: str = ""


def split(
    text: str,
    env: Mapping[str, str | None],
    arguments: Sequence[str] = (),
    budget: ExpansionBudget | None = None,
    *,
    is_bash: bool = False,
    is_nested: bool = False,
) -> list[Command]:
    """The commands of a text, in order.

    `env` has the variables around the text; one that is set to an unknown value is None. `arguments` are `$0`, `$1` ….
    A text that is part of a larger one shares its `budget`. If the text is an Unknown, what is around it replaces a
    part of it before any shell reads it, within single quotes too. `is_bash` says that the shell is bash, which expands
    `{a,b}`; otherwise it may be bash or another one. `is_nested` says that the text runs with the variables and
    arguments of another script, as that of `eval` does.

    `A=b` sets a variable for the rest of the text, `export A=b` for its commands too, and `A=b command` for that
    command alone. A Command's `env` has only the variables that the text itself sets for it.

    `$A`, `${A}`, `${A:-b}`, `${A-b}`, `${A:=b}`, `${A:+b}` and `${A+b}` are expanded, and split at blanks outside
    quotes, as in a shell. A name that is not set, `$(…)`, `` `…` `` and any other `${…}` give an Unknown. The default
    of a name that is not set counts, unless a shell, Kubernetes or an image usually sets it.

    Raises:
        ShellSyntaxError: a quote, a bracket or a here-document does not end, or there are too many words or values.
    """
    if len(text) > MAX_TEXT:
        raise ShellSyntaxError(f"the text has {len(text)} characters, and at most {MAX_TEXT} are read")
    budget = budget or ExpansionBudget()
    return _ShellReader(text, env, arguments, budget, is_bash=is_bash, is_nested=is_nested).commands()


class _ShellReader:
    """Reads the text in one pass; `parts` is the current word, None between words."""

    def __init__(
        self,
        text: str,
        env: Mapping[str, str | None],
        arguments: Sequence[str],
        budget: ExpansionBudget,
        *,
        is_bash: bool,
        is_nested: bool,
    ) -> None:
        self.text = text
        self.is_bash = is_bash
        self.is_nested = is_nested
        self.doubt = ""
        """Why the script as a whole may run other commands than those that are read."""
        self.exported_perhaps: set[str] = set()
        self.readonly: set[str] = set()
        self.changed_in_group: list[str] = []
        """The variables that the braces before set, in case they run in a shell of their own: `{ A=b; } &`."""
        self.function_names: set[str] = set()
        self.function_sets: set[str] = set()
        """The variables that functions set."""
        self.bodies: list[tuple[int, int]] = []
        """The commands of each function, by their positions."""
        self.changes = 0
        """How often a variable got a value, or a known one became unknown."""
        self.changes_after = False
        """Whether that happened after a function, which runs later than it is read."""
        self.arguments = arguments
        self.around = env
        self.budget = budget
        self.set: dict[str, str | None] = {}
        self.exported: set[str] = set()
        self.all_exported = False
        self.passed: dict[str, str | None] = {}
        self.is_shared = False
        self.at = 0
        self.parts: list[str] | None = None
        self.unknown = False
        self.is_several = False
        self.vanishing = False
        self.bare = True
        self.words: list[str] = []
        self.mine: dict[str, str | None] = {}
        self.found: list[Command] = []
        self.is_piped = False
        self.is_redirected = False
        self.defines = False
        self.functions = 0
        """How many functions the current command is in: their arguments are unknown."""
        self.has_pattern = False
        self.has_name = False
        """Whether the current word begins as an assignment does, as far as that was asked."""
        self.bare_parts: list[str] = []
        """The current word with each quoted part replaced by a character that no shell expands."""
        self.writes = False
        self.parts_open: list[_Part] = []
        self.chain = _Chain()
        self.succeeds = False

    def commands(self) -> list[Command]:
        text, end = self.text, len(self.text)
        while self.at < end:
            plain = PLAIN.match(text, self.at)
            if plain is not None:
                self.put(plain.group())
                self.at = plain.end()
                continue
            self.special(text[self.at])
        self.close()
        if self.changes_after:
            for start, stop in self.bodies:
                self.doubt_commands(start, stop, FUNCTION_DOUBT)
        for index, command in enumerate(self.found if self.function_names else ()):
            if not self.function_names.isdisjoint(word.rpartition("/")[2] for word in command.words):
                self.doubt_commands(index, index + 1, REDEFINED_DOUBT)
        self.doubt_commands(0, len(self.found), self.doubt)
        return self.found

    def doubt_commands(self, start: int, stop: int, doubt: str) -> None:
        """Add a doubt to the commands that have none."""
        if doubt:
            for index in range(start, min(stop, len(self.found))):
                if not self.found[index].doubt:
                    self.found[index] = replace(self.found[index], doubt=doubt)

    def require_bash(self, construct: str) -> None:
        """Doubt a script with a construct of bash that another shell reads differently."""
        if not self.is_bash:
            self.doubt = self.doubt or f"only bash has {construct}, and the shell may be another one"

    def special(self, character: str) -> None:
        text = self.text
        if character == "\\":
            if text[self.at + 1 : self.at + 2] == "\n":
                self.at += 2
            elif text.startswith("\r\n", self.at + 1):
                self.at += 3
            else:
                self.put(text[self.at + 1 : self.at + 2] or "\\", bare=False)
                self.at += 2
        elif character == "'":
            end = text.find("'", self.at + 1)
            if end < 0:
                raise ShellSyntaxError(f"the quote `'` at character {self.at + 1} is not closed; close it")
            quoted = text[self.at + 1 : end]
            self.put(quoted, bare=False)
            if type(text) is Unknown and ("$" in quoted or "`" in quoted):
                self.unknown = True  # what is around the text replaces a reference in any quotes
            self.at = end + 1
        elif character == '"':
            self.double()
        elif character in "$`":
            self.variable(inside=False)
        elif character == "#":
            if self.parts is None:
                line = text.find("\n", self.at)
                self.at = line if line >= 0 else len(text)
            else:
                self.put("#")
                self.at += 1
        elif (blanks := BLANKS.match(text, self.at)) is not None:
            if "\r" in blanks.group() and self.parts is not None:
                self.has_pattern = True
            self.end_word()
            self.at = blanks.end()
        elif (direction := REDIRECTION.match(text, self.at)) is not None:
            self.redirect(direction.group(), direction.end())
        elif character != "(" or not self.opens():
            self.operator()

    def operator(self) -> None:
        """Read an operator, which ends a command."""
        operator = OPERATORS.match(self.text, self.at)
        found = operator.group() if operator else ""
        is_function = self.names_function(found)
        if is_function:
            self.define("".join(self.parts) if self.parts is not None else self.words[-1])
        if found == "|&":
            self.require_bash("`|&`")
        is_defining = is_function or self.defines
        self.close(found)
        self.defines = is_function or (is_defining and not found.strip("\n"))
        if found in {"&&", "||", "&"}:
            self.join(found)
        for mark in found.replace("()", ""):
            if mark == "(":
                self.enter("f(" if is_defining else "(")
            elif mark == ")":
                self.end_chain()
                self.leave("(")
            elif mark == ";" or (mark == "\n" and not self.chain.is_waiting):
                self.end_chain()
        self.at = operator.end() if operator else self.at + 1

    def opens(self) -> bool:
        """Read an array or a calculation after a bracket; false if the bracket opens a subshell or a function."""
        array = self.array_name()
        if array is not None:
            self.array(*array)
            return True
        is_first = self.parts is None and self.words in ([], ["for"])
        calculation = CALCULATION.match(self.text, self.at) if is_first else None
        if calculation is None or STARTS_VLLM.search(calculation.group()) is not None:
            return False
        if self.defines:
            self.doubt = self.doubt or "the body of a function has no braces"
        self.forget_calculated(calculation.group())
        self.budget.add_word()
        self.words.append("((")
        self.at = calculation.end()
        return True

    def array_name(self) -> tuple[str, bool] | None:
        """The name before `=(` or `+=(`, and whether the elements are appended; None if no array is assigned."""
        if self.parts is None or not self.bare or (self.words and self.words[0] not in DECLARING):
            return None
        found = ARRAY.fullmatch("".join(self.parts))
        return None if found is None else (found.group(1), found.group(2) == "+")

    def array(self, name: str, is_appending: bool) -> None:  # noqa: FBT001  # the groups of a match
        """Read the elements of an array, and set it; elements with an index of their own make it unknown.

        One that starts vLLM counts as a command that cannot be read, in case its use cannot be read.
        """
        start, text = self.at, self.text
        words, mine, self.words, self.mine, self.parts = self.words, self.mine, [""], {}, None
        self.at += 1
        while text[self.at : self.at + 1] != ")":
            plain = PLAIN.match(text, self.at)
            if plain is not None:
                self.put(plain.group())
                self.at = plain.end()
            elif text[self.at : self.at + 1] == "\n":
                self.end_word()
                self.at += 1
            elif self.at == len(text) or text[self.at] in ";&|<>(":
                raise ShellSyntaxError(f"the array at character {start + 1} is not closed; close it with `)`")
            else:
                self.special(text[self.at])
        self.end_word()
        self.at += 1
        elements, self.words, self.mine = self.words[1:], words, mine
        before = self.elements(name, mine) if is_appending else ()
        is_indexed = "-A" in words or any(element.startswith("[") and "]=" in element for element in elements)
        if before is not None:
            self.budget.fill(len(before) + sum(map(len, before)))
        value = None if before is None or is_indexed else Array((*before, *elements))
        written = " ".join([*(before or ()), *elements])
        if STARTS_VLLM.search(written) is not None:
            self.is_shared = True
            self.found.append(Command([Unknown(f"{name}=({written})")], self.passed))
        if words:
            self.give(name, value)
        else:
            mine[name] = value

    def elements(self, name: str, mine: Mapping[str, str | None]) -> tuple[str, ...] | None:
        """The elements of a variable as an array; None if they are not known."""
        for variables in (mine, self.set, self.around):
            if name in variables:
                value = variables[name]
                return value.elements if isinstance(value, Array) else None if value is None else (value,)
        return ()

    def forget_calculated(self, text: str) -> None:
        """Make the variables unknown that arithmetic sets."""
        for found in CALCULATED.finditer(text):
            self.give(found.group(1) or found.group(2), None)

    def names_function(self, operator: str) -> bool:
        """Whether the words before an operator name a function, whose body follows: `f()`, `function f`."""
        count = len(self.words) + (self.parts is not None)
        if self.words[:1] == ["function"]:
            return count == 2 and operator[:1] in {"(", "\n"}  # noqa: PLR2004
        return count == 1 and operator.startswith("()")

    def define(self, name: str) -> None:
        """Count a function that is defined from here on."""
        self.function_names.add(name)
        if self.words[:1] == ["function"]:
            self.require_bash("`function`")
        if name in INTERPRETED:
            self.doubt = self.doubt or f"the script replaces `{name}` with a function"

    def double(self) -> None:
        start, text = self.at, self.text
        self.put("", bare=False)
        self.at += 1
        while self.at < len(text):
            plain = QUOTED.match(text, self.at)
            if plain is not None:
                self.put(plain.group(), bare=False)
                self.at = plain.end()
                continue
            character = text[self.at]
            if character == '"':
                self.at += 1
                return
            if character == "\\":
                escaped = text[self.at + 1 : self.at + 2]
                self.put("" if escaped == "\n" else escaped if escaped in '"\\$`' else "\\" + escaped, bare=False)
                self.at += 2
            else:
                self.variable(inside=True)
        raise ShellSyntaxError(f'the quote `"` at character {start + 1} is not closed; close it')

    def variable(self, *, inside: bool) -> None:
        """Read an expansion: it begins with a dollar or a backtick."""
        text, start = self.text, self.at
        if text[start] == "`":
            self.at = backtick_end(text, start)
            self.fill(text[start : self.at], None, inside=inside)
        elif text.startswith("$(", start):
            end = bracket_end(text, start)
            if text.startswith("$((", start):
                self.forget_calculated(text[start:end])
            is_number = text.startswith("$((", start) and text.endswith("))", start, end)
            self.fill(text[start:end], None, inside=inside or (is_number and "IFS" not in self.set))
            self.at = end
        elif text.startswith("${", start):
            self.at = bracket_end(text, start)
            self.in_braces(text[start : self.at], inside=inside)
        elif (name := NAME.match(text, start + 1)) is not None:
            inside = inside or self.is_one_word(name.group())
            self.fill(text[start : name.end()], self.value(name.group()), inside=inside)
            self.at = name.end()
        elif text[start + 1 : start + 2] in {"@", "*"}:
            self.all_arguments(text[start : start + 2], inside=inside)
            self.at = start + 2
        elif self.functions and text[start + 1 : start + 2].isdecimal() and text[start + 1] != "0":
            self.fill(text[start : start + 2], None, inside=inside)
            self.at = start + 2
        elif text[start + 1 : start + 2] in _SPECIAL:
            nth = int(text[start + 1]) if text[start + 1].isdecimal() else len(self.arguments)
            self.fill(text[start : start + 2], self.argument(nth), inside=inside)
            self.at = start + 2
        elif text.startswith("$[", start) and (end := text.find("]", start)) > 0:
            self.forget_calculated(text[start:end])
            self.fill(text[start : end + 1], None, inside=inside)
            self.at = end + 1
        elif not inside and (ansi_c := ANSI_C.match(text, start)) is not None:
            self.require_bash("`$'…'`")
            self.budget.fill(ansi_c.end() - start)
            self.put(ANSI_C_ESCAPE.sub(_ansi_c, ansi_c.group(1)).partition("\0")[0], bare=False)
            self.at = ansi_c.end()
        elif text[start + 1 : start + 2] in {"'", '"'} and not inside:
            self.require_bash('`$"…"`')
            self.at += 1  # $"…" is translated to the language of the user: here as written
        else:
            self.put("$", bare=False)
            self.at += 1

    def in_braces(self, written: str, *, inside: bool) -> None:
        """Expand `${…}`; what it may set within is unknown."""
        inner = written[2:-1]
        elements = self.selected(inner, inside=inside)
        if elements is not None:
            self.all_words(elements, inside=inside)
            return
        value, is_quoted = self.braced(inner, inside=inside)
        self.fill(written, value, inside=inside or is_quoted or self.is_one_word(inner))
        if value is None:
            self.forget_calculated(inner)
            for found in ASSIGNED_INSIDE.finditer(inner):
                self.give(found.group(1), None)

    def all_arguments(self, written: str, *, inside: bool) -> None:
        """Expand `$@` or `$*`: each argument after `$0` is a word of its own, except in `"$*"`."""
        words = self.arguments[1:]
        is_joined = inside and written == "$*"
        self.budget.copy(len(words) if is_joined else 0)
        if self.functions or (is_joined and (any(map(is_open, words)) or "IFS" in self.set)):
            self.fill(written, None, inside=inside)
        elif is_joined:
            self.fill(written, " ".join(words), inside=True)
        else:
            self.all_words(words, inside=inside)

    def argument(self, index: int) -> str | None:
        """The value of `$1` and so on; None if it is not known."""
        if index >= len(self.arguments) or any(map(is_open, self.arguments[: index + 1])):
            return None
        return self.arguments[index]

    def all_words(self, words: Sequence[str], *, inside: bool) -> None:
        """Expand to several words; outside quotes each of them is split at blanks."""
        self.vanishing = not words
        self.budget.expand_words(len(words))
        for index, word in enumerate(words):
            if index:
                self.end_word()
            if type(word) is Unknown:
                self.fill(word, None, inside=inside and not word.is_several)
            else:
                self.fill(word, word, inside=inside)
                self.has_pattern = self.has_pattern or type(word) is Pattern

    def selected(self, inner: str, *, inside: bool) -> Sequence[str] | None:
        """The elements that `${A[@]}`, `${A[0]}` or `${A[@]:1}` selects; None if it is none of these, or not known."""
        name = NAME.match(inner)
        selection = SELECTION.fullmatch(inner, name.end()) if name is not None else None
        if name is None or selection is None or not (name.group() in self.set or name.group() in self.around):
            return None
        elements = self.elements(name.group(), {})
        if elements is None:
            return None
        which, first = selection.groups()
        if (first or which not in {"@", "*"}) and any(map(is_open, elements)):
            return None
        if which not in {"@", "*"}:
            return elements[int(which) : int(which) + 1] if first is None else None
        chosen = elements[int(first or 0) :]
        if which == "@" or not inside:
            return chosen
        return None if any(map(is_open, chosen)) or "IFS" in self.set else [" ".join(chosen)]

    def braced(self, inner: str, *, inside: bool) -> tuple[str | None, bool]:
        """The value of `${…}`: a name, with or without a default, and whether the value is quoted.

        The value is None if it is not known.
        """
        name = NAME.match(inner)
        if name is None:
            return None, False
        key, value = name.group(), self.value(name.group())
        expansion = EXPANSION.match(inner, name.end())
        if expansion is None:
            return (value if name.end() == len(inner) else None), False
        is_stated = self.is_stated(key)
        other, is_quoted = _default(inner[expansion.end() :], inside=inside)
        operator = expansion["operator"]
        is_given = is_stated and (value != "" or not expansion["colon"])
        if operator == "=" and not is_given:
            other = None if value is None and (is_stated or self.is_nested or SET_BY_OTHERS.fullmatch(key)) else other
            self.give(key, other)
            return other, False
        if is_stated and value is None:
            return None, False
        if operator == "+":
            return (other, is_quoted) if is_given else ("" if is_stated else None, False)
        if is_given or operator == "?":
            return value, False
        if not is_stated and (self.is_nested or SET_BY_OTHERS.fullmatch(key)):
            return None, False
        return other, is_quoted

    def is_stated(self, name: str) -> bool:
        """Whether a variable is known to be set, or was set to an unknown value."""
        return name in self.set or name in self.around or (not self.words and name in self.mine)

    def is_one_word(self, name: str) -> bool:
        """Whether the value of a variable that the text does not set is one word, as who sets it is known."""
        if ONE_WORD.fullmatch(name) is None or name in self.set or name in self.mine or "IFS" in self.set:
            return False
        return name not in self.around or name.startswith("LWS_")  # a manifest cannot set those to unknown values

    def value(self, name: str) -> str | None:
        """The value of a variable, of an array that of its first element; None if it is not known.

        An assignment sees those before it in the same command.
        """
        if not self.words and name in self.mine:
            value = self.mine[name]
        else:
            value = self.set[name] if name in self.set else self.around.get(name)
        if CHANGING.fullmatch(name) is not None:
            return None
        if isinstance(value, Array):
            first = value.elements[0] if value.elements else ""
            return None if is_open(first) else first
        return value

    def is_assigning(self) -> bool:
        """Whether the current word is an assignment: what is expanded in it is not split."""
        if self.parts is None or not self.bare or (self.words and self.words[0] not in DECLARING):
            return False
        if not self.has_name and len(self.parts) <= NAME_PARTS:
            self.has_name = ARRAY.match("".join(self.parts)) is not None
        return self.has_name

    def fill(self, written: str, value: str | None, *, inside: bool) -> None:
        """Insert a variable's value; outside quotes it is split at blanks."""
        inside = inside or self.is_assigning()
        if value is None or (not inside and value and "IFS" in self.set):
            self.put(written, bare=False)
            self.unknown = True
            self.is_several = self.is_several or not inside or "@" in written or written.startswith("${!")
            is_quoted = any(mark in written for mark in "'\"\\")
            if STARTS_VLLM.search(written) or (is_quoted and STARTS_VLLM.search(QUOTES.sub("", written))):
                self.is_shared = True
                self.found.append(Command([Unknown(written)], self.passed))
            return
        self.budget.fill(len(value))
        if inside:
            self.put(value, bare=False)
            return
        pieces = SPLIT.findall(value)
        self.budget.expand_words(len(pieces))
        for index, piece in enumerate(pieces):
            if index or value[0] in " \t\n":
                self.end_word()
            self.put(piece, bare=False)
            self.has_pattern = self.has_pattern or "*" in piece or "?" in piece or has_class(piece)
        if value[-1:] in {" ", "\t", "\n"}:
            self.end_word()

    def put(self, piece: str, *, bare: bool = True) -> None:
        if self.parts is None:
            self.parts, self.bare_parts, self.bare = [], [], bare
            self.unknown = self.is_several = self.has_pattern = self.has_name = False
        self.bare_parts.append(piece if bare else QUOTED_PART)
        self.parts.append(piece)

    def end_word(self) -> None:
        """End a word: an assignment before a command, or one of its words."""
        if self.parts is None:
            return
        word, parts = "".join(self.parts), self.parts
        self.parts = None
        vanishes, self.vanishing = self.vanishing and not word, False
        if vanishes:
            return
        self.budget.add_word()
        bare = "".join(self.bare_parts)
        is_assignment = self.bare and "=" in word  # most words are none, and are matched with no pattern
        if is_assignment and ARRAY.match(word) and (not self.words or self.words[0] in DECLARING):
            has_brace = bool(self.words) and has_braces(bare)
            is_late = len(parts) > NAME_PARTS and ARRAY.match("".join(parts[:NAME_PARTS])) is None
            self.unknown = self.unknown or has_brace or is_late or "=~" in bare or ":~" in bare
            self.has_pattern = False
        else:
            has_brace = "{" in bare and has_braces(bare)
            has_glob = "*" in bare or "?" in bare or ("[" in bare and has_class(bare))
            self.has_pattern = self.has_pattern or has_brace or bare[:1] == "~" or has_glob
            if has_brace and self.is_bash:
                self.unknown = self.is_several = True
        is_first = is_assignment and not self.words
        assignment = ASSIGNMENT.match(word) if is_first else None
        appending = APPENDING.match(word) if is_first else None
        element = ELEMENT.match(word) if is_first else None
        if element is not None:
            self.mine[element.group(1)] = None
        elif assignment is not None:
            self.mine[assignment.group(1)] = None if self.unknown else word[assignment.end() :]
        elif appending is not None:
            self.require_bash("`+=`")
            name = appending.group(1)
            before = self.mine[name] if name in self.mine else self.value(name)
            self.budget.fill(len(before or ""))
            is_unknown = self.unknown or before is None or isinstance(before, Array)
            self.mine[name] = None if is_unknown else f"{before}{word[appending.end() :]}"
        elif self.unknown:
            self.add_word(Unknown(word, is_several=self.is_several or self.has_pattern))
        else:
            self.add_word(Pattern(word) if self.has_pattern else word)

    def add_word(self, word: str) -> None:
        """Add a word of a command."""
        if word == "{" and self.words[:1] == ["function"] and len(self.words) == 2:  # noqa: PLR2004
            self.define(self.words[1])
            self.words, self.defines = [], True
        if self.words or self.mine:
            self.words.append(word)
        else:
            self.first_word(word)

    def first_word(self, word: str) -> None:
        """Read the first word of a command, which may begin or end a conditional part of the script."""
        if self.defines and word in BEGIN:
            self.doubt = self.doubt or "the body of a function has no braces"
        if word in BEGIN or word == "{":
            self.enter(BEGIN.get(word, "{" if self.defines else "group"))
        elif word in END:
            self.leave(END[word])
        self.defines = False
        if word not in OPENERS:
            self.words.append(word)
        elif word == "time":
            self.require_bash("`time`")

    def enter(self, kind: str) -> None:
        """Begin a subshell, or a part that runs conditionally."""
        self.budget.copy(len(self.set))
        exported, start = frozenset(self.exported), len(self.found)
        part = _Part(kind, self.set.copy(), self.passed, self.chain, self.changes, start, exported, self.is_piped)
        self.parts_open.append(part)
        self.chain = _Chain()
        self.is_shared = True
        self.functions += kind in FUNCTIONS

    def leave(self, kind: str) -> None:
        """End it: what a subshell set is dropped, and what a branch, a loop or a function set becomes unknown."""
        if not self.parts_open:
            return
        opened = self.parts_open[-1].kind
        if opened != kind and (opened, kind) not in {("group", "{"), ("f(", "(")}:
            return
        self.functions -= opened in FUNCTIONS
        part = self.parts_open.pop()
        before, self.chain = part.variables, part.chain
        self.chain.is_waiting = False
        if opened == "do" and self.changes != part.changes:
            self.budget.copy(len(self.found) - part.start)
            self.doubt_commands(part.start, len(self.found), LOOP_DOUBT)
        if kind == "(":
            self.set, self.passed, self.is_shared, self.exported = before, part.passed, True, set(part.exported)
        else:
            changed = [name for name, value in self.set.items() if name not in before or before[name] != value]
            self.changed_in_group = changed
            if opened != "group" or part.is_piped:
                self.exported_perhaps |= self.exported - part.exported
                for name in changed:
                    self.give(name, None)
            elif self.chain.is_conditional:
                self.chain.doubtful.extend(changed)
        if opened in FUNCTIONS:
            self.bodies.append((part.start, len(self.found)))

    def join(self, operator: str) -> None:
        """End one command of a chain: its success decides whether the next one runs."""
        chain = self.chain
        if operator == "&":
            self.end_chain()
            return
        if operator == "||" or chain.joiner == "||":
            self.forget_doubtful()
        chain.is_conditional = chain.is_conditional or operator == "||" or not self.succeeds
        chain.joiner, chain.is_waiting = operator, True
        self.succeeds = False

    def end_chain(self) -> None:
        """End the chain: what a part of it set that may not have run becomes unknown."""
        self.forget_doubtful()
        self.chain = _Chain()
        self.succeeds = False

    def forget_doubtful(self) -> None:
        names, self.chain.doubtful = self.chain.doubtful, []
        self.exported_perhaps.update(name for name in names if name in self.exported)
        for name in names:
            self.give(name, None)

    def close(self, operator: str = "") -> None:
        """End a command before an operator.

        A command in a pipeline or in the background sets variables only in a shell of its own.
        """
        self.end_word()
        words, mine = self.words, self.mine
        writes, self.writes = self.writes, False
        if not words and not mine:
            return
        self.words, self.mine = [], {}
        in_case = self.parts_open and self.parts_open[-1].kind == "case"
        if in_case and len(words) == 1 and type(words[0]) is Pattern and operator[:1] in {")", "|"}:
            words = [str(words[0])]  # the pattern of a branch
        self.chain.is_waiting = False
        is_apart = operator in APART or self.is_piped
        if is_apart:
            for name in self.changed_in_group:
                self.give(name, None)
        self.changed_in_group = []
        self.is_piped = operator in PIPES
        if words:
            if words[0] in FORGETTING:
                self.forget_set(words)
            if not is_apart and (words[0] in AFFECTING or words[0] in self.function_names):
                self.read_effects(words, mine)
        self.succeeds = not is_apart and (self.certainly_succeeds(words) if words else None not in mine.values())
        self.succeeds = self.succeeds and not self.is_redirected
        self.is_redirected = False
        if is_apart and (not words or words[0] in DECLARING):
            return
        if not words:
            for name, value in mine.items():
                self.give(name, value)
        elif words[0] in DECLARING:
            self.declare(words)
        elif words[0] == "shift":
            self.change_arguments(words, is_apart=is_apart)
        elif words[0] == "set":
            if not is_apart:
                self.read_set(words)
        elif mine:
            self.budget.copy(len(self.passed) + len(mine))
            self.found.append(Command(words, {**self.passed, **mine}, writes))
        else:
            self.is_shared = True
            self.found.append(Command(words, self.passed, writes))

    def certainly_succeeds(self, words: Sequence[str]) -> bool:
        """Whether a command succeeds: also `set -e`, and `export` of what is certain."""
        if words[0] != "set" and words[0] not in SUCCEEDING and words[0] not in DECLARING:
            return False
        options = [word for word in words[1:] if word[:1] in {"-", "+"}]
        if any(map(is_open, words)) or not set("".join(word[1:] for word in options)) <= SAFE_LETTERS:
            return words[0] in {"true", ":"}
        if words[0] == "set":
            return len(options) + words.count("pipefail") == len(words) - 1
        names = [DECLARED.match(word) for word in words[1:] if word not in options]
        is_declared = all(found is not None and found.group(1) not in self.readonly for found in names)
        return words[0] in SUCCEEDING or (words[0] in DECLARING and words[0] != "local" and is_declared)

    def forget_set(self, words: Sequence[str]) -> None:
        """Make the variables unknown that a command or a loop sets."""
        for name in IMPLIED.get(words[0], ()):
            self.give(name, None)
        has_options = words[1:2] and words[1].startswith("-")
        if words[0] == "let":
            self.forget_calculated(" ".join(words[1:]))
            if any(map(is_open, words)):
                self.doubt = self.doubt or "`let` calculates what is not known"
        elif words[0] in SETTING or (words[0] in {"printf", "wait"} and has_options):
            named = words[1:2] if words[0] in {"for", "select"} else words[1:]
            if any(map(is_open, named[:2] if words[0] in {"printf", "wait"} else named)):
                self.doubt = self.doubt or f"`{words[0]}` sets a variable whose name is not known"
            for word in named:
                if NAME.fullmatch(word) is not None:
                    self.give(word, None)
                elif word.startswith("-") or "[" in word:
                    self.budget.copy(len(self.set) + len(self.around))
                    ends = word.partition("[")[0]
                    for name in [name for name in {*self.set, *self.around} if ends.endswith(name)]:
                        self.give(name, None)

    def read_effects(self, words: Sequence[str], mine: Mapping[str, str | None]) -> None:
        """Forget what a command sets in the running shell, or doubt the script if that is not known."""
        name = words[0]
        if name in self.function_names:
            self.changes_after = self.changes_after or bool(mine)
            self.budget.copy(len(self.function_sets))
            for variable in sorted(self.function_sets):
                self.give(variable, None)
        if name in SPECIAL_BUILTINS:
            for variable in mine:  # they stay set in some shells
                self.give(variable, None)
        doubt = ""
        if name == "eval":
            text = " ".join(words[1:])
            if STARTS_VLLM.search(text) is None or "IFS" in self.set:
                doubt = "`eval` may change what follows"
        elif name in {".", "source"}:
            doubt = f"the file that `{name}` reads may set any variable"
        elif name == "trap":
            is_harmless = len(words) > 1 and self.is_harmless_trap(words[1], words[2:])
            doubt = "" if is_harmless or len(words) == 1 else "`trap` runs other commands"
        elif name in {"alias", "enable", "hash"} and len(words) > 1:
            doubt = f"`{name}` may change which program a name runs"
        elif name == "coproc":
            doubt = "`coproc` sets variables"
        elif name in {"command", "builtin"} and not EFFECTIVE.isdisjoint(words[1:3]):
            doubt = f"what `{name}` runs may change what follows"
        elif name == "shopt" and not SAFE_OPTIONS.issuperset(words[1:]):
            doubt = "`shopt` changes how the script is read"
        self.doubt = self.doubt or doubt

    def is_harmless_trap(self, text: str, signals: Sequence[str]) -> bool:
        """Whether a text that `trap` runs changes no variable and starts no program that is not known."""
        if is_open(text) or not TRAPS.issuperset(signal.upper().removeprefix("SIG") for signal in signals):
            return False
        commands = [part.split() for part in re.split(r"[;&|\n]+", text.replace("$(jobs -p)", ""))]
        names = {words[0] for words in commands if words}
        return (
            "$(" not in text.replace("$(jobs -p)", "")
            and "`" not in text
            and names <= (HARMLESS | (self.function_names if signals else set()))
        )

    def read_set(self, words: list[str]) -> None:
        """Read `set`: its options, and the arguments that it sets."""
        at, is_conditional = 1, bool(self.parts_open) or self.chain.is_conditional
        while at < len(words) and words[at][:1] in {"-", "+"} and words[at] not in {"-", "--"}:
            word, letters = words[at], set(words[at][1:])
            at += 1
            option = ""
            if "o" in letters:
                option = words[at] if at < len(words) else ""
                at += 1
            if is_open(word) or not letters <= SAFE_LETTERS or (option and option not in SAFE_OPTIONS):
                self.doubt = self.doubt or "`set` changes how the script is read"
            if "a" in letters or option == "allexport":
                self.export_all(is_on=word[0] == "-", is_conditional=is_conditional)
        if at < len(words):
            if is_open(words[at]):
                self.doubt = self.doubt or "`set` has options that are not known"
            others = words[at + 1 :] if words[at] in {"-", "--"} else words[at:]
            if others or words[at] != "-":
                self.change_arguments(["set", "--", *others], is_apart=False)

    def export_all(self, *, is_on: bool, is_conditional: bool) -> None:
        """Read `set -a` and `set +a`."""
        if is_conditional:
            self.doubt = self.doubt or "it is not known whether `set -a` runs"
        self.all_exported = is_on
        if is_on:
            self.is_shared = False
            self.budget.copy(len(self.passed))
            self.passed = self.passed.copy()

    def change_arguments(self, words: list[str], *, is_apart: bool) -> None:
        """Read `set -- …` and `shift`. If they may not run, the arguments are unknown afterwards."""
        if is_apart:
            return
        self.budget.copy(len(self.arguments))
        name, *others = self.arguments or ["sh"]
        is_several = any(type(word) is Pattern or getattr(word, "is_several", False) for word in self.arguments)
        if self.parts_open or self.chain.is_conditional or (words[0] == "shift" and is_several):
            self.arguments = [name, Unknown("$@", is_several=True)]
        elif words[0] == "set":
            self.arguments = [name, *words[2:]]
        elif len(words) == 1:
            self.arguments = [name, *others[1:]]
        elif len(words) == 2 and len(words[1]) < len(str(MAX_WORDS)) and words[1].isdecimal():  # noqa: PLR2004
            count = int(words[1])
            self.arguments = [name, *others[count if count <= len(others) else 0 :]]
        else:
            self.arguments = [name, Unknown("$@", is_several=True)]

    def declare(self, words: list[str]) -> None:
        """Read `export A=b` and similar commands."""
        options = [word for word in words[1:] if word[:1] in {"-", "+"}]
        letters = {letter for word in options for letter in word[1:]}
        if words[0] not in {"export", "readonly", "local"}:
            self.require_bash(f"`{words[0]}`")
        if "f" in letters or "F" in letters:
            return
        hides = (words[0] == "export" and "n" in letters) or any(word[0] == "+" and "x" in word for word in options)
        exports = not hides and (words[0] == "export" or "x" in letters)
        if letters & CONVERTING and not (words[0] == "export" and "n" in letters):
            self.doubt = self.doubt or f"the options of `{words[0]}` change the values of variables"
        for word in words[1:]:
            if word[:1] not in {"-", "+"}:
                self.declare_one(word, words[0], exports=exports, hides=hides)
                if (words[0] == "readonly" or "r" in letters) and (found := NAME.match(word)) is not None:
                    self.readonly.add(found.group())
                if words[0] == "local" and not self.functions and (found := NAME.match(word)) is not None:
                    self.give(found.group(), None)  # an error, which sets nothing

    def declare_one(self, word: str, command: str, *, exports: bool, hides: bool) -> None:
        """Read one word after `export` and the like: a name, or an assignment."""
        found = DECLARED.match(word)
        if found is None:
            if is_open(word):
                self.doubt = self.doubt or f"`{command}` sets variables that are not known"
            return
        name, operator = found.groups()
        if operator == "" and found.end() < len(word):
            self.give(name, None)  # an element of an array
            return
        if exports:
            if self.chain.is_conditional and name not in self.exported:
                self.chain.doubtful.append(name)
            self.exported.add(name)
        if operator == "":
            if exports and name in self.set:
                self.give(name, self.set[name])
        elif is_open(word) or word[found.end() :].startswith("("):
            self.give(name, None)
        elif operator == "=":
            self.give(name, word[found.end() :])
        else:
            before = self.value(name)
            self.require_bash("`+=`")
            self.budget.fill(len(before or ""))
            self.give(name, None if before is None else f"{before}{word[found.end() :]}")
        if hides:
            self.give(name, None)
            self.exported.discard(name)

    def give(self, name: str, value: str | None) -> None:
        """Set a variable, for the commands that follow too if it is exported."""
        if isinstance(self.set.get(name), Array) and not isinstance(value, Array):
            value = None  # only the first element is set
        if value is not None or (self.is_stated(name) and self.value(name) is not None):
            self.changes += 1
            self.changes_after = self.changes_after or (bool(self.bodies) and not self.functions)
        if name in self.readonly:
            value = None
        if self.functions:
            self.function_sets.add(name)
        passes = not isinstance(value, Array) and (self.all_exported or name in self.exported or name in self.around)
        is_new = (
            name not in self.set
            or self.set[name] != value
            or (passes and name not in self.passed and name not in self.around)
        )
        if self.chain.is_conditional and value is not None and is_new:
            self.chain.doubtful.append(name)
        self.set[name] = value
        if passes:
            if self.is_shared:
                self.budget.copy(len(self.passed))
                self.passed, self.is_shared = self.passed.copy(), False
            is_certain = name not in self.exported_perhaps or name in self.around
            self.passed[name] = value if is_certain else None

    def redirect(self, operator: str, end: int) -> None:
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
            self.require_bash("`&>`")
        if operator in {"<", ">"} and self.text.startswith("(", end):
            self.doubt = self.doubt or f"`{operator}(…)` is an argument that is not read"
        if self.parts is not None and (stored := STORED.fullmatch("".join(self.parts))) is not None:
            self.give(stored.group(1), None)
        if self.parts is not None and "".join(self.parts).isdecimal() and self.bare:
            is_output = is_output and self.parts == ["1"]
            self.parts = None  # the 2 of 2>&1
        self.end_word()
        self.at = end
        if operator[-1] in "-0123456789" and "&" in operator:
            return
        words, self.words = self.words, [""]
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        while self.at < len(self.text) and not (self.text[self.at].isspace() or self.text[self.at] in ";&|()<>"):
            plain = PLAIN.match(self.text, self.at)
            if plain is not None:
                self.put(plain.group())
                self.at = plain.end()
            else:
                self.special(self.text[self.at])
        file = "".join(self.parts or ())
        if operator.endswith("<<<") and STARTS_VLLM.search(file) is not None:
            self.is_shared = True
            self.found.append(Command([operator, file], self.passed))
        self.writes = self.writes or (is_output and not file.startswith(("/dev/", "/proc/")))
        self.parts = None
        self.words = words


def _default(word: str, *, inside: bool) -> tuple[str | None, bool]:
    """The value of the word in `${A:-word}`, None if it is not certain, and whether it is quoted."""
    found = (DEFAULT_IN_QUOTES if inside else DEFAULT).fullmatch(word)
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
