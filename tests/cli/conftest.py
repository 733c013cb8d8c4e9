"""The command line, called in this process or started as one; the fixtures are those of the API's tests."""

from api.conftest import (
    call,
    catalogue,
    client,
    decide,
    folder,
    on_interactive_terminal,
    on_terminal,
    policy,
    run,
    serve,
    server,
    sources,
)

__all__ = [
    "call",
    "catalogue",
    "client",
    "decide",
    "folder",
    "on_interactive_terminal",
    "on_terminal",
    "policy",
    "run",
    "serve",
    "server",
    "sources",
]
