"""Errors as answers: RFC 9457 ``application/problem+json``.

Owns the kinds of problem that the service adds to those of a request, and the conversion of errors.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from policy.decision.decision import encode
from policy.errors import MAX_FAULTS, EngineFailed, PolicyError, RequestInvalid, RulesInvalid
from policy.problems import REQUEST_KINDS, Problem, ProblemFault, problem, problem_text, request_problem

MEDIA_TYPE: Final = "application/problem+json"
"""The content type of a problem as JSON."""
TEXT: Final = b"text/plain; charset=utf-8"
"""The content type of any answer as text."""
VARY: Final = (b"vary", b"accept")
"""The header of an answer that would have another form for clients that prefer it (RFC 9110, section 12.5.5)."""

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
    "unsupported-encoding": (415, "The body's encoding is not supported"),
    **REQUEST_KINDS,
    "rules-invalid": (422, "The candidate rules cannot be used"),
    "too-much-work": (422, "The request asks for too much work"),
    "candidate-aborted": (422, "The candidate rules were stopped"),
    "dry-run-busy": (429, "Too many dry runs with candidate rules at once"),
    "too-many-requests": (429, "Too many requests"),
    "too-many-streams": (429, "Too many streams at once"),
    "log-unavailable": (503, "The decision could not be recorded"),
    "headers-too-large": (431, "The request headers are too large"),
    "busy": (503, "Too many large requests at once"),
    "too-many-connections": (503, "Too many connections"),
    "engine-failed": (503, "The rule engine did not finish"),
    "stopping": (503, "The service is stopping"),
}


UNAUTHORIZED: Final = 401
REQUEST_TIMEOUT: Final = 408
RETRYABLE_STATUSES: Final = frozenset({429, 503})
"""The status codes after which the same request may be sent again."""


class LogUnavailable(PolicyError):
    """A decision could not be recorded, though that is required."""


class Refused(PolicyError):
    """A request refused by the service, with its kind of problem; it may be retried after ``wait`` seconds."""

    def __init__(self, kind: str, detail: str, pointer: str = "", wait: int = 1) -> None:
        self.kind = kind
        self.pointer = pointer
        self.wait = wait
        super().__init__(detail)


def problem_of(error: PolicyError) -> Problem:
    """The problem of an error."""
    match error:
        case RequestInvalid():
            return request_problem(error, KINDS)
        case RulesInvalid(faults=found):
            return problem(
                "rules-invalid",
                [ProblemFault("", fault.message, fault.path, fault.line, fault.column) for fault in found[:MAX_FAULTS]],
                KINDS,
            )
        case Refused(kind=kind, pointer=pointer):
            return problem(kind, [ProblemFault(pointer, str(error))], KINDS)
        case LogUnavailable():
            return problem("log-unavailable", [ProblemFault("", f"{error}; send the request again")], KINDS)
        case EngineFailed():
            return problem("engine-failed", [ProblemFault("", f"{error}; send the request again")], KINDS)
        case _:
            raise error


class ProblemResponse(Struct, frozen=True):
    """The response to a request that cannot be answered."""

    status: int
    content_type: bytes
    headers: list[tuple[bytes, bytes]]
    """All headers, with the content type and the length."""
    body: bytes


def response_of(error: PolicyError, *, as_text: bool) -> ProblemResponse:
    """The response for an error: its problem as JSON, or with the same content as text."""
    found = problem_of(error)
    body = problem_text(found).encode() if as_text else encode(found)
    content_type = TEXT if as_text else MEDIA_TYPE.encode()
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), VARY]
    return ProblemResponse(found.status, content_type, [*headers, *_headers_of(error, found.status)], body)


def _headers_of(error: PolicyError, status: int) -> list[tuple[bytes, bytes]]:
    """The headers of a problem's status (RFC 6750 for 401, RFC 9110 for others)."""
    headers: list[tuple[bytes, bytes]] = []
    if status == UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    elif status == REQUEST_TIMEOUT:
        headers.append((b"connection", b"close"))
    elif status in RETRYABLE_STATUSES:
        headers.append((b"retry-after", b"%d" % (error.wait if isinstance(error, Refused) else 1)))
    return headers
