"""The client address of a request that came through trusted proxies.

Without trusted proxies this is not used, and `X-Forwarded-For` is ignored.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Receive, Scope, Send

PEER = "runner_policy.peer"


class ForwardedAddress:
    """Sets the client from `X-Forwarded-For`: from the right, the first address that is not a trusted proxy.

    uvicorn reads the header, and may return any text in it; if that is not an address, the proxy's own address stays.
    An IPv4-mapped IPv6 address of a dual-stack socket becomes IPv4, so that it matches IPv4 networks. uvicorn compares
    those in the header, so that a trusted IPv4 network is also given to it in its mapped form.
    """

    def __init__(self, app: ASGIApp, proxies: Collection[str]) -> None:
        self._app = app
        self._proxy_headers: Any = ProxyHeadersMiddleware(self._forward, [*proxies, *_mapped(proxies)])  # type: ignore[arg-type]  # uvicorn's and Starlette's ASGI types differ

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with the forwarded address as its client, if a trusted proxy sent one."""
        if scope["type"] == "http":
            client = scope["client"]
            scope[PEER] = scope["client"] = (_address_of(client[0]) or client[0], client[1]) if client else None
        await self._proxy_headers(scope, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            peer = scope.pop(PEER)
            client = scope["client"]
            if client != peer:
                address = _address_of(client[0])
                scope["client"] = (address, client[1]) if address is not None else peer
        await self._app(scope, receive, send)


def trust_proxies(proxies: Collection[str], app: ASGIApp) -> ASGIApp:
    """The application with the clients that trusted proxies report; unchanged if no proxy is trusted."""
    return ForwardedAddress(app, proxies) if proxies else app


def _mapped(proxies: Collection[str]) -> list[str]:
    """The IPv4-mapped IPv6 networks of the IPv4 addresses and networks."""
    networks = map(ip_network, proxies)
    return [
        f"::ffff:{each.network_address}/{96 + each.prefixlen}" for each in networks if isinstance(each, IPv4Network)
    ]


def _address_of(text: str) -> str | None:
    """An address in canonical form; ``None`` if invalid, or if it has a zone, which may be any text."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return None
        return str(address.ipv4_mapped or address)
    return str(address)
