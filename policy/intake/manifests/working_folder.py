"""The working folder of a container's server: the container's own or its image's, and what its command changes to.

Not here: which folders a command changes to (`script_servers`).
"""

from __future__ import annotations

from posixpath import isabs, join
from typing import TYPE_CHECKING, Final

from policy.intake.command.paths import ANY_FOLDER, HOME_PATH, VOLATILE_FOLDERS, absolute_path, resolve
from policy.intake.command.words import UncertainFolder, Unknown
from policy.intake.manifests.mounts import resolved_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.intake.manifests.mounts import Mounts

MAX_FOLDER: Final = 4096
MAX_OTHER_FOLDERS: Final = 8
"""The most other folders that are tracked in which a script may still be; with more, its folder is not known."""
EXPANSION_CHARACTERS: Final = frozenset("$`*?[")
"""The characters of a folder that a shell may expand, besides `~` at its beginning."""


def working_folder(own: str, folders: Iterable[str], mounts: Mounts, words: Sequence[str]) -> str:
    """The folder after a command changes to ``folders`` from the container's ``own``; `ANY_FOLDER` if it is not known.

    It is relative to the image's if nothing states it, and empty if it may be the home of the image's user. It is not
    known either if the command may stay in another folder where a mount may have a relative model among the server's
    ``words``.
    """
    is_unknown = type(own) is Unknown  # by the shell that starts the container, whose home is not the image's
    folder = ANY_FOLDER if is_unknown else _changed("", own)
    left: dict[str, None] = {}
    for each in folders:
        left = dict.fromkeys(_changed(other, each) for other in left) | (left if type(each) is UncertainFolder else {})
        if type(each) is UncertainFolder:
            left[folder] = None
        folder = _changed(folder, each)
        left.pop(folder, None)
        if len(left) > MAX_OTHER_FOLDERS:
            return ANY_FOLDER
    stays = any(_may_have_model(each, mounts, words) for each in left)
    return ANY_FOLDER if stays else resolved_path(folder) if isabs(folder) else folder


def start_folder(own: str, image: str) -> str:
    """The absolute folder in which a container starts; empty if it is not known.

    ``own`` is the container's, as stated or empty, and ``image`` its image's, empty if it is not known.
    """
    if type(own) is Unknown:
        return ""
    folder = _changed(image, own) if own else image
    return resolved_path(folder) if isabs(folder) else ""


def _changed(folder: str, path: str) -> str:
    """The folder after a change from ``folder`` to ``path``; empty for the home, `ANY_FOLDER` if it is not known."""
    if HOME_PATH.fullmatch(path) is not None:
        return ""
    is_unknown = type(path) is Unknown or path == "-" or path[:1] == "~" or not EXPANSION_CHARACTERS.isdisjoint(path)
    if is_unknown or len(folder) + len(path) > MAX_FOLDER or (folder == ANY_FOLDER and not isabs(path)):
        return ANY_FOLDER
    joined = join(folder, path)
    if not isabs(joined):
        return joined
    found = absolute_path(joined)
    is_left = "/.." in joined and resolve(joined) != resolve(found)  # only the program knows where this leads
    return ANY_FOLDER if is_left or found.startswith(VOLATILE_FOLDERS) else found


def _may_have_model(folder: str, mounts: Mounts, words: Sequence[str]) -> bool:
    """Whether a mount may have a folder with the name of a relative model in another folder."""
    if folder == ANY_FOLDER:
        return bool(mounts.model_mounts(folder))
    if not isabs(folder):
        return False
    above = f"{resolved_path(folder).rstrip('/')}/"
    owners = {word.partition("/")[0] for word in words}
    return any(
        above.startswith(f"{path.rstrip('/')}/")
        or (path.startswith(above) and path[len(above) :].partition("/")[0] in owners)
        for path in mounts.model_mounts(folder)
    )
