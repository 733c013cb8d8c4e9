"""Split a command that is one text as Compose does, with mattn/go-shellwords 1.0.12 and its default options.

No shell is involved, and the differences affect which flags vLLM gets: an unquoted ``;``, ``&``, ``|``, ``<`` or ``>``
ends the command and drops the rest, and a backslash escapes any character outside single quotes. Backticks and
``$(…)`` are kept as written, and blanks within them do not split words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_COMMAND: Final = 32 * 1024
PIECE: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]++)|(?P<plain>[^ \t\r\n'"\\`();&|<>]++)|'(?P<single>[^']*+)'"""
    r"""|"(?P<double>(?:[^"\\]|\\.)*+)"|\\(?P<escaped>.)|(?P<backtick>`)|(?P<special>[();&|<>])""",
    re.DOTALL,
)
"""Matches a piece of a word, the blanks between words, or a character that may end the command."""
SUBSTITUTION: Final = re.compile(r"\(((?:[^()\\]|\\.)*+)\)", re.DOTALL)
"""Matches ``$(…)`` after its dollar sign. Quotes have no meaning in it, and it cannot be nested."""
ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
CONTROL_LETTERS: Final = frozenset("nt")
"""Letters that a backslash leaves unchanged, but turns into a newline and a tab from go-shellwords 1.0.13 on."""
OPEN_QUOTE: Final = "a quote is not closed, or nothing follows the last backslash"
UNQUOTED_BRACKET: Final = "a bracket is outside quotes; put it in quotes"


class SplitCommand(Struct, frozen=True):
    """The words of a command. ``end`` is the position of the character that ends it early, or None."""

    words: list[str]
    end: int | None = None


def split(text: str, unknown: Sequence[int] = ()) -> SplitCommand:
    """Split a text. A word is an ``Unknown`` if it contains one of the positions ``unknown``.

    Raises:
        ValueError: go-shellwords rejects the text.
    """
    splitter = _Splitter(text, unknown)
    return SplitCommand(splitter.words, splitter.read())


class _Splitter:
    """The words so far, and the pieces of the current one, none of which is empty."""

    def __init__(self, text: str, unknown: Sequence[int]) -> None:
        self.text = text
        self.unknown = unknown
        self.words: list[str] = []
        self.parts: list[str] = []
        self.has_word = self.is_unknown = self.is_in_backticks = False
        self.passed = 0
        """How many of the unknown positions precede the current word."""

    def read(self) -> int | None:
        """Split the text; returns the position of the character that ends the command early, if any."""
        at = 0
        while at < len(self.text):
            piece = PIECE.match(self.text, at)
            if piece is None:
                raise ValueError(OPEN_QUOTE)
            kind, found = piece.lastgroup, piece[piece.lastgroup or 0]
            if kind == "blank" and not self.is_in_backticks:
                self.end_word(at)
            elif kind == "special" and not self.is_in_backticks:
                if found not in "()":
                    if found == ">" and self.parts and "0" <= self.parts[0][0] <= "9":
                        self.has_word = False  # treated as a file descriptor, whatever follows the digit
                    self.end_word(at)
                    return at
                at = self.add_substitution(at)
                continue
            else:
                self.is_in_backticks ^= kind == "backtick"
                if kind == "double":
                    self.add_escaped(found)
                elif kind == "escaped":
                    self.add_escaped(piece[0])
                else:
                    self.add(found)
            at = piece.end()
        if self.is_in_backticks:
            raise ValueError(OPEN_QUOTE)
        self.end_word(at)
        return None

    def add(self, part: str) -> None:
        self.has_word = True
        if part:
            self.parts.append(part)

    def add_escaped(self, part: str) -> None:
        """Add a piece without its backslashes."""
        self.is_unknown = self.is_unknown or any(found in CONTROL_LETTERS for found in ESCAPE.findall(part))
        self.add(ESCAPE.sub(r"\1", part))

    def add_substitution(self, at: int) -> int:
        """Add the rest of ``$(…)``, from its bracket on; returns the position after it."""
        found = SUBSTITUTION.match(self.text, at)
        if found is None or not self.parts or not self.parts[-1].endswith("$"):
            raise ValueError(UNQUOTED_BRACKET)
        self.add("(")
        self.add_escaped(found[1])
        self.add(")")
        return found.end()

    def end_word(self, end: int) -> None:
        """End the current word, if any, at a position."""
        before = self.passed
        while self.passed < len(self.unknown) and self.unknown[self.passed] < end:
            self.passed += 1
        if self.has_word:
            word = "".join(self.parts)
            self.words.append(Unknown(word) if self.is_unknown or self.passed > before else word)
        self.parts.clear()
        self.has_word = self.is_unknown = False
