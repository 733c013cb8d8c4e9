"""Edits of a shell text: words removed, replaced or added.

Each edit is a span of the text and what replaces it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from policy.edits.operations import TextEdit
from policy.edits.shell_commands import (
    ENVIRONMENT,
    EXPORTS,
    OPTIONS_OF_VARIABLES,
    commands_of,
    starting_commands,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.edits.shell_words import ShellWord


def without_words(text: str, words: Sequence[ShellWord], first: int, count: int) -> TextEdit:
    """The edit that removes ``count`` words from ``first`` on, with the blanks and line ends beside them."""
    last = first + count - 1
    if last + 1 < len(words) and not words[last + 1].is_operator:
        return TextEdit(words[first].start, words[last + 1].start, "")
    if first and not words[first - 1].is_operator:
        return TextEdit(words[first - 1].end, words[last].end, "")
    return _statement(text, words, first, last)


def _statement(text: str, words: Sequence[ShellWord], first: int, last: int) -> TextEdit:
    """The edit that removes a whole command: with its line if nothing else is on it, or with the operator after it."""
    start, end = words[first].start, words[last].end
    following = last + 1
    if following < len(words) and words[following].text in ";&":
        while following < len(words) and words[following].is_operator and words[following].text in ";&":
            end = words[following].end
            following += 1
        while text[end : end + 1] in {" ", "\t"}:
            end += 1
    line = start
    while text[line - 1 : line] in {" ", "\t"}:
        line -= 1
    if line and text[line - 1] != "\n":
        return TextEdit(start, end, "")
    rest = end
    while text[rest : rest + 1] in {" ", "\t", "\r"}:
        rest += 1
    return TextEdit(line, rest + 1, "") if text[rest : rest + 1] == "\n" else TextEdit(start, end, "")


def without_variable(text: str, words: Sequence[ShellWord], index: int) -> TextEdit:
    """The edit that removes an assignment, with the `export`, `-e` or `Environment=` that is only for it."""
    word = words[index]
    before = words[index - 1].text if index else ""
    is_last = index + 1 == len(words) or words[index + 1].is_operator
    if word.text.startswith(ENVIRONMENT):
        if is_last:
            return _statement(text, words, index, index)
        return TextEdit(word.start + len(ENVIRONMENT), words[index + 1].start, "")
    if before in OPTIONS_OF_VARIABLES:
        return without_words(text, words, index - 1, 2)
    starts_command = index < 2 or words[index - 2].is_operator  # noqa: PLR2004  # the word before `export`
    if before in EXPORTS and is_last and starts_command:
        return _statement(text, words, index - 1, index)
    return without_words(text, words, index, 1)


def with_word(text: str, words: Sequence[ShellWord], new: str) -> TextEdit | None:
    """The edit that adds a word at the end of the command that starts vLLM; None if no command is that one."""
    commands = commands_of(words)
    chosen = starting_commands(words, commands) or commands
    if len(chosen) != 1:
        return None
    command = _until_redirection(words, chosen[0].places)
    last = command[-1]
    gap = text[command[-2].end : last.start] if len(command) > 1 else " "
    # In a command of several lines the options have lines of their own, of which the last may be for two words.
    lines = next((text[a.end : b.start] for a, b in pairwise(command) if "\n" in _gap(text, a, b)), gap)
    return TextEdit(last.end, last.end, f"{lines if chr(92) in lines else ' '}{new}")


def _gap(text: str, before: ShellWord, after: ShellWord) -> str:
    return text[before.end : after.start]


def _until_redirection(words: Sequence[ShellWord], places: Sequence[int]) -> list[ShellWord]:
    """The words of a command that stand together, before a redirection."""
    together = [place for number, place in enumerate(places) if place == places[0] + number]
    return [words[place] for place in together]
