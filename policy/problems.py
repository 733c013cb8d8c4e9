"""Problems: errors as RFC 9457 describes them, with every fault.

Owns the fields of a problem, and the kinds of problem with a request itself. The service has further kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from policy.errors import INTERNAL_ERROR, MAX_FAULTS, RemedyKind, RequestInvalid
from policy.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.errors import Remedies

REQUEST_KINDS: Final[dict[str, tuple[int, str]]] = {
    "invalid-request": (422, "Invalid request"),
    "unknown-release": (422, "The release is not known"),
    "model-config-needed": (422, "The config.json of a model is needed"),
    "unsupported-model": (422, "vLLM refuses the model"),
    INTERNAL_ERROR: (500, "A defect of Runner Policy"),
}
"""The kinds of problem with a request for a decision, with their status codes and titles."""
TYPE_PREFIX: Final = "urn:runner-policy:problem:"
"""What precedes the kind in the type of a problem."""
REMEDIES: Final[Remedies] = {
    RemedyKind.MODEL_CONFIG_OF_MANIFEST: (
        'a manifest cannot contain it, so send `{"manifest": …, "model_configs": {…}}`'
    ),
    RemedyKind.KNOWN_RELEASE: 'name one of them, or set `"beyond_verified": "nearest"` to use the closest',
    RemedyKind.VERSION: "state `vllm_version`",
}
"""The HTTP interface's wording of the remedies; the pointer of a missing ``config.json`` says where to send it."""


class ProblemFault(Struct, frozen=True):
    """One fault, with its position in the body and, for a rule, in its file."""

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
    """A problem of one of the ``kinds``; its ``detail`` is the first fault and the number of others.

    Validation stops after ``MAX_FAULTS`` faults, so there may be more.
    """
    status, title = kinds[kind]
    first = faults[0]
    where = f"{first.pointer}: " if first.pointer else ""
    detail = f"{where}{first.message}{and_more(len(faults))}"
    return Problem(TYPE_PREFIX + kind, title, status, detail, list(faults))


def and_more(count: int) -> str:
    """What follows the first of ``count`` faults in a line: the number of the others, if there are any."""
    least = "at least " if count >= MAX_FAULTS else ""
    return f" (and {least}{count - 1} more)" if count > 1 else ""


def fault_lines(problem: Problem) -> list[str]:
    """The faults of a problem, one per line, each with its position; control characters are escaped.

    The last line says if there may be more faults.
    """
    positions = map(_position, problem.errors)
    lines = [
        escape_line(f"{position}: {fault.message}" if position else fault.message)
        for position, fault in zip(positions, problem.errors, strict=True)
    ]
    if len(problem.errors) >= MAX_FAULTS:
        lines.append(f"there may be more: at most {MAX_FAULTS} faults are reported")
    return lines


def problem_text(problem: Problem) -> str:
    """A problem as lines of text: its title with its status and kind, then its faults."""
    kind = problem.type.removeprefix(TYPE_PREFIX)
    lines = [f"{problem.title} ({problem.status} {kind})", *fault_lines(problem)]
    return "".join(f"{line}\n" for line in lines)


def _position(fault: ProblemFault) -> str:
    if fault.file is UNSET:
        return fault.pointer
    return ":".join(str(part) for part in (fault.file, fault.line, fault.column) if part is not UNSET)


def request_problem(
    error: RequestInvalid, kinds: Mapping[str, tuple[int, str]] = REQUEST_KINDS, remedies: Remedies = REMEDIES
) -> Problem:
    """The problem, of one of the ``kinds``, that describes an invalid request."""
    faults = [ProblemFault(fault.pointer, fault.worded(remedies)) for fault in error.faults[:MAX_FAULTS]]
    return problem(error.problem, faults, kinds)
