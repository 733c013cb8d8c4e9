"""The words that are neither flags nor their values, and the model among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.word_places import FILE_PREFIX
from policy.masking import HIDDEN, masked
from policy.messages import quoted
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.parse_result import ParseResult


SEPARATORS: Final = ("=", ":")
"""What people write between a flag and its value."""
LIST_CHARACTERS: Final = frozenset("@*")
"""The characters that mark a reference to a list of words: `"$@"`, `${ARGS[*]}`."""


def _flag_of_secret(words: Sequence[str], at: int) -> str:
    """The flag of a secret before a word, if `=` or `:` is between them; empty if there is none."""
    before = words[at - 1] if at else ""
    if not before.endswith(SEPARATORS):
        return ""
    flag = before.rstrip("".join(SEPARATORS)) or (words[at - 2] if at > 1 else "")
    return str(flag) if is_secret(flag) else ""


class PositionalWords:
    """The positional words of one command line.

    Each has its place and what a message shows of it. ``unknown`` has those whose value is not known.
    """

    __slots__ = ("is_hidden", "known", "unknown")

    def __init__(self) -> None:
        self.known: list[tuple[str, str, str]] = []
        self.unknown: list[tuple[str, str, str]] = []
        self.is_hidden = False
        """Whether an earlier word follows the name of a secret, so that each later one may be a part of the secret."""

    def add(self, words: Sequence[str], places: Sequence[str], at: int, result: ParseResult) -> None:
        """Add the word at a position, unless it may be the secret of a flag that blanks separate from its `=`."""
        flag = _flag_of_secret(words, at)
        if flag:
            self.is_hidden = True
            result.fault(
                places[at],
                f"the word after {quoted(flag)} and `=` may be a secret, but vLLM does not read it as the value; write "
                f"{quoted(f'{flag}=VALUE')} without blanks",
            )
            return
        self.known.append((words[at], places[at], self._shown(words, at, result)))

    def _shown(self, words: Sequence[str], at: int, result: ParseResult) -> str:
        """An unexpected word as a message shows it, masked if it may be part of a secret that a shell split."""
        if len(self.known) > result.max_faults:
            return ""
        if result.after_secret or self.is_hidden:
            return HIDDEN
        before = at - 1 if at < 2 or words[at - 1] != "--" else at - 2  # noqa: PLR2004  # the `--` and a word before it
        self.is_hidden = at > 0 and (
            is_secret(words[before]) or masked(f"{words[before]} {words[at]}").endswith(HIDDEN)
        )
        return HIDDEN if self.is_hidden else words[at]

    def set_model(self, result: ParseResult) -> None:
        """Set the model from the positional words: after `vllm serve` the first one is the model."""
        (model, place, shown), *others = self.known
        stated = result.found_at.get("model")
        if not result.serve:
            result.warn(
                f"{quoted(model)} ({place}) is ignored: only `vllm serve` takes the model without `--model`"
                + ("" if stated else ", so vLLM's default model would be served; write `--model`")
            )
        elif stated is not None and not stated.startswith(FILE_PREFIX):
            result.refuse(
                place,
                f"unexpected argument {quoted(shown)}: `--model` ({stated}) gives the model as well, and "
                "`vllm serve` takes it once; remove one of them",
            )
        else:
            result.values["model"] = str(model)
            result.found_at["model"] = place
        for _, where, other in others[: result.max_faults]:
            result.refuse(
                where,
                f"unexpected argument {quoted(other)}: no option takes it; quote it together with the value "
                "it belongs to, or remove it",
            )

    def read_unknown(self, result: ParseResult) -> None:
        """Take the first unknown word for the model if no model is given, and ignore the others."""
        (word, place, shown), *others = self.unknown
        if not result.serve or "model" in result.values:
            others = self.unknown
        elif LIST_CHARACTERS.isdisjoint(word):
            result.values["model"] = result.note_unknown_model(word)
            result.found_at["model"] = place
            result.unknown_words.append((shown, place))
        else:
            others = self.unknown
            self._report_no_model(shown, place, result)
        for _, where, other in others:
            result.ignore_unknown(other, where)

    def _report_no_model(self, word: str, place: str, result: ParseResult) -> None:
        result.fault(
            place,
            f"no model is given, unless it is {quoted(word)}, whose value is not known; write the model, "
            "or set the variable",
        )
