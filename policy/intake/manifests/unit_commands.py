"""The commands of `ExecStart=` and the like, and why systemd refuses some of them.

Follows `config_parse_exec` of systemd (read at version 257, compared with `systemd-analyze verify` of 252). Not here:
the variables in their words (`systemd`).
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.intake.manifests.unit_file import SEPARATOR, command_words
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIXES: Final = "@-:+!!|"
"""The prefixes that a program may have, each as often as it may be there."""
FORBIDDEN_CHARACTER: Final = re.compile(r"""[\x00-\x1f'"\\\x7f]""")
"""Matches a character that no path of a program may have."""
TYPES: Final = frozenset({"simple", "exec", "forking", "oneshot", "dbus", "notify", "notify-reload", "idle"})
SEVERAL_COMMANDS: Final = "there are several commands, which only a service of `Type=oneshot` may have"


class UnitCommand(NamedTuple):
    """A command: its words, whether `$` stands for itself in them, and why systemd refuses the unit, empty if not."""

    words: list[str]
    is_literal: bool
    refusal: str


def unit_commands(settings: Iterable[str]) -> list[UnitCommand]:
    """The commands of a setting's values; `;` separates those of one value.

    A command without a program is left out. So is one that systemd refuses and that has the prefix `-`, as systemd
    ignores it.
    """
    found: list[UnitCommand] = []
    for setting in settings:
        words, fault, unfinished = command_words(setting)
        words = [*words, unfinished] if fault else words
        parts = [list(part) for is_end, part in groupby(words, SEPARATOR.__eq__) if not is_end]
        for part in parts:
            command = _command(part, fault if part is parts[-1] else "")
            if command is not None:
                found.append(command)
    return found


def _command(words: list[str], fault: str) -> UnitCommand | None:
    prefixes, program = _split_prefixes(words[0])
    if not program and not fault:
        return None
    has_name = "@" in prefixes
    refusal = fault or _refusal(program) or ("`@` needs a name after the program" if has_name and not words[1:] else "")
    if refusal and "-" in prefixes:
        return None
    return UnitCommand([program, *words[1 + has_name :]], ":" in prefixes, refusal)


def _split_prefixes(word: str) -> tuple[str, str]:
    """The prefixes of a command's first word, and the program after them.

    Each may be there once and `!` twice, but not with `+`; what comes then is a character of the program.
    """
    left = list(PREFIXES)
    length = 0
    while word[length : length + 1] in left:
        character = word[length]
        left.remove(character)
        left = [each for each in left if f"{character}{each}" not in ("+!", "!+")]
        length += 1
    return word[:length], word[length:]


def _refusal(program: str) -> str:
    """Why systemd refuses a program; one that begins with a specifier may have an absolute path."""
    if "/" in program and not program.startswith(("/", "%")):
        return f"{quoted(program)} is neither an absolute path nor a name, and systemd replaces no variable in it"
    if FORBIDDEN_CHARACTER.search(program) is not None:
        return f"{quoted(program)} has characters that no program of a unit may have"
    return ""


def refusal_of(starts: list[UnitCommand], others: Iterable[UnitCommand], types: Iterable[str], containers: int) -> str:
    """Why systemd refuses a unit; empty if it does not.

    ``starts`` are the commands of `ExecStart=`, ``types`` the values of `Type=`, and ``containers`` the number of
    commands that Podman adds. systemd ignores types that it does not know.
    """
    refusals = [command.refusal for command in (*starts, *others) if command.refusal]
    known = [each for each in types if each in TYPES]
    is_refused = len(starts) + containers > 1 and known[-1:] != ["oneshot"]
    return next(iter(refusals), SEVERAL_COMMANDS if is_refused else "")
