"""Words of a command whose text is not certain: a shell may expand them, or a variable in them is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.intake.command.words import Unknown
from policy.masking import HIDDEN
from policy.messages import quoted
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.flags import Flags
    from policy.intake.command.parse_result import ParseResult


def names_unknown_flag(word: str) -> bool:
    """Whether the flag name in a word is unknown; `-O` and the option of a dotted key are known."""
    name = word.partition("=")[0].partition(".")[0]
    return not word.startswith("-O") and ("$" in name or "`" in name or "{" in name)


def warn_of_expansions(
    patterns: set[int], words: Sequence[str], places: Sequence[str], table: Flags, result: ParseResult
) -> None:
    """Warn of words that may expand to several arguments, and record them; each is parsed as one."""
    found = set(result.unknown_words)
    is_secret_flag = False
    for index, (word, place) in enumerate(zip(words, places, strict=True)):
        is_several = type(word) is Unknown and word.is_several and (word, place) not in found
        if word[:1] == "-":
            flag = table.exact.get(word)
            is_secret_flag = (flag is not None and flag.secret) or is_secret(word.partition("=")[0])
        shown = HIDDEN if is_secret_flag else word
        if index in patterns:
            result.warn(f"a shell may expand {quoted(shown)} ({place}); it is read as written, so quote it")
        elif is_several:
            result.warn(
                f"the value of {quoted(shown)} ({place}) is not known, and it may be several arguments; it is read "
                "as one, so quote it, or set the variable"
            )
        if is_several or index in patterns:
            result.unknown_words.append((shown, place))
