"""Limits on the work that commands cause: of one command with all nested scripts, and of all commands of a request.

A request can have many commands, and a command may be parsed several times. Without a common limit, these factors would
multiply.

Where each limit is enforced:

==========================================  ==================================================
one command with its nested scripts         ``ExpansionBudget``
all commands of a request, by its size      ``RequestExpansion``, twice if they are read again
messages about all commands of a request    ``RequestExpansion``
formulas of the models of a request         ``policy.intake.model.formula``, in the event loop
decisions, size of the answer               ``service.limits.budget``
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
from policy.intake.command.words import Array
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TEXT: Final = 1_000_000
"""The maximum number of characters of one command or script."""
MAX_WORDS: Final = 4096
MAX_FILLED: Final = 1 << 16
MAX_COPIED: Final = 1 << 16
SHORTEST_SERVER: Final = len("vllm serve") - 1
"""The last index of the shortest command of vLLM's server; a value with a character there may be one."""
TOO_LONG_MESSAGE: Final = f"the values of its variables have more than {MAX_FILLED} characters, which is the limit"
TOO_MANY_VARIABLES: Final = f"its commands have more than {MAX_COPIED} variables in total, which is the limit"
BASE_CHARACTERS: Final = 1_000_000
"""Characters that the scripts of a request of any size may expand to."""
CHARACTERS_PER_BYTE: Final = 4
"""Additional characters for each byte of the request."""
CHARACTERS_PER_WORD: Final = 8
"""Characters that each expanded word costs in addition to its own (measured: time per word over time per character)."""
CHARACTERS_PER_NESTED: Final = 5
"""Characters that each character of a nested script costs."""
MAX_MESSAGES: Final = 2000
"""The maximum number of messages about the commands of a request; those of a container may have a hundred. When
they are used up, each command has one of each kind. A message takes as long as fifty ordinary arguments."""
EXHAUSTED_MESSAGE: Final = "the scripts of this request expand to more text than its size allows; split the request"


class ShellSyntaxError(PolicyError):
    """The text is not a valid shell command; the message says where."""


class ExpansionExhausted(ShellSyntaxError):
    """The scripts of the request expand to too much text, in this command and those before it."""


class RequestExpansion(Struct, gc=False):
    """How many characters the scripts of one request may still expand to, and how many messages it may still have.

    ``again`` is as much for commands that are read again with another variable only (`reading_again`).
    """

    remaining: int
    messages: int = MAX_MESSAGES
    again: RequestExpansion | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether a limit was exceeded."""
        return self.remaining < 0 or (self.again is not None and self.again.is_exhausted)

    def spend(self, characters: int) -> None:
        """Count expanded characters. Once the limit is exceeded, it remains exceeded."""
        if self.remaining >= 0:
            self.remaining -= characters


_current: Final[ContextVar[RequestExpansion | None]] = ContextVar("request_expansion", default=None)


def current_expansion() -> RequestExpansion | None:
    """The limit of the current request; ``None`` if only the limits of each command apply."""
    return _current.get()


def message_limit(most: int) -> int:
    """How many messages of a kind the next command may have: ``most``, or what is left for the request, at least 1."""
    expansion = _current.get()
    return most if expansion is None else max(1, min(most, expansion.messages))


def count_messages(number: int) -> None:
    """Count the messages about a command."""
    expansion = _current.get()
    if expansion is not None:
        expansion.messages -= number


def most_characters(size: int) -> int:
    """How many characters the scripts of a request of ``size`` bytes may expand to."""
    return BASE_CHARACTERS + CHARACTERS_PER_BYTE * size


@contextmanager
def request_expansion(characters: int) -> Iterator[RequestExpansion]:
    """Within the block, the scripts of a request may expand to this number of ``characters``."""
    expansion = RequestExpansion(characters, again=RequestExpansion(characters))
    token = _current.set(expansion)
    try:
        yield expansion
    finally:
        _current.reset(token)


@contextmanager
def reading_again() -> Iterator[None]:
    """Within the block, a command that was read is read again with another variable only.

    It counts towards limits of its own, as large as those of the request. So it does not keep other commands from being
    read, and the work for a request is at most twice what they allow.
    """
    expansion = _current.get()
    token = _current.set(None if expansion is None else expansion.again)
    try:
        yield
    finally:
        _current.reset(token)


class ExpansionBudget(Struct, gc=False):
    """What remains of the limits of one command with all nested scripts.

    A variable can be used repeatedly and scripts can run scripts, so limits on each text would multiply. Expansions
    also count towards the limit of the whole request, if there is one. ``secrets`` has the values that the scripts
    assign, in any way, to variables with the name of a secret. ``server_variables`` has the variables that get a
    command of vLLM's server, or may get it, once the ``unchecked`` values are read (`evaluated_variables`);
    a value that a script gives to a variable repeatedly is there once.
    """

    words: int = MAX_WORDS
    filled: int = MAX_FILLED
    copied: int = MAX_COPIED
    request: RequestExpansion | None = field(default_factory=current_expansion)
    secrets: set[str] = field(default_factory=set)
    server_variables: dict[str, None] = field(default_factory=dict)
    unchecked: dict[tuple[str, str], None] = field(default_factory=dict)
    startup_texts: dict[str, bool] = field(default_factory=dict)
    """The values that shells evaluate at their start, and whether each names vLLM's server."""
    other_values: set[str] = field(default_factory=set)
    """The values that are already searched for parts of the server's command, and have none; each is counted once."""
    has_vllm: bool = False
    """Whether a checked value has vLLM's name."""
    hidden: str = ""
    """Why a script may run what is read as data, or a different program than a name says; the first reason is kept."""

    def note_value(self, name: str, value: str | None) -> None:
        """Record the value that a variable gets or may get: a secret's, or one that may start vLLM."""
        if not value:
            return
        if is_secret(name):
            self.secrets.update(value.elements if isinstance(value, Array) else (value,))
        if value[SHORTEST_SERVER:] or "vllm" in value:
            self.unchecked[name, value] = None

    def note_element(self, name: str, subscript: str, value: str) -> None:
        """Record the value that an element of an array gets, if its subscript or the array's name is a secret's."""
        self.note_value(subscript if is_secret(subscript) else name, value)

    def add_word(self) -> None:
        """Count one word. Raises ShellSyntaxError beyond the limit."""
        self.words -= 1
        if self.words < 0:
            raise ShellSyntaxError(f"more than {MAX_WORDS} words, which is the limit")

    def fill(self, size: int) -> None:
        """Count the characters of a variable's value. Raises ShellSyntaxError beyond the limit."""
        self.filled -= size
        if self.filled < 0:
            raise ShellSyntaxError(TOO_LONG_MESSAGE)
        self._spend(size)

    def expand_words(self, count: int) -> None:
        """Count the words that an expansion yields; their characters are counted separately.

        Raises:
            ExpansionExhausted: the limit is exceeded.
        """
        self._spend(count * CHARACTERS_PER_WORD)

    def reread(self, size: int) -> None:
        """Count the characters of a nested script. Raises ExpansionExhausted beyond the limit."""
        self._spend(size * CHARACTERS_PER_NESTED)

    def copy(self, count: int) -> None:
        """Count the variables copied for a command. Raises ShellSyntaxError beyond the limit."""
        self.copied -= count
        if self.copied < 0:
            raise ShellSyntaxError(TOO_MANY_VARIABLES)
        self._spend(count)

    def _spend(self, characters: int) -> None:
        if self.request is None:
            return
        self.request.spend(characters)
        if self.request.remaining < 0:
            raise ExpansionExhausted(EXHAUSTED_MESSAGE)
