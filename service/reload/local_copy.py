"""The local copy of a git remote: its creation, its size, and what processes that were ended left in it.

Several services may share its folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import TYPE_CHECKING, Final

from dulwich.errors import NotGitRepository
from dulwich.repo import Repo

from service.reload.address import RulesSourceFailed

if TYPE_CHECKING:
    from service.reload.fetch_messages import FetchLimits

LEFTOVERS: Final = ("objects/pack/tmp*.pack", "objects/pack/*.lock", "shallow.lock", "refs/heads/*.lock")
"""The files that a fetch leaves if it is ended, and the service while it stores the accepted commit."""
STORED: Final = ("objects/pack/*", "refs/heads/*")
"""The files of a local copy to which a commit was fetched."""


def open_repository(folder: Path) -> Repo:
    """The local copy in ``folder``, created if there is none.

    Raises:
        RulesSourceFailed: it cannot be read or created.
    """
    try:
        if not _is_created(folder):
            _create(folder)
    except OSError as error:
        raise RulesSourceFailed(f"{folder}: {error.strerror}") from error
    try:
        return Repo(str(folder))
    except (NotGitRepository, OSError, ValueError) as error:
        raise RulesSourceFailed(f"{folder} cannot be read: {error}; remove it to have it created again") from error


def _is_created(folder: Path) -> bool:
    """Whether there is something that must not be replaced: a local copy, commits, or no folder at all.

    The configuration is the last file that git needs and ``init_bare`` writes.
    """
    if not folder.is_dir():
        return folder.exists()
    return (folder / "config").exists() or any(path for pattern in STORED for path in folder.glob(pattern))


def _create(folder: Path) -> None:
    """Create the local copy, also in place of one whose creation was ended; several processes may do so at once.

    Raises:
        OSError: it cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network file systems do not lock a folder
            fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_created(folder):
            return
        with TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as temporary:
            made = Path(temporary) / "made"
            made.mkdir(mode=0o700)
            Repo.init_bare(str(made)).close()
            with suppress(FileNotFoundError):
                folder.rename(Path(temporary) / "incomplete")
            made.rename(folder)
    finally:
        os.close(lock)


def check_stored(folder: Path, limits: FetchLimits) -> None:
    """Remove what ended fetches left in the local copy, and check its size.

    Raises:
        RulesSourceFailed: it is too large.
    """
    ended = time() - 2 * limits.seconds
    for path in chain(folder.parent.glob(f"{folder.name}.*"), *map(folder.glob, LEFTOVERS)):
        with suppress(OSError):  # another service that shares the folder has removed it
            if path.stat().st_mtime < ended:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    if sum(_size(path) for path in folder.glob("objects/pack/*")) > limits.stored:
        raise RulesSourceFailed(f"{folder} has more than {limits.stored:,} bytes; remove it to have it created again")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
