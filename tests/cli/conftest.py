"""The command line, called in this process or started as one; the fixtures are those of the API's tests."""

from api.conftest import call, client, decide, folder, on_interactive_terminal, on_terminal, run, serve, server

__all__ = ["call", "client", "decide", "folder", "on_interactive_terminal", "on_terminal", "run", "serve", "server"]
