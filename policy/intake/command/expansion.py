"""The bound on what all scripts of one request expand to.

Each command has limits of its own (``shell.ExpansionBudget``). A request can have many commands, and reads a command
several times. Without a common bound, its work would be the product of all of these.

Which bound is where:

==========================================  ==================================================
one command with its nested scripts         ``shell.ExpansionBudget``
all commands of a request, by its bytes     this module
decisions, bytes of the answer              ``service.limits.budget``
time and memory of a worker process         ``service.jobs.pool``, ``service.jobs.worker``
worker processes, shared among callers      ``service.limits.slots``
decisions and processor time of a caller    ``service.auth.access``
==========================================  ==================================================
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE: Final = 1_000_000
"""Characters that the scripts of any request may expand to."""
PER_BYTE: Final = 4
"""Further characters for each byte of the request."""
PER_WORD: Final = 8
"""The characters that an expanded word counts as besides its own (measured: time for a word and for a character)."""
PER_REREAD: Final = 5
"""The characters that each character counts as when a script reads it as another script."""
EXHAUSTED: Final = "the scripts of this request expand to more than is read for its size; send it in parts"


class RequestExpansion(Struct, gc=False):
    """What the scripts of one request may still expand to, in characters."""

    left: int

    @property
    def is_exhausted(self) -> bool:
        """Whether the bound was exceeded."""
        return self.left < 0

    def spend(self, characters: int) -> None:
        """Count expanded characters. Once the bound is exceeded, it stays so."""
        if self.left >= 0:
            self.left -= characters


_current: Final[ContextVar[RequestExpansion | None]] = ContextVar("request_expansion", default=None)


def current_expansion() -> RequestExpansion | None:
    """The bound of the request that is being read; ``None`` if only the limits of each command apply."""
    return _current.get()


@contextmanager
def request_expansion(size: int) -> Iterator[RequestExpansion]:
    """Bound all scripts that are read within the block by the ``size`` of their request in bytes."""
    expansion = RequestExpansion(BASE + PER_BYTE * size)
    token = _current.set(expansion)
    try:
        yield expansion
    finally:
        _current.reset(token)
