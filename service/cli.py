"""The whole command line: ``policy.cli`` and ``serve``.

Owns the starting of the server. Rules and settings are checked before a worker starts, so that what
is wrong is printed once, all of it, and nothing is served.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from policy.cli import app
from policy.console import INVALID, USAGE, DefaultOption, RulesOption, err
from policy.errors import EngineFailed, PolicyError, RulesInvalid
from policy.releases import NoVersion, UnknownRelease

HostOption = Annotated[str | None, typer.Option("--host", help="The address to listen on.  [default: 127.0.0.1]")]
PortOption = Annotated[int | None, typer.Option("--port", help="The port to listen on; 0 takes a free one.  [default: 8080]")]
HubOption = Annotated[bool | None, typer.Option("--hub/--no-hub", help="Look for a model's config.json on the hub.  [default: no-hub]")]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Worker processes.  [default: 1]")]


@app.command()
def serve(
    host: HostOption = None,
    port: PortOption = None,
    workers: WorkersOption = None,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    hub: HubOption = None,
) -> None:
    """Serve the policy over HTTP.

    Every flag can be an environment variable `RUNNER_POLICY_…` as well; a flag wins.
    """
    import uvicorn  # noqa: PLC0415  # the other commands need no server

    from service.app import create_app  # noqa: PLC0415  # the other commands need no server
    from service.settings import Settings  # noqa: PLC0415  # the other commands need no server

    flags: dict[str, Any] = {"host": host, "port": port, "workers": workers, "rules": rules, "default_release": default_release, "hub": hub}
    try:
        settings = Settings(**{name: value for name, value in flags.items() if value is not None})
        application = create_app(settings)
    except ValidationError as error:
        for fault in error.errors():
            name = str(fault["loc"][0])
            shown = f"RUNNER_POLICY_{name.upper()}" if flags.get(name) is None else f"--{name.replace('_', '-')}"
            err.print(f"{shown}: {fault['msg']}, not `{fault['input']}`", markup=False)
        raise typer.Exit(USAGE) from error
    except RulesInvalid as error:
        err.print(str(error.under(settings.rules)), markup=False)
        raise typer.Exit(INVALID) from error
    except EngineFailed as error:
        err.print(str(error), markup=False)
        raise typer.Exit(INVALID) from error
    except PolicyError as error:
        flag = "--default-release" if isinstance(error, UnknownRelease | NoVersion) else "--hub"
        err.print(f"{flag}: {error}", markup=False)
        raise typer.Exit(USAGE) from error
    for name, value in settings.model_dump().items():
        if value is not None:
            os.environ[f"RUNNER_POLICY_{name.upper()}"] = str(value)
    taken = _taken(settings.host, settings.port)
    if taken:
        err.print(f"{settings.host}:{settings.port} cannot be listened on: {taken}; choose another with --host or --port", markup=False)
        raise typer.Exit(USAGE)
    signal.signal(signal.SIGTERM, _end)
    target: Any = application if settings.workers == 1 else "service.app:create_app"
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
        lifespan="off",
        access_log=False,
        server_header=False,
    )


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


def main() -> None:
    """Run the command line."""
    app()
