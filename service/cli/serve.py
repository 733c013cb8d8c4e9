"""The commands ``serve`` and ``health``.

Owns the flags of ``serve``. Not here: how the service is started (``service.run``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperCommand

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, DefaultOption, RulesOption, err, fail  # typer reads the annotations

app = command_app()

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1]")
]
PortOption = Annotated[
    int | None, typer.Option("--port", help="The port to listen on; 0 takes a free one.  [default: 8080]")
]
RootPathOption = Annotated[
    str | None,
    typer.Option("--root-path", metavar="PATH", help="The path prefix under which proxies show the service."),
]
HubOption = Annotated[
    bool | None, typer.Option("--hub/--no-hub", help="Look for a model's config.json on the hub.  [default: no-hub]")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Worker processes.  [default: 1]")]
AnonymousOption = Annotated[
    bool | None,
    typer.Option(
        "--allow-anonymous/--no-allow-anonymous",
        help="Listen on non-loopback addresses without requiring a token.  [default: no-allow-anonymous]",
    ),
]
TokensOption = Annotated[
    Path | None, typer.Option("--tokens", metavar="FILE", help="The file with the hashed tokens of callers.")
]
CertOption = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, with its chain, to serve TLS with.")
]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")]
ClientOption = Annotated[
    Path | None,
    typer.Option("--tls-client-ca", metavar="FILE", help="CAs; a client must present a certificate of one of them."),
]
LogOption = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="Where decisions are logged: a sqlite:// or postgresql:// URL, or off.  [default: a file]",
    ),
]
ReloadOption = Annotated[
    bool | None,
    typer.Option("--reload/--no-reload", help="Load rules that change while the service runs.  [default: reload]"),
]
GitOption = Annotated[
    str | None, typer.Option("--rules-git", metavar="URL", help="A git remote to pull the rules from.")
]


class ServeCommand(TyperCommand):
    """``serve``, whose help lists every variable."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; it ends with the variables, so that an installed package needs no README for them."""
        from service.settings import PREFIX, Settings  # noqa: PLC0415  # the other commands need no settings

        lines = (f"- {PREFIX}{name.upper()}: {field.description}" for name, field in Settings.model_fields.items())
        self.epilog = "\n\n".join(["Variables:", *lines])
        super().format_help(ctx, formatter)


@app.command(cls=ServeCommand)
def serve(
    host: HostOption = None,
    port: PortOption = None,
    root_path: RootPathOption = None,
    workers: WorkersOption = None,
    rules: RulesOption = None,
    rules_git: GitOption = None,
    reload: ReloadOption = None,
    default_release: DefaultOption = None,
    hub: HubOption = None,
    log: LogOption = None,
    tokens: TokensOption = None,
    allow_anonymous: AnonymousOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    tls_client_ca: ClientOption = None,
) -> None:
    """Serve the policy over HTTP.

    Every flag can be an environment variable `RUNNER_POLICY_…` as well; a flag wins.
    The variables below that have no flag are the other settings. Unknown ones are refused.
    """
    flags = {name: value for name, value in locals().items() if value is not None}
    try:
        from service.run import run  # noqa: PLC0415  # the other commands need no server
    except ValueError as error:  # FastAPI imports OpenTelemetry, which reads this variable as it is imported
        err.print(f"OTEL_PROPAGATORS: {error} Legal: `tracecontext`, `baggage`, `none`.", markup=False)
        raise typer.Exit(USAGE) from error
    run(flags)


@app.command()
def health() -> None:
    """Ask the service on this machine whether it is ready: exit code 0 if ready, else 1.

    For the health check of a container: it reads the same `RUNNER_POLICY_…` variables as `serve`, and no flags.
    """
    from service.health import NotReady, check  # noqa: PLC0415  # the other commands need no settings
    from service.settings import Settings, invalid_settings  # noqa: PLC0415  # as above

    try:
        check(Settings())
    except ValidationError as error:
        fail(USAGE, *invalid_settings(error))
    except NotReady as error:
        fail(FOUND, str(error))
