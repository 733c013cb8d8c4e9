"""``GET /``: the landing page, as HTML for browsers, text for terminals, and JSON.

Owns the endpoint, its headers, and the choice of the form. Not here: the contents (``service.state.landing``).
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

from service.api.docs import UNFRAMED
from service.documents.accept import HTML, JSON, TEXT, accept_of, preferred
from service.state.answers import today
from service.state.landing import STYLE, landing_forms

if TYPE_CHECKING:
    from datetime import date

    from fastapi import FastAPI
    from starlette.requests import Request

    from policy.policy import Policy

PATH: Final = "/"
STYLE_HASH: Final = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS: Final = {
    **UNFRAMED,
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        f"{UNFRAMED['content-security-policy']}"
    ),
    "vary": "accept",
}


class LandingPage:
    """The page of a loaded policy, rebuilt when the rules or the date change."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._made: tuple[Policy, date] | None = None
        self._forms: dict[bytes, bytes] = {}

    def response(self, policy: Policy, accept: bytes) -> Response:
        """The answer to a client with this ``Accept``: text unless it names another form."""
        now = policy, today()
        if now != self._made:
            self._forms, self._made = landing_forms(*now, self._version), now
        media_type = preferred(accept, (HTML, JSON, TEXT)) or TEXT
        return Response(self._forms[media_type], media_type=media_type.decode(), headers=HEADERS)


def add_landing_page(app: FastAPI, version: str) -> None:
    """Serve the page."""
    page = LandingPage(version)

    async def landing(request: Request) -> Response:
        return page.response(request.app.state.service.answers.policy, accept_of(request.scope))

    app.router.routes.append(Route(PATH, landing, methods=["GET"]))
