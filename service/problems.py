"""Errors as answers: RFC 9457 ``application/problem+json``.

Owns the kinds of problem, their titles and status codes, and the conversion of errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from policy.errors import MAX_FAULTS, EngineFailed, PolicyError, RequestFault, RequestInvalid, RulesInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

MEDIA_TYPE: Final = "application/problem+json"

KINDS: Final[dict[str, tuple[int, str]]] = {
    "unauthorized": (401, "A token is needed"),
    "forbidden": (403, "The token does not allow this"),
    "cross-origin": (403, "Cross-origin requests are refused"),
    "malformed": (400, "The body cannot be read"),
    "not-found": (404, "Not found"),
    "method-not-allowed": (405, "Method not allowed"),
    "request-timeout": (408, "The body did not arrive in time"),
    "revision-mismatch": (412, "Another revision of the rules is loaded"),
    "too-large": (413, "The body is too large"),
    "unknown-host": (421, "The service does not answer for this host"),
    "unsupported-encoding": (415, "The body is encoded in a way that is not read here"),
    "invalid-request": (422, "Invalid request"),
    "unknown-release": (422, "The release is not known"),
    "model-config-needed": (422, "The config.json of a model is needed"),
    "unsupported-model": (422, "vLLM refuses the model"),
    "rules-invalid": (422, "The candidate rules cannot be used"),
    "too-much-work": (422, "The request asks for too much work"),
    "candidate-aborted": (422, "The candidate rules were stopped"),
    "dry-run-busy": (429, "Too many dry runs with candidate rules at once"),
    "too-many-requests": (429, "Too many requests"),
    "too-many-streams": (429, "Too many streams at once"),
    "log-unavailable": (503, "The decision could not be recorded"),
    "headers-too-large": (431, "The request's head is too large"),
    "busy": (503, "Too many large requests at once"),
    "too-many-connections": (503, "Too many connections"),
    "engine-failed": (503, "The rule engine did not finish"),
    "stopping": (503, "The service is stopping"),
}


UNAUTHORIZED: Final = 401
REQUEST_TIMEOUT: Final = 408
RETRYABLE: Final = frozenset({429, 503})
"""The status codes after which the same request may be sent again."""


class LogUnavailable(PolicyError):
    """A decision could not be recorded, though that is required."""


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


class Refused(PolicyError):
    """A request refused by the service, with its kind of problem; it may be retried after ``wait`` seconds."""

    def __init__(self, kind: str, detail: str, pointer: str = "", wait: int = 1) -> None:
        self.kind = kind
        self.pointer = pointer
        self.wait = wait
        super().__init__(detail)


def problem(kind: str, faults: Sequence[ProblemFault]) -> Problem:
    """A problem of a kind; its ``detail`` is the first fault, with the number of further ones.

    Readers stop after ``MAX_FAULTS`` faults, so there may be more.
    """
    status, title = KINDS[kind]
    first = faults[0]
    where = f"{first.pointer}: " if first.pointer else ""
    least = "at least " if len(faults) >= MAX_FAULTS else ""
    more = f" (and {least}{len(faults) - 1} more)" if len(faults) > 1 else ""
    return Problem(f"urn:runner-policy:problem:{kind}", title, status, f"{where}{first.message}{more}", list(faults))


def problem_of(error: PolicyError) -> Problem:
    """The problem of an error."""
    match error:
        case RequestInvalid(problem=kind, faults=faults):
            return problem(kind, [_fault(fault) for fault in faults[:MAX_FAULTS]])
        case RulesInvalid(faults=found):
            return problem(
                "rules-invalid",
                [ProblemFault("", fault.message, fault.path, fault.line, fault.column) for fault in found[:MAX_FAULTS]],
            )
        case Refused(kind=kind, pointer=pointer):
            return problem(kind, [ProblemFault(pointer, str(error))])
        case LogUnavailable():
            return problem("log-unavailable", [ProblemFault("", f"{error}; send the request again")])
        case EngineFailed():
            return problem("engine-failed", [ProblemFault("", f"{error}; send the request again")])
        case _:
            raise error


def headers_of(error: PolicyError, status: int) -> list[tuple[bytes, bytes]]:
    """The headers of a problem: its content type, and those of its status (RFC 6750 for 401, RFC 9110 for others)."""
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    elif status == REQUEST_TIMEOUT:
        headers.append((b"connection", b"close"))
    elif status in RETRYABLE:
        headers.append((b"retry-after", b"%d" % (error.wait if isinstance(error, Refused) else 1)))
    return headers


def _fault(fault: RequestFault) -> ProblemFault:
    return ProblemFault(fault.pointer, fault.message)
