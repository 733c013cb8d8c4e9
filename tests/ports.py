"""Ports for servers that restart on the same port."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import sample


def port_of_nobody() -> int:
    """A free port outside the range from which the system assigns ports.

    No other process can be assigned it in the meantime.
    """
    for port in sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")
