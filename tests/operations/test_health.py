"""``runner-policy health``, which a container runs to check whether its service is ready.

It reads the same settings as the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import command_variables
from ports import port_of_nobody
from typer.testing import CliRunner

from policy.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_services import SharedServices


def health(**variables: str) -> tuple[int, str]:
    """The exit code and the error output with these settings."""
    settings = {f"RUNNER_POLICY_{name}": value for name, value in variables.items()}
    found = CliRunner().invoke(
        app, ["health"], env={**dict.fromkeys(command_variables()), "COLUMNS": "200", **settings}
    )
    assert found.stdout == ""
    return found.exit_code, found.stderr


def test_a_service_that_is_ready_is_healthy(shared: Callable[..., Any]) -> None:
    with shared("tokens") as service:
        assert health(HOST="0.0.0.0", PORT=str(service.port)) == (0, "")
    port = port_of_nobody()
    assert health(PORT=str(port)) == (1, f"127.0.0.1:{port} does not answer: [Errno 111] Connection refused\n")


@pytest.mark.parametrize("profile", ["tls", "tls-clients"])
def test_a_service_with_tls_is_healthy_whatever_name_its_certificate_has(
    shared: Callable[..., Any], shared_services: SharedServices, profile: str
) -> None:
    files = {
        **shared_services.tls,
        **({"TLS_CLIENT_CA": str(shared_services.clients.path)} if profile == "tls-clients" else {}),
    }
    with shared(profile) as service:
        assert health(PORT=str(service.port), **files) == (0, "")
    assert health(PORT=str(port_of_nobody()), **files)[0] == 1


def test_a_service_without_tls_is_unhealthy_if_tls_is_configured(
    shared: Callable[..., Any], shared_services: SharedServices
) -> None:
    with shared("open") as service:
        assert health(PORT=str(service.port), **shared_services.tls)[0] == 1


def test_invalid_settings_are_named() -> None:
    assert health(PORT="http") == (
        2,
        "RUNNER_POLICY_PORT: Input should be a valid integer, unable to parse string as an integer\n",
    )
    assert health(PORT="tcp://10.0.0.1:8080") == (
        2,
        (
            "RUNNER_POLICY_PORT: Input should be a valid integer, unable to parse string as an integer; Kubernetes "
            "sets it for a Service of this name: set `enableServiceLinks: false` in the pod\n"
        ),
    )
    assert health(ALLOWED_HOSTS="a/b") == (
        2,
        "RUNNER_POLICY_ALLOWED_HOSTS: `a/b`: expected a host name without a port, `*.example.org` or `*`\n",
    )
    assert health(PORT=str(port_of_nobody()))[0] == 1
