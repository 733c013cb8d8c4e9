"""The words of a launcher, a program that starts the program in its arguments: its options, operands and subcommands.

Reads them up to the program, as the launcher does. Not here: the launchers (`launcher_tables`), and `env`, `xargs` and
shells, which have their own modules.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.env_options import ASSIGNMENT
from policy.intake.command.words import Unknown, is_unknown_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHORT_OPTIONS: Final = re.compile("-[^-].*", re.DOTALL)
"""Matches one or more short options, possibly with the value of the last one."""


class Meaning(Enum):
    """What an option does to what the launcher starts."""

    KEEPS = "keeps"
    STOPS = "stops"
    """The launcher only prints something, or changes a program that runs already."""
    CHANGES = "changes"
    """It changes variables in an unknown way, or where or whether an installer installs."""
    CLEARS = "clears"
    LOGS_IN = "logs in"
    """What starts is a login shell, if it is a shell."""
    FILE = "file"
    """The next program is a file with a Python program."""
    MODULE = "module"
    """The next program is a module of Python."""
    PROGRAM = "program"
    """The next program is a program, although this launcher usually starts files with Python programs."""


class Option(Struct, frozen=True, gc=False):
    """An option of a launcher: how many words after it are its values, and what it does.

    If it ``takes_value``, the value may be attached to it, and if there are no ``values``, it can only be attached.
    """

    values: int
    takes_value: bool
    meaning: Meaning


class Launcher(Struct, frozen=True, gc=False):
    """A program that starts the program in its arguments: the grammar of its words, and its effect on variables.

    ``operands`` are the forms of the words between its options and the program. With ``commands``, the word there is
    one of them, and its launcher reads the rest. ``number`` is the form of an option that is a number. If it
    ``abbreviates``, a long option may be shortened to any unique beginning. If it ``assigns``, `NAME=VALUE` may stand
    among its options. With ``separator``, everything before `--` is its own. ``ends_options``: whether `--` may stand
    after its options.

    ``changes_variables``: whether it may change variables in an unknown way; it also may if one of ``variables`` is
    set. ``is_read``: whether the grammar is known.
    """

    options: Mapping[str, Option]
    operands: tuple[re.Pattern[str], ...] = ()
    commands: Mapping[str, Launcher] | None = None
    number: re.Pattern[str] | None = None
    abbreviates: bool = True
    assigns: bool = False
    separator: bool = False
    ends_options: bool = True
    starts: Meaning = Meaning.PROGRAM
    changes_variables: bool = False
    variables: tuple[str, ...] = ()
    is_read: bool = True


class LauncherWords(Struct):
    """The words of a launcher up to ``end``, where its program is, and the meanings of its options.

    ``is_unexpected``: whether the word at ``end`` is not in the launcher's grammar, so that the position of the program
    is not known. ``is_command``: whether that is so because it is another subcommand. ``launcher`` is the launcher of
    the subcommand, if there is one.
    """

    end: int
    starts: Meaning
    meanings: set[Meaning]
    launcher: Launcher
    is_unexpected: bool = False
    is_command: bool = False


def launcher(
    *,
    flags: str = "",
    values: str = "",
    pairs: str = "",
    attached: str = "",
    stops: str = "",
    changes: str = "",
    clears: str = "",
    logs_in: str = "",
    files: str = "",
    modules: str = "",
    programs: str = "",
    operands: tuple[re.Pattern[str], ...] = (),
    commands: Mapping[str, Launcher] | None = None,
    number: re.Pattern[str] | None = None,
    abbreviates: bool = True,
    assigns: bool = False,
    separator: bool = False,
    ends_options: bool = True,
    starts: Meaning = Meaning.PROGRAM,
    changes_variables: bool = False,
    variables: tuple[str, ...] = (),
) -> Launcher:
    """A launcher from texts that list its options.

    ``flags`` take no value, ``values`` one, ``pairs`` two; the value of ``attached`` is optional and can only be
    attached. An option in another list, such as ``stops``, takes a value only if it is in one of these, too.
    """
    meanings = {
        option: meaning
        for meaning, listed in (
            (Meaning.STOPS, stops),
            (Meaning.CHANGES, changes),
            (Meaning.CLEARS, clears),
            (Meaning.LOGS_IN, logs_in),
            (Meaning.FILE, files),
            (Meaning.MODULE, modules),
            (Meaning.PROGRAM, programs),
        )
        for option in listed.split()
    }
    counts = {option: count for count, listed in ((1, values), (2, pairs)) for option in listed.split()}
    optional = attached.split()
    return Launcher(
        {
            option: Option(
                counts.get(option, 0), option in counts or option in optional, meanings.get(option, Meaning.KEEPS)
            )
            for option in (*flags.split(), *counts, *optional, *meanings)
        },
        operands,
        commands,
        number,
        abbreviates,
        assigns,
        separator,
        ends_options,
        starts,
        changes_variables,
        variables,
    )


UNREAD_LAUNCHER: Final = Launcher({}, changes_variables=True, is_read=False)
"""A launcher whose grammar is not known, and which may change variables."""


def launcher_words(launcher: Launcher, words: Sequence[str], at: int) -> LauncherWords:
    """Read the words of a launcher, which begin at ``at``."""
    found = LauncherWords(at, launcher.starts, set(), launcher)
    if launcher.separator:
        _read_to_separator(launcher, words, found)
        return found
    read_options(launcher, words, found)
    if found.is_unexpected or Meaning.STOPS in found.meanings or found.end >= len(words):
        return found
    if launcher.commands is not None:
        command = launcher.commands.get(words[found.end])
        if command is None:
            found.is_unexpected = found.is_command = True
            return found
        inner = launcher_words(command, words, found.end + 1)
        inner.meanings |= found.meanings
        return inner
    for form in launcher.operands:
        if found.end < len(words):
            word = words[found.end]
            if type(word) is not Unknown and form.fullmatch(word) is None:
                found.is_unexpected = True
                return found
        found.end += 1
    return found


def _read_to_separator(launcher: Launcher, words: Sequence[str], found: LauncherWords) -> None:
    """Read up to `--`; the words are unexpected if there is none, or if an earlier word may contain one."""
    for index in range(found.end, len(words)):
        word = words[index]
        if word == "--":
            found.end = index + 1
            return
        is_value = index > found.end and words[index - 1].startswith("-")
        if is_unknown_option(word, ()) or (getattr(word, "is_several", False) and not is_value):
            found.end = index
            break
        if (option := launcher.options.get(word)) is not None:
            found.meanings.add(option.meaning)
    found.is_unexpected = found.end < len(words)


def read_options(launcher: Launcher, words: Sequence[str], found: LauncherWords) -> None:
    """Read the options of a launcher from the end of ``found`` on, and `--` after them."""
    while found.end < len(words):
        word = words[found.end]
        if launcher.assigns and ASSIGNMENT.match(word) is not None:
            found.end += 1
            continue
        if not word.startswith("-") or word == "-":
            return
        if word == "--" and launcher.ends_options:
            found.end += 1
            return
        width = _read_option(launcher, word, found)
        if not width:
            found.is_unexpected = True
            return
        found.end += width
        if Meaning.STOPS in found.meanings:
            return


def _read_option(launcher: Launcher, word: str, found: LauncherWords) -> int:
    """How many words an option has with its values, after adding its meaning to ``found``; 0 if it is not known."""
    options, width = launcher.options, 0
    name, equals, _ = word.partition("=")
    if (option := options.get(word)) is not None:
        width = 1 + option.values
    elif (option := options.get(name)) is not None:
        width = 1 if option.takes_value else 0
    elif launcher.number is not None and launcher.number.fullmatch(word) is not None:
        return 1
    elif word.startswith("--"):
        option = _abbreviated(launcher, name)
        if option is not None and equals:
            width = 1 if option.takes_value else 0
        elif option is not None:
            width = 1 + option.values
    elif SHORT_OPTIONS.fullmatch(word) is not None:
        return _read_letters(launcher, word, found)
    if option is not None and width:
        _add(option.meaning, found)
    return width


def _read_letters(launcher: Launcher, word: str, found: LauncherWords) -> int:
    """The same for combined short options: the last one may have an attached value, or take the next word."""
    for index, letter in enumerate(word[1:], 2):
        option = launcher.options.get(f"-{letter}")
        if option is None:
            return 0
        _add(option.meaning, found)
        if option.takes_value:
            return 1 if index < len(word) else 1 + option.values
        if option.meaning is Meaning.STOPS:
            return 1
    return 1


def _abbreviated(launcher: Launcher, name: str) -> Option | None:
    """The long option that a word abbreviates; None if there is none, or there are several."""
    if not launcher.abbreviates:
        return None
    found = [option for each, option in launcher.options.items() if len(name) > len("--") and each.startswith(name)]
    return found[0] if len(found) == 1 else None


def _add(meaning: Meaning, found: LauncherWords) -> None:
    """Add the meaning of an option."""
    if meaning is Meaning.FILE or meaning is Meaning.MODULE or meaning is Meaning.PROGRAM:
        found.starts = meaning
    elif meaning is not Meaning.KEEPS:
        found.meanings.add(meaning)
