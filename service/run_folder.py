"""The temporary folder of a running service: one for each start, removed at its end.

The next start recognises the folder of a killed service by its free lock, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "runner-policy-"
LOCK: Final = "lock"


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder for the block; folders of killed services are removed first."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as path:
        folder = Path(path)
        descriptor = os.open(folder / f"{LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # It gets its name once it is locked, so that no other start finds it unlocked.
            (folder / f"{LOCK}.new").rename(folder / LOCK)
            yield folder
        finally:
            os.close(descriptor)


def _remove_abandoned(parent: Path) -> None:
    """Remove this user's folders whose lock is free; one without a lock file may be about to be created."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            state = folder.lstat()
            if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid():
                continue
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
