"""The responses of a connection that is over a limit, and to requests whose headers are too large."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from policy.decision.decision import encode
from service.auth.access import OPEN_PATHS
from service.documents.accept import wants_text
from service.problems import MEDIA_TYPE, Refused, problem_of, response_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def head_too_large(max_bytes: int, max_headers: int) -> bytes:
    """The whole response to a request whose headers exceed a limit.

    It is JSON whatever the client accepts: its headers have not all been read.
    """
    detail = f"the request headers are too large; at most {max_bytes:,} bytes and {max_headers} headers are accepted"
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
        "too-many-connections", "this process has reached its limit of connections; close unused ones, and try again"
    )
    forms = {as_text: response_of(error, as_text=as_text) for as_text in (False, True)}

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS:
            await app(scope, receive, send)
            return
        response = forms[wants_text(scope)]
        headers = [*response.headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    return refuse
