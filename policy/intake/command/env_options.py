"""Parse the words of `env` before the command that it starts: options, `NAME=VALUE`, and the text of `-S`.

Follows GNU env, with abbreviations. It splits the text of `-S` by its own rules, which are not a shell's:
https://www.gnu.org/software/coreutils/manual/html_node/env-invocation.html. Not here: the command itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.expansion import ShellSyntaxError
from policy.intake.command.words import PLACEHOLDER, Unknown, is_uncertain, is_unknown_option
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command.expansion import ExpansionBudget

ASSIGNMENT: Final = re.compile(r"([^=-][^=]*)=")
"""Matches the name of a variable, which may contain any character except `=`."""
KNOWN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+=")
"""Matches a name in an assignment that is certain even if its word is not: nothing in the name is replaced."""
VALUE_LETTERS: Final = {"a": "argv0", "C": "chdir", "S": "split-string", "u": "unset"}
"""The short options that take a value, with their long names."""
IGNORE_OPTION: Final = "--ignore-environment"
NULL_OPTION: Final = "--null"
"""The option with which `env` prints variables, and refuses to start a program; `-0` for short."""
MAX_SPLITS: Final = 4
PATH: Final = "PATH"
PIECE: Final = re.compile(
    r"""(?P<blank>[ \t\n\v\f\r]+)"""
    r"""|'(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"""
    r"""|\\(?P<escape>.)"""
    r"""|(?P<quote>")"""
    r"""|(?P<plain>[^\s'"\\$]+)""",
    re.DOTALL,
)
QUOTED_PIECE: Final = re.compile(
    r"""\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|\\(?P<escape>.)|(?P<quote>")|(?P<plain>[^"\\$]+)""", re.DOTALL
)
"""Like `PIECE`, but between double quotes."""
ESCAPES: Final = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
LITERAL_ESCAPES: Final = frozenset("#$\\\"'")
SINGLE_QUOTED_ESCAPE: Final = re.compile(r"\\([\\'])")


class EnvWords:
    """The words of a command that begins with `env`; ``at`` is the position of the next one to parse.

    ``refusal`` says why `env` certainly does not start the command; it is empty if it may. ``folder`` is the last
    working folder that it changes to; empty if it changes to none. ``has_path``: whether the command gets a `PATH`.
    ``unknown`` is the first word that may set or remove any variable, and ``unknown_option`` one that may be any other
    option, so that the next position is not known; empty if there is none.
    """

    def __init__(self, words: list[str], places: list[str], at: int, *, has_path: bool = True) -> None:
        self.words = words
        self.places = places
        self.at = at
        self.splits = 0
        self.refusal = ""
        self.folder = ""
        self.has_path = has_path
        self.unknown = ""
        self.unknown_option = ""

    def read(
        self,
        own: dict[str, str | None],
        env: Mapping[str, str | None],
        set_at: dict[str, str],
        removed: set[str],
        budget: ExpansionBudget,
    ) -> None:
        """Parse up to the command, and add the variables that are set to ``own``; ``env`` is the environment.

        The place of each variable that is set or cleared is added to ``set_at``, and ``removed`` has those that the
        command certainly does not get.

        Raises:
            ShellSyntaxError: the text of `-S` cannot be split, or is unknown.
        """
        has_options = True  # until the first word that is none, `-` or `--`
        while self.at < len(self.words):
            word = self.words[self.at]
            assignment = ASSIGNMENT.match(word)
            if assignment is not None:
                if _has_known_name(word, assignment):
                    own[assignment.group(1)] = None if is_uncertain(word) else word[assignment.end() :]
                    set_at[assignment.group(1)] = self.places[self.at]
                    removed.discard(assignment.group(1))
                else:
                    self._forget(word, own, env, set_at, budget)
                    removed.clear()
                budget.note_value(assignment.group(1), word[assignment.end() :])
                self.has_path = bool(word[assignment.end() :]) if assignment.group(1) == PATH else self.has_path
                self.at += 1
                has_options = False
                continue
            if is_unknown_option(word, VALUE_LETTERS):
                self.unknown_option = word
                return
            if not word.startswith("-"):
                return
            option, value = _option(word)
            width = 1
            if option and value is None:
                value, width = "".join(self.words[self.at + 1 : self.at + 2]), 2
            used = self.words[self.at : self.at + width]
            if option == "chdir":
                self.folder = Unknown(value or "") if any(map(is_uncertain, used)) else value or ""
            if not self.refusal:
                self.refusal = self._refusal(word, option, value, width, has_options=has_options)
            has_options = has_options and word not in {"-", "--"}
            if _clears_environment(word) or (option == "unset" and value == PATH):
                self.has_path = False
            if _clears_environment(word):
                self._clear(own, env, set_at, budget)
                removed.update(own)
            if option == "unset" and any(map(is_uncertain, used)):
                self._forget(used[-1], own, env, set_at, budget)
                removed.clear()
            elif option == "unset" and value and (value in own or value in env):
                own[value] = None
                set_at[value] = self.places[self.at]
                removed.add(value)
            if option == "split-string":
                self._split(value or "", width, {**env, **own}, budget)
            else:
                self.at += width

    def _forget(
        self,
        word: str,
        own: dict[str, str | None],
        env: Mapping[str, str | None],
        set_at: dict[str, str],
        budget: ExpansionBudget,
    ) -> None:
        """Make all variables unknown, because it is not known which one a word names."""
        self.unknown = self.unknown or word
        self._clear(own, env, set_at, budget)

    def _clear(
        self,
        own: dict[str, str | None],
        env: Mapping[str, str | None],
        set_at: dict[str, str],
        budget: ExpansionBudget,
    ) -> None:
        """Clear all variables, or make them unknown."""
        budget.copy(len(env) + len(own))
        own.update(dict.fromkeys([*env, *own]))
        set_at.update(dict.fromkeys(own, self.places[self.at]))

    def _refusal(self, word: str, option: str, value: str | None, width: int, *, has_options: bool) -> str:
        """Why `env` does not start the command because of a word; empty if it may."""
        if type(word) is not str:
            return ""
        if not has_options:
            return f"`env` takes {quoted(word)} for the program, as no option may come there"
        if _is_null(word):
            return "`env` starts no program with its option `-0`"
        if option != "unset" or (value and "=" not in value):
            return ""
        name = self.words[self.at + width - 1 : self.at + width]
        if not name or type(name[0]) is not str:  # it has no value, or one that is not known
            return ""
        return f"`env` cannot unset a variable with the name {quoted(value)}"

    def _split(self, text: str, width: int, env: Mapping[str, str | None], budget: ExpansionBudget) -> None:
        """Replace the option `-S` with the words of its text."""
        budget.copy(len(env) + len(self.words))
        budget.fill(len(text))
        self.splits += 1
        used = self.words[self.at : self.at + width]
        if self.splits > MAX_SPLITS or any(map(is_uncertain, used)):
            why = "is not known" if self.splits <= MAX_SPLITS else f"is one of more than {MAX_SPLITS} such texts"
            raise ShellSyntaxError(f"the text {quoted(text)} of `env -S` {why}; write its words as separate arguments")
        words = split_string(text, env, budget)
        places = [self.places[self.at]] * len(words)
        self.words = [*self.words[: self.at], *words, *self.words[self.at + width :]]
        self.places = [*self.places[: self.at], *places, *self.places[self.at + width :]]


def _has_known_name(word: str, assignment: re.Match[str]) -> bool:
    """Whether the name in an assignment is certain."""
    if is_uncertain(word):
        return KNOWN_NAME.match(word) is not None
    return PLACEHOLDER.search(assignment.group(1)) is None


def _clears_environment(word: str) -> bool:
    """Whether a word is `-`, `-i` or `--ignore-environment`, possibly combined or abbreviated."""
    if word.startswith("--i"):
        return IGNORE_OPTION.startswith(word)
    return word == "-" or (word[1:2] != "-" and "i" in _letters(word))


def _is_null(word: str) -> bool:
    """Whether a word is `-0` or `--null`, possibly combined or abbreviated."""
    if word.startswith("--n"):
        return NULL_OPTION.startswith(word)
    return word[1:2] != "-" and "0" in _letters(word)


def _letters(word: str) -> str:
    """The short options in a word, up to the first that takes a value."""
    return next((word[1:index] for index, letter in enumerate(word) if index and letter in VALUE_LETTERS), word[1:])


def _option(word: str) -> tuple[str, str | None]:
    """The long name of an option that takes a value, and its attached value; an empty name for other options."""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        option = next((each for each in VALUE_LETTERS.values() if name and each.startswith(name)), "")
        return option, value if equals else None
    for index, letter in enumerate(word[1:], 2):
        if letter in VALUE_LETTERS:
            return VALUE_LETTERS[letter], word[index:] or None
    return "", None


def split_string(text: str, env: Mapping[str, str | None], budget: ExpansionBudget) -> list[str]:
    r"""Split a text as `env -S` does: at blanks, with quotes, `\_`, `\c`, `#` and `${NAME}`.

    A variable that is not in ``env`` may be set by the image, so a word with it is an `Unknown`.

    Raises:
        ShellSyntaxError: a quote is not closed, an escape or a variable is invalid, or there are too many words.
    """
    reader = _StringReader(env, budget)
    reader.read(text)
    return reader.words


class _StringReader:
    """Splits a text in one pass; ``parts`` has the pieces of the current word, None between words."""

    def __init__(self, env: Mapping[str, str | None], budget: ExpansionBudget) -> None:
        self.env = env
        self.budget = budget
        self.words: list[str] = []
        self.parts: list[str] | None = None
        self.is_known = True
        self.is_quoted = False

    def read(self, text: str) -> None:
        at = 0
        while at < len(text):
            piece = (QUOTED_PIECE if self.is_quoted else PIECE).match(text, at)
            if piece is None:
                raise ShellSyntaxError(
                    f"the character {quoted(text[at])} at position {at + 1} of the text of `env -S` is not valid there"
                )
            at = piece.end()
            if not self.is_quoted and (piece["escape"] == "c" or (self.parts is None and piece.group()[0] == "#")):
                break
            if self.is_quoted:
                self.read_quoted(piece)
            else:
                self.read_unquoted(piece)
        if self.is_quoted:
            raise ShellSyntaxError('a quote `"` in the text of `env -S` is not closed; close it')
        self.end_word()

    def read_unquoted(self, piece: re.Match[str]) -> None:
        if piece["blank"] or piece["escape"] == "_":
            self.end_word()
        elif piece["single"] is not None:
            self.put(SINGLE_QUOTED_ESCAPE.sub(r"\1", piece["single"]))
        else:
            self.read_quoted(piece)

    def read_quoted(self, piece: re.Match[str]) -> None:
        if piece["quote"]:
            self.is_quoted = not self.is_quoted
            self.put("")
        elif piece["name"]:
            self.add_variable(piece["name"])
        else:
            self.put(self.unescape(piece["escape"]) if piece["escape"] else piece["plain"])

    def unescape(self, escape: str) -> str:
        if escape == "_":
            return " "
        if escape in LITERAL_ESCAPES:
            return escape
        if escape in ESCAPES:
            return ESCAPES[escape]
        raise ShellSyntaxError(f"the escape {quoted(chr(92) + escape)} in the text of `env -S` is not valid")

    def add_variable(self, name: str) -> None:
        value = self.env.get(name)
        self.is_known = self.is_known and value is not None
        self.budget.fill(len(value or ""))
        self.put(f"${{{name}}}" if value is None else value)

    def put(self, text: str) -> None:
        if self.parts is None:
            self.parts = []
        self.parts.append(text)

    def end_word(self) -> None:
        if self.parts is not None:
            self.budget.add_word()
            word = "".join(self.parts)
            self.words.append(word if self.is_known else Unknown(word))
        self.parts, self.is_known = None, True
