"""The options of the program `xargs`, before the command that it starts.

Options are read as GNU xargs reads them: https://www.gnu.org/software/findutils/manual/html_node/find_html/xargs-options.html.
"""

from __future__ import annotations

from typing import Final

VALUES: Final = frozenset("adEILnPsJR")
"""The short options that take a value."""
OPTIONAL: Final = frozenset("eil")
"""The short options whose value has to be attached."""
LONG: Final = ("arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var")
"""The long options that take a value; that of `--replace`, `--eof` and `--max-lines` has to be attached."""
REPLACING: Final = frozenset("IiJ")
INPUT: Final = "{}"


def xargs_options(words: list[str], at: int) -> tuple[int, str]:
    """The position of the command, and the text in it that is replaced: empty if the input follows the command."""
    replaced = ""
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if "replace".startswith(name):
                replaced = value or INPUT
            elif not equals and any(option.startswith(name) for option in LONG):
                at += 1
            continue
        letter, value = _short(word)
        if letter in VALUES and not value:
            value = "".join(words[at : at + 1])
            at += 1
        if letter in REPLACING:
            replaced = value or INPUT
    return at, replaced


def _short(word: str) -> tuple[str, str]:
    """The short option of a word that takes a value, and the value if it is attached: `-0I%`."""
    for index, letter in enumerate(word[1:], 2):
        if letter in VALUES or letter in OPTIONAL:
            return letter, word[index:]
    return "", ""
