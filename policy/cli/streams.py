"""The standard streams of the process: closed ones, unwritable ones, and terminals.

Owns what applies to the output of every command. Not here: what a command prints (``console``).
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
UNUSABLE_MODES: Final = ((IN, os.O_WRONLY), (OUT, os.O_RDONLY))
"""Streams, and the mode in which the null device is opened in their place so that using them fails."""


WRITE_ERRORS: Final = {errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}
"""Errors of writing to an open file; errors of reading an input name its file."""


class TerminalWriter(io.TextIOWrapper):
    """A text stream to a terminal that escapes control characters in plain text.

    A rich console writes to ``rich_proxied_file`` instead, because it writes control characters of its own.
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
    """Prepare the standard streams for every command, before it runs.

    A closed standard input or output then fails when it is used, and a closed standard error discards what is written;
    otherwise the next file that is opened would become that stream. Control characters in plain text, such as JSON, are
    escaped on a terminal.
    """
    for number, mode in (*UNUSABLE_MODES, (ERR, os.O_WRONLY)):
        if not _is_open(number):
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest free number, which is this one
    sys.stdin = sys.stdin or open(IN, closefd=False)  # noqa: SIM115  # stays open until the process ends
    sys.stdout = _escaping(sys.stdout or open(OUT, "w", closefd=False))  # noqa: SIM115  # as above
    sys.stderr = _escaping(sys.stderr or open(ERR, "w", closefd=False))  # noqa: SIM115  # as above


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _escaping(stream: TextIO) -> TextIO:
    """The stream, which accepts any text; on a terminal control characters are escaped."""
    if stream.isatty():
        return TerminalWriter(stream, stream.buffer)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def flush() -> None:
    """Flush standard output.

    Raises:
        OSError: it cannot be written.
    """
    sys.stdout.flush()


def discard() -> None:
    """Discard buffered output that cannot be written, which Python would otherwise report at exit."""
    for number, stream in ((OUT, sys.stdout), (ERR, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def failure(error: OSError) -> str:
    """The message of a failed read or write, in one line."""
    if error.filename is None and error.errno in WRITE_ERRORS:
        return f"the output cannot be written: {error.strerror}"
    return str(error)
