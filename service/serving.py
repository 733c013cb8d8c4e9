"""The service started: settings and rules checked first, all that is wrong said at once, then the processes.

Owns the start and the end of the server. With one worker it is this process; with several this one keeps them:
uvicorn replaces a worker that dies. What looks for changed rules is a thread of this process either way.
"""

from __future__ import annotations

import json
import logging.config
import os
import signal
import socket
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer
import uvicorn
from pydantic import SecretStr, ValidationError

from policy.console import INVALID, USAGE, err
from policy.errors import EngineFailed, PolicyError, RulesInvalid
from policy.releases import NoVersion, UnknownRelease
from service.access import TokensInvalid
from service.app import create_app
from service.reload import Folder, OriginFailed, Reload, first
from service.reporting import configuration
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.folder import Sources
    from service.reload import Origin, Published


def run(flags: dict[str, Any]) -> None:
    """Serve with these settings, by their names, until told to end; what keeps it from starting is said, and the command ends."""
    settings = _settings(flags)
    faults = list(_unfit(settings))
    if faults:
        for fault in faults:
            err.print(fault, markup=False)
        raise typer.Exit(USAGE)
    origin = _origin(settings)
    with TemporaryDirectory(prefix="runner-policy-") as place:
        settings = settings.model_copy(update={"run": Path(place)})
        published, sources, application = _checked(settings, origin)
        for name, value in settings.model_dump().items():
            if value is not None:
                os.environ[f"RUNNER_POLICY_{name.upper()}"] = _written(value)
        reload = Reload(origin, Path(place), published, sources, settings.default_release)
        if settings.reload:
            reload.start()
        logging.config.dictConfig(configuration(settings.log_format))
        signal.signal(signal.SIGTERM, _end)
        target: Any = application if settings.workers == 1 else "service.app:create_app"
        try:
            uvicorn.run(
                target,
                factory=settings.workers > 1,
                host=settings.host,
                port=settings.port,
                workers=settings.workers,
                loop="uvloop",
                http="httptools",
                interface="asgi3",
                ws="none",
                lifespan="on",
                access_log=False,
                server_header=False,
                log_config=configuration(settings.log_format),
                limit_concurrency=settings.max_connections,
                timeout_graceful_shutdown=round(settings.stop_time),
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
                ssl_ca_certs=str(settings.tls_client_ca) if settings.tls_client_ca is not None else None,
                ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca is not None else ssl.CERT_NONE,
            )
        finally:
            reload.stop()


def _settings(flags: dict[str, Any]) -> Settings:
    try:
        return Settings(**flags)
    except ValidationError as error:
        for fault in error.errors():
            if not fault["loc"]:
                err.print(str(fault["msg"]).removeprefix("Value error, "), markup=False)
                continue
            name = str(fault["loc"][0])
            shown = f"RUNNER_POLICY_{name.upper()}" if flags.get(name) is None else f"--{name.replace('_', '-')}"
            beside = "" if name == "log" else f", not `{fault['input']}`"
            err.print(f"{shown}: {fault['msg']}{beside}", markup=False)
        raise typer.Exit(USAGE) from error


def _unfit(settings: Settings) -> Iterator[str]:
    """What is wrong with settings that fit by themselves, a line each."""
    if not settings.is_local and settings.tokens is None and settings.tls_client_ca is None and not settings.open:
        yield (
            f"--host: {settings.host} can be reached from other machines, and nobody would need a token; "
            "name a file with --tokens (`runner-policy token new` makes entries), or clients' authorities with --tls-client-ca, or say --open"
        )
    for name in ("tls_cert", "tls_key", "tls_client_ca", "tokens", "rules_git_signers"):
        path: Path | None = getattr(settings, name)
        if path is not None and not os.access(path, os.R_OK):
            yield f"--{name.replace('_', '-')}: {path} cannot be read"
    if settings.tls_cert is not None and settings.tls_key is not None and os.access(settings.tls_cert, os.R_OK) and os.access(settings.tls_key, os.R_OK):
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.tls_cert, settings.tls_key)
        except (ssl.SSLError, OSError) as error:
            yield f"--tls-cert: {settings.tls_cert} with {settings.tls_key} is no certificate with its key: {error}"
    url = settings.log_url()
    if url is not None:
        from service.log.store import NoStore, read_url  # noqa: PLC0415  # a quarter of a second, and none of it where no log is kept

        try:
            read_url(url)
        except NoStore as error:
            yield f"--log: {error}"
    elif settings.log_required:
        yield "RUNNER_POLICY_LOG_REQUIRED: no log is kept in which a decision could be recorded; name one with --log"
    taken = _taken(settings.host, settings.port)
    if taken:
        yield f"{settings.host}:{settings.port} cannot be listened on: {taken}; choose another with --host or --port"


def _origin(settings: Settings) -> Origin:
    if settings.rules_git is None:
        return Folder(settings.rules)
    from service.gitrules import Remote  # noqa: PLC0415  # git is of no use to others

    return Remote(settings)


def _checked(settings: Settings, origin: Origin) -> tuple[Published, Sources, Any]:
    """The rules and the application; what is wrong with either is said, and the command ends."""
    try:
        published, sources = first(origin)
        return published, sources, create_app(settings, published)
    except RulesInvalid as error:
        err.print(str(error.under(settings.rules) if settings.rules_git is None else error), markup=False)
        raise typer.Exit(INVALID) from error
    except EngineFailed as error:
        err.print(str(error), markup=False)
        raise typer.Exit(INVALID) from error
    except PolicyError as error:
        kinds = {"--tokens": TokensInvalid, "--default-release": UnknownRelease | NoVersion, "--rules-git": OriginFailed}
        flag = next((flag for flag, kind in kinds.items() if isinstance(error, kind)), "--hub")
        err.print(f"{flag}: {error}", markup=False)
        raise typer.Exit(USAGE) from error


def _written(value: Any) -> str:
    """A setting as its environment variable has it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _taken(host: str, port: int) -> str:
    """Why the address cannot be listened on just now, or nothing."""
    try:
        place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(place[0], place[1]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place[4])
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _end(*_: object) -> None:
    """End with 0: uvicorn has served what was under way and raises the signal again."""
    raise SystemExit(0)
