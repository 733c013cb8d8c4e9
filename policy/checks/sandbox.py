"""The limits of processes that run untrusted rules or code, and how they return answers."""

from __future__ import annotations

import resource
from typing import Final

INLINE: Final = 256 << 10
"""The maximum size of an answer returned through a pipe, in bytes; larger answers are returned in a file."""


def limit_process(memory: int, seconds: int) -> None:
    """Limit this process to ``memory`` bytes and ``seconds`` of processor time, without core dumps.

    When its time is up, ``SIGXCPU`` ends it; a second later it is killed.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
