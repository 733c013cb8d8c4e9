"""The files of the page: their headers, compression and tags, and who may have them."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest

from policy.intake.manifests.registry import COLLECTED_KINDS
from policy.request.documents import FIELDS_BESIDE_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import httpx

    from .conftest import Server

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
VIEWS = ("/", "/rules", "/edit", "/fleet")
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


def asset_paths(client: httpx.Client) -> list[str]:
    """The files that the page loads, as paths; it names them relatively."""
    found: list[str] = re.findall(r'(?:src|href)="\./([^"]+)"', client.get("/", headers={"accept": BROWSER}).text)
    return [f"/{path}" for path in found]


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_is_the_same_page_and_loads_nothing_from_elsewhere(client: httpx.Client, path: str) -> None:
    response = client.get(path, headers={"accept": BROWSER})
    policy = dict(part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";"))
    assert policy == POLICY
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.text == client.get("/", headers={"accept": BROWSER}).text
    assert ("://" in response.text, "<style" in response.text, "style=" in response.text) == (False, False, False)
    assert re.findall(r"<script(?![^>]* src=)", response.text) == []


def test_the_files_of_the_page_are_kept_for_ever_and_their_names_change_with_them(client: httpx.Client) -> None:
    paths = asset_paths(client)
    assert {path.rpartition(".")[2] for path in paths} == {"js", "css"}
    for path in paths:
        response = client.get(path)
        assert (response.status_code, response.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
        assert re.fullmatch(r"/assets/[\w-]+-[\w-]{8}\.(js|css)", path)


def test_all_files_of_the_page_are_small(client: httpx.Client) -> None:
    sizes = [len(gzip.compress(client.get(path).content)) for path in asset_paths(client)]
    assert sum(sizes) < 150_000


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        *(("gzip", True), ("br;q=1, gzip;q=0.5", True), ("*", True), ("gzip".ljust(1024, ","), True)),
        *(("identity", False), ("gzip;q=0", False), ("", False), ("gzip".ljust(1025, ","), False)),
    ],
)
def test_a_file_is_compressed_for_clients_that_accept_it(
    client: httpx.Client, accepted: str, *, is_compressed: bool
) -> None:
    path = asset_paths(client)[0]
    whole = client.get(path, headers={"accept-encoding": "identity"}).content
    response = client.get(path, headers={"accept-encoding": accepted})
    assert ("content-encoding" in response.headers) is is_compressed
    assert response.content == whole  # the client decompresses it
    assert (int(response.headers["content-length"]) < len(whole)) is is_compressed
    assert "accept-encoding" in response.headers["vary"]


@pytest.mark.parametrize("path", [*VIEWS, "asset"])
def test_a_file_that_the_client_has_is_not_sent_again(client: httpx.Client, path: str) -> None:
    path = asset_paths(client)[0] if path == "asset" else path
    tag = client.get(path, headers={"accept": BROWSER}).headers["etag"]
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        response = client.get(path, headers={"accept": BROWSER, "if-none-match": sent})
        assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", tag)
    for sent, status in (('"other"', 200), (tag.ljust(1024, ","), 304), (tag.ljust(1025, ","), 200)):
        assert client.get(path, headers={"accept": BROWSER, "if-none-match": sent}).status_code == status


def test_the_page_sends_what_others_refer_to_with_every_part_of_a_manifest(root: Path) -> None:
    source = (root / "service/page/src/ask/decide.ts").read_text()
    shared = re.findall(r'"(\w+)"', source.partition("SHARED_KINDS = new Set([")[2].partition("]")[0])
    assert set(shared) == {kind for _, kind in COLLECTED_KINDS}


def test_the_page_joins_documents_with_the_fields_of_a_request(root: Path) -> None:
    source = (root / "service/page/src/ask/input.ts").read_text()
    fields = re.findall(r'"(\w+)"', source.partition("FIELDS_BESIDE_MANIFEST = new Set([")[2].partition("]")[0])
    assert set(fields) == FIELDS_BESIDE_MANIFEST


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("index.html", "no file of the page is named `index.html`; load it again"),
        ("none.js", "no file of the page is named `none.js`; load it again"),
        ("..%2f..%2fapp.py", "unknown path `/assets/../../app.py`"),
        ("%00", "no file of the page is named `\\x00`; load it again"),
        ("x" * 60_000, f"no file of the page is named `{'x' * 80}…`; load it again"),
        ("token=hunter2hunter2", "no file of the page is named `token=…`; load it again"),
    ],
    ids=["the page", "none", "a path", "a control character", "a long name", "a secret"],
)
def test_other_names_are_a_problem(client: httpx.Client, name: str, detail: str) -> None:
    response = client.get(f"/assets/{name}")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
    assert response.json()["detail"] == detail


@pytest.mark.slow
def test_the_page_needs_no_token_and_what_it_shows_does(
    serve: Callable[..., AbstractContextManager[Server]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tokens = tmp_path_factory.mktemp("tokens") / "tokens.yaml"
    tokens.write_text("tokens: []\n")
    with serve("--tokens", str(tokens)) as server, server.client() as client:
        page = [client.get(path, headers={"accept": BROWSER}).status_code for path in VIEWS]
        files = [client.get(path).status_code for path in asset_paths(client)]
        others = [client.get("/").status_code, client.get("/", headers={"accept": "application/json"}).status_code]
        others += [
            client.get("/v1/rules").status_code,
            client.get("/v1/rules", headers={"accept": BROWSER}).status_code,
        ]
    assert (set(page), set(files), set(others)) == ({200}, {200}, {401})
