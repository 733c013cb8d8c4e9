"""TLS from version 1.2 on.

Certificates are renewed while the service runs, and clients' certificates are checked if that is configured.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import warnings
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from api.conftest import PATIENCE
from certificates import Authority, trusting
from cryptography import x509
from files import replace_file

from .conftest import QWEN, until
from .test_life import refused
from .test_restart import REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shared_services import SharedServices

    from .conftest import Service, Tokens

REFUSED = "the certificate was rejected; the previous one stays"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def served_certificate(service: Service, context: ssl.SSLContext) -> int:
    """The serial number of the certificate that a new connection gets."""
    with (
        socket.create_connection(("127.0.0.1", service.port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        data = connection.getpeercert(binary_form=True)
    assert data is not None
    return x509.load_der_x509_certificate(data).serial_number


def test_a_client_with_a_certificate_cannot_resume_a_session(
    shared: Callable[..., Any], shared_services: SharedServices
) -> None:
    contexts = [
        trusting(shared_services.authority, client=shared_services.clients.issue("controller")) for _ in range(2)
    ]
    contexts[0].maximum_version = ssl.TLSVersion.TLSv1_2

    def resumed(
        context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> tuple[bool | None, bytes, ssl.SSLSession | None]:
        try:
            plain = socket.create_connection(("127.0.0.1", service.port))
            with plain, context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection:
                connection.sendall(b"GET /livez HTTP/1.1\r\nhost: service\r\nconnection: close\r\n\r\n")
                return connection.session_reused, connection.recv(15), connection.session
        except OSError:
            return None, b"", None

    with shared("tls-clients") as service:
        first = [resumed(context) for context in contexts]
        again = [resumed(context, found[2]) for context, found in zip(contexts, first, strict=True)]
    assert [found[:2] for found in (*first, *again)] == [(None, b""), (False, b"HTTP/1.1 200 OK")] * 2


def is_answered(service: Service, token: str, context: ssl.SSLContext) -> bool:
    """Whether a client with this certificate gets an answer over a new connection."""
    try:
        with service.client(token, verify=context) as client:
            return client.get("/v1/policy").status_code == 200
    except httpx.TransportError:
        return False


def test_only_tls_from_1_2_on_is_accepted(shared: Callable[..., Any], shared_services: SharedServices) -> None:
    with shared("tls") as service:
        found = {}
        for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = trusting(shared_services.authority)
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # old versions are the point here
                context.minimum_version = context.maximum_version = version
            try:
                with service.client(verify=context) as client:
                    found[version.name] = client.post("/v1/decisions", json=QWEN).status_code
            except httpx.TransportError:
                found[version.name] = 0
        with pytest.raises(httpx.TransportError), httpx.Client(trust_env=False) as plain:
            plain.get(f"http://127.0.0.1:{service.port}/livez")
    assert found == {"TLSv1_1": 0, "TLSv1_2": 200, "TLSv1_3": 200}


@pytest.mark.slow
def test_a_connection_without_a_handshake_is_closed(shared: Callable[..., Any]) -> None:
    with shared("tls") as service:
        with socket.create_connection(("127.0.0.1", service.port), PATIENCE) as silent:
            assert silent.recv(1) == b""
        assert service.client().get("/livez").text == "ok\n"


@pytest.mark.slow
def test_clients_that_do_not_end_tls_do_not_delay_the_end_of_the_service(
    serve: Callable[..., Any], authority: Authority
) -> None:
    """One without a handshake, one without a request, and one with an answer."""
    cert, key = authority.issue("service")
    trust = trusting(authority)
    with serve("--tls-cert", str(cert), "--tls-key", str(key), tls=trust) as service, ExitStack() as stack:
        plain = [stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) for _ in range(3)]
        _, answered = (stack.enter_context(trust.wrap_socket(each, server_hostname="127.0.0.1")) for each in plain[1:])
        answered.sendall(REQUEST)
        assert answered.recv(15) == b"HTTP/1.1 200 OK"
        os.kill(service.process.pid, signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0
        assert "timeout graceful shutdown exceeded" not in service.log.read_text()


@pytest.mark.slow
def test_every_worker_serves_a_renewed_certificate_and_none_a_broken_one(
    serve: Callable[..., Any], authority: Authority
) -> None:
    cert, key = authority.issue("service")
    trust = trusting(authority)
    with serve("--tls-cert", str(cert), "--tls-key", str(key), "--workers", "2", tls=trust) as service:
        first = served_certificate(service, trust)
        with service.client() as open_client:
            assert open_client.get("/livez").text == "ok\n"
            authority.issue("service")
            until(lambda: len(service.messages("certificate loaded")) == 2)
            second = {served_certificate(service, trust) for _ in range(10)}
            assert (len(second), first in second, open_client.get("/livez").text) == (1, False, "ok\n")
        good = key.read_text()
        refused_before = len(service.messages(REFUSED))  # the certificate may have been read before its key was written
        replace_file(key, authority.issue("stranger")[1].read_text())
        until(lambda: len(service.messages(REFUSED)) == refused_before + 2)
        assert {served_certificate(service, trust) for _ in range(10)} == second
        for file in (key, cert):  # a pipe would never be read to its end
            text = file.read_text()
            file.unlink()
            os.mkfifo(file)
            refused = len(service.messages(REFUSED))
            until(lambda before: len(service.messages(REFUSED)) >= before + 2, refused)
            assert {served_certificate(service, trust) for _ in range(10)} == second
            file.unlink()
            file.write_text(text)
        os.kill(service.workers()[0], signal.SIGKILL)  # its successor waits until the key matches again
        until(lambda: len(service.workers()) == 1)
        replace_file(key, good)
        until(lambda: service.times_ready() >= 3)
        assert {served_certificate(service, trust) for _ in range(10)} == second
        assert service.process.poll() is None


@pytest.mark.slow
def test_a_client_without_a_certificate_gets_no_answer_and_one_with_it_needs_its_token(
    serve: Callable[..., Any], authority: Authority, tokens: Tokens, tmp_path: Path
) -> None:
    cert, key = authority.issue("service")
    clients = Authority(tmp_path, "clients")
    strangers = Authority(tmp_path, "strangers")
    known, unknown = clients.issue("controller"), strangers.issue("stranger")
    token = tokens.add("reader", "read")
    arguments = (
        "--host",
        "0.0.0.0",
        "--tls-cert",
        str(cert),
        "--tls-key",
        str(key),
        "--tls-client-ca",
        str(clients.path),
        "--tokens",
        str(tokens.path),
    )
    with serve(*arguments, tls=trusting(authority, client=known)) as service:
        found: dict[str, int] = {}
        for name, context in {
            "none": trusting(authority),
            "unknown": trusting(authority, client=unknown),
            "known": trusting(authority, client=known),
        }.items():
            for case, text in {"without": None, "with": token}.items():
                try:
                    with service.client(text, verify=context) as client:
                        found[f"{name} {case}"] = client.get("/v1/policy").status_code
                except httpx.TransportError:
                    found[f"{name} {case}"] = 0
        later = Authority(tmp_path, "later")
        other = later.issue("newcomer")
        replace_file(clients.path, clients.path.read_text() + later.path.read_text())
        newcomer, left = (trusting(authority, client=each) for each in (other, known))
        until(lambda: service.client(token, verify=newcomer).get("/v1/policy").status_code == 200)
        assert is_answered(service, token, left)
        replace_file(clients.path, later.path.read_text())
        until(lambda: not is_answered(service, token, left))
        assert is_answered(service, token, newcomer)
    assert found == {
        "none without": 0,
        "none with": 0,
        "unknown without": 0,
        "unknown with": 0,
        "known without": 401,
        "known with": 200,
    }


def test_client_certificates_are_enough_to_listen_on_other_addresses(shared: Callable[..., Any]) -> None:
    with shared("tls-clients") as service:
        assert service.get("/v1/policy")["revision"]


def test_a_key_with_a_password_is_refused_without_a_prompt(authority: Authority) -> None:
    cert, key = authority.issue("service")
    locked = key.with_name("locked.key")
    done = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", key, "-out", locked, "-passout", "pass:x"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    code, lines = refused("--tls-cert", str(cert), "--tls-key", str(locked))
    assert (code, lines[0].startswith(f"--tls-cert: cannot load {cert} with the key {locked}: ")) == (
        2,
        True,
    )
