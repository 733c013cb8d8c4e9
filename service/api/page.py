"""The page for browsers: ``/``, ``/rules`` and the other views, and the files that they load.

Owns the endpoints and their headers. The files are built from ``service/page`` and held in memory, also compressed;
they contain nothing of the loaded rules or of a caller, so they need no token. The page gets what it shows from the
other endpoints. Not here: the other forms of ``/`` (``landing``).
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from starlette.responses import Response
from starlette.routing import Route

from policy.messages import quoted
from service.documents.accept import HTML, JSON, TEXT, accept_of, headers_of, items_of, known_tags, preferred_type
from service.problems import Refused

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.types import Scope

BUILT_FILES: Final = files("service").joinpath("page", "built")
LANDING_PATH: Final = "/"
VIEWS: Final = ("/rules", "/edit", "/fleet")
"""The paths of the page's views, beside ``/``."""
ASSETS: Final = "/assets/"
TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}
PAGE_CACHING: Final = "no-cache"
"""For the page itself, whose files change with the service."""
ASSET_CACHING: Final = "public, max-age=31536000, immutable"
"""For files whose names change with their contents."""


class PageFile(Struct, frozen=True):
    """A file of the page, whole and compressed, with its headers."""

    body: bytes
    compressed: bytes
    headers: dict[str, str]

    def response(self, scope: Scope) -> Response:
        """The answer to a request: compressed if the client accepts gzip, or 304 if it already has the file."""
        if not known_tags(scope).isdisjoint({self.headers["etag"].encode(), b"*"}):
            return Response(status_code=304, headers=self.headers)
        if not _accepts_gzip(headers_of(scope).get(b"accept-encoding", b"")):
            return Response(self.body, headers=self.headers)
        return Response(self.compressed, headers={**self.headers, "content-encoding": "gzip"})


class Page:
    """The files of the page."""

    def __init__(self) -> None:
        self.index = _page_file("index.html", PAGE_CACHING)
        names = [file.name for file in BUILT_FILES.joinpath("assets").iterdir()]
        self.assets = {name: _page_file(f"assets/{name}", ASSET_CACHING) for name in names}


def is_page(scope: Scope) -> bool:
    """Whether a read request is for the page or one of its files, which need no token."""
    path: str = scope["path"]
    if path == LANDING_PATH:
        return preferred_type(accept_of(scope), (HTML, JSON, TEXT)) == HTML
    return path in VIEWS or path.startswith(ASSETS)


def add_page(app: FastAPI, page: Page) -> None:
    """Serve the views and the files; ``/`` is served with the landing page."""

    async def view(request: Request) -> Response:
        return page.index.response(request.scope)

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        file = page.assets.get(name)
        if file is None:
            raise Refused("not-found", f"no file of the page is named {quoted(name)}; load it again")
        return file.response(request.scope)

    app.router.routes.extend(Route(path, view, methods=["GET"]) for path in VIEWS)
    app.router.routes.append(Route(f"{ASSETS}{{name}}", asset, methods=["GET"]))


@cache
def _page_file(name: str, caching: str) -> PageFile:
    """A file, compressed once in a process."""
    body = BUILT_FILES.joinpath(name).read_bytes()
    headers = {
        **HEADERS,
        "content-type": f"{TYPES[name.rpartition('.')[2]]}; charset=utf-8",
        "cache-control": caching,
        "etag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "vary": "accept, accept-encoding",
    }
    return PageFile(body, gzip.compress(body, 9, mtime=0), headers)


def _accepts_gzip(header: bytes) -> bool:
    """Whether ``Accept-Encoding`` names gzip with a weight above zero (RFC 9110, section 12.5.3)."""
    for part in items_of(header.lower()):
        coding, *parameters = (piece.strip() for piece in part.split(b";"))
        if coding in {b"gzip", b"*"}:
            return not any(piece.replace(b" ", b"").rstrip(b"0.") in {b"q=", b"q"} for piece in parameters)
    return False
