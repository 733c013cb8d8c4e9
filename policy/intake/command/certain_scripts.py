"""Find constructs in a script that shells may interpret differently from our parser.

A second pass over a script. It names the first construct that is not on an allowlist, so that an unforeseen construct
is never considered certain. Not here: which builtin commands are certain (`certain_builtins`), and what a
script does (`shell`).
"""

from __future__ import annotations

import re
from typing import Final

from policy.intake.command.brackets import backtick_end, bracket_end
from policy.intake.command.certain_builtins import BUILTINS, CHECKS, HARMLESS_BUILTINS, special_variable
from policy.intake.command.command_builder import ASSIGNMENT_START
from policy.intake.command.script_variables import NAME
from policy.intake.command.words import Unknown
from policy.masking import HIDDEN, MIN_VALUE, shown_builtin, shown_command
from policy.messages import quoted

JOINED_LINES: Final = re.compile(r"[^ \t\n](?:\\\n)++[^ \t\n]")
"""Matches a line continuation without adjacent blanks, at which a shell joins a word or an operator."""
BLANKS: Final = re.compile(r"(?:[ \t]|\\\n)++|#[^\n]*+")
"""Matches blanks with adjacent line continuations, or a comment where a word may begin."""
OPERATOR: Final = re.compile(r"&&|\|\||;;|[;\n]|\|(?!&)|&(?![>&])")
JOINERS: Final = frozenset({"&&", "||", "|"})
"""The operators after which a command has to follow."""
REDIRECTION: Final = re.compile(r"(?:[012]?(?:>>|>|<)|&>>?)(?![<>|&(])|[012]?>&[012](?![^ \t\n;|&)])")
HERE_DOCUMENT: Final = re.compile(r"[0-9]?<<(?!<)")
DUPLICATION: Final = re.compile(r"[012]?>&[012]")
BARE_TEXT: Final = re.compile(r"[A-Za-z0-9_@%+=:,./^~*?\[\]{}!-]++")
SIMPLE_PIECES: Final = re.compile(
    r"""(?:[A-Za-z0-9_@%+=:,./^~*?\[\]{}!-]++|'[^'\x00-\x08\x0b-\x1f\x7f]*+'|\\[\x20-\x7e]
        |"(?:[^"\\$`\x00-\x08\x0b-\x1f\x7f]|\\[\x20-\x7e\n])*+")++""",
    re.VERBOSE,
)
"""Matches pieces of a word without expansions: bare characters, quotes, escaped characters."""
DOUBLE_QUOTED_TEXT: Final = re.compile(
    r'(?:[^"\\$`\x00-\x08\x0b-\x1f\x7f]|\\[\x20-\x7e\n]|\$(?![A-Za-z0-9_({?$#@*!\'"-]))++'
)
PARAMETER: Final = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*+|[?$#@*!0-9-])")
BRACES: Final = re.compile(
    r"""\$\{(?:\#?[A-Za-z_][A-Za-z0-9_]*+(?P<element>\[(?:[@*]|[0-9]{1,4})\])?
        (?:
            :?[-+?](?:[^'"\\$`{}\x00-\x08\x0b-\x1f\x7f]*+|"[^"\\$`\x00-\x08\x0b-\x1f\x7f]*+"|'[^'\x00-\x08\x0b-\x1f\x7f]*+')
            |[%\#]{1,2}[A-Za-z0-9_./*?:@, -]*+
            |(?P<bash>(?://?|\^\^?|,,?)[A-Za-z0-9_./*?:@, -]*+|:[0-9]{1,4}(?::[0-9]{1,4})?)
        )?|[0-9@*\#])\}""",
    re.VERBOSE,
)
"""Matches `${A}` and forms that select from or replace its value, without assignments or arithmetic with variables."""
ARITHMETIC: Final = re.compile(r"\$\(\((?:[0-9 +*/%-]++|\([0-9 +*/%-]*+\))*+\)\)")
ANSI_C: Final = re.compile(r"\$'(?:[^'\\\x00-\x08\x0b-\x1f\x7f]|\\[abfnrtv\\'\"?])*+'")
"""Matches `$'…'` with ANSI C escapes."""
CONDITIONS: Final = frozenset({"if", "elif", "while", "until"})
WORDS_BEFORE_COMMANDS: Final = CONDITIONS | {"then", "else", "do", "{"}
CLOSING_WORDS: Final = frozenset({"fi", "done", "}"})
PREDECESSORS: Final[dict[str, frozenset[str]]] = {
    "then": frozenset({"if", "elif"}),
    "elif": frozenset({"then"}),
    "else": frozenset({"then"}),
    "do": frozenset({"while", "until", "for"}),
    "fi": frozenset({"then", "else"}),
    "done": frozenset({"do"}),
    "}": frozenset({"{"}),
}
"""The reserved words that may follow only these words in the same compound command."""
UNSUPPORTED_WORDS: Final = frozenset({"!", "[[", "case", "coproc", "esac", "function", "select", "time"})
"""Reserved words whose commands are not certain; `!` is allowed in a condition, whose branches are conditional."""
RESERVED_WORDS: Final = BUILTINS | WORDS_BEFORE_COMMANDS | CLOSING_WORDS | UNSUPPORTED_WORDS | {"for"}
"""The first words of commands that are not programs."""
COMMAND: Final = rf"""[ \t\n]*+(?!(?:{"|".join(map(re.escape, sorted(RESERVED_WORDS)))})(?![A-Za-z0-9_./-]))
    [A-Za-z0-9_./-]++(?:[ \t]++[A-Za-z0-9_@%+=:,./^-]++)*+[ \t]*+"""
LISTS: Final = re.compile(rf"(?:{COMMAND}(?:(?:&&|\|\||\|(?!&)){COMMAND})*+(?:[;\n]|\Z))++", re.VERBOSE)
"""Matches complete lists of commands without quotes, expansions and reserved words.

Saves four of five calls for a script of short commands.
"""
MAX_SHOWN: Final = 40
EXPANSION_START: Final = re.compile(r"""\$(?:\{[#!]?\w{0,36}|\(\(|[\['"])?""")
"""Matches the beginning of an expansion, with the variable's name."""
CLOSINGS: Final = {"${": "}", "$((": "))", "$[": "]", '$"': '"'}
"""The end of an expansion, by its beginning."""
SHELL_SETTERS: Final = frozenset({"cd", "export", "set", "shift", "unset"})
"""Builtins that change the shell, unless a redirection fails."""
ASSIGNMENT: Final = "A=b"
"""Stands for an assignment among the commands of `STATE_COMMANDS`."""
VARIABLE_COMMANDS: Final = frozenset({ASSIGNMENT, "export", "unset"})
ARGUMENT_COMMANDS: Final = frozenset({"set", "shift"})
END_COMMANDS: Final = frozenset({"exec", "exit", "trap"})
STATE_COMMANDS: Final = VARIABLE_COMMANDS | ARGUMENT_COMMANDS | END_COMMANDS
"""The commands that change what a later command of the same shell gets, or whether there is one.

They are certain only where they certainly run in the script's own shell, or, for variables, in a branch of `if`.
"""
UNCERTAIN_LISTS: Final = {
    "|": VARIABLE_COMMANDS | ARGUMENT_COMMANDS,
    "||": VARIABLE_COMMANDS | ARGUMENT_COMMANDS,
    "&": STATE_COMMANDS,
}
"""The commands that are not certain in a list with an operator: they may run in a subshell, or may not run."""
BRANCHES: Final = frozenset({"then", "else"})


def uncertain_construct(text: str, *, is_bash: bool) -> str:
    """The first construct of a script that a shell may interpret differently; empty if there is none.

    Without `is_bash` it may be any shell.

    Raises:
        ShellSyntaxError: a quote or a bracket is not closed.
    """
    if type(text) is Unknown:
        return "a value that is not known and replaces a part of it before the shell reads it"
    if JOINED_LINES.search(text) is not None:
        return "a line continuation without a blank beside it"
    return _ScriptScanner(text, is_bash=is_bash).construct()


def _shown_expansion(text: str) -> str:
    """The beginning of a text up to the end of its expansion, or its opening if the rest may be a secret."""
    opening = EXPANSION_START.match(text)
    assert opening is not None  # INVARIANT: an expansion begins with a dollar
    kind = next((kind for kind in CLOSINGS if opening.group().startswith(kind)), "")
    rest, closing, _ = text[opening.end() :].partition(CLOSINGS[kind]) if kind else (text[opening.end() :], "", "")
    return opening.group() + (f"{rest}{closing}" if len(rest) < MIN_VALUE else HIDDEN)


class _ScriptScanner:
    """Scans a script in one pass, up to the first uncertain construct; `at` is the current position."""

    def __init__(self, text: str, *, is_bash: bool) -> None:
        self.text = text
        self.is_bash = is_bash
        self.at = 0
        self.words: list[str] = []
        """The words of the current command as written, without the assignments before them."""
        self.assigns = False
        self.arrays: set[str] = set()
        self.is_redirected = False
        self.opener = ""
        """The reserved word right before the current command."""
        self.is_closed = False
        """Whether the current command ends with `fi`, `done` or `}`."""
        self.blocks: list[str] = []
        """The last reserved word of each compound command that is not closed, the innermost last."""
        self.needs_command = ""
        """The reserved word or operator after which a command has to follow."""
        self.outside_branches = 0
        """The number of ``blocks`` that are not a branch of `if`."""
        self.operators: set[str] = set()
        """The operators of the current list; `;`, `&` or a line break ends it."""
        self.state: set[str] = set()
        """The commands of `STATE_COMMANDS` in the current list, also in its compound commands."""
        self.outer: list[tuple[set[str], set[str]]] = []
        """The ``operators`` and ``state`` of the list of each compound command that is not closed."""
        self.inner: list[set[str]] = []
        """The commands of `STATE_COMMANDS` in the lists of each compound command that is not closed."""

    def construct(self) -> str:
        """The first uncertain construct; empty if there is none."""
        text = self.text
        while self.at < len(text):
            is_between = not (self.words or self.assigns or self.is_redirected or self.is_closed)
            # not at blanks: a list that does not follow would be looked for after each of a run of them
            is_list = is_between and not (self.operators or self.state) and text[self.at] not in " \t\n"
            if is_list and (match := LISTS.match(text, self.at)) is not None:
                self.needs_command = ""
                if self.blocks[-1:] == ["for"]:
                    return "`for` without `do`"
                self.at, self.opener = match.end(), ""
            elif (match := BLANKS.match(text, self.at)) is not None:
                self.at = match.end()
            elif (match := OPERATOR.match(text, self.at)) is not None:
                if found := self._read_operator(match.group(), is_empty=is_between):
                    return found
                self.at = match.end()
            elif (match := REDIRECTION.match(text, self.at)) is not None:
                if found := self._read_redirection(match):
                    return found
            elif HERE_DOCUMENT.match(text, self.at) is not None:
                return "a here-document"
            elif found := self._read_word():
                return found
        if found := self._end_command() or self._end_list(""):
            return found
        if self.blocks or self.needs_command:
            return f"`{(self.blocks or [self.needs_command])[-1]}` whose end is missing"
        return ""

    def _read_operator(self, operator: str, *, is_empty: bool) -> str:
        """Read an operator between commands; returns the uncertain construct before it, or itself, if any."""
        if operator == "\n" and self.needs_command:
            self.opener = ""
            return self._end_command()
        if operator == "\n" and is_empty:
            is_empty, self.opener = False, ""
        elif is_empty or self.needs_command or operator == ";;":
            return f"`{operator}` without a command before it"
        if found := self._end_command():
            return found
        if operator in JOINERS:
            self.needs_command = operator
            return self._join(operator)
        return self._end_list(operator)

    def _join(self, operator: str) -> str:
        """Note an operator within a list; returns the uncertain construct that it makes, if any."""
        self.operators.add(operator)
        return self._uncertain_state()

    def _uncertain_state(self) -> str:
        """A command of the current list that may run in a subshell, or may not run, if there is one."""
        for operator, commands in UNCERTAIN_LISTS.items():
            if operator in self.operators and not self.state.isdisjoint(commands):
                return f"`{min(self.state & commands)}` in a list with `{operator}`"
        return ""

    def _end_list(self, operator: str) -> str:
        """End the current list; returns the uncertain construct in it, if any."""
        if operator == "&":
            self.operators.add(operator)
        if found := self._uncertain_state():
            return found
        if self.inner:
            self.inner[-1] |= self.state
        self.operators, self.state = set(), set()
        return ""

    def _change(self, command: str) -> str:
        """Note a command of `STATE_COMMANDS`; returns why it is uncertain, if it is."""
        if command in VARIABLE_COMMANDS or command == "exec":
            block = next((word for word in self.blocks if word not in BRANCHES), "") if self.outside_branches else ""
        else:
            block = "" if command in END_COMMANDS or not self.blocks else self.blocks[-1]
        if block:
            return f"`{command}` after `{block}`"
        if command in ARGUMENT_COMMANDS and "&&" in self.operators:
            return f"`{command}` after `&&`"
        self.state.add(command)
        return self._uncertain_state()

    def _read_word(self) -> str:
        """Read a word; returns the uncertain construct in it, if any."""
        start, text = self.at, self.text
        first = BARE_TEXT.match(text, start)
        if found := self._skip_pieces():
            return found
        word = text[start : self.at]
        if text.startswith(("<", ">"), self.at) and (word.isdecimal() or word.endswith("}")):
            return f"a redirection right after {quoted(word)}"
        if text.startswith("(", self.at):
            return self._read_array(word)
        if self.is_closed:
            return f"{quoted(word)} after the end of a compound command"
        if not self.words:
            is_bare = first is not None and first.end() == self.at
            if is_bare and not self.assigns and (found := self._read_reserved(word)):
                return found
            if not is_bare:
                self.needs_command = ""
            return self._read_first_word(word, is_bare=is_bare)
        self.words.append(word)
        return ""

    def _read_reserved(self, word: str) -> str:
        """Read a word that may be reserved; returns why a shell refuses it there, if it does."""
        blocks, opened = self.blocks, PREDECESSORS.get(word)
        if opened is not None:
            if not blocks or blocks[-1] not in opened or self.needs_command:
                return f"`{word}`, which a shell does not expect there"
            self.outside_branches -= blocks.pop() not in BRANCHES
            if word in CLOSING_WORDS:
                inner = self.inner.pop()
                self.operators, self.state = self.outer.pop()
                self.state |= inner
        elif blocks[-1:] == ["for"]:
            return "`for` without `do`"
        self.needs_command = ""
        if word in WORDS_BEFORE_COMMANDS or word == "for":
            blocks.append(word)
            self.outside_branches += word not in BRANCHES
            self.needs_command = "" if word == "for" else word
            if opened is None:
                self.outer.append((self.operators, self.state))
                self.inner.append(set())
                self.operators, self.state = set(), set()
        return self._uncertain_state()

    def _read_first_word(self, word: str, *, is_bare: bool) -> str:
        """Read the first word of a command; returns what is uncertain about it, if anything."""
        if (assignment := ASSIGNMENT_START.match(word)) is not None:
            self.assigns = True
            if assignment.group(2) and not self.is_bash:
                return "`+=`, which only bash has"
            return special_variable(assignment.group(1))
        if (
            is_bare
            and not self.assigns
            and (word in WORDS_BEFORE_COMMANDS or (word == "!" and self.opener in CONDITIONS))
        ):
            self.opener = word
            return ""
        if is_bare and word in CLOSING_WORDS and not self.assigns:
            self.is_closed = True
            return ""
        if word in UNSUPPORTED_WORDS:
            return f"`{word}`"
        if "=" in word or (not is_bare and "/" not in word):
            shown = shown_command([word])  # it may give a secret to an element: `CFG[token]=…`
            return f"the command {quoted(shown)}, whose name depends on quotes or values"
        self.words.append(word)
        return ""

    def _skip_pieces(self) -> str:
        """Skip the pieces of a word; returns the uncertain construct among them, if any."""
        text, start = self.text, self.at
        while self.at < len(text):
            character = text[self.at]
            if (match := SIMPLE_PIECES.match(text, self.at)) is not None:
                self.at = match.end()
            elif character == "#" and self.at > start:
                self.at += 1
            elif character == '"':
                if found := self._read_double_quotes():
                    return found
            elif character in "$`":
                if found := self._read_expansion():
                    return found
            else:
                break
        return "" if self.at > start else f"the character {quoted(text[start])} at character {start + 1}"

    def _read_double_quotes(self) -> str:
        text, start = self.text, self.at
        self.at += 1
        while not text.startswith('"', self.at):
            if (match := DOUBLE_QUOTED_TEXT.match(text, self.at)) is not None:
                self.at = match.end()
            elif text.startswith(("$", "`"), self.at):
                if found := self._read_expansion():
                    return found
            else:
                return f"the text in double quotes at character {start + 1}"
        self.at += 1
        return ""

    def _read_expansion(self) -> str:
        text, start = self.text, self.at
        for pattern in (PARAMETER, BRACES, ARITHMETIC):
            if (match := pattern.match(text, start)) is not None:
                self.at = match.end()
                if self.arrays and self._is_of_array(match.group()):
                    return f"{quoted(match.group())} of an array"
                is_of_bash = pattern is BRACES and (match["bash"] or match["element"])
                if is_of_bash and match["element"] and self.is_bash and not self._is_element(match):
                    return f"the expansion {quoted(_shown_expansion(match.group()))}"
                return (
                    f"{quoted(_shown_expansion(match.group()))}, which only bash has"
                    if is_of_bash and not self.is_bash
                    else ""
                )
        if (match := ANSI_C.match(text, start)) is not None:
            self.at = match.end()
            return "" if self.is_bash else "`$'…'`, which only bash has"
        if text.startswith("$((", start) or not text.startswith(("$(", "`"), start):
            return f"the expansion {quoted(_shown_expansion(text[start : start + MAX_SHOWN]))}"
        self.at = backtick_end(text, start) if text[start] == "`" else bracket_end(text, start)
        return ""

    def _is_of_array(self, expansion: str) -> bool:
        """Whether an expansion names an array without selecting its elements."""
        name = NAME.search(expansion)
        return name is not None and name.group() in self.arrays and not expansion.startswith("[", name.end())

    def _is_element(self, match: re.Match[str]) -> bool:
        """Whether an expansion selects elements of what is certainly an array, and nothing else."""
        name = NAME.search(match.group())
        return name is not None and name.group() in self.arrays and match.group().endswith("]}")

    def _read_array(self, word: str) -> str:
        """Read `A=(…)`; returns what is uncertain about it, such as an element with an index or a command."""
        text, assignment = self.text, ASSIGNMENT_START.fullmatch(word)
        if assignment is None or self.words:
            return f"the bracket after {quoted(word)}"
        if not self.is_bash:
            return "an array, which only bash has"
        self.assigns, self.needs_command = True, ""
        self.arrays.add(assignment.group(1))
        self.at += 1
        while not text.startswith(")", self.at):
            if (match := BLANKS.match(text, self.at)) is not None:
                self.at = match.end()
            elif text.startswith("\n", self.at):
                self.at += 1
            else:
                start = self.at
                if found := self._skip_pieces() if self.at < len(text) else "an array that is not closed":
                    return found
                element = text[start : self.at]
                if element.startswith("[") or "$(" in element or "`" in element:
                    return f"the element {quoted(shown_command([element]))} of an array"
        self.at += 1
        return special_variable(assignment.group(1))

    def _read_redirection(self, match: re.Match[str]) -> str:
        """Read a redirection with its file; returns what is uncertain about it, if anything."""
        if self.is_closed:
            return "a redirection of a compound command"
        if match.group().startswith("&") and not self.is_bash:
            return "`&>`, which only bash has"
        self.is_redirected = True
        self.needs_command = ""
        self.at = match.end()
        if DUPLICATION.fullmatch(match.group()) is not None:
            return ""
        if (blanks := BLANKS.match(self.text, self.at)) is not None:
            self.at = blanks.end()
        return self._skip_pieces() if self.at < len(self.text) else "a redirection without a file"

    def _end_command(self) -> str:
        """End the current command; returns what is uncertain about it, if anything."""
        words, assigns, is_redirected = self.words, self.assigns, self.is_redirected
        self.words, self.assigns, self.is_redirected = [], False, False
        self.opener, self.is_closed = "", False
        if not words:
            if is_redirected:
                return "a redirection without a command"
            return self._change(ASSIGNMENT) if assigns else ""
        name = words[0]
        if name == "for":
            return special_variable(words[1]) if len(words) > 1 and NAME.fullmatch(words[1]) else "`for` without a name"
        if name not in BUILTINS:
            return ""
        if assigns and name != "exec":
            return f"a variable before `{name}`"
        if is_redirected and name in SHELL_SETTERS:
            return f"a redirection of `{name}`"
        check = CHECKS.get(name)
        is_certain = name in HARMLESS_BUILTINS if check is None else check(words)
        if not is_certain:
            return f"the command {quoted(shown_builtin(words))}"
        return self._change(name) if name in STATE_COMMANDS else ""
