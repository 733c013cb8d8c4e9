"""The standard streams of the process: closed ones, unwritable ones, and terminals.

Owns what holds for the output of every command. Not here: what a command prints (``console``).
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import IO, TYPE_CHECKING, Final, TextIO

from policy.escaping import escape_lines

if TYPE_CHECKING:
    from typing import BinaryIO

IN, OUT, ERR = 0, 1, 2
ONLY_FAILS: Final = ((IN, os.O_WRONLY), (OUT, os.O_RDONLY))
"""The modes of opening the null device such that reading or writing fails."""


UNWRITABLE: Final = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
"""What writing to an open file fails with. Inputs are read where their names are known."""


class TerminalWriter(io.TextIOWrapper):
    """A text stream to a terminal that escapes control characters in plain text.

    A console of rich writes to ``rich_proxied_file``, since it must write control characters of its own.
    """

    def __init__(self, stream: TextIO, buffer: BinaryIO) -> None:
        super().__init__(
            buffer, encoding=stream.encoding, errors="backslashreplace", line_buffering=True, write_through=True
        )
        self.rich_proxied_file: IO[str] = stream

    def write(self, text: str) -> int:
        """Write the escaped text."""
        super().write(escape_lines(text))
        return len(text)


def prepare() -> None:
    """Make the standard streams fit for every command, before it runs.

    A closed standard input or output fails when it is used, and a closed standard error discards what is written.
    Without this, the next file that is opened would become that stream. What is printed on a terminal as plain text,
    such as JSON, has its control characters escaped.
    """
    for number, mode in (*ONLY_FAILS, (ERR, os.O_WRONLY)):
        if not _is_open(number):
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest free number, which is this one
    sys.stdin = sys.stdin or open(IN, closefd=False)  # noqa: SIM115  # a descriptor, open until the process ends
    sys.stdout = _fit(sys.stdout or open(OUT, "w", closefd=False))  # noqa: SIM115  # as above
    sys.stderr = _fit(sys.stderr or open(ERR, "w", closefd=False))  # noqa: SIM115  # as above


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _fit(stream: TextIO) -> TextIO:
    """The stream, in which no text fails to be encoded; control characters are escaped if it is a terminal."""
    if stream.isatty():
        return TerminalWriter(stream, stream.buffer)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def flush() -> None:
    """Write what is buffered for standard output.

    Raises:
        OSError: it cannot be written.
    """
    sys.stdout.flush()


def discard() -> None:
    """Discard what is buffered and cannot be written, which Python would report when the process ends."""
    for number, stream in ((OUT, sys.stdout), (ERR, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def failure(error: OSError) -> str:
    """What failed, in one line."""
    if error.filename is None and error.errno in UNWRITABLE:
        return f"the output cannot be written: {error.strerror}"
    return str(error)
