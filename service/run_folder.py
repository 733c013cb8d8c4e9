"""The temporary folder of a running service: one for each start, removed at its end.

The next start recognises the folder of a killed service by its free lock, and removes it. Cleaners of temporary files
may delete the folder, or files in it, while the service runs: then it is created again. Other users know its name, so
no process uses what another user has put in its place.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import stat
import tempfile
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.broadcast import Broadcast

log = logging.getLogger("runner_policy")
PREFIX: Final = "runner-policy-"
LOCK: Final = "lock"
INTERVAL: Final = 1.0
"""Seconds between two checks whether something was deleted."""
MAX_COPIES: Final = 4 << 20
"""The maximum bytes of the first process's copies of files that outlive their processes."""


class RunFolderState(Struct, frozen=True):
    """How often the folder, or files that outlive their process, were deleted and created again."""

    created: int = 0
    last_created_at: str | None = None


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A descriptor of the folder for the block.

    Raises:
        OSError: it does not exist, is not a folder, or belongs to another user.
    """
    descriptor = _open(folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(folder: Path) -> int:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        kind = "symbolic link" if folder.is_symlink() else "file"
        raise NotADirectoryError(errno.ENOTDIR, f"expected a folder, got a {kind}; remove it") from error
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it belongs to another user; remove it")
    return descriptor


def file_names(folder: Path) -> list[str]:
    """The names of the files in the folder, in their order.

    Raises:
        OSError: it cannot be read, or is not this service's.
    """
    with open_folder(folder) as descriptor:
        return sorted(os.listdir(descriptor))  # noqa: PTH208  # a path would not be the folder that was checked


def exists(path: Path) -> bool:
    """Whether a file is in the folder, and the folder is this service's."""
    try:
        with open_folder(path.parent) as folder:
            os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def read(path: Path) -> BinaryIO:
    """Open a file of the folder for reading.

    Raises:
        OSError: it cannot be opened, or the folder is not this service's.
    """
    with open_folder(path.parent) as folder:
        return os.fdopen(os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder), "rb")


def create(path: Path) -> BinaryIO:
    """Create a file of the folder for writing.

    Raises:
        OSError: it exists or cannot be created, or the folder is not this service's.
    """
    with open_folder(path.parent) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return cast("BinaryIO", os.fdopen(os.open(path.name, flags, 0o600, dir_fd=folder), "wb"))


def create_unnamed(path: Path) -> BinaryIO:
    """Create a file in the folder, open for reading and writing, and remove its name at once.

    Raises:
        OSError: it cannot be created, or the folder is not this service's.
    """
    with open_folder(path.parent) as folder:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.fdopen(os.open(path.name, flags, 0o600, dir_fd=folder), "rb")
        os.unlink(path.name, dir_fd=folder)
        return file


def replace(path: Path, data: bytes) -> None:
    """Write a file of the folder; other processes read either the file before or this one.

    Raises:
        OSError: it cannot be written, or the folder is not this service's.
    """
    part = f"{path.name}.{os.getpid()}.tmp"
    with open_folder(path.parent) as folder:
        try:
            with os.fdopen(
                os.open(
                    part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder
                ),
                "wb",
            ) as file:
                file.write(data)
            os.rename(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise


def remove(path: Path) -> None:
    """Remove a file of the folder, if it can be."""
    with suppress(OSError), open_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


class RunFolder:
    """The folder in the first process, which creates again what was deleted."""

    def __init__(self, path: Path, is_ended: Callable[[str], bool | None]) -> None:
        """``is_ended`` says by a file's name whether its process has ended; ``None`` if it need not outlive it.

        Raises:
            OSError: the folder cannot be locked.
        """
        self.path = path
        self._is_ended = is_ended
        self._copies: dict[str, bytes] = {}
        self._locks: list[int] = []
        self._state = RunFolderState()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock()

    def start(self, states: Broadcast) -> None:
        """Check the folder in a thread, and send its state to all processes when it was created again."""
        self._thread = threading.Thread(target=self._run, args=[states], name="run-folder", daemon=True)
        self._thread.start()

    def remove(self) -> None:
        """Stop the thread, and remove the folder."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(OSError), open_folder(self.path):
            shutil.rmtree(self.path, ignore_errors=True)
        self._unlock()

    def _run(self, states: Broadcast) -> None:
        while not self._stop.wait(INTERVAL):
            with suppress(OSError):  # every serving process reports that it cannot write its metrics
                created = self._create_missing()
                if created:
                    self._report(created, states)

    def _report(self, created: list[str], states: Broadcast) -> None:
        log.warning(
            "the run folder was deleted, or files in it; they are created again",
            extra={"folder": str(self.path), "names": created},
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._state = RunFolderState(self._state.created + 1, now)
        states.send(msgspec.json.encode(self._state))

    def _create_missing(self) -> list[str]:
        """Create again what is missing; return the names.

        Raises:
            OSError: something cannot be created.
        """
        created = []
        if not self._is_locked():
            with suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
                created.append(self.path.name)
            self._lock()
            created.append(LOCK)
        found = set(file_names(self.path))
        for name in filter(self._is_ended, self._copies.keys() - found):
            replace(self.path / name, self._copies[name])
            created.append(name)
        for name in found:
            if self._is_ended(name) is False or (self._is_ended(name) and name not in self._copies):
                with suppress(OSError), read(self.path / name) as file:
                    self._copy(name, file.read())
        return created

    def _copy(self, name: str, data: bytes) -> None:
        """Keep a copy, as long as there is room for it."""
        others = sum(len(copy) for other, copy in self._copies.items() if other != name)
        if others + len(data) <= MAX_COPIES:
            self._copies[name] = data

    def _is_locked(self) -> bool:
        """Whether the folder and the lock in it are those that are locked."""
        try:
            with open_folder(self.path) as folder:
                found = [os.fstat(folder), os.stat(LOCK, dir_fd=folder, follow_symlinks=False)]
        except FileNotFoundError:
            return False
        held = [os.fstat(lock) for lock in self._locks]
        return len(held) == len(found) and all(map(os.path.samestat, found, held))

    def _lock(self) -> None:
        """Lock the folder, so that systemd-tmpfiles does not clean it, and a file in it for the next start.

        The file gets its name once it is locked, so that no other start finds it unlocked.
        """
        self._unlock()
        folder = _open(self.path)
        self._locks.append(folder)
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        new = f"{LOCK}.new"
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._locks.append(os.open(new, flags, 0o600, dir_fd=folder))
        fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(new, LOCK, src_dir_fd=folder, dst_dir_fd=folder)

    def _unlock(self) -> None:
        while self._locks:
            os.close(self._locks.pop())


@contextmanager
def run_folder(is_ended: Callable[[str], bool | None]) -> Iterator[RunFolder]:
    """A folder for the block; folders of killed services are removed first."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        folder = RunFolder(path, is_ended)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    try:
        yield folder
    finally:
        folder.remove()


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
