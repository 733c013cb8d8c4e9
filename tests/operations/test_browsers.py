"""Pages of other sites can send no request to a service without tokens.

Neither by its address, nor by another name, nor from another origin.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import QWEN
from .test_access import REVIEW
from .test_life import refused

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from shared_services import SharedServices

BODY = json.dumps(QWEN).encode()
TEXT = {"content-type": "text/plain"}
"""The headers that a page may send to another site without a preflight."""


def status(client: httpx.Client, method: str = "POST", path: str = "/v1/decisions", **headers: str) -> int:
    """The status of a request with these headers; `_` in a name means `-`."""
    body = BODY if method == "POST" else None
    sent = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in {**TEXT, **headers}.items()}
    request = client.build_request(method, path, content=body, headers=sent)
    response = client.send(request)
    assert not [name for name in response.headers if name.startswith("access-control")]
    return response.status_code


LOOPBACK_HOSTS = {
    "127.0.0.1": 200,
    "127.0.0.1:8080": 200,
    "127.8.9.1": 200,
    "[::1]": 200,
    "[::1]:8080": 200,
    "localhost": 200,
    "LocalHost.:8080": 200,
    "evil.example": 421,
    "evil.example:8080": 421,
    "localhost.evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "evil.example@localhost": 421,
    "0.0.0.0:8080": 421,
    "192.0.2.1": 421,
    "[2001:db8::1]": 421,
    "[::1].evil.example": 421,
    "[::1]evil": 421,
    "127.0.0.1:8080:80": 421,
    "localhost:99999": 421,
    "localhost:": 200,
    "[": 421,
    ":8080": 421,
    "\xff": 421,
    "x" * 5000: 421,
}


def test_a_service_on_loopback_answers_only_for_names_of_this_machine(shared: Callable[..., Any]) -> None:
    with shared("open") as service, service.client() as client:
        before = service.metrics()
        found = {host: status(client, host=host) for host in LOOPBACK_HOSTS}
        problem = client.get("/v1/policy", headers={"host": "evil.example"}).json()
        secret = client.get("/v1/policy", headers={"host": "token=abc123"}).text
        calls = {(method, path): status(client, method, path, host="evil.example") for method, path in (
            ("POST", "/v1/decisions/batch"), ("POST", "/v1/dry-run"), ("POST", "/v1/admission"), ("GET", "/metrics"),
            ("GET", "/docs"), ("GET", "/v1/log"), ("GET", "/unknown"), ("OPTIONS", "/v1/decisions"),
            ("GET", "/readyz?verbose"),
        )}  # fmt: skip
        probes = [status(client, "GET", path, host="10.1.2.3:8080") for path in ("/livez", "/readyz")]
        metrics = service.metrics_since(before)
    assert found == LOOPBACK_HOSTS
    assert "`token=…`" in secret
    assert (problem["type"], problem["status"], problem["detail"]) == (
        "urn:runner-policy:problem:unknown-host",
        421,
        (
            "the service does not answer for the host `evil.example`; list its name in RUNNER_POLICY_ALLOWED_HOSTS, or "
            "use tokens"
        ),
    )
    assert calls == dict.fromkeys(calls, 421)
    assert probes == [200, 200]
    refusals = sum(code == 421 for code in LOOPBACK_HOSTS.values())
    assert metrics['runner_policy_access_denied_total{reason="host"}'] == refusals + 2 + len(calls)
    assert metrics['runner_policy_requests_total{path="/v1/decisions",status="421"}'] == refusals + 1


def test_a_client_of_http_1_0_needs_no_host_header(shared: Callable[..., Any]) -> None:
    with shared("open") as service, socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(b"POST /v1/decisions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")


ALLOWED = {
    "runner-policy": 200,
    "Runner-Policy.:8080": 200,
    "a.example.org": 200,
    "a.b.example.org": 200,
    "example.org": 421,
    "evilexample.org": 421,
    "evil.example": 421,
    "localhost": 200,
}


def test_the_setting_allows_more_names(serve: Callable[..., Any]) -> None:
    with serve(ALLOWED_HOSTS=" runner-policy, *.Example.org ") as service, service.client() as client:
        assert {host: status(client, host=host) for host in ALLOWED} == ALLOWED


def test_a_service_on_other_addresses_answers_for_every_name_unless_some_are_listed(
    shared: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    with shared("everywhere") as service, service.client() as client:
        assert [
            status(client, host=host) for host in ("runner-policy.team.svc:8080", "10.1.2.3:8080", "evil.example")
        ] == [200, 200, 200]
    with (
        serve("--host", "0.0.0.0", "--allow-anonymous", ALLOWED_HOSTS="runner-policy") as service,
        service.client() as client,
    ):
        assert [
            status(client, host=host) for host in ("runner-policy:8080", "10.1.2.3:8080", "localhost", "evil.example")
        ] == [200, 200, 200, 421]


def test_every_name_is_allowed_with_tokens_or_by_the_setting(
    shared: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    with shared("tokens", "all") as service, service.client() as client:
        assert status(client, host="evil.example", origin="http://evil.example", sec_fetch_site="cross-site") == 200
    with serve(ALLOWED_HOSTS="*") as service, service.client() as client:
        assert status(client, host="evil.example") == 200


@pytest.mark.parametrize("entry", ["example.org:8080", "*example.org", "a.*.org", "http://example.org", "a b", "[::1]"])
def test_an_entry_that_is_not_a_name_is_refused(entry: str) -> None:
    message = (
        f"RUNNER_POLICY_ALLOWED_HOSTS: `{entry}`: expected a host name without a port, `*.example.org` or `*`, not "
        f"`localhost,{entry}`"
    )
    assert refused(ALLOWED_HOSTS=f"localhost,{entry}") == (2, [message])


HERE = "http://localhost:8080"
ORIGINS: dict[str, tuple[str, dict[str, str], int]] = {
    "a program": ("POST", {}, 200),
    "the service's own page": (
        "POST",
        {"origin": HERE, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
        200,
    ),
    "the service's own page in an older browser": ("POST", {"origin": HERE}, 200),
    "the service's own page behind a proxy that ends TLS": ("POST", {"origin": "https://localhost:8080"}, 200),
    "another site's page": (
        "POST",
        {"origin": "https://evil.example", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        403,
    ),
    "another site's page in an older browser": ("POST", {"origin": "https://evil.example"}, 403),
    "another port of this machine": ("POST", {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, 403),
    "another port in an older browser": ("POST", {"origin": "http://localhost:3000"}, 403),
    "a sandboxed page": ("POST", {"origin": "null", "sec-fetch-site": "cross-site"}, 403),
    "a sandboxed page in an older browser": ("POST", {"origin": "null"}, 403),
    "an extension": ("POST", {"origin": "chrome-extension://abcdefgh"}, 403),
    "an empty origin": ("POST", {"origin": ""}, 403),
    "a form": (
        "POST",
        {"origin": "https://evil.example", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        403,
    ),
    "an image": ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
    "a script that reads": (
        "GET",
        {"origin": "https://evil.example", "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        403,
    ),
    "an unknown site": ("GET", {"sec-fetch-site": "odd"}, 403),
    "a link": (
        "GET",
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        200,
    ),
    "a frame": (
        "GET",
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        403,
    ),
    "an object": (
        "GET",
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "object"},
        403,
    ),
    "a typed address": ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
    "a preflight": (
        "OPTIONS",
        {"origin": "https://evil.example", "access-control-request-method": "POST", "sec-fetch-site": "cross-site"},
        405,
    ),
    "a preflight of a private network": (
        "OPTIONS",
        {"origin": "https://evil.example", "access-control-request-private-network": "true"},
        405,
    ),
}


def test_pages_of_other_origins_are_refused_if_no_token_is_needed(shared: Callable[..., Any]) -> None:
    with shared("open") as service, service.client() as client:
        before = service.metrics()
        found = {
            name: status(
                client, method, "/v1/policy" if method == "GET" else "/v1/decisions", host="localhost:8080", **headers
            )
            for name, (method, headers, _) in ORIGINS.items()
        }
        paths = ("/v1/decisions/batch", "/v1/dry-run", "/v1/admission", "/v1/admission/mutate", "/unknown")
        others = {path: status(client, path=path, origin="https://evil.example") for path in paths}
        problem = client.post("/v1/decisions", content=BODY, headers={"origin": "https://evil.example"}).json()
        page = client.get("/docs", headers=ORIGINS["a link"][1])
        from_docs = client.post(
            "/v1/decisions",
            json=QWEN,
            headers={"origin": service.url, "referer": f"{service.url}/docs", "sec-fetch-site": "same-origin"},
        )
        denied = service.metrics_since(before)['runner_policy_access_denied_total{reason="origin"}']
    assert found == {name: expected for name, (_, _, expected) in ORIGINS.items()}
    assert others == dict.fromkeys(paths, 403)
    assert (problem["type"], problem["detail"]) == (
        "urn:runner-policy:problem:cross-origin",
        "a page of another origin sent this; without tokens only the service's own pages are answered",
    )
    assert (page.status_code, from_docs.status_code) == (200, 200)
    assert denied == sum(code == 403 for code in found.values()) + len(others) + 1


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_page_of_the_other_scheme_is_refused_if_the_scheme_is_known(shared: Callable[..., Any], host: str) -> None:
    with shared("open") as service, service.client() as client:
        own = f"{host}:{service.port}"
        assert [status(client, host=own, origin=f"{scheme}://{own}") for scheme in ("http", "https")] == [200, 403]
    with shared("tls-clients") as service, service.client() as client:
        own = f"{host}:{service.port}"
        assert [status(client, host=own, origin=f"{scheme}://{own}") for scheme in ("http", "https")] == [403, 200]


def test_pages_are_refused_if_only_reviews_need_no_token(
    shared: Callable[..., Any], shared_services: SharedServices
) -> None:
    with (
        shared("rate") as service,
        service.client() as client,
        service.client(shared_services.tokens.texts["pages"]) as known,
    ):
        paths = ("/v1/admission", "/v1/admission/mutate")
        reviews = [
            client.post(path, json=REVIEW, headers={"host": "runner-policy.team.svc"}).status_code for path in paths
        ]
        pages = [
            client.post(path, json=REVIEW, headers={"origin": "https://evil.example"}).status_code for path in paths
        ]
        assert (reviews, pages, status(known, origin="https://evil.example")) == ([200, 200], [403, 403], 200)


def test_pages_are_refused_if_the_browser_sends_a_client_certificate(shared: Callable[..., Any]) -> None:
    with shared("tls-clients") as service, service.client() as client:
        assert (status(client, host="any.example"), status(client, origin="https://evil.example")) == (200, 403)
