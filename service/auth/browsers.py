"""Refuse requests from other sites' web pages if no token is needed.

A browser on the machine or in the network of the service sends the requests that a page of any site makes. Two checks
refuse them: the `Host` of a request must be one of the service's (a site can point its own name at the service's
address, which is DNS rebinding), and cross-origin requests are refused. In addition, no response has CORS headers, so
no page can read the response to a request that gets through.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from policy.messages import quoted
from service.auth.access import DENIED_METRIC, OPEN_PATHS
from service.documents.accept import headers_of
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import Scope

    from service.settings import Settings
    from service.telemetry.metrics import Metrics

SAFE_SITES: Final = frozenset({b"same-origin", b"none"})
"""The `Sec-Fetch-Site` of the service's own pages, and of a URL that a user typed."""
HOST: Final = re.compile(r"(?:\[(?P<address>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
MAX_PORT: Final = 65_535
HTTP: Final = 80
"""The port of a `Host` that names none."""
MAX_HOST: Final = 262
"""Characters of the longest host name with a port."""
CACHE_SIZE: Final = 256
"""Results of the check of `Host` that are cached."""


class HostCheck:
    """Whether the service answers for a `Host`: its own address, `localhost`, and the names in the settings.

    If it listens beyond loopback, any address is accepted: published ports and proxies translate addresses, and no site
    can make a browser send an address that is not the site's own.
    """

    def __init__(self, listens_on: str, names: Collection[str], *, is_local: bool) -> None:
        self._is_local = is_local
        self._names = frozenset({"localhost", listens_on.lower(), *names})
        self._domains = tuple(name[1:] for name in names if name.startswith("*."))
        self.allows = lru_cache(CACHE_SIZE)(self._allows)

    def _allows(self, header: bytes) -> bool:
        host = _host_of(header.decode("latin-1").lower())
        try:
            address = ip_address(host)
        except ValueError:
            name = host.removesuffix(".")
            return name in self._names or name.endswith(self._domains)
        return not self._is_local or address.is_loopback or host in self._names


class BrowserGuard:
    """Refuses requests from other sites' pages; without ``hosts`` any `Host` is accepted."""

    def __init__(self, hosts: HostCheck | None, paths: Collection[str] | None, metrics: Metrics) -> None:
        """Only requests for ``paths`` are checked, or all without them."""
        self._hosts = hosts
        self._paths = paths
        self._metrics = metrics

    def check(self, scope: Scope) -> None:
        """Check a request.

        Raises:
            Refused: a page of another site made it, or may have made it.
        """
        if self._paths is not None and scope["path"] not in self._paths:
            return
        headers = headers_of(scope)
        host = headers.get(b"host")  # a browser always sends it; an HTTP/1.0 client may not
        if self._hosts is not None and host is not None and (len(host) > MAX_HOST or not self._hosts.allows(host)):
            self._check_host(scope, host)
        if b"origin" in headers or b"sec-fetch-site" in headers:
            self._check_origin(scope, host, headers)

    def _check_host(self, scope: Scope, host: bytes) -> None:
        if scope["path"] in OPEN_PATHS and not scope["query_string"]:
            return  # a probe uses the address of the pod or the machine
        self._metrics.count(DENIED_METRIC, "host")
        name = host[:MAX_HOST].decode("latin-1")
        raise Refused(
            "unknown-host",
            f"the service does not answer for the host {quoted(name, MAX_HOST)}; "
            "list its name in RUNNER_POLICY_ALLOWED_HOSTS, or use tokens",
        )

    def _check_origin(self, scope: Scope, host: bytes | None, headers: dict[bytes, bytes]) -> None:
        """Like Go's `http.CrossOriginProtection`: check `Sec-Fetch-Site`, which no page can set, or else `Origin`.

        A preflight gets the answer of any other OPTIONS, without CORS headers, after which the browser sends no
        request. A link to the service may be followed, in a window: the linking page cannot read what it opens.
        """
        site = headers.get(b"sec-fetch-site")
        is_same = site in SAFE_SITES if site is not None else _is_own(headers[b"origin"], scope, host or b"")
        target = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")
        is_link = scope["method"] == "GET" and target == (b"navigate", b"document")
        if is_same or is_link or scope["method"] == "OPTIONS":
            return
        self._metrics.count(DENIED_METRIC, "origin")
        raise Refused(
            "cross-origin",
            "a page of another origin sent this; without tokens only the service's own pages are answered",
        )


def guard_of(settings: Settings, paths: Collection[str], metrics: Metrics) -> BrowserGuard | None:
    """The guard that the settings require; with tokens, only reviews at ``paths`` may require one.

    A browser sends its user's certificate for any page, so client certificates do not replace the check of origins.
    They do guarantee `Host`: the TLS handshake fails for a name that the service's certificate lacks.
    """
    if settings.tokens is not None:
        return BrowserGuard(None, paths, metrics) if settings.admission_allow_anonymous else None
    is_any = "*" in settings.allowed_hosts or (not settings.is_local and not settings.allowed_hosts)
    if is_any or settings.tls_client_ca is not None:
        return BrowserGuard(None, None, metrics)
    return BrowserGuard(HostCheck(settings.host, settings.allowed_hosts, is_local=settings.is_local), None, metrics)


def _host_of(header: str) -> str:
    """The host without its port and the brackets of an IPv6 address; empty if it is invalid."""
    found = HOST.fullmatch(header)
    return "" if found is None or int(found["port"] or 0) > MAX_PORT else found["address"] or found["name"] or ""


def _is_own(origin: bytes, scope: Scope, host: bytes) -> bool:
    """Whether an origin is the service's own; `null`, the origin of pages that have none, is not."""
    scheme, _, address = origin.decode("latin-1").lower().partition("://")
    own = host.decode("latin-1").lower()
    return address != "" and address == own and (not _knows_scheme(scope, own) or scheme == scope["scheme"])


def _knows_scheme(scope: Scope, host: str) -> bool:
    """Whether the browser's scheme is known: `https` of the connection or of a trusted proxy's `X-Forwarded-Proto`.

    Otherwise a proxy may have terminated TLS and passed on `Host`. None is expected in front of a loopback address with
    the port that the service listens on.
    """
    if scope["scheme"] == "https":
        return True
    name, found, server = _host_of(host), HOST.fullmatch(host), scope.get("server")
    port = int(found["port"] or HTTP) if found is not None else HTTP
    try:
        is_local = name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        is_local = False
    return is_local and server is not None and port == server[1]
