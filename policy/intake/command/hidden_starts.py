"""Find what lets a script run text that is read as data, or a different program than a name says.

A script that starts no server as it is read may start one in such a way: `alias cat=sh`, or a `cat` that is a link to a
shell. Not here: whether the script names vLLM's server, without which none of this counts (`launcher`), and what shells
read differently from each other (`ambiguous_text`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.known_programs import TOOLS, is_known_program
from policy.intake.command.launcher_tables import LAUNCHERS
from policy.intake.command.programs import (
    COPY_PROGRAMS,
    INTERPRETERS,
    PROGRAMS,
    PYTHON,
    RENAMING_COMMANDS,
    SETTINGS_NAME,
    SHELLS,
    TEXT_PROGRAMS,
    is_unknown,
    mentions_vllm,
)
from policy.intake.command.reading_programs import AWK, READERS, sed_runs
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.intake.command.script_commands import Command

RENAMING_BUILTINS: Final = RENAMING_COMMANDS | {"enable"}
"""Commands of a shell that change which program a name runs."""
RENAMING_WORD: Final = re.compile(r"[^-].*|-[A-Za-z]*[pnfd]", re.DOTALL)
"""Matches a word with which such a command changes a name."""
LISTING_COMMANDS: Final = frozenset({"alias", "enable"})
"""The commands among these that list names with `-p`."""
SOURCE_COMMANDS: Final = frozenset({".", "source"})
PLACING_PROGRAMS: Final = (COPY_PROGRAMS - {"cat", "tee"}) | {"mount", "rename", "update-alternatives"}
"""Programs that may put one file in the place of another."""
KNOWN_PROGRAMS: Final = TEXT_PROGRAMS | TOOLS
"""Programs whose names say that they do not run their input or arguments."""
PRINTING_PROGRAMS: Final = (TEXT_PROGRAMS - {"test"}) | {
    "head",
    "sleep",
    "sort",
    "tail",
    "tee",
    "tr",
    "true",
    "uniq",
    "wc",
}
"""Such programs whose names a script hardly ever gives to anything else, unlike `test`, which may be a folder."""
RUNNERS: Final = frozenset({*SHELLS, *LAUNCHERS, *INTERPRETERS, *PROGRAMS, "env", "eval", "xargs"})
FILES: Final = re.compile(r"[\w.+/-]++")
"""Matches what may be the file of a program, also within a substitution: `$(which sh)`."""
SYSTEM_FOLDERS: Final = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"})
"""The folders whose programs are what their names say, unless a script changes them."""
HARMLESS_PROGRAMS: Final = (TOOLS | READERS) - RENAMING_BUILTINS - PLACING_PROGRAMS - TEXT_PROGRAMS - RUNNERS - {"sed"}
"""Known programs whose names alone say that they do none of this."""
RENAMING_TEXT: Final = re.compile(r"(?:^|[(;&|`\s])(?:alias|enable|hash|ln|cp|mv|install|sed)\s[^;&|\n]*")
"""Matches a command within a substitution that may rename or place a program, or run what it reads."""


def hidden_start(scripts: Iterable[Sequence[Command]]) -> str:
    """Why one of the scripts may run data, or a different program than a name says; empty if none does."""
    return next(filter(None, map(_of_script, scripts)), "")


def _of_script(commands: Sequence[Command]) -> str:
    written: set[str] = set()
    prints = False
    for command in commands:
        words = command.words
        if not (command.is_piped or command.outputs or command.substituted) and words[0] in HARMLESS_PROGRAMS:
            prints = False
            continue
        prints = (prints if command.is_piped else False) or _prints_server(words)
        if prints and command.is_piped and not (_only_reads(words) or is_unknown(words[0])):
            return f"{quoted(words[0])} may run vLLM's server, which it reads from a pipe"
        found = _of_words(words, written) or _of_outputs(command.outputs)
        if found:
            return found
        if command.outputs:
            written.update(command.outputs)
        for each in command.substituted:
            for text in RENAMING_TEXT.findall(each.text):
                if found := _of_words(text.strip("(;&|` \t\n").rstrip(")`").split(), written):
                    return found
    return ""


def places_program(commands: Iterable[Command]) -> bool:
    """Whether a command may put a program in the place of a known one, or give another name to one that runs others."""
    return any(map(_places, commands))


def _places(command: Command) -> bool:
    if _of_outputs(command.outputs) or (command.outputs and any(map(_names_runner, command.words[1:]))):
        return True
    within = (text for each in command.substituted for text in RENAMING_TEXT.findall(each.text))
    return _words_place(command.words) or any(
        _words_place(text.strip("(;&|` \t\n").rstrip(")`").split()) for text in within
    )


def _words_place(words: Sequence[str]) -> bool:
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in PLACING_PROGRAMS:
            sources, target = words[at + 1 : -1], words[-1].rpartition("/")[2]
            is_same = target in {"", ".", *RUNNERS} or PYTHON.fullmatch(target) is not None
            return bool(_placed(words[at + 1 :])) or (not is_same and any(map(_names_runner, sources)))
        if name not in RUNNERS and not word.startswith("-"):
            break
    return False


def _only_reads(words: Sequence[str]) -> bool:
    """Whether a program does not run its input, or what it runs is read elsewhere."""
    name = words[0].rpartition("/")[2]
    return name in READERS or name in AWK or name == "sed" or is_known_program(words, 0)


def _prints_server(words: Sequence[str]) -> bool:
    return words[0].rpartition("/")[2] in TEXT_PROGRAMS and mentions_vllm(" ".join(words[1:]))


def _of_words(words: Sequence[str], written: set[str]) -> str:
    """Why a command, or one that it starts, may change what a name runs, or run data."""
    for at, word in enumerate(words):
        folder, slash, name = word.rpartition("/")
        if slash and name in TEXT_PROGRAMS and folder not in SYSTEM_FOLDERS:
            return f"{quoted(word)} may be any program"
        if name in RENAMING_BUILTINS and _renames(name, words[at + 1 :]):
            return f"`{name}` may change which program a name runs"
        if name == "sed" and sed_runs(words[at + 1 :]):
            return "`sed` may run what it reads"
        if name in PLACING_PROGRAMS and (found := _placed(words[at + 1 :])):
            return f"{quoted(name)} may put another program in the place of {quoted(found)}"
        if name in SOURCE_COMMANDS and (file := "".join(words[at + 1 : at + 2])) in written and _is_settings(file):
            return f"{quoted(file)}, which the script writes, may change which program a name runs"
        if name not in RUNNERS and not word.startswith("-"):
            break
    return ""


def _is_settings(file: str) -> bool:
    return SETTINGS_NAME.fullmatch(file.rpartition("/")[2]) is not None


def _renames(name: str, arguments: Sequence[str]) -> bool:
    named = [word for word in arguments if not (name in LISTING_COMMANDS and word == "-p")]
    return any(RENAMING_WORD.fullmatch(word) is not None for word in named)


def _placed(arguments: Sequence[str]) -> str:
    """The program that a command may replace by another, or whose name it may give to another; empty if none."""
    names = [
        word.partition("=")[2].rpartition("/")[2] if "=" in word else word.rpartition("/")[2] for word in arguments
    ]
    found = next((name for name in names if name in PRINTING_PROGRAMS), "")
    if found or not names:
        return found
    is_open = names[-1] in KNOWN_PROGRAMS or "$" in names[-1] or "`" in names[-1]
    return names[-1] if is_open and any(map(_names_runner, arguments[:-1])) else ""


def _names_runner(word: str) -> bool:
    """Whether a word names a program that runs what it gets."""
    names = (file.rpartition("/")[2] for file in FILES.findall(word))
    return any(name in RUNNERS or PYTHON.fullmatch(name) is not None for name in names)


def _of_outputs(outputs: Iterable[str]) -> str:
    found = next((file for file in outputs if "/" in file and file.rpartition("/")[2] in PRINTING_PROGRAMS), "")
    return f"{quoted(found)}, which the script writes, may be any program" if found else ""
