"""The connection of a request, for endpoints: whether its client disconnected, and whether its response has started.

uvicorn reports a disconnected client only to an endpoint that waits for more of the body, or not at all if the client
sent further requests. A stream that works on what it received does not wait for more.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from service.documents.body import Disconnected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from weakref import ReferenceType

    from starlette.types import Scope

    from service.request_context import RequestConnection

CONNECTION: Final = "runner_policy.connection"
"""The key of an ASGI scope whose value is a weak reference to the connection."""
CHECK_INTERVAL: Final = 0.25
"""Seconds between two checks whether the client of a stream disconnected."""


def connection_of(scope: Scope) -> RequestConnection | None:
    """The connection of a request; ``None`` if it was closed, or if the application is called without a server."""
    reference: ReferenceType[RequestConnection] | None = scope.get(CONNECTION)
    return None if reference is None else reference()


@asynccontextmanager
async def until_gone(connection: RequestConnection | None) -> AsyncIterator[None]:
    """Cancel the block when the client disconnects.

    Raises:
        Disconnected: it did.
    """
    block = asyncio.timeout(None)
    try:
        async with block:
            watch = asyncio.ensure_future(_expire_when_gone(connection, block))
            try:
                yield
            finally:
                watch.cancel()
    except TimeoutError:
        if block.expired():
            raise Disconnected from None
        raise


async def _expire_when_gone(connection: RequestConnection | None, block: asyncio.Timeout) -> None:
    while connection is not None and not connection.is_gone:  # noqa: ASYNC110  # nothing signals it
        await asyncio.sleep(CHECK_INTERVAL)
    if connection is not None:
        block.reschedule(asyncio.get_running_loop().time())
