"""The health check of a container: whether the service that the settings describe is ready, on the same machine.

It knows only the settings: it has no token, no client certificate, and no name that matches the service's certificate.
"""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.settings import Settings

TIMEOUT: Final = 2.0
"""Seconds the service may take to answer."""
READY: Final = 200
WILDCARDS: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # wildcard addresses, to which a client cannot connect


class NotReady(Exception):
    """The service does not answer, or is not ready."""


def check(settings: Settings) -> None:
    """Check that the service is ready.

    If clients need a certificate, only the handshake is checked: it is answered by the event loop that answers
    requests. The service's certificate is not verified: it need not name an address of this machine, and nothing secret
    is sent.

    Raises:
        NotReady: the service is not ready.
    """
    host = WILDCARDS.get(settings.host, settings.host)
    connection = http.client.HTTPConnection(host, settings.port, timeout=TIMEOUT)
    if settings.tls_cert is not None:
        connection = http.client.HTTPSConnection(host, settings.port, timeout=TIMEOUT, context=_context())
    try:
        connection.connect()
        if settings.tls_client_ca is not None:
            return
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise NotReady(f"{host}:{settings.port} does not answer: {error}") from error
    finally:
        connection.close()
    if status != READY:
        raise NotReady(f"{host}:{settings.port} answers /readyz with {status}")


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
