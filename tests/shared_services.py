"""Services that many tests share: one of each profile in each pytest process.

A service is started when a test first uses its profile. A test must leave it unchanged: it neither kills it nor edits
its files, and it compares counters only with their values before. Tests that need more start their own with ``serve``.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pytest
from certificates import Authority, trusting
from operations.conftest import Tokens, started

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from operations.conftest import Service

SCOPES: Final = ("decide", "dry-run", "read", "log")
TOKENS: Final[dict[str, tuple[str, ...]]] = {
    **{scope: (scope,) for scope in SCOPES},
    "all": SCOPES,
    **dict.fromkeys(("eager", "calm", "many", "pages"), ("decide", "read")),
}
"""The callers with a token, and their scopes; ``old`` has expired.

A caller whose rate limit is reached belongs to one test.
"""


class SharedServices:
    """The services of this pytest process, each started when it is first used."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._services: dict[str, Service] = {}

    @cached_property
    def tokens(self) -> Tokens:
        """The token file of the profiles with tokens."""
        tokens = Tokens(self._folder / "tokens.yaml")
        for name, scopes in TOKENS.items():
            tokens.add(name, *scopes)
        tokens.add("old", *SCOPES, until="2020-01-01")
        return tokens

    @cached_property
    def authority(self) -> Authority:
        """The authority that signed the service's certificate."""
        return Authority(self._folder, "authority")

    @cached_property
    def clients(self) -> Authority:
        """The authority that signs client certificates."""
        return Authority(self._folder, "clients")

    @cached_property
    def certificate(self) -> tuple[Path, Path]:
        """The service's certificate and its key."""
        return self.authority.issue("runner-policy.team.svc")

    @cached_property
    def client_context(self) -> ssl.SSLContext:
        """The TLS context of a client with a certificate."""
        return trusting(self.authority, client=self.clients.issue("controller"))

    @property
    def tls(self) -> dict[str, str]:
        """The settings of a service with TLS."""
        cert, key = self.certificate
        return {"TLS_CERT": str(cert), "TLS_KEY": str(key)}

    def service(self, profile: str) -> Service:
        """The service of a profile."""
        if profile not in self._services:
            folder = self._folder / profile
            folder.mkdir()
            self._services[profile] = self._stack.enter_context(self._started(profile, folder))
        service = self._services[profile]
        assert service.process.poll() is None, service.log.read_text()
        return service

    def terminate(self) -> None:
        """Ask all services to end, so that they end at the same time."""
        for service in self._services.values():
            service.process.terminate()

    def _started(self, profile: str, folder: Path) -> AbstractContextManager[Service]:
        match profile:
            case "open":
                return started(
                    folder, LOG_STDOUT="true", BODY_TIMEOUT="300", CANDIDATE_TIMEOUT="60", env_FORWARDED_ALLOW_IPS="*"
                )
            case "everywhere":
                return started(folder, "--host", "0.0.0.0", "--allow-anonymous")
            case "tokens":
                return started(folder, "--host", "0.0.0.0", "--tokens", str(self.tokens.path), LOG="")
            case "rate":
                return started(
                    folder, "--tokens", str(self.tokens.path), ADMISSION_ALLOW_ANONYMOUS="true", RATE_LIMIT="0.001"
                )
            case "tls":
                return started(folder, tls=self.client_context, **self.tls)
            case "tls-clients":
                return started(
                    folder,
                    "--host",
                    "0.0.0.0",
                    tls=self.client_context,
                    TLS_CLIENT_CA=str(self.clients.path),
                    **self.tls,
                )
            case "required-log":
                return started(folder, LOG="", LOG_REQUIRED="true")
            case "two-workers":
                return started(folder, "--workers", "2", LOG_STDOUT="true", TRUSTED_PROXIES="127.0.0.0/8,10.0.0.0/8")
            case _:
                raise AssertionError(profile)


@pytest.fixture(scope="session")
def shared_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServices]:
    """The services of this pytest process."""
    with ExitStack() as stack:
        services = SharedServices(tmp_path_factory.mktemp("shared_services"), stack)
        yield services
        services.terminate()


@pytest.fixture
def shared(shared_services: SharedServices) -> Callable[..., AbstractContextManager[Service]]:
    """Use the service of a profile; its clients have the token named ``token``, and its log begins at this call."""

    @contextmanager
    def use(profile: str, token: str | None = None, **more: Any) -> Iterator[Service]:
        running = shared_services.service(profile)
        text = shared_services.tokens.texts[token] if token else None
        service = replace(running, **{"token": text, "opened": [], "log_start": running.log.stat().st_size, **more})
        try:
            yield service
        finally:
            for client in service.opened:
                client.close()

    return use
