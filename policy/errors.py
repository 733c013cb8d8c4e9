"""The error types that modules share, with their faults as data.

A fault's message says where, what was found, what is legal and what to do. It is one sentence in lower case
without a full stop; what the user wrote is in backticks.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from policy.masking import masked_message
from policy.pointer import existing, shorten, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from policy.secret_values import SecretValues

MAX_FAULTS = 100
FURTHER_FAULTS: Final = "further faults are left out: {} has too many; split it"
INVALID_REQUEST: Final = "invalid-request"
"""The default problem of ``RequestInvalid``."""
INTERNAL_ERROR: Final = "internal-error"
"""The problem of a request that shows a defect of this program."""


class PolicyError(Exception):
    """The base of every error that this project raises on purpose."""


class LimitExceeded(PolicyError):
    """A text exceeds a limit of its reader, so that what it contains is not known."""


class LongMessages(PolicyError):
    """The faults of a request are too long to be searched for secrets where they were found."""


_most_characters: Final[ContextVar[int | None]] = ContextVar("most_characters", default=None)


@contextmanager
def bounded_messages(characters: int) -> Iterator[None]:
    """Within the block, the faults of a request may have this number of ``characters``.

    Raises:
        LongMessages: the faults of a `RequestInvalid` have more.
    """
    token = _most_characters.set(characters)
    try:
        yield
    finally:
        _most_characters.reset(token)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault in a rule file; lines and columns count from 1."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class RulesInvalid(PolicyError):
    """The rules cannot be used; ``faults`` holds every reason, sorted by file and line."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(map(str, self.faults)))

    def under(self, folder: Path) -> RulesInvalid:
        """The same faults, with ``folder`` before each file's path."""
        return RulesInvalid(replace(fault, path=str(folder / fault.path)) for fault in self.faults)


class RemedyKind(StrEnum):
    """What the user must supply, where each interface has its own way to supply it.

    The HTTP interface, the command line and Kubernetes reviews each have their own wording (``Remedies``).
    """

    MODEL_CONFIG = "model-config"
    """The ``config.json`` of a model."""
    MODEL_CONFIG_OF_MANIFEST = "model-config-of-manifest"
    """The ``config.json`` of a model, if the whole input is a manifest, which cannot contain it."""
    KNOWN_RELEASE = "known-release"
    """A release that the rules cover."""
    VERSION = "version"
    """The version of vLLM."""


Remedies: TypeAlias = "Mapping[RemedyKind, str]"
"""An interface's wording of each remedy; a remedy that is not in it adds nothing to the message."""


@dataclass(frozen=True, slots=True)
class RefusedArgument:
    """An argument that vLLM's own parser refuses, at a place such as ``args[3]``.

    If it is the value of an ``option``, vLLM takes the others without it; ``value`` is as an answer shows it.
    """

    place: str
    option: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class RequestFault:
    """One fault in a request: an RFC 6901 JSON pointer into the body, and what is wrong there.

    ``remedy`` is what to do about it, unless the message already says so. ``refused`` is the argument if vLLM's own
    parser refuses it, and ``None`` for any other fault. ``is_defect`` is whether it is a fault of this program.
    ``hides_engines`` is whether what it keeps from being read runs vLLM, or may have any number of engines.
    """

    pointer: str
    message: str
    remedy: RemedyKind | None = None
    refused: RefusedArgument | None = None
    is_defect: bool = False
    hides_engines: bool = field(default=False, compare=False)

    def worded(self, remedies: Remedies) -> str:
        """The message with the remedy, in an interface's wording."""
        words = None if self.remedy is None else remedies.get(self.remedy)
        return self.message if words is None else f"{self.message}; {words}"


class RequestInvalid(PolicyError):
    """A request that cannot be decided; ``problem`` is the name of the problem, ``faults`` the first 100 reasons.

    If one of them is a defect, the problem is ``INTERNAL_ERROR``. ``hides_engines`` is whether what cannot be read has
    engines, or may have any number of them.

    Pointers contain names from users: one of more than 1,024 characters is cut after the last step that fits, and one
    with a secret before the step that contains it.
    """

    def __init__(self, faults: Iterable[RequestFault], problem: str = INVALID_REQUEST) -> None:
        """Mask the first 100 faults.

        Raises:
            LongMessages: they have more characters than ``bounded_messages`` allows.
        """
        faults = list(faults)
        self.hides_engines = any(fault.hides_engines for fault in faults)
        _check_length(faults[:MAX_FAULTS])
        self.faults = tuple(
            replace(fault, pointer=without_secrets(shorten(fault.pointer)), message=masked_message(fault.message))
            for fault in faults[:MAX_FAULTS]
        )
        self.problem = INTERNAL_ERROR if any(fault.is_defect for fault in self.faults) else problem
        super().__init__()

    def __reduce__(self) -> tuple[object, ...]:
        """Its state for pickling: it does not keep the arguments of ``__init__``, so no process calls that again."""
        return type(self).__new__, (type(self),), vars(self)

    def __str__(self) -> str:
        return "; ".join(f"{fault.pointer or '/'}: {fault.message}" for fault in self.faults)

    def hide(self, values: SecretValues) -> None:
        """Hide the values in each fault's message, and cut its pointer before a step that contains one."""
        if not values:
            return
        self.faults = tuple(
            replace(
                fault,
                pointer=without_secrets(fault.pointer, values),
                message=values.hidden(fault.message),
                refused=fault.refused and replace(fault.refused, value=values.hidden(fault.refused.value)),
            )
            for fault in self.faults
        )

    def end_within(self, pointer: str, document: object) -> None:
        """Cut each fault's pointer into ``document``, which is at ``pointer``, after the last step that exists."""
        self.faults = tuple(replace(fault, pointer=existing(fault.pointer, pointer, document)) for fault in self.faults)


def _check_length(faults: Sequence[RequestFault]) -> None:
    """Raise ``LongMessages`` if the faults have too many characters."""
    most = _most_characters.get()
    if most is not None and sum(len(fault.pointer) + len(fault.message) for fault in faults) > most:
        raise LongMessages


class EngineFailed(PolicyError):
    """The rule engine failed during a run, or refused a definition."""
