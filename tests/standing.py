"""Services that many tests ask: one of each profile, for as long as a process of the tests lasts.

A service is started when a test first asks for its profile. A test leaves it as it found it: it neither kills it nor
changes its files, and it counts what it adds itself. Tests that do otherwise start their own with ``serve``.
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
"""The callers with a token, and their scopes; ``old`` has expired. Callers with a rate are one test's each."""


class Standing:
    """The services that were started so far, by profile."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._services: dict[str, Service] = {}

    @cached_property
    def tokens(self) -> Tokens:
        """Of the profiles that have some."""
        found = Tokens(self._folder / "tokens.yaml")
        for name, scopes in TOKENS.items():
            found.add(name, *scopes)
        found.add("old", *SCOPES, until="2020-01-01")
        return found

    @cached_property
    def authority(self) -> Authority:
        """Who signed the service's certificate."""
        return Authority(self._folder, "authority")

    @cached_property
    def clients(self) -> Authority:
        """Who signed the clients' certificates."""
        return Authority(self._folder, "clients")

    @cached_property
    def certificate(self) -> tuple[Path, Path]:
        """The service's certificate and its key."""
        return self.authority.issue("runner-policy.team.svc")

    @cached_property
    def trust(self) -> ssl.SSLContext:
        """A client with a certificate."""
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
        found = self._services[profile]
        assert found.process.poll() is None, found.log.read_text()
        return found

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
                return started(folder, tls=self.trust, **self.tls)
            case "tls-clients":
                return started(
                    folder, "--host", "0.0.0.0", tls=self.trust, TLS_CLIENT_CA=str(self.clients.path), **self.tls
                )
            case "required-log":
                return started(folder, LOG="", LOG_REQUIRED="true")
            case "two-workers":
                return started(folder, "--workers", "2", LOG_STDOUT="true", TRUSTED_PROXIES="127.0.0.0/8,10.0.0.0/8")
            case _:
                raise AssertionError(profile)


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """The services of this process of the tests."""
    with ExitStack() as stack:
        yield Standing(tmp_path_factory.mktemp("standing"), stack)


@pytest.fixture
def shared(standing: Standing) -> Callable[..., AbstractContextManager[Service]]:
    """The service of a profile, whose log is read from here on; its clients have the token of the caller ``token``."""

    @contextmanager
    def use(profile: str, token: str | None = None, **more: Any) -> Iterator[Service]:
        found = standing.service(profile)
        text = standing.tokens.texts[token] if token else None
        service = replace(found, **{"token": text, "opened": [], "log_start": found.log.stat().st_size, **more})
        try:
            yield service
        finally:
            for client in service.opened:
                client.close()

    return use
