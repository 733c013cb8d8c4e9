"""The upper bound: an ASGI application that always answers with the same bytes, as many as a typical decision has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

BODY: Final = b'{"answer":"%b"}'.replace(
    b"%b", b"x" * max(0, int(os.environ.get("BENCH_ANSWER_SIZE", "1000")) - len('{"answer":""}'))
)
START: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())],
}
REST: Final = {"type": "http.response.body", "body": BODY}


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Send the constant answer."""
    await send(START)
    await send(REST)
