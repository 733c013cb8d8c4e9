"""The symbolic links that the commands of a script make, and where a path below one leads.

Without looking at any files: a link may not have been made, so that both paths count.
"""

from __future__ import annotations

from posixpath import basename, dirname
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.filled_folders import FOLDER_OPTION
from policy.intake.command.paths import MAX_PATH, path_in

if TYPE_CHECKING:
    from collections.abc import Sequence

LINKERS: Final = frozenset({"ln", "link"})
MAX_LINKS: Final = 8
"""The maximum number of links that are followed for a path."""


class Links(Struct):
    """The links so far, by resolved path, with the paths to which they lead; two if a name may be that of a folder."""

    _targets: dict[str, str] = {}

    def add(self, arguments: Sequence[str], folder: str) -> None:
        """Note the links that `ln` makes in a working folder."""
        at = next((at for at, word in enumerate(arguments) if FOLDER_OPTION.match(word) is not None), None)
        paths = [word for word in arguments if not word.startswith("-")]
        if at is not None:  # the word after it, or the rest of it, is the folder
            named = arguments[at].partition("=")[2] or "".join(arguments[at + 1 : at + 2])
            paths = [*(path for path in paths if path != named), named]
        elif len(paths) == 1:
            paths = [*paths, "."]
        for source in paths[:-1]:
            for name in (f"{paths[-1]}/{basename(source.rstrip('/'))}", *(paths[-1:] if len(paths) == 2 else ())):  # noqa: PLR2004  # a source and a name
                self._add(path_in(folder, name), source)

    def _add(self, name: str, source: str) -> None:
        target = path_in(dirname(name), source)
        if name and name != target and len(name) <= MAX_PATH and len(target) <= MAX_PATH:
            self._targets[name] = target

    def follow(self, path: str) -> str:
        """Where a resolved path leads; itself if it is at or below none of the links."""
        for _ in range(MAX_LINKS if self._targets and len(path) <= MAX_PATH else 0):
            above = path
            while above and above not in self._targets:
                above = above.rpartition("/")[0]
            if not above:
                break
            path = self._targets[above] + path[len(above) :]
            if len(path) > MAX_PATH:
                break
        return path
