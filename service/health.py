"""Whether the service that the settings describe is ready, asked from the same machine.

For a container's health check, which knows the settings and has no token, no client's certificate and no name that the
service's certificate is for.
"""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.settings import Settings

SECONDS: Final = 2.0
"""How long the service may take."""
READY: Final = 200
ANY: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # what a service may listen on, which nobody can connect to


class NotReady(Exception):
    """The service does not answer, or not that it is ready."""


def check(settings: Settings) -> None:
    """The service is ready.

    Where clients have to show a certificate, the handshake alone is asked for: the event loop that answers requests
    answers it, and nothing more can be asked without a certificate. That of the service is not verified, as it need not
    name an address of this machine, and whoever shows it is told nothing.

    Raises:
        NotReady: it is not.
    """
    host = ANY.get(settings.host, settings.host)
    connection = http.client.HTTPConnection(host, settings.port, timeout=SECONDS)
    if settings.tls_cert is not None:
        connection = http.client.HTTPSConnection(host, settings.port, timeout=SECONDS, context=_context())
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
