"""The options of a shell: whether it runs a script, and what it reads first.

Not here: the script itself (`shell`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.programs import mentions_vllm
from policy.intake.command.words import is_uncertain
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SIGNS: Final = frozenset("-+")
"""The first characters of options."""
LONG_OPTIONS: Final = frozenset(
    {
        *("debug", "debugger", "dump-po-strings", "dump-strings", "help", "init-file", "login", "noediting"),
        *("noprofile", "norc", "posix", "pretty-print", "protected", "rcfile", "restricted", "verbose", "version"),
        "wordexp",
    }
)
"""The long options of bash, which precede the others, with one dash or two."""
FILE_OPTIONS: Final = frozenset({"rcfile", "init-file"})
SHELLS_WITH_NAMES: Final = frozenset({"ksh", "zsh"})
"""The shells whose options may have long names anywhere, as in `zsh -c --errexit`."""
PRINT_OPTIONS: Final = frozenset({"dump-po-strings", "dump-strings", "help", "version"})
"""The options with which a shell only prints something."""
STARTUP_OPTIONS: Final = frozenset({"login", *FILE_OPTIONS})
"""The options with which a shell reads start-up files."""
HARMLESS_LETTERS: Final = frozenset("cefhilnouvxB")
"""The short options that do not change what a script means, or whose effect is known here."""
HARMLESS_OPTION_NAMES: Final = frozenset(
    {"errexit", "hashall", "noexec", "noglob", "nounset", "pipefail", "verbose", "xtrace"}
)
"""The same for names after `-o`."""
HARMLESS_LONG_OPTIONS: Final = STARTUP_OPTIONS | {"noediting", "noprofile", "norc", "verbose"}
"""The same for long options."""
TRACE_PREFIX: Final = "PS4"
"""The variable that every shell expands before each line of its trace, as with `-x`; this may set other variables."""
STARTUP_VARIABLES: Final = ("BASH_ENV", "BASHOPTS", "POSIXLY_CORRECT", TRACE_PREFIX, "SHELLOPTS")
"""The variables that make bash read a file, change its options, or expand text while it runs a script."""
OPTION_VARIABLES: Final = ("BASHOPTS", "SHELLOPTS")
"""Those of them that change the options of bash also if its name is `sh`, as in images of Red Hat."""
EXPANDED: Final = re.compile(r"[$`\\]")
"""Matches what a shell other than bash may expand in `PS4`, where bash counts with any: it also expands prompts."""
FUNCTION_PREFIX: Final = "BASH_FUNC_"
"""The prefix of the variables with exported functions."""
MISSING_OPTION_DOUBT: Final = "a `sh` such as dash has no option `{}`, and ends the script there"
"""The doubt about a script that sets an option of bash in a shell that may be another one."""
PIPEFAIL_DOUBT: Final = MISSING_OPTION_DOUBT.format("pipefail")


class ShellOptions(Struct, frozen=True, gc=False):
    """The options of a shell. ``end`` is the position after them, where the script is if ``has_script``.

    ``changes_meaning``: whether one of them may change what the script means. ``ends_on_failure``: whether a command
    that fails ends the script. ``has_pipefail``: whether each command of a pipeline can make it fail.
    ``refuses_unset``: whether the use of a variable that is not set ends the script. ``unknown`` is the first option
    that may be any other, so that nothing else is known; empty if there is none. ``refused`` is the first option with
    which the shell certainly does not start; empty if there is none.
    """

    end: int
    has_script: bool
    runs: bool
    reads_files: bool
    changes_meaning: bool
    ends_on_failure: bool
    has_pipefail: bool
    refuses_unset: bool
    unknown: str
    refused: str


def shell_options(program: str, words: Sequence[str], at: int) -> ShellOptions:
    """Parse the options from ``at`` on.

    `-o` and `-O` take a value even when combined with others: `-ceo pipefail`. With `-n` or `-o noexec` a shell runs
    nothing, unless it has `-i`. After a short option bash refuses a long one, and dash refuses each.
    """
    found: set[str] = set()
    start = at
    while at < len(words) and (option := _long(program, words[at])):
        found.add(option)
        at += 2 if option in FILE_OPTIONS else 1
    letters, is_off, ends_on_failure, has_pipefail, refuses_unset = "", False, False, False, False
    values_of_o: list[str] = []
    refused = ""
    while at < len(words) and words[at][:1] in SIGNS:
        word = words[at]
        at += 1
        if word in {"-", "--"}:
            break
        if word.startswith("--"):
            refused = refused or (word if program not in SHELLS_WITH_NAMES else "")
            found.add(word[2:])
            continue
        values = word.count("o") + word.count("O")
        values_of_o += words[at : at + values]
        if "n" in word or "noexec" in words[at : at + values]:
            is_off = word[0] == "-"
        if "e" in word or "errexit" in words[at : at + values]:
            ends_on_failure = word[0] == "-"
        if "u" in word or "nounset" in words[at : at + values]:
            refuses_unset = word[0] == "-"
        if "pipefail" in words[at : at + values]:
            has_pipefail = word[0] == "-"
        letters += word[1:]
        at += values
    options = words[start:at]
    unknown = next((word for word in options if word[:1] in SIGNS and is_uncertain(word)), "")
    return ShellOptions(
        at,
        "c" in letters,
        found.isdisjoint(PRINT_OPTIONS) and "D" not in letters and (not is_off or "i" in letters),
        not found.isdisjoint(STARTUP_OPTIONS) or "l" in letters or "i" in letters,
        not (
            HARMLESS_LETTERS.issuperset(letters)
            and HARMLESS_OPTION_NAMES.issuperset(values_of_o)
            and found <= HARMLESS_LONG_OPTIONS
        ),
        ends_on_failure,
        has_pipefail,
        refuses_unset,
        unknown,
        refused,
    )


def _long(program: str, word: str) -> str:
    """The name of a long option; empty if the word is not one. dash has none."""
    name = word.removeprefix("-").removeprefix("-")
    is_long = (word.startswith("--") and program != "dash") or (program == "bash" and word.startswith("-"))
    return name if is_long and name in LONG_OPTIONS else ""


def startup_doubt(program: str, options: ShellOptions, env: Mapping[str, str | None]) -> str:
    """Why a shell may not run its script as written; empty if there is no such reason."""
    if options.reads_files:
        return f"{quoted(program)} reads start-up files before its script, and they may set any variable"
    if options.changes_meaning:
        return f"the options of {quoted(program)} may change what its script means"
    names = {"bash": STARTUP_VARIABLES, "sh": OPTION_VARIABLES}.get(program, ())
    found = next((name for name in names if env.get(name, "") != ""), None)
    if found is None and _is_expanded(env.get(TRACE_PREFIX, "")):
        found = TRACE_PREFIX
    if found is not None:
        return f"the variable `{found}` may change how {quoted(program)} interprets its script"
    if any(name.startswith(FUNCTION_PREFIX) for name in env):
        return f"variables `{FUNCTION_PREFIX}…` are functions that {quoted(program)} may run in place of programs"
    return ""


def _is_expanded(value: str | None) -> bool:
    """Whether a shell may expand something in `PS4`; ``value`` is None if it is not known."""
    return value is None or EXPANDED.search(value) is not None


def startup_text(env: Mapping[str, str | None], known: dict[str, bool]) -> str:
    """The variable that names vLLM's server and that a shell evaluates or defines as a function; empty if none does.

    ``known`` keeps which values name it, as each shell of a script may get the same long ones.
    """
    for name, value in env.items():
        if value and (name in STARTUP_VARIABLES or name.startswith(FUNCTION_PREFIX)):
            if value not in known:
                known[value] = mentions_vllm(value)
            if known[value]:
                return name
    return ""
