"""The options of Python before its program, as Python 3.10 to 3.14 read them.

Checked with 3.10, 3.11, 3.12 and 3.13; the names of 3.14 are those of its documentation, and were not tried. Not here:
the program that Python runs (`python_command`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.code_variables import loading_option
from policy.intake.command.words import is_uncertain, is_unknown_option
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM_LETTERS: Final = frozenset("cm")
"""The short options whose value is the program; what follows are its arguments."""
VALUE_LETTERS: Final = frozenset("cmWX")
"""The short options that take a value."""
FLAG_LETTERS: Final = frozenset("BEIOPRSbdiqstuvx")
STOP_LETTERS: Final = frozenset("Vh?")
"""The short options with which Python only prints something."""
STOPS: Final = frozenset({"--help", "--help-all", "--help-env", "--help-xoptions", "--version"})
CHECK: Final = "--check-hash-based-pycs"
CHECKS: Final = frozenset({"always", "default", "never"})
REFUSED_VALUES: Final = {
    "utf8": re.compile("(?:=[01])?"),
    "int_max_str_digits": re.compile(
        r"=(?:[-+]?0{1,99}|\+?0{0,99}(?:6[4-9][0-9]|[7-9][0-9]{2}|[1-9][0-9]{3,8}|1[0-9]{9}))?"
    ),
    "tracemalloc": re.compile(
        r"(?:=(?:[-+]?0{1,99}"
        r"|\+?0{0,99}(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?"
    ),
}
"""The settings of `-X` with the values that Python takes, after the name; with another one it ends."""
PERHAPS_REFUSED_VALUES: Final = {
    "frozen_modules": re.compile("(?:=(?:on|off)?)?"),
    "importtime": re.compile("(?:=[12]?)?"),
    "cpu_count": re.compile(r"=(?:default|\+?0{0,99}[1-9][0-9]{0,8})"),
    "gil": re.compile("=1"),
    "context_aware_warnings": re.compile("=[01]"),
    "thread_inherit_context": re.compile("=[01]"),
}
"""The same for settings that only later releases of Python refuse: the first since 3.11, the others since 3.13."""
REFUSAL_MESSAGE: Final = "{} starts nothing with the option {}"
PERHAPS_REFUSED_MESSAGE: Final = "{} may start nothing with the option {}, which some releases of Python refuse"
NO_SITE_MESSAGE: Final = "with `-S` {} does not search the folder of packages, so there may be no vLLM, or another one"


class PythonOptions(Struct):
    """The options of Python up to ``end``, where its file is, or the option ``letter`` with its program.

    ``value`` is what is attached to that option. ``stops``: whether Python only prints something. ``refusal`` says why
    it ends before its program, ``unknown`` is the first option that may be any other, and ``loads`` the first one, as
    shown, by which other code is loaded; empty if there is none.
    """

    end: int
    letter: str = ""
    value: str = ""
    stops: bool = False
    refusal: str = ""
    unknown: str = ""
    loads: str = ""
    doubts: list[str] = []
    names: set[str] = set()
    """The settings of `-X` so far, of each of which the first counts."""


def python_options(words: Sequence[str], start: int) -> PythonOptions:
    """Read the options of the Python at ``start``."""
    found = PythonOptions(start + 1)
    program = quoted(words[start])
    while found.end < len(words):
        word = words[found.end]
        if not word.startswith("-") or word == "-":
            break
        if word == "--":
            found.end += 1
            break
        if is_unknown_option(word, VALUE_LETTERS):
            found.unknown = word
            break
        if word.startswith("--"):
            _read_long(words, program, found)
        else:
            _read_letters(words, program, found)
        if found.letter or found.stops or found.refusal:
            break
    return found


def _read_long(words: Sequence[str], program: str, found: PythonOptions) -> None:
    """Read a long option, and pass it with its value."""
    word = words[found.end]
    given = words[found.end + 1 : found.end + 2]
    found.stops = word in STOPS
    is_known = word == CHECK and all(each in CHECKS or is_uncertain(each) for each in given)
    if not found.stops and not is_known:
        shown = " ".join([word, *given]) if word == CHECK else word
        found.refusal = REFUSAL_MESSAGE.format(program, quoted(shown))
    found.end += 2


def _read_letters(words: Sequence[str], program: str, found: PythonOptions) -> None:
    """Read combined short options, and pass them with the value of the last one; one with the program is not passed."""
    word = words[found.end]
    for index, letter in enumerate(word[1:], 2):
        if letter in PROGRAM_LETTERS:
            found.letter, found.value = letter, word[index:]
            return
        if letter in VALUE_LETTERS:
            attached = word[index:]
            found.end += 1 if attached else 2
            given = words[found.end - 1 : found.end]
            _read_value(program, letter, attached or "".join(given), found, is_known=not any(map(is_uncertain, given)))
            return
        found.stops = letter in STOP_LETTERS
        if not found.stops and letter not in FLAG_LETTERS:
            found.refusal = REFUSAL_MESSAGE.format(program, quoted(f"-{letter}"))
        if found.stops or found.refusal:
            return
        if letter == "S" and not found.doubts:
            found.doubts.append(NO_SITE_MESSAGE.format(program))
        if letter == "O":
            found.loads = found.loads or "-O"  # as with `PYTHONOPTIMIZE`, other compiled files
    found.end += 1


def _read_value(program: str, letter: str, value: str, found: PythonOptions, *, is_known: bool) -> None:
    """Read the value of `-W` or `-X`; of several settings of one name the first counts."""
    name = value.partition("=")[0]
    if letter == "X" and is_known:
        if name in found.names:
            return
        found.names.add(name)
        _check_setting(program, value, name, found)
    found.loads = found.loads or loading_option(letter, value, is_known=is_known)


def _check_setting(program: str, setting: str, name: str, found: PythonOptions) -> None:
    """Check whether Python takes the value of a setting."""
    shown = quoted(f"-X {setting}")
    refused, perhaps_refused = REFUSED_VALUES.get(name), PERHAPS_REFUSED_VALUES.get(name)
    if refused is not None and refused.fullmatch(setting, len(name)) is None:
        found.refusal = REFUSAL_MESSAGE.format(program, shown)
    if perhaps_refused is not None and perhaps_refused.fullmatch(setting, len(name)) is None:
        found.doubts.append(PERHAPS_REFUSED_MESSAGE.format(program, shown))
