"""Problems: errors as RFC 9457 describes them, with every fault.

Owns the fields of a problem, and the kinds of those that a request itself can have. The service has further kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from policy.errors import MAX_FAULTS, RequestInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REQUEST_KINDS: Final[dict[str, tuple[int, str]]] = {
    "invalid-request": (422, "Invalid request"),
    "unknown-release": (422, "The release is not known"),
    "model-config-needed": (422, "The config.json of a model is needed"),
    "unsupported-model": (422, "vLLM refuses the model"),
}
"""The kinds of problem with the request for a decision, with their status code and title."""


class ProblemFault(Struct, frozen=True):
    """One fault: where in the body, and for a rule where in its file."""

    pointer: str
    message: str
    file: str | UnsetType = UNSET
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET


class Problem(Struct, frozen=True):
    """An RFC 9457 problem; ``errors`` has every fault found."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemFault]


def problem(kind: str, faults: Sequence[ProblemFault], kinds: Mapping[str, tuple[int, str]] = REQUEST_KINDS) -> Problem:
    """A problem of one of the ``kinds``; its ``detail`` is the first fault, with the number of further ones.

    Readers stop after ``MAX_FAULTS`` faults, so there may be more.
    """
    status, title = kinds[kind]
    first = faults[0]
    where = f"{first.pointer}: " if first.pointer else ""
    least = "at least " if len(faults) >= MAX_FAULTS else ""
    more = f" (and {least}{len(faults) - 1} more)" if len(faults) > 1 else ""
    return Problem(f"urn:runner-policy:problem:{kind}", title, status, f"{where}{first.message}{more}", list(faults))


def request_problem(error: RequestInvalid, kinds: Mapping[str, tuple[int, str]] = REQUEST_KINDS) -> Problem:
    """The problem of a request that is invalid, which is of one of the ``kinds``."""
    faults = [ProblemFault(fault.pointer, fault.message) for fault in error.faults[:MAX_FAULTS]]
    return problem(error.problem, faults, kinds)
