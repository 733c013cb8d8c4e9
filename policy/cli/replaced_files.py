"""Files that are replaced as a whole: what is written becomes the file in one step, and only once it is complete."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PREFIX: Final = ".runner-policy-"
"""How the name of a file begins that is not complete yet."""
STANDARD_STREAMS: Final = (0, 1, 2)


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """What becomes the content of a file when the block ends, in one step; if the block fails, the file is as before.

    A device, a pipe or the file of a standard stream is written directly. A link is followed, and the mode and the
    owner of a file are kept. Where that cannot be done in one step, the content is copied once it is complete.

    Raises:
        OSError: the file cannot be written.
    """
    found = _status(path)
    target = Path(os.path.realpath(path))
    if found is not None and not _is_replaceable(target, found):
        with path.open("wb") as file:
            yield file
        return
    if found is not None:
        os.close(os.open(target, os.O_WRONLY))  # a file that may not be written is not replaced either
    try:
        handle, own = _create(target.parent, 0o666 if found is None else stat.S_IMODE(found.st_mode))
    except PermissionError:
        if found is None:
            raise
        with path.open("wb") as file:  # a file in a folder that has no room for another name
            yield file
        return
    with _removed(own):
        with os.fdopen(handle, "wb") as file:
            yield file
            _flush(file)
        try:
            if found is not None:
                _set_owner_and_mode(own, found)
            own.replace(target)
        except OSError:  # such as a file that is mounted in a container, or that is another user's
            if found is None:
                raise
            with own.open("rb") as complete, target.open("wb") as file:
                shutil.copyfileobj(complete, file)


def replace_file(target: Path, data: bytes, found: os.stat_result, check: Callable[[Path], bool]) -> bool:
    """Replace a file's content in one step, with the mode and the owner that were ``found``; false if ``check`` fails.

    ``check`` gets the file that takes its place.

    Raises:
        OSError: the file cannot be replaced.
    """
    handle, own = _create(target.parent, stat.S_IMODE(found.st_mode))
    with _removed(own):
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            _flush(file)
        _set_owner_and_mode(own, found)
        if not check(own):
            return False
        own.replace(target)
    return True


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_replaceable(target: Path, found: os.stat_result) -> bool:
    """Whether a file is a regular one with this path, and not open as a standard stream."""
    if not stat.S_ISREG(found.st_mode):
        return False
    for stream in STANDARD_STREAMS:
        with suppress(OSError):
            if os.path.samestat(os.fstat(stream), found):
                return False
    real = _status(target)  # another one, or none, for a file that was deleted while it is open
    return real is not None and os.path.samestat(real, found)


def _create(folder: Path, mode: int) -> tuple[int, Path]:
    """A new file in a folder, open for writing; the mask of the process limits its mode."""
    own = folder / f"{PREFIX}{secrets.token_hex(8)}"
    return os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o777), own


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _set_owner_and_mode(own: Path, found: os.stat_result) -> None:
    now = own.stat()
    if (now.st_uid, now.st_gid) != (found.st_uid, found.st_gid):
        os.chown(own, found.st_uid, found.st_gid)
    own.chmod(stat.S_IMODE(found.st_mode))


@contextmanager
def _removed(own: Path) -> Iterator[None]:
    """Remove a file when the block ends, also if a signal ends the command."""
    with _interrupted_by_sigterm():
        try:
            yield
        finally:
            with suppress(OSError):
                own.unlink()


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt the block as SIGINT does, unless the command handles it itself."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
