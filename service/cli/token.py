"""The command that makes tokens.

Owns its options. Not here: tokens and their file (``service.auth.access``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from policy.cli.commands import command_app
from policy.cli.console import USAGE, err, fail
from policy.errors import RequestInvalid

app = command_app("token", "Manage API tokens.")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the caller, as recorded in the decision log.")],
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope", metavar="SCOPE", help="A scope of the token: decide, dry-run, read or log; may be repeated."
        ),
    ],
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="DATE", help="The last day on which the token is valid, such as 2027-01-31."),
    ] = None,
) -> None:
    """Make a token: it is printed once on standard error, and its entry for the file of tokens on standard output.

    Example: `runner-policy token new argo --scope decide >> tokens.yaml`, in a file that begins with `tokens:`
    """
    from service.auth.tokens import entry_of, new_token  # noqa: PLC0415  # other commands need none

    token = new_token()
    try:
        entry = entry_of(name, token, scope, until)
    except RequestInvalid as error:
        fail(USAGE, *(f"{fault.pointer}: {fault.message}" for fault in error.faults))
    err.print(f"the token of {name}, which is not stored anywhere: {token}", markup=False)
    typer.echo(entry, nl=False)
