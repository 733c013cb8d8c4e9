"""The responses of a connection that is over a limit, and to requests whose headers are too large."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from policy.decision.decision import encode
from service.auth.access import OPEN_PATHS
from service.problems import MEDIA_TYPE, Refused, headers_of, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

TOO_MANY: Final = 503


def head_too_large(max_bytes: int, max_headers: int) -> bytes:
    """The whole response to a request whose headers exceed a limit."""
    detail = f"the request's head is too large; at most {max_bytes:,} bytes and {max_headers} headers are accepted"
    problem = problem_of(Refused("headers-too-large", detail))
    body = encode(problem)
    status = HTTPStatus(problem.status)
    lines = [
        b"HTTP/1.1 %d %b" % (status, status.phrase.encode()),
        b"content-type: " + MEDIA_TYPE.encode(),
        b"content-length: %d" % len(body),
    ]
    return b"\r\n".join([*lines, b"connection: close", b"", body])


def reject_requests(app: ASGIApp) -> ASGIApp:
    """The application of a connection above the limit: it answers 503 and closes, except to probes."""
    error = Refused(
        "too-many-connections", "this process holds as many connections as it may; close unused ones, and try again"
    )
    body = encode(problem_of(error))
    headers = [*headers_of(error, TOO_MANY), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": TOO_MANY, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return refuse
