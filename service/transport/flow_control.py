"""uvicorn's flow control, for a connection that parses the data it holds before it reads more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from uvicorn.protocols.http.flow_control import FlowControl

if TYPE_CHECKING:
    import asyncio


class BufferedConnection(Protocol):
    """A connection that may hold data that was read and is not parsed yet."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    held: bytes

    def read_held(self) -> None:
        """Parse some of the held data."""


class Flow(FlowControl):
    """The flow control of one connection."""

    def __init__(self, connection: BufferedConnection) -> None:
        super().__init__(connection.transport)
        self._connection = connection

    def resume_reading(self) -> None:
        """Resume reading once no data is held.

        To save time it does not call the inherited method: it runs twice for each request.
        """
        if self._connection.held:
            self.read_paused = False
            self._connection.loop.call_soon(self._connection.read_held)
        elif self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def hold(self) -> None:
        """Stop reading from the transport until ``release`` or ``resume_reading``."""
        self._transport.pause_reading()

    def release(self) -> None:
        """Resume reading after the held data is parsed, unless a body waits to be received."""
        if not self.read_paused:
            self._transport.resume_reading()
