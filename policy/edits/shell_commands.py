"""The commands of a shell text, and which of their words an edit may change.

Owns the division of words into commands and the choice of those that start vLLM. Other commands may have the same
words, such as a test of a flag or another program with a flag of that name, and keep them.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policy.edits.shell_words import ShellWord

SERVERS: Final = ("vllm.entrypoints", "vllm.scripts", "dynamo.vllm")
"""The beginnings of the Python modules that start vLLM's server."""
PRINTERS: Final = frozenset({":", "[", "[[", "cat", "echo", "false", "logger", "printf", "test", "true"})
"""Programs that start no other one, whatever their arguments are."""
EXPORTS: Final = frozenset({"export", "readonly", "declare", "typeset"})
RESERVED_WORDS: Final = frozenset({"!", "do", "elif", "else", "if", "then", "time", "until", "while", "{"})
"""Words of a shell before a command."""
BEFORE_ASSIGNMENTS: Final = EXPORTS | RESERVED_WORDS | {"env", "exec", "sudo"}
"""Words after which an assignment still is one."""
OPTIONS_OF_VARIABLES: Final = frozenset({"-e", "--env"})
ENVIRONMENT: Final = "Environment="
"""The field of a systemd service that sets variables."""
CONTAINER_COMMAND: Final = "Exec="
"""The field of Podman's units with the arguments of the image."""
ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
USE: Final = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*)")
"""A variable that is expanded, `$NAME` or `${NAME…}`; the name is its group."""
ARRAY: Final = re.compile(r"([A-Za-z_]\w*)\+?=")
ARGUMENTS: Final = re.compile(r"\$\{?[!#]?[@*#0-9]")
"""The arguments of a script, or one of them, or their number."""
READERS_OF_ARGUMENTS: Final = frozenset({"getopts", "shift"})
REDIRECTIONS: Final = "<>"


class ShellCommand(Struct, frozen=True):
    """The places of a command's words, without those of redirections; ``is_list`` if they are an array's or `set`'s."""

    places: tuple[int, ...]
    is_list: bool


def commands_of(words: Sequence[ShellWord]) -> list[ShellCommand]:
    """The commands of a text, and the lists of words in it that a command may take later."""
    found: list[ShellCommand] = []
    places: list[int] = []
    in_list = False
    is_target = False
    for index, word in enumerate(words):
        if not word.is_operator:
            if not is_target:
                places.append(index)
            is_target = False
        elif word.text in REDIRECTIONS or (word.text == "&" and _redirects(words, index)):
            if (
                places
                and places[-1] == index - 1
                and words[index - 1].end == word.start
                and words[index - 1].text.isdigit()
            ):
                places.pop()  # the descriptor: the 2 of `2>&1`
            is_target = True
        elif not (in_list and word.text == "\n"):
            found += _command(words, places, in_list=in_list)
            opens = word.text == "(" and index > 0 and words[index - 1].end == word.start
            in_list = opens and words[index - 1].text.endswith("=")
            places, is_target = [], False
    return [*found, *_command(words, places, in_list=in_list)]


def _redirects(words: Sequence[ShellWord], index: int) -> bool:
    """Whether an `&` belongs to a redirection, as in `2>&1` and `&>log`."""
    word = words[index]
    beside = [each for each in (*words[max(index - 1, 0) : index], *words[index + 1 : index + 2]) if each.is_operator]
    return any(each.text in REDIRECTIONS and word.start in {each.end, each.start - 1} for each in beside)


def _command(words: Sequence[ShellWord], places: list[int], *, in_list: bool) -> Iterator[ShellCommand]:
    if not places:
        return
    first = words[places[0]].text
    yield ShellCommand(tuple(places), in_list or first == "set" or first.startswith("-"))


def starting_commands(words: Sequence[ShellWord], commands: Sequence[ShellCommand]) -> list[ShellCommand]:
    """The commands that start vLLM; all of them, if none shows that it does and there is only one."""
    others = [each for each in commands if not each.is_list]
    possible = [each for each in others if words[each.places[0]].text not in PRINTERS]
    return (
        [each for each in possible if _is_server([words[place].text for place in each.places])]
        or [each for each in possible if words[each.places[0]].text.startswith(CONTAINER_COMMAND)]
        or [each for each in possible if any("vllm" in words[place].text for place in each.places)]
        or (possible if len(others) == 1 else [])
    )


def _is_server(texts: Sequence[str]) -> bool:
    names = [text.rpartition("/")[2] for text in texts]
    return ("vllm", "serve") in pairwise(names) or any(text.startswith(SERVERS) for text in texts)


class OptionWords(Struct, frozen=True):
    """The places of the words in which an option may be edited; it is uncertain if another command uses them too."""

    places: frozenset[int]
    is_certain: bool = True


def choices(text: str, words: Sequence[ShellWord]) -> list[OptionWords]:
    """The words in which an option may be edited, the likeliest first.

    Those of the commands that start vLLM, those of lists, and both; all words if no command shows that it starts vLLM.
    """
    commands = commands_of(words)
    starting = _places(starting_commands(words, commands))
    lists = [each for each in commands if each.is_list]
    if not starting and len(commands) == 1:
        return [OptionWords(_places(commands))]
    places = _places(lists)
    is_certain = not _are_used_elsewhere(text, words, lists)
    found = [OptionWords(starting), OptionWords(places, is_certain), OptionWords(starting | places, is_certain)]
    return [each for each in dict.fromkeys(found) if each.places]


def _are_used_elsewhere(text: str, words: Sequence[ShellWord], lists: Sequence[ShellCommand]) -> bool:
    """Whether a command that does not start vLLM uses one of the arrays, or the arguments that a `set` gives."""
    names: set[str] = set()
    has_set = False
    for each in lists:
        if words[each.places[0]].text == "set":
            has_set = True
        elif (found := ARRAY.fullmatch(_word_before(words, each.places[0]))) is not None:
            names.add(found[1])
    if has_set and uses_arguments(text, words):
        return True
    return bool(names) and not names.isdisjoint(variables_used_elsewhere(text, words))


def _word_before(words: Sequence[ShellWord], place: int) -> str:
    """The last word before a place, without operators: `A=` before the words of an array; empty if there is none."""
    while place and words[place - 1].is_operator:
        place -= 1
    return words[place - 1].text if place else ""


def uses_arguments(text: str, words: Sequence[ShellWord]) -> bool:
    """Whether a command that does not start vLLM, or a here-document, uses the script's arguments: `"$@"`, `shift`."""
    if any(ARGUMENTS.search(text, *span) for span in _expanded_documents(words)):
        return True
    commands = commands_of(words)
    starting = _places(starting_commands(words, commands))
    for command in commands:
        own = [words[place] for place in command.places]
        if command.is_list or command.places[0] in starting:
            continue
        if own[0].text in READERS_OF_ARGUMENTS or (own[0].text == "for" and "in" not in [word.text for word in own]):
            return True
        if any(not word.is_certain and ARGUMENTS.search(text, word.start, word.end) for word in own):
            return True
    return False


def _places(commands: Iterable[ShellCommand]) -> frozenset[int]:
    return frozenset(place for command in commands for place in command.places)


def assignments_of(words: Sequence[ShellWord], name: str) -> list[int]:
    """The places of the words that set a variable for the shell or for a command that starts vLLM."""
    commands = commands_of(words)
    starting = _places(starting_commands(words, commands))
    return [
        command.places[number]
        for command in commands
        for number in _assignments(
            [words[place].text for place in command.places],
            name,
            is_start=not starting or command.places[0] in starting,
        )
    ]


def _assignments(texts: Sequence[str], name: str, *, is_start: bool) -> Iterator[int]:
    """The numbers of the words of one command that set a variable."""
    last = max((number for number, text in enumerate(texts) if ASSIGNMENT.match(text) is None), default=-1)
    may_assign, is_exported = True, False
    for number, text in enumerate(texts):
        if text.removeprefix(ENVIRONMENT).startswith(f"{name}="):
            if text.startswith(ENVIRONMENT):
                is_assignment = number == 0
            elif number and texts[number - 1] in OPTIONS_OF_VARIABLES:
                is_assignment = is_start
            else:
                has_program = not is_exported and number < last
                is_assignment = may_assign and (is_start or not has_program)
            if is_assignment:
                yield number
        may_assign = may_assign and (
            text in BEFORE_ASSIGNMENTS or text.startswith("-") or ASSIGNMENT.match(text) is not None
        )
        is_exported = is_exported or text in EXPORTS


def variables_used_elsewhere(text: str, words: Sequence[ShellWord]) -> set[str]:
    """The variables that commands that do not start vLLM use, and here-documents: `rm -rf /x$NAME`."""
    commands = commands_of(words)
    starting = _places(starting_commands(words, commands))
    spans = [
        (word.start, word.end) for place, word in enumerate(words) if not word.is_operator and place not in starting
    ]
    return {name for span in (*spans, *_expanded_documents(words)) for name in USE.findall(text, *span)}


def _expanded_documents(words: Sequence[ShellWord]) -> Iterator[tuple[int, int]]:
    """The spans of the here-documents in which a shell expands variables: those whose delimiter is not quoted."""
    return ((each.start, each.end) for word in words for each in word.documents if each.is_expanded)
