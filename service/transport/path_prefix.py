"""The path prefix under which proxies show the service.

Owns its removal from the paths of requests, for proxies that leave it there; one that removes it needs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Scope, Send


def without_prefix(scope: Scope, prefix: str) -> Scope | None:
    """The request without the prefix of its path, if it has one; ``None`` if the path is the prefix without a slash."""
    path: str = scope["path"]
    if path == prefix:
        return None
    if not path.startswith(f"{prefix}/"):
        return scope
    raw: bytes = scope["raw_path"]
    return {**scope, "path": path.removeprefix(prefix), "raw_path": raw.removeprefix(prefix.encode())}


async def redirect(prefix: str, send: Send) -> None:
    """Redirect a client from the prefix to the page below it, whose addresses are relative."""
    headers = [(b"location", f"{prefix}/".encode()), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 307, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
