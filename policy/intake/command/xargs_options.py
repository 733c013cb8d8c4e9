"""Parse the options of `xargs` before the command that it starts.

Follows GNU xargs: https://www.gnu.org/software/findutils/manual/html_node/find_html/xargs-options.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.words import is_unknown_option

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUE_LETTERS: Final = frozenset("adEILnPsJR")
"""The short options that take a value."""
OPTIONAL_VALUE_LETTERS: Final = frozenset("eil")
"""The short options whose optional value must be attached."""
LONG_OPTIONS: Final = ("arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var")
"""The long options that take a value, except `--replace`, `--eof` and `--max-lines`, whose value must be attached."""
REPLACING_LETTERS: Final = frozenset("IiJ")
INPUT_MARK: Final = "{}"


def xargs_options(words: list[str], at: int) -> tuple[int, str]:
    """The position of the command, and the text in it that the input replaces; empty if the input is appended."""
    replaced = ""
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if "replace".startswith(name):
                replaced = value or INPUT_MARK
            elif not equals and any(option.startswith(name) for option in LONG_OPTIONS):
                at += 1
            continue
        letter, value = _short(word)
        if letter in VALUE_LETTERS and not value:
            value = "".join(words[at : at + 1])
            at += 1
        if letter in REPLACING_LETTERS:
            replaced = value or INPUT_MARK
    return at, replaced


def unknown_option_of(options: Sequence[str]) -> str:
    """The first of the options before the command that may be any other; empty if there is none."""
    return next((word for word in options if is_unknown_option(word, VALUE_LETTERS | OPTIONAL_VALUE_LETTERS)), "")


def _short(word: str) -> tuple[str, str]:
    """The first short option in a word that takes a value, and its attached value, if any: `-0I%`."""
    for index, letter in enumerate(word[1:], 2):
        if letter in VALUE_LETTERS or letter in OPTIONAL_VALUE_LETTERS:
            return letter, word[index:]
    return "", ""
