"""Copies and links that are named after their sources, if the names of these are not known: `cp -r /data/* .`."""

from __future__ import annotations

from posixpath import basename
from typing import TYPE_CHECKING, Final

from policy.intake.command.filled_folders import COPYING_PROGRAMS, RECURSIVE_OPTION, is_content, targets_of
from policy.intake.command.possible_paths import PossiblePath, possible_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RUNNERS: Final = frozenset({"find", "parallel", "xargs"})
"""Programs that run another one with words that they read or find."""
UNKNOWN_NAMES: Final = "$names"
"""Stands for words that such a program adds."""
COMMAND_ENDS: Final = frozenset({";", "+", "\\;"})


def copied_names(folder: str, program: str, arguments: Sequence[str]) -> Iterator[PossiblePath]:
    """The paths that a command may create, as far as their names are known."""
    if program in RUNNERS:
        at = next((at for at, word in enumerate(arguments) if basename(word) in COPYING_PROGRAMS), None)
        if at is None:
            return
        end = next((end for end in range(at, len(arguments)) if arguments[end] in COMMAND_ENDS), len(arguments))
        adds = program == "xargs" and not any(word.startswith(("-I", "-i", "--rep")) for word in arguments[:at])
        program, arguments = basename(arguments[at]), [*arguments[at + 1 : end], *([UNKNOWN_NAMES] if adds else ())]
    if program not in COPYING_PROGRAMS or (
        program in {"cp", "scp"} and not any(map(RECURSIVE_OPTION.match, arguments))
    ):
        return
    target, sources = targets_of(arguments)
    for source in dict.fromkeys(sources):
        if is_content(program, source) or source == UNKNOWN_NAMES:
            yield possible_child(folder, target, source)
