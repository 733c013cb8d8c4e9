"""``runner-policy health``, which a container asks whether its service is ready: by the same settings, whatever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from doors.conftest import changed
from ports import port_of_nobody
from typer.testing import CliRunner

from policy.cli.app import app

from .test_tls import Authority, trusting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Tokens


def health(**variables: str) -> tuple[int, str]:
    """The exit code and what is said, with these settings."""
    settings = {f"RUNNER_POLICY_{name}": value for name, value in variables.items()}
    found = CliRunner().invoke(app, ["health"], env={**dict.fromkeys(changed()), "COLUMNS": "200", **settings})
    assert found.stdout == ""
    return found.exit_code, found.stderr


def test_a_service_that_is_ready_is_healthy(serve: Callable[..., Any], tokens: Tokens) -> None:
    tokens.add("any", "read")
    with serve("--host", "0.0.0.0", "--tokens", str(tokens.path)) as service:
        assert health(HOST="0.0.0.0", PORT=str(service.port)) == (0, "")
    code, said = health(PORT=str(service.port))
    assert (code, said) == (1, f"127.0.0.1:{service.port} does not answer: [Errno 111] Connection refused\n")


@pytest.mark.parametrize("has_clients", [False, True], ids=["tls", "client certificates"])
def test_a_service_with_tls_is_healthy_whatever_its_certificate_is_for(
    serve: Callable[..., Any], tmp_path: Path, *, has_clients: bool
) -> None:
    authority = Authority(tmp_path, "authority")
    cert, key = authority.issue("runner-policy.team.svc")
    files = {
        "TLS_CERT": str(cert),
        "TLS_KEY": str(key),
        **({"TLS_CLIENT_CA": str(authority.path)} if has_clients else {}),
    }
    with serve(tls=trusting(authority, client=authority.issue("controller")), **files) as service:
        assert health(PORT=str(service.port), **files) == (0, "")
    assert health(PORT=str(service.port), **files)[0] == 1


def test_what_listens_and_is_no_service_is_not_healthy(serve: Callable[..., Any], tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    cert, key = authority.issue("service")
    with serve() as service:
        assert health(PORT=str(service.port), TLS_CERT=str(cert), TLS_KEY=str(key))[0] == 1


def test_settings_that_are_wrong_are_named() -> None:
    assert health(PORT="http") == (
        2,
        "RUNNER_POLICY_PORT: Input should be a valid integer, unable to parse string as an integer\n",
    )
    assert health(PORT=str(port_of_nobody()))[0] == 1
