"""Starting the service: settings and rules are checked first, and all faults are reported at once.

Owns the start and the end of the server. With one worker it is this process; with several this one supervises them,
and uvicorn replaces a worker that dies. Changed rules are detected in a thread of this process either way.
"""

from __future__ import annotations

import json
import logging
import logging.config
import os
import resource
import signal
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer
import uvicorn
from pydantic import SecretStr, ValidationError
from uvicorn.config import STARTUP_FAILURE

from policy.cli.console import INVALID, USAGE, err
from policy.errors import EngineFailed, PolicyError, RulesInvalid
from policy.escaping import escape_line
from policy.rules.releases import InvalidVersion, UnknownRelease
from service.app import create_app, create_server_app, served_app
from service.auth.tokens import TokensInvalid, read_tokens
from service.broadcast import Shared
from service.reload.address import RulesSourceFailed
from service.reload.reload import Reload, RulesFolder, load_at_start
from service.run_folder import run_folder
from service.settings import OFF, PREFIX, Settings, fault_message, service_link_remedy
from service.telemetry.logging import configuration, is_text
from service.telemetry.metrics import is_of_ended_process
from service.transport.connection import Connection
from service.transport.sockets import Supervisor
from service.transport.tls import load, tls_context
from service.variables import unknown_variables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from policy.rules.loader import Sources
    from service.app import Application
    from service.reload.reload import Published, RulesSource

log = logging.getLogger("runner_policy")
EXIT_FAILED: Final = 1
"""The exit code if it could not listen, or a certificate became invalid, after the checks."""
KEEP_ALIVE: Final = 75
"""Seconds an idle connection is kept: longer than clients and proxies usually keep it, so that they close it first.

uvicorn's default of 5 equals httpx's, so that a request sometimes meets a closed connection.
"""
SPARE_FILES: Final = 256
"""Open files of a process besides the connections within the limit.

They are its other files, the connections above the limit (``room.RESERVE``), and those that are being closed.
"""
HEALTHCHECK_TIMEOUT: Final = 15
"""Seconds without a healthcheck response after which a worker is replaced; several start slowly on a busy machine.

A worker that dies during a healthcheck is replaced after this time too, and a signal to stop waits as long.
"""


def run(flags: dict[str, Any]) -> None:
    """Serve with these settings until stopped; if it cannot start, print every fault and exit."""
    settings, faults = _settings(flags)
    faults += unknown_variables(os.environ)
    faults += _setting_faults(settings, {fault.partition(":")[0] for fault in faults})
    if faults:
        for fault in faults:
            err.print(fault, markup=False)
        raise typer.Exit(USAGE)
    signal.signal(signal.SIGTERM, _on_terminate)
    signal.signal(signal.SIGHUP, _on_hangup)
    origin = _origin(settings)
    shared = Shared()
    with run_folder(is_of_ended_process) as folder:
        settings = settings.model_copy(update={"run": folder.path})
        published, sources, application = _load_or_exit(settings, origin, shared)
        origin.mark_accepted()
        for name, value in settings.model_dump().items():
            if value is not None:
                os.environ[f"{PREFIX}{name.upper()}"] = _env_text(value)
        reload = Reload(origin, shared.rules, published, sources, settings.default_release)
        logging.config.dictConfig(configuration(settings.log_format))
        _allow_files(settings.max_connections)
        if settings.admission_allow_anonymous and settings.tokens is not None:
            log.warning(
                "admission reviews need no token (RUNNER_POLICY_ADMISSION_ALLOW_ANONYMOUS): "
                "any client that reaches the port may send them, without a rate limit"
            )
        _log_start(settings, application)
        folder.start(shared.run_folder)
        if settings.reload:
            reload.start()
        try:
            _serve(
                settings,
                served_app(settings, application) if settings.workers == 1 else partial(create_server_app, shared),
            )
        finally:
            reload.stop()


def _log_start(settings: Settings, application: Application) -> None:
    """Log which rules are loaded, and where the page, the documentation and the decision log are.

    As JSON it is one record. As text each fact has its own line, for people.
    """
    policy = application.service.answers.policy
    releases, source = policy.releases, application.service.published.source
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{scheme}://{host}:{settings.port}" if settings.port else ""  # a free port is not known yet
    rules, known, decision_log = len(policy.catalogue.rules), releases.known, _decision_log(settings)
    if not is_text(settings.log_format):
        fields = {"rules": rules, "releases": len(known), "revision": policy.revision, "source": source}
        addresses = {"page": f"{url}/", "docs": f"{url}/docs", "decision_log": decision_log}
        log.info("the rules are loaded", extra=fields | addresses)
        return
    log.info("%d rules from %s, %s", rules, escape_line(source), policy.revision)
    log.info("%d releases of vLLM, %s to %s; %s by default", len(known), known[0], known[-1], releases.default)
    log.info("page %s/, documentation %s/docs", url, url)
    log.info("decisions are %s", "not logged" if decision_log == OFF else f"logged in {escape_line(decision_log)}")


def _decision_log(settings: Settings) -> str:
    """Where decisions are logged: a URL without its password and parameters, which may contain one, or ``off``."""
    url = settings.log_url()
    if url is None:
        return OFF
    from service.log.store import read_url  # noqa: PLC0415  # it takes a quarter of a second

    store = read_url(url)
    return store.set(drivername=store.get_backend_name(), query={}).render_as_string(hide_password=True)


def _allow_files(connections: int) -> None:
    """Raise the limit of open files to what the connections need; warn if the system allows fewer.

    ``connections`` is the configured maximum. More files than needed are allowed if the system has them.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * connections + SPARE_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    needed = connections + SPARE_FILES
    if most < needed:
        log.warning(
            "too few open files are allowed for the connections; "
            "raise the hard limit (`ulimit -Hn`, `LimitNOFILE=` of systemd, "
            "`--ulimit nofile=` of Docker), or lower RUNNER_POLICY_MAX_CONNECTIONS",
            extra={"max_connections": connections, "files_needed": needed, "files_allowed": most},
        )


def _serve(settings: Settings, target: Any) -> None:
    has_tls = settings.tls_cert is not None
    config = uvicorn.Config(
        target,
        factory=settings.workers > 1,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        loop="service.transport.sockets:Loop",
        http=Connection,
        interface="asgi3",
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # uvicorn would trust 127.0.0.1; see `service.auth.proxies`
        log_config=configuration(settings.log_format),
        limit_concurrency=settings.max_connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.request_stop_time,  # type: ignore[arg-type]  # uvicorn passes it to asyncio, which accepts fractions
        timeout_worker_healthcheck=HEALTHCHECK_TIMEOUT,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        ssl_ca_certs=settings.tls_client_ca,
        ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca is not None else ssl.CERT_NONE,
        ssl_context_factory=tls_context if has_tls else None,
    )
    try:
        if settings.workers > 1:
            Supervisor(config, [config.bind_socket()]).run()
        else:
            uvicorn.Server(config).run()
    except KeyboardInterrupt:
        pass  # uvicorn has stopped as after SIGTERM
    except SystemExit as error:
        if error.code == STARTUP_FAILURE:  # uvicorn has logged why; its exit code 3 means invalid rules here
            raise typer.Exit(EXIT_FAILED) from error
        raise


def _settings(flags: dict[str, Any]) -> tuple[Settings, list[str]]:
    """The settings, with defaults for invalid ones, and the fault of each invalid one."""
    try:
        return Settings(**flags), []
    except ValidationError as error:
        invalid = {str(fault["loc"][0]): fault for fault in error.errors()}
    faults = []
    for name, fault in invalid.items():
        given = "" if name == "log" else f", not `{fault['input']}`"
        given += service_link_remedy(name, fault["input"])
        shown = f"{PREFIX}{name.upper()}" if flags.get(name) is None else _flag(name)
        faults.append(f"{shown}: {fault_message(fault)}{given}")
    defaults = {name: Settings.model_fields[name].get_default(call_default_factory=True) for name in invalid}
    return Settings(**{**flags, **defaults}), faults


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _setting_faults(settings: Settings, invalid: set[str]) -> Iterator[str]:
    """The faults of combinations of valid settings; ``invalid`` has the flags and variables that are not."""

    def is_valid(name: str) -> bool:
        return invalid.isdisjoint({_flag(name), f"{PREFIX}{name.upper()}"})

    if (
        not settings.is_local
        and settings.tokens is None
        and settings.tls_client_ca is None
        and not settings.allow_anonymous
        and is_valid("allow_anonymous")
        and is_valid("tokens")
    ):
        yield (
            f"--host: {settings.host} can be reached from other machines, and no token is required; "
            "pass a file with --tokens (`runner-policy token new` creates entries), "
            "client CAs with --tls-client-ca, or --allow-anonymous"
        )
    yield from _file_faults(settings)
    url = settings.log_url()
    if url is not None:
        from service.log.store import InvalidStoreUrl, read_url  # noqa: PLC0415  # it takes a quarter of a second, and is not needed without a log

        try:
            read_url(url)
        except InvalidStoreUrl as error:
            yield f"--log: {error}"
    elif settings.log_required:
        yield "RUNNER_POLICY_LOG_REQUIRED: the decision log is off; name one with --log"
    if settings.hub:
        from policy.intake.model.hub import Hub  # noqa: PLC0415  # only if it is switched on

        try:
            Hub(settings.hub_timeout)
        except PolicyError as error:
            yield f"--hub: {error}"
    port = settings.port if is_valid("port") else 0
    bind_error = _bind_error(settings.host, port)
    if bind_error:
        yield f"{settings.host}:{port} cannot be listened on: {bind_error}; choose another with --host or --port"


def _file_faults(settings: Settings) -> Iterator[str]:
    """The faults of files named by settings."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        yield "--tls-cert and --tls-key belong together; give both"
    if settings.tls_client_ca is not None and settings.tls_cert is None:
        yield "--tls-client-ca needs --tls-cert and --tls-key"
    unreadable = set()
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        path: Path | None = getattr(settings, name)
        if path is not None and not (path.is_file() and os.access(path, os.R_OK)):
            unreadable.add(name)
            yield f"{_flag(name)}: {path} cannot be read"
    if (
        settings.tls_cert is not None
        and settings.tls_key is not None
        and unreadable.isdisjoint({"tls_cert", "tls_key"})
    ):
        try:
            load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings.tls_cert, settings.tls_key, None)
        except (ssl.SSLError, OSError) as error:
            yield f"--tls-cert: cannot load {settings.tls_cert} with the key {settings.tls_key}: {error}"
    if settings.tls_client_ca is not None and "tls_client_ca" not in unreadable:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(settings.tls_client_ca)
        except (ssl.SSLError, OSError) as error:
            yield f"--tls-client-ca: cannot load certificates from {settings.tls_client_ca}: {error}"
    if settings.tokens is not None:
        try:
            read_tokens(settings.tokens)
        except TokensInvalid as error:
            yield f"--tokens: {error}"
    if settings.rules_git_allowed_signers is not None:
        from service.reload.signatures import SignersInvalid, read_signers  # noqa: PLC0415  # only if commits must be signed

        try:
            read_signers(settings.rules_git_allowed_signers)
        except SignersInvalid as error:
            yield f"RUNNER_POLICY_RULES_GIT_ALLOWED_SIGNERS: {error}"


def _origin(settings: Settings) -> RulesSource:
    if settings.rules_git is None:
        return RulesFolder(settings.rules)
    from service.reload.git import Remote  # noqa: PLC0415  # not needed without a remote

    return Remote(settings)


def _load_or_exit(settings: Settings, origin: RulesSource, shared: Shared) -> tuple[Published, Sources, Application]:
    """Load the rules and build the application, or print every fault and exit."""
    try:
        with err.working("loading the rules"):
            published, sources = load_at_start(origin)
            return published, sources, create_app(settings, published, shared)
    except RulesInvalid as error:
        err.print(str(error.under(settings.rules) if settings.rules_git is None else error), markup=False)
        raise typer.Exit(INVALID) from error
    except EngineFailed as error:
        err.print(str(error), markup=False)
        raise typer.Exit(INVALID) from error
    except PolicyError as error:
        kinds = {"--default-release": UnknownRelease | InvalidVersion, "--rules-git": RulesSourceFailed}
        flag = next((flag for flag, kind in kinds.items() if isinstance(error, kind)), "serve")
        err.print(f"{flag}: {error}", markup=False)
        raise typer.Exit(USAGE) from error


def _env_text(value: Any) -> str:
    """A setting as the text of its environment variable."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(value)
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _bind_error(host: str, port: int) -> str:
    """Why the address cannot be listened on; empty if it can."""
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(address[0], address[1]) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address[4])
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _on_hangup(*_: object) -> None:
    """End as after SIGTERM; with several workers uvicorn handles SIGHUP differently."""
    os.kill(os.getpid(), signal.SIGTERM)


def _on_terminate(*_: object) -> None:
    """Exit with 0: uvicorn has served the requests in progress, and raises the signal again."""
    raise SystemExit(0)
