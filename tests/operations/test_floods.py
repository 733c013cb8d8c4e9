"""More connections than a process may hold whose clients send nothing, or never enough: others are answered."""

from __future__ import annotations

import re
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except

from service.run import SPARE_FILES
from service.transport.room import RESERVE

from .conftest import until
from .test_limits import connected

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_services import SharedServices

    from .conftest import Service

LIMIT = 20
FILES = LIMIT + SPARE_FILES
FLOOD = 3 * FILES
"""More connections than the process may have files."""
CLOSING = 64
"""Connections that make room for others, until they are closed."""
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
POLICY = b"GET /v1/policy HTTP/1.1\r\nHost: localhost\r\n\r\n"
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 400
"""The first part of a TLS handshake."""


def status(service: Service, path: str) -> int:
    """The status of a request over a new connection."""
    with service.client() as client:
        return client.get(path).status_code


def open_files(service: Service) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))


FLOODS = {
    "nothing": ("http", b""),
    "a part of a head": ("http", LIVEZ[:-2]),
    "a probe, and the connection is kept": ("http", LIVEZ),
    "no handshake": ("tcp", b""),
    "a part of a handshake": ("tcp", HELLO),
    "a handshake": ("tls", b""),
    "a request whose refusal is not read": ("tls", POLICY),
}
"""What the connections of a flood send, and with which protocol; the service has TLS except for `http`."""


@pytest.mark.parametrize("flood", slow_except(["a part of a head", "no handshake", "a handshake"], FLOODS))
def test_connections_that_send_too_little_leave_room_for_others(
    serve: Callable[..., Any], shared_services: SharedServices, flood: str
) -> None:
    protocol, sent = FLOODS[flood]
    context = shared_services.client_context
    more = {} if protocol == "http" else {**shared_services.tls, "tls": context}
    with (
        serve(
            MAX_CONNECTIONS=str(LIMIT), BODY_TIMEOUT="300", LOG_FORMAT="json", files=f"{FILES}, {FILES}", **more
        ) as service,
        ExitStack() as stack,
    ):
        assert not [line for line in service.log_lines() if "files_allowed" in line]
        before = open_files(service)
        probes, others, files = set(), set(), []
        for number in range(FLOOD):
            connection = stack.enter_context(connected(service))
            with suppress(OSError):
                if protocol == "tls":
                    connection = stack.enter_context(context.wrap_socket(connection, server_hostname="127.0.0.1"))
                connection.sendall(sent)
            if number % 50 == 0:
                probes.add(status(service, "/livez"))
                others.add(status(service, "/v1/policy"))
                files.append(open_files(service) - before)
        until(lambda: status(service, "/v1/policy") == 200)
        text = service.log.read_text()
    assert (probes, others - {200, 503}) == ({200}, set())
    assert max(files) <= LIMIT + RESERVE + CLOSING
    assert not re.search("Too many open files|Traceback", text)
