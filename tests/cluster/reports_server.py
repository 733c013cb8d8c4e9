"""A stub of an API server on loopback: pods in pages, and reports by server-side apply."""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "secret"
GROUP = "/apis/openreports.io/v1alpha1"


class Store:
    """What a stub has and what it was asked.

    ``fails`` has the answers of paths that it refuses; ``ensure_ascii`` says whether its JSON escapes other characters.
    """

    def __init__(self, pods: list[dict[str, Any]]) -> None:
        self.pods = pods
        self.reports: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls: list[tuple[str, str, dict[str, list[str]], str]] = []
        self.fails: dict[str, int] = {}
        self.installed = True
        self.ensure_ascii = True

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        for part, code in self.fails.items():
            if part in f"{method} {path}":
                return code, {"kind": "Status", "message": f"refused {path}"}
        if path.endswith("/pods"):
            return 200, self._page(path, query)
        if not path.startswith(GROUP) or not self.installed:
            return 404, {"kind": "Status", "message": "the server could not find the requested resource"}
        *_, namespace, _, name = ["", "", *path.removeprefix(GROUP).split("/")]
        if method == "PATCH":
            is_new = (namespace, name) not in self.reports
            self.reports[namespace, name] = body
            return (201 if is_new else 200), body
        if method == "DELETE":
            found = self.reports.pop((namespace, name), None)
            return (200, found) if found else (404, {"message": "not found"})
        return 200, {"items": [*self.reports.values()], "metadata": {}}

    def _page(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        """Two pods at a time."""
        namespace = path.split("/")[4] if "/namespaces/" in path else None
        pods = [pod for pod in self.pods if namespace in {None, (pod.get("metadata") or {}).get("namespace")}]
        start = int(query.get("continue", ["0"])[0])
        more = {"continue": str(start + 2)} if start + 2 < len(pods) else {}
        return {"kind": "PodList", "items": pods[start : start + 2], "metadata": more}


@contextmanager
def serving(store: Store, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """The address of a stub that serves a store, over TLS with a certificate and its key."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            data = self.rfile.read(size)
            query = parse_qs(parts.query)
            store.calls.append((self.command, parts.path, query, self.headers.get("content-type", "")))
            if self.headers.get("authorization") != f"Bearer {TOKEN}":
                code, answer = 401, {"message": "Unauthorized"}
            else:
                code, answer = store.answer(self.command, parts.path, query, json.loads(data) if data else None)
            text = json.dumps(answer, ensure_ascii=store.ensure_ascii).encode("utf-8", "surrogatepass")
            self.send_response(code)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_DELETE = respond  # noqa: N815  # the names of the base class

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
