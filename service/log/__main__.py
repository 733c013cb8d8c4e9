"""The log process, which a serving process starts: ``python -m service.log FD``.

Owns the socket between the two. It is a separate process so that its work takes no time from the serving process. It
ends when the serving process ends, in whatever way, after writing what it has received.
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

from service.log.messages import Ack, LogConfig
from service.log.record import SentRecord, encode, row
from service.log.worker import LogWorker

if TYPE_CHECKING:
    from collections.abc import Iterator

NICE: Final = 5
"""The niceness of the log process, so that the serving process comes first."""
READ_SIZE: Final = 1 << 18


def main() -> None:
    """Write the batches from the socket, one a line, until it is closed."""
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Signals go to the whole group: what the parent still sends must be written first.
        signal.signal(ends, signal.SIG_IGN)
    logging.disable()  # errors are sent through the socket, and logged by the parent
    os.nice(NICE)
    os.umask(0o077)  # other users must not read the log
    connection = socket.socket(fileno=int(sys.argv[1]))
    lines = _lines(connection)
    config = msgspec.json.decode(next(lines, b""), type=LogConfig)

    def send_ack(ack: Ack) -> None:
        with suppress(OSError):  # the parent may have ended
            connection.sendall(encode(ack) + b"\n")

    worker = LogWorker(config, send_ack)
    reader = threading.Thread(target=_enqueue_lines, args=(lines, worker, config.labels), name="reader")
    reader.start()
    try:
        worker.run()
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # ends the reader thread
        reader.join()
        connection.close()


def _enqueue_lines(lines: Iterator[bytes], worker: LogWorker, labels: str) -> None:
    decode = msgspec.json.Decoder(tuple[int, list[SentRecord]]).decode
    try:
        for data in lines:
            number, entries = decode(data)
            worker.enqueue(number, [row(entry, labels) for entry in entries])
    finally:
        worker.end()


def _lines(connection: socket.socket) -> Iterator[bytes]:
    """The received lines; an incomplete line at the end is dropped."""
    parts: list[bytes] = []
    with suppress(OSError):
        while data := connection.recv(READ_SIZE):
            *whole, rest = data.split(b"\n")
            for each in whole:
                yield b"".join([*parts, each])
                parts = []
            parts.append(rest)


if __name__ == "__main__":
    main()
