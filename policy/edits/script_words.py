"""The words of a script and of the scripts in its here-documents, which a shell reads from its input.

Owns which here-documents are such scripts: those of a command that starts a shell, or is piped into one. All others
are no words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.edits.shell_commands import PRINTERS, commands_of
from policy.edits.shell_words import ShellWord, shell_words
from policy.intake.command.nested_commands import MAX_DEPTH
from policy.intake.command.programs import SHELLS, TEXT_PROGRAMS
from policy.intake.command.shell_options import shell_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.edits.shell_commands import ShellCommand
    from policy.edits.shell_words import HereDocument

OTHER_READERS: Final = PRINTERS | TEXT_PROGRAMS | {"dd", "tee"}
"""Programs that run nothing of what they read."""
REMOTE_SHELL: Final = "ssh"
FLAGS_OF_SSH: Final = re.compile(r"-[46AaCfGgKkMNnqsTtVvXxYy]+")
EXPANDED: Final = re.compile(r"[$`\\]")
"""What a shell replaces in a here-document before the shell that reads it does."""


def script_words(text: str, depth: int = 0) -> list[ShellWord]:
    """The words and operators of a script in their order, with those of the here-documents that shells read.

    Such a document is between two ends of lines. Its words are uncertain where the outer shell expands something too.
    """
    words = shell_words(text)
    if depth == MAX_DEPTH or not any(word.documents for word in words):
        return words
    commands = commands_of(words)
    firsts = [command.places[0] for command in commands]
    found: list[ShellWord] = []
    for word in words:
        scripts = _scripts(words, commands, firsts, word.documents) if word.documents else ()
        if not scripts:
            found.append(word)
            continue
        others = tuple({*word.documents} - {*scripts})
        found.append(replace(word, end=word.start + 1, ends=[word.start + 1], documents=others))
        for each in scripts:
            found += _inner_words(text, each, depth)
            found.append(ShellWord(each.end, each.end, "\n", [each.end], [each.end], is_operator=True))
    return found


def _inner_words(text: str, document: HereDocument, depth: int) -> Iterator[ShellWord]:
    """The words of a here-document, with their places in the text around it."""
    start = document.start
    for word in script_words(text[start : document.end], depth + 1):
        begin, end = word.start + start, word.end + start
        is_replaced = document.is_expanded and EXPANDED.search(text, begin, end) is not None
        yield replace(
            word,
            start=begin,
            end=end,
            starts=[at + start for at in word.starts],
            ends=[at + start for at in word.ends],
            is_certain=word.is_certain and not is_replaced,
            documents=tuple(
                replace(
                    each,
                    start=each.start + start,
                    end=each.end + start,
                    is_expanded=each.is_expanded or document.is_expanded,
                )
                for each in word.documents
            ),
        )


def _scripts(
    words: Sequence[ShellWord],
    commands: Sequence[ShellCommand],
    firsts: Sequence[int],
    documents: Sequence[HereDocument],
) -> list[HereDocument]:
    """Those of the here-documents of a line that a shell reads; a program reads only the last one of its own."""
    own: dict[int, HereDocument] = {}
    for each in documents:
        own[bisect_left(firsts, each.operator) - 1] = each
    return [
        each
        for number, each in own.items()
        if number >= 0
        and (
            _reads_script(_texts(words, commands[number]))
            or (
                _is_piped(words, commands[number + 1 : number + 2], each.operator)
                and _reads_script(_texts(words, commands[number + 1]))
            )
        )
    ]


def _texts(words: Sequence[ShellWord], command: ShellCommand) -> list[str]:
    return [words[place].text for place in command.places]


def _is_piped(words: Sequence[ShellWord], following: Sequence[ShellCommand], operator: int) -> bool:
    """Whether the command with an operator of a here-document is piped into the next one, in the same line."""
    if not following:
        return False
    first = following[0].places[0]
    between = [word.text for word in words[operator:first] if word.is_operator]
    return between[-1] == "|" and between.count("|") == 1 and not {";", "\n", "(", ")"}.intersection(between)


def _reads_script(texts: Sequence[str]) -> bool:
    """Whether a command is a shell that reads its program from its input, or starts one, also on another host."""
    for at, text in enumerate(texts):
        name = text.rpartition("/")[2]
        if name in SHELLS:
            options = shell_options(name, texts, at + 1)
            reads_input = options.end == len(texts) or "-s" in texts[at + 1 : options.end]
            return options.runs and not options.has_script and reads_input
        if name in OTHER_READERS:
            return False
        if name == REMOTE_SHELL:
            remote = _remote_command(texts[at + 1 :])
            return remote is not None and (not remote or _reads_script(remote))
    return False


def _remote_command(texts: Sequence[str]) -> list[str] | None:
    """The words of the command that `ssh` starts on a host; empty if that is a shell, None if there is no host."""
    at = 0
    while at < len(texts) and texts[at].startswith("-"):
        at += 1 if FLAGS_OF_SSH.fullmatch(texts[at]) is not None or len(texts[at]) > len("-p") else 2
    return " ".join(texts[at + 1 :]).split() if at < len(texts) else None
