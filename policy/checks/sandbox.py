"""The limits of processes that run untrusted rules or code, how they return answers, and how they end."""

from __future__ import annotations

import resource
import signal
from typing import Final

INLINE: Final = 256 << 10
"""The maximum size of an answer returned through a pipe, in bytes; larger answers are returned in a file."""
KILLED: Final = (-signal.SIGKILL, -signal.SIGTERM)
"""The exit codes of a process that was killed by another, or by a kernel without memory."""


def limit_process(memory: int, seconds: int) -> None:
    """Limit this process to ``memory`` bytes and ``seconds`` of processor time, without core dumps.

    When its time is up, ``SIGXCPU`` ends it; a second later it is killed.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
