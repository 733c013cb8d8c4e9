"""The fixtures of the command line."""

from api.conftest import call, on_terminal, policy, run

__all__ = ["call", "on_terminal", "policy", "run"]
