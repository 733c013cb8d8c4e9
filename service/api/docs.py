"""``GET /openapi.json``, and ``GET /docs``: that document to click through, with scripts from this machine.

Owns the endpoints, the page and its static files. FastAPI's own page loads them from elsewhere, which a cluster
without a way out cannot, and a policy service should not ask for.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

STATIC: Final = "/docs/static"
DOCUMENT: Final = "/openapi.json"
UNFRAMED: Final = {"content-security-policy": "frame-ancestors 'none'", "x-frame-options": "DENY"}
"""Headers of the page: another site's frame could lead a user to send requests with it."""


class _WholeFiles(StaticFiles):
    """Files that are always sent as a whole.

    A server may ignore `Range` (RFC 9110, 14.2); an invalid one would be an answer in plain text.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)


def add_docs(app: FastAPI, openapi_json: Callable[[], Awaitable[bytes]]) -> None:
    """Serve the document, which ``openapi_json`` makes, the page and its files."""
    page = get_swagger_ui_html(
        openapi_url=DOCUMENT,
        title=app.title,
        swagger_js_url=f"{STATIC}/swagger-ui-bundle.js",
        swagger_css_url=f"{STATIC}/swagger-ui.css",
        swagger_favicon_url=f"{STATIC}/favicon.png",
    )
    page.headers.update(UNFRAMED)

    @app.get(DOCUMENT, include_in_schema=False)
    async def document() -> Response:
        return Response(await openapi_json(), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page

    app.mount(STATIC, _WholeFiles(directory=str(files("fastapi_offline") / "static")))
