"""``GET /``: what the service is, as text for terminals and as JSON; browsers get the page (``page``).

Owns the endpoint and the choice of the form. Not here: the contents (``service.state.landing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

from service.api.docs import FRAME_HEADERS
from service.api.page import LANDING_PATH, is_page
from service.documents.accept import JSON, TEXT, accept_of, preferred_type
from service.state.answers import today
from service.state.landing import landing_forms

if TYPE_CHECKING:
    from datetime import date

    from fastapi import FastAPI
    from starlette.requests import Request

    from policy.policy import Policy
    from service.api.page import Page

HEADERS: Final = {**FRAME_HEADERS, "vary": "accept"}


class Landing:
    """The description of a loaded policy, made again when the rules or the date change."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._made: tuple[Policy, date] | None = None
        self._forms: dict[bytes, bytes] = {}

    def response(self, policy: Policy, accept: bytes) -> Response:
        """The answer to a client with this ``Accept``: text unless it names another form."""
        now = policy, today()
        if now != self._made:
            self._forms, self._made = landing_forms(*now, self._version), now
        media_type = preferred_type(accept, (JSON, TEXT)) or TEXT
        return Response(self._forms[media_type], media_type=media_type.decode(), headers=HEADERS)


def add_landing(app: FastAPI, version: str, page: Page) -> None:
    """Serve the description, and the page to browsers."""
    found = Landing(version)

    async def landing(request: Request) -> Response:
        if is_page(request.scope):
            return page.index.response(request.scope)
        return found.response(request.app.state.service.answers.policy, accept_of(request.scope))

    app.router.routes.append(Route(LANDING_PATH, landing, methods=["GET"]))
