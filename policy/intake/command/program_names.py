"""Names of programs that only a shell understands, in a command whose words no shell reads.

A container's `command`, `docker run`, `ExecStart=`, `env` and other launchers start a program by its name as written:
they have no `exec` and no assignments, and replace neither `$HOME` nor `~`. Not here: what comes after these words,
which is read as if a shell had read them (`program_walk`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from policy.intake.command.words import ASSIGNMENT
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELL_COMMANDS: Final = frozenset({"exec", "command", "builtin", "eval", "source", "."})
"""Commands of shells that start what follows them; a few systems have a program `command` too."""
SHELL_KEEPING_COMMANDS: Final = frozenset({"command", "builtin"})
"""The commands after which the shell still reads its own commands: `command exec vllm`."""
EXPANSION_CHARACTERS: Final = frozenset("$`*?[{")
"""The characters in a folder that a shell would expand."""
MAX_DOUBTS: Final = 8
"""How many doubts about the programs of one command are kept."""
MISSING_PROGRAM_MESSAGE: Final = (
    "no shell reads {}, so that it is the name of a program as written, which may not exist"
)


def is_expansion(word: str) -> bool:
    """Whether a known word is a path in whose folder a shell would have replaced something."""
    if type(word) is not str:
        return False
    return word.startswith("~") or not EXPANSION_CHARACTERS.isdisjoint(word.rpartition("/")[0])


def program_doubts(programs: Sequence[str], *, is_script: bool) -> list[str]:
    """Why the programs of a command may not exist; ``is_script``: whether a shell reads the first of them.

    A shell has read the words of its script, so a word that still begins like an assignment is not one: `"A=b" vllm`.
    """
    found: dict[str, None] = {}
    is_shell = is_script
    for word in programs:
        _, slash, name = word.rpartition("/")
        is_shells_own = name in SHELL_COMMANDS and (bool(slash) or not is_shell)
        if is_shells_own or is_expansion(word):
            found[MISSING_PROGRAM_MESSAGE.format(quoted(word))] = None
        elif "=" in word and (assignment := ASSIGNMENT.match(word)) is not None:
            found[MISSING_PROGRAM_MESSAGE.format(quoted(f"{assignment.group()}…"))] = None
        is_shell = is_shell and not slash and name in SHELL_KEEPING_COMMANDS
    return list(islice(found, MAX_DOUBTS))
