"""The cores: servers run on the first, the load generator on the second.

Owns the pinning: without it both would move between cores, and runs would not be comparable.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALLOWED: Final = sorted(os.sched_getaffinity(0))
SERVER: Final = _ALLOWED[0]
LOAD: Final = _ALLOWED[1 % len(_ALLOWED)]
COUNT: Final = len(_ALLOWED)


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Run the block, and the processes that it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
