"""``GET /``: what the service is, as text and JSON, and the page for browsers."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from files import replace_file
from tables import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import httpx

    from policy.rules.catalogue import Catalogue

    from .conftest import Done, Server

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
ACCEPT = {
    None: TEXT,
    "": TEXT,
    "*/*": TEXT,
    "text/plain": TEXT,
    "text/*": TEXT,
    "image/png": TEXT,
    "text/html;q=0": TEXT,
    "text/plain, */*;q=0.5": TEXT,
    "text/html;q=0.1, text/plain": TEXT,
    "application/json": JSON,
    "APPLICATION/JSON;q=0.3": JSON,
    "application/json, text/plain, */*": JSON,
    "text/html;q=0.4, application/json;q=0.5": JSON,
    "text/html": HTML,
    BROWSER: HTML,
    "text/html;q=words, text/html;q=0.2": HTML,
    "text/html".ljust(1024, ","): HTML,
    "text/html".ljust(1025, ","): TEXT,
    "application/json".ljust(61_440, ","): TEXT,
}
LINKS = {"/docs", "/openapi.json", "/v1/policy", "/v1/rules", "/v1/releases", "/livez", "/readyz", "/metrics"}


def landing(client: httpx.Client, accept: str | None, method: str = "GET", **headers: str) -> httpx.Response:
    request = client.build_request(method, "/", headers=headers)
    del request.headers["accept"]
    if accept is not None:
        request.headers["accept"] = accept
    return client.send(request)


@table(("accept", "content_type"), ACCEPT.items(), ids=str)
@table("method", ["GET", "HEAD"])
def test_the_page_has_the_form_that_the_client_prefers_and_is_text_by_default(
    client: httpx.Client, method: str, accept: str | None, content_type: str
) -> None:
    response = landing(client, accept, method)
    assert (response.status_code, response.headers["content-type"]) == (200, content_type)
    assert response.headers["vary"].split(", ")[0] == "accept"
    assert (response.content == b"") is (method == "HEAD")


@pytest.mark.parametrize(
    "accept", [("text/html;q=0.4", "application/json;q=0.5"), ("application/json", "text/html;q=0")]
)
def test_several_accept_headers_are_one_list(client: httpx.Client, accept: tuple[str, str]) -> None:
    for values in (accept, accept[::-1]):
        response = client.get("/", headers=[("accept", value) for value in values])
        assert response.headers["content-type"] == JSON


@pytest.mark.parametrize("accept", ["text/html", "text/plain", "application/json"])
def test_a_head_request_has_the_headers_of_the_page(client: httpx.Client, accept: str) -> None:
    got, head = (landing(client, accept, method, **{"accept-encoding": "identity"}) for method in ("GET", "HEAD"))
    without_date = [{name: value for name, value in each.headers.items() if name != "date"} for each in (got, head)]
    assert without_date[0] == without_date[1]
    assert int(head.headers["content-length"]) == len(got.content)


def test_the_page_as_json_describes_the_loaded_rules(client: httpx.Client, catalogue: Catalogue) -> None:
    found = landing(client, "application/json").json()
    known = catalogue.releases.known
    example = found.pop("example")
    links = found.pop("links")
    version, description = found.pop("version"), found.pop("description")
    assert found == {
        "service": "Runner Policy",
        "revision": catalogue.revision,
        "rules": len(catalogue.rules),
        "releases": {"count": len(known), "first": known[0], "last": known[-1], "default": "0.23.0"},
    }
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert description.startswith("Decides which vLLM model runner, V1 or V2, a deployment gets")
    assert set(links.values()) == LINKS
    answer = client.post(example["path"], json=example["request"]).json()
    assert example["answer"] == {name: answer[name] for name in example["answer"]}
    assert {"runner", "summary"} <= example["answer"].keys()


def test_every_link_is_answered(client: httpx.Client) -> None:
    links = landing(client, "application/json").json()["links"].values()
    assert {link: client.get(link).status_code for link in links} == dict.fromkeys(links, 200)


def test_the_command_in_the_text_gives_the_answer_shown(
    client: httpx.Client, server: Server, run: Callable[..., Done], catalogue: Catalogue
) -> None:
    text = landing(client, "text/plain").text
    facts, _, example = text.partition("\n$ ")
    command = "\n".join(example.splitlines()[:3])
    answer = example.removeprefix(f"{command}\n")
    done = run("-c", command.replace("localhost:8080", f"127.0.0.1:{server.port}"), program="sh")
    assert (done.code, done.out) == (0, answer), done.err
    assert "V1  fallback  starts" in answer
    assert all(part in facts for part in (catalogue.revision, f"{len(catalogue.rules)} rules, sha256:", *LINKS))
    assert max(map(len, text.splitlines())) <= 120


def test_the_page_is_the_same_for_every_caller(client: httpx.Client, server: Server) -> None:
    sent: list[dict[str, str]] = [
        {},
        {"host": f"localhost:{server.port}", "user-agent": "geheim", "referer": "http://geheim/"},
        {"x-forwarded-host": "geheim", "x-forwarded-for": "192.0.2.77", "cookie": "a=geheim"},
    ]
    for accept in ("text/html", "text/plain", "application/json"):
        pages = {landing(client, accept, **headers).content for headers in sent}
        assert len(pages) == 1
        assert b"geheim" not in pages.pop()


@pytest.mark.slow
def test_the_page_names_a_revision_that_is_loaded_later(
    serve: Callable[..., AbstractContextManager[Server]], folder: Path
) -> None:
    with serve("--rules", str(folder), RUNNER_POLICY_RELOAD="true") as server, server.client() as client:
        before = landing(client, "application/json").json()
        file = folder / "house/kv-connector-fallback.yaml"
        replace_file(file, file.read_text() + "# changed\n")
        found: dict[str, Any] = before
        while found["revision"] == before["revision"]:
            found = landing(client, "application/json").json()
        assert found["revision"] == client.get("/v1/policy").json()["revision"]
        assert found["revision"] in landing(client, "text/plain").text
    assert str(folder) not in json.dumps(found)


def test_another_method_is_refused_with_those_that_are_legal(client: httpx.Client) -> None:
    response = client.post("/")
    assert (response.status_code, set(response.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
