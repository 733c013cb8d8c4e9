"""What the processes that run untrusted rules or code have in common: their limits, and how they return answers."""

from __future__ import annotations

import resource
from typing import Final

INLINE: Final = 256 << 10
"""Bytes of an answer returned through a pipe, which is read in one go; larger ones go through a file."""


def limit_process(memory: int, seconds: int) -> None:
    """Limit this process to bytes of memory and seconds of processor time, without core dumps.

    Out of time, it gets ``SIGXCPU``, which ends it; a second later it is killed.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
