"""Split a shell's text into commands and words, with the variables that the text itself sets. Nothing is run.

Handles quotes, line continuations, comments, variables and the separators of commands. Not here: which of the commands
starts vLLM (`launcher`). A word whose value only a running shell knows stays as written and is an `Unknown`.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct

from policy.intake.command.expansion import MAX_WORDS, ExpansionBudget, ShellSyntaxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_TEXT: Final = 1_000_000
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
APPENDING: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+=")
STARTS_VLLM: Final = re.compile(
    r"""(?<![\w.-])vllm["']?[^\S\n]{1,64}(?:\\\n[^\S\n]{0,64})?["']?(?:serve(?![\w.-])|\$)"""
    r"""|vllm\.entrypoints\.|dynamo\.vllm(?!\w)"""
)
"""Matches a text that may start vLLM's server, whichever program reads the text."""
PLAIN: Final = re.compile(r"[^\s'\"\\$`;&|<>()#]+")
OPERATORS: Final = re.compile(r"[;\n()]+|&&|\|\||\|&|[&|]")
BLANKS: Final = re.compile(r"[^\S\n]+")
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
BRACKETS: Final = {"(": re.compile(r"[()]"), "{": re.compile(r"[{}]")}
REDIRECTION: Final = re.compile(r"[0-9]*(?:<<<|<<-?|>>|<>|>\||[<>]&?|&>>?)[-0-9]*")
QUOTED: Final = re.compile(r'[^"\\$`]+')
KUBERNETES_REFERENCE: Final = re.compile(r"\$\$|\$\(([-A-Za-z_][-A-Za-z0-9_.]*)\)")
"""``$(NAME)``, which Kubernetes expands, or ``$$``, its escape."""
_SPECIAL: Final = frozenset("#?$!-0123456789")
ANSI_C: Final = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
"""Matches `$'…'`, in which bash reads escapes as C does."""
ANSI_C_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.))", re.DOTALL
)
ANSI_C_LETTERS: Final = {
    **dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True)),
    **{each: each for each in "\\'\"?"},
}
QUOTES: Final = re.compile(r"""['"]|\\(?!\n)""")
PIPES: Final = frozenset({"|", "|&"})
APART: Final = PIPES | {"&"}
SETTING: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "for", "select"})
"""Commands and loops that set or unset the variables that they name to a value that is not known here."""
DECLARING: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
SUCCEEDING: Final = DECLARING | {"true", ":", "set", "echo", "printf", "umask", "shift"}
"""Commands that succeed, so that what follows after `&&` runs."""
BEGIN: Final = {"if": "if", "while": "do", "until": "do", "for": "do", "case": "case"}
END: Final = {"fi": "if", "done": "do", "esac": "case", "}": "{"}
"""The words between which a part of a script runs conditionally, repeatedly, or not at all."""
FUNCTIONS: Final = frozenset({"{", "f("})
"""The kinds of parts that are the body of a function: in braces, or in a subshell."""
OPENERS: Final = frozenset({"then", "do", "else", "{", "!", "time", "if", "while", "until", "elif"})


class Unknown(str):
    """A word as written whose value only a running shell knows."""

    __slots__ = ()


class Array(str):
    """A variable that is an array: the text identifies its elements, which are words."""

    __slots__ = ("elements",)

    elements: tuple[str, ...]

    def __new__(cls, elements: Sequence[str]) -> Self:
        """The array of these words."""
        found = super().__new__(cls, "\0".join(elements))
        found.elements = tuple(elements)
        return found


class Pattern(str):
    """A word with a glob or braces outside quotes, which a shell expands, as written."""

    __slots__ = ()


class _Chain(Struct, gc=False):
    """Commands joined by `&&` and `||`, of which the later ones may not run.

    ``joiner`` is the operator before the current command. ``doubtful`` has the variables set by a command that may not
    run.
    """

    joiner: str = ""
    is_waiting: bool = False
    is_conditional: bool = False
    doubtful: list[str] = []


class Command(Struct, frozen=True, gc=False):
    """One simple command: its words without the assignments before it, and its variables.

    Commands share ``env`` if nothing is set between them, so it must not be changed. ``writes`` says that its output
    goes to a file.
    """

    words: list[str]
    env: dict[str, str | None]
    writes: bool = False


def split(
    text: str, env: Mapping[str, str | None], arguments: Sequence[str] = (), budget: ExpansionBudget | None = None
) -> list[Command]:
    """The commands of a text, in order.

    `env` has the variables around the text; one that is set to an unknown value is None. `arguments` are `$0`, `$1` ….
    A text that is part of a larger one shares its `budget`. If the text is an Unknown, what is around it replaces a
    part of it before any shell reads it, within single quotes too.

    `A=b` sets a variable for the rest of the text, `export A=b` for its commands too, and `A=b command` for that
    command alone. A Command's `env` has only the variables that the text itself sets for it.

    `$A`, `${A}`, `${A:-b}`, `${A-b}`, `${A:=b}`, `${A:+b}` and `${A+b}` are expanded, and split at blanks outside
    quotes, as in a shell. A name that is not set, `$(…)`, `` `…` `` and any other `${…}` give an Unknown.

    Raises:
        ShellSyntaxError: a quote, a bracket or a here-document does not end, or there are too many words or values.
    """
    if len(text) > MAX_TEXT:
        raise ShellSyntaxError(f"the text has {len(text)} characters, and at most {MAX_TEXT} are read")
    return _ShellReader(text, env, arguments, budget or ExpansionBudget()).commands()


class _ShellReader:
    """Reads the text in one pass; `parts` is the current word, None between words."""

    def __init__(
        self, text: str, env: Mapping[str, str | None], arguments: Sequence[str], budget: ExpansionBudget
    ) -> None:
        self.text = text
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
        self.vanishing = False
        self.bare = True
        self.words: list[str] = []
        self.mine: dict[str, str | None] = {}
        self.found: list[Command] = []
        self.is_piped = False
        self.defines = False
        self.functions = 0
        """How many functions the current command is in: their arguments are unknown."""
        self.has_pattern = False
        self.writes = False
        self.parts_open: list[tuple[str, dict[str, str | None], dict[str, str | None], _Chain]] = []
        """The parts of the script that are open, each with the variables and the chain before it."""
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
        return self.found

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
        calculation = CALCULATION.match(self.text, self.at) if self.parts is None and not self.words else None
        if calculation is None or STARTS_VLLM.search(calculation.group()) is not None:
            return False
        self.forget_calculated(calculation.group())
        self.budget.add_word()
        self.words = ["(("]
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
            end = text.find("`", start + 1)
            if end < 0:
                raise ShellSyntaxError(f"the backtick at character {start + 1} is not closed; close it")
            self.fill(text[start : end + 1], None, inside=inside)
            self.at = end + 1
        elif text.startswith("$(", start):
            end = self.bracket(start + 1, "(", ")")
            if text.startswith("$((", start):
                self.forget_calculated(text[start:end])
            self.fill(text[start:end], None, inside=inside)
            self.at = end
        elif text.startswith("${", start):
            end = self.bracket(start + 1, "{", "}")
            elements = self.selected(text[start + 2 : end - 1], inside=inside)
            if elements is None:
                self.fill(text[start:end], self.braced(text[start + 2 : end - 1]), inside=inside)
            else:
                self.all_words(elements, inside=inside)
            self.at = end
        elif (name := NAME.match(text, start + 1)) is not None:
            self.fill(text[start : name.end()], self.value(name.group()), inside=inside)
            self.at = name.end()
        elif text[start + 1 : start + 2] in {"@", "*"}:
            if self.functions:
                self.fill(text[start : start + 2], None, inside=inside)
            else:
                self.all_arguments()
            self.at = start + 2
        elif self.functions and text[start + 1 : start + 2].isdecimal() and text[start + 1] != "0":
            self.fill(text[start : start + 2], None, inside=inside)
            self.at = start + 2
        elif text[start + 1 : start + 2] in _SPECIAL:
            nth = int(text[start + 1]) if text[start + 1].isdecimal() else len(self.arguments)
            self.fill(
                text[start : start + 2], self.arguments[nth] if nth < len(self.arguments) else None, inside=inside
            )
            self.at = start + 2
        elif not inside and (ansi_c := ANSI_C.match(text, start)) is not None:
            self.budget.fill(ansi_c.end() - start)
            self.put(ANSI_C_ESCAPE.sub(_ansi_c, ansi_c.group(1)).partition("\0")[0], bare=False)
            self.at = ansi_c.end()
        elif text[start + 1 : start + 2] in {"'", '"'} and not inside:
            self.at += 1  # $"…" is translated to the language of the user: here as written
        else:
            self.put("$", bare=False)
            self.at += 1

    def all_arguments(self) -> None:
        """Expand `$@`: each argument after `$0` is a word of its own."""
        self.all_words(self.arguments[1:], inside=True)

    def all_words(self, words: Sequence[str], *, inside: bool) -> None:
        """Expand to several words; outside quotes each of them is split at blanks."""
        self.vanishing = not words
        self.budget.expand_words(len(words))
        for index, word in enumerate(words):
            if index:
                self.end_word()
            self.fill(word, None if type(word) is Unknown else word, inside=inside)

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
        if which not in {"@", "*"}:
            return elements[int(which) : int(which) + 1] if first is None else None
        chosen = elements[int(first or 0) :]
        if which == "@" or not inside or not chosen:
            return chosen
        return None if any(type(each) is Unknown for each in chosen) else [" ".join(chosen)]

    def bracket(self, start: int, opens: str, closes: str) -> int:
        depth = 0
        for found in BRACKETS[opens].finditer(self.text, start):
            depth += -1 if found.group() == closes else 1
            if not depth:
                return found.end()
        raise ShellSyntaxError(f"the bracket `{opens}` at character {start + 1} is not closed; close it")

    def braced(self, inner: str) -> str | None:
        """The value of `${…}`: a name, with or without a default; None if it is not known."""
        name = NAME.match(inner)
        if name is None:
            return None
        rest, key = inner[name.end() :], name.group()
        value, stated = self.value(key), key in self.set or key in self.around
        if not rest:
            return value
        either = rest.lstrip(":")[:1]
        other = rest.lstrip(":")[1:].strip("\"'")
        if either not in ("-", "=", "+", "?") or len(rest) - len(rest.lstrip(":")) > 1 or (stated and value is None):
            return None
        given = stated and (value != "" or not rest.startswith(":"))
        chosen: str | None = other
        if either == "+":
            chosen = other if given else ""
        elif given or either == "?":
            chosen = value
        found = None if chosen is None or (chosen is other and re.search(r"[$`\\]", chosen)) else chosen
        if either == "=" and not given:
            self.give(key, found)
        return found

    def value(self, name: str) -> str | None:
        """The value of a variable, of an array that of its first element; None if it is not known."""
        value = self.set[name] if name in self.set else self.around.get(name)
        if isinstance(value, Array):
            first = value.elements[0] if value.elements else ""
            return None if type(first) is Unknown else first
        return value

    def fill(self, written: str, value: str | None, *, inside: bool) -> None:
        """Insert a variable's value; outside quotes it is split at blanks."""
        if value is None:
            self.put(written, bare=False)
            self.unknown = True
            is_quoted = any(mark in written for mark in "'\"\\")
            if STARTS_VLLM.search(written) or (is_quoted and STARTS_VLLM.search(QUOTES.sub("", written))):
                self.is_shared = True
                self.found.append(Command([Unknown(written)], self.passed))
            return
        self.budget.fill(len(value))
        if inside:
            self.put(value, bare=False)
            return
        pieces = value.split()
        self.budget.expand_words(len(pieces))
        for index, piece in enumerate(pieces):
            if index or value[:1].isspace():
                self.end_word()
            self.put(piece, bare=False)
        if value[-1:].isspace():
            self.end_word()

    def put(self, piece: str, *, bare: bool = True) -> None:
        if self.parts is None:
            self.parts, self.bare, self.unknown, self.has_pattern = [], bare, False, False
        self.has_pattern = self.has_pattern or (bare and _has_pattern(piece))
        self.parts.append(piece)

    def end_word(self) -> None:
        """End a word: an assignment before a command, or one of its words."""
        if self.parts is None:
            return
        word = "".join(self.parts)
        self.parts = None
        vanishes, self.vanishing = self.vanishing and not word, False
        if vanishes:
            return
        self.budget.add_word()
        is_first = self.bare and not self.words
        assignment = ASSIGNMENT.match(word) if is_first else None
        appending = APPENDING.match(word) if is_first else None
        element = ELEMENT.match(word) if is_first else None
        if element is not None:
            self.mine[element.group(1)] = None
        elif assignment is not None:
            self.mine[assignment.group(1)] = None if self.unknown else word[assignment.end() :]
        elif appending is not None:
            name = appending.group(1)
            before = self.mine[name] if name in self.mine else self.value(name)
            self.budget.fill(len(before or ""))
            is_unknown = self.unknown or before is None or isinstance(before, Array)
            self.mine[name] = None if is_unknown else f"{before}{word[appending.end() :]}"
        else:
            self.add_word(Unknown(word) if self.unknown else Pattern(word) if self.has_pattern else word)

    def add_word(self, word: str) -> None:
        """Add a word of a command."""
        if word == "{" and self.words[:1] == ["function"] and len(self.words) == 2:  # noqa: PLR2004
            self.words, self.defines = [], True
        if self.words or self.mine:
            self.words.append(word)
        else:
            self.first_word(word)

    def first_word(self, word: str) -> None:
        """Read the first word of a command, which may begin or end a conditional part of the script."""
        if word in BEGIN or word == "{":
            self.enter(BEGIN.get(word, "{" if self.defines else "group"))
        elif word in END:
            self.leave(END[word])
        self.defines = False
        if word not in OPENERS:
            self.words.append(word)

    def enter(self, kind: str) -> None:
        """Begin a subshell, or a part that runs conditionally."""
        self.budget.copy(len(self.set))
        self.parts_open.append((kind, self.set.copy(), self.passed, self.chain))
        self.chain = _Chain()
        self.is_shared = True
        self.functions += kind in FUNCTIONS

    def leave(self, kind: str) -> None:
        """End it: what a subshell set is dropped, and what a branch, a loop or a function set becomes unknown."""
        if not self.parts_open:
            return
        opened = self.parts_open[-1][0]
        if opened != kind and (opened, kind) not in {("group", "{"), ("f(", "(")}:
            return
        self.functions -= opened in FUNCTIONS
        _, before, passed, self.chain = self.parts_open.pop()
        self.chain.is_waiting = False
        if kind == "(":
            self.set, self.passed, self.is_shared = before, passed, True
            return
        changed = [name for name, value in self.set.items() if name not in before or before[name] != value]
        if opened != "group":
            for name in changed:
                self.give(name, None)
        elif self.chain.is_conditional:
            self.chain.doubtful.extend(changed)

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
        in_case = self.parts_open and self.parts_open[-1][0] == "case"
        if in_case and len(words) == 1 and type(words[0]) is Pattern and operator[:1] in {")", "|"}:
            words = [str(words[0])]  # the pattern of a branch
        self.chain.is_waiting = False
        is_apart = operator in APART or self.is_piped
        self.is_piped = operator in PIPES
        if words and not is_apart:
            self.forget_set(words)
        self.succeeds = not is_apart and (words[0] in SUCCEEDING if words else None not in mine.values())
        if is_apart and (not words or words[0] in DECLARING):
            return
        if not words:
            for name, value in mine.items():
                self.give(name, value)
        elif words[0] in DECLARING:
            self.declare(words)
        elif words[0] == "shift" or words[:2] == ["set", "--"]:
            self.change_arguments(words, is_apart=is_apart)
        elif words[0] == "set" and ("-a" in words or "allexport" in words):
            self.budget.copy(len(self.set))
            self.all_exported, self.passed, self.is_shared = True, dict(self.set), False
        elif mine:
            self.budget.copy(len(self.passed) + len(mine))
            self.found.append(Command(words, {**self.passed, **mine}, writes))
        else:
            self.is_shared = True
            self.found.append(Command(words, self.passed, writes))

    def forget_set(self, words: Sequence[str]) -> None:
        """Make the variables unknown that a command or a loop sets."""
        if words[0] == "let":
            self.forget_calculated(" ".join(words[1:]))
        elif words[0] == "printf":
            if words[1:2] == ["-v"] and words[2:]:
                self.give(words[2], None)
        elif words[0] in SETTING:
            for word in words[1:2] if words[0] in {"for", "select"} else words[1:]:
                if NAME.fullmatch(word) is not None:
                    self.give(word, None)

    def change_arguments(self, words: list[str], *, is_apart: bool) -> None:
        """Read `set -- …` and `shift`. If they may not run, the arguments are unknown afterwards."""
        if is_apart:
            return
        self.budget.copy(len(self.arguments))
        name, *others = self.arguments or ["sh"]
        if self.parts_open or self.chain.is_conditional:
            self.arguments = [name, Unknown("$@")]
        elif words[0] == "set":
            self.arguments = [name, *words[2:]]
        elif len(words) == 1:
            self.arguments = [name, *others[1:]]
        elif len(words) == 2 and len(words[1]) < len(str(MAX_WORDS)) and words[1].isdecimal():  # noqa: PLR2004
            self.arguments = [name, *others[int(words[1]) :]]
        else:
            self.arguments = [name, Unknown("$@")]

    def declare(self, words: list[str]) -> None:
        """Read `export A=b` and similar commands."""
        exports = words[0] == "export" or "-x" in words
        for word in words[1:]:
            assignment = ASSIGNMENT.match(word)
            name = assignment.group(1) if assignment is not None else word
            if exports:
                self.exported.add(name)
            if assignment is not None:
                self.give(name, None if type(word) is Unknown else word[assignment.end() :])
            elif exports and name in self.set:
                self.give(name, self.set[name])

    def give(self, name: str, value: str | None) -> None:
        """Set a variable, for the commands that follow too if it is exported."""
        if isinstance(self.set.get(name), Array) and not isinstance(value, Array):
            value = None  # only the first element is set
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
            self.passed[name] = value

    def redirect(self, operator: str, end: int) -> None:
        """Skip a redirection with its file; a here-document is an error.

        A here-string that may start vLLM is a command `<<<`: the program that reads it may be a shell.
        """
        if operator.lstrip("0123456789").startswith("<<") and "<<<" not in operator:
            raise ShellSyntaxError(
                f"the here-document at character {self.at + 1} is not supported; write the command without it"
            )
        is_output = ">" in operator
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


def _has_pattern(piece: str) -> bool:
    """Whether a shell expands a piece of a word that has no quotes: a glob, braces, or a part of them."""
    if "*" in piece or "?" in piece or "{" in piece:
        return len(piece) > 1 or piece != "{"
    return "[" in piece and "]" in piece and "]=" not in piece


def _ansi_c(escape: re.Match[str]) -> str:
    """The character of an escape in `$'…'`; an invalid one stays as written."""
    octal, *hexadecimal, letter = escape.groups()
    if letter is not None:
        return ANSI_C_LETTERS.get(letter, escape.group())
    code = int(octal, 8) if octal is not None else int(next(digits for digits in hexadecimal if digits is not None), 16)
    is_character = code <= sys.maxunicode and not "\ud800" <= chr(code) <= "\udfff"
    return chr(code) if is_character else escape.group()


def known(text: str, env: Mapping[str, str | None], budget: ExpansionBudget | None = None) -> str:
    """A text with Kubernetes' `$(NAME)` expanded; `$$` escapes it.

    A name that is not set stays as written. One whose value is not known makes the text an Unknown.

    Raises:
        ShellSyntaxError: the values have too many characters.
    """
    if "$" not in text:
        return text
    unknown = False
    budget = budget or ExpansionBudget()

    def value(match: re.Match[str]) -> str:
        nonlocal unknown
        if match.group() == "$$":
            return "$"
        name = match.group(1)
        if name not in env:
            return match.group()
        filled = env[name]
        unknown = unknown or filled is None
        budget.fill(len(filled or ""))
        return match.group() if filled is None else filled

    filled = KUBERNETES_REFERENCE.sub(value, text)
    return Unknown(filled) if unknown or type(text) is Unknown else filled
