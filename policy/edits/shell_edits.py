"""Edits of a shell text: words removed, replaced or added.

Each edit is a span of the text and what replaces it.
"""

from __future__ import annotations

from itertools import dropwhile, pairwise
from typing import TYPE_CHECKING, Final

from policy.edits.operations import TextEdit
from policy.edits.shell_commands import (
    ASSIGNMENT,
    ENVIRONMENT,
    EXPORTS,
    OPTIONS_OF_VARIABLES,
    RESERVED_WORDS,
    commands_of,
    starting_commands,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.edits.shell_commands import ShellCommand
    from policy.edits.shell_words import ShellWord

JOINED: Final = ";&|"
"""The operators of which two make another one."""
CLOSING_WORDS: Final = frozenset({")", "}", "do", "done", "elif", "else", "esac", "fi", "then"})
"""The words before which a list of commands ends."""


def without_words(text: str, words: Sequence[ShellWord], first: int, count: int) -> TextEdit:
    """The edit that removes ``count`` words from ``first`` on, with the blanks and line ends beside them."""
    last = first + count - 1
    if last + 1 < len(words) and not words[last + 1].is_operator:
        return TextEdit(words[first].start, words[last + 1].start, "")
    if first and not words[first - 1].is_operator:
        return TextEdit(words[first - 1].end, words[last].end, "")
    return _whole(text, words[first].start, words[last].end)


def _whole(text: str, start: int, end: int) -> TextEdit:
    """The edit that removes a span, with its line if nothing else is on it."""
    line = start
    while text[line - 1 : line] in {" ", "\t"}:
        line -= 1
    if line and text[line - 1] != "\n":
        return TextEdit(start, end, "")
    rest = end
    while text[rest : rest + 1] in {" ", "\t", "\r"}:
        rest += 1
    return TextEdit(line, rest + 1, "") if text[rest : rest + 1] == "\n" else TextEdit(start, end, "")


def without_variable(text: str, words: Sequence[ShellWord], assignments: Sequence[int]) -> list[TextEdit] | None:
    """The edits that remove the assignments of a variable; None if one cannot be removed with certainty.

    The `export`, `-e` or `Environment=` that is only for an assignment goes with it. Where the text needs a command
    or its status, it becomes `unset`.
    """
    gone = frozenset(assignments)
    edits: list[TextEdit] = []
    for command in commands_of(words):
        if not gone.isdisjoint(command.places):
            found = _without_assignments(text, words, command, gone)
            if found is None:
                return None
            edits += found
    return edits


def _without_assignments(
    text: str, words: Sequence[ShellWord], command: ShellCommand, gone: frozenset[int]
) -> list[TextEdit] | None:
    """The edits that remove assignments of one variable from a command; None if that is not certain."""
    own = [place for place in command.places if place in gone]
    first = words[own[0]]
    places = [*dropwhile(lambda place: words[place].text in RESERVED_WORDS, command.places)]
    if first.text.startswith(ENVIRONMENT):
        if len(own) == len(places):
            return [_whole(text, first.start, words[places[-1]].end)]
        beginning = TextEdit(first.start + len(ENVIRONMENT), words[own[0] + 1].start, "")
        return [beginning, *(without_words(text, words, place, 1) for place in own[1:])]
    statement = () if command.is_list else _statement(words, places, gone)
    if statement is None:
        return None
    edits = [
        without_words(text, words, place - 1, 2)
        if place and words[place - 1].text in OPTIONS_OF_VARIABLES
        else without_words(text, words, place, 1)
        for place in own
        if not statement or place < statement[0]
    ]
    if statement:
        edits.append(_without_statement(text, words, statement[0], statement[-1], first.text.partition("=")[0]))
    return edits


def _statement(words: Sequence[ShellWord], places: Sequence[int], gone: frozenset[int]) -> Sequence[int] | None:
    """The words of a command of which nothing is left, from its `export` on if it has one; empty if some words are.

    None if the words that are left may expand to nothing, as the builtin alone prints all variables, or if a
    redirection is between those that are not.
    """
    statement = places
    if not gone.issuperset(places):
        statement = _from_export(words, places)
        if gone.isdisjoint(statement):
            return ()
        left = [words[place] for place in statement[1:] if place not in gone and not _is_option(words[place])]
        if left:
            return () if any(_is_name(word) for word in left) else None
    return statement if statement[-1] - statement[0] < len(statement) else None


def _from_export(words: Sequence[ShellWord], places: Sequence[int]) -> Sequence[int]:
    """The words of a command from its builtin on, such as `export`; empty if another program runs."""
    for number, place in enumerate(places):
        if words[place].text in EXPORTS:
            return places[number:]
        if ASSIGNMENT.match(words[place].text) is None and not _is_option(words[place]):
            break
    return ()


def _is_option(word: ShellWord) -> bool:
    return word.text.startswith(("-", "+"))


def _is_name(word: ShellWord) -> bool:
    """Whether a word of `export` certainly is a name, with a value or without one."""
    return word.is_certain or ASSIGNMENT.match(word.text) is not None


def _without_statement(text: str, words: Sequence[ShellWord], first: int, last: int, name: str) -> TextEdit:
    """The edit that removes a command that only sets a variable, or unsets the variable where a command is needed."""
    start, end = words[first].start, words[last].end
    after = _operator(words, last + 1)
    if not _begins_line(words, first) or after not in {"", "\n", ";", "&&"}:
        return TextEdit(start, end, f"unset {name}")
    if after != "&&" and _closes(words, last + 1):
        return TextEdit(start, end, f"unset {name}")
    if after in {";", "&&"}:
        end = words[last + len(after)].end
        while text[end : end + 1] in {" ", "\t"}:
            end += 1
    return _whole(text, start, end)


def _operator(words: Sequence[ShellWord], place: int) -> str:
    """The operator at a place, of one character or of two such as `&&` and `;;`; empty at the end of the text."""
    found = ""
    for word in words[place : place + 2]:
        if found and not (word.is_operator and found in JOINED and word.text in JOINED):
            break
        if found and words[place].end != word.start:
            break
        found += word.text
    return found


def _begins_line(words: Sequence[ShellWord], first: int) -> bool:
    """Whether a command is the first of a line or follows a `;`, and no operator before it needs it."""
    if not first:
        return True
    before = words[first - 1]
    if not before.is_operator or before.text not in ";\n":
        return False
    while first and words[first - 1].is_operator and words[first - 1].text == "\n":
        first -= 1
    return not (first and words[first - 1].is_operator and words[first - 1].text in "&|")


def _closes(words: Sequence[ShellWord], place: int) -> bool:
    """Whether what follows a command ends a list of commands, of which the last one gives the status."""
    while place < len(words) and words[place].is_operator and words[place].text in ";\n":
        if _operator(words, place) in {";;", ";&"}:
            return True
        place += 1
    return place < len(words) and words[place].text in CLOSING_WORDS


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
