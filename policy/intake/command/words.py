"""The types of a script's words and values: known text, unknown, pattern, array.

A known word is a plain `str`. The others keep the text as written, for messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._/:@-]*+")
"""Matches a name that a shell does not change."""
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
"""Matches the beginning of a word that assigns to a variable."""
PLACEHOLDER: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*+\}")
"""Matches what `envsubst` and the like replace in a text, and Kubernetes does not: `${NAME}`."""

PLAIN_WORD: Final = re.compile(r"[A-Za-z0-9._/:@=,%+-]++")
"""Matches a word that a shell neither expands nor splits, unless the script sets `IFS`."""
LONG_OPTION: Final = re.compile(r"--[a-z-]++=")
LETTER: Final = re.compile(r"[A-Za-z0-9]")


class Unknown(str):
    """A word whose value only a running shell knows; its text is the word as written.

    ``is_several``: whether it may expand to any number of words, including none, as `"$@"` or an unquoted `$A` may.
    ``names`` are the variables that are replaced in it: a shell that reads the text as a script does not see them.
    """

    __slots__ = ("is_several", "names")

    is_several: bool
    names: frozenset[str]

    def __new__(cls, text: str, *, is_several: bool = False, names: frozenset[str] = frozenset()) -> Self:
        """Create the word from its text as written."""
        found = super().__new__(cls, text)
        found.is_several = is_several
        found.names = names
        return found


class Array(str):
    """The value of an array variable: its elements are words, and the text only identifies them.

    The first ``certain_count`` elements have known values; they are counted once, as a script may use the array often.
    """

    __slots__ = ("certain_count", "elements")

    elements: tuple[str, ...]
    certain_count: int

    def __new__(cls, elements: Sequence[str]) -> Self:
        """Create the array from its elements."""
        found = super().__new__(cls, "\0".join(elements))
        found.elements = tuple(elements)
        found.certain_count = next((at for at, word in enumerate(elements) if is_uncertain(word)), len(elements))
        return found


class Pattern(str):
    """A word, as written, that a shell may expand: it has an unquoted glob, brace or tilde."""

    __slots__ = ()


class UncertainFolder(str):
    """A folder that a script may fail to enter, so that it stays in the one before."""

    __slots__ = ()


def replaced_names(words: Sequence[str]) -> frozenset[str]:
    """The variables that are replaced in any of the words."""
    return frozenset[str]().union(*(word.names for word in words if isinstance(word, Unknown)))


def is_uncertain(word: str) -> bool:
    """Whether the value of a word may differ from its text."""
    return type(word) is Unknown or type(word) is Pattern


def is_plain(word: str) -> bool:
    """Whether a word is known, and no shell expands or splits it."""
    return type(word) is str and PLAIN_WORD.fullmatch(word) is not None


def is_unknown_option(word: str, value_letters: Collection[str]) -> bool:
    """Whether a word begins like an option, and it is not known which one.

    The option is known if only its value is not: a value after the `=` of a long option, or after one of
    ``value_letters``.
    """
    if word[:1] != "-" or not is_uncertain(word):
        return False
    if word.startswith("--"):
        return LONG_OPTION.match(word) is None
    for letter in word[1:]:
        if letter in value_letters:
            return False
        if LETTER.match(letter) is None:
            break
    return True


def has_braces(bare: str) -> bool:
    """Whether bash may expand braces in the unquoted parts of a word: `{a,b}`, `{1..3}`."""
    start = bare.find("{")
    if start < 0:
        return False
    inner = bare[start + 1 : max(bare.rfind("}"), 0)]
    return "," in inner or ".." in inner


def has_bracket_expression(bare: str) -> bool:
    """Whether the unquoted parts of a word may have a bracket expression: `[ab].txt`."""
    return "[" in bare and "]" in bare and "]=" not in bare
