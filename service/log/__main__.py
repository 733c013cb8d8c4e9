"""The process that keeps the log of another one, which has it started: ``python -m service.log FD``.

Owns the socket between the two. It is a process of its own so that none of its work takes the time of the one
that answers; it ends when that one does, however it ends, and keeps what it was given before.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from service.log.record import Line, encode, row
from service.log.worker import Ack, LogConfig, LogWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

NICE: Final = 5
"""How much less of a busy processor it asks for than the process that answers."""
READ: Final = 1 << 18


def main() -> None:
    """Keep what comes through the socket, a batch a line, until it ends."""
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, signal.SIG_IGN)  # a whole group is told to end: what it still says has to be kept first
    logging.disable()  # what fails is said through the socket, to be logged there
    os.nice(NICE)
    os.umask(0o077)  # what was decided for whom is nobody else's to read
    line = socket.socket(fileno=int(sys.argv[1]))
    lines = _lines(line)
    config = msgspec.json.decode(next(lines, b""), type=LogConfig)

    def send_ack(ack: Ack) -> None:
        with suppress(OSError):  # whoever would hear of it may be gone
            line.sendall(encode(ack) + b"\n")

    worker = LogWorker(config, send_ack)
    reader = threading.Thread(target=_read, args=(lines, worker, config.labels), name="reader")
    reader.start()
    try:
        worker.run()
    finally:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)  # the reader ends, wherever it is
        reader.join()
        line.close()


def _read(lines: Iterator[bytes], worker: LogWorker, labels: str) -> None:
    decode = msgspec.json.Decoder(tuple[int, list[Line]]).decode
    try:
        for data in lines:
            number, entries = decode(data)
            worker.take(number, [row(entry, labels) for entry in entries])
    finally:
        worker.end()


def _lines(line: socket.socket) -> Iterator[bytes]:
    """What comes, line by line; the end of one that did not come whole is nobody's any more."""
    parts: list[bytes] = []
    with suppress(OSError):
        while data := line.recv(READ):
            *whole, rest = data.split(b"\n")
            for each in whole:
                yield b"".join([*parts, each])
                parts = []
            parts.append(rest)


if __name__ == "__main__":
    main()
