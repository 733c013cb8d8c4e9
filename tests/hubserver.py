"""A server on loopback with the hub's file route, for tests only."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import huggingface_hub

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
TEXT = json.dumps(CONFIG).encode()
NAME = "Qwen/Qwen3-8B"
TOKEN = "hf_this_is_nobodys_token"


@dataclass
class Reply:
    """A reply, sent once ``hold`` is set; with ``drip``, byte by byte."""

    body: bytes = TEXT
    status: int = 200
    headers: dict[str, str | None] = field(default_factory=dict)
    hold: threading.Event | None = None
    drip: bool = False


@dataclass
class HubServer:
    """A hub: its files by path, and the requests that it received, each with method, path and token."""

    replies: dict[str, Reply] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def give(self, reply: Reply, file: str = "config.json", name: str = NAME, revision: str = "main") -> None:
        self.replies[f"/{name}/resolve/{revision}/{file}"] = reply


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_test: HubServer

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, *, with_body: bool) -> None:
        server, path = self.server_of_test, unquote(self.path)
        server.asked.append((self.command, path))
        server.tokens.append(self.headers["authorization"])
        missing = Reply(b"", 404, {"X-Error-Code": "EntryNotFound"})
        reply = (
            server.replies.get(path)
            or server.replies.get(path.replace(COMMIT, "main"))
            or server.replies.get("*")
            or missing
        )
        if reply.hold is not None and (with_body or not reply.drip):
            reply.hold.wait(20)
        self.send_response(reply.status)
        headers = {
            "ETag": f'"{abs(hash(reply.body)):x}"',
            "X-Repo-Commit": COMMIT,
            "Content-Length": str(len(reply.body)),
        } | reply.headers
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
        if headers["Content-Length"] is None:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if with_body:
            self.send(reply)

    def send(self, reply: Reply) -> None:
        parts = [reply.body[at : at + 1] for at in range(len(reply.body))] if reply.drip else [reply.body]
        try:
            for part in parts:
                self.wfile.write(part)
                if reply.drip:
                    self.server_of_test.release.wait(0.02)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hub_server() -> Iterator[HubServer]:
    server = HubServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("OfTest", (Handler,), {"server_of_test": server}))
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    try:
        yield server
    finally:
        server.release.set()
        huggingface_hub.close_session()
        http.shutdown()
        thread.join()
        http.server_close()
