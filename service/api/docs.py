"""``GET /openapi.json``, and ``GET /docs``: an interactive page for it, with scripts served from here.

Owns the endpoints, the page and its static files. FastAPI's own page loads them from a CDN, which a cluster may not be
able to reach.
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
FRAME_HEADERS: Final = {"content-security-policy": "frame-ancestors 'none'", "x-frame-options": "DENY"}
"""Headers that forbid frames: another site could trick a user into sending requests from a frame."""


class WholeFiles(StaticFiles):
    """Static files, always sent whole: ``Range`` is ignored, as a server may (RFC 9110, section 14.2).

    Starlette answers an invalid range with plain text, and every error here is a problem.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without its ``Range``."""
        headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
        await super().__call__({**scope, "headers": headers}, receive, send)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The answer for a path."""
        response = await super().get_response(path, scope)
        response.headers["accept-ranges"] = "none"
        return response


def add_docs(app: FastAPI, openapi_json: Callable[[], Awaitable[bytes]]) -> None:
    """Serve the document that ``openapi_json`` returns, the page and its files.

    The addresses in the page are relative: a proxy may show the service below a path prefix.
    """
    document_url, static = DOCUMENT.removeprefix("/"), STATIC.removeprefix("/")
    page = get_swagger_ui_html(
        openapi_url=document_url,
        title=app.title,
        swagger_js_url=f"{static}/swagger-ui-bundle.js",
        swagger_css_url=f"{static}/swagger-ui.css",
        swagger_favicon_url=f"{static}/favicon.png",
    )
    page.headers.update(FRAME_HEADERS)

    @app.get(DOCUMENT, include_in_schema=False)
    async def document() -> Response:
        return Response(await openapi_json(), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page

    app.mount(STATIC, WholeFiles(directory=str(files("fastapi_offline") / "static")))
