"""Why a launcher certainly does not start its program, although its words are in its grammar.

`stdbuf` needs the mode of a stream, and `chrt` a priority that its policy has (coreutils 9.1, util-linux 2.38).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

MODE: Final = re.compile(r"-[ioe]|--[ioe]")
"""Matches the beginning of an option of `stdbuf` with the mode of a stream."""
NO_MODE_MESSAGE: Final = "`stdbuf` starts nothing without the mode of a stream"
PRIORITY: Final = re.compile(r"[0-9]{1,9}")
POLICIES: Final = {
    "--batch": "b",
    "--deadline": "d",
    "--ext": "e",
    "--fifo": "f",
    "--idle": "i",
    "--other": "o",
    "--rr": "r",
    **dict.fromkeys(("--all-tasks", "--reset-on-fork", "--verbose"), ""),
}
"""The long options of `chrt` without values, each with the letter of its policy; the last policy counts."""
LETTERS: Final = frozenset("aRv")
ZERO_PRIORITY_POLICIES: Final = frozenset("bdeio")
"""The policies whose only priority is 0."""
PRIORITIES: Final = range(1, 100)
PRIORITY_MESSAGE: Final = "`chrt` starts nothing with the priority `{}`"


def refusal_of(program: str, words: Sequence[str]) -> str:
    """Why a launcher with the words before its program starts nothing; empty if it may start it."""
    if any(type(word) is not str for word in words):
        return ""
    if program == "stdbuf":
        return "" if any(map(MODE.match, words)) else NO_MODE_MESSAGE
    policy = _policy(words[:-1]) if program == "chrt" and words and PRIORITY.fullmatch(words[-1]) is not None else None
    if policy is None:
        return ""
    priority = int(words[-1])
    is_valid = priority == 0 if policy in ZERO_PRIORITY_POLICIES else priority in PRIORITIES
    return "" if is_valid else PRIORITY_MESSAGE.format(words[-1])


def _policy(options: Sequence[str]) -> str | None:
    """The letter of the policy that the options of `chrt` choose; None if one of them is not known here."""
    policy = "r"
    for word in options:
        if word == "--":
            break
        letters = [POLICIES.get(word)] if word.startswith("--") else [*word[1:]]
        if not word.startswith("-") or not all(letter in {*LETTERS, *POLICIES.values()} for letter in letters):
            return None
        policy = next((letter for letter in reversed(letters) if letter and letter not in LETTERS), policy)
    return policy
