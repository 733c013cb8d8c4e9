"""The folders to which the commands of a script change, and whether a server certainly starts in them.

Not here: which folder that makes for the server of a container (`manifests.working_folder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.paths import HOME_PATH, MAX_PATH, path_in
from policy.intake.command.replaced_program import CD_OPTIONS
from policy.intake.command.words import UncertainFolder, Unknown

if TYPE_CHECKING:
    from policy.intake.command.script_commands import Command
    from policy.intake.command.script_context import Variables

MAX_MARKED: Final = 16
"""How many of the last changes of the working folder are checked for whether they may fail."""


class EnteredFolders(Struct):
    """The folders to which the commands so far change, as written; one that is not known is an `Unknown`."""

    _folders: list[str] = []
    _changes: list[int] = []
    """The positions of the commands that change to them."""

    @property
    def count(self) -> int:
        """The number of folders."""
        return len(self._folders)

    def enter(self, command: Command, env: Variables, at: int) -> None:
        """Note the folder that the command at a position enters, in the environment of the script."""
        self._folders.append(_entered(command, env))
        self._changes.append(at)

    def folder_in(self, folder: str) -> str:
        """The absolute folder after the last change, which was made in ``folder``; empty if it is not known."""
        last = self._folders[-1]
        if type(last) is Unknown or len(last) > MAX_PATH or (last[:1] != "/" and not folder):
            return ""
        found = path_in(folder, last)
        return found if found[:1] == "/" else ""

    def folders_before(self, commands: list[Command], server: Command) -> list[str]:
        """The folders before a server; an `UncertainFolder` is one that the script may fail to enter."""
        last = zip(self._folders[-MAX_MARKED:], self._changes[-MAX_MARKED:], strict=True)
        return self._folders[:-MAX_MARKED] + [
            folder if _is_anywhere(folder) or _is_certain(commands[at : at + 2], server) else UncertainFolder(folder)
            for folder, at in last
        ]

    def repeated_folders(self, start: int) -> list[str]:
        """The folders from the ``start`` on, for a server that may start again after the commands have been repeated.

        A relative folder may be within a different one each time, so it is not known.
        """
        return [
            UncertainFolder(folder) if type(folder) is not Unknown and folder[:1] in {"/", "~"} else Unknown(folder)
            for folder in self._folders[start:]
        ]


def _entered(command: Command, env: Variables) -> str:
    """The folder that `cd` enters: the home if it names none, and an `Unknown` if `CDPATH` may lead elsewhere.

    Of several operands dash enters the first, where bash enters none.
    """
    named = [word for word in command.words[1:] if word not in CD_OPTIONS]
    target = named[-1] if named else "~"
    home = command.env.get("HOME", env.get("HOME"))
    if (
        len(named) > 1
        or target == "-"
        or (target[:1] not in {"/", ".", "~"} and command.env.get("CDPATH", env.get("CDPATH", "")) != "")
    ):
        return Unknown(target)
    return f"{home}{target[1:]}" if home and (target == "~" or target.startswith("~/")) else target


def _is_anywhere(folder: str) -> bool:
    """Whether a folder is not known, other than one in a home."""
    return type(folder) is Unknown and HOME_PATH.fullmatch(folder) is None


def _is_certain(commands: list[Command], server: Command) -> bool:
    """Whether a command, with the one after it, has certainly run and succeeded if a server starts later.

    That is so under `set -e`, in `COMMAND && … && SERVER`, and in `COMMAND || exit`.
    """
    command, after = commands[0], commands[-1]
    if (
        command.unreached
        or command.is_masked
        or command.is_background
        or command.joiner == "||"
        or command.depth != after.depth
    ):
        return False
    if command.is_required:
        return True
    if after.joiner == "||":
        ends = after.words[0] == "exit" and not (after.is_masked or after.is_background)
        return ends and command.depth == 0 and command.joiner == ""
    is_guarded = after is server or (after.condition is not None and after.condition is server.condition)
    return after.joiner == "&&" and is_guarded
