"""Messages from the first process to all processes of a service, in memory that they share.

The newest message replaces the one before. There is no file that could be deleted, and no disk that could be full.
"""

from __future__ import annotations

import os
import struct
import tempfile
from multiprocessing.reduction import DupFd
from typing import Any, Final, Protocol
from zlib import crc32

HEADER: Final = struct.Struct("<QQL")
"""The number, the length and the checksum of the message that follows. No message has the number 0."""
SPARE: Final = 1 << 16
"""Bytes that are allocated beyond a message, so that the same message with a fault needs no more memory."""


class Shared:
    """The messages of a service: its rules, and the state of its run folder."""

    def __init__(self) -> None:
        """Allocate the memory; no message is sent yet.

        Raises:
            OSError: there is no memory.
        """
        self.rules, self.run_folder = Broadcast(), Broadcast()


class SentDescriptor(Protocol):
    """A file descriptor on its way to a new process."""

    def detach(self) -> int:
        """The descriptor in the new process."""


class Broadcast:
    """The newest message. One process sends; every process that it is passed to at its start receives."""

    def __init__(self, descriptor: int | None = None) -> None:
        """Without a ``descriptor`` the memory is new.

        Raises:
            OSError: there is no memory.
        """
        self._descriptor = _memory() if descriptor is None else descriptor
        self._size = self._sent = self._received = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _passed, (DupFd(self._descriptor),)

    def send(self, message: bytes) -> None:
        """Replace the message.

        Raises:
            OSError: there is no memory for it; the message before stays.
        """
        size = HEADER.size + len(message)
        if size + SPARE > self._size:
            try:
                os.posix_fallocate(self._descriptor, 0, size + SPARE)
                self._size = size + SPARE
            except OSError:
                if size > self._size:
                    raise
        self._write(message, HEADER.size)
        self._sent += 1
        self._write(HEADER.pack(self._sent, len(message), crc32(message)), 0)

    def receive(self) -> bytes | None:
        """The message if it is newer than the one received last; ``None`` also while it is being sent."""
        header = os.pread(self._descriptor, HEADER.size, 0)
        if len(header) < HEADER.size:
            return None
        number, length, checksum = HEADER.unpack(header)
        if number == self._received:
            return None
        message = os.pread(self._descriptor, length, HEADER.size)
        if len(message) != length or crc32(message) != checksum:
            return None
        self._received = number
        return message

    def _write(self, data: bytes, offset: int) -> None:
        while data:
            written = os.pwrite(self._descriptor, data, offset)
            data, offset = data[written:], offset + written


def _memory() -> int:
    try:
        return os.memfd_create("runner-policy", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # the system does not have it, or does not allow it
        with tempfile.TemporaryFile() as file:  # without a name
            return os.dup(file.fileno())


def _passed(sent: SentDescriptor) -> Broadcast:
    descriptor = sent.detach()
    os.set_inheritable(descriptor, False)
    return Broadcast(descriptor)
