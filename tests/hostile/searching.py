"""Hostile texts for a regular expression, to see whether it rescans them.

Existing tools examine one match only. The costly case is a search that fails at the end of the text and starts again
one character later, so a pattern is run with the method that the code calls, on texts that repeat its characters and
prefixes.
"""

from __future__ import annotations

import re
import string
from collections import deque
from functools import partial
from itertools import product
from re import _constants as op  # the parser has no public name
from re import _parser
from typing import TYPE_CHECKING, Any, Final

from hostile.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHARACTERS: Final = string.printable + "\0é\x85"
LARGEST: Final = 1024
MAX_WORDS: Final = 150
MAX_SAMPLES: Final = 32
CATEGORIES: Final = {
    op.CATEGORY_DIGIT: re.compile(r"\d"),
    op.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    op.CATEGORY_SPACE: re.compile(r"\s"),
    op.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    op.CATEGORY_WORD: re.compile(r"\w"),
    op.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


def _matches(leaf: tuple[Any, Any], character: str) -> bool:
    """Whether a leaf of a pattern's tree matches a character."""
    match leaf:
        case (op.LITERAL, code):
            return bool(ord(character) == code)
        case (op.NOT_LITERAL, code):
            return bool(ord(character) != code)
        case (op.RANGE, (low, high)):
            return bool(low <= ord(character) <= high)
        case (op.CATEGORY, category):
            return CATEGORIES[category].match(character) is not None
        case (op.IN, [(op.NEGATE, _), *leaves]):
            return not any(_matches(each, character) for each in leaves)
        case (op.IN, leaves):
            return any(_matches(each, character) for each in leaves)
        case _:
            return True


def _leaves(tree: Any) -> Iterator[tuple[Any, Any]]:
    for kind, argument in tree:
        if kind in {op.LITERAL, op.NOT_LITERAL, op.IN}:
            yield kind, argument
        for part in argument if isinstance(argument, list | tuple) else (argument,):
            if isinstance(part, _parser.SubPattern):
                yield from _leaves(part)
            elif isinstance(part, list):
                for branch in part:
                    yield from _leaves(branch) if isinstance(branch, _parser.SubPattern) else ()


def _samples(tree: Any) -> list[str]:
    """Texts that a tree matches, one or more for each of its branches."""
    found = [""]
    for kind, argument in tree:
        if kind is op.SUBPATTERN:
            parts = _samples(argument[3])
        elif kind is op.ATOMIC_GROUP:
            parts = _samples(argument)
        elif kind is op.BRANCH:
            parts = [sample for branch in argument[1] for sample in _samples(branch)]
        elif kind in REPEATS:
            parts = [sample * max(1, argument[0]) for sample in _samples(argument[2])]
        elif kind in {op.AT, op.ASSERT, op.ASSERT_NOT}:
            parts = [""]
        else:
            parts = [next((each for each in CHARACTERS if _matches((kind, argument), each)), "")]
        found = [before + part for before, part in product(found, parts)][:MAX_SAMPLES]
    return found


def _unique(texts: Iterable[str], most: int) -> list[str]:
    return list(dict.fromkeys(texts))[:most]


def hostile(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """The parts of hostile texts for a pattern: a beginning, a repeated part, and an empty or unmatched end."""
    tree = _parser.parse(pattern.pattern, pattern.flags)
    leaves = list(_leaves(tree))
    kinds = {tuple(_matches(leaf, each) for leaf in leaves): each for each in reversed(CHARACTERS)}
    other = kinds.get((False,) * len(leaves), "")
    letters = sorted(each for each in kinds.values() if each != other)
    samples = [sample for sample in _samples(tree) if sample]
    words = (
        _unique(("".join(word) for length in (1, 2, 3) for word in product(letters, repeat=length)), MAX_WORDS)
        + samples
    )
    beginnings = _unique((sample[:end] for sample in samples for end in range(1, len(sample) + 1)), MAX_SAMPLES)
    repeated = [("", word) for word in words] + [
        (begin, letter) for begin in beginnings for letter in (*letters, begin)
    ]
    return [(begin, word, end) for begin, word in repeated for end in {"", other}]


def reader(pattern: re.Pattern[Any], method: str) -> Reader:
    """A pattern as a reader of its hostile texts; the argument only gives their length."""
    empty = pattern.pattern[:0]
    texts: list[Any] = [
        tuple(part if isinstance(empty, str) else part.encode("latin-1") for part in text) for text in hostile(pattern)
    ]
    call = partial(getattr(pattern, method), empty) if method in {"sub", "subn"} else getattr(pattern, method)

    def read(size: bytes) -> None:
        for begin, word, end in texts:
            found = call(begin + word * (len(size) // len(word)) + end)
            if method == "finditer":
                deque(found, maxlen=0)

    return Reader(read, LARGEST, {"its own words": bytes})
