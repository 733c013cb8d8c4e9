"""The types of a script's words and values: certain, unknown, a pattern, an array.

A certain word is a plain `str`. The others keep the text as written, so that messages can show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


class Unknown(str):
    """A word as written whose value only a running shell knows.

    ``is_several`` says that it may be any number of words, also none: an unknown value outside quotes, `"$@"`.
    """

    __slots__ = ("is_several",)

    is_several: bool

    def __new__(cls, text: str, *, is_several: bool = False) -> Self:
        """The word as written."""
        found = super().__new__(cls, text)
        found.is_several = is_several
        return found


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
    """A word that a shell may expand, as written: it has a glob, braces or a tilde outside quotes."""

    __slots__ = ()


def is_open(word: str) -> bool:
    """Whether a word may have another value than its text."""
    return type(word) is Unknown or type(word) is Pattern


def has_braces(bare: str) -> bool:
    """Whether bash may expand braces in the unquoted parts of a word: `{a,b}`, `{1..3}`."""
    start = bare.find("{")
    if start < 0:
        return False
    inner = bare[start + 1 : max(bare.rfind("}"), 0)]
    return "," in inner or ".." in inner


def has_class(bare: str) -> bool:
    """Whether a shell may read brackets in the unquoted parts of a word as a class of characters: `[ab].txt`."""
    return "[" in bare and "]" in bare and "]=" not in bare
