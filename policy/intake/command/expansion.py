"""The bounds on what scripts expand to: one command with all scripts nested in it, and all commands of a request.

A request can have many commands, and reads a command several times. Without a common bound, its work would be the
product of all of these.

Which bound is where:

==========================================  ==================================================
one command with its nested scripts         ``ExpansionBudget``
all commands of a request, by its bytes     ``RequestExpansion``
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

from msgspec import Struct, field

from policy.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TEXT: Final = 1_000_000
"""Characters of one command or script."""
MAX_WORDS: Final = 4096
MAX_FILLED: Final = 1 << 16
MAX_COPIED: Final = 1 << 16
TOO_LONG: Final = f"the values of its variables have more than {MAX_FILLED} characters, the limit"
TOO_MANY: Final = f"its commands have more than {MAX_COPIED} variables in total, the limit"
BASE: Final = 1_000_000
"""Characters that the scripts of any request may expand to."""
PER_BYTE: Final = 4
"""Further characters for each byte of the request."""
PER_WORD: Final = 8
"""The characters that an expanded word counts as besides its own (measured: time for a word and for a character)."""
PER_REREAD: Final = 5
"""The characters that each character counts as when a script reads it as another script."""
EXHAUSTED: Final = "the scripts of this request expand to more than is read for its size; split it"


class ShellSyntaxError(PolicyError):
    """The text is not a valid shell command; the message says at which character."""


class ExpansionExhausted(ShellSyntaxError):
    """The scripts of the request expand to too much, in this command or in those before it."""


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


class ExpansionBudget(Struct, gc=False):
    """The remaining limits for reading one command, with all scripts nested in it.

    A variable can be used often and scripts can run scripts, so limits on each single text would multiply. What is
    expanded also counts towards the limit of the whole request, if there is one.
    """

    words: int = MAX_WORDS
    filled: int = MAX_FILLED
    copied: int = MAX_COPIED
    request: RequestExpansion | None = field(default_factory=current_expansion)

    def add_word(self) -> None:
        """Count one word. Raises ShellSyntaxError beyond the limit."""
        self.words -= 1
        if self.words < 0:
            raise ShellSyntaxError(f"more than {MAX_WORDS} words, the limit")

    def fill(self, size: int) -> None:
        """Count the characters of a variable's value. Raises ShellSyntaxError beyond the limit."""
        self.filled -= size
        if self.filled < 0:
            raise ShellSyntaxError(TOO_LONG)
        self._spend(size)

    def expand_words(self, count: int) -> None:
        """Count the words that an expansion produces; their characters are counted separately.

        Raises:
            ExpansionExhausted: the limit is exceeded.
        """
        self._spend(count * PER_WORD)

    def reread(self, size: int) -> None:
        """Count the characters that a script reads as another script. Raises ExpansionExhausted beyond the limit."""
        self._spend(size * PER_REREAD)

    def copy(self, count: int) -> None:
        """Count variables that are copied for a command. Raises ShellSyntaxError beyond the limit."""
        self.copied -= count
        if self.copied < 0:
            raise ShellSyntaxError(TOO_MANY)
        self._spend(count)

    def _spend(self, characters: int) -> None:
        if self.request is None:
            return
        self.request.spend(characters)
        if self.request.is_exhausted:
            raise ExpansionExhausted(EXHAUSTED)
